//! `struct tcp_info` (include/uapi/linux/tcp.h), decoded by offset from however many bytes the kernel gave.

/// Bytes of the newest layout known here (Linux 6.18: 280 with AccECN's counters, which are not decoded).
pub(crate) const TCP_INFO_BYTES: usize = 280;

/// What the kernel returned for TCP_INFO.
#[derive(Debug, Clone)]
pub struct TcpInfo {
    bytes: [u8; TCP_INFO_BYTES],
    len: usize,
}

/// Declares a getter for each field: name, type, offset.
macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $offset:literal,)*) => {
        impl TcpInfo {
            $($(#[$doc])* pub fn $name(&self) -> Option<$type> {
                let field = self.bytes[..self.len].get($offset..$offset + size_of::<$type>())?;
                Some(<$type>::from_ne_bytes(field.try_into().ok()?))
            })*
        }
    };
}

fields! {
    /// TCP state (include/net/tcp_states.h).
    state: u8 = 0,
    /// Congestion state: 0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss.
    ca_state: u8 = 1,
    /// Retransmission timeout, us.
    rto_us: u32 = 8,
    /// Sender's MSS, bytes.
    snd_mss: u32 = 16,
    /// Segments outstanding.
    unacked: u32 = 24,
    /// Of these, SACKed.
    sacked: u32 = 28,
    /// Of these, marked lost.
    lost: u32 = 32,
    /// Of these, retransmitted.
    retrans: u32 = 36,
    /// Path MTU, bytes.
    pmtu: u32 = 60,
    /// Receiver's current window clamp, bytes.
    rcv_ssthresh: u32 = 64,
    /// Smoothed round-trip time, us.
    rtt_us: u32 = 68,
    /// Its mean deviation, us.
    rttvar_us: u32 = 72,
    /// Slow-start threshold, segments; 0x7fffffff while infinite.
    snd_ssthresh: u32 = 76,
    /// Congestion window, segments.
    snd_cwnd: u32 = 80,
    /// Receiver's round-trip estimate, us.
    rcv_rtt_us: u32 = 92,
    /// Receiver's autotuning estimate, bytes.
    rcv_space: u32 = 96,
    /// Segments retransmitted since the start.
    total_retrans: u32 = 100,
    /// Pacing rate, bytes a second; all ones where unlimited.
    pacing_rate: u64 = 104,
    /// Bytes acknowledged since the start.
    bytes_acked: u64 = 120,
    /// Bytes received in order since the start.
    bytes_received: u64 = 128,
    /// Segments sent.
    segs_out: u32 = 136,
    /// Bytes in the send buffer never sent.
    notsent_bytes: u32 = 144,
    /// Smallest round-trip time, us; all ones before the first sample.
    min_rtt_us: u32 = 148,
    /// Segments with payload sent.
    data_segs_out: u32 = 156,
    /// Latest delivery rate sample, bytes a second.
    delivery_rate: u64 = 160,
    /// Time with data outstanding or waiting, us.
    busy_time_us: u64 = 168,
    /// Time limited by the peer's window, us.
    rwnd_limited_us: u64 = 176,
    /// Time limited by the send buffer, us.
    sndbuf_limited_us: u64 = 184,
    /// Segments delivered, SACKed ones included.
    delivered: u32 = 192,
    /// Bytes sent, retransmissions included.
    bytes_sent: u64 = 200,
    /// Bytes retransmitted.
    bytes_retrans: u64 = 208,
    /// Reordering events seen.
    reord_seen: u32 = 220,
    /// The peer's window, bytes, scaled (Linux 5.4).
    snd_wnd: u32 = 228,
    /// The window we advertise, bytes (Linux 6.2).
    rcv_wnd: u32 = 232,
    /// Retransmission timeouts since the start (Linux 6.7).
    total_rto: u16 = 240,
}

impl TcpInfo {
    /// Takes what the kernel returned; what is longer than the known layout is left out.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let len = bytes.len().min(TCP_INFO_BYTES);
        let mut copy = [0; TCP_INFO_BYTES];
        copy[..len].copy_from_slice(&bytes[..len]);
        TcpInfo { bytes: copy, len }
    }

    /// Whether the latest delivery rate sample was limited by the application (bit 0 of the eighth byte).
    pub fn delivery_rate_app_limited(&self) -> Option<bool> {
        (self.len > 7).then(|| self.bytes[7] & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_answer_leaves_the_tail_unknown() {
        let bytes: Vec<u8> = (0..=255).cycle().take(104).collect();
        let info = TcpInfo::from_bytes(&bytes);
        assert_eq!(info.snd_cwnd(), Some(u32::from_ne_bytes([80, 81, 82, 83])));
        assert_eq!(info.total_retrans(), Some(u32::from_ne_bytes([100, 101, 102, 103])));
        assert_eq!(info.pacing_rate(), None);
        assert_eq!(info.snd_wnd(), None);
    }

    #[test]
    fn no_length_panics() {
        for len in 0..400 {
            let info = TcpInfo::from_bytes(&vec![0xff; len]);
            assert_eq!(info.rcv_wnd().is_some(), len >= 236);
            assert_eq!(info.delivery_rate_app_limited().is_some(), len > 7);
        }
    }
}
