//! Whether a run measured a published figure reliably. What counts as a disturbance depends on the figure: one stall of 20 ms says
//! nothing against a goodput over 20 s, but all against a round trip that was under way.

use scenario::{Figure, LinkMetric, Metric, Published};
use schema::RunSummary;

use crate::published::{figure, value};

/// Why a figure of a run is unreliable.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Unreliable {
    /// One sentence each; empty where the figure is reliable.
    pub faults: Vec<String>,
    /// The machine disturbed the run: it may be reliable another time.
    pub disturbed: bool,
}

impl Unreliable {
    /// True where there is a reason.
    pub fn is_so(&self) -> bool {
        !self.faults.is_empty()
    }

    /// Adds the reasons of another run for the same figure.
    pub fn merge(&mut self, other: Unreliable) {
        self.disturbed |= other.disturbed;
        self.faults.extend(other.faults);
        self.faults.dedup();
    }
}

/// Why what `run` gives for `published` is unreliable.
pub fn judge(published: &Published, run: &RunSummary) -> Unreliable {
    if !run.quality.ok {
        return Unreliable { faults: run.quality.reasons().to_vec(), disturbed: run.quality.disturbed };
    }
    if stalls_can_decide(published, run) {
        return Unreliable {
            faults: vec![format!(
                "the emulator stalled for up to {:.1} ms ({:.1} ms in total), which can have changed {}",
                run.quality.stalled_max_us.unwrap_or(0.0) / 1000.0,
                run.quality.stalled_total_us.unwrap_or(0.0) / 1000.0,
                published.metric_path()
            )],
            disturbed: true,
        };
    }
    // Agreement in spite of it proves something, a miss does not.
    let is_missed = value(published, run).and_then(|ours| published.agrees(ours)) == Some(false);
    if is_missed && run.quality.is_busy() {
        return Unreliable {
            faults: vec![format!(
                "other programs used {:.0} % of the processors",
                run.quality.other_programs_cpu.unwrap_or(0.0) * 100.0
            )],
            disturbed: true,
        };
    }
    Unreliable::default()
}

/// True where the figure with and without what stalls can have added to it compares differently with the published one.
fn stalls_can_decide(published: &Published, run: &RunSummary) -> bool {
    let Some(value) = published.value else { return false };
    let ends = |of: &Figure| figure(of, run).map(|ours| [ours, ours - excess(of, run)]);
    let Some(figures) = ends(&published.figure) else { return false };
    let others = match &published.over {
        None => [1.0, 1.0],
        Some(over) => match ends(over) {
            Some(ends) => ends,
            None => return false,
        },
    };
    let sides: Vec<i8> = figures
        .iter()
        .flat_map(|ours| others.map(|other| ours / other))
        .filter(|ours| ours.is_finite())
        .map(|ours| match published.agrees(ours) {
            Some(true) => 0,
            _ if ours > value => 1,
            _ => -1,
        })
        .collect();
    sides.windows(2).any(|pair| pair[0] != pair[1])
}

/// How much stalls can have added to a figure, in its unit. Figures over many packets have nothing to fear of stalls that leave a
/// run's quality ok: a round trip that took longer is one of many, and a goodput goes by a clock that stops with the emulator.
fn excess(figure: &Figure, run: &RunSummary) -> f64 {
    let seconds = |us: Option<f64>| us.unwrap_or(0.0) * 1e-6;
    let total = seconds(run.quality.stalled_total_us);
    match figure {
        Figure::Flow { flow, metric } => {
            let Some(flow) = run.flows.iter().find(|f| f.name == *flow) else { return 0.0 };
            let is_ping = flow.pings_sent.is_some();
            match metric {
                Metric::FirstRtt => seconds(flow.first_rtt_stalled_us),
                Metric::MaxRtt if is_ping => seconds(flow.max_rtt_stalled_us),
                Metric::MaxRtt => total,
                Metric::MeanRtt => {
                    // A stall holds up what is on the way, and one echo in any case.
                    let echoes = flow.pings_sent.unwrap_or(0).saturating_sub(flow.pings_lost.unwrap_or(0));
                    let on_the_way = seconds(flow.mean_rtt_us) / run.duration_s.max(1e-9);
                    let one = if is_ping { 1.0 / echoes.max(1) as f64 } else { 0.0 };
                    total * (on_the_way + one).min(1.0)
                }
                _ => 0.0,
            }
        }
        Figure::Link { link, reversed, metric: LinkMetric::MaxQueue } => {
            let direction = if *reversed { "backward" } else { "forward" };
            let link = run.links.iter().find(|l| l.name == *link && l.direction == direction);
            let rate_bps = link.and_then(|link| link.rate_bps).unwrap_or(0.0);
            rate_bps / 8.0 * seconds(run.quality.stalled_max_us)
        }
        Figure::Link { .. } | Figure::Run(_) | Figure::Form { .. } => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use scenario::ScenarioFile;
    use schema::{FlowSummary, Quality};

    use super::*;

    fn published(metric: &str, value: &str) -> Published {
        let text = format!(
            "duration = \"5s\"\nhosts.a.address = \"10.0.0.1/24\"\nhosts.b.address = \"10.0.0.2/24\"\n\
             [[links]]\nends = [\"a\", \"b\"]\n[[flows]]\nname = \"p\"\nkind = \"ping\"\nfrom = \"a\"\nto = \"b\"\n\
             [[published]]\nid = \"X\"\nmetric = \"flows.p.{metric}\"\nvalue = \"{value}\"\ntolerance = \"10%\"\n"
        );
        ScenarioFile::parse("x.toml", &text).unwrap().published()[0].clone()
    }

    /// A ping run whose first echo took `first_ms`, of which the emulator stalled for `stalled_ms`; another stall of 5 ms came
    /// later. The longest echo and the mean are as given.
    fn run(first_ms: f64, stalled_ms: f64) -> RunSummary {
        let flow = FlowSummary {
            name: "p".into(),
            kind: "ping".into(),
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
                ok: true,
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
        // As it was seen: 59.9 ms, 20 of them a stall, in a run whose quality was ok.
        let seen = judge(&first, &run(59.9, 20.0));
        assert!(seen.is_so() && seen.disturbed, "{seen:?}");
        assert!(seen.faults[0].contains("first_rtt") && seen.faults[0].contains("20.0 ms"), "{seen:?}");
        assert!(judge(&published("max_rtt", "41.132ms"), &run(59.9, 20.0)).is_so());
        assert!(!judge(&published("median_rtt", "20.1ms"), &run(59.9, 20.0)).is_so());
    }

    #[test]
    fn a_figure_that_stalls_cannot_explain_is_reliable() {
        let first = published("first_rtt", "41.132ms");
        assert!(!judge(&first, &run(41.1, 0.0)).is_so(), "no stall while it was under way");
        assert!(!judge(&first, &run(41.9, 1.0)).is_so(), "within either way");
        assert!(!judge(&first, &run(90.0, 2.0)).is_so(), "missed either way");
        // 37.5 is within, and without the stall 30 would be too little.
        assert!(judge(&first, &run(37.5, 7.5)).is_so());
        assert!(!judge(&published("mean_rtt", "22ms"), &run(41.1, 0.0)).is_so(), "5 ms over 20 echoes");
        assert!(
            judge(&published("mean_rtt", "20ms"), &run(41.1, 10.0)).is_so(),
            "15 ms over 20 echoes decide"
        );
    }

    #[test]
    fn a_miss_on_a_busy_machine_is_no_miss() {
        let busy = |share| {
            let mut one = run(90.0, 0.0);
            one.quality.other_programs_cpu = Some(share);
            one
        };
        let missed = judge(&published("first_rtt", "41.132ms"), &busy(0.6));
        assert!(missed.disturbed && missed.faults[0].contains("60 %"), "{missed:?}");
        assert!(!judge(&published("first_rtt", "41.132ms"), &busy(0.03)).is_so(), "a quiet machine");
        assert!(!judge(&published("median_rtt", "20.1ms"), &busy(0.6)).is_so(), "agreement");
    }

    #[test]
    fn a_run_of_bad_quality_is_unreliable_for_every_figure() {
        let mut bad = run(41.1, 0.0);
        bad.quality.add_fault("late".into());
        let of = |bad: &RunSummary| judge(&published("median_rtt", "20.1ms"), bad);
        assert_eq!(of(&bad), Unreliable { faults: vec!["late".into()], disturbed: false });
        bad.quality.disturbed = true;
        assert!(of(&bad).disturbed);
    }
}
