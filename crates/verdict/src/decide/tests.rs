//! Labels of constructed flows, sample by sample.

use super::*;
use crate::{FileWaits, Generator, LoadKind, PathLink, SendingDevice};
use schema::{LinkDirection, LinkSample};

const MSS: i64 = 1448;

/// A flow at 10 ms samples over a 20 ms path of 1 Gb/s that gets `goodput_bps`; `set` changes each row.
fn flow(goodput_bps: f64, set: impl Fn(&mut FlowSample)) -> Vec<Cause> {
    arriving(|ms| (goodput_bps / 8.0 * ms as f64 * 1e-3) as i64, set)
}

/// The causes of a flow's samples, as [`flow`] has them, where the receiver's bytes are a function of the milliseconds since the start.
fn arriving(bytes: impl Fn(i64) -> i64, set: impl Fn(&mut FlowSample)) -> Vec<Cause> {
    let context = FlowContext {
        name: "f".into(),
        wire_limit_bps: Some(0.956e9),
        path: vec![PathLink {
            name: "l".into(),
            direction: LinkDirection::Forward,
            rate_bps: 1e9,
            rate_changes: Vec::new(),
        }],
        ..FlowContext::default()
    };
    let mut rows = Vec::new();
    let mut links = Vec::new();
    for i in 0..100i64 {
        let bytes = bytes(i * 10);
        let mut row = FlowSample {
            time_us: i * 10_000,
            flow: "f".into(),
            ca_state: Some(0),
            snd_mss_bytes: Some(MSS),
            snd_cwnd_segs: Some(4000),
            snd_wnd_bytes: Some(10_000_000),
            unacked_segs: Some(1000),
            notsent_bytes: Some(3_000_000),
            sndbuf_bytes: Some(20_000_000),
            wmem_queued_bytes: Some(19_000_000),
            rcv_wnd_bytes: Some(10_000_000),
            rcv_queue_bytes: Some(0),
            srtt_us: Some(20_000),
            total_retrans_segs: Some(0),
            pacing_rate_bps: Some(20_000_000_000),
            bytes_received: Some(bytes),
            ..FlowSample::default()
        };
        set(&mut row);
        rows.push(row);
        links.push(LinkSample {
            time_us: i * 10_000 + 3,
            link: "l".into(),
            direction: LinkDirection::Forward,
            sent_bytes: Some((bytes as f64 * 1514.0 / 1448.0) as i64),
            ..LinkSample::default()
        });
    }
    decide(&mut rows, &LinkRows::of(&links), &context);
    assert_eq!(rows[0].limited_by, None);
    rows[1..].iter().map(|r| r.limited_by.unwrap()).collect()
}

/// The labels of a flow's rows on a path that the context describes.
fn labels(mut rows: Vec<FlowSample>, context: FlowContext) -> Vec<Option<Cause>> {
    decide(&mut rows, &LinkRows::default(), &FlowContext { name: "f".into(), ..context });
    rows.into_iter().map(|row| row.limited_by).collect()
}

/// The labels of a flow's rows on a path that is not described.
fn labels_between_hosts(rows: Vec<FlowSample>) -> Vec<Option<Cause>> {
    labels(rows, FlowContext { unknown_path: true, ..FlowContext::default() })
}

fn all(causes: &[Cause], expected: Cause) {
    let wrong = causes.iter().filter(|c| **c != expected).count();
    assert_eq!(wrong, 0, "{wrong} of {} samples are not {expected:?}: {causes:?}", causes.len());
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

/// A flow of our own generator at 10 ms samples over a path that is not described. Its writer has nothing
/// more to send.
fn starved(context: FlowContext, goodput_bps: f64, set: impl Fn(&mut FlowSample)) -> Vec<Cause> {
    let context = FlowContext { name: "f".into(), ..context };
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
    let mut rows: Vec<FlowSample> = (0..100).map(row).collect();
    decide(&mut rows, &LinkRows::default(), &context);
    rows[1..].iter().map(|r| r.limited_by.unwrap()).collect()
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
fn a_full_path_takes_precedence_over_the_window_that_fills_it() {
    let window = |row: &mut FlowSample| row.snd_wnd_bytes = Some(1000 * MSS);
    all(&flow(0.955e9, window), Cause::PathRate);
    let cwnd = |row: &mut FlowSample| {
        row.snd_cwnd_segs = Some(1000);
        row.total_retrans_segs = Some(5);
    };
    all(&flow(0.955e9, cwnd), Cause::PathRate);
}

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

fn in_context(set: impl Fn(&mut FlowSample), context: FlowContext) -> Vec<Option<Cause>> {
    let mut rows: Vec<FlowSample> = (0..300)
        .map(|i| {
            let mut row = FlowSample {
                time_us: i * 10_000,
                flow: "f".into(),
                snd_mss_bytes: Some(MSS),
                snd_cwnd_segs: Some(1000),
                unacked_segs: Some(1000),
                srtt_us: Some(10_000),
                ..FlowSample::default()
            };
            set(&mut row);
            row
        })
        .collect();
    decide(&mut rows, &LinkRows::default(), &FlowContext { name: "f".into(), ..context });
    rows.iter().skip(1).map(|row| row.limited_by).collect()
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

/// The rate of a sender's timer is the requested one all the time, but its thread runs too late for a part of the packets.
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
    let context = FlowContext { is_rate_controlled: true, pacing_bps: Some(3e4), ..FlowContext::default() };
    let causes = in_context(slow, context);
    assert!(causes.iter().all(|cause| *cause == Some(Cause::Pacing)), "{causes:?}");
}

/// Nothing arrives after 1 s: the sender of a window still sends probes, a sender with a rate control continues at its rate.
#[test]
fn a_path_that_stops_loses_everything() {
    let stopped = |row: &mut FlowSample| {
        row.pacing_rate_bps = Some(100_000_000);
        row.bytes_sent = Some(row.time_us.min(2_000_000) * 12);
        row.bytes_received = Some(row.time_us.min(1_000_000) * 12);
    };
    for context in [
        FlowContext::default(),
        FlowContext { is_rate_controlled: true, ..FlowContext::default() },
        FlowContext { is_rate_controlled: true, pacing_bps: Some(1e8), ..FlowContext::default() },
    ] {
        let causes = in_context(stopped, context);
        assert!(causes[..99].iter().all(|cause| *cause != Some(Cause::Loss)), "{causes:?}");
        // After the minimum retransmission timeout.
        assert!(causes[120..].iter().all(|cause| *cause == Some(Cause::Loss)), "{causes:?}");
        // The receiver's counter is unknown.
        let unknown = |row: &mut FlowSample| {
            stopped(row);
            (row.bytes_acked, row.bytes_received) = (row.bytes_received, None);
        };
        let causes = in_context(unknown, FlowContext::default());
        assert!(causes.iter().all(|cause| *cause != Some(Cause::Loss)), "{causes:?}");
    }
}

/// A file transfer whose window is full all the time, and whose sender waits for its file for this share of it.
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

#[test]
fn data_that_waits_without_a_full_window_is_paced_or_limited_by_the_host() {
    let paced = |row: &mut FlowSample| {
        row.pacing_rate_bps = Some(520_000_000);
        row.total_retrans_segs = Some(1);
    };
    all(&flow(0.5e9, paced), Cause::Pacing);
    all(&flow(0.5e9, |_| {}), Cause::HostCpu);
}

/// A window is sent in a burst of half a round trip; the samples of 10 ms of a 20 ms path fall into it or after it.
#[test]
fn a_sample_within_a_burst_has_the_limit_of_the_burst() {
    let turns = |is_filled: fn(i64) -> bool, set: fn(&mut FlowSample)| {
        flow(0.5e9, move |row| {
            row.unacked_segs = Some(900);
            if is_filled(row.time_us / 10_000) {
                set(row);
            }
        })
    };
    let window = |row: &mut FlowSample| row.snd_wnd_bytes = Some(900 * MSS);
    let buffer = |row: &mut FlowSample| row.notsent_bytes = Some(0);
    all(&turns(|i| i % 2 == 0, window), Cause::ReceiveWindow);
    all(&turns(|i| i % 4 == 3, buffer), Cause::SendBuffer);
    // A host that rarely sends a whole window is the limit.
    let rarely = turns(|i| i % 50 == 25, window);
    assert!(rarely.iter().filter(|cause| **cause == Cause::HostCpu).count() > 80, "{rarely:?}");
    // A reader that keeps the window closed is another reason.
    let reader = |row: &mut FlowSample| {
        row.snd_wnd_bytes = Some(900 * MSS);
        row.rcv_queue_bytes = Some(9_000_000);
    };
    let slow = turns(|i| i % 2 == 0, reader);
    assert!(!slow.contains(&Cause::ReceiveWindow), "{slow:?}");
}

#[test]
fn a_pipe_that_refills_is_limited_by_its_link() {
    // Full until 0.5 s, then silent for two round trips, then full again.
    let causes = arriving(|ms| (ms.min(500) + (ms - 540).max(0)) * 119_500, |_| {});
    let at = |ms: usize| causes[ms / 10 - 1];
    assert_eq!(at(520), Cause::HostCpu, "nothing is sent, for no visible reason");
    assert_eq!(at(540), Cause::PathRate);
    assert_eq!(at(900), Cause::PathRate);
}

/// A flow over a path that is not described.
fn measured(set: impl Fn(i64, &mut FlowSample)) -> Vec<Cause> {
    let context = FlowContext { name: "f".into(), unknown_path: true, ..FlowContext::default() };
    let row = |i: i64| {
        let mut row = FlowSample {
            time_us: i * 10_000,
            flow: "f".into(),
            ca_state: Some(0),
            snd_mss_bytes: Some(MSS),
            snd_cwnd_segs: Some(1000),
            snd_wnd_bytes: Some(10_000_000),
            unacked_segs: Some(1000),
            notsent_bytes: Some(3_000_000),
            sndbuf_bytes: Some(20_000_000),
            wmem_queued_bytes: Some(19_000_000),
            min_rtt_us: Some(10_000),
            srtt_us: Some(10_200),
            rttvar_us: Some(100),
            total_retrans_segs: Some(7),
            bytes_acked: Some(i * 500_000),
            ..FlowSample::default()
        };
        set(i, &mut row);
        row
    };
    let mut rows: Vec<FlowSample> = (0..100).map(row).collect();
    decide(&mut rows, &LinkRows::default(), &context);
    rows[1..].iter().map(|r| r.limited_by.unwrap()).collect()
}

#[test]
fn a_standing_queue_means_a_full_path() {
    all(&measured(|_, row| row.srtt_us = Some(40_000)), Cause::PathRate);
    all(&measured(|_, _| {}), Cause::Loss);
    // A window that is sent as one burst queues behind itself.
    let window = |srtt| {
        move |_, row: &mut FlowSample| {
            (row.snd_wnd_bytes, row.srtt_us) = (Some(1000 * MSS), Some(srtt));
        }
    };
    all(&measured(window(14_000)), Cause::ReceiveWindow);
    all(&measured(window(25_000)), Cause::PathRate);
    // Wi-Fi: the round-trip time is far above the minimum, and its variation is large too.
    let varies = |_, row: &mut FlowSample| (row.srtt_us, row.rttvar_us) = (Some(16_000), Some(5_000));
    all(&measured(varies), Cause::Loss);
}

#[test]
fn a_paced_flow_that_no_longer_grows_has_the_rate_of_the_path() {
    let bbr = |i: i64, row: &mut FlowSample| {
        row.unacked_segs = Some(500);
        row.total_retrans_segs = Some(0);
        row.pacing_rate_bps = Some(400_000_000);
        // Twice as much each 10 ms, the round trip, until 200 ms.
        row.bytes_acked = Some(if i < 20 { 1 << i } else { (1 << 20) + (i - 20) * 500_000 });
    };
    let causes = measured(bbr);
    all(&causes[30..90], Cause::PathRate);
    let starting = |i: i64, row: &mut FlowSample| {
        bbr(i, row);
        row.bytes_acked = Some((1.07_f64.powi(i as i32) * 1e4) as i64);
        row.pacing_rate_bps = Some(1_000);
    };
    let grows = measured(starting);
    assert!(grows[10..90].iter().all(|cause| *cause == Cause::SlowStart), "{grows:?}");
}

#[test]
fn in_virtual_time_nothing_waits_for_a_host() {
    let context = FlowContext { name: "f".into(), virtual_time: true, ..FlowContext::default() };
    for (queued, expected) in [(90_000, Cause::SendBuffer), (10_000, Cause::Pacing)] {
        let waiting = |time_us| FlowSample {
            time_us,
            flow: "f".into(),
            snd_mss_bytes: Some(1000),
            unacked_segs: Some(40),
            snd_cwnd_segs: Some(100),
            notsent_bytes: Some(50_000),
            sndbuf_bytes: Some(100_000),
            wmem_queued_bytes: Some(queued),
            ..FlowSample::default()
        };
        let mut rows = [waiting(0), waiting(100_000)];
        decide(&mut rows, &LinkRows::default(), &context);
        assert_eq!(rows[1].limited_by, Some(expected));
    }
}

/// 1 Mb/s is two segments in 23 ms, and the round-trip time is 0.3 ms.
#[test]
fn packets_that_are_many_round_trips_apart_are_paced() {
    let row = |i: i64| FlowSample {
        time_us: i * 10_000,
        flow: "f".into(),
        ca_state: Some(0),
        snd_mss_bytes: Some(MSS),
        snd_cwnd_segs: Some(10),
        snd_wnd_bytes: Some(400_000),
        unacked_segs: Some(0),
        notsent_bytes: Some(80_000),
        sndbuf_bytes: Some(92_000),
        wmem_queued_bytes: Some(90_000),
        srtt_us: Some(300),
        pacing_rate_bps: Some(1_000_000),
        bytes_acked: Some(1 + i * 10 / 23 * 2 * MSS),
        ..FlowSample::default()
    };
    for virtual_time in [true, false] {
        let context = FlowContext { virtual_time, pacing_bps: Some(1e6), ..FlowContext::default() };
        let causes = labels((0..100).map(row).collect(), context);
        assert!(causes[1..].iter().all(|cause| *cause == Some(Cause::Pacing)), "{virtual_time}: {causes:?}");
    }
}

#[test]
fn an_unknown_sender_stays_unlabelled() {
    let mut rows = vec![
        FlowSample { flow: "f".into(), ..FlowSample::default() },
        FlowSample { flow: "f".into(), ..FlowSample::default() },
    ];
    decide(&mut rows, &LinkRows::default(), &FlowContext { name: "f".into(), ..FlowContext::default() });
    assert!(rows.iter().all(|r| r.limited_by.is_none()));
}

/// A full path that is not described, and a path on which some packets skip half of the delay.
#[test]
fn packets_that_overtake_others_do_not_show_a_queue() {
    let causes = |min_rtt_us: fn(i64) -> i64, srtt_us: fn(i64) -> i64| {
        let rows: Vec<FlowSample> = (0..100i64)
            .map(|i| FlowSample {
                time_us: i * 10_000,
                flow: "f".into(),
                ca_state: Some(0),
                snd_mss_bytes: Some(MSS),
                snd_cwnd_segs: Some(100),
                snd_wnd_bytes: Some(10_000_000),
                unacked_segs: Some(100),
                notsent_bytes: Some(3_000_000),
                sndbuf_bytes: Some(20_000_000),
                wmem_queued_bytes: Some(19_000_000),
                srtt_us: Some(srtt_us(i)),
                min_rtt_us: Some(min_rtt_us(i)),
                total_retrans_segs: Some(i / 10),
                bytes_acked: Some(i * 100_000),
                ..FlowSample::default()
            })
            .collect();
        labels_between_hosts(rows).into_iter().skip(20).map(Option::unwrap).collect::<Vec<_>>()
    };
    let overtaken = |i| if i < 5 { 20_000 } else { 10_000 };
    all(&causes(overtaken, |_| 20_100), Cause::Loss);
    all(&causes(overtaken, |i| if i < 5 { 20_000 } else { 40_000 }), Cause::PathRate);
    all(&causes(overtaken, |i| if i < 15 { 10_000 } else { 20_100 }), Cause::PathRate);
    all(&causes(|_| 10_000, |_| 20_100), Cause::PathRate);
}

/// A send buffer that is written at once each 90 ms: its 400 kB take 36 ms on a path of 90 Mb/s, and queue behind themselves.
#[test]
fn the_queue_of_a_flows_own_bursts_does_not_show_a_full_path() {
    let causes = |cycle_ms: i64| {
        let in_burst = |ms: i64| (ms % cycle_ms).min(36);
        let rows: Vec<FlowSample> = (0..200i64)
            .map(|i| {
                let ms = i * 10;
                let sent = ms / cycle_ms * 36 + in_burst(ms);
                let is_waiting = in_burst(ms) == 36;
                FlowSample {
                    time_us: ms * 1000,
                    flow: "f".into(),
                    ca_state: Some(0),
                    snd_mss_bytes: Some(MSS),
                    snd_cwnd_segs: Some(1000),
                    snd_wnd_bytes: Some(10_000_000),
                    unacked_segs: Some(if is_waiting { 70 } else { 270 }),
                    notsent_bytes: Some(0),
                    sndbuf_bytes: Some(65_536),
                    wmem_queued_bytes: Some(100_000),
                    srtt_us: Some(38_000),
                    min_rtt_us: Some(20_000),
                    total_retrans_segs: Some(0),
                    bytes_received: Some(sent * 11_250),
                    ..FlowSample::default()
                }
            })
            .collect();
        labels_between_hosts(rows).into_iter().skip(1).map(Option::unwrap).collect::<Vec<_>>()
    };
    all(&causes(90), Cause::SendBuffer);
    // The next burst arrives before the queue is empty.
    all(&causes(37), Cause::PathRate);
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

#[test]
fn a_link_that_is_full_of_acks_limits_a_flow() {
    let link = PathLink {
        name: "l".into(),
        direction: LinkDirection::Backward,
        rate_bps: 60e3,
        rate_changes: Vec::new(),
    };
    let links: Vec<LinkSample> = (0..100i64)
        .map(|i| LinkSample {
            time_us: i * 10_000,
            link: "l".into(),
            direction: LinkDirection::Backward,
            sent_bytes: Some(i * 75),
            ..LinkSample::default()
        })
        .collect();
    let path = [link];
    assert_eq!(crate::full_link(&path, &LinkRows::of(&links), 0, 990_000), Some(&path[0]));
    assert_eq!(
        crate::full_link(&path, &LinkRows::of(&links[..1]), 0, 990_000),
        None,
        "one sample shows no rate"
    );
    let faster = [PathLink { rate_bps: 70e3, ..path[0].clone() }];
    assert_eq!(crate::full_link(&faster, &LinkRows::of(&links), 0, 990_000), None);

    let rows = |full_ack_link| {
        let rows: Vec<FlowSample> = (0..100i64)
            .map(|i| FlowSample {
                time_us: i * 10_000,
                flow: "f".into(),
                ca_state: Some(3),
                snd_mss_bytes: Some(MSS),
                snd_cwnd_segs: Some(100),
                snd_wnd_bytes: Some(10_000_000),
                unacked_segs: Some(100),
                notsent_bytes: Some(3_000_000),
                ..FlowSample::default()
            })
            .collect();
        let context = FlowContext { full_ack_link, ..FlowContext::default() };
        labels(rows, context).into_iter().skip(1).map(Option::unwrap).collect::<Vec<_>>()
    };
    all(&rows(None), Cause::Loss);
    all(&rows(Some(path[0].clone())), Cause::PathRate);
}
