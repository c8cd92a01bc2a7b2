//! Recognizes a path that no longer delivers anything. Samples of transports other than TCP do not show timeouts of the sender, which would
//! count as losses.

use schema::FlowSample;

use super::History;

/// The minimum retransmission timeout, microseconds (TCP_RTO_MIN, linux/tcp.h).
const MIN_TIMEOUT_US: i64 = 200_000;
/// The retransmission timeout before a round-trip time was measured, microseconds (RFC 6298, section 2).
const INITIAL_TIMEOUT_US: i64 = 1_000_000;

/// Whether nothing has arrived since an earlier sample, although the sender sent data after that sample and at least a retransmission
/// timeout ago. False for TCP, and where the receiver's counter is unknown.
pub(super) fn is_path_silent(row: &FlowSample, history: &History<'_>) -> bool {
    // A stream does not count packets that arrive too late for their play-out.
    let is_known = row.ca_state.is_none() && row.bytes_received.is_some() && row.rcv_queue_bytes.is_none();
    let since_us = history.received_bits.unchanged_since(row.time_us).filter(|_| is_known);
    let is_sent_after = |since_us| {
        history.sent_bits.at(row.time_us - retransmission_timeout_us(row)) > history.sent_bits.at(since_us)
    };
    since_us.is_some_and(is_sent_after)
}

/// RFC 6298, section 2, with Linux's minimum.
fn retransmission_timeout_us(row: &FlowSample) -> i64 {
    let timeout = |srtt: i64| (srtt + 4 * row.rttvar_us.unwrap_or(0)).max(MIN_TIMEOUT_US);
    row.srtt_us.map_or(INITIAL_TIMEOUT_US, timeout)
}
