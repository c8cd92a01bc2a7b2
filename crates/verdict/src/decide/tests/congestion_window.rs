//! The cause of the last reduction, where the congestion window is full.

use super::*;
use crate::SendingDevice;

#[test]
fn a_filled_congestion_window_is_limited_by_its_last_reduction() {
    let growing = |row: &mut FlowSample| row.snd_cwnd_segs = Some(1000);
    all(&flow(0.3e9, growing), Cause::SlowStart);
    let after_loss = |row: &mut FlowSample| {
        growing(row);
        row.total_retrans_segs = Some(3);
    };
    all(&flow(0.3e9, after_loss), Cause::Loss);
    let repairing = |row: &mut FlowSample| row.ca_state = Some(3);
    all(&flow(0.3e9, repairing), Cause::Loss);
}

#[test]
fn earlier_samples_show_the_cause_of_a_reduced_window() {
    let full = |row: &mut FlowSample| (row.snd_cwnd_segs, row.delivered_ce_segs) = (Some(1000), Some(0));
    // Marks are rare events, but their reduction lasts.
    let marked = |row: &mut FlowSample| {
        full(row);
        row.delivered_ce_segs = Some(1 + row.time_us / 200_000);
        row.ca_state = Some(if row.time_us % 200_000 < 20_000 { CWR } else { 0 });
    };
    all(&flow(0.3e9, marked), Cause::EcnMarks);
    let own = |row: &mut FlowSample| {
        full(row);
        row.ca_state = Some(CWR);
    };
    all(&flow(0.3e9, own), Cause::LocalQueue);
    // With a kernel that does not count marks, the cause of CWR is unknown.
    let unknown = |row: &mut FlowSample| {
        own(row);
        row.delivered_ce_segs = None;
    };
    all(&flow(0.3e9, unknown), Cause::SlowStart);
    let lost = |row: &mut FlowSample| {
        own(row);
        row.total_retrans_segs = Some(row.time_us / 10_000);
    };
    all(&flow(0.3e9, lost), Cause::Loss);
}

#[test]
fn losses_that_the_senders_device_dropped_are_local() {
    let lost = |row: &mut FlowSample| row.total_retrans_segs = Some(row.time_us / 30_000);
    let causes_of_99_losses = |device_drops| {
        let device = SendingDevice { dropped_segs: device_drops, ..SendingDevice::default() };
        in_context(lost, FlowContext { device, ..FlowContext::default() })
    };
    assert_eq!(causes_of_99_losses(60).last(), Some(&Some(Cause::LocalQueue)));
    assert_eq!(causes_of_99_losses(5).last(), Some(&Some(Cause::Loss)), "most were dropped elsewhere");
    assert_eq!(causes_of_99_losses(0).last(), Some(&Some(Cause::Loss)));
}
