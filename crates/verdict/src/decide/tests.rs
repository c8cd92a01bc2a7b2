//! Labels of constructed flows, sample by sample, in files by the rules of `decide.rs`: `ends.rs` has rules 2
//! and 3 and the hosts, `congestion_window.rs` rule 4, `pacing.rs` rules 5 to 7, `path.rs` rule 1.
//! `captures.rs` has flows of which columns are unknown. The flows are here.

mod captures;
mod congestion_window;
mod ends;
mod pacing;
mod path;

use schema::{LinkDirection, LinkSample};

use super::*;
use crate::PathLink;

pub(super) const MSS: i64 = 1448;

/// A flow at 10 ms samples over a 20 ms path of 1 Gb/s that gets `goodput_bps`; `set` changes each row.
fn flow(goodput_bps: f64, set: impl Fn(&mut FlowSample)) -> Vec<Cause> {
    arriving(|ms| (goodput_bps / 8.0 * ms as f64 * 1e-3) as i64, set)
}

/// The causes of a flow's samples, as [`flow`] has them, where the receiver's bytes are a function of the
/// milliseconds since the start.
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

/// The labels from sample `first` on, of which none is unknown.
fn known(labels: Vec<Option<Cause>>, first: usize) -> Vec<Cause> {
    labels.into_iter().skip(first).map(Option::unwrap).collect()
}

/// The labels, from the second sample on, of a flow whose congestion window is full; `set` changes each row.
pub(super) fn in_context(set: impl Fn(&mut FlowSample), context: FlowContext) -> Vec<Option<Cause>> {
    let row = |i: i64| {
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
    };
    labels((0..300).map(row).collect(), context).split_off(1)
}

/// A flow over a path that is not described.
fn measured(set: impl Fn(i64, &mut FlowSample)) -> Vec<Cause> {
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
    known(labels_between_hosts((0..100).map(row).collect()), 1)
}

fn all(causes: &[Cause], expected: Cause) {
    let wrong = causes.iter().filter(|c| **c != expected).count();
    assert_eq!(wrong, 0, "{wrong} of {} samples are not {expected:?}: {causes:?}", causes.len());
}

#[test]
fn an_unknown_sender_stays_unlabelled() {
    let rows = vec![FlowSample { flow: "f".into(), ..FlowSample::default() }; 2];
    assert!(labels(rows, FlowContext::default()).iter().all(Option::is_none));
}
