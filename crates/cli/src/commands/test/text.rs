//! The verdict of a test as text: the causes that limited each stream with their durations, the evidence, and
//! the fix.

use schema::{Cause, FlowSummary, Limited};

use measurement::{steadiness::Estimate, test::RecordedTest};

/// Minimum share of the time of a cause that is shown.
const MIN_SHOWN_SHARE: f64 = 0.01;
/// Maximum number of streams that are shown one by one; more are summarized.
const MAX_STREAMS_SHOWN: usize = 4;

/// The text after the figures.
pub fn text(kept: &RecordedTest) -> String {
    let run = &kept.run;
    let flows: Vec<&FlowSummary> = run.flows.iter().filter(|flow| flow.verdict.is_some()).collect();
    let mut lines = Vec::new();
    if flows.len() <= MAX_STREAMS_SHOWN {
        for flow in flows {
            let both = flow.verdict_also.and(view::words::limits(flow));
            let both = both.map_or(String::new(), |both| format!("; two limits: {both}"));
            let causes = causes(&flow.limited, run.duration_s);
            lines.push(format!("\n{} was limited by: {causes}{both}", flow.name));
            lines.extend(reasons(flow));
        }
    } else {
        let shares: Vec<Limited> = flows.iter().map(|flow| flow.limited).collect();
        let mean = Limited::mean(&shares);
        lines.push(format!(
            "\n{} streams were limited, on average, by: {}",
            flows.len(),
            causes(&mean, run.duration_s)
        ));
        // The example is a stream limited by the most frequent cause.
        let example = flows.iter().find(|flow| flow.verdict == mean.largest());
        if let Some(flow) = example {
            lines.push(format!("such as {}:", flow.name));
            lines.extend(reasons(flow));
        }
    }
    let seen_here = run.flows.iter().filter_map(|flow| Some((flow, flow.receiver_verdict.as_ref()?)));
    for (flow, verdict) in seen_here.take(MAX_STREAMS_SHOWN) {
        lines.push(format!("\n{}", view::table::receiver_verdict(&flow.name, verdict)));
    }
    match &kept.steady {
        Some(Some(estimate)) => lines.push(
            format!(
                "\nsteady goodput {} within {:.1} % (95 % confidence, {} loss epochs since {:.1} s)",
                view::number::rate(estimate.goodput_bps),
                estimate.precision * 100.0,
                estimate.epochs,
                estimate.from_s
            ) + &more_time(estimate),
        ),
        Some(None) => lines.push("\nno steady state during the test".into()),
        None => {}
    }
    lines.extend(kept.path.iter().map(|path| format!("record: {}", path.display())));
    lines.join("\n")
}

/// Duration that a test needs for a precise result, if this one was too short.
fn more_time(estimate: &Estimate) -> String {
    match estimate.is_precise() {
        true => String::new(),
        false => format!(
            "\nit varies too much to be known within 2 %: that would take about {} of testing",
            view::number::seconds(estimate.needed_s())
        ),
    }
}

/// The evidence, and the fix.
fn reasons(flow: &FlowSummary) -> impl Iterator<Item = String> {
    let evidence = flow.evidence.iter().map(|evidence| format!("  {evidence}"));
    evidence.chain(view::table::fix(flow).lines().map(str::to_owned).collect::<Vec<_>>())
}

/// `receive window 9.4 s (94 %), slow start 0.4 s (4 %)`: the largest share first.
fn causes(limited: &Limited, duration_s: f64) -> String {
    let mut causes = Cause::ALL.map(|cause| (cause, limited.share(cause)));
    causes.sort_by(|a, b| b.1.total_cmp(&a.1));
    let shown = causes.iter().filter(|(_, share)| *share >= MIN_SHOWN_SHARE).map(|(cause, share)| {
        format!("{} {:.1} s ({:.0} %)", view::words::cause(*cause), share * duration_s, share * 100.0)
    });
    shown.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use schema::{EngineName, Quality, RunSummary};

    use super::*;

    fn kept(flows: usize) -> RecordedTest {
        let flow = |n: usize| {
            let cause = if n.is_multiple_of(4) { Cause::Loss } else { Cause::ReceiveWindow };
            let mut limited = Limited::default();
            *limited.share_mut(cause) = 1.0;
            FlowSummary {
                name: format!("stream-{n}"),
                limited,
                verdict: Some(cause),
                evidence: vec![format!("{} is why", cause.name())],
                ..FlowSummary::default()
            }
        };
        let run = RunSummary {
            id: String::new(),
            engine: EngineName::Test,
            variant: None,
            kernel: None,
            sysctl_defaults: None,
            file: None,
            set: Default::default(),
            sweep: Default::default(),
            record: None,
            repeat: 1,
            seed: 0,
            duration_s: 10.0,
            wall_s: 10.0,
            started: String::new(),
            partial: false,
            flows: (0..flows).map(flow).collect(),
            links: Vec::new(),
            hosts: Vec::new(),
            fairness_jain: None,
            quality: Quality::default(),
            part_of: None,
            discarded: Vec::new(),
            path: Vec::new(),
        };
        RecordedTest { run, path: None, steady: None, rows: Vec::new(), dropped_here: 0 }
    }

    #[test]
    fn few_streams_are_listed_one_by_one() {
        let text = text(&kept(2));
        assert!(text.contains("stream-0 was limited by: loss 10.0 s (100 %)\n  loss is why"), "{text}");
        assert!(text.contains("stream-1 was limited by: receive window 10.0 s"), "{text}");
    }

    #[test]
    fn many_streams_are_summarized() {
        let text = text(&kept(8));
        let expected = "8 streams were limited, on average, by: receive window 7.5 s (75 %), loss 2.5 s (25 %)\n\
                        such as stream-1:\n  receive_window is why";
        assert!(text.contains(expected), "{text}");
        assert_eq!(text.matches("is why").count(), 1);
    }
}
