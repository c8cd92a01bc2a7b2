//! A snapshot of an endpoint: the fields of `tcp_info` under the names of the record's columns.

use crate::connection::{CLOCK_START_NS, Connection};
use crate::{INFINITE_SSTHRESH, transmit::Sender};

/// A snapshot (`tcp_get_info`, `net/ipv4/tcp.c`; memory values as in SO_MEMINFO).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EndpointInfo {
    /// TCP state (`include/net/tcp_states.h`).
    pub state: u8,
    /// Congestion state: 0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss.
    pub ca_state: u8,
    /// Congestion window.
    pub snd_cwnd_segs: u32,
    /// Slow-start threshold; none while infinite.
    pub snd_ssthresh_segs: Option<u32>,
    /// Payload of a full segment.
    pub snd_mss_bytes: u32,
    /// The peer's window.
    pub snd_wnd_bytes: u32,
    /// Sent and not cumulatively acknowledged.
    pub unacked_segs: u32,
    /// Unacknowledged segments that are selectively acknowledged.
    pub sacked_segs: u32,
    /// Unacknowledged segments that are marked lost.
    pub lost_segs: u32,
    /// Unacknowledged segments that are retransmitted and outstanding.
    pub retrans_segs: u32,
    /// Retransmitted since the start.
    pub total_retrans_segs: u32,
    /// Payload acknowledged since the start.
    pub bytes_acked: u64,
    /// Payload sent since the start, retransmissions included.
    pub bytes_sent: u64,
    /// Payload retransmitted since the start.
    pub bytes_retrans: u64,
    /// Segments sent since the start.
    pub segs_out: u32,
    /// Segments received since the start.
    pub segs_in: u32,
    /// Segments with payload sent since the start.
    pub data_segs_out_segs: u32,
    /// Delivered since the start, selectively acknowledged ones included.
    pub delivered_segs: u32,
    /// Delivered with a CE mark since the start.
    pub delivered_ce_segs: u32,
    /// In the send buffer and never sent.
    pub notsent_bytes: u64,
    /// Smoothed round-trip time.
    pub srtt_us: u32,
    /// Mean deviation of the round-trip time.
    pub rttvar_us: u32,
    /// Minimum round-trip time of the last minutes; none before the first sample.
    pub min_rtt_us: Option<u32>,
    /// Retransmission timeout.
    pub rto_us: u32,
    /// Pacing rate; none: not paced.
    pub pacing_rate_bps: Option<u64>,
    /// The last valid rate sample.
    pub delivery_rate_bps: u64,
    /// Whether the application limited that sample.
    pub delivery_rate_app_limited: bool,
    /// Timeouts since the start.
    pub total_rto: u32,
    /// Maximum reordering distance, packets.
    pub reordering: u32,
    /// Reordering events detected.
    pub reord_seen: u32,
    /// Duplicates that the peer reported.
    pub dsack_dups: u32,
    /// Time with data outstanding.
    pub busy_time_us: u64,
    /// Busy time limited by the peer's window.
    pub rwnd_limited_us: u64,
    /// Busy time limited by the send buffer.
    pub sndbuf_limited_us: u64,
    /// Send buffer.
    pub sndbuf_bytes: u32,
    /// Memory charged to the send buffer.
    pub wmem_queued_bytes: u32,
    /// Receive buffer.
    pub rcvbuf_bytes: u32,
    /// Own window as announced.
    pub rcv_wnd_bytes: u32,
    /// Autotuning's estimate of bytes read per round trip.
    pub rcv_space_bytes: u32,
    /// Current limit of the advertised window (`rcv_ssthresh`).
    pub rcv_ssthresh_bytes: u32,
    /// Received in order and not read.
    pub rcv_queue_bytes: u64,
    /// The receiver's estimate of the round-trip time.
    pub rcv_rtt_us: u32,
    /// Memory charged to the receive buffer.
    pub rmem_alloc_bytes: u32,
    /// Payload received in order since the start.
    pub bytes_received: u64,
    /// Segments that arrived out of order since the start.
    pub rcv_ooopack: u32,
    /// Segments that arrived with a congestion mark since the start.
    pub received_ce: u32,
}

impl EndpointInfo {
    /// Takes a snapshot at `now`, ns since the start of the run.
    pub(crate) fn new(conn: &Connection, sender: &Sender, now: u64) -> EndpointInfo {
        let (sk, receiver) = (&conn.sk, &conn.receiver);
        let (busy, rwnd, sndbuf) = sender.chrono_us(conn, (now + CLOCK_START_NS) / 1000);
        let bits = |bytes: u64| bytes.saturating_mul(8);
        let rate = u64::from(sk.rate_delivered) * u64::from(sk.mss_cache) * 1_000_000;
        EndpointInfo {
            state: conn.state as u8,
            ca_state: sk.ca_state() as u8,
            snd_cwnd_segs: sk.snd_cwnd,
            snd_ssthresh_segs: (sk.snd_ssthresh < INFINITE_SSTHRESH).then_some(sk.snd_ssthresh),
            snd_mss_bytes: sk.mss_cache,
            snd_wnd_bytes: sk.snd_wnd,
            unacked_segs: sk.packets_out,
            sacked_segs: sk.sacked_out,
            lost_segs: sk.lost_out,
            retrans_segs: sk.retrans_out,
            total_retrans_segs: sk.total_retrans,
            bytes_acked: sk.bytes_acked,
            bytes_sent: sk.bytes_sent,
            bytes_retrans: sk.bytes_retrans,
            segs_out: sk.segs_out,
            segs_in: sk.segs_in,
            data_segs_out_segs: sk.data_segs_out,
            delivered_segs: sk.delivered,
            delivered_ce_segs: sk.delivered_ce,
            notsent_bytes: conn.notsent(),
            srtt_us: sk.srtt_us >> 3,
            rttvar_us: sk.mdev_us >> 2,
            min_rtt_us: (sk.rtt_min.s[0].v < u32::MAX).then_some(sk.rtt_min.s[0].v),
            rto_us: (u64::from(sk.icsk_rto) * conn.jiffy_us) as u32,
            pacing_rate_bps: (sk.sk_pacing_rate < u64::MAX).then_some(bits(sk.sk_pacing_rate)),
            delivery_rate_bps: bits(rate.checked_div(u64::from(sk.rate_interval_us)).unwrap_or(0)),
            delivery_rate_app_limited: sk.nonagle_bits & 1 << 4 != 0,
            total_rto: u32::from(sk.total_rto),
            reordering: sk.reordering,
            reord_seen: sk.reord_seen,
            dsack_dups: sk.dsack_dups,
            busy_time_us: busy,
            rwnd_limited_us: rwnd,
            sndbuf_limited_us: sndbuf,
            sndbuf_bytes: sk.sk_sndbuf as u32,
            wmem_queued_bytes: sender.wmem_queued(conn),
            rcvbuf_bytes: sk.sk_rcvbuf as u32,
            rcv_wnd_bytes: receiver.advertised_window(sk),
            rcv_space_bytes: receiver.rcv_space(),
            rcv_ssthresh_bytes: sk.rcv_ssthresh,
            rcv_queue_bytes: receiver.readable(sk),
            rcv_rtt_us: sk.rcv_rtt_est.rtt_us >> 3,
            rmem_alloc_bytes: receiver.rmem_alloc(),
            bytes_received: sk.bytes_received,
            rcv_ooopack: receiver.out_of_order_segs(),
            received_ce: receiver.marked_segs(),
        }
    }
}
