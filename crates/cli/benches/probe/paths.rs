//! The paths of the table: rates from 10 Mb/s to 10 Gb/s, round-trip times from 1 to 200 ms, five kinds of
//! queue, cross traffic of 0 to 80 %.

use std::fmt;

const RATES_MBPS: [u64; 8] = [10, 30, 100, 300, 1000, 2000, 5000, 10_000];
const RTTS_MS: [u64; 5] = [1, 10, 40, 100, 200];
const LOADS_PERCENT: [u64; 6] = [0, 30, 0, 60, 0, 80];

/// A path of the table.
pub struct LabPath {
    rate_bps: u64,
    rtt_ms: u64,
    load_percent: u64,
    kind: Kind,
    /// The queue's limit in bytes of the wire, or a policer's bucket.
    limit: u64,
    /// Rate of the cross traffic, bit/s of UDP payload.
    pub cross_bps: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Bytes,
    Packets,
    Shaper,
    Policer,
    Codel,
}

impl LabPath {
    pub fn new(index: usize) -> Self {
        let rate_bps = RATES_MBPS[index % RATES_MBPS.len()] * 1_000_000;
        let kind = [Kind::Bytes, Kind::Packets, Kind::Shaper, Kind::Policer, Kind::Codel][index / 8 % 5];
        let load_percent = LOADS_PERCENT[(index + index / 8) % LOADS_PERCENT.len()];
        let rtt_ms = RTTS_MS[(index * 3 + index / 8) % RTTS_MS.len()];
        // The bytes of 10 to 40 ms at the rate. The maximum lets probes fill the queue within a second of
        // their load limit.
        let ms = [10, 20, 40][index % 3];
        let limit = (rate_bps * ms / 8000).clamp(60_000, 10_000_000);
        let cross = rate_bps * load_percent / 100 * 1472 / 1514;
        LabPath { rate_bps, rtt_ms, load_percent, kind, limit, cross_bps: (cross > 0).then_some(cross) }
    }

    pub fn capacity_bps(&self) -> f64 {
        self.rate_bps as f64 * 1500.0 / 1514.0
    }

    pub fn available_bps(&self) -> f64 {
        self.capacity_bps() * (100 - self.load_percent) as f64 / 100.0
    }

    /// In packets of 1500 bytes.
    pub fn buffer_bytes(&self) -> f64 {
        match self.kind {
            Kind::Packets => (self.limit / 1514) as f64 * 1500.0,
            _ => self.limit as f64 * 1500.0 / 1514.0,
        }
    }

    pub fn scenario(&self) -> String {
        let (rate, delay, limit) = (self.rate_bps, self.rtt_ms as f64 / 2.0, self.limit);
        let queue = match self.kind {
            Kind::Bytes => format!("queue = \"{limit}B\""),
            Kind::Packets => format!("queue = \"{}p\"", limit / 1514),
            Kind::Shaper => format!("queue = \"{limit}B\", burst = \"64kB\""),
            Kind::Policer => format!("queue = \"1514B\", burst = \"{limit}B\""),
            Kind::Codel => format!("queue = \"{limit}B\", qdisc = \"codel\""),
        };
        let host = |name: &str, n: u32| format!("[hosts.{name}]\naddress = \"10.0.0.{n}/24\"\n");
        let hosts: String = ["a", "b", "c", "d"].iter().zip(1..).map(|(name, n)| host(name, n)).collect();
        let link = |a: &str, b: &str| format!("[[links]]\nends = [\"{a}\", \"{b}\"]\n");
        let edges: String =
            [("a", "s1"), ("c", "s1"), ("s2", "b"), ("s2", "d")].iter().map(|(a, b)| link(a, b)).collect();
        format!(
            "title = \"a path to be probed\"\nduration = \"10s\"\n{hosts}[switches]\nnames = [\"s1\", \"s2\"]\n{edges}{}\
             forward = {{ rate = \"{rate}bit\", delay = \"{delay}ms\", {queue} }}\nbackward = {{ delay = \"{delay}ms\" }}\n\
             [[flows]]\nname = \"bulk\"\nfrom = \"a\"\nto = \"b\"\n",
            link("s1", "s2")
        )
    }
}

impl fmt::Display for LabPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Bytes => "bytes",
            Kind::Packets => "packets",
            Kind::Shaper => "shaper",
            Kind::Policer => "policer",
            Kind::Codel => "codel",
        };
        write!(
            f,
            "{} Mb/s, {} ms, {kind} {} kB, load {} %",
            self.rate_bps / 1_000_000,
            self.rtt_ms,
            self.limit / 1000,
            self.load_percent
        )
    }
}
