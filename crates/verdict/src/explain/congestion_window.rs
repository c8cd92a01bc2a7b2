//! A full congestion window in words: losses or marks that reduced it, or slow start.

use schema::{FlowSample, FlowSummary};

use super::{Explanation, Facts, stopped_path};
use crate::{FlowContext, StartOfFlow};

/// The remedy for losses on an unknown link.
const FEWER_LOSSES: &str = "if a queue on the path overflows, lengthen it or pace the flow; if none does, find the link that loses \
                            packets (cable, optics, radio, duplex mismatch); bbr slows down less for each loss; longfat diagnose \
                            distinguishes random loss from a short queue";
/// The remedy for a slow-start threshold that no loss has set.
const NO_CACHED_SSTHRESH: &str = "an earlier connection's threshold was cached, or a route sets it: on the sending host `ip tcp_metrics flush` and \
                                  sysctl -w net.ipv4.tcp_no_ssthresh_metrics_save=1; remove ssthresh from `ip route`";
/// The initial window of Linux since 2.6.39 (RFC 6928), segments.
const USUAL_INITIAL_WINDOW_SEGS: i64 = 10;

pub(super) fn loss(
    facts: &Facts,
    rows: &[&FlowSample],
    context: &FlowContext,
    summary: &FlowSummary,
) -> Explanation {
    if summary.bytes == Some(0) && summary.retransmitted_segs.is_some_and(|again| again > 0) {
        return nothing_arrived(context, summary);
    }
    if let Some(stopped) = stopped_path::explain(rows, context) {
        return stopped;
    }
    let mut evidence = vec![format!(
        "{} the congestion window was full, and a loss had reduced it below what the path carries",
        facts.share
    )];
    if let (Some(retransmitted), Some(sent)) =
        (summary.retransmitted_segs, summary.sent_segs.filter(|s| *s > 0))
    {
        evidence.push(format!(
            "{retransmitted} of {sent} segments were retransmitted ({:.3} %)",
            retransmitted as f64 / sent as f64 * 100.0
        ));
    }
    Explanation { evidence, remedy: Some(FEWER_LOSSES.into()), ..Explanation::default() }
}

/// The handshake succeeded, and no data arrived: packets of full size are lost.
fn nothing_arrived(context: &FlowContext, summary: &FlowSummary) -> Explanation {
    let evidence = format!(
        "no data arrived, although the connection was established: each of {} segments was lost",
        summary.sent_segs.unwrap_or_default()
    );
    let remedy = format!(
        "probably the path drops packets of full size without an ICMP error (an MTU black hole); longfat probe mtu {} shows which size \
         passes, and sysctl -w net.ipv4.tcp_mtu_probing=1 on {} lets TCP find it",
        context.to, context.from
    );
    Explanation { evidence: vec![evidence], remedy: Some(remedy), ..Explanation::default() }
}

pub(super) fn ecn_marks(facts: &Facts, rows: &[&FlowSample]) -> Explanation {
    let last = |count: fn(&FlowSample) -> Option<i64>| rows.iter().rev().find_map(|row| count(row));
    let marked = last(|row| row.delivered_ce_segs).unwrap_or(0);
    let of_delivered = last(|row| row.delivered_segs).map_or(String::new(), |count| format!(" of {count}"));
    let evidence = vec![
        format!(
            "{} the congestion window was full ({} in flight), and ECN marks had reduced it",
            facts.share, facts.in_flight
        ),
        format!("{marked}{of_delivered} delivered segments carried a congestion mark (ECN)"),
    ];
    let remedy = "find the queue that marks packets and raise its marking threshold; a congestion control designed for marks \
                  (dctcp, or bbr) slows down less for each";
    Explanation { evidence, remedy: Some(remedy.into()), ..Explanation::default() }
}

pub(super) fn slow_start(facts: &Facts, start: &StartOfFlow, summary: &FlowSummary) -> Explanation {
    let mut evidence =
        vec![format!("{} the congestion window was full and still growing, without any loss", facts.share)];
    if summary.steady_from_s.is_none() {
        evidence.push("the flow ended before its throughput became steady".into());
    }
    if let Some(window) = start.initial_window_segs.filter(|window| *window < USUAL_INITIAL_WINDOW_SEGS) {
        evidence.push(format!(
            "the connection began with a window of {window} segments instead of {USUAL_INITIAL_WINDOW_SEGS} (ip route's initcwnd)"
        ));
    }
    if let Some(threshold) = start.ssthresh_segs {
        evidence.push(format!(
            "the slow-start threshold was {threshold} segments from the beginning: above it the window grows by about one segment a round \
             trip"
        ));
        return Explanation { evidence, remedy: Some(NO_CACHED_SSTHRESH.into()), ..Explanation::default() };
    }
    let remedy = "measure for longer, or transfer more data per connection: slow start doubles the rate in each round trip";
    Explanation { evidence, remedy: Some(remedy.into()), ..Explanation::default() }
}

#[cfg(test)]
mod tests {
    use schema::Cause;

    use super::*;
    use crate::Buffer;
    use crate::explain::{explain, tests::lab8};
    use crate::summarize::tests::{judged, row};

    #[test]
    fn the_path_mtu_is_named_for_a_flow_that_delivered_nothing() {
        let (context, summary) = lab8(Buffer::Unknown);
        let explained = |bytes: u64| {
            let mut summary = FlowSummary {
                verdict: Some(Cause::Loss),
                bytes: Some(bytes),
                sent_segs: Some(16),
                retransmitted_segs: Some(4),
                ..summary.clone()
            };
            explain(&[], &StartOfFlow::default(), &context, &mut summary);
            (summary.evidence, summary.remedy.unwrap())
        };
        let (evidence, remedy) = explained(0);
        assert_eq!(
            evidence,
            ["no data arrived, although the connection was established: each of 16 segments was lost"]
        );
        assert!(
            remedy.contains("longfat probe mtu h2") && remedy.contains("tcp_mtu_probing=1 on h1"),
            "{remedy}"
        );
        let (evidence, remedy) = explained(1);
        assert!(evidence[1].starts_with("4 of 16 segments were retransmitted"), "{evidence:?}");
        assert!(remedy.contains("queue on the path"), "{remedy}");
    }

    #[test]
    fn marks_are_compared_with_the_delivered_segments_if_these_are_known() {
        let (context, summary) = lab8(Buffer::Unknown);
        let evidence = |delivered_segs| {
            let mut summary = FlowSummary { verdict: Some(Cause::EcnMarks), ..summary.clone() };
            let row = FlowSample { delivered_ce_segs: Some(7), delivered_segs, ..FlowSample::default() };
            explain(&[&row], &StartOfFlow::default(), &context, &mut summary);
            summary.evidence[1].clone()
        };
        assert_eq!(evidence(Some(900)), "7 of 900 delivered segments carried a congestion mark (ECN)");
        assert_eq!(evidence(None), "7 delivered segments carried a congestion mark (ECN)");
    }

    #[test]
    fn slow_start_names_a_cached_threshold_and_a_small_initial_window() {
        let rows: Vec<FlowSample> = (0..400)
            .map(|i| FlowSample {
                delivered_segs: Some(i * 100),
                snd_cwnd_segs: Some(2 + i),
                snd_ssthresh_segs: Some(5),
                ..row(i, Cause::SlowStart)
            })
            .collect();
        let summary = judged(&rows, FlowContext::default());
        let evidence = summary.evidence.join("\n");
        assert!(
            evidence.contains("the slow-start threshold was 5 segments from the beginning"),
            "{evidence}"
        );
        assert!(evidence.contains("began with a window of 2 segments instead of 10"), "{evidence}");
        assert!(summary.remedy.unwrap().contains("ip tcp_metrics flush"));
        let infinite: Vec<FlowSample> =
            rows.into_iter().map(|row| FlowSample { snd_ssthresh_segs: None, ..row }).collect();
        let summary = judged(&infinite, FlowContext::default());
        assert!(!summary.evidence.join("\n").contains("threshold"), "{summary:?}");
    }
}
