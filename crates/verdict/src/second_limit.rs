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
const WINDOWS: [Cause; 2] = [Cause::ReceiveWindow, Cause::SendBuffer];
/// The other window is a second limit if it limits at least this share of the samples: which of the two has
/// more changes from run to run.
pub(crate) const MIN_OTHER_WINDOW_SHARE: f64 = 0.1;
/// Another lasting limit is a second limit if it limits at least this share of the samples.
const MIN_OTHER_LIMIT_SHARE: f64 = 0.25;
/// Causes that reduce the congestion window, which then grows until the path is full: both take turns.
pub(crate) const REDUCTIONS: [Cause; 3] = [Cause::Loss, Cause::EcnMarks, Cause::LocalQueue];
/// A reduction and the path's rate are both limits where each has at least this share of the samples.
const MIN_SHARE_IN_TURN: f64 = 0.35;
/// The other window is a second limit where it is larger than the first by less than this share.
const MAX_WINDOW_EXCESS: f64 = 0.15;

/// The second limit, in addition to the verdict: the one with the largest share of the others, or a window or
/// buffer that is hardly larger than the one that is filled. Losses and slow start are phases of a flow, not
/// lasting limits, so a verdict of one of them has no second limit, except where the flow is by turns reduced
/// and limited by the path.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summarize::tests::{judged, row};

    /// `first` in every sample but each `n`th, which is `second`.
    fn turns(first: Cause, second: Cause, n: i64) -> Vec<FlowSample> {
        (50..450).map(|i| row(i, if i % n == 0 { second } else { first })).collect()
    }

    #[test]
    fn windows_that_alternate_are_both_limits() {
        let (receive, send) = (Cause::ReceiveWindow, Cause::SendBuffer);
        for (first, second, n, expected) in [
            (send, receive, 2, Some(receive)),
            (send, receive, 3, Some(receive)),
            (receive, send, 4, Some(send)),
            (receive, send, 8, Some(send)),
            (receive, send, 20, None),
            (receive, Cause::PathRate, 3, Some(Cause::PathRate)),
            (receive, Cause::PathRate, 8, None),
            (receive, Cause::Loss, 3, None),
            (Cause::Loss, Cause::PathRate, 2, Some(Cause::PathRate)),
            (Cause::EcnMarks, Cause::PathRate, 2, Some(Cause::PathRate)),
            (Cause::Loss, Cause::PathRate, 3, None),
            (Cause::PathRate, Cause::Loss, 3, None),
            (Cause::SlowStart, Cause::PathRate, 3, None),
        ] {
            let buffer = crate::Buffer::Tuned([4096, 131_072, 16_777_216]);
            let context =
                FlowContext { send_buffer: buffer.clone(), receive_buffer: buffer, ..FlowContext::default() };
            let summary = judged(&turns(first, second, n), context);
            let both = [summary.verdict, summary.verdict_also];
            assert!(both.contains(&Some(first)), "{first:?} {second:?} {n}: {both:?}");
            if n == 2 {
                assert!(both.contains(&Some(second)));
            } else {
                assert_eq!(summary.verdict_also, expected, "{first:?} {second:?} {n}");
            }
            if expected.is_some_and(|cause| WINDOWS.contains(&cause)) {
                let remedy = summary.remedy.unwrap();
                assert!(remedy.contains("tcp_rmem") && remedy.contains("tcp_wmem"), "{remedy}");
                assert!(summary.evidence[0].starts_with("two limits apply: "), "{:?}", summary.evidence);
            }
        }
    }

    #[test]
    fn a_window_that_is_hardly_larger_is_a_second_limit() {
        let buffer = || crate::Buffer::Tuned([4096, 131_072, 2_000_000]);
        let context = |send, receive| FlowContext {
            send_buffer: send,
            receive_buffer: receive,
            ..FlowContext::default()
        };
        // 900,000 bytes are in flight, the window is `window`, and `waiting` bytes are in the buffer beside
        // them.
        let rows = |cause, window, waiting| -> Vec<FlowSample> {
            let set = |i| FlowSample {
                snd_wnd_bytes: Some(window),
                notsent_bytes: Some(waiting),
                sndbuf_bytes: Some(2_000_000),
                ..row(i, cause)
            };
            (50..450).map(set).collect()
        };
        let also = |rows: &[FlowSample], context| judged(rows, context).verdict_also;
        let receive = Cause::ReceiveWindow;
        assert_eq!(
            also(&rows(receive, 900_000, 90_000), context(buffer(), buffer())),
            Some(Cause::SendBuffer)
        );
        assert_eq!(also(&rows(receive, 900_000, 500_000), context(buffer(), buffer())), None);
        // The buffer can still grow.
        let large = crate::Buffer::Tuned([4096, 131_072, 20_000_000]);
        assert_eq!(also(&rows(receive, 900_000, 90_000), context(large.clone(), buffer())), None);
        let send = Cause::SendBuffer;
        assert_eq!(also(&rows(send, 1_000_000, 0), context(buffer(), buffer())), Some(receive));
        assert_eq!(also(&rows(send, 1_200_000, 0), context(buffer(), buffer())), None);
        assert_eq!(also(&rows(send, 1_000_000, 0), context(buffer(), large)), None);
    }
}
