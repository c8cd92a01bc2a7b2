//! A TCP segment, or a super-packet of several segments (GSO).
//!
//! Sequence numbers are 32 bits and wrap (RFC 9293 section 3.4); compare them with [`before`] and [`after`].

/// Whether `a` comes before `b` in sequence space.
#[inline]
pub fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// Whether `a` comes after `b` in sequence space.
#[inline]
pub fn after(a: u32, b: u32) -> bool {
    before(b, a)
}

/// The flags of a TCP header (RFC 9293 section 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// The sender has no more data.
    pub const FIN: Flags = Flags(0x01);
    /// Synchronizes sequence numbers.
    pub const SYN: Flags = Flags(0x02);
    /// The connection is reset.
    pub const RST: Flags = Flags(0x04);
    /// Push: deliver the data to the application at once.
    pub const PSH: Flags = Flags(0x08);
    /// The acknowledgement number is valid.
    pub const ACK: Flags = Flags(0x10);
    /// ECN echo: a CE mark was received (RFC 3168).
    pub const ECE: Flags = Flags(0x40);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Flags = Flags(0x80);

    /// Whether all of `other`'s flags are set.
    #[inline]
    pub fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether one of `other`'s flags is set.
    #[inline]
    pub fn any(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// Union of both sets.
    #[inline]
    #[must_use]
    pub fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// This set without the flags of `other`.
    #[inline]
    #[must_use]
    pub fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }
}

/// The ECN field of the IP header, as its two bits (RFC 3168 section 5).
pub mod ecn {
    /// Not-ECT.
    pub const NOT_CAPABLE: u8 = 0;
    /// ECT(1).
    pub const ECT1: u8 = 1;
    /// ECT(0).
    pub const ECT0: u8 = 2;
    /// Congestion experienced.
    pub const CE: u8 = 3;
}

/// SACK blocks (RFC 2018), a duplicate's first (RFC 2883): at most 4, or 3 with timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SackBlocks {
    count: u8,
    blocks: [(u32, u32); 4],
}

impl SackBlocks {
    /// Adds the block from `start` to `end` (exclusive). A fifth block is ignored.
    pub fn push(&mut self, start: u32, end: u32) {
        if let Some(block) = self.blocks.get_mut(usize::from(self.count)) {
            *block = (start, end);
            self.count += 1;
        }
    }

    /// The blocks as (start, end); the end is exclusive.
    pub fn as_slice(&self) -> &[(u32, u32)] {
        &self.blocks[..usize::from(self.count)]
    }

    /// Number of blocks.
    pub fn count(&self) -> usize {
        usize::from(self.count)
    }
}

/// The options of a SYN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SynOptions {
    /// Maximum segment size, bytes.
    pub mss: u16,
    /// Shift of the windows that the sender of the SYN announces later (RFC 7323); none: no scaling.
    pub window_scale: Option<u8>,
    /// The sender of the SYN accepts selective acknowledgements.
    pub sack_ok: bool,
    /// Timestamps (RFC 7323).
    pub timestamps: bool,
}

/// Number of segments of at most `mss` bytes that carry `len` bytes, at least 1.
#[inline]
pub fn segments(len: u32, mss: u16) -> u32 {
    let mss = u32::from(mss);
    if len <= mss || mss == 0 { 1 } else { len.div_ceil(mss) }
}

/// One packet, or a super-packet of several segments.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Segment {
    /// Sequence number of the first byte (or of SYN or FIN).
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Total bytes of payload.
    pub len: u32,
    /// Timestamp: the sender's clock, ms.
    pub tsval: u32,
    /// The echoed timestamp, ms.
    pub tsecr: u32,
    /// Bytes of payload in each segment except the last; 0 without payload.
    pub mss: u16,
    /// The window as in the header, not scaled.
    pub window: u16,
    /// The header's flags.
    pub flags: Flags,
    /// The ECN field of the IP header, see [`ecn`].
    pub ecn: u8,
    /// Selective acknowledgements.
    pub sack: Option<Box<SackBlocks>>,
    /// Options of a SYN.
    pub syn: Option<Box<SynOptions>>,
}

impl Segment {
    /// Number of segments, at least 1.
    #[inline]
    pub fn segs(&self) -> u32 {
        segments(self.len, self.mss)
    }

    /// Bytes of payload in segment `index`.
    #[inline]
    pub fn segment_len(&self, index: u32) -> u32 {
        if self.segs() == 1 {
            return if index == 0 { self.len } else { 0 };
        }
        self.len.saturating_sub(index * u32::from(self.mss)).min(u32::from(self.mss))
    }

    /// The sequence number after the last byte; SYN and FIN count as one each.
    #[inline]
    pub fn end_seq(&self) -> u32 {
        let extra = u32::from(self.flags.0 & Flags::SYN.0 != 0) + u32::from(self.flags.0 & Flags::FIN.0 != 0);
        self.seq.wrapping_add(self.len).wrapping_add(extra)
    }

    /// Whether it occupies sequence numbers.
    #[inline]
    pub fn is_data(&self) -> bool {
        self.len > 0 || self.flags.0 & (Flags::SYN.0 | Flags::FIN.0) != 0
    }

    /// Keeps the segments before `at` and returns the others, for `0 < at < segs()`. FIN and PSH move to the
    /// last part, CWR stays in the first; both parts have all other fields.
    pub fn split_off(&mut self, at: u32) -> Segment {
        let kept = at * u32::from(self.mss);
        let mut rest = self.clone();
        rest.seq = self.seq.wrapping_add(kept);
        rest.len = self.len.saturating_sub(kept);
        rest.flags = self.flags.without(Flags::CWR);
        self.len = kept.min(self.len);
        self.flags = self.flags.without(Flags::FIN).without(Flags::PSH);
        rest
    }

    /// Bytes of TCP options, padding included: timestamps 12 (if `timestamps`), SACK blocks, and options of a
    /// SYN.
    pub fn option_bytes(&self, timestamps: bool) -> u32 {
        if let Some(syn) = &self.syn {
            let ts_and_sack = if syn.timestamps { 12 } else { 4 * u32::from(syn.sack_ok) };
            return 4 + ts_and_sack + 4 * u32::from(syn.window_scale.is_some());
        }
        let sack = self.sack.as_ref().map_or(0, |sack| 4 + 8 * sack.count() as u32);
        12 * u32::from(timestamps) + sack
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn train() -> Segment {
        let flags = Flags::ACK.with(Flags::FIN).with(Flags::CWR);
        Segment { seq: u32::MAX - 999, len: 4500, mss: 1000, flags, ..Segment::default() }
    }

    #[test]
    fn a_super_packet_counts_its_segments() {
        let train = train();
        assert_eq!(train.segs(), 5);
        assert_eq!((train.segment_len(0), train.segment_len(4), train.segment_len(5)), (1000, 500, 0));
        assert_eq!(train.end_seq(), 3501);
        assert!(before(train.seq, train.end_seq()) && after(train.end_seq(), train.seq));
        assert_eq!(Segment { len: 700, mss: 1000, ..Segment::default() }.segs(), 1);
        assert_eq!(Segment::default().segs(), 1);
    }

    #[test]
    fn split_parts_join_again() {
        let mut first = train();
        let rest = first.split_off(2);
        assert_eq!((first.segs(), rest.segs()), (2, 3));
        assert_eq!(first.end_seq(), rest.seq);
        assert_eq!(rest.end_seq(), train().end_seq());
        assert!(first.flags.has(Flags::CWR) && !first.flags.has(Flags::FIN));
        assert!(rest.flags.has(Flags::FIN) && !rest.flags.has(Flags::CWR));
    }

    #[test]
    fn a_segment_takes_at_most_48_bytes() {
        assert!(size_of::<Segment>() <= 48);
    }
}
