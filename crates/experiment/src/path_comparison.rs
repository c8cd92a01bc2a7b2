//! Compares the measured path between real hosts with the links of the scenario.

use scenario::{FlowKind, FlowSpec, Scenario};
use schema::{Cause, FlowSummary, PathComparison, PathQuantity};
use units::{BitRate, Time};

use crate::flow_context::FlowPath;

/// A round-trip time agrees with the scenario if it differs by at most this share or by at most
/// [`RTT_ERROR_US`].
const RTT_TOLERANCE: f64 = 0.05;
/// Time that hosts and devices add to a round trip, microseconds.
const RTT_ERROR_US: f64 = 300.0;
/// The rate of a full path agrees with the scenario if it is at most this share below the scenario's rate,
/// and at most [`RATE_ABOVE`] above it.
const RATE_BELOW: f64 = 0.05;
const RATE_ABOVE: f64 = 0.02;
/// The share of lost segments agrees with the scenario if it differs by at most this factor.
const LOSS_FACTOR: f64 = 3.0;
/// The flow fills a queue if the median of its round-trip times is above this multiple of the smallest.
const QUEUED_RTT_RATIO: f64 = 1.2;
/// Minimum share of lost segments, measured or expected, that is compared.
const MIN_LOSS: f64 = 1e-6;

/// Compares the path with the scenario, as far as the flows reveal its properties.
pub(crate) fn compare(scenario: &Scenario, flows: &[FlowSummary]) -> Vec<PathComparison> {
    let mut all = Vec::new();
    for (spec, flow) in scenario.flows.iter().zip(flows) {
        let Some(path) = FlowPath::of(scenario, spec) else { continue };
        if let Some(measured) = flow.min_rtt_us {
            let expected = path.rtt.as_nanos() as f64 / 1e3;
            let tolerance = (RTT_TOLERANCE * expected).max(RTT_ERROR_US);
            all.push(PathComparison {
                flow: flow.name.clone(),
                quantity: PathQuantity::Rtt,
                expected,
                measured,
                is_as_expected: (measured - expected).abs() <= tolerance,
            });
        }
        // Flows that share the path share its rate, and fill its queues until packets are lost.
        let is_data = |one: &FlowSpec| !matches!(one.kind, FlowKind::Ping(_));
        if !matches!(spec.kind, FlowKind::Tcp(_))
            || scenario.flows.iter().filter(|one| is_data(one)).count() > 1
        {
            continue;
        }
        all.extend(rate(flow));
        all.extend(loss(flow, path.loss()));
    }
    all
}

/// Compares the path's rate, if the flow filled the path or was faster than the scenario's path.
fn rate(flow: &FlowSummary) -> Option<PathComparison> {
    let (expected, measured) = (flow.wire_limit_bps?, flow.steady_goodput_bps?);
    let is_full = flow.verdict == Some(Cause::PathRate);
    let is_faster = measured > expected * (1.0 + RATE_ABOVE);
    (is_full || is_faster).then(|| PathComparison {
        flow: flow.name.clone(),
        quantity: PathQuantity::Rate,
        expected,
        measured,
        is_as_expected: !is_faster && measured >= expected * (1.0 - RATE_BELOW),
    })
}

/// Compares the path's loss, if losses limited the flow and it filled no queue.
fn loss(flow: &FlowSummary, expected: f64) -> Option<PathComparison> {
    let (retransmitted, sent) = (flow.retransmitted_segs?, flow.sent_segs.filter(|sent| *sent > 0)?);
    let measured = retransmitted as f64 / sent as f64;
    let is_limit = [flow.verdict, flow.verdict_also].contains(&Some(Cause::Loss));
    // Losses of a queue that the flow itself fills are not a property of the path.
    let has_queue =
        flow.median_rtt_us.zip(flow.min_rtt_us).is_some_and(|(median, min)| median > QUEUED_RTT_RATIO * min);
    (is_limit && !has_queue && measured.max(expected) >= MIN_LOSS).then(|| PathComparison {
        flow: flow.name.clone(),
        quantity: PathQuantity::Loss,
        expected,
        measured,
        is_as_expected: measured <= expected * LOSS_FACTOR && measured * LOSS_FACTOR >= expected,
    })
}

/// Describes how the path of a run differs from the scenario's; `None` if no compared quantity differs.
pub(crate) fn difference(comparisons: &[PathComparison]) -> Option<String> {
    let differences = differences(comparisons);
    (!differences.is_empty())
        .then(|| format!("the path is not as the scenario describes it: {}", differences.join("; ")))
}

/// The quantities that differ, as in `the smallest round-trip time of bulk is 31 ms; the scenario has 20 ms`.
fn differences(comparisons: &[PathComparison]) -> Vec<String> {
    let text = |one: &PathComparison| {
        let (what, measured, expected) = match one.quantity {
            PathQuantity::Rtt => {
                let ms = |us: f64| Time::from_nanos((us.round() * 1e3) as u64).to_string();
                ("smallest round-trip time", ms(one.measured), ms(one.expected))
            }
            PathQuantity::Rate => {
                let rate = |bps: f64| BitRate((bps / 1e5).round() as u64 * 100_000).to_string();
                ("goodput of the full path", rate(one.measured), rate(one.expected))
            }
            PathQuantity::Loss => {
                ("share of retransmitted segments", share(one.measured), share(one.expected))
            }
        };
        format!("the {what} of {} is {measured}; the scenario has {expected}", one.flow)
    };
    comparisons.iter().filter(|one| !one.is_as_expected).map(text).collect()
}

/// The result of the comparisons, as in
/// `The path is not as the scenario describes it: the smallest round-trip time of bulk is 25.1 ms; the scenario has 20 ms.`;
/// `None` without comparisons.
pub fn sentence(comparisons: &[PathComparison]) -> Option<String> {
    if comparisons.is_empty() {
        return None;
    }
    let differences = differences(comparisons);
    let compared = |quantity: PathQuantity, what: &'static str| {
        comparisons.iter().any(|one| one.quantity == quantity).then_some(what)
    };
    let quantities: Vec<&str> = [
        compared(PathQuantity::Rtt, "round-trip time"),
        compared(PathQuantity::Rate, "rate"),
        compared(PathQuantity::Loss, "loss"),
    ]
    .into_iter()
    .flatten()
    .collect();
    Some(match differences.is_empty() {
        true => format!("The path is as the scenario describes it (compared: {}).", quantities.join(", ")),
        false => format!("The path is not as the scenario describes it: {}.", differences.join("; ")),
    })
}

fn share(value: f64) -> String {
    format!("{:.2e}", value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario() -> Scenario {
        let text = r#"
            duration = "5s"
            hosts.h1.address = "10.0.0.1/24"
            hosts.h2.address = "10.0.0.2/24"
            [[links]]
            ends = ["h1", "h2"]
            forward = { rate = "100mbit", delay = "20ms" }
            [[flows]]
            name = "bulk"
            from = "h1"
            to = "h2"
        "#;
        scenario::ScenarioFile::parse("s", text).unwrap().resolve(None, &[]).unwrap()
    }

    fn sentence_of(flow: FlowSummary) -> String {
        let flow = FlowSummary { name: "bulk".into(), wire_limit_bps: Some(95e6), ..flow };
        sentence(&compare(&scenario(), &[flow])).unwrap()
    }

    #[test]
    fn a_path_that_agrees_with_the_scenario_is_reported() {
        let flow = FlowSummary {
            min_rtt_us: Some(20_100.0),
            steady_goodput_bps: Some(94e6),
            verdict: Some(Cause::PathRate),
            ..FlowSummary::default()
        };
        assert_eq!(
            sentence_of(flow),
            "The path is as the scenario describes it (compared: round-trip time, rate)."
        );
    }

    #[test]
    fn each_difference_is_named() {
        let slow = FlowSummary {
            min_rtt_us: Some(30_000.0),
            steady_goodput_bps: Some(47e6),
            verdict: Some(Cause::PathRate),
            ..FlowSummary::default()
        };
        let text = sentence_of(slow);
        assert!(text.contains("30 ms; the scenario has 20 ms") && text.contains("47 Mb/s"), "{text}");
        // A flow that is limited by its window does not reveal the path's rate.
        let limited = FlowSummary {
            steady_goodput_bps: Some(47e6),
            min_rtt_us: Some(20_000.0),
            verdict: Some(Cause::ReceiveWindow),
            ..FlowSummary::default()
        };
        assert_eq!(
            sentence_of(limited),
            "The path is as the scenario describes it (compared: round-trip time)."
        );
        let lossy = FlowSummary {
            min_rtt_us: Some(20_000.0),
            retransmitted_segs: Some(100),
            sent_segs: Some(10_000),
            verdict: Some(Cause::Loss),
            ..FlowSummary::default()
        };
        assert!(sentence_of(lossy).contains("1.00e-2; the scenario has 0.00e0"));
    }
}
