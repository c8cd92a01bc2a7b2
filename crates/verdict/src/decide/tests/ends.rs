//! Limits at the ends: the peer's window, the send buffer, applications, and the hosts.

use super::*;
use crate::{FileWaits, Generator, LoadKind};

/// A flow of our own generator at 10 ms samples over a path that is not described. Its writer has nothing
/// more to send.
fn starved(context: FlowContext, goodput_bps: f64, set: impl Fn(&mut FlowSample)) -> Vec<Cause> {
    let row = |i: i64| {
        let mut row = FlowSample {
            time_us: i * 10_000,
            flow: "f".into(),
            ca_state: Some(0),
            snd_mss_bytes: Some(MSS),
            snd_cwnd_segs: Some(1000),
            snd_wnd_bytes: Some(3_000_000),
            unacked_segs: Some(20),
            notsent_bytes: Some(0),
            sndbuf_bytes: Some(2_500_000),
            wmem_queued_bytes: Some(60_000),
            rcv_wnd_bytes: Some(3_000_000),
            rcv_queue_bytes: Some(0),
            srtt_us: Some(100),
            min_rtt_us: Some(50),
            bytes_acked: Some((goodput_bps / 8.0 * i as f64 * 0.01) as i64),
            ..FlowSample::default()
        };
        set(&mut row);
        row
    };
    known(labels((0..100).map(row).collect(), context), 1)
}

#[test]
fn a_filled_window_is_limited_by_the_receiver_or_its_reader() {
    let window = |row: &mut FlowSample| {
        row.snd_wnd_bytes = Some(1000 * MSS + 1000);
        row.rcv_wnd_bytes = row.snd_wnd_bytes;
    };
    all(&flow(0.5e9, window), Cause::ReceiveWindow);
    let slow = |row: &mut FlowSample| {
        row.snd_wnd_bytes = Some(0);
        row.rcv_wnd_bytes = Some(0);
        row.unacked_segs = Some(0);
        row.rcv_queue_bytes = Some(500_000);
    };
    all(&flow(0.04e9, slow), Cause::Application);
}

#[test]
fn with_nothing_to_send_the_buffer_or_the_writer_is_the_limit() {
    let buffer = |row: &mut FlowSample| row.notsent_bytes = Some(0);
    all(&flow(0.5e9, buffer), Cause::SendBuffer);
    let writer = |row: &mut FlowSample| {
        row.notsent_bytes = Some(0);
        row.wmem_queued_bytes = Some(1_500_000);
    };
    all(&flow(0.1e9, writer), Cause::Application);
}

#[test]
fn delayed_acks_of_an_idle_writer_are_not_a_queue() {
    let context = FlowContext { unknown_path: true, ..FlowContext::default() };
    let delayed = |row: &mut FlowSample| row.srtt_us = Some(40_000);
    all(&starved(context, 1e6, delayed), Cause::Application);
}

#[test]
fn our_own_generator_is_not_a_slow_application() {
    let ours = |generator| FlowContext { generator: Some(generator), ..FlowContext::default() };
    let bulk = || ours(Generator::default());
    all(&starved(FlowContext::default(), 24e9, |_| {}), Cause::Application);
    all(&starved(bulk(), 24e9, |_| {}), Cause::HostCpu);
    let unread = |row: &mut FlowSample| {
        (row.snd_wnd_bytes, row.rcv_wnd_bytes) = (Some(20 * MSS), Some(20 * MSS));
        row.rcv_queue_bytes = Some(2_000_000);
    };
    all(&starved(FlowContext::default(), 24e9, unread), Cause::Application);
    all(&starved(bulk(), 24e9, unread), Cause::HostCpu);
    // A requested rate is the limit as long as the host keeps up with it.
    let requested = |bps: f64| ours(Generator { write_bps: Some(bps), ..Generator::default() });
    all(&starved(requested(1e9), 1e9, |_| {}), Cause::Application);
    let behind = starved(requested(10e9), 3e9, |_| {});
    all(&behind[20..], Cause::HostCpu);
    let paced = |bps: f64| FlowContext { pacing_bps: Some(bps), ..bulk() };
    all(&starved(paced(1e9), 1e9, |_| {}), Cause::Pacing);
    let block = |row: &mut FlowSample| row.wmem_queued_bytes = Some(2_400_000);
    all(&starved(paced(1e9), 1e9, block), Cause::Pacing);
    all(&starved(paced(10e9), 3e9, block)[20..], Cause::SendBuffer);
    all(&starved(paced(10e9), 3e9, |_| {})[20..], Cause::HostCpu);
    all(
        &starved(ours(Generator { read_bps: Some(1e9), ..Generator::default() }), 1e9, unread),
        Cause::Application,
    );
    all(
        &starved(ours(Generator { reader_pauses: true, ..Generator::default() }), 1e9, unread),
        Cause::Application,
    );
    let file = ours(Generator { uses_file: true, ..Generator::default() });
    all(&starved(file, 1e9, |_| {}), Cause::Application);
    // In virtual time a writer is never late.
    all(&starved(FlowContext { virtual_time: true, ..bulk() }, 1e9, |_| {}), Cause::SendBuffer);
}

#[test]
fn once_all_is_sent_the_last_limit_continues() {
    let size = 100_000_000;
    let context = FlowContext {
        generator: Some(Generator { size_bytes: Some(size), ..Generator::default() }),
        ..FlowContext::default()
    };
    let done = |row: &mut FlowSample| {
        let acked = row.bytes_acked.unwrap();
        match acked >= 90_000_000 {
            true => row.bytes_acked = Some(size as i64 - 20 * MSS + 1),
            // The receiver's window limits the flow until then.
            false => row.snd_wnd_bytes = Some(20 * MSS),
        }
    };
    all(&starved(context.clone(), 1e9, done), Cause::ReceiveWindow);
    let at_once = |row: &mut FlowSample| row.bytes_acked = Some(size as i64);
    all(&starved(context, 1e9, at_once), Cause::SlowStart);
}

#[test]
fn two_ends_on_one_host_have_no_path() {
    let queued = |row: &mut FlowSample| (row.srtt_us, row.notsent_bytes) = (Some(5_000), Some(1_000_000));
    let context = FlowContext { unknown_path: true, ..FlowContext::default() };
    all(&starved(context.clone(), 24e9, queued), Cause::PathRate);
    all(&starved(FlowContext { is_one_host: true, ..context }, 24e9, queued), Cause::HostCpu);
}

#[test]
fn a_host_that_is_busy_all_the_time_is_the_limit() {
    // The window is full all the time, and no loss has reduced it.
    let of = |busy_share: f64| {
        let busy_us = (0..300).map(|i| (i * 10_000, i as f64 * 10_000.0 * busy_share)).collect();
        let host_loads =
            vec![HostLoad { name: "processor of h2".into(), kind: LoadKind::Processor, busy_us }];
        in_context(|_| {}, FlowContext { virtual_time: true, host_loads, ..FlowContext::default() })
    };
    assert!(of(0.99).iter().all(|cause| *cause == Some(Cause::HostCpu)), "{:?}", of(0.99));
    assert!(of(0.9).iter().all(|cause| *cause == Some(Cause::SlowStart)), "{:?}", of(0.9));
}

/// A file transfer whose window is full all the time, and whose sender waits for its file for this share of
/// it.
#[test]
fn an_end_that_waits_for_its_file_is_the_limit() {
    let of = |share: f64, is_rate_controlled| {
        let reading_us = (0..300).map(|i| (i * 10_000, i as f64 * 10_000.0 * share)).collect();
        let file_waits = Some(FileWaits { reading_us, ..FileWaits::default() });
        in_context(|_| {}, FlowContext { file_waits, is_rate_controlled, ..FlowContext::default() })
    };
    for is_rate_controlled in [false, true] {
        let (long, short) = (of(0.9, is_rate_controlled), of(0.3, is_rate_controlled));
        assert!(long.iter().all(|cause| *cause == Some(Cause::Application)), "{long:?}");
        assert!(short.iter().all(|cause| *cause == Some(Cause::SlowStart)), "{short:?}");
    }
}
