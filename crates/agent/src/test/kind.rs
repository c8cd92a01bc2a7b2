//! The kinds of tests.

use std::{fmt, str::FromStr};

use units::Time;

/// The kind of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Goodput of TCP, or of UDP at a rate.
    Throughput,
    /// Round-trip times and losses of small packets.
    Latency,
    /// A diagnosis of the limits of TCP.
    Diagnose,
    /// The capacity of the narrowest link of the path, and the available bandwidth, by trains of packets.
    Probe,
    /// The hops of the path, their round-trip times, and the path MTU.
    Trace,
    /// A real-time stream at a rate, as of e-VLBI.
    Stream,
    /// An application's own transfer: the slot is reserved for it, and its connections are watched.
    Transfer,
}

impl Kind {
    /// All kinds.
    pub(crate) const ALL: [Kind; 7] = [
        Kind::Throughput,
        Kind::Latency,
        Kind::Diagnose,
        Kind::Probe,
        Kind::Trace,
        Kind::Stream,
        Kind::Transfer,
    ];

    /// Name in files and messages.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Throughput => "throughput",
            Kind::Latency => "latency",
            Kind::Diagnose => "diagnose",
            Kind::Probe => "probe",
            Kind::Trace => "trace",
            Kind::Stream => "stream",
            Kind::Transfer => "transfer",
        }
    }

    /// Duration unless the user gives one.
    pub fn default_duration(self) -> Time {
        match self {
            Kind::Throughput | Kind::Latency | Kind::Stream => Time::from_secs(10),
            // Most traces end within seconds. An MTU black hole, and routers that do not reply, take up to a
            // minute.
            Kind::Diagnose | Kind::Probe | Kind::Trace | Kind::Transfer => Time::from_secs(60),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Kind::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
            let names = Kind::ALL.map(Kind::name).join(", ");
            format!("{text:?} is not a kind of test; the kinds are {names}")
        })
    }
}
