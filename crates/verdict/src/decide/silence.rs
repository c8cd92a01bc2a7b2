//! Recognizes a path that no longer delivers anything. Samples of transports other than TCP do not show
//! timeouts of the sender, which would count as losses.

use schema::FlowSample;

use super::History;

/// The minimum retransmission timeout, microseconds (TCP_RTO_MIN, linux/tcp.h).
const MIN_TIMEOUT_US: i64 = 200_000;
/// The retransmission timeout before a round-trip time was measured, microseconds (RFC 6298, section 2).
const INITIAL_TIMEOUT_US: i64 = 1_000_000;

/// Whether nothing has arrived since an earlier sample, although the sender sent data after that sample and
/// at least a retransmission timeout ago. False for TCP, and where the receiver's counter is unknown.
pub(super) fn is_path_silent(row: &FlowSample, history: &History<'_>) -> bool {
    // A stream does not count packets that arrive too late for their play-out.
    let is_known = row.ca_state.is_none() && row.bytes_received.is_some() && row.rcv_queue_bytes.is_none();
    // QUIC counts its own acknowledgements as sent, also while no data is on its way.
    if !is_known || row.unacked_segs == Some(0) {
        return false;
    }
    let Some(since_us) = history.received_bits.unchanged_since(row.time_us) else { return false };
    let timeout_us = retransmission_timeout_us(row);
    history.sent_bits.at(row.time_us.saturating_sub(timeout_us)) > history.sent_bits.at(since_us)
}

/// RFC 6298, section 2, with Linux's minimum.
fn retransmission_timeout_us(row: &FlowSample) -> i64 {
    let variation_us = row.rttvar_us.unwrap_or(0).saturating_mul(4);
    let timeout = |srtt_us: i64| srtt_us.saturating_add(variation_us).max(MIN_TIMEOUT_US);
    row.srtt_us.map_or(INITIAL_TIMEOUT_US, timeout)
}
