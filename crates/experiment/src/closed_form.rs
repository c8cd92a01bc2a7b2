//! Published figures that need no run: closed forms for a flow's path. `longfat bdp` prints the same figures.

use model::report::{ReportInputs, report};
use scenario::{FlowKind, MetricPath, Published, Scenario};
use units::{Bytes, KernelVersion, Time};

use crate::flow_context::FlowPath;

/// Evaluates the closed form of a published figure in `scenario`, one of its variants. `None` if the figure
/// has no closed form, or if the path has no rate or no delay.
pub fn closed_form(scenario: &Scenario, published: &Published, kernel: KernelVersion) -> Option<f64> {
    let value = |figure: &MetricPath| {
        let MetricPath::ClosedForm { flow, key } = figure else { return None };
        let inputs = inputs(scenario, flow, published.window, kernel)?;
        let figures = report(&inputs).into_iter().flat_map(|group| group.figures);
        figures.into_iter().find(|f| f.key == *key).map(|f| f.value)
    };
    match &published.over {
        None => value(&published.figure),
        Some(over) => Some(value(&published.figure)? / value(over)?),
    }
}

/// Inputs of the closed forms for a flow. The MSS is the flow's; publications state it without TCP options.
fn inputs(
    scenario: &Scenario,
    flow: &str,
    window: Option<Bytes>,
    kernel: KernelVersion,
) -> Option<ReportInputs> {
    let flow = scenario.flows.iter().find(|f| f.name == flow)?;
    let path = FlowPath::of(scenario, flow)?;
    let (slowest, rate) = path.slowest()?;
    let mss = match &flow.kind {
        FlowKind::Tcp(tcp) => tcp.mss,
        _ => None,
    };
    let loss = path.loss();
    (path.rtt > Time::ZERO).then(|| ReportInputs {
        rate,
        rtt: path.rtt,
        mtu: path.mtu,
        mss,
        ip: path.ip,
        overhead: slowest.overhead,
        loss: (loss > 0.0).then_some(loss),
        window,
        buffer: None,
        queue: path.queue_bytes().map(Bytes),
        kernel,
    })
}

#[cfg(test)]
mod tests {
    use scenario::{CLOSED_FORM_KEYS, ScenarioFile};

    use super::*;

    const FILE: &str = r#"
duration = "1s"
hosts.a.address = "10.0.0.1/24"
hosts.b.address = "10.0.0.2/24"
[[links]]
ends = ["a", "b"]
forward = { rate = "10gbit", delay = "50ms", queue = "25MB", loss = 0.0001 }
[[flows]]
name = "f"
from = "a"
to = "b"
mss = 1460
"#;

    fn form(key: &str) -> Option<f64> {
        let published = format!(
            "{FILE}[[published]]\nid = \"X\"\nmetric = \"model.f.{key}\"\nwindow = \"1MiB\"\nvalue = \"{}\"\ntolerance = \"1%\"\n",
            match key.rsplit('_').next() {
                Some("bps") => "1gbit",
                Some("s") => "1s",
                Some("bytes") => "1MB",
                _ => "1.5",
            }
        );
        let file = ScenarioFile::parse("x.toml", &published).unwrap_or_else(|e| panic!("{key}: {e}"));
        let scenario = file.resolve(None, &[]).unwrap();
        closed_form(&scenario, &file.published()[0], KernelVersion::new(6, 1))
    }

    #[test]
    fn the_model_has_every_closed_form_that_a_file_can_name() {
        for key in CLOSED_FORM_KEYS {
            assert!(form(key).is_some_and(f64::is_finite), "{key}: {:?}", form(key));
        }
    }

    #[test]
    fn closed_forms_use_the_path_of_the_flow() {
        assert_eq!(form("bdp_bytes"), Some(62_500_000.0));
        assert_eq!(form("utilization"), Some(0.0168));
        // 10 Gb/s x (50 ms)^2 / (2 x 1460 B)
        assert!((form("reno_recovery_s").unwrap() - 1070.205).abs() < 0.001);
    }
}
