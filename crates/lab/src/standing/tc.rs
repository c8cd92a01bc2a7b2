//! tc on an emulated port: `qdisc`, `class` and `filter` with netem (tc-netem(8)), the shapers and queues of
//! `tc_kinds.rs`, and a policer. Arguments that the emulated link cannot apply are errors that name the
//! argument.
//!
//! Differences from Linux:
//! 1. Whatever the order of netem and tbf, a packet passes queue, rate, loss, delay in this order.
//! 2. netem's `limit` counts only the packets that wait for a `rate`, not the delayed ones in flight.
//! 3. Correlations are not supported.
//! 4. A port has one rate, so tbf, htb and netem's `rate` exclude each other. Without filters all packets are
//!    of htb's default class, which borrows as if all others were idle; its children and netem's count for
//!    the whole port.
//! 5. A policer lets one packet wait for its tokens instead of dropping it.

use net::{Distribution, GilbertElliott, LossModel};
use units::{BitRate, Time};

use super::{
    tc_kinds::{self, Htb, HtbClass, Police, QueueKind, Tbf, count},
    tc_units::{percent, rate, time},
};

/// A qdisc of a port.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Qdisc {
    /// `1:` is 1.
    pub(crate) handle: u32,
    /// The qdisc above; `None` at the root.
    pub(crate) parent: Option<Parent>,
    pub(crate) kind: QdiscKind,
}

/// A position below a qdisc. The class counts only below htb; elsewhere it is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parent {
    /// `1:10` is 1.
    pub(crate) handle: u32,
    /// `1:10` is 0x10.
    pub(crate) class: u32,
}

/// Kind and parameters of a qdisc.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum QdiscKind {
    Netem(Netem),
    Tbf(Tbf),
    Htb(Htb),
    Queue(QueueKind),
}

/// netem's parameters.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Netem {
    pub(super) limit: Option<u64>,
    pub(super) delay: Time,
    pub(super) jitter: Time,
    pub(super) distribution: Distribution,
    pub(super) loss: LossModel,
    pub(super) duplicate: f64,
    pub(super) corrupt: f64,
    pub(super) reorder: f64,
    pub(super) gap: u32,
    pub(super) rate: Option<BitRate>,
}

/// A parsed tc command.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TcCommand {
    Show {
        device: Option<String>,
        object: TcObject,
        with_counters: bool,
    },
    Change {
        device: String,
        action: QdiscAction,
        position: QdiscPosition,
        handle: Option<u32>,
        kind: Option<QdiscKind>,
    },
    /// `None` deletes the class.
    Class {
        device: String,
        action: QdiscAction,
        class: Parent,
        parameters: Option<HtbClass>,
    },
    /// A policer on the packets that a port receives; `None` deletes it.
    Police {
        device: String,
        police: Option<Police>,
    },
}

/// The object of a `tc` command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TcObject {
    Qdisc,
    Class,
    Filter,
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
    Under(Parent),
    /// Received packets: only policers are supported there.
    Ingress,
}

/// Parses the arguments of `tc`.
pub(crate) fn parse(arguments: &[String]) -> Result<TcCommand, String> {
    let mut arguments = arguments.iter().map(String::as_str).peekable();
    let mut with_counters = false;
    while let Some(option) = arguments.next_if(|w| w.starts_with('-')) {
        match option {
            "-s" | "-stat" | "-stats" | "-statistics" => with_counters = true,
            "-d" | "-details" => {}
            other => return Err(format!("tc {other} is not supported on an emulated port")),
        }
    }
    let object = match arguments.next() {
        Some("qdisc" | "qd" | "q") => TcObject::Qdisc,
        Some("class" | "cl" | "c") => TcObject::Class,
        Some("filter" | "f") => TcObject::Filter,
        other => {
            return Err(format!(
                "tc {} is not supported on an emulated port, only tc qdisc, class and filter",
                other.unwrap_or("")
            ));
        }
    };
    let action = match arguments.next() {
        None | Some("show" | "list" | "ls" | "l" | "s") => {
            let remaining: Vec<&str> = arguments.collect();
            let device = match remaining[..] {
                [] => None,
                ["dev", device] => Some(device.into()),
                ["dev", device, "ingress"] | ["dev", device, "parent", "ffff:"]
                    if object == TcObject::Filter =>
                {
                    Some(device.into())
                }
                _ => return Err(format!("tc ... show {} is not supported", remaining.join(" "))),
            };
            return Ok(TcCommand::Show { device, object, with_counters });
        }
        Some("add" | "a") => QdiscAction::Add,
        Some("change" | "c") => QdiscAction::Change,
        Some("replace" | "r") => QdiscAction::Replace,
        Some("del" | "delete" | "d") => QdiscAction::Delete,
        Some(other) => return Err(format!("tc ... {other} is not supported")),
    };
    match object {
        TcObject::Qdisc => qdisc(action, &mut arguments),
        TcObject::Class => class(action, &mut arguments),
        TcObject::Filter => filter(action, &mut arguments),
    }
}

fn qdisc(action: QdiscAction, arguments: Arguments<'_, '_>) -> Result<TcCommand, String> {
    let (mut device, mut position, mut handle, mut kind) = (None, QdiscPosition::Root, None, None);
    while let Some(argument) = arguments.next() {
        match argument {
            "dev" => device = Some(arguments.next().ok_or("dev needs a name")?.to_owned()),
            "root" => position = QdiscPosition::Root,
            "parent" => {
                position = QdiscPosition::Under(class_id(arguments.next().ok_or("parent needs a handle")?)?)
            }
            "handle" => handle = Some(class_id(arguments.next().ok_or("handle needs a number")?)?.handle),
            "netem" => kind = Some(QdiscKind::Netem(netem(arguments)?)),
            "tbf" => kind = Some(QdiscKind::Tbf(tc_kinds::tbf(arguments)?)),
            "htb" => kind = Some(QdiscKind::Htb(tc_kinds::htb(arguments)?)),
            "red" => kind = Some(QdiscKind::Queue(tc_kinds::red(arguments)?)),
            "codel" | "fq_codel" => kind = Some(QdiscKind::Queue(tc_kinds::codel(argument, arguments)?)),
            "pfifo" | "bfifo" => kind = Some(QdiscKind::Queue(tc_kinds::fifo(argument, arguments)?)),
            "ingress" => position = QdiscPosition::Ingress,
            "clsact" => return Err(format!("{argument} is not supported on an emulated port; ingress is")),
            other => {
                return Err(format!("qdisc {other} is not supported on an emulated port; {SUPPORTED}"));
            }
        }
    }
    let device = device.ok_or("tc qdisc needs dev NAME")?;
    if kind.is_none() && action != QdiscAction::Delete && position != QdiscPosition::Ingress {
        return Err(format!("no qdisc given; {SUPPORTED}"));
    }
    Ok(TcCommand::Change { device, action, position, handle, kind })
}

const SUPPORTED: &str = "netem, tbf, htb, red, codel, fq_codel, pfifo and bfifo are";

/// `class add dev s1-eth1 parent 1: classid 1:10 htb rate 1mbit`.
fn class(action: QdiscAction, arguments: Arguments<'_, '_>) -> Result<TcCommand, String> {
    let (mut device, mut parent, mut id, mut parameters) = (None, None, None, None);
    while let Some(argument) = arguments.next() {
        match argument {
            "dev" => device = Some(arguments.next().ok_or("dev needs a name")?.to_owned()),
            "parent" => parent = Some(class_id(arguments.next().ok_or("parent needs a handle")?)?),
            "classid" => id = Some(class_id(arguments.next().ok_or("classid needs a handle")?)?),
            "root" => {}
            "htb" => {
                let id = id.ok_or("tc class needs classid")?;
                if parent.is_some_and(|parent| parent.handle != id.handle) {
                    return Err("a class and its parent must have the same major number".into());
                }
                let above = parent.map_or(0, |parent| parent.class);
                parameters = Some(tc_kinds::htb_class(arguments, id.class, above)?);
            }
            other => return Err(format!("class {other} is not supported on an emulated port; htb is")),
        }
    }
    let device = device.ok_or("tc class needs dev NAME")?;
    let class = id.filter(|id| id.class != 0).ok_or("tc class needs classid, such as 1:10")?;
    if parameters.is_none() && action != QdiscAction::Delete {
        return Err("tc class needs htb and its parameters".into());
    }
    Ok(TcCommand::Class { device, action, class, parameters })
}

/// `filter add dev s1-eth1 parent ffff: protocol all matchall police rate 1mbit burst 10k drop`, or u32 with
/// a match of all packets.
fn filter(action: QdiscAction, arguments: Arguments<'_, '_>) -> Result<TcCommand, String> {
    const ONLY: &str = "on an emulated port; only police on all received packets is (parent ffff:, matchall or \
                        u32 match u32 0 0)";
    let (mut device, mut is_ingress, mut police) = (None, false, None);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("tc filter: {argument} needs a value"));
        match argument {
            "dev" => device = Some(value()?.to_owned()),
            "ingress" => is_ingress = true,
            "parent" => {
                let parent = value()?;
                if !parent.starts_with("ffff:") {
                    return Err(format!(
                        "a filter on sent packets (parent {parent}) is not supported {ONLY}"
                    ));
                }
                is_ingress = true;
            }
            "protocol" => match value()? {
                "all" | "ip" => {}
                other => return Err(format!("filter protocol {other} is not supported {ONLY}")),
            },
            "prio" | "pref" | "handle" => drop(value()?),
            "matchall" | "u32" | "action" => {}
            "match" => {
                let matched = [value()?, value()?, value()?];
                if !matches!(matched, ["u32", "0", "0"] | ["ip", "src" | "dst", "0.0.0.0/0"]) {
                    return Err(format!("filter match {} is not supported {ONLY}", matched.join(" ")));
                }
            }
            "at" => drop(value()?),
            "police" => police = Some(tc_kinds::police(arguments)?),
            other => return Err(format!("filter {other} is not supported {ONLY}")),
        }
    }
    let device = device.ok_or("tc filter needs dev NAME")?;
    if !is_ingress || (police.is_none() && action != QdiscAction::Delete) {
        return Err(format!("this filter is not supported {ONLY}"));
    }
    Ok(TcCommand::Police { device, police: police.filter(|_| action != QdiscAction::Delete) })
}

/// Whether a tc command with these arguments is for the emulator: it concerns a port of the lab, and is about
/// a kind that the emulator has or another command that `parse` supports. All other commands are for the real
/// tc, including those on a host's other devices such as `lo`, and those for a queue at the root of a host's
/// device.
pub fn is_for_emulated_port(arguments: &[String]) -> bool {
    let device = arguments.iter().skip_while(|w| *w != "dev").nth(1);
    let has = |names: &[&str]| arguments.iter().any(|w| names.contains(&w.as_str()));
    let ours = has(&["netem", "tbf", "htb", "police"]);
    let is_own_queue = has(&["pfifo", "bfifo"]) && !has(&["parent"]);
    device.is_none_or(|d| is_port_name(d)) && (ours || (!is_own_queue && parse(arguments).is_ok()))
}

/// Whether this is the name of an emulated port, such as `s1-eth2`.
fn is_port_name(device: &str) -> bool {
    let number = device.rsplit_once("-eth").map(|(_, number)| number);
    number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// A handle such as `1:` or `1:10`, in hexadecimal digits.
fn class_id(text: &str) -> Result<Parent, String> {
    let (major, minor) = text.split_once(':').unwrap_or((text, ""));
    let number = |digits: &str| if digits.is_empty() { Ok(0) } else { u32::from_str_radix(digits, 16) };
    match (number(major), number(minor)) {
        (Ok(handle), Ok(class)) => Ok(Parent { handle, class }),
        _ => Err(format!("{text:?} is not a handle; write for example 1: or 1:10")),
    }
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
                if let Some(jitter) = arguments.next_if(|w| starts_number(w)) {
                    netem.jitter = time(jitter)?;
                    no_correlation(&mut arguments, "delay")?;
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
                no_correlation(&mut arguments, "duplicate")?;
            }
            "corrupt" => {
                netem.corrupt = percent(value("corrupt")?)?;
                no_correlation(&mut arguments, "corrupt")?;
            }
            "reorder" => {
                netem.reorder = percent(value("reorder")?)?;
                no_correlation(&mut arguments, "reorder")?;
            }
            "gap" => netem.gap = count(value("gap")?)?.clamp(1, u64::from(u32::MAX)) as u32,
            // 0: no rate, as in Linux (sch_netem.c).
            "rate" => netem.rate = Some(rate(value("rate")?)?).filter(|rate| rate.0 > 0),
            other => return Err(format!("netem {other} is not supported on an emulated port")),
        }
    }
    if netem.reorder > 0.0 && netem.delay == Time::ZERO {
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
        while let Some(argument) = arguments.next_if(|w| starts_number(w)) {
            values.push(percent(argument)?);
        }
        let (to_bad, remaining) = values.split_first().ok_or("netem loss gemodel needs p")?;
        return Ok(LossModel::GilbertElliott(GilbertElliott {
            to_bad: *to_bad,
            to_good: remaining.first().copied().unwrap_or(1.0 - to_bad),
            loss_bad: remaining.get(1).copied().unwrap_or(1.0),
            loss_good: remaining.get(2).copied().unwrap_or(0.0),
        }));
    }
    if first == "state" {
        return Err("netem loss state is not supported on an emulated port; gemodel is".into());
    }
    if first == "random" {
        first = arguments.next().ok_or("netem loss random needs a percentage")?;
    }
    let share = percent(first)?;
    no_correlation(arguments, "loss")?;
    Ok(if share > 0.0 { LossModel::Independent(share) } else { LossModel::None })
}

fn no_correlation<'a, I: Iterator<Item = &'a str>>(
    arguments: &mut std::iter::Peekable<I>,
    what: &str,
) -> Result<(), String> {
    match arguments.next_if(|w| starts_number(w)) {
        Some(correlation) if percent(correlation)? > 0.0 => {
            Err(format!("a correlation of netem {what} is not supported on an emulated port"))
        }
        _ => Ok(()),
    }
}

fn starts_number(argument: &str) -> bool {
    argument.starts_with(|c: char| c.is_ascii_digit() || c == '.')
}

#[cfg(test)]
mod tests {
    use net::{LossUnit, PipeSpec, QueueLimit, Rate, Reorder};
    use units::{Bytes, Time};

    use super::{super::tc_compose::compose, *};

    fn arguments(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn kind(line: &str) -> QdiscKind {
        match parse(&arguments(line)) {
            Ok(TcCommand::Change { kind: Some(kind), .. }) => kind,
            other => panic!("{line}: {other:?}"),
        }
    }

    /// The tc commands of the course's Lab 8 and Lab 13.
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
        let qdiscs = [
            Qdisc { handle: 1, parent: None, kind: netem },
            Qdisc { handle: 2, parent: Some(Parent { handle: 1, class: 0 }), kind: tbf },
        ];
        let spec = compose(&qdiscs, &PipeSpec::default(), None).unwrap();
        assert_eq!(spec.delay, Time::from_millis(20));
        assert_eq!(spec.rate, Rate::Constant(BitRate(10_000_000_000)));
        assert_eq!((spec.burst, spec.queue), (Some(Bytes(5_000_000)), QueueLimit::Bytes(Bytes(25_000_000))));
        assert_eq!(qdiscs[0].to_string(), "qdisc netem 1: root limit 1000 delay 20ms");
        assert!(qdiscs[1].to_string().starts_with("qdisc tbf 2: parent 1: rate 10Gbit burst 5000000b"));
        let lossy = kind("qdisc change dev s1-eth2 root handle 1: netem loss 1%");
        let spec =
            compose(&[Qdisc { handle: 1, parent: None, kind: lossy }], &PipeSpec::default(), None).unwrap();
        assert_eq!((spec.loss, spec.loss_unit), (LossModel::Independent(0.01), LossUnit::SuperPacket));
    }

    #[test]
    fn a_netem_rate_of_0_is_no_rate() {
        for line in [
            "qdisc add dev x root netem delay 1ms rate 0",
            "qdisc add dev x root netem delay 1ms rate 0.1bit",
        ] {
            let qdiscs = [Qdisc { handle: 1, parent: None, kind: kind(line) }];
            let spec = compose(&qdiscs, &PipeSpec::default(), None).unwrap();
            assert_eq!((spec.rate, spec.delay), (Rate::Unlimited, Time::from_millis(1)), "{line}");
        }
    }

    #[test]
    fn all_supported_arguments_of_netem_and_tbf_are_parsed() {
        let line = "qdisc add dev x root netem delay 100ms 10ms distribution normal loss gemodel 1% 10% 70% 0.1% \
                    duplicate 1% corrupt 0.1% reorder 25% gap 5 rate 1mbit limit 50";
        let spec =
            compose(&[Qdisc { handle: 1, parent: None, kind: kind(line) }], &PipeSpec::default(), None)
                .unwrap();
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
    fn supported_kinds_on_ports_are_for_the_emulator() {
        for (line, is_emulated) in [
            ("qdisc show", true),
            ("qdisc show dev h1-eth0", true),
            ("qdisc show dev lo", false),
            ("qdisc add dev h1-eth0 root netem delay 1ms", true),
            ("qdisc add dev h1-eth0 root netem slot 1ms", true),
            ("qdisc add dev lo root netem delay 1ms", false),
            ("qdisc add dev h1-eth0 root fq", false),
            ("qdisc del dev h1-eth0 root", true),
            ("class show dev h1-eth0", true),
            ("class add dev h1-eth0 parent 1: classid 1:1 htb rate 1mbit", true),
            ("qdisc replace dev h1-eth0 root pfifo limit 7", false),
            ("qdisc add dev h1-eth0 parent 1: pfifo limit 7", true),
            ("filter add dev h1-eth0 egress bpf obj x.o", false),
        ] {
            assert_eq!(is_for_emulated_port(&arguments(line)), is_emulated, "{line}");
        }
    }

    #[test]
    fn unsupported_arguments_are_named() {
        for (line, named) in [
            ("chain show dev x", "chain"),
            ("-j qdisc show", "-j"),
            ("qdisc add dev x root cake", "cake"),
            ("qdisc add dev x root fq_codel ce_threshold 1ms", "ce_threshold"),
            ("class add dev x parent 1: classid 1:1 hfsc sc rate 1mbit", "hfsc"),
            ("class add dev x parent 1: classid 1:1 htb rate 1mbit overhead 8", "overhead"),
            ("filter add dev x parent 1: protocol ip u32 match ip dst 1.2.3.4 flowid 1:1", "parent 1:"),
            ("filter add dev x parent ffff: u32 match ip dport 80 0xffff police rate 1mbit", "ip dport 80"),
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
            ("qdisc add dev x clsact", "clsact"),
        ] {
            let error = parse(&arguments(line)).unwrap_err();
            assert!(error.contains(named), "{line}: {error}");
        }
    }
}
