//! The verdict in words: the evidence, and the exact setting where the limit is a setting.
//!
//! `windows.rs` explains the peer's window and the send buffer (`buffers.rs` has the remedy), `path.rs` full
//! paths, `congestion_window.rs` losses, marks and slow start, `stopped_path.rs` paths that drop everything,
//! `own_device.rs` drops of the sender's device, `application.rs` slow applications and files, `host.rs` busy
//! hosts; `rate_control.rs` has what differs for UDT and Tsunami. Pacing is explained here.

mod application;
mod buffers;
mod congestion_window;
mod host;
mod own_device;
mod path;
mod rate_control;
mod stopped_path;
mod windows;

use schema::{Cause, Fix, FlowSample, FlowSummary};
use units::{BitRate, Bytes, Time, three_digits};

use crate::{FlowContext, StartOfFlow, second_limit::REDUCTIONS, series::mean};
pub use host::busiest_load;

/// Fills in `evidence`, `remedy` and `fixes` of a summary whose figures and verdict are known. `rows` are the
/// samples that the verdict is based on.
pub(crate) fn explain(
    rows: &[&FlowSample],
    start: &StartOfFlow,
    context: &FlowContext,
    summary: &mut FlowSummary,
) {
    let Some(cause) = summary.verdict else { return };
    let share = summary
        .limited_steady
        .largest()
        .map_or(summary.limited.share(cause), |c| summary.limited_steady.share(c));
    let facts = Facts::new(rows, context, summary, share);
    let Explanation { evidence, remedy, fixes } = match cause {
        Cause::HostCpu if context.is_rate_controlled => rate_control::host_cpu(&facts, rows, context),
        Cause::ReceiveWindow if context.is_rate_controlled => rate_control::receive_window(&facts, context),
        Cause::Loss if context.is_rate_controlled => rate_control::loss(&facts, rows, context, summary),
        Cause::SlowStart if context.is_rate_controlled => rate_control::slow_start(&facts, summary),
        Cause::ReceiveWindow => windows::receive_window(&facts, rows, context, summary),
        Cause::SendBuffer => windows::send_buffer(&facts, rows, context, summary),
        Cause::PathRate => path::path_rate(&facts, context, summary),
        Cause::Loss => congestion_window::loss(&facts, rows, context, summary),
        Cause::EcnMarks => congestion_window::ecn_marks(&facts, rows),
        Cause::LocalQueue => own_device::local_queue(&facts, rows, context, summary),
        Cause::SlowStart => congestion_window::slow_start(&facts, start, summary),
        Cause::Application => application::explain(&facts, rows, context),
        Cause::Pacing => pacing(&facts, context),
        Cause::HostCpu => host::host_cpu(&facts, rows, context),
    };
    summary.evidence = second_limit(cause, summary, context).into_iter().chain(evidence).collect();
    summary.remedy = remedy;
    summary.fixes = fixes;
}

/// Names the second limit, if there is one, and states that removing only one of the two gains little.
fn second_limit(cause: Cause, summary: &FlowSummary, context: &FlowContext) -> Option<String> {
    let also = summary.verdict_also?;
    let name = |cause: Cause| match cause {
        Cause::ReceiveWindow => format!("the receive window of {}", context.to),
        Cause::SendBuffer => format!("the send buffer of {}", context.from),
        Cause::PathRate => "the rate of the path".into(),
        Cause::Application => "the application".into(),
        Cause::Pacing => "the pacing rate".into(),
        Cause::HostCpu => "the hosts' processors".into(),
        Cause::Loss => "losses".into(),
        Cause::EcnMarks => "ECN marks".into(),
        other => other.name().replace('_', " "),
    };
    let limited =
        if summary.limited_steady.largest().is_some() { &summary.limited_steady } else { &summary.limited };
    let share = |cause| limited.share(cause) * 100.0;
    let shares = match share(also) >= 1.0 {
        true => format!("{:.0} and {:.0} % of the samples", share(cause), share(also)),
        false => "the second is less than 15 % larger".into(),
    };
    let named = [cause, also];
    if let Some(reduction) = named.iter().find(|cause| REDUCTIONS.contains(cause)) {
        return Some(format!(
            "two limits take turns: {} reduced the congestion window, and it grew until the path was full again ({shares})",
            name(*reduction)
        ));
    }
    Some(format!(
        "two limits apply: {} and {} ({shares}); removing only one gains little",
        name(cause),
        name(also)
    ))
}

/// Means over the samples, ready to be printed.
struct Facts {
    share: String,
    in_flight: Bytes,
    window: Bytes,
    send_buffer: Bytes,
    queued: Bytes,
    unread: Bytes,
    pacing: Option<BitRate>,
    /// On a path that is not described: the minimum and the mean round-trip time, where they differ.
    queue: Option<(Time, Time)>,
    kernel_counters: Option<String>,
}

impl Facts {
    fn new(rows: &[&FlowSample], context: &FlowContext, summary: &FlowSummary, share: f64) -> Self {
        let bytes = |value: fn(&FlowSample) -> Option<i64>| {
            Bytes(three_digits(mean(rows.iter().filter_map(|r| value(r)).map(|v| v as f64)).unwrap_or(0.0)))
        };
        let settled = summary.steady_from_s.map_or(String::new(), |s| format!(" after {s:.1} s"));
        Facts {
            share: format!("in {:.0} % of the samples{settled}", share * 100.0),
            in_flight: bytes(|r| Some(r.unacked_segs? * r.snd_mss_bytes?)),
            window: bytes(|r| r.snd_wnd_bytes),
            send_buffer: bytes(|r| r.sndbuf_bytes),
            queued: bytes(|r| r.wmem_queued_bytes),
            unread: bytes(|r| r.rcv_queue_bytes),
            pacing: mean(rows.iter().filter_map(|r| r.pacing_rate_bps).map(|v| v as f64))
                .map(|bps| BitRate(three_digits(bps))),
            queue: standing_queue(rows).filter(|_| context.unknown_path),
            kernel_counters: kernel_counters(rows),
        }
    }
}

/// The minimum and the mean round-trip time, where they differ.
fn standing_queue(rows: &[&FlowSample]) -> Option<(Time, Time)> {
    let min = rows.iter().filter_map(|row| row.min_rtt_us).min()?;
    let mean = mean(rows.iter().filter_map(|row| row.srtt_us).map(|us| us as f64))? as i64;
    let time = |us: i64| Time::from_micros(three_digits(us as f64));
    (mean > min).then(|| (time(min), time(mean)))
}

/// The limits of the sender according to the kernel's counters (tcp_info's chronographs), for comparison.
fn kernel_counters(rows: &[&FlowSample]) -> Option<String> {
    let (first, last) = (rows.first()?, rows.last()?);
    let share = |value: fn(&FlowSample) -> Option<i64>| {
        let busy = (last.busy_time_us? - first.busy_time_us?) as f64;
        (busy > 0.0).then_some(())?;
        Some(((value(last)? - value(first)?) as f64 / busy * 100.0).clamp(0.0, 100.0))
    };
    let window = share(|r| r.rwnd_limited_us)?;
    let buffer = share(|r| r.sndbuf_limited_us)?;
    Some(format!(
        "the kernel's counters, for comparison: rwnd_limited {window:.0} %, sndbuf_limited {buffer:.0} % of the busy time"
    ))
}

/// A cause in words.
#[derive(Default)]
struct Explanation {
    evidence: Vec<String>,
    remedy: Option<String>,
    fixes: Vec<Fix>,
}

fn pacing(facts: &Facts, context: &FlowContext) -> Explanation {
    let option = match context.pacing_option.as_str() {
        "" => "pacing",
        option => option,
    };
    let requested = context.pacing_bps.map(|bps| BitRate(three_digits(bps)));
    let evidence = match requested {
        Some(requested) if context.generator.is_some() => {
            format!(
                "{} the sender sent at its requested rate of {requested} ({option}), and no window was full",
                facts.share
            )
        }
        _ => {
            let rate = facts.pacing.map_or(String::new(), |rate| format!(" at {rate}"));
            format!("{} data waited for the pacing timer{rate}, and no window was full", facts.share)
        }
    };
    let remedy = requested.map(|_| format!("remove {option}, or raise it"));
    Explanation { evidence: vec![evidence], remedy, ..Explanation::default() }
}

fn exact(bytes: u64) -> String {
    format!("{} bytes", units::group_digits(bytes))
}

#[cfg(test)]
mod tests {
    use schema::{Limited, LinkDirection};

    use super::*;
    use crate::{Buffer, PathLink};

    /// A flow from h1 to h2 over a path of 10 Gb/s and 20 ms, which the receive window limits.
    pub(super) fn lab8(receive_buffer: Buffer) -> (FlowContext, FlowSummary) {
        let context = FlowContext {
            name: "bulk".into(),
            from: "h1".into(),
            to: "h2".into(),
            path: vec![PathLink {
                name: "s1-s2".into(),
                direction: LinkDirection::Forward,
                rate_bps: 10e9,
                rate_changes: Vec::new(),
            }],
            receive_buffer,
            ..FlowContext::default()
        };
        let summary = FlowSummary {
            verdict: Some(Cause::ReceiveWindow),
            min_rtt_us: Some(20_020.0),
            limited_steady: Limited { receive_window: 0.97, loss: 0.03, ..Limited::default() },
            window_share: Some(0.793),
            steady_from_s: Some(0.4),
            ..FlowSummary::default()
        };
        (context, summary)
    }
}
