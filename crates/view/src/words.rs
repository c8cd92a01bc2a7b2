//! Causes and verdicts in words.

use schema::{
    Cause, EngineCoverage, EngineName, FigureKind, FlowSummary, PublishedResult, PublishedVerdict,
    ReceiverFinding,
};

/// A cause's short name, as in legends.
pub fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::ReceiveWindow => "receive window",
        Cause::SendBuffer => "send buffer",
        Cause::PathRate => "path rate",
        Cause::Loss => "loss",
        Cause::EcnMarks => "ECN marks",
        Cause::LocalQueue => "local queue",
        Cause::SlowStart => "slow start",
        Cause::Application => "application",
        Cause::Pacing => "pacing",
        Cause::HostCpu => "host CPU",
    }
}

/// The limit of a flow, as in `receive window and send buffer` where there are two limits. Two are in the
/// order of [`Cause::ALL`], because which has the larger share changes from run to run.
pub fn limits(flow: &FlowSummary) -> Option<String> {
    both_limits(flow.verdict, flow.verdict_also)
}

/// A verdict and its second limit in words.
pub(crate) fn both_limits(verdict: Option<Cause>, also: Option<Cause>) -> Option<String> {
    let verdict = verdict?;
    let Some(also) = also else { return Some(cause(verdict).to_owned()) };
    Some(format!("{} and {}", cause(verdict.min(also)), cause(verdict.max(also))))
}

/// One sentence that explains a cause.
pub fn explain(cause: Cause) -> &'static str {
    match cause {
        Cause::ReceiveWindow => {
            "The data in flight fills the window that the receiver advertises, so the sender waits for acknowledgements."
        }
        Cause::SendBuffer => {
            "The sender's socket buffer is full of unacknowledged data, so the application cannot write more."
        }
        Cause::PathRate => {
            "The slowest link is full: no setting of the hosts makes it faster, and flows that share it divide its rate."
        }
        Cause::Loss => {
            "Packets were lost. After each loss the congestion window is reduced and recovers slowly."
        }
        Cause::EcnMarks => {
            "A router marked packets (ECN) because its queue grew. After each mark the congestion window is reduced and recovers slowly."
        }
        Cause::LocalQueue => {
            "The sending host's own transmit queue was full and dropped packets, so the congestion window was reduced."
        }
        Cause::SlowStart => "The connection is new: its congestion window still doubles every round trip.",
        Cause::Application => {
            "An application writes or reads more slowly than the network allows, by itself or because a rate was requested."
        }
        Cause::Pacing => "The sender paces its packets below the rate that the path allows.",
        Cause::HostCpu => {
            "The hosts could not keep up: neither the network nor a requested rate limited the flow."
        }
    }
}

/// The finding of the receiving end alone, as in "limited by ...".
pub fn receiver_finding(finding: ReceiverFinding) -> &'static str {
    match finding {
        ReceiverFinding::ReceiveBuffer => "the receiver's buffer",
        ReceiverFinding::Reader => "the receiving application",
        ReceiverFinding::Sender => "the sender's window, buffer or application",
        ReceiverFinding::Network => "the network (loss or path rate)",
        ReceiverFinding::Unknown => "unknown",
    }
}

/// A published figure's verdict in words.
pub fn verdict(verdict: PublishedVerdict) -> &'static str {
    match verdict {
        PublishedVerdict::Within => "within",
        PublishedVerdict::Differs => "differs",
        PublishedVerdict::Contradicted => "contradicts itself",
        PublishedVerdict::NoFigure => "no figure given",
        PublishedVerdict::Missed => "missed",
        PublishedVerdict::Unreliable => "unreliable (machine busy)",
        PublishedVerdict::Untrusted => "unreliable",
        PublishedVerdict::NotRun => "not run",
        PublishedVerdict::DoesNotApply => "does not apply",
    }
}

/// The kind of a source's figure, in words.
pub fn figure_kind(kind: FigureKind) -> &'static str {
    match kind {
        FigureKind::Published => "published",
        FigureKind::Derived => "derived",
        FigureKind::MeasuredByUs => "measured by us",
    }
}

/// A metric's path with the part of the run that it covers, as in `flows.bulk.goodput (whole run)`.
pub fn metric_scope(metric: &str) -> String {
    let part = match () {
        () if metric.contains(" from ") || metric.starts_with("model.") => return metric.to_owned(),
        () if metric.contains("steady_goodput") => "steady part",
        () if ["goodput", "utilization", "run.jain"].iter().any(|name| metric.contains(name)) => "whole run",
        () => return metric.to_owned(),
    };
    match metric.split_once(", ") {
        Some((figure, other)) => format!("{figure} ({part}), {other}"),
        None => format!("{metric} ({part})"),
    }
}

/// The engines that each have a column in tables of published figures, and the column's heading.
pub const PUBLISHED_ENGINES: [(EngineName, &str); 4] = [
    (EngineName::Model, "model"),
    (EngineName::Sim, "simulated"),
    (EngineName::Lab, "lab"),
    (EngineName::Hosts, "hosts"),
];

/// The figures of a result that an engine has, and why it has no others: `2 of 7; needs Linux 2.4 (5)`.
pub fn coverage(engine: &EngineCoverage) -> String {
    let mut parts = Vec::new();
    if engine.reliable + engine.unreliable > 0 {
        parts.push(format!("{} of {}", engine.reliable, engine.figures));
    }
    if engine.unreliable > 0 {
        parts.push(format!("unreliable ({})", engine.unreliable));
    }
    parts.extend(engine.others.iter().map(|other| match other.figures == engine.figures {
        true => other.reason.clone(),
        false => format!("{} ({})", other.reason, other.figures),
    }));
    parts.join("; ")
}

/// The headings of the engines of published results.
pub fn engine_heading(engine: &EngineName) -> &str {
    match engine {
        EngineName::Kernel => "guest kernel",
        other => {
            let known = PUBLISHED_ENGINES.iter().find(|(engine, _)| engine == other);
            known.map_or(other.name(), |(_, heading)| *heading)
        }
    }
}

/// An engine's figure of a published result, with its verdict if that differs from the result's or if the
/// figure is unreliable; `None` without either.
pub fn judged_figure(result: &PublishedResult, engine: &EngineName, kernel: Option<&str>) -> Option<String> {
    let Some(judged) = result.judged(engine, kernel) else {
        let known = match engine {
            EngineName::Model => result.model,
            EngineName::Sim => result.sim,
            EngineName::Lab => result.lab,
            EngineName::Hosts => result.hosts,
            _ => result.kernels.iter().find(|known| Some(known.kernel.as_str()) == kernel).map(|k| k.figure),
        };
        return known.map(|value| figure(value, &result.unit));
    };
    let Some(value) = judged.figure else { return Some(verdict(judged.verdict).to_owned()) };
    let value = figure(value, &result.unit);
    match judged.verdict == result.verdict && !judged.verdict.is_inconclusive() {
        true => Some(value),
        false => Some(format!("{value} ({})", verdict(judged.verdict))),
    }
}

/// Why engines do not apply, and the documented causes of misses with their experiments: a sentence each.
pub fn judged_reasons(result: &PublishedResult) -> Vec<String> {
    let reason = |one: &schema::EngineVerdict| {
        let why = one.why.as_ref()?;
        let engine = match one.engine {
            EngineName::Sim => "simulator",
            EngineName::Hosts => "run between hosts",
            ref other => other.name(),
        };
        Some(match one.verdict {
            PublishedVerdict::DoesNotApply => format!("the {engine} does not apply: {why}"),
            _ => {
                let shown = one.experiment.as_ref().map(|by| format!("; experiment: {}", experiment(by)));
                let shown = shown.unwrap_or_default();
                format!("the {engine} misses the figure; documented cause: {why}{shown}")
            }
        })
    };
    result.judged.iter().filter_map(reason).collect()
}

/// An experiment: a command, or a variant of the figure's scenario.
fn experiment(text: &str) -> String {
    if text.starts_with("longfat ") { text.to_owned() } else { format!("variant {text}") }
}

/// A published figure: a value or a bound, as in `below 20 Mb/s`.
pub fn published(result: &PublishedResult) -> String {
    let Some(value) = result.published else { return "\u{2013}".to_owned() };
    let value = figure(value, &result.unit);
    match &result.bound {
        Some(bound) => format!("{bound} {value}"),
        None => value,
    }
}

/// A figure of a published result, in its unit.
pub fn figure(value: f64, unit: &str) -> String {
    match unit {
        "bit/s" => crate::number::rate(value),
        "B" => crate::number::bytes(value),
        "s" => crate::number::seconds(value),
        "1" if value <= 1.0 => crate::number::share(value),
        "1" => crate::number::significant(value, 3),
        other => format!("{} {other}", crate::number::significant(value, 3)),
    }
}
