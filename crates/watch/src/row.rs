//! What the kernel told of a socket, as a row of the record.

use schema::FlowSample;

use crate::{Memory, TcpInfo};

/// An ssthresh that no loss has set yet (net/tcp.h, TCP_INFINITE_SSTHRESH).
pub(crate) const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// Fills in the sender's metrics.
pub fn fill_sender(info: &TcpInfo, memory: Option<&Memory>, row: &mut FlowSample) {
    row.state = wide(info.state());
    row.ca_state = wide(info.ca_state());
    row.snd_cwnd_segs = wide(info.snd_cwnd());
    row.snd_ssthresh_segs = wide(info.snd_ssthresh().filter(|s| *s < INFINITE_SSTHRESH));
    row.snd_mss_bytes = wide(info.snd_mss());
    row.snd_wnd_bytes = wide(info.snd_wnd());
    row.unacked_segs = wide(info.unacked());
    row.sacked_segs = wide(info.sacked());
    row.lost_segs = wide(info.lost());
    row.retrans_segs = wide(info.retrans());
    row.total_retrans_segs = wide(info.total_retrans());
    row.bytes_acked = long(info.bytes_acked());
    row.bytes_sent = long(info.bytes_sent());
    row.bytes_retrans = long(info.bytes_retrans());
    row.segs_out = wide(info.segs_out());
    row.data_segs_out_segs = wide(info.data_segs_out());
    row.delivered_segs = wide(info.delivered());
    row.delivered_ce_segs = wide(info.delivered_ce());
    row.notsent_bytes = wide(info.notsent_bytes());
    row.srtt_us = wide(info.rtt_us().filter(|rtt| *rtt > 0));
    row.rttvar_us = wide(info.rttvar_us());
    row.min_rtt_us = wide(info.min_rtt_us().filter(|rtt| *rtt < u32::MAX));
    row.rto_us = wide(info.rto_us());
    row.pacing_rate_bps = bits(info.pacing_rate());
    row.delivery_rate_bps = bits(info.delivery_rate());
    row.delivery_rate_app_limited = info.delivery_rate_app_limited().map(i64::from);
    row.busy_time_us = long(info.busy_time_us());
    row.rwnd_limited_us = long(info.rwnd_limited_us());
    row.sndbuf_limited_us = long(info.sndbuf_limited_us());
    row.total_rto = wide(info.total_rto());
    row.sndbuf_bytes = wide(memory.map(|memory| memory.sndbuf));
    row.wmem_queued_bytes = wide(memory.map(|memory| memory.wmem_queued));
}

/// Fills in the receiver's metrics; `unread` are the bytes received in order and not yet read.
pub fn fill_receiver(info: &TcpInfo, memory: Option<&Memory>, unread: Option<u32>, row: &mut FlowSample) {
    row.rcv_wnd_bytes = wide(info.rcv_wnd());
    row.rcv_space_bytes = wide(info.rcv_space());
    row.rcv_ssthresh_bytes = wide(info.rcv_ssthresh());
    row.rcv_rtt_us = wide(info.rcv_rtt_us().filter(|rtt| *rtt > 0));
    row.bytes_received = long(info.bytes_received());
    row.rcvbuf_bytes = wide(memory.map(|memory| memory.rcvbuf));
    row.rmem_alloc_bytes = wide(memory.map(|memory| memory.rmem_alloc));
    row.rcv_queue_bytes = wide(unread);
}

fn wide<T: Into<i64>>(value: Option<T>) -> Option<i64> {
    value.map(Into::into)
}

fn long(value: Option<u64>) -> Option<i64> {
    value.and_then(|v| i64::try_from(v).ok())
}

/// Bytes a second as bits a second; `None` where the kernel says unlimited.
pub(crate) fn bits(value: Option<u64>) -> Option<i64> {
    long(value.and_then(|v| v.checked_mul(8)))
}
