//! `struct tcp_info` (include/uapi/linux/tcp.h), decoded by offset from however many bytes the kernel gave.

/// Bytes of the newest layout known here (Linux 6.18: 280, with AccECN's counters).
pub(crate) const TCP_INFO_BYTES: usize = 280;

/// What the kernel returned for TCP_INFO.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpInfo {
    bytes: [u8; TCP_INFO_BYTES],
    len: usize,
}

/// Declares a getter for each field, and the list of all: name, type, offset.
macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $offset:literal,)*) => {
        impl TcpInfo {
            $($(#[$doc])* pub fn $name(&self) -> Option<$type> {
                let field = self.bytes[..self.len].get($offset..$offset + size_of::<$type>())?;
                Some(<$type>::from_ne_bytes(field.try_into().ok()?))
            })*

            /// Every whole-byte field that the kernel returned, in its order, by the name of its getter.
            pub fn fields(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name().map(u64::from)),)*]
                    .into_iter()
                    .filter_map(|(name, value)| Some((name, value?)))
            }
        }
    };
}

fields! {
    /// TCP state (include/net/tcp_states.h).
    state: u8 = 0,
    /// Congestion state: 0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss.
    ca_state: u8 = 1,
    /// Timeouts in a row without an answer.
    retransmits: u8 = 2,
    /// Window or keep-alive probes in a row without an answer.
    probes: u8 = 3,
    /// Doublings of the retransmission timeout.
    backoff: u8 = 4,
    /// TCPI_OPT_*: 1 timestamps, 2 SACK, 4 window scale, 8 ECN, 16 ECN seen, 32 SYN data acknowledged.
    options: u8 = 5,
    /// Retransmission timeout, us.
    rto_us: u32 = 8,
    /// Delayed-ACK timeout, us.
    ato_us: u32 = 12,
    /// Sender's MSS, bytes.
    snd_mss: u32 = 16,
    /// Receiver's estimate of the peer's segment size, bytes.
    rcv_mss: u32 = 20,
    /// Segments outstanding.
    unacked: u32 = 24,
    /// Of these, SACKed.
    sacked: u32 = 28,
    /// Of these, marked lost.
    lost: u32 = 32,
    /// Of these, retransmitted.
    retrans: u32 = 36,
    /// Time since data was last sent, ms.
    last_data_sent_ms: u32 = 44,
    /// Time since data last arrived, ms.
    last_data_recv_ms: u32 = 52,
    /// Time since an ACK last arrived, ms.
    last_ack_recv_ms: u32 = 56,
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
    /// MSS that we advertised, bytes.
    advmss: u32 = 84,
    /// Segments that may come out of order before a loss is assumed.
    reordering: u32 = 88,
    /// Receiver's round-trip estimate, us.
    rcv_rtt_us: u32 = 92,
    /// Receiver's autotuning estimate, bytes.
    rcv_space: u32 = 96,
    /// Segments retransmitted since the start.
    total_retrans: u32 = 100,
    /// Pacing rate, bytes a second; all ones where unlimited.
    pacing_rate: u64 = 104,
    /// Largest pacing rate allowed, bytes a second; all ones where unlimited.
    max_pacing_rate: u64 = 112,
    /// Bytes acknowledged since the start.
    bytes_acked: u64 = 120,
    /// Bytes received in order since the start.
    bytes_received: u64 = 128,
    /// Segments sent.
    segs_out: u32 = 136,
    /// Segments received.
    segs_in: u32 = 140,
    /// Bytes in the send buffer never sent.
    notsent_bytes: u32 = 144,
    /// Smallest round-trip time, us; all ones before the first sample.
    min_rtt_us: u32 = 148,
    /// Segments with payload received.
    data_segs_in: u32 = 152,
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
    /// Of these, acknowledged with a mark of congestion.
    delivered_ce: u32 = 196,
    /// Bytes sent, retransmissions included.
    bytes_sent: u64 = 200,
    /// Bytes retransmitted.
    bytes_retrans: u64 = 208,
    /// Duplicates that the peer reported (RFC 2883).
    dsack_dups: u32 = 216,
    /// Reordering events seen.
    reord_seen: u32 = 220,
    /// Segments received out of order.
    rcv_ooopack: u32 = 224,
    /// The peer's window, bytes, scaled (Linux 5.4).
    snd_wnd: u32 = 228,
    /// The window we advertise, bytes (Linux 6.2).
    rcv_wnd: u32 = 232,
    /// Changes of the path's hash, to get off a bad path (Linux 6.2).
    rehash: u32 = 236,
    /// Retransmission timeouts since the start (Linux 6.7).
    total_rto: u16 = 240,
    /// Recoveries from timeouts since the start (Linux 6.7).
    total_rto_recoveries: u16 = 242,
    /// Time spent in these, ms (Linux 6.7).
    total_rto_time_ms: u32 = 244,
    /// Segments received with a mark of congestion (AccECN, Linux 6.18, as all that follow).
    received_ce: u32 = 248,
    /// Bytes delivered marked ECT(1).
    delivered_e1_bytes: u32 = 252,
    /// Bytes delivered marked ECT(0).
    delivered_e0_bytes: u32 = 256,
    /// Bytes delivered marked with congestion.
    delivered_ce_bytes: u32 = 260,
    /// Bytes received marked ECT(1).
    received_e1_bytes: u32 = 264,
    /// Bytes received marked ECT(0).
    received_e0_bytes: u32 = 268,
    /// Bytes received marked with congestion.
    received_ce_bytes: u32 = 272,
    /// How AccECN's negotiation failed.
    accecn_fail_mode: u16 = 276,
    /// Whether AccECN's option was seen.
    accecn_opt_seen: u16 = 278,
}

impl TcpInfo {
    /// Takes what the kernel returned; what is longer than the known layout is left out.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut info = TcpInfo { bytes: [0; TCP_INFO_BYTES], len: 0 };
        info.refill(bytes);
        info
    }

    /// Becomes what [`TcpInfo::from_bytes`] gives.
    pub(crate) fn refill(&mut self, bytes: &[u8]) {
        self.len = bytes.len().min(TCP_INFO_BYTES);
        let (told, rest) = self.bytes.split_at_mut(self.len);
        told.copy_from_slice(&bytes[..told.len()]);
        rest.fill(0);
    }

    /// Fills in the fields that grow with the clock alone, where the kernel returned them: how long ago data was sent, data was
    /// received and an ACK was received, ms; the times busy, limited by the peer's window and by the send buffer, us.
    pub(crate) fn set_times(&mut self, ago_ms: [u32; 3], spent_us: [u64; 3]) {
        for (at, value) in [44, 52, 56].into_iter().zip(ago_ms) {
            self.put(at, &value.to_ne_bytes());
        }
        for (at, value) in [168, 176, 184].into_iter().zip(spent_us) {
            self.put(at, &value.to_ne_bytes());
        }
    }

    fn put(&mut self, at: usize, value: &[u8]) {
        if let Some(field) = self.bytes[..self.len].get_mut(at..at + value.len()) {
            field.copy_from_slice(value);
        }
    }

    /// Window scales: ours for what the peer advertises, and the one we asked the peer to apply (the seventh byte's halves).
    pub fn wscales(&self) -> Option<(u8, u8)> {
        (self.len > 6).then(|| (self.bytes[6] & 0xf, self.bytes[6] >> 4))
    }

    /// Segments in the network by the sender's reckoning (tcp_packets_in_flight).
    pub fn in_flight(&self) -> Option<u32> {
        let gone = self.sacked()?.saturating_add(self.lost()?);
        Some(self.unacked()?.saturating_sub(gone).saturating_add(self.retrans()?))
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
    fn the_list_of_fields_ends_where_the_answer_does() {
        let bytes = [1u8; TCP_INFO_BYTES];
        let all = TcpInfo::from_bytes(&bytes);
        assert_eq!(all.fields().last(), Some(("accecn_opt_seen", 0x0101)));
        assert_eq!(all.wscales(), Some((1, 0)));
        let old = TcpInfo::from_bytes(&bytes[..104]);
        assert_eq!(old.fields().last(), Some(("total_retrans", 0x0101_0101)));
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
