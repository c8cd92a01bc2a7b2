//! A test as a user requests it, and as the calendar and the limits see it.

use reservation::{Class, Test, Transport};
use units::{BitRate, Time};

use super::Kind;

/// A test as a user requests it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TestParameters {
    /// The kind of the test.
    pub kind: Kind,
    /// Duration.
    pub duration: Time,
    /// Throughput by UDP at this rate, instead of TCP; the rate of a stream; for a transfer, the maximum rate
    /// of the application; for a probe, its maximum load, averaged over any second.
    pub rate: Option<BitRate>,
}

impl TestParameters {
    /// The class, which decides which other tests may overlap. Streams, and transfers that state their rate,
    /// may overlap with each other: the stations of an e-VLBI session send to one correlator at the same
    /// time.
    pub fn class(&self) -> Class {
        match (self.kind, self.rate) {
            (Kind::Latency | Kind::Trace, _) => Class::Background,
            (Kind::Stream, _) | (Kind::Transfer, Some(_)) => Class::Normal,
            (Kind::Throughput | Kind::Diagnose | Kind::Probe | Kind::Transfer, _) => Class::Exclusive,
        }
    }

    /// The test, as limits and the calendar see it.
    pub fn test(&self) -> Test {
        let transport = match (self.kind, self.rate) {
            (Kind::Throughput, Some(_)) | (Kind::Stream | Kind::Probe, _) => Transport::Udp,
            (Kind::Throughput | Kind::Diagnose | Kind::Transfer, _) => Transport::Tcp,
            (Kind::Latency | Kind::Trace, _) => Transport::Other,
        };
        Test { kind: self.kind.name().into(), transport, rate: self.rate, parameters: String::new() }
    }

    /// Checks that the parameters fit together.
    ///
    /// # Errors
    /// The parameter that does not fit, in words.
    pub fn check(&self) -> Result<(), String> {
        let min_duration = match self.kind {
            Kind::Throughput | Kind::Latency | Kind::Stream | Kind::Transfer => Time::from_secs(1),
            // Each packet without a reply takes a second.
            Kind::Trace => Time::from_secs(5),
            // Round-trip times, bursts of datagrams, and a TCP test of 10 s; or the capacity, and streams.
            Kind::Diagnose | Kind::Probe => Time::from_secs(45),
        };
        match self {
            _ if self.duration < min_duration => {
                Err(format!("a test of the kind {} lasts at least {min_duration}", self.kind))
            }
            TestParameters { kind: Kind::Latency | Kind::Diagnose | Kind::Trace, rate: Some(_), .. } => {
                Err(format!("a test of the kind {} has no rate", self.kind))
            }
            TestParameters { kind: Kind::Stream, rate: None, .. } => Err("a stream needs a rate".into()),
            TestParameters { kind: Kind::Probe, rate: None, .. } => {
                Err("a probe needs a rate: its maximum load, averaged over any second".into())
            }
            TestParameters { rate: Some(BitRate(0)), .. } => Err("the rate must be above zero".into()),
            _ => Ok(()),
        }
    }
}
