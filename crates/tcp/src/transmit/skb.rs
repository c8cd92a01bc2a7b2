//! A packet or super-packet that is sent and not acknowledged (`struct sk_buff` and `tcp_skb_cb`).
//!
//! Difference from the kernel: times are 32 bits of microseconds, which is unambiguous for packets younger
//! than half an hour.

/// Flags of a packet: the kernel's `TCPCB_*` and others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Marks(u16);

impl Marks {
    pub(super) const SACKED: Marks = Marks(0x001);
    /// Retransmitted, and the retransmission is neither acknowledged nor lost.
    pub(super) const RETRANS: Marks = Marks(0x002);
    pub(super) const LOST: Marks = Marks(0x004);
    /// The record of its transmission is valid for a rate sample.
    pub(super) const TX_KNOWN: Marks = Marks(0x008);
    pub(super) const FIN: Marks = Marks(0x010);
    pub(super) const SYN: Marks = Marks(0x020);
    pub(super) const APP_LIMITED: Marks = Marks(0x040);
    pub(super) const EVER_RETRANS: Marks = Marks(0x080);
    /// `TCPHDR_PSH`: its last segment has PSH.
    pub(super) const PSH: Marks = Marks(0x100);
    /// It is in the list by time.
    pub(super) const LISTED: Marks = Marks(0x200);
    /// `TCPCB_TAGBITS`: selectively acknowledged, retransmitted or lost.
    pub(super) const JUDGED: Marks = Marks(0x007);
    /// `TCPCB_RETRANS`.
    pub(super) const ANY_RETRANS: Marks = Marks(0x082);

    /// Whether any of `other` is set.
    #[inline]
    pub(super) fn any(self, other: Marks) -> bool {
        self.0 & other.0 != 0
    }

    #[inline]
    pub(super) fn set(&mut self, other: Marks) {
        self.0 |= other.0;
    }

    #[inline]
    pub(super) fn clear(&mut self, other: Marks) {
        self.0 &= !other.0;
    }

    #[inline]
    pub(super) fn put(&mut self, other: Marks, on: bool) {
        if on { self.set(other) } else { self.clear(other) }
    }
}

/// Null link of the list by time.
pub(super) const NONE: u32 = u32::MAX;

/// A sent packet.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Skb {
    pub(super) seq: u32,
    /// After its last byte, SYN and FIN counted.
    pub(super) end_seq: u32,
    /// When it was last sent.
    pub(super) sent_us: u32,
    /// `tx.first_tx_mstamp`, `tx.delivered_mstamp`, `tx.delivered`, `tx.delivered_ce`.
    pub(super) first_tx_us: u32,
    pub(super) delivered_us: u32,
    pub(super) delivered: u32,
    pub(super) delivered_ce: u32,
    /// Neighbours in the list by time.
    pub(super) earlier: u32,
    pub(super) later: u32,
    /// Number of segments.
    pub(super) segs: u16,
    pub(super) marks: Marks,
}

impl Skb {
    /// Bytes of payload.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        let flags = u32::from(self.marks.any(Marks::SYN)) + u32::from(self.marks.any(Marks::FIN));
        self.end_seq.wrapping_sub(self.seq).wrapping_sub(flags)
    }

    #[inline]
    pub(super) fn segs(&self) -> u32 {
        u32::from(self.segs)
    }
}

/// Number of segments of at most `mss` bytes that carry `len` bytes, at least 1.
#[inline]
pub(super) fn segments(len: u32, mss: u32) -> u16 {
    if len <= mss { 1 } else { len.div_ceil(mss.max(1)).min(u32::from(u16::MAX)) as u16 }
}
