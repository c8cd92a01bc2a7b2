//! Samples without some columns: captures show neither the congestion window nor the send buffer, `ss`
//! without `-m` not the buffer.

use super::*;

#[test]
fn in_a_capture_a_loss_explains_the_samples_soon_after_it() {
    let captured = |after: i64| {
        let captured = move |row: &mut FlowSample| {
            row.snd_cwnd_segs = None;
            let is_after = row.time_us >= 500_000;
            row.total_retrans_segs = Some(i64::from(is_after));
            row.unacked_segs = Some(if is_after { after } else { 1000 });
        };
        in_context(captured, FlowContext { unknown_path: true, ..FlowContext::default() })
    };
    let causes = captured(500);
    assert_eq!((causes[10], causes[60]), (None, Some(Cause::Loss)), "unknown before the loss");
    assert_eq!(causes.last(), Some(&None), "unknown 250 round trips after the loss");
    let recovered = captured(1000);
    assert_eq!((recovered[50], recovered[60]), (Some(Cause::Loss), None), "as much is outstanding as before");
}

#[test]
fn in_a_capture_a_loss_limits_nothing_while_no_data_is_outstanding() {
    // Every 100 ms a segment that is lost once; most samples find nothing outstanding.
    let captured = |row: &mut FlowSample| {
        row.snd_cwnd_segs = None;
        row.total_retrans_segs = Some(row.time_us / 100_000);
        row.unacked_segs = Some(0);
    };
    let causes = in_context(captured, FlowContext { unknown_path: true, ..FlowContext::default() });
    assert!(causes.iter().all(Option::is_none), "{causes:?}");
}

/// `ss` without `-m` does not show the buffer, so that a slow writer and a full buffer look the same.
#[test]
fn without_the_use_of_the_buffer_a_sample_with_nothing_to_send_has_no_limit() {
    let without_memory = |cwnd: i64, notsent: i64| {
        let sampled = move |row: &mut FlowSample| {
            (row.sndbuf_bytes, row.wmem_queued_bytes) = (None, None);
            (row.snd_cwnd_segs, row.unacked_segs, row.notsent_bytes) = (Some(cwnd), Some(100), Some(notsent));
            row.min_rtt_us = Some(20_000);
        };
        in_context(sampled, FlowContext { unknown_path: true, ..FlowContext::default() })[50]
    };
    assert_eq!(without_memory(1000, 0), None);
    assert_eq!(without_memory(100, 0), Some(Cause::SlowStart), "the congestion window is full");
    assert_eq!(without_memory(1000, 500_000), Some(Cause::HostCpu), "data waits");
}

/// A burst of a send buffer waits behind itself, which a capture does not show; a longer queue is the path's.
#[test]
fn in_a_capture_a_short_queue_explains_nothing() {
    let behind = |queue_us: i64| {
        let captured = move |row: &mut FlowSample| {
            (row.snd_cwnd_segs, row.min_rtt_us) = (None, Some(20_000));
            (row.srtt_us, row.rttvar_us) = (Some(20_000 + queue_us), Some(0));
            row.total_retrans_segs = Some(i64::from(row.time_us >= 20_000));
            row.unacked_segs = Some(if row.time_us >= 20_000 { 500 } else { 1000 });
        };
        in_context(captured, FlowContext { unknown_path: true, ..FlowContext::default() })[20]
    };
    assert_eq!(
        (behind(500), behind(5_000), behind(15_000)),
        (Some(Cause::Loss), None, Some(Cause::PathRate))
    );
}

/// A capture shows neither the congestion window nor the send buffer.
#[test]
fn a_captured_flow_in_bursts_is_not_limited_by_loss() {
    let causes = |is_in_bursts: bool| {
        let rows: Vec<FlowSample> = (0..200i64)
            .map(|i| FlowSample {
                time_us: i * 10_000,
                flow: "f".into(),
                snd_mss_bytes: Some(MSS),
                snd_wnd_bytes: Some(10_000_000),
                unacked_segs: Some(if is_in_bursts && i % 4 > 1 { 70 } else { 270 }),
                srtt_us: Some(20_000),
                min_rtt_us: Some(20_000),
                total_retrans_segs: Some(if i > 0 { 5 } else { 0 }),
                bytes_acked: Some(i * 100_000),
                ..FlowSample::default()
            })
            .collect();
        labels_between_hosts(rows).split_off(10)
    };
    assert!(causes(false).iter().all(|cause| *cause == Some(Cause::Loss)), "{:?}", causes(false));
    assert!(causes(true).iter().all(Option::is_none), "{:?}", causes(true));
}
