//! Causes and verdicts in words, for readers who are new to them.

use schema::{Cause, FlowSummary, PublishedResult, PublishedVerdict};

/// A cause's short name, as in legends.
pub fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::ReceiveWindow => "receive window",
        Cause::SendBuffer => "send buffer",
        Cause::PathRate => "path rate",
        Cause::Loss => "loss",
        Cause::EcnMarks => "ECN marks",
        Cause::LocalQueue => "own queue",
        Cause::SlowStart => "slow start",
        Cause::Application => "application",
        Cause::Pacing => "pacing",
        Cause::HostCpu => "host CPU",
    }
}

/// What limited a flow, as in `send buffer and receive window` where both bind: then in the order of reports, for which has the
/// larger share changes from run to run.
pub fn limits(flow: &FlowSummary) -> Option<String> {
    binding(flow.verdict, flow.verdict_also)
}

/// The same of a verdict and what binds beside it.
pub(crate) fn binding(verdict: Option<Cause>, also: Option<Cause>) -> Option<String> {
    let verdict = verdict?;
    let Some(also) = also else { return Some(cause(verdict).to_owned()) };
    Some(format!("{} and {}", cause(verdict.min(also)), cause(verdict.max(also))))
}

/// One sentence that explains a cause.
pub fn explain(cause: Cause) -> &'static str {
    match cause {
        Cause::ReceiveWindow => {
            "The sender has sent all that the receiver said it has room for, and waits for the next acknowledgement."
        }
        Cause::SendBuffer => {
            "The sender's socket buffer is full of data that is not acknowledged yet, so the program cannot hand over more."
        }
        Cause::PathRate => "The slowest link is full: this is what the path can carry.",
        Cause::Loss => {
            "Packets were lost, and after each loss the sender's window shrinks and grows back slowly."
        }
        Cause::EcnMarks => {
            "A router marked packets (ECN) because a queue grew, and after each mark the sender's window shrinks and grows back slowly."
        }
        Cause::LocalQueue => {
            "The sending host's own transmit queue was full: it dropped packets before they left, and the sender's window shrank."
        }
        Cause::SlowStart => "The connection is young: its window still doubles every round trip.",
        Cause::Application => {
            "The programs at the ends write or read more slowly than the network would carry: a program's own pace, or a rate that was asked for."
        }
        Cause::Pacing => "The sender paces its packets at a rate below what the path allows.",
        Cause::HostCpu => {
            "The computers could not keep up: neither the network nor what was asked for held the flow."
        }
    }
}

/// How ours compares with a published figure.
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
    }
}

/// A published figure: a value, or a bound.
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
