//! Whether a run measured a published figure reliably. The figure decides which disturbances matter: one
//! stall of 20 ms does not affect a goodput over 20 s, but invalidates a round trip that was in progress.

use scenario::{LinkMetric, Metric, MetricPath, Published};
use schema::{FlowSummary, LinkDirection, RunSummary};

use crate::run_figure::{figure, published_value};

/// Why a figure of a run is unreliable.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Unreliability {
    /// One sentence each; empty if the figure is reliable.
    pub faults: Vec<String>,
    /// The machine disturbed the run: another try can be reliable.
    pub disturbed: bool,
}

impl Unreliability {
    /// Whether the figure is unreliable.
    pub fn has_faults(&self) -> bool {
        !self.faults.is_empty()
    }

    /// Adds the reasons of another run for the same figure.
    pub fn merge(&mut self, other: Unreliability) {
        self.disturbed |= other.disturbed;
        self.faults.extend(other.faults);
        self.faults.dedup();
    }
}

/// Why the figure of `run` for `published` is unreliable; without faults if it is reliable.
pub fn judge(published: &Published, run: &RunSummary) -> Unreliability {
    if !run.quality.is_reliable() {
        return Unreliability {
            faults: run.quality.reasons().to_vec(),
            disturbed: run.quality.is_disturbed(),
        };
    }
    // The comparison is of several runs: no single one decides.
    if published.is_across_variants() {
        return Unreliability::default();
    }
    if stalls_can_decide(published, run) {
        return Unreliability {
            faults: vec![format!(
                "the emulator stalled for up to {:.1} ms ({:.1} ms in total), which may have changed {}",
                run.quality.stalled_max_us.unwrap_or(0.0) / 1000.0,
                run.quality.stalled_total_us.unwrap_or(0.0) / 1000.0,
                published.metric_path()
            )],
            disturbed: true,
        };
    }
    // On a busy machine, agreement counts as evidence, a miss does not.
    let is_missed = published_value(published, run).and_then(|ours| published.agrees(ours)) == Some(false);
    busy(run).filter(|_| is_missed).unwrap_or_default()
}

/// The load of other programs during a run, if it was so high that a missed figure proves nothing.
pub fn busy(run: &RunSummary) -> Option<Unreliability> {
    let share = run.quality.other_programs_cpu.unwrap_or(0.0);
    let faults = vec![format!("other programs used {:.0} % of the processors", share * 100.0)];
    run.quality.is_busy().then_some(Unreliability { faults, disturbed: true })
}

/// Whether the comparison with the published figure depends on the amount that stalls can have added to the
/// measured one.
fn stalls_can_decide(published: &Published, run: &RunSummary) -> bool {
    let Some(value) = published.value else { return false };
    let ends = |of: &MetricPath| {
        figure(of, run).map(|ours| [ours, ours - excess(of, run), ours + shortfall(of, run)])
    };
    let Some(figures) = ends(&published.figure) else { return false };
    let others = match &published.over {
        None => [1.0; 3],
        Some(over) => match ends(over) {
            Some(ends) => ends,
            None => return false,
        },
    };
    let mut sides =
        figures.iter().flat_map(|ours| others.map(|other| ours / other)).filter(|ours| ours.is_finite()).map(
            |ours| match published.agrees(ours) {
                Some(true) => 0,
                _ if ours > value => 1,
                _ => -1,
            },
        );
    let first = sides.next();
    sides.any(|side| Some(side) != first)
}

/// Maximum amount that stalls can have added to a figure, in its unit. Zero for figures over many packets:
/// stalls that keep a run's quality ok do not affect them. One delayed round trip is one of many, and the
/// clock of a goodput stops with the emulator.
fn excess(figure: &MetricPath, run: &RunSummary) -> f64 {
    let seconds = |us: Option<f64>| us.unwrap_or(0.0) * 1e-6;
    let total = seconds(run.quality.stalled_total_us);
    match figure {
        MetricPath::Flow { flow, metric } => {
            let Some(flow) = run.flows.iter().find(|f| f.name == *flow) else { return 0.0 };
            let is_ping = flow.pings_sent.is_some();
            match metric {
                Metric::MdevRtt => deviation_change(flow, total),
                Metric::FirstRtt => seconds(flow.first_rtt_stalled_us),
                Metric::MaxRtt if is_ping => seconds(flow.max_rtt_stalled_us),
                Metric::MaxRtt => total,
                Metric::MeanRtt => {
                    // A stall delays the echoes in flight, and at least one.
                    let echoes = flow.pings_sent.unwrap_or(0).saturating_sub(flow.pings_lost.unwrap_or(0));
                    let in_flight = seconds(flow.mean_rtt_us) / run.duration_s.max(1e-9);
                    let one = if is_ping { 1.0 / echoes.max(1) as f64 } else { 0.0 };
                    total * (in_flight + one).min(1.0)
                }
                _ => 0.0,
            }
        }
        MetricPath::Link { link, direction, metric: LinkMetric::MaxQueue } => {
            let direction = LinkDirection::from(direction.name());
            let link = run.links.iter().find(|l| l.name == *link && l.direction == direction);
            let rate_bps = link.and_then(|link| link.rate_bps).unwrap_or(0.0);
            rate_bps / 8.0 * seconds(run.quality.stalled_max_us)
        }
        MetricPath::Link { .. } | MetricPath::Run(_) | MetricPath::ClosedForm { .. } => 0.0,
    }
}

/// Maximum amount that stalls can have subtracted from a figure, in its unit: they can make a standard
/// deviation smaller too.
fn shortfall(figure: &MetricPath, run: &RunSummary) -> f64 {
    let MetricPath::Flow { flow, metric: Metric::MdevRtt } = figure else { return 0.0 };
    let total = run.quality.stalled_total_us.unwrap_or(0.0) * 1e-6;
    run.flows.iter().find(|f| f.name == *flow).map_or(0.0, |flow| deviation_change(flow, total))
}

/// Maximum change of the standard deviation of echoes by delays of `total` seconds together: a vector of
/// added delays is at most as long as their sum, and the deviation is a length divided by the square root of
/// the number.
fn deviation_change(flow: &FlowSummary, total: f64) -> f64 {
    let echoes = flow.pings_sent.unwrap_or(0).saturating_sub(flow.pings_lost.unwrap_or(0));
    total / (echoes.max(1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use scenario::ScenarioFile;
    use schema::{FlowKind, Quality, Reliability};

    use super::*;

    fn published(metric: &str, value: &str) -> Published {
        let text = format!(
            "duration = \"5s\"\nhosts.a.address = \"10.0.0.1/24\"\nhosts.b.address = \"10.0.0.2/24\"\n\
             [[links]]\nends = [\"a\", \"b\"]\n[[flows]]\nname = \"p\"\nkind = \"ping\"\nfrom = \"a\"\nto = \"b\"\n\
             [[published]]\nid = \"X\"\nmetric = \"flows.p.{metric}\"\nvalue = \"{value}\"\ntolerance = \"10%\"\n"
        );
        ScenarioFile::parse("x.toml", &text).unwrap().published()[0].clone()
    }

    /// A ping run whose first echo took `first_ms`, of which the emulator stalled for `stalled_ms`; another
    /// stall of 5 ms came later. The longest echo and the mean are as given.
    fn run(first_ms: f64, stalled_ms: f64) -> RunSummary {
        let flow = FlowSummary {
            name: "p".into(),
            kind: FlowKind::Ping,
            pings_sent: Some(20),
            pings_lost: Some(0),
            first_rtt_us: Some(first_ms * 1e3),
            first_rtt_stalled_us: Some(stalled_ms * 1e3),
            max_rtt_us: Some(first_ms * 1e3),
            max_rtt_stalled_us: Some(stalled_ms * 1e3),
            median_rtt_us: Some(20_100.0),
            mean_rtt_us: Some(22_100.0),
            ..FlowSummary::default()
        };
        let total_us = (stalled_ms + 5.0) * 1e3;
        RunSummary {
            flows: vec![flow],
            quality: Quality {
                reliability: Reliability::Reliable,
                stalls: Some(2),
                stalled_max_us: Some(stalled_ms * 1e3),
                stalled_total_us: Some(total_us),
                ..Quality::default()
            },
            ..serde_json::from_str::<schema::Summary>(record::EXAMPLE_SUMMARY).unwrap().runs.remove(0)
        }
    }

    #[test]
    fn a_first_echo_during_a_stall_is_unreliable_and_the_median_is_not() {
        let first = published("first_rtt", "41.132ms");
        // An observed case: 59.9 ms, 20 of them a stall, in a run whose quality was ok.
        let unreliable = judge(&first, &run(59.9, 20.0));
        assert!(unreliable.has_faults() && unreliable.disturbed, "{unreliable:?}");
        assert!(unreliable.faults[0].contains("first_rtt"), "{unreliable:?}");
        assert!(unreliable.faults[0].contains("20.0 ms"), "{unreliable:?}");
        assert!(judge(&published("max_rtt", "41.132ms"), &run(59.9, 20.0)).has_faults());
        assert!(!judge(&published("median_rtt", "20.1ms"), &run(59.9, 20.0)).has_faults());
    }

    #[test]
    fn a_figure_that_stalls_cannot_explain_is_reliable() {
        let first = published("first_rtt", "41.132ms");
        assert!(!judge(&first, &run(41.1, 0.0)).has_faults(), "no stall during the round trip");
        assert!(!judge(&first, &run(41.9, 1.0)).has_faults(), "within tolerance with and without the stall");
        assert!(!judge(&first, &run(90.0, 2.0)).has_faults(), "missed with and without the stall");
        // 37.5 ms is within tolerance; without the stall, 30 ms would be too short.
        assert!(judge(&first, &run(37.5, 7.5)).has_faults());
        assert!(!judge(&published("mean_rtt", "22ms"), &run(41.1, 0.0)).has_faults(), "5 ms over 20 echoes");
        assert!(
            judge(&published("mean_rtt", "20ms"), &run(41.1, 10.0)).has_faults(),
            "15 ms over 20 echoes decide"
        );
    }

    /// Observed: 7.584 ms where 9.111 ms is published, five echoes, 21.1 ms of stalls.
    #[test]
    fn stalls_make_a_standard_deviation_larger_or_smaller() {
        let of = |mdev_ms: f64, stalled_ms: f64| {
            let mut one = run(41.1, stalled_ms);
            one.flows[0].mdev_rtt_us = Some(mdev_ms * 1e3);
            one.flows[0].pings_sent = Some(5);
            judge(&published("mdev_rtt", "9.111ms"), &one).disturbed
        };
        assert!(of(7.584, 16.1) && of(10.6, 16.1));
        assert!(!of(3.0, 1.0), "missed by more than 6 ms of stalls can change");
    }

    #[test]
    fn a_miss_on_a_busy_machine_is_unreliable() {
        let busy = |share| {
            let mut one = run(90.0, 0.0);
            one.quality.other_programs_cpu = Some(share);
            one
        };
        let missed = judge(&published("first_rtt", "41.132ms"), &busy(0.6));
        assert!(missed.disturbed && missed.faults[0].contains("60 %"), "{missed:?}");
        assert!(!judge(&published("first_rtt", "41.132ms"), &busy(0.03)).has_faults(), "a quiet machine");
        assert!(!judge(&published("median_rtt", "20.1ms"), &busy(0.6)).has_faults(), "agreement");
    }

    #[test]
    fn a_run_of_bad_quality_is_unreliable_for_every_figure() {
        let mut bad = run(41.1, 0.0);
        bad.quality.add_fault("late".into());
        let of = |bad: &RunSummary| judge(&published("median_rtt", "20.1ms"), bad);
        assert_eq!(of(&bad), Unreliability { faults: vec!["late".into()], disturbed: false });
        bad.quality.reliability = Reliability::Disturbed;
        assert!(of(&bad).disturbed);
    }
}
