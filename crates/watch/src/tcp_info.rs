//! `struct tcp_info` (include/uapi/linux/tcp.h), decoded by offset. Older kernels return fewer bytes.

/// Size of the newest layout decoded here, bytes (Linux 6.18, with AccECN's counters).
pub(crate) const TCP_INFO_BYTES: usize = 280;

/// The kernel's reply to TCP_INFO.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpInfo {
    bytes: [u8; TCP_INFO_BYTES],
    len: usize,
}

/// Declares a getter for each field (name, type, offset), and the list of all fields.
macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $offset:literal,)*) => {
        impl TcpInfo {
            $($(#[$doc])* pub fn $name(&self) -> Option<$type> {
                let field = self.bytes[..self.len].get($offset..$offset + size_of::<$type>())?;
                Some(<$type>::from_ne_bytes(field.try_into().ok()?))
            })*

            /// Every field of whole bytes that the kernel returned, in the kernel's order, with the name of
            /// its getter.
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
    /// Consecutive retransmission timeouts without an ACK.
    retransmits: u8 = 2,
    /// Consecutive window or keep-alive probes without an ACK.
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
    /// Outstanding segments that are SACKed.
    sacked: u32 = 28,
    /// Outstanding segments that are marked lost.
    lost: u32 = 32,
    /// Outstanding segments that were retransmitted.
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
    /// Mean deviation of the round-trip time, us.
    rttvar_us: u32 = 72,
    /// Slow-start threshold, segments; 0x7fffffff while infinite.
    snd_ssthresh: u32 = 76,
    /// Congestion window, segments.
    snd_cwnd: u32 = 80,
    /// MSS that we advertised, bytes.
    advmss: u32 = 84,
    /// Reordering tolerated before a loss is assumed, segments.
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
    /// Bytes in the send buffer that were never sent.
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
    /// Delivered segments that were acknowledged as CE-marked.
    delivered_ce: u32 = 196,
    /// Bytes sent, retransmissions included.
    bytes_sent: u64 = 200,
    /// Bytes retransmitted.
    bytes_retrans: u64 = 208,
    /// Duplicates that the peer reported by D-SACK (RFC 2883).
    dsack_dups: u32 = 216,
    /// Reordering events seen.
    reord_seen: u32 = 220,
    /// Segments received out of order.
    rcv_ooopack: u32 = 224,
    /// The peer's receive window, bytes, after scaling (Linux 5.4).
    snd_wnd: u32 = 228,
    /// Our advertised receive window, bytes (Linux 6.2).
    rcv_wnd: u32 = 232,
    /// Changes of the flow's hash, to leave a bad path (PLB and timeouts, Linux 6.2).
    rehash: u32 = 236,
    /// Retransmission timeouts since the start (Linux 6.7).
    total_rto: u16 = 240,
    /// Completed recoveries from retransmission timeouts since the start (Linux 6.7).
    total_rto_recoveries: u16 = 242,
    /// Time spent in recoveries from retransmission timeouts, ms (Linux 6.7).
    total_rto_time_ms: u32 = 244,
    /// CE-marked segments received (AccECN, Linux 6.18, as all following fields).
    received_ce: u32 = 248,
    /// Bytes delivered marked ECT(1).
    delivered_e1_bytes: u32 = 252,
    /// Bytes delivered marked ECT(0).
    delivered_e0_bytes: u32 = 256,
    /// Bytes delivered marked CE.
    delivered_ce_bytes: u32 = 260,
    /// Bytes received marked ECT(1).
    received_e1_bytes: u32 = 264,
    /// Bytes received marked ECT(0).
    received_e0_bytes: u32 = 268,
    /// Bytes received marked CE.
    received_ce_bytes: u32 = 272,
    /// How AccECN's negotiation failed.
    accecn_fail_mode: u16 = 276,
    /// Whether AccECN's option was seen.
    accecn_opt_seen: u16 = 278,
}

impl TcpInfo {
    /// Decodes what the kernel returned. Bytes beyond the known layout are ignored.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut info = TcpInfo { bytes: [0; TCP_INFO_BYTES], len: 0 };
        info.refill(bytes);
        info
    }

    /// Replaces the contents, as [`TcpInfo::from_bytes`] without a new value.
    pub(crate) fn refill(&mut self, bytes: &[u8]) {
        self.len = bytes.len().min(TCP_INFO_BYTES);
        let (returned, missing) = self.bytes.split_at_mut(self.len);
        returned.copy_from_slice(&bytes[..returned.len()]);
        missing.fill(0);
    }

    /// Sets the fields that advance with the clock alone, if the kernel returned them: the ages of the
    /// last data sent, data received and ACK received, ms; the times busy, limited by the peer's receive
    /// window and by the send buffer, us.
    pub(crate) fn set_times(&mut self, ages_ms: [u32; 3], durations_us: [u64; 3]) {
        for (offset, value) in [44, 52, 56].into_iter().zip(ages_ms) {
            self.put(offset, &value.to_ne_bytes());
        }
        for (offset, value) in [168, 176, 184].into_iter().zip(durations_us) {
            self.put(offset, &value.to_ne_bytes());
        }
    }

    fn put(&mut self, offset: usize, value: &[u8]) {
        if let Some(field) = self.bytes[..self.len].get_mut(offset..offset + value.len()) {
            field.copy_from_slice(value);
        }
    }

    /// Window scales, snd_wscale and rcv_wscale: of windows that the peer advertises, and of those that we
    /// advertise (the two halves of the seventh byte).
    pub fn wscales(&self) -> Option<(u8, u8)> {
        (self.len > 6).then(|| (self.bytes[6] & 0xf, self.bytes[6] >> 4))
    }

    /// Segments in flight by the sender's estimate (tcp_packets_in_flight()).
    pub fn in_flight(&self) -> Option<u32> {
        let left_network = self.sacked()?.saturating_add(self.lost()?);
        Some(self.unacked()?.saturating_sub(left_network).saturating_add(self.retrans()?))
    }

    /// Delivery rate over pacing rate; `None` if either is unknown, or nothing is paced.
    pub fn delivery_to_pacing_rate(&self) -> Option<f64> {
        let pacing = self.pacing_rate().filter(|rate| *rate > 0 && *rate < u64::MAX)?;
        Some(self.delivery_rate()? as f64 / pacing as f64)
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
    fn fields_beyond_a_short_reply_are_none() {
        let bytes: Vec<u8> = (0..=255).cycle().take(104).collect();
        let info = TcpInfo::from_bytes(&bytes);
        assert_eq!(info.snd_cwnd(), Some(u32::from_ne_bytes([80, 81, 82, 83])));
        assert_eq!(info.total_retrans(), Some(u32::from_ne_bytes([100, 101, 102, 103])));
        assert_eq!(info.pacing_rate(), None);
        assert_eq!(info.snd_wnd(), None);
    }

    #[test]
    fn the_list_of_fields_ends_with_the_reply() {
        let bytes = [1u8; TCP_INFO_BYTES];
        let all = TcpInfo::from_bytes(&bytes);
        assert_eq!(all.fields().last(), Some(("accecn_opt_seen", 0x0101)));
        assert_eq!(all.wscales(), Some((1, 0)));
        let old = TcpInfo::from_bytes(&bytes[..104]);
        assert_eq!(old.fields().last(), Some(("total_retrans", 0x0101_0101)));
    }

    #[test]
    fn no_reply_length_panics() {
        for len in 0..400 {
            let info = TcpInfo::from_bytes(&vec![0xff; len]);
            assert_eq!(info.rcv_wnd().is_some(), len >= 236);
            assert_eq!(info.delivery_rate_app_limited().is_some(), len > 7);
        }
    }
}
