//! The settings with which a flow began, as far as its first samples show them.

use schema::FlowSample;

/// CUBIC's HyStart ends slow start, and so sets the threshold without a loss, only from this window on
/// (`HYSTART_LOW_WINDOW`, net/ipv4/tcp_cubic.c): fewer segments were delivered while the threshold is that of
/// the beginning.
const MAX_DELIVERED_AT_START_SEGS: i64 = 16;

/// The beginning of a flow; unknown where its first sample is later.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StartOfFlow {
    /// The initial congestion window, segments.
    pub initial_window_segs: Option<i64>,
    /// The slow-start threshold, segments, if a cache or a route set it.
    pub ssthresh_segs: Option<i64>,
}

impl StartOfFlow {
    /// The beginning of the flow with these samples, in order of time.
    pub fn of(rows: &[&FlowSample]) -> Self {
        let sampled = |row: &&&FlowSample| row.snd_cwnd_segs.is_some();
        let Some(first) = rows.iter().find(sampled).filter(|row| is_untouched(row)) else {
            return StartOfFlow::default();
        };
        // The window has grown by each delivered segment, except the SYN, which counts as delivered too
        // (`tcp_clean_rtx_queue`).
        let initial = first
            .snd_cwnd_segs
            .zip(first.delivered_segs)
            .map(|(cwnd, delivered)| cwnd - (delivered - 1).max(0));
        StartOfFlow {
            initial_window_segs: initial.filter(|window| *window > 0),
            ssthresh_segs: first.snd_ssthresh_segs,
        }
    }
}

/// Whether neither a loss nor HyStart can have changed the window yet.
fn is_untouched(row: &FlowSample) -> bool {
    row.total_retrans_segs.unwrap_or(0) == 0
        && row.ca_state.unwrap_or(0) == 0
        && row.delivered_ce_segs.unwrap_or(0) == 0
        && row.delivered_segs.is_some_and(|delivered| delivered < MAX_DELIVERED_AT_START_SEGS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(delivered: i64, cwnd: i64, ssthresh: Option<i64>) -> FlowSample {
        FlowSample {
            delivered_segs: Some(delivered),
            snd_cwnd_segs: Some(cwnd),
            snd_ssthresh_segs: ssthresh,
            ..FlowSample::default()
        }
    }

    #[test]
    fn a_threshold_in_the_first_samples_was_cached() {
        let start = |row: FlowSample| StartOfFlow::of(&[&row]);
        let cached = start(row(2, 11, Some(10)));
        assert_eq!(cached, StartOfFlow { initial_window_segs: Some(10), ssthresh_segs: Some(10) });
        assert_eq!(start(row(2, 2, None)).initial_window_segs, Some(1));
        // After the handshake only the SYN is delivered.
        assert_eq!(start(row(1, 10, None)).initial_window_segs, Some(10));
        // HyStart, a loss or an earlier time may have set it.
        assert_eq!(start(row(20, 30, Some(30))), StartOfFlow::default());
        let lost = FlowSample { total_retrans_segs: Some(1), ..row(1, 11, Some(5)) };
        assert_eq!(start(lost), StartOfFlow::default());
    }
}
