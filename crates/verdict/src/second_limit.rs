//! The second limit of a flow, in addition to its verdict.

use schema::{Cause, FlowSample, Limited};

use crate::{FlowContext, series::mean};

/// Limits that can apply for as long as a flow runs.
const LASTING_LIMITS: [Cause; 6] = [
    Cause::ReceiveWindow,
    Cause::SendBuffer,
    Cause::PathRate,
    Cause::Application,
    Cause::Pacing,
    Cause::HostCpu,
];
/// The lasting limits that are windows.
pub(crate) const WINDOWS: [Cause; 2] = [Cause::ReceiveWindow, Cause::SendBuffer];
/// The other window is a second limit if it limits at least this share of the samples: which of the two has more changes from
/// run to run.
pub(crate) const MIN_OTHER_WINDOW_SHARE: f64 = 0.1;
/// Another lasting limit is a second limit if it limits at least this share of the samples.
const MIN_OTHER_LIMIT_SHARE: f64 = 0.25;
/// Causes that reduce the congestion window, which then grows until the path is full: both take turns.
pub(crate) const REDUCTIONS: [Cause; 3] = [Cause::Loss, Cause::EcnMarks, Cause::LocalQueue];
/// A reduction and the path's rate are both limits where each has at least this share of the samples.
const MIN_SHARE_IN_TURN: f64 = 0.35;
/// The other window is a second limit where it is larger than the first by less than this share.
const MAX_WINDOW_EXCESS: f64 = 0.15;

/// The second limit, in addition to the verdict: the one with the largest share of the others, or a window or buffer
/// that is hardly larger than the one that is filled. Losses and slow start are phases of a flow, not lasting
/// limits, so a verdict of one of them has no second limit, except where the flow is by turns reduced and
/// limited by the path.
pub(crate) fn second_limit(
    verdict: Cause,
    limited: &Limited,
    rows: &[&FlowSample],
    context: &FlowContext,
) -> Option<Cause> {
    let is_often = |cause: &Cause| limited.share(*cause) >= MIN_SHARE_IN_TURN;
    if REDUCTIONS.contains(&verdict) {
        return Some(Cause::PathRate).filter(is_often);
    }
    if verdict == Cause::PathRate
        && let Some(reduction) = REDUCTIONS.into_iter().find(is_often)
    {
        return Some(reduction);
    }
    if !LASTING_LIMITS.contains(&verdict) {
        return None;
    }
    let needed = |cause| {
        if WINDOWS.contains(&verdict) && WINDOWS.contains(&cause) {
            MIN_OTHER_WINDOW_SHARE
        } else {
            MIN_OTHER_LIMIT_SHARE
        }
    };
    let others = LASTING_LIMITS
        .into_iter()
        .filter(|cause| *cause != verdict && limited.share(*cause) >= needed(*cause));
    let largest = others.max_by(|a, b| limited.share(*a).total_cmp(&limited.share(*b)));
    largest.or_else(|| similar_window(verdict, rows, context))
}

/// The other window, where it is nearly as small as the first and has reached the maximum of its setting.
fn similar_window(verdict: Cause, rows: &[&FlowSample], context: &FlowContext) -> Option<Cause> {
    let bytes = |value: fn(&FlowSample) -> Option<i64>| {
        mean(rows.iter().filter_map(|row| value(row)).map(|v| v as f64))
    };
    let outstanding = bytes(|row| Some(row.unacked_segs? * row.snd_mss_bytes?))?;
    match verdict {
        Cause::ReceiveWindow => {
            // The data in the send buffer beyond the window.
            let waiting = bytes(|row| row.notsent_bytes)?;
            let is_full = context.send_buffer.is_exhausted(bytes(|row| row.sndbuf_bytes)?);
            (is_full && waiting <= MAX_WINDOW_EXCESS * outstanding).then_some(Cause::SendBuffer)
        }
        Cause::SendBuffer => {
            let window = bytes(|row| row.snd_wnd_bytes)?;
            let is_full = context.receive_buffer.is_exhausted(bytes(|row| row.rcvbuf_bytes)?);
            (is_full && window <= (1.0 + MAX_WINDOW_EXCESS) * outstanding).then_some(Cause::ReceiveWindow)
        }
        _ => None,
    }
}
