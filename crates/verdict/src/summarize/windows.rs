//! The congestion window and the receive window.

use schema::FlowSample;

/// The time average of the congestion window: each sample holds until the next.
pub(super) fn mean_cwnd(rows: &[&FlowSample]) -> Option<u64> {
    let windows: Vec<(i64, f64)> =
        rows.iter().filter_map(|r| Some((r.time_us, r.cwnd_bytes()? as f64))).collect();
    let (first, last) = (windows.first()?, windows.last()?);
    let area: f64 = windows.windows(2).map(|pair| pair[0].1 * (pair[1].0 - pair[0].0) as f64).sum();
    let span = (last.0 - first.0) as f64;
    Some(if span > 0.0 { area / span } else { last.1 }.round() as u64)
}

/// Seconds from the first retransmission until the effective window, the smaller of the congestion window and
/// the peer's, had recovered its earlier size.
pub(super) fn recovery(rows: &[&FlowSample]) -> Option<f64> {
    let window = |row: &FlowSample| {
        let own = row.cwnd_bytes()?;
        Some(row.snd_wnd_bytes.map_or(own, |peer| own.min(peer)))
    };
    let lost = rows.iter().position(|r| r.total_retrans_segs.is_some_and(|n| n > 0))?;
    let before = window(rows[lost.checked_sub(1)?])?;
    // The sample with the retransmission may precede the one with the smaller window.
    let after = &rows[lost..];
    let fell = after.iter().position(|r| window(r).is_some_and(|w| w < before))?;
    let recovered = after[fell..].iter().find(|r| window(r).is_some_and(|w| w >= before))?;
    Some((recovered.time_us - rows[lost].time_us) as f64 * 1e-6)
}

/// The receive window as a share of the receive buffer, in the last sample that has both.
pub(super) fn window_share(rows: &[&FlowSample]) -> Option<f64> {
    let row = rows.iter().rev().find(|r| r.rcv_wnd_bytes.is_some())?;
    let (window, buffer) = (row.rcv_wnd_bytes?, row.rcvbuf_bytes.filter(|b| *b > 0)?);
    Some((window as f64 / buffer as f64 * 1e4).round() / 1e4)
}

#[cfg(test)]
mod tests {
    use schema::Cause;

    use super::*;
    use crate::summarize::tests::row;

    #[test]
    fn recovery_lasts_until_the_window_has_its_size_before_the_loss() {
        let window = |i: i64| if i < 100 { 900 } else { (400 + i).min(2_000) };
        let sample = |i: i64| FlowSample {
            snd_cwnd_segs: Some(window(i)),
            total_retrans_segs: Some(i64::from(i >= 100)),
            ..row(i, Cause::Loss)
        };
        let rows: Vec<FlowSample> = (0..1_000).map(sample).collect();
        let of = |rows: &[FlowSample]| recovery(&rows.iter().collect::<Vec<_>>());
        // 500 more segments, one a sample.
        assert_eq!(of(&rows), Some(4.0));
        assert_eq!(of(&rows[..450]), None, "not recovered yet");
        assert_eq!(of(&rows[..100]), None, "no loss");
        // A peer's window below both limits the flow all the time.
        let limited: Vec<FlowSample> =
            rows.iter().map(|r| FlowSample { snd_wnd_bytes: Some(300_000), ..r.clone() }).collect();
        assert_eq!(of(&limited), None);
    }
}
