//! The samples that are passed to a congestion control with each ACK: exact mirrors of structs in
//! `crates/cc/shim/vmlinux.h`, as in `sock.rs`.

/// `struct rate_sample`: a measurement over the round trip that ends with an ACK.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct RateSample {
    /// Start of the sample, us.
    pub prior_mstamp: u64,
    /// `delivered` at that time.
    pub prior_delivered: u32,
    /// `delivered_ce` at that time.
    pub prior_delivered_ce: u32,
    /// Packets delivered since; -1: no sample.
    pub delivered: i32,
    /// Packets delivered since with a CE mark.
    pub delivered_ce: i32,
    /// Duration, us; -1: no sample.
    pub interval_us: i64,
    /// Duration of their transmission, us.
    pub snd_interval_us: u32,
    /// Duration of their acknowledgement, us.
    pub rcv_interval_us: u32,
    /// Round-trip time of the last packet, us; -1: unknown.
    pub rtt_us: i64,
    /// Packets marked lost by this ACK.
    pub losses: i32,
    /// Packets newly acknowledged, selectively or not.
    pub acked_sacked: u32,
    /// Packets in flight before this ACK.
    pub prior_in_flight: u32,
    /// End of the last packet acknowledged.
    pub last_end_seq: u32,
    /// The application had too little data to send.
    pub is_app_limited: bool,
    /// The packet was retransmitted.
    pub is_retrans: bool,
    /// The ACK was probably delayed.
    pub is_ack_delayed: bool,
}

/// `struct ack_sample`: one ACK.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct AckSample {
    /// Packets acknowledged, selectively or not.
    pub pkts_acked: u32,
    /// Round-trip time of the last packet, us; -1: no sample.
    pub rtt_us: i32,
    /// Packets in flight when the last packet was sent.
    pub in_flight: u32,
}
