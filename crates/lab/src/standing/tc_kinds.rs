//! The arguments of tc's qdiscs except netem: shapers (tbf(8), htb(8)), queues (red, codel, fq_codel, pfifo,
//! bfifo) and the policer (tc-police(8)). Arguments that the emulated link cannot apply are errors that name
//! them.

use net::{Codel, Discipline, FqCodel, QueueLimit, Red};
use units::{BitRate, Bytes};

use super::tc_units::{percent, rate, size, time};

/// Default limit of codel's queue, packets (sch_codel.c).
const CODEL_LIMIT: u64 = 1000;
/// Default limit of fq_codel's queue, packets (sch_fq_codel.c).
const FQ_CODEL_LIMIT: u64 = 10_240;
/// Limits of fq_codel's number of flows and quantum, bytes (sch_fq_codel.c, fq_codel_change).
const FQ_CODEL_MAX_FLOWS: u32 = 65_536;
const FQ_CODEL_MIN_QUANTUM: u32 = 256;
const FQ_CODEL_MAX_QUANTUM: u32 = 1 << 20;
/// Length of the transmit queue, the default of pfifo and of htb's classes, packets.
pub(crate) const TX_QUEUE: u64 = 1000;

type Arguments<'a, 'b> = &'b mut dyn Iterator<Item = &'a str>;

/// tbf's parameters.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tbf {
    pub(crate) rate: BitRate,
    pub(crate) burst: Bytes,
    pub(crate) limit: Bytes,
}

/// htb's parameters and classes. Without filters all packets are of the default class; without one they are
/// not shaped.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Htb {
    pub(crate) default: u32,
    pub(crate) classes: Vec<HtbClass>,
}

/// A class of htb.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HtbClass {
    pub(crate) minor: u32,
    /// The parent class; 0 for a root class.
    pub(crate) parent: u32,
    pub(crate) rate: BitRate,
    pub(crate) ceil: BitRate,
    pub(crate) burst: Option<Bytes>,
}

impl Htb {
    /// The class of all packets.
    pub(crate) fn default_class(&self) -> Option<&HtbClass> {
        self.class(self.default)
    }

    pub(crate) fn class(&self, minor: u32) -> Option<&HtbClass> {
        self.classes.iter().find(|c| c.minor == minor)
    }

    /// The rate of a class while all others are idle: it borrows from its ancestors up to its ceiling.
    pub(crate) fn rate_of(&self, class: &HtbClass) -> BitRate {
        let above = self.class(class.parent).filter(|_| class.parent != 0);
        above.map_or(class.rate, |above| class.rate.max(class.ceil.min(self.rate_of(above))))
    }
}

/// A queue: its discipline and limit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QueueKind {
    /// Name and parameters in the format of tc.
    pub(crate) shown: String,
    pub(crate) discipline: Discipline,
    pub(crate) limit: QueueLimit,
}

/// A policer: packets above the rate are dropped.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Police {
    pub(crate) rate: BitRate,
    pub(crate) burst: Bytes,
}

pub(crate) fn count(text: &str) -> Result<u64, String> {
    text.trim_end_matches('p').parse().map_err(|_| format!("{text:?} is not a number of packets"))
}

/// A size before an optional slash; after it comes the cell size, which the kernel ignores.
fn burst(text: &str) -> Result<Bytes, String> {
    size(text.split('/').next().unwrap_or(text))
}

pub(crate) fn tbf(arguments: Arguments<'_, '_>) -> Result<Tbf, String> {
    let (mut speed, mut bucket, mut limit, mut latency) = (None, None, None, None);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().ok_or(format!("tbf {argument} needs a value"))?;
        match argument {
            "rate" => speed = Some(rate(value)?),
            "burst" | "buffer" | "maxburst" => bucket = Some(burst(value)?),
            "limit" => limit = Some(size(value)?),
            "latency" => latency = Some(time(value)?),
            other => return Err(format!("tbf {other} is not supported on an emulated port")),
        }
    }
    let rate = speed.filter(|r| r.0 > 0).ok_or("tbf needs a rate")?;
    let burst = bucket.filter(|b| b.0 > 0).ok_or("tbf needs a burst")?;
    let limit = match (limit, latency) {
        (Some(limit), None) => limit,
        (None, Some(latency)) => Bytes(rate.bytes_in(latency).0.saturating_add(burst.0)),
        _ => return Err("tbf needs either a limit or a latency".into()),
    };
    Ok(Tbf { rate, burst, limit })
}

pub(crate) fn htb(arguments: Arguments<'_, '_>) -> Result<Htb, String> {
    let mut htb = Htb::default();
    while let Some(argument) = arguments.next() {
        let value = arguments.next().ok_or(format!("htb {argument} needs a value"))?;
        match argument {
            "default" => {
                let digits = value.trim_start_matches("0x");
                htb.default = u32::from_str_radix(digits, 16).map_err(|_| {
                    format!("{value:?} is not the number of a class; write for example default 10")
                })?;
            }
            // It divides rates among several active classes; here one class has all packets.
            "r2q" => {}
            other => return Err(format!("htb {other} is not supported on an emulated port")),
        }
    }
    Ok(htb)
}

/// The arguments after `htb` in `tc class add`.
pub(crate) fn htb_class(arguments: Arguments<'_, '_>, minor: u32, parent: u32) -> Result<HtbClass, String> {
    let (mut speed, mut ceil, mut bucket, mut ceil_bucket) = (None, None, None, None);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().ok_or(format!("htb {argument} needs a value"))?;
        match argument {
            "rate" => speed = Some(rate(value)?),
            "ceil" => ceil = Some(rate(value)?),
            "burst" | "buffer" | "maxburst" => bucket = Some(burst(value)?),
            "cburst" | "cbuffer" | "cmaxburst" => ceil_bucket = Some(burst(value)?),
            // They determine the shares of several active classes; here one class has all packets.
            "prio" | "quantum" => {}
            other => return Err(format!("htb {other} is not supported on an emulated port")),
        }
    }
    let rate = speed.filter(|r| r.0 > 0).ok_or("htb needs a rate")?;
    let ceil = ceil.unwrap_or(rate);
    if ceil < rate {
        return Err("htb's ceil is lower than its rate".into());
    }
    if ceil_bucket.is_some() && ceil_bucket != bucket {
        return Err(
            "htb cburst other than burst is not supported on an emulated port: a link has one bucket".into(),
        );
    }
    Ok(HtbClass { minor, parent, rate, ceil, burst: bucket })
}

/// `pfifo` (limit in packets) and `bfifo` (in bytes).
pub(crate) fn fifo(kind: &str, arguments: Arguments<'_, '_>) -> Result<QueueKind, String> {
    let mut limit = match kind {
        "pfifo" => QueueLimit::Packets(TX_QUEUE),
        _ => QueueLimit::Bytes(Bytes(TX_QUEUE * 1514)),
    };
    while let Some(argument) = arguments.next() {
        let value = arguments.next().ok_or(format!("{kind} {argument} needs a value"))?;
        match (argument, kind) {
            ("limit", "pfifo") => limit = QueueLimit::Packets(count(value)?),
            ("limit", _) => limit = QueueLimit::Bytes(size(value)?),
            (other, _) => return Err(format!("{kind} {other} is not supported on an emulated port")),
        }
    }
    let shown = match limit {
        QueueLimit::Packets(packets) => format!("{kind} limit {packets}p"),
        QueueLimit::Bytes(bytes) => format!("{kind} limit {}b", bytes.0),
        QueueLimit::Unlimited => kind.to_owned(),
    };
    Ok(QueueKind { shown, discipline: Discipline::default(), limit })
}

/// `codel` and `fq_codel`.
pub(crate) fn codel(kind: &str, arguments: Arguments<'_, '_>) -> Result<QueueKind, String> {
    let is_fair = kind == "fq_codel";
    let mut fair = FqCodel::default();
    if !is_fair {
        fair.codel = Codel::default();
    }
    let mut limit = if is_fair { FQ_CODEL_LIMIT } else { CODEL_LIMIT };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{kind} {argument} needs a value"));
        match argument {
            "ecn" => fair.codel.ecn = true,
            "noecn" => fair.codel.ecn = false,
            "limit" => limit = count(value()?)?,
            "target" => fair.codel.target = time(value()?)?,
            "interval" => fair.codel.interval = time(value()?)?,
            "flows" if is_fair => fair.flows = up_to(FQ_CODEL_MAX_FLOWS, value()?)?,
            "quantum" if is_fair => {
                fair.quantum = up_to(FQ_CODEL_MAX_QUANTUM, value()?)?.max(FQ_CODEL_MIN_QUANTUM);
            }
            other => return Err(format!("{kind} {other} is not supported on an emulated port")),
        }
    }
    let target = fair.codel.target.to_string().replace(' ', "");
    let interval = fair.codel.interval.to_string().replace(' ', "");
    let fairness = match is_fair {
        true => format!(" flows {} quantum {}", fair.flows, fair.quantum),
        false => String::new(),
    };
    let ecn = if fair.codel.ecn { " ecn" } else { "" };
    Ok(QueueKind {
        shown: format!("{kind} limit {limit}p{fairness} target {target} interval {interval}{ecn}"),
        discipline: if is_fair { Discipline::FqCodel(fair) } else { Discipline::Codel(fair.codel) },
        limit: QueueLimit::Packets(limit),
    })
}

/// A number of flows or bytes: at least 1, at most `max`.
fn up_to(max: u32, text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|n| (1..=max).contains(n));
    number.ok_or_else(|| format!("{text:?} is not a number from 1 to {max}"))
}

/// red (tc-red(8)). The weight follows from `burst` as tc computes it.
pub(crate) fn red(arguments: Arguments<'_, '_>) -> Result<QueueKind, String> {
    let (mut limit, mut min, mut max, mut packet, mut bursts) = (None, None, None, None, None);
    let (mut probability, mut ecn, mut harddrop) = (0.02, false, false);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("red {argument} needs a value"));
        match argument {
            "limit" => limit = Some(size(value()?)?),
            "min" => min = Some(size(value()?)?),
            "max" => max = Some(size(value()?)?),
            "avpkt" => packet = Some(size(value()?)?),
            "burst" => bursts = Some(count(value()?)?),
            "probability" => {
                let text = value()?;
                probability = text
                    .parse()
                    .ok()
                    .filter(|p| (0.0..=1.0).contains(p))
                    .map_or_else(|| percent(text), Ok)?;
            }
            "ecn" => ecn = true,
            "harddrop" => harddrop = true,
            // Ignored: the emulator uses the link's rate.
            "bandwidth" => drop(rate(value()?)?),
            other => return Err(format!("red {other} is not supported on an emulated port")),
        }
    }
    if harddrop {
        return Err("red harddrop is not supported on an emulated port".into());
    }
    let limit = limit.ok_or("red needs a limit")?;
    let packet = packet.filter(|p| p.0 > 0).ok_or("red needs avpkt")?;
    // tc's defaults.
    let max = max.unwrap_or(if min.is_some() { Bytes(0) } else { Bytes(limit.0 / 4) });
    let min = min.unwrap_or(Bytes(max.0 / 3));
    let max = if max.0 == 0 { Bytes(min.0 * 3) } else { max };
    if min >= max {
        return Err("red needs a min smaller than max".into());
    }
    let bursts = bursts.unwrap_or_else(|| (2 * min.0 + max.0) / (3 * packet.0)).max(1);
    let weight = red_weight(bursts, min.0 as f64 / packet.0 as f64)
        .ok_or("red's burst is too small or too large for its min and avpkt")?;
    let shown =
        format!("red limit {}b min {}b max {}b{}", limit.0, min.0, max.0, if ecn { " ecn" } else { "" });
    let red = Red { min, max, max_probability: probability, weight, gentle: false, ecn };
    Ok(QueueKind { shown, discipline: Discipline::Red(red), limit: QueueLimit::Bytes(limit) })
}

/// The weight (a power of two, as in the kernel) for which bursts of `burst` packets pass with an average
/// below `min` packets: Floyd and Jacobson 1993, section 6 (`tc_red_eval_ewma`).
fn red_weight(burst: u64, min: f64) -> Option<f64> {
    let (burst, mut weight) = (burst as f64, 0.5);
    if burst + 1.0 - min < 1.0 {
        return None;
    }
    let excess = (burst + 1.0 - min).max(0.0);
    for _ in 1..32 {
        if excess <= (1.0 - (1.0_f64 - weight).powf(burst)) / weight {
            return Some(weight);
        }
        weight *= 0.5;
    }
    None
}

/// The arguments after `police`.
pub(crate) fn police(arguments: Arguments<'_, '_>) -> Result<Police, String> {
    let (mut speed, mut bucket) = (None, None);
    while let Some(argument) = arguments.next() {
        if argument == "drop" {
            continue;
        }
        let value = arguments.next().ok_or(format!("police {argument} needs a value"))?;
        match argument {
            "rate" => speed = Some(rate(value)?),
            "burst" | "buffer" | "maxburst" => bucket = Some(burst(value)?),
            // Larger than every MTU of a lab.
            "mtu" if size(value)?.0 >= 10_000 => {}
            "conform-exceed" if matches!(value, "drop" | "drop/ok" | "drop/pass" | "drop/pipe") => {}
            "flowid" | "classid" | "index" => {}
            "mtu" | "conform-exceed" => {
                return Err(format!("police {argument} {value} is not supported on an emulated port"));
            }
            other => return Err(format!("police {other} is not supported on an emulated port")),
        }
    }
    let rate = speed.filter(|r| r.0 > 0).ok_or("police needs a rate")?;
    let burst = bucket.filter(|b| b.0 > 0).ok_or("police needs a burst")?;
    Ok(Police { rate, burst })
}

#[cfg(test)]
mod tests {
    use units::Time;

    use super::*;

    fn arguments(line: &str) -> Vec<&str> {
        line.split_whitespace().collect()
    }

    #[test]
    fn a_class_borrows_up_to_its_ceiling() {
        let class =
            |minor, parent, line: &str| htb_class(&mut arguments(line).into_iter(), minor, parent).unwrap();
        let htb = Htb {
            default: 0x10,
            classes: vec![class(1, 0, "rate 10mbit burst 15k"), class(0x10, 1, "rate 2mbit ceil 20mbit")],
        };
        assert_eq!(htb.rate_of(htb.default_class().unwrap()), BitRate(10_000_000));
        assert_eq!(
            htb.rate_of(&class(1, 0, "rate 1mbit ceil 9mbit")),
            BitRate(1_000_000),
            "nothing to borrow from"
        );
        assert!(
            htb_class(&mut arguments("rate 2mbit ceil 1mbit").into_iter(), 1, 0)
                .unwrap_err()
                .contains("ceil")
        );
    }

    #[test]
    fn queues_have_the_defaults_of_tc() {
        let fair = codel("fq_codel", &mut arguments("limit 500 target 2ms noecn").into_iter()).unwrap();
        let Discipline::FqCodel(parameters) = fair.discipline else { panic!() };
        assert_eq!((fair.limit, parameters.codel.target), (QueueLimit::Packets(500), Time::from_millis(2)));
        assert!(!parameters.codel.ecn && parameters.flows == 1024);
        let plain = codel("codel", &mut arguments("").into_iter()).unwrap();
        assert_eq!(plain.shown, "codel limit 1000p target 5ms interval 100ms");
        // As Mininet sets it.
        let line = "limit 1000000 min 30000 max 35000 avpkt 1500 burst 20 bandwidth 10mbit probability 1 ecn";
        let Discipline::Red(red) = red(&mut arguments(line).into_iter()).unwrap().discipline else {
            panic!()
        };
        assert_eq!(
            (red.min, red.max, red.max_probability, red.ecn),
            (Bytes(30_000), Bytes(35_000), 1.0, true)
        );
        assert_eq!(
            fifo("bfifo", &mut arguments("limit 10kb").into_iter()).unwrap().limit,
            QueueLimit::Bytes(Bytes(10_240))
        );
    }

    /// One list per flow would take all memory, and a small quantum thousands of rounds per packet.
    #[test]
    fn fq_codel_has_the_limits_of_linux() {
        let parsed = |line: &str| codel("fq_codel", &mut arguments(line).into_iter());
        assert!(parsed("flows 65536 quantum 1").unwrap().shown.contains(" flows 65536 quantum 256 "));
        for line in ["flows 65537", "flows 4294967295", "flows 0", "quantum 1048577"] {
            assert!(parsed(line).unwrap_err().contains("is not a number from 1 to "), "{line}");
        }
    }

    #[test]
    fn the_weight_of_red_follows_from_burst() {
        // tc with burst 20, min 30000, avpkt 1500 (20 packets): ewma 1.
        assert_eq!(red_weight(20, 20.0), Some(0.5));
        assert!(red_weight(60, 5.0).unwrap() < 0.01);
        assert_eq!(red_weight(1, 20.0), None);
    }

    #[test]
    fn a_policer_supports_rate_burst_and_drop_only() {
        let policer =
            police(&mut arguments("rate 1mbit burst 10k conform-exceed drop flowid :1").into_iter()).unwrap();
        assert_eq!((policer.rate, policer.burst), (BitRate(1_000_000), Bytes(10_240)));
        for (line, named) in [
            ("rate 1mbit burst 10k conform-exceed reclassify", "reclassify"),
            ("rate 1mbit burst 10k peakrate 2mbit", "peakrate"),
            ("rate 1mbit burst 10k mtu 1500", "mtu 1500"),
            ("burst 10k", "rate"),
        ] {
            assert!(police(&mut arguments(line).into_iter()).unwrap_err().contains(named), "{line}");
        }
    }
}
