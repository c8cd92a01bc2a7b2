//! Labels the samples of flows whose sender controls its rate instead of a window: UDT and Tsunami.
//!
//! The first rule that applies decides:
//! 1. The path's slowest link was full over the last round trips: `path_rate`.
//! 2. A simulated host's processor or bus, or a thread of a file transfer, was busy all the time: `host_cpu`.
//!    Then the ends of a file transfer waited for their files or for replies: `application`. Then nothing of
//!    the data that was sent a retransmission timeout ago, or later, has arrived: `loss`.
//! 3. The data outstanding filled the window that the receiver allows: `receive_window`.
//! 4. The sender's rate was the requested one: `pacing` if it sent at that rate or had sent everything, else
//!    `host_cpu`: its thread did not run when packets were due.
//! 5. Packets were retransmitted so far: `loss`; else the rate still grows: `slow_start`.

use schema::{Cause, FlowSample};

use super::{FILLED, History, Judgement, Reductions, silence};
use crate::{FlowContext, series::RATE_ROUND_TRIPS};

/// Rates are means over at least this time, microseconds: Tsunami changes its rate every 350 ms.
const MIN_RATE_TIME_US: i64 = 100_000;
/// The sender has the requested rate from this share of it.
const REQUESTED: f64 = 0.95;
/// The sender sends at the requested rate from this share of it.
const SENT: f64 = 0.92;

pub(super) fn judge(
    row: &FlowSample,
    history: &History<'_>,
    context: &FlowContext,
    reductions: &Reductions,
) -> Option<Judgement> {
    let payload = row.snd_mss_bytes? as f64;
    let half = (row.srtt_us.unwrap_or(0) * RATE_ROUND_TRIPS / 2).max(MIN_RATE_TIME_US / 2);
    let (from, to) = (row.time_us - half, row.time_us + half);
    if history.is_full(from, to, context.wire_limit_bps) {
        return Some(Judgement::Limit(Cause::PathRate));
    }
    if let Some(limit) = history.limit_of_hosts(row, from, to) {
        return Some(limit);
    }
    if silence::is_path_silent(row, history) {
        return Some(Judgement::Limit(Cause::Loss));
    }
    let outstanding = row.unacked_segs.unwrap_or(0) as f64 * payload;
    if row.snd_wnd_bytes.is_some_and(|window| outstanding >= FILLED * window as f64) {
        return Some(Judgement::Limit(Cause::ReceiveWindow));
    }
    if let (Some(rate), Some(requested)) = (row.pacing_rate_bps, context.pacing_bps)
        && rate as f64 >= REQUESTED * requested
    {
        // At a low rate a whole packet can be due only after this time.
        let one_packet = payload * 8.0 / ((to - from) as f64 * 1e-6);
        let is_late =
            history.sent_unless_all(from, to).is_some_and(|sent| sent + one_packet < SENT * requested);
        return Some(Judgement::Limit(if is_late { Cause::HostCpu } else { Cause::Pacing }));
    }
    Some(Judgement::Limit(reductions.latest.unwrap_or(Cause::SlowStart)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::tests::{MSS, in_context};

    /// The rate of a sender's timer is the requested one all the time, but its thread runs too late for a
    /// part of the packets.
    #[test]
    fn a_sender_that_does_not_send_at_the_requested_rate_is_limited_by_its_host() {
        let of = |share: f64| {
            let paced = move |row: &mut FlowSample| {
                row.pacing_rate_bps = Some(99_000_000);
                // 100 Mb/s until 2 s; then everything is sent.
                row.bytes_sent = Some((row.time_us.min(2_000_000) as f64 * 12.5 * share) as i64);
            };
            let context =
                FlowContext { is_rate_controlled: true, pacing_bps: Some(1e8), ..FlowContext::default() };
            in_context(paced, context)
        };
        assert!(of(0.97).iter().all(|cause| *cause == Some(Cause::Pacing)), "{:?}", of(0.97));
        let late = of(0.7);
        assert!(late[..190].iter().all(|cause| *cause == Some(Cause::HostCpu)), "{late:?}");
        assert!(late[200..].iter().all(|cause| *cause == Some(Cause::Pacing)), "{late:?}");
        // At 30 kb/s a packet is due each 386 ms.
        let slow = |row: &mut FlowSample| {
            row.pacing_rate_bps = Some(30_000);
            row.bytes_sent = Some((row.time_us / 386_000 + 1) * MSS);
        };
        let context =
            FlowContext { is_rate_controlled: true, pacing_bps: Some(3e4), ..FlowContext::default() };
        let causes = in_context(slow, context);
        assert!(causes.iter().all(|cause| *cause == Some(Cause::Pacing)), "{causes:?}");
    }
}
