//! Writes the scenario file of a simple path, two hosts and one link, from a few figures. Comments explain
//! each key.

use std::{fmt::Write, str::FromStr};

use units::{BitRate, Bytes, ParseError, Time};

use crate::quote::quote;

/// Bytes on the wire in addition to the IP packet, as the default `overhead` of a link.
const OVERHEAD_BYTES: u64 = 14;
/// Smallest default queue, in packets: less than this limits even short paths.
const MIN_QUEUE_PACKETS: u64 = 10;
/// Largest `net.ipv4.tcp_rmem` and `tcp_wmem`.
const MAX_BUFFER: u64 = i32::MAX as u64;
/// Linux's default maximum of the receive buffer; smaller generated values would only confuse.
const MIN_BUFFER: u64 = 6_291_456;
/// Shortest default duration.
const MIN_DURATION: Time = Time::from_secs(20);
/// Default duration in round-trip times, so that slow start is a small part of it.
const DURATION_RTTS: u64 = 200;

/// A path between two hosts, and the flows on it.
#[derive(Debug, Clone, PartialEq)]
pub struct SimplePath {
    /// Rate of the link, in both directions.
    pub rate: BitRate,
    /// Round-trip time of the empty path.
    pub rtt: Time,
    /// Limit of the queue in front of the link; `None`: one bandwidth-delay product.
    pub queue: Option<QueueLimit>,
    /// Share of the data packets that the link loses at random, 0 to 1.
    pub loss: f64,
    /// Congestion controls: names, or C files (`*.c`). One: the flow's. Several: a variant for each. None:
    /// the kernel's default.
    pub ccs: Vec<String>,
    /// Number of flows that start together.
    pub flows: u32,
    /// Duration of a run; `None`: 20 s, on long paths 200 round-trip times.
    pub duration: Option<Time>,
    /// MTU of both hosts, bytes.
    pub mtu: u32,
}

impl Default for SimplePath {
    /// 1 Gb/s and 20 ms, one CUBIC flow.
    fn default() -> Self {
        SimplePath {
            rate: BitRate(1_000_000_000),
            rtt: Time::from_millis(20),
            queue: None,
            loss: 0.0,
            ccs: vec!["cubic".into()],
            flows: 1,
            duration: None,
            mtu: 1500,
        }
    }
}

/// The limit of a queue, as the key `queue` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueLimit {
    /// Packets, as in `100p`.
    Packets(u64),
    /// Bytes, as in `25MB`.
    Bytes(Bytes),
}

impl FromStr for QueueLimit {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text.strip_suffix('p').and_then(|count| count.parse().ok()) {
            Some(packets) => Ok(QueueLimit::Packets(packets)),
            None => text.parse().map(QueueLimit::Bytes),
        }
    }
}

impl std::fmt::Display for QueueLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            QueueLimit::Packets(packets) => write!(f, "{packets}p"),
            QueueLimit::Bytes(bytes) => f.write_str(&written(bytes)),
        }
    }
}

impl SimplePath {
    /// A name for the scenario, as in `path-1gbit-100ms`, or `path-1gbit-100ms-loss-0.01pct`: with the
    /// figures that are not the default ones, so that lists of runs distinguish paths.
    pub fn name(&self) -> String {
        let mut text = format!("path-{}-{}", written_rate(self.rate), written(self.rtt));
        if let Some(queue) = self.queue {
            text += &format!("-queue-{}", written(queue));
        }
        if self.loss > 0.0 {
            text += &format!("-loss-{}pct", self.loss_percent());
        }
        let default = SimplePath::default();
        if self.flows != default.flows {
            text += &format!("-{}-flows", self.flows);
        }
        if self.mtu != default.mtu {
            text += &format!("-mtu-{}", self.mtu);
        }
        text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect()
    }

    /// The loss in percent, without the digits of a binary fraction.
    fn loss_percent(&self) -> f64 {
        (self.loss * 1e11).round() / 1e9
    }

    /// The bandwidth-delay product.
    fn bdp(&self) -> Bytes {
        self.rate.bytes_in(self.rtt)
    }

    fn queue(&self) -> QueueLimit {
        let packet = u64::from(self.mtu) + OVERHEAD_BYTES;
        self.queue.unwrap_or(QueueLimit::Bytes(Bytes(self.bdp().0.max(MIN_QUEUE_PACKETS * packet))))
    }

    fn queue_bytes(&self) -> u64 {
        match self.queue() {
            QueueLimit::Packets(packets) => packets.saturating_mul(u64::from(self.mtu)),
            QueueLimit::Bytes(bytes) => bytes.0,
        }
    }

    /// Maximum of the socket buffers. Linux offers between half of the receive buffer and all of it as window
    /// (scaling_ratio).
    fn buffer(&self) -> u64 {
        let in_flight = self.bdp().0.saturating_add(self.queue_bytes());
        in_flight.saturating_mul(4).next_multiple_of(1 << 20).clamp(MIN_BUFFER, MAX_BUFFER)
    }

    fn duration(&self) -> Time {
        self.duration.unwrap_or_else(|| {
            let seconds = self.rtt.saturating_mul(DURATION_RTTS).as_secs_f64().ceil();
            MIN_DURATION.max(Time::from_secs_f64(seconds))
        })
    }

    /// The scenario file.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        // Writing into a String cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let percent = self.loss_percent();
        let lossy = if self.loss > 0.0 { format!(", {percent}% loss") } else { String::new() };
        let (rate, rtt, queue, buffer) = (self.rate, self.rtt, self.queue(), self.buffer());
        let half = rtt / 2;
        write!(
            text,
            r#"# Two hosts, h1 and h2, and one link between them. The keys are explained in docs/scenario.md.
# Check this file with `longfat scenario validate FILE`, run it with `longfat run FILE --engine sim`.

# One line for readers.
title = "A path of {rate} and {rtt}{lossy}"
# How long a run lasts.
duration = "{}"
# Seed of all random numbers. The same seed gives the same simulation.
seed = 1

# For both hosts: the largest IP packet in bytes, and the minimum, initial and maximum size of the socket buffers
# in bytes. The maximum is 4 times what the link and its queue can hold, so that the buffers do not limit.
[hosts."*"]
mtu = {}
[hosts."*".sysctl]
"net.ipv4.tcp_rmem" = "4096 131072 {buffer}"
"net.ipv4.tcp_wmem" = "4096 16384 {buffer}"

# The hosts, each with its address and the length of its network's prefix.
[hosts.h1]
address = "10.0.0.1/24"
[hosts.h2]
address = "10.0.0.2/24"

# The link. "both" applies to both directions, "forward" to the direction from h1 to h2.
# rate: how fast packets leave the queue. delay: propagation delay of one direction, half of the round-trip time.
# queue: how much waits in front of the link before packets are dropped, in bytes or packets ("100p").
# The bandwidth-delay product of this path is {}.
[[links]]
name = "path"
ends = ["h1", "h2"]
both = {{ rate = "{}", delay = "{}", queue = "{queue}" }}
"#,
            written(self.duration()),
            self.mtu,
            self.bdp(),
            written_rate(rate),
            written(half),
        )?;
        match self.loss > 0.0 {
            true => writeln!(
                text,
                "# loss: the share of packets that the link loses at random.\nforward = {{ loss = \"{percent}%\" }}"
            )?,
            false => writeln!(
                text,
                "# Random loss, if you want it: the share of packets that the link loses.\n# forward = {{ loss = \"0.01%\" }}"
            )?,
        }
        self.write_flows(text)
    }

    fn write_flows(&self, text: &mut String) -> std::fmt::Result {
        write!(
            text,
            r#"
# A TCP transfer from h1 to h2 that sends as much as it can until the run ends.
[[flows]]
name = "bulk"
from = "h1"
to = "h2"
"#
        )?;
        if self.flows != 1 {
            writeln!(text, "# The number of connections, which start together.\nstreams = {}", self.flows)?;
        }
        match self.ccs.as_slice() {
            [] => writeln!(text, "# Congestion control; without it, the kernel's default.\n# cc = \"cubic\""),
            [one] => writeln!(
                text,
                "# Congestion control; `longfat cc list` has all names.\ncc = {}",
                cc_value(one)
            ),
            several => {
                writeln!(
                    text,
                    "\n# Variants: each is a run with one change. Here each has another congestion control."
                )?;
                several.iter().try_for_each(|cc| {
                    writeln!(
                        text,
                        "[[variants]]\nname = {}\nflows.bulk.cc = {}",
                        quote(variant_name(cc)),
                        cc_value(cc)
                    )
                })
            }
        }
    }
}

/// A quantity without a space, as in `20ms`.
fn written(quantity: impl std::fmt::Display) -> String {
    quantity.to_string().replace(' ', "")
}

/// A rate as scenario files have it: `10gbit`.
fn written_rate(rate: BitRate) -> String {
    written(rate).replace("b/s", "bit").to_lowercase()
}

/// The value of `cc`: a name, or a table for a C file.
fn cc_value(cc: &str) -> String {
    if cc.ends_with(".c") { format!("{{ file = {} }}", quote(cc)) } else { quote(cc) }
}

/// The variant's name: the congestion control's, of a file its name up to the first dot.
fn variant_name(cc: &str) -> String {
    let file = cc.rsplit('/').next().unwrap_or(cc);
    let stem = if cc.ends_with(".c") { file.split('.').next().unwrap_or(file) } else { cc };
    stem.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Scenario, ScenarioFile};

    fn resolved(path: &SimplePath, variant: Option<&str>) -> Scenario {
        let text = path.to_toml();
        let load = |_: &str| Ok("int x;".to_owned());
        let file = ScenarioFile::parse_with(&format!("{}.toml", path.name()), &text, &load);
        let file = file.unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(file.name(), path.name());
        file.check_runnable().unwrap();
        file.resolve_with(variant, &[], &load).unwrap()
    }

    #[test]
    fn the_file_has_the_figures_that_were_given() {
        let path = SimplePath {
            rate: "1gbit".parse().unwrap(),
            rtt: "100ms".parse().unwrap(),
            queue: Some("500p".parse().unwrap()),
            loss: units::parse_share("0.01%").unwrap(),
            ccs: ["cubic", "bbr", "dir/my.bpf.c"].map(Into::into).into(),
            flows: 3,
            duration: Some(Time::from_secs(7)),
            mtu: 9000,
        };
        assert_eq!(path.name(), "path-1gbit-100ms-queue-500p-loss-0.01pct-3-flows-mtu-9000");
        assert_eq!(SimplePath::default().name(), "path-1gbit-20ms");
        let text = path.to_toml();
        for line in [
            "loss = \"0.01%\"",
            "rate = \"1gbit\", delay = \"50ms\", queue = \"500p\"",
            "flows.bulk.cc = { file = \"dir/my.bpf.c\" }",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        for (variant, cc) in [("cubic", "cubic"), ("bbr", "bbr"), ("my", "my")] {
            let scenario = resolved(&path, Some(variant));
            assert_eq!((scenario.flows.len(), scenario.hosts[0].mtu), (3, 9000));
            assert_eq!(scenario.duration, Time::from_secs(7));
            let crate::FlowKind::Tcp(tcp) = &scenario.flows[0].kind else {
                panic!("{:?}", scenario.flows[0])
            };
            assert_eq!(tcp.cc.as_ref().unwrap().name(), cc);
            let link = &scenario.links[0];
            assert_eq!(link.forward.delay, Time::from_millis(50));
            assert_eq!(link.backward.delay, Time::from_millis(50));
        }
    }

    #[test]
    fn defaults_depend_on_the_path() {
        let short = SimplePath { rtt: Time::from_micros(10), ..SimplePath::default() };
        assert_eq!(short.queue(), QueueLimit::Bytes(Bytes(15_140)));
        assert_eq!((short.duration(), short.buffer()), (MIN_DURATION, MIN_BUFFER));
        let long = SimplePath {
            rate: "100gbit".parse().unwrap(),
            rtt: Time::from_millis(600),
            ccs: Vec::new(),
            ..SimplePath::default()
        };
        assert_eq!(long.queue(), QueueLimit::Bytes(Bytes(7_500_000_000)));
        assert_eq!((long.duration(), long.buffer()), (Time::from_secs(120), MAX_BUFFER));
        for path in [short, long, SimplePath::default()] {
            resolved(&path, None);
        }
    }
}
