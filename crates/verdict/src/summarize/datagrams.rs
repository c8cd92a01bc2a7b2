//! Counts and one-way delays of datagrams.

use schema::{FlowSample, FlowSummary};

/// The receiver's counts as of the last sample. The mean delay counts each datagram once.
pub(super) fn datagrams(rows: &[&FlowSample], summary: &mut FlowSummary) {
    let Some(last) = rows.last() else { return };
    let count = |value: Option<i64>| value.and_then(|n| u64::try_from(n).ok());
    summary.datagrams_sent = count(last.datagrams_sent);
    summary.datagrams_lost = count(last.datagrams_lost);
    summary.datagrams_reordered = count(last.datagrams_reordered);
    summary.datagrams_duplicated = count(last.datagrams_duplicated);
    if let (Some(lost), Some(received)) = (last.datagrams_lost, last.datagrams_received)
        && lost + received > 0
    {
        summary.loss_share = Some(lost as f64 / (lost + received) as f64);
    }
    let float = |value: Option<i64>| value.map(|us| us as f64);
    summary.min_owd_us = float(last.min_owd_us);
    summary.max_owd_us = float(last.max_owd_us);
    summary.jitter_us = float(last.jitter_us);
    let (mut sum, mut known, mut before) = (0.0, 0, 0);
    for row in rows {
        let received = row.datagrams_received.unwrap_or(before);
        if let Some(owd) = row.owd_us {
            sum += owd as f64 * (received - before) as f64;
            known += received - before;
        }
        before = received;
    }
    summary.mean_owd_us = (known > 0).then(|| (sum / known as f64).round());
}

#[cfg(test)]
mod tests {
    use schema::FlowKind;

    use super::*;
    use crate::{FlowContext, FlowTimes, summarize};

    #[test]
    fn a_udp_flow_has_the_counts_of_its_receiver() {
        let sample = |i: i64, received, owd| FlowSample {
            time_us: i * 10_000,
            flow: "u".into(),
            goodput_bps: Some(8_000_000),
            datagrams_sent: Some(12 * i),
            datagrams_received: Some(received),
            datagrams_lost: Some(2 * i),
            owd_us: Some(owd),
            min_owd_us: Some(10),
            max_owd_us: Some(40),
            jitter_us: Some(i),
            ..FlowSample::default()
        };
        let rows = [sample(1, 10, 10), sample(2, 20, 20), sample(3, 60, 40)];
        let times = FlowTimes {
            kind: FlowKind::Udp,
            started_us: Some(0),
            ended_us: Some(30_000),
            bytes: 30_000,
            ..FlowTimes::default()
        };
        let context = FlowContext { name: "u".into(), ..FlowContext::default() };
        let summary = summarize(&rows, &[], &times, &context);
        assert_eq!(summary.goodput_bps, Some(8e6));
        assert_eq!((summary.datagrams_sent, summary.datagrams_lost), (Some(36), Some(6)));
        assert_eq!(summary.loss_share, Some(6.0 / 66.0));
        let owds = (summary.min_owd_us, summary.mean_owd_us, summary.max_owd_us);
        assert_eq!(owds, (Some(10.0), Some(32.0), Some(40.0)), "1900 over 60 datagrams");
        assert_eq!((summary.jitter_us, summary.verdict, summary.mean_rtt_us), (Some(3.0), None, None));
    }
}
