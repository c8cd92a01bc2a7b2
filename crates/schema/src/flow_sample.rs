//! One row of `flows.parquet`: a sample of a flow, of both ends where both can be read.

use crate::{Cause, table::table};

table! {
    /// A flow at one instant. Sender-side metrics come from the sender's socket, `rcv_*` metrics from the
    /// receiver's.
    pub struct FlowSample {
        keys {
            /// Time since the run's start, in microseconds.
            time_us: i64,
            /// The flow's name in the scenario.
            flow: String,
            /// The cause that limited the flow in the interval that ends with this sample; set by `verdict`.
            limited_by: Option<Cause>,
        }
        metrics {
            goodput_bps = "application bytes received since the last sample, as a rate",
            state = "TCP state of the sender (include/net/tcp_states.h: 1 is ESTABLISHED)",
            ca_state = "congestion state: 0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss",
            snd_cwnd_segs = "congestion window",
            snd_ssthresh_segs = "slow-start threshold; absent while infinite",
            snd_mss_bytes = "sender's maximum segment size (payload)",
            snd_wnd_bytes = "window that the peer advertises, scaled",
            unacked_segs = "segments sent and not yet acknowledged cumulatively",
            sacked_segs = "of these, selectively acknowledged",
            lost_segs = "of these, marked lost",
            retrans_segs = "of these, retransmitted and outstanding",
            total_retrans_segs = "segments retransmitted since the start",
            bytes_acked = "payload bytes acknowledged since the start",
            bytes_sent = "payload bytes sent since the start, retransmissions included",
            bytes_retrans = "payload bytes retransmitted since the start",
            segs_out = "segments sent since the start, pure ACKs included",
            data_segs_out_segs = "segments with payload sent since the start",
            delivered_segs = "segments delivered since the start, SACKed ones included",
            delivered_ce_segs = "of these, delivered with a congestion mark (ECN)",
            notsent_bytes = "bytes in the send buffer that have not been sent",
            srtt_us = "smoothed round-trip time (of a ping flow: this echo's round trip)",
            rttvar_us = "smoothed mean deviation of the round-trip time",
            min_rtt_us = "smallest round-trip time of the last minutes",
            rto_us = "retransmission timeout",
            pacing_rate_bps = "rate at which the sender paces",
            delivery_rate_bps = "the kernel's latest delivery rate sample (payload)",
            delivery_rate_app_limited = "1 where that sample was limited by the application",
            total_rto = "retransmission timeouts since the start",
            busy_time_us = "time with data outstanding or waiting",
            rwnd_limited_us = "part of `busy_time_us` that was limited by the peer's window",
            sndbuf_limited_us = "part of `busy_time_us` that was limited by the send buffer",
            sndbuf_bytes = "sender's SO_SNDBUF (what the kernel charges against, not payload)",
            wmem_queued_bytes = "memory charged to the send buffer",
            rcvbuf_bytes = "receiver's SO_RCVBUF (what the kernel charges against, not payload)",
            rcv_wnd_bytes = "window that the receiver advertises",
            rcv_space_bytes = "receiver's autotuning estimate of bytes read per round trip",
            rcv_ssthresh_bytes = "receiver's current window clamp",
            rcv_queue_bytes = "bytes received in order and not yet read by the application",
            rcv_rtt_us = "receiver's own round-trip estimate",
            rmem_alloc_bytes = "memory charged to the receive buffer",
            bytes_received = "payload bytes received in order since the start (of a udp flow: in any order, once each)",
            datagrams_sent = "of a udp flow: datagrams sent since the start",
            datagrams_received = "of a udp flow: datagrams received since the start, without duplicates",
            datagrams_lost = "of a udp flow: datagrams missing before the newest received",
            datagrams_reordered = "of a udp flow: datagrams that arrived after a later one",
            datagrams_duplicated = "of a udp flow: datagrams received again (duplicates)",
            owd_us = "of a udp flow: mean one-way delay of the datagrams since the last sample",
            min_owd_us = "of a udp flow: smallest one-way delay since the start",
            max_owd_us = "of a udp flow: largest one-way delay since the start",
            jitter_us = "of a udp flow: interarrival jitter (RFC 3550 section 6.4.1)",
            rcv_ooopack_segs = "segments that arrived out of order since the start, at the receiver",
            rcv_ce_segs = "segments that arrived with a congestion mark (ECN) since the start, at the receiver",
            reord_seen = "reordering events that the sender has detected since the start",
        }
    }
}

impl FlowSample {
    /// The congestion window, bytes of payload.
    pub fn cwnd_bytes(&self) -> Option<i64> {
        Some(self.snd_cwnd_segs? * self.snd_mss_bytes?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_in_bytes_needs_the_segment_size() {
        let sample = FlowSample { snd_cwnd_segs: Some(10), ..FlowSample::default() };
        assert_eq!(sample.cwnd_bytes(), None);
        assert_eq!(FlowSample { snd_mss_bytes: Some(1448), ..sample }.cwnd_bytes(), Some(14_480));
    }
}
