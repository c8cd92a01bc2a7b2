//! The effects that the closed forms ignore. If one of them determines the result of an experiment, the
//! model's figure does not apply.

use model::{
    ControlLaw, PathInputs, cubic_recovery_time, cubic_utilization, mss, responsiveness, sawtooth_utilization,
};
use net::{Discipline, LossModel, LossUnit, PipeSpec, Rate};
use scenario::{FlowKind, FlowSpec, Metric, MetricPath, Published, Scenario, TcpSpec};
use units::{Bytes, KernelVersion, Time};

use super::{cc_of, inputs};
use crate::{Sysctls, flow_context::FlowPath};

/// The steady sawtooth of a closed form needs at least this number of recoveries in a run.
const MIN_RECOVERIES: f64 = 2.0;
/// Above this utilization of a link, losses do not lower the rate noticeably.
const FULL_USE: f64 = 0.99;

/// The ignored effect that determines a published figure in `scenario`, in words; `None` if the model's
/// figure applies. `kernel` is the kernel of hosts without the key `kernel`.
pub fn ignored(
    sysctls: Sysctls<'_>,
    scenario: &Scenario,
    published: &Published,
    kernel: KernelVersion,
) -> Option<String> {
    let figures = [Some(&published.figure), published.over.as_ref()];
    figures.into_iter().flatten().find_map(|figure| match figure {
        MetricPath::Flow { flow, metric: Metric::Goodput | Metric::SteadyGoodput } => {
            of_flow(sysctls, scenario, scenario.flows.iter().find(|one| one.name == *flow)?, kernel)
        }
        MetricPath::Run(_) => scenario.flows.iter().find_map(|flow| of_flow(sysctls, scenario, flow, kernel)),
        _ => None,
    })
}

fn of_flow(
    sysctls: Sysctls<'_>,
    scenario: &Scenario,
    flow: &FlowSpec,
    kernel: KernelVersion,
) -> Option<String> {
    let FlowKind::Tcp(tcp) = &flow.kind else { return None };
    let path = FlowPath::of(scenario, flow)?;
    let inputs = inputs(sysctls, scenario, flow, tcp, &path, kernel, &cc_of(sysctls, scenario, flow, tcp));
    path.forward
        .iter()
        .find_map(|(name, _, pipe)| of_pipe(name, pipe))
        .or_else(|| of_changes(scenario, &path, tcp))
        .or_else(|| of_loss(&path, &inputs))
        .or_else(|| of_device_queue(scenario, flow, &path, &inputs))
        .or_else(|| of_queue(&path, &inputs))
}

/// The first property of a link that the closed forms ignore.
fn of_pipe(name: &str, pipe: &PipeSpec) -> Option<String> {
    let what = match () {
        () if pipe.loss_unit == LossUnit::SuperPacket && !matches!(pipe.loss, LossModel::None) => {
            "the losses of whole super-packets"
        }
        () if !matches!(pipe.loss, LossModel::None | LossModel::Independent(_)) => "the loss pattern",
        () if pipe.jitter.is_some() => "the jitter",
        () if pipe.reorder.is_some() => "the reordering",
        () if matches!(pipe.rate, Rate::Trace(_)) => "the changing rate",
        () if pipe.discipline != Discipline::default() && !matches!(pipe.discipline, Discipline::Xcp(_)) => {
            "the queue discipline"
        }
        () => return None,
    };
    Some(format!("the closed form ignores {what} of link {name}"))
}

fn of_changes(scenario: &Scenario, path: &FlowPath<'_>, tcp: &TcpSpec) -> Option<String> {
    let is_crossed = |name: &str| path.forward.iter().any(|(own, _, _)| *own == name);
    let changed = scenario.links.iter().find(|link| !link.changes.is_empty() && is_crossed(&link.name));
    match changed {
        Some(link) => Some(format!("the closed form ignores the changes of link {}", link.name)),
        None if tcp.reader_stops.is_some() => Some("the closed form ignores that the reader stops".into()),
        None => None,
    }
}

fn of_loss(path: &FlowPath<'_>, inputs: &PathInputs) -> Option<String> {
    if inputs.loss <= 0.0 || inputs.law == ControlLaw::Bbr {
        return None;
    }
    if inputs.law == ControlLaw::Unknown {
        return Some(format!("the model has no relation of loss and throughput for {}", inputs.cc));
    }
    (path.rtt == Time::ZERO).then(|| {
        "on a path without delay the hosts' own round-trip time decides how fast a flow recovers from its losses".into()
    })
}

/// The queue of the sender's device, if no slower link follows.
fn of_device_queue(
    scenario: &Scenario,
    flow: &FlowSpec,
    path: &FlowPath<'_>,
    inputs: &PathInputs,
) -> Option<String> {
    let host = scenario.host(&flow.from)?;
    // Without local congestion signals, a full device queue only adds delay, as any queue that never drops
    // packets.
    let packets = host.nic.tx_queue.filter(|_| host.local_congestion)?;
    let (name, _, first) = path.forward.first()?;
    let is_slowest = path.is_slowest(first);
    // If another link of the same rate follows, flows that share it are limited by its queue.
    let has_queue_behind = path.forward[1..].iter().any(|(_, _, pipe)| pipe.rate.mean() == first.rate.mean());
    let bytes = f64::from(packets) * f64::from(path.mtu + first.overhead);
    let overflows = window(inputs) > bdp(inputs)? + bytes;
    (is_slowest && !has_queue_behind && inputs.law != ControlLaw::Bbr && overflows).then(|| {
        format!("the closed form ignores that the device queue of {} on link {name} overflows", flow.from)
    })
}

/// A queue that overflows: the closed forms of Reno and CUBIC are for the steady sawtooth after slow start.
fn of_queue(path: &FlowPath<'_>, inputs: &PathInputs) -> Option<String> {
    let (bdp, queue) = (bdp(inputs)?, inputs.queue?.as_f64());
    if window(inputs) <= bdp + queue || inputs.law == ControlLaw::Bbr {
        return None;
    }
    let segment = mss(inputs.mtu, inputs.ip, inputs.mss);
    let (recovery, used) = match inputs.law {
        ControlLaw::Aimd(rule) => {
            (responsiveness(rule, inputs.rate?, inputs.rtt, segment), sawtooth_utilization(rule, queue / bdp))
        }
        ControlLaw::Cubic => {
            (cubic_recovery_time((bdp + queue) / f64::from(segment)), cubic_utilization(queue / bdp))
        }
        ControlLaw::Bbr | ControlLaw::Unknown => {
            let queue = Bytes(queue as u64);
            return Some(format!("{} has no closed form for a queue of {queue} that overflows", inputs.cc));
        }
    };
    let duration = inputs.duration.as_secs_f64();
    // With this queue the link stays full after a loss.
    let is_full = used > FULL_USE;
    (duration < MIN_RECOVERIES * recovery && path.rtt > Time::ZERO && !is_full).then(|| {
        format!(
            "the closed form describes the steady sawtooth, but here slow start overflows the queue, the window takes {recovery:.0} s to grow back, and the run ends after {duration:.0} s"
        )
    })
}

/// Bytes in flight that fill the path.
fn bdp(inputs: &PathInputs) -> Option<f64> {
    Some(model::bdp_f64(inputs.rate?, inputs.rtt)).filter(|bdp| *bdp > 0.0)
}

/// The largest window that both buffers allow.
fn window(inputs: &PathInputs) -> f64 {
    let segment = mss(inputs.mtu, inputs.ip, inputs.mss);
    let receive =
        model::receive_buffer_window(inputs.receive_buffer, inputs.receiver_kernel, segment, inputs.rtt);
    receive.min(model::send_buffer_window(inputs.send_buffer))
}

#[cfg(test)]
mod tests {
    use scenario::ScenarioFile;

    use super::*;

    /// The ignored effect that determines the goodput of a flow with these keys, over a link with these.
    fn why(host: &str, link: &str, flow: &str) -> String {
        let text = format!(
            r#"
duration = "60s"
[hosts.a]
address = "10.0.0.1/24"
sysctl = {{ "net.ipv4.tcp_wmem" = "4096 60000000 60000000" }}
{host}
[hosts.b]
address = "10.0.0.2/24"
sysctl = {{ "net.ipv4.tcp_rmem" = "4096 60000000 60000000" }}
[[links]]
ends = ["a", "b"]
{link}
[[flows]]
name = "f"
from = "a"
to = "b"
{flow}
[[published]]
id = "X"
metric = "flows.f.goodput"
value = "none"
"#
        );
        let file = ScenarioFile::parse("x.toml", &text).unwrap_or_else(|error| panic!("{error}"));
        let scenario = file.resolve(None, &[]).unwrap();
        ignored(&|_| None, &scenario, &file.published()[0], KernelVersion::new(6, 1)).unwrap_or_default()
    }

    #[test]
    fn a_closed_form_that_ignores_the_decisive_effect_does_not_apply() {
        let small = "forward = { rate = \"100mbit\", delay = \"200ms\", queue = \"25p\" }";
        let large = "forward = { rate = \"100mbit\", delay = \"20ms\", queue = \"100MB\" }";
        assert!(why("", small, "cc = \"reno\"").contains("slow start overflows the queue"));
        assert!(why("", small, "cc = \"highspeed\"").contains("highspeed has no closed form"));
        assert_eq!(why("", small, "cc = \"bbr\""), "");
        assert_eq!(why("", large, "cc = \"reno\""), "", "no window overflows it");
        assert_eq!(
            why("", &small.replace("200ms", "2ms"), "cc = \"reno\""),
            "",
            "it recovers within the run"
        );
    }

    #[test]
    fn a_closed_form_does_not_apply_to_losses_that_it_does_not_describe() {
        let link = |loss: &str, delay: &str| {
            format!(
                "forward = {{ rate = \"10gbit\", delay = \"{delay}\", queue = \"900MB\", loss = {loss} }}"
            )
        };
        let super_packets = "{ rate = \"1%\", unit = \"super-packet\" }";
        assert!(why("", &link(super_packets, "20ms"), "cc = \"cubic\"").contains("super-packets"));
        assert!(why("", &link("{ at = [\"5s\"] }", "20ms"), "cc = \"cubic\"").contains("pattern"));
        assert!(why("", &link("\"1%\"", "0ms"), "cc = \"cubic\"").contains("the hosts' own"));
        assert_eq!(why("", &link("\"1%\"", "20ms"), "cc = \"cubic\""), "");
    }

    #[test]
    fn a_closed_form_does_not_apply_if_a_device_queue_overflows() {
        let link = "forward = { rate = \"1gbit\", delay = \"20ms\" }";
        let queue = |packets: u32| format!("nic = {{ tx_queue = \"{packets}p\" }}");
        assert!(why(&queue(100), link, "cc = \"reno\"").contains("device queue of a"));
        assert_eq!(why(&queue(100_000), link, "cc = \"reno\""), "");
        let only_delays = format!("{}\nlocal_congestion = false", queue(100));
        assert_eq!(why(&only_delays, link, "cc = \"reno\""), "");
    }
}
