//! Published figures that need no run: closed forms for the path of a flow, the same as `longfat bdp` prints.

use model::report::{Inputs, report};
use scenario::{Figure, Kind, Published, Scenario};
use units::{Bytes, KernelVersion, Time};

use crate::flow_context::FlowPath;

/// The published figure's closed form in `scenario`; `None` where it is no closed form, or the path has no rate or no
/// delay.
pub fn closed_form(scenario: &Scenario, published: &Published, kernel: KernelVersion) -> Option<f64> {
    let value = |figure: &Figure| {
        let Figure::Form { flow, key } = figure else { return None };
        let inputs = inputs(scenario, flow, published.window, kernel)?;
        let figures = report(&inputs).into_iter().flat_map(|group| group.figures);
        figures.into_iter().find(|f| f.key == *key).map(|f| f.value)
    };
    match &published.over {
        None => value(&published.figure),
        Some(over) => Some(value(&published.figure)? / value(over)?),
    }
}

/// A segment's payload is what the flow asks for; publications give it without the options of TCP.
fn inputs(scenario: &Scenario, flow: &str, window: Option<Bytes>, kernel: KernelVersion) -> Option<Inputs> {
    let flow = scenario.flows.iter().find(|f| f.name == flow)?;
    let path = FlowPath::of(scenario, flow)?;
    let (slowest, rate) = path.slowest()?;
    let mss = match &flow.kind {
        Kind::Tcp(tcp) => tcp.mss,
        _ => None,
    };
    let loss = path.loss();
    (path.rtt > Time::ZERO).then(|| Inputs {
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
    use scenario::{FORMS, ScenarioFile};

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
    fn every_form_that_files_may_name_is_one_that_the_model_has() {
        for key in FORMS {
            assert!(form(key).is_some_and(f64::is_finite), "{key}: {:?}", form(key));
        }
    }

    #[test]
    fn forms_take_the_path_of_the_flow() {
        assert_eq!(form("bdp_bytes"), Some(62_500_000.0));
        assert_eq!(form("utilization"), Some(0.0168));
        // 10 Gb/s x (50 ms)^2 / (2 x 1460 B)
        assert!((form("reno_recovery_s").unwrap() - 1070.205).abs() < 0.001);
    }
}
