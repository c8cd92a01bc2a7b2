//! A socket's `tcp_info` and memory as a row of the record.

use schema::FlowSample;

use crate::{SocketMemory, TcpInfo};

/// The slow-start threshold before a loss has set one (include/net/tcp.h, TCP_INFINITE_SSTHRESH).
pub(crate) const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// Fills in the sender's metrics.
pub fn fill_sender(info: &TcpInfo, memory: Option<&SocketMemory>, row: &mut FlowSample) {
    row.state = to_i64(info.state());
    row.ca_state = to_i64(info.ca_state());
    row.snd_cwnd_segs = to_i64(info.snd_cwnd());
    row.snd_ssthresh_segs = to_i64(info.snd_ssthresh().filter(|s| *s < INFINITE_SSTHRESH));
    row.snd_mss_bytes = to_i64(info.snd_mss());
    row.snd_wnd_bytes = to_i64(info.snd_wnd());
    row.unacked_segs = to_i64(info.unacked());
    row.sacked_segs = to_i64(info.sacked());
    row.lost_segs = to_i64(info.lost());
    row.retrans_segs = to_i64(info.retrans());
    row.total_retrans_segs = to_i64(info.total_retrans());
    row.bytes_acked = unsigned_to_i64(info.bytes_acked());
    row.bytes_sent = unsigned_to_i64(info.bytes_sent());
    row.bytes_retrans = unsigned_to_i64(info.bytes_retrans());
    row.segs_out = to_i64(info.segs_out());
    row.data_segs_out_segs = to_i64(info.data_segs_out());
    row.delivered_segs = to_i64(info.delivered());
    row.delivered_ce_segs = to_i64(info.delivered_ce());
    row.notsent_bytes = to_i64(info.notsent_bytes());
    row.srtt_us = to_i64(info.rtt_us().filter(|rtt| *rtt > 0));
    row.rttvar_us = to_i64(info.rttvar_us());
    row.min_rtt_us = to_i64(info.min_rtt_us().filter(|rtt| *rtt < u32::MAX));
    row.rto_us = to_i64(info.rto_us());
    row.pacing_rate_bps = bits_per_second(info.pacing_rate());
    row.delivery_rate_bps = bits_per_second(info.delivery_rate());
    row.delivery_rate_app_limited = info.delivery_rate_app_limited().map(i64::from);
    row.busy_time_us = unsigned_to_i64(info.busy_time_us());
    row.rwnd_limited_us = unsigned_to_i64(info.rwnd_limited_us());
    row.sndbuf_limited_us = unsigned_to_i64(info.sndbuf_limited_us());
    row.total_rto = to_i64(info.total_rto());
    row.reord_seen = to_i64(info.reord_seen());
    row.sndbuf_bytes = to_i64(memory.map(|memory| memory.sndbuf));
    row.wmem_queued_bytes = to_i64(memory.map(|memory| memory.wmem_queued));
}

/// Fills in the receiver's metrics; `unread` is the number of bytes received in order and not yet read.
pub fn fill_receiver(
    info: &TcpInfo,
    memory: Option<&SocketMemory>,
    unread: Option<u32>,
    row: &mut FlowSample,
) {
    // The header's field has 16 bits; the kernel's own value may be larger.
    let max_window = info.wscales().map_or(i64::MAX, |(_, scale)| i64::from(u16::MAX) << scale);
    row.rcv_wnd_bytes = to_i64(info.rcv_wnd()).map(|window: i64| window.min(max_window));
    row.rcv_space_bytes = to_i64(info.rcv_space());
    row.rcv_ssthresh_bytes = to_i64(info.rcv_ssthresh());
    row.rcv_rtt_us = to_i64(info.rcv_rtt_us().filter(|rtt| *rtt > 0));
    row.bytes_received = unsigned_to_i64(info.bytes_received());
    row.rcv_ooopack_segs = to_i64(info.rcv_ooopack());
    row.rcv_ce_segs = to_i64(info.received_ce());
    row.rcvbuf_bytes = to_i64(memory.map(|memory| memory.rcvbuf));
    row.rmem_alloc_bytes = to_i64(memory.map(|memory| memory.rmem_alloc));
    row.rcv_queue_bytes = to_i64(unread);
}

fn to_i64<T: Into<i64>>(value: Option<T>) -> Option<i64> {
    value.map(Into::into)
}

fn unsigned_to_i64(value: Option<u64>) -> Option<i64> {
    value.and_then(|v| i64::try_from(v).ok())
}

/// Converts bytes per second to bits per second; `None` for the kernel's "unlimited" (all ones).
pub(crate) fn bits_per_second(value: Option<u64>) -> Option<i64> {
    unsigned_to_i64(value.and_then(|v| v.checked_mul(8)))
}
