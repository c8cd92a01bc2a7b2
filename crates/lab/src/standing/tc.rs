//! tc on an emulated port: `qdisc add|change|replace|del|show` with netem and tbf, in the syntax of
//! tc-netem(8) and tc-tbf(8). Other arguments are errors that name the argument.
//!
//! Differences from Linux:
//! 1. A packet passes queue, rate, loss and delay in this order, whatever the order of netem and tbf.
//! 2. netem's `limit` counts only the packets that wait for a `rate`, not the delayed ones in flight.
//! 3. Correlations are not supported.

use std::fmt;

use net::{
    Discipline, Distribution, GilbertElliott, Jitter, LossModel, LossUnit, PipeSpec, QueueLimit, Rate,
    Reorder,
};
use units::{BitRate, Bytes, Time};

use super::tc_units::{percent, rate, size, time};

/// Default limit of netem's queue, packets (sch_netem.c, tc-netem(8)).
const NETEM_LIMIT: u64 = 1000;

/// A qdisc of a port.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Qdisc {
    /// `1:` is 1.
    pub(crate) handle: u32,
    /// The handle of the qdisc above; `None` at the root.
    pub(crate) parent: Option<u32>,
    pub(crate) kind: QdiscKind,
}

/// Kind and parameters of a qdisc.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum QdiscKind {
    Netem(Netem),
    Tbf(Tbf),
}

/// netem's parameters.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Netem {
    limit: Option<u64>,
    delay: Time,
    jitter: Time,
    distribution: Distribution,
    loss: LossModel,
    duplicate: f64,
    corrupt: f64,
    reorder: f64,
    gap: u32,
    rate: Option<BitRate>,
}

/// tbf's parameters.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tbf {
    rate: BitRate,
    burst: Bytes,
    limit: Bytes,
}

/// A parsed tc command.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TcCommand {
    Show {
        device: Option<String>,
    },
    Change {
        device: String,
        action: QdiscAction,
        position: QdiscPosition,
        handle: Option<u32>,
        kind: Option<QdiscKind>,
    },
}

/// Operation on a qdisc.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QdiscAction {
    Add,
    Change,
    Replace,
    Delete,
}

/// Position of a qdisc in a port's tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QdiscPosition {
    Root,
    Under(u32),
}

/// Parses the arguments of `tc`.
pub(crate) fn parse(arguments: &[String]) -> Result<TcCommand, String> {
    let mut arguments = arguments.iter().map(String::as_str).skip_while(|argument| argument.starts_with('-'));
    match arguments.next() {
        Some("qdisc" | "qd" | "q") => {}
        other => {
            return Err(format!(
                "tc {} is not supported on an emulated port, only tc qdisc",
                other.unwrap_or("")
            ));
        }
    }
    let action = match arguments.next() {
        None | Some("show" | "list" | "ls" | "l" | "s") => {
            let remaining: Vec<&str> = arguments.collect();
            return match remaining[..] {
                [] => Ok(TcCommand::Show { device: None }),
                ["dev", device] => Ok(TcCommand::Show { device: Some(device.into()) }),
                _ => Err(format!("tc qdisc show {} is not supported", remaining.join(" "))),
            };
        }
        Some("add" | "a") => QdiscAction::Add,
        Some("change" | "c") => QdiscAction::Change,
        Some("replace" | "r") => QdiscAction::Replace,
        Some("del" | "delete" | "d") => QdiscAction::Delete,
        Some(other) => return Err(format!("tc qdisc {other} is not supported")),
    };
    let (mut device, mut position, mut handle, mut kind) = (None, QdiscPosition::Root, None, None);
    while let Some(argument) = arguments.next() {
        match argument {
            "dev" => device = Some(arguments.next().ok_or("dev needs a name")?.to_owned()),
            "root" => position = QdiscPosition::Root,
            "parent" => {
                position = QdiscPosition::Under(major(arguments.next().ok_or("parent needs a handle")?)?)
            }
            "handle" => handle = Some(major(arguments.next().ok_or("handle needs a number")?)?),
            "netem" => kind = Some(QdiscKind::Netem(netem(&mut arguments)?)),
            "tbf" => kind = Some(QdiscKind::Tbf(tbf(&mut arguments)?)),
            "ingress" | "clsact" => return Err(format!("{argument} is not supported on an emulated port")),
            other => {
                return Err(format!("qdisc {other} is not supported on an emulated port; netem and tbf are"));
            }
        }
    }
    let device = device.ok_or("tc qdisc needs dev NAME")?;
    if kind.is_none() && action != QdiscAction::Delete {
        return Err("no qdisc given; netem and tbf are supported".into());
    }
    Ok(TcCommand::Change { device, action, position, handle, kind })
}

/// Whether a tc command with these arguments is for the emulator: it concerns a port of the lab, and mentions
/// netem or tbf or is another command that `parse` supports. All others are for the real tc, including those
/// on a host's other devices such as `lo`.
pub fn is_for_emulated_port(arguments: &[String]) -> bool {
    let device = arguments.iter().skip_while(|argument| *argument != "dev").nth(1);
    let mentions_netem_or_tbf = arguments.iter().any(|argument| argument == "netem" || argument == "tbf");
    device.is_none_or(|d| is_port_name(d)) && (mentions_netem_or_tbf || parse(arguments).is_ok())
}

/// Whether this is the name of an emulated port, such as `s1-eth2`.
fn is_port_name(device: &str) -> bool {
    let number = device.rsplit_once("-eth").map(|(_, number)| number);
    number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// The major number of a handle such as `1:` or `1:1`.
fn major(text: &str) -> Result<u32, String> {
    let number = text.split(':').next().unwrap_or(text);
    u32::from_str_radix(number, 16).map_err(|_| format!("{text:?} is not a handle; write for example 1:"))
}

type Arguments<'a, 'b> = &'b mut dyn Iterator<Item = &'a str>;

fn netem(arguments: Arguments<'_, '_>) -> Result<Netem, String> {
    let mut netem = Netem { gap: 1, ..Netem::default() };
    let mut arguments = arguments.peekable();
    while let Some(argument) = arguments.next() {
        let mut value = |what: &str| arguments.next().ok_or(format!("netem {what} needs a value"));
        match argument {
            "limit" => netem.limit = Some(count(value("limit")?)?),
            "delay" | "latency" => {
                netem.delay = time(value("delay")?)?;
                if let Some(jitter) = arguments.next_if(|argument| starts_number(argument)) {
                    netem.jitter = time(jitter)?;
                    refuse_correlation(&mut arguments, "delay")?;
                }
            }
            "distribution" => {
                netem.distribution = match value("distribution")? {
                    "uniform" => Distribution::Uniform,
                    "normal" => Distribution::Normal,
                    "pareto" => Distribution::Pareto,
                    other => return Err(format!("netem distribution {other} is not supported")),
                }
            }
            "loss" | "drop" => netem.loss = loss(&mut arguments)?,
            "duplicate" => {
                netem.duplicate = percent(value("duplicate")?)?;
                refuse_correlation(&mut arguments, "duplicate")?;
            }
            "corrupt" => {
                netem.corrupt = percent(value("corrupt")?)?;
                refuse_correlation(&mut arguments, "corrupt")?;
            }
            "reorder" => {
                netem.reorder = percent(value("reorder")?)?;
                refuse_correlation(&mut arguments, "reorder")?;
            }
            "gap" => netem.gap = count(value("gap")?)?.clamp(1, u64::from(u32::MAX)) as u32,
            "rate" => netem.rate = Some(rate(value("rate")?)?),
            other => return Err(format!("netem {other} is not supported on an emulated port")),
        }
    }
    if netem.reorder > 0.0 && netem.delay == Time(0) {
        return Err("netem reorder needs a delay".into());
    }
    Ok(netem)
}

fn loss<'a, I: Iterator<Item = &'a str>>(
    arguments: &mut std::iter::Peekable<I>,
) -> Result<LossModel, String> {
    let mut first = arguments.next().ok_or("netem loss needs a percentage")?;
    if first == "gemodel" {
        let mut values = Vec::new();
        while let Some(argument) = arguments.next_if(|argument| starts_number(argument)) {
            values.push(percent(argument)?);
        }
        let (to_bad, others) = values.split_first().ok_or("netem loss gemodel needs p")?;
        return Ok(LossModel::GilbertElliott(GilbertElliott {
            to_bad: *to_bad,
            to_good: others.first().copied().unwrap_or(1.0 - to_bad),
            loss_bad: others.get(1).copied().unwrap_or(1.0),
            loss_good: others.get(2).copied().unwrap_or(0.0),
        }));
    }
    if first == "state" {
        return Err("netem loss state is not supported on an emulated port; gemodel is".into());
    }
    if first == "random" {
        first = arguments.next().ok_or("netem loss random needs a percentage")?;
    }
    let share = percent(first)?;
    refuse_correlation(arguments, "loss")?;
    Ok(if share > 0.0 { LossModel::Independent(share) } else { LossModel::None })
}

fn refuse_correlation<'a, I: Iterator<Item = &'a str>>(
    arguments: &mut std::iter::Peekable<I>,
    what: &str,
) -> Result<(), String> {
    match arguments.next_if(|argument| starts_number(argument)) {
        Some(correlation) if percent(correlation)? > 0.0 => {
            Err(format!("a correlation of netem {what} is not supported on an emulated port"))
        }
        _ => Ok(()),
    }
}

fn starts_number(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit() || c == '.')
}

fn tbf(arguments: Arguments<'_, '_>) -> Result<Tbf, String> {
    let (mut tbf_rate, mut burst, mut limit, mut latency) = (None, None, None, None);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().ok_or(format!("tbf {argument} needs a value"))?;
        match argument {
            "rate" => tbf_rate = Some(rate(value)?),
            // A slash precedes the cell size, which the kernel ignores.
            "burst" | "buffer" | "maxburst" => burst = Some(size(value.split('/').next().unwrap_or(value))?),
            "limit" => limit = Some(size(value)?),
            "latency" => latency = Some(time(value)?),
            other => return Err(format!("tbf {other} is not supported on an emulated port")),
        }
    }
    let rate = tbf_rate.filter(|r| r.0 > 0).ok_or("tbf needs a rate")?;
    let burst = burst.filter(|b| b.0 > 0).ok_or("tbf needs a burst")?;
    let limit = match (limit, latency) {
        (Some(limit), None) => limit,
        (None, Some(latency)) => Bytes(rate.bytes_in(latency).0.saturating_add(burst.0)),
        _ => return Err("tbf needs either a limit or a latency".into()),
    };
    Ok(Tbf { rate, burst, limit })
}

fn count(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text:?} is not a number of packets"))
}

/// Applies a port's qdiscs to its pipe; `plain` is the pipe without qdiscs.
pub(crate) fn compose(qdiscs: &[Qdisc], plain: &PipeSpec) -> PipeSpec {
    let mut spec = plain.clone();
    for qdisc in qdiscs {
        match &qdisc.kind {
            QdiscKind::Tbf(tbf) => {
                spec.rate = Rate::Constant(tbf.rate);
                spec.burst = Some(tbf.burst);
                spec.queue = QueueLimit::Bytes(tbf.limit);
                spec.discipline = Discipline::default();
            }
            QdiscKind::Netem(netem) => apply_netem(netem, &mut spec),
        }
    }
    spec
}

fn apply_netem(netem: &Netem, spec: &mut PipeSpec) {
    spec.delay = netem.delay;
    spec.jitter = (netem.jitter > Time(0)).then_some(Jitter {
        spread: netem.jitter,
        distribution: netem.distribution,
        reorders: true,
    });
    spec.loss = netem.loss.clone();
    spec.loss_unit = LossUnit::SuperPacket;
    spec.duplicate = netem.duplicate;
    spec.corrupt = netem.corrupt;
    spec.reorder = (netem.reorder > 0.0).then_some(Reorder { probability: netem.reorder, gap: netem.gap });
    if let (Some(rate), Rate::Unlimited) = (netem.rate, &spec.rate) {
        spec.rate = Rate::Constant(rate);
        spec.queue = QueueLimit::Packets(netem.limit.unwrap_or(NETEM_LIMIT));
    }
}

impl fmt::Display for Qdisc {
    /// In the format of tc, without `gap`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.kind {
            QdiscKind::Netem(_) => "netem",
            QdiscKind::Tbf(_) => "tbf",
        };
        write!(f, "qdisc {name} {:x}: ", self.handle)?;
        match self.parent {
            None => write!(f, "root")?,
            Some(parent) => write!(f, "parent {parent:x}:")?,
        }
        match &self.kind {
            QdiscKind::Tbf(t) => {
                write!(f, " rate {} burst {}b limit {}b", format_rate(t.rate), t.burst.0, t.limit.0)
            }
            QdiscKind::Netem(netem) => fmt_netem(netem, f),
        }
    }
}

/// A time in the format of tc: `20ms`.
fn format_time(time: Time) -> String {
    time.to_string().replace(' ', "")
}

/// A rate in the format of tc: `10Gbit`.
fn format_rate(rate: BitRate) -> String {
    rate.to_string().replace("b/s", "bit").replace(' ', "")
}

fn fmt_netem(netem: &Netem, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, " limit {}", netem.limit.unwrap_or(NETEM_LIMIT))?;
    if netem.delay > Time(0) {
        write!(f, " delay {}", format_time(netem.delay))?;
    }
    if netem.jitter > Time(0) {
        write!(f, "  {}", format_time(netem.jitter))?;
    }
    match &netem.loss {
        LossModel::Independent(p) => write!(f, " loss {}%", p * 100.0)?,
        LossModel::GilbertElliott(g) => write!(
            f,
            " loss gemodel p {}% r {}% 1-h {}% 1-k {}%",
            g.to_bad * 100.0,
            g.to_good * 100.0,
            g.loss_bad * 100.0,
            g.loss_good * 100.0
        )?,
        _ => {}
    }
    for (name, share) in
        [("duplicate", netem.duplicate), ("corrupt", netem.corrupt), ("reorder", netem.reorder)]
    {
        if share > 0.0 {
            write!(f, " {name} {}%", share * 100.0)?;
        }
    }
    match netem.rate {
        Some(rate) => write!(f, " rate {}", format_rate(rate)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn kind(line: &str) -> QdiscKind {
        match parse(&arguments(line)) {
            Ok(TcCommand::Change { kind: Some(kind), .. }) => kind,
            other => panic!("{line}: {other:?}"),
        }
    }

    /// The tc commands of the course's Lab 8 and Lab 13, as students type them.
    #[test]
    fn the_commands_of_the_course_are_supported() {
        let first = parse(&arguments("qdisc add dev s1-eth2 root handle 1: netem delay 20ms")).unwrap();
        let TcCommand::Change { device, action, position, handle, kind: Some(netem) } = first else {
            panic!()
        };
        assert_eq!(
            (device.as_str(), action, position, handle),
            ("s1-eth2", QdiscAction::Add, QdiscPosition::Root, Some(1))
        );
        let line = "qdisc add dev s1-eth2 parent 1: handle 2: tbf rate 10gbit burst 5000000 limit 25000000";
        let tbf = kind(line);
        let qdiscs =
            [Qdisc { handle: 1, parent: None, kind: netem }, Qdisc { handle: 2, parent: Some(1), kind: tbf }];
        let spec = compose(&qdiscs, &PipeSpec::default());
        assert_eq!(spec.delay, Time::from_millis(20));
        assert_eq!(spec.rate, Rate::Constant(BitRate(10_000_000_000)));
        assert_eq!((spec.burst, spec.queue), (Some(Bytes(5_000_000)), QueueLimit::Bytes(Bytes(25_000_000))));
        assert_eq!(qdiscs[0].to_string(), "qdisc netem 1: root limit 1000 delay 20ms");
        assert!(qdiscs[1].to_string().starts_with("qdisc tbf 2: parent 1: rate 10Gbit burst 5000000b"));
        let lossy = kind("qdisc change dev s1-eth2 root handle 1: netem loss 1%");
        let spec = compose(&[Qdisc { handle: 1, parent: None, kind: lossy }], &PipeSpec::default());
        assert_eq!((spec.loss, spec.loss_unit), (LossModel::Independent(0.01), LossUnit::SuperPacket));
    }

    #[test]
    fn all_supported_arguments_of_netem_and_tbf_are_parsed() {
        let line = "qdisc add dev x root netem delay 100ms 10ms distribution normal loss gemodel 1% 10% 70% 0.1% \
                    duplicate 1% corrupt 0.1% reorder 25% gap 5 rate 1mbit limit 50";
        let spec = compose(&[Qdisc { handle: 1, parent: None, kind: kind(line) }], &PipeSpec::default());
        let jitter = spec.jitter.unwrap();
        assert_eq!((jitter.spread, jitter.distribution), (Time::from_millis(10), Distribution::Normal));
        assert_eq!((spec.duplicate, spec.corrupt), (0.01, 0.001));
        assert_eq!(spec.reorder, Some(Reorder { probability: 0.25, gap: 5 }));
        assert_eq!((spec.rate, spec.queue), (Rate::Constant(BitRate(1_000_000)), QueueLimit::Packets(50)));
        assert!(matches!(spec.loss, LossModel::GilbertElliott(g) if (g.loss_bad - 0.7).abs() < 1e-12));
        let QdiscKind::Tbf(tbf) = kind("qdisc replace dev x root tbf rate 8mbit burst 32kbit latency 400ms")
        else {
            panic!()
        };
        assert_eq!((tbf.burst, tbf.limit), (Bytes(4096), Bytes(404_096)));
    }

    #[test]
    fn only_netem_and_tbf_on_ports_are_for_the_emulator() {
        for (line, is_emulated) in [
            ("qdisc show", true),
            ("qdisc show dev h1-eth0", true),
            ("qdisc show dev lo", false),
            ("qdisc add dev h1-eth0 root netem delay 1ms", true),
            ("qdisc add dev h1-eth0 root netem slot 1ms", true),
            ("qdisc add dev lo root netem delay 1ms", false),
            ("qdisc add dev h1-eth0 root fq", false),
            ("qdisc del dev h1-eth0 root", true),
            ("class show dev h1-eth0", false),
        ] {
            assert_eq!(is_for_emulated_port(&arguments(line)), is_emulated, "{line}");
        }
    }

    #[test]
    fn unsupported_arguments_are_named() {
        for (line, named) in [
            ("class show dev x", "class"),
            ("qdisc add dev x root fq_codel", "fq_codel"),
            ("qdisc add dev x root netem slot 1ms", "slot"),
            ("qdisc add dev x root netem delay 1ms 1ms 25%", "correlation"),
            ("qdisc add dev x root netem loss state 1%", "state"),
            ("qdisc add dev x root netem delay", "delay"),
            ("qdisc add dev x root netem delay quick", "quick"),
            ("qdisc add dev x root tbf rate 1mbit burst 10kb", "limit"),
            ("qdisc add dev x root tbf rate 1mbit burst 10kb limit 5 peakrate 1", "peakrate"),
            ("qdisc add root netem delay 1ms", "dev"),
            ("qdisc add dev x root", "no qdisc given"),
            ("qdisc add dev x parent zz: netem delay 1ms", "zz"),
            ("qdisc add dev x root netem reorder 5%", "delay"),
            ("qdisc mangle dev x", "mangle"),
            ("", "only tc qdisc"),
        ] {
            let error = parse(&arguments(line)).unwrap_err();
            assert!(error.contains(named), "{line}: {error}");
        }
    }
}
