//! The tests of a point: kinds, parameters, and what each end does.

mod figures;
mod lead;
mod peer;
mod transfer;

use std::{fmt, str::FromStr};

use reservation::{Class, Test, Transport};
use units::{BitRate, Time};

pub use figures::Figures;
pub(crate) use figures::find_record;
pub(crate) use lead::{LeadJob, Measured, measure};
pub(crate) use peer::{Endpoint, PeerJob, serve};
pub use transfer::TransferReport;

/// The kind of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Goodput of TCP, or of UDP at a rate.
    Throughput,
    /// Round-trip times and losses of small packets.
    Latency,
    /// A diagnosis of the limits of TCP.
    Diagnose,
    /// An application's own transfer: the slot is reserved for it, and its connections are watched.
    Transfer,
}

impl Kind {
    /// Name in files and messages.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Throughput => "throughput",
            Kind::Latency => "latency",
            Kind::Diagnose => "diagnose",
            Kind::Transfer => "transfer",
        }
    }

    /// The class, which decides which other tests may overlap.
    pub fn class(self) -> Class {
        match self {
            Kind::Throughput | Kind::Diagnose | Kind::Transfer => Class::Exclusive,
            Kind::Latency => Class::Background,
        }
    }

    /// Duration unless the user gives one.
    pub fn default_duration(self) -> Time {
        match self {
            Kind::Throughput | Kind::Latency => Time::from_secs(10),
            Kind::Diagnose | Kind::Transfer => Time::from_secs(60),
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
        let kinds = [Kind::Throughput, Kind::Latency, Kind::Diagnose, Kind::Transfer];
        kinds.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
            format!(
                "{text:?} is not a kind of test; the kinds are throughput, latency, diagnose and transfer"
            )
        })
    }
}

/// A test as a user requests it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TestParameters {
    /// The kind of the test.
    pub kind: Kind,
    /// Duration.
    pub duration: Time,
    /// Throughput by UDP at this rate, instead of TCP; for a transfer, the maximum rate of the application.
    pub rate: Option<BitRate>,
}

impl TestParameters {
    /// The test, as limits and the calendar see it.
    pub fn test(&self) -> Test {
        let transport = match (self.kind, self.rate) {
            (Kind::Throughput, Some(_)) => Transport::Udp,
            (Kind::Throughput | Kind::Diagnose | Kind::Transfer, _) => Transport::Tcp,
            (Kind::Latency, _) => Transport::Other,
        };
        Test { kind: self.kind.name().into(), transport, rate: self.rate, parameters: String::new() }
    }

    /// Restores the parameters from a test that [`test`](Self::test) made.
    pub(crate) fn of(test: &Test, duration: Time) -> Result<Self, String> {
        let parameters = TestParameters { kind: test.kind.parse()?, duration, rate: test.rate };
        parameters.check()?;
        if parameters.test() != *test {
            return Err(format!("its parameters do not fit a test of the kind {}", parameters.kind));
        }
        Ok(parameters)
    }

    /// Checks that the parameters fit together.
    ///
    /// # Errors
    /// The parameter that does not fit, in words.
    pub fn check(&self) -> Result<(), String> {
        let min_duration = match self.kind {
            Kind::Throughput | Kind::Latency | Kind::Transfer => Time::from_secs(1),
            // Round-trip times, bursts of datagrams, and a TCP test of 10 s.
            Kind::Diagnose => Time::from_secs(45),
        };
        match self {
            _ if self.duration < min_duration => {
                Err(format!("a test of the kind {} lasts at least {min_duration}", self.kind))
            }
            TestParameters { kind: Kind::Latency | Kind::Diagnose, rate: Some(_), .. } => {
                Err(format!("a test of the kind {} has no rate", self.kind))
            }
            TestParameters { rate: Some(BitRate(0)), .. } => Err("the rate must be above zero".into()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_as_they_were_written() {
        for (kind, rate) in [
            (Kind::Throughput, None),
            (Kind::Throughput, Some(BitRate(5_000_000))),
            (Kind::Latency, None),
            (Kind::Diagnose, None),
            (Kind::Transfer, None),
            (Kind::Transfer, Some(BitRate(5_000_000))),
        ] {
            let parameters = TestParameters { kind, duration: Time::from_secs(50), rate };
            assert_eq!(TestParameters::of(&parameters.test(), parameters.duration), Ok(parameters));
        }
        let udp =
            TestParameters { kind: Kind::Throughput, duration: Time::from_secs(5), rate: Some(BitRate(1)) };
        // Limits decide by the transport: it must be that of the test which runs.
        let disguised = Test { transport: Transport::Tcp, ..udp.test() };
        assert!(TestParameters::of(&disguised, udp.duration).is_err());
        let other = Test { kind: "trace".into(), ..Test::default() };
        assert!(TestParameters::of(&other, udp.duration).is_err());
    }
}
