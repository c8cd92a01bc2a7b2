//! Flags of the processing of an ACK, shared by the sender and the test kit.

/// A set of flags of the ACK that is processed (`FLAG_*` of net/ipv4/tcp_input.c).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct AckFlags(i32);

#[allow(dead_code, reason = "the kernel's complete list")]
impl AckFlags {
    /// The ACK's segment carries data.
    pub(crate) const DATA: AckFlags = AckFlags(0x01);
    pub(crate) const WIN_UPDATE: AckFlags = AckFlags(0x02);
    pub(crate) const DATA_ACKED: AckFlags = AckFlags(0x04);
    pub(crate) const RETRANS_DATA_ACKED: AckFlags = AckFlags(0x08);
    pub(crate) const SYN_ACKED: AckFlags = AckFlags(0x10);
    pub(crate) const DATA_SACKED: AckFlags = AckFlags(0x20);
    pub(crate) const ECE: AckFlags = AckFlags(0x40);
    pub(crate) const LOST_RETRANS: AckFlags = AckFlags(0x80);
    pub(crate) const SLOWPATH: AckFlags = AckFlags(0x100);
    pub(crate) const ORIG_SACK_ACKED: AckFlags = AckFlags(0x200);
    pub(crate) const SND_UNA_ADVANCED: AckFlags = AckFlags(0x400);
    pub(crate) const DSACKING_ACK: AckFlags = AckFlags(0x800);
    pub(crate) const SET_XMIT_TIMER: AckFlags = AckFlags(0x1000);
    pub(crate) const SACK_RENEGING: AckFlags = AckFlags(0x2000);
    pub(crate) const ACK_MAYBE_DELAYED: AckFlags = AckFlags(0x10000);
    pub(crate) const DSACK_TLP: AckFlags = AckFlags(0x20000);
    pub(crate) const ACKED: AckFlags = AckFlags::DATA_ACKED.with(AckFlags::SYN_ACKED);
    pub(crate) const NOT_DUP: AckFlags = AckFlags::DATA.with(AckFlags::WIN_UPDATE).with(AckFlags::ACKED);
    pub(crate) const CA_ALERT: AckFlags =
        AckFlags::DATA_SACKED.with(AckFlags::ECE).with(AckFlags::DSACKING_ACK);
    pub(crate) const FORWARD_PROGRESS: AckFlags = AckFlags::ACKED.with(AckFlags::DATA_SACKED);

    /// Whether one of `other`'s flags is set.
    #[inline]
    pub(crate) const fn any(self, other: AckFlags) -> bool {
        self.0 & other.0 != 0
    }

    /// Union of both sets.
    #[inline]
    #[must_use]
    pub(crate) const fn with(self, other: AckFlags) -> AckFlags {
        AckFlags(self.0 | other.0)
    }

    /// Sets the flags of `other`.
    #[inline]
    pub(crate) const fn insert(&mut self, other: AckFlags) {
        self.0 |= other.0;
    }

    /// Clears the flags of `other`.
    #[inline]
    pub(crate) const fn remove(&mut self, other: AckFlags) {
        self.0 &= !other.0;
    }

    /// The kernel's bits, for congestion controls.
    #[inline]
    pub(crate) const fn bits(self) -> i32 {
        self.0
    }
}

/// The ACK took the slow path (flags of `in_ack_event`: `enum tcp_ca_ack_event_flags`, include/net/tcp.h).
pub(crate) const CA_ACK_SLOWPATH: u32 = 1;
/// The ACK updated the window.
pub(crate) const CA_ACK_WIN_UPDATE: u32 = 2;
/// The ACK carries ECE.
pub(crate) const CA_ACK_ECE: u32 = 4;
