//! A test as a user describes it: in a request, or as a recurring test of the configuration.

use reservation::Test;
use units::{BitRate, Time};

use super::{Kind, TestOptions, TestParameters, parameters_of};

/// A test as a user describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TestDescription {
    /// The kind of the test.
    pub kind: Kind,
    /// Duration without the omitted start.
    pub duration: Time,
    /// As in [`TestParameters::rate`].
    pub rate: Option<BitRate>,
    /// Options of a throughput test.
    pub options: TestOptions,
}

impl TestDescription {
    /// The parameters. As in `longfat test` and pSConfig, the omitted start precedes the duration; the slot
    /// has both.
    pub fn parameters(&self) -> TestParameters {
        let duration = self.duration.saturating_add(self.options.omit);
        TestParameters { kind: self.kind, duration, rate: self.rate }
    }

    /// The test with a server outside the mesh; without one, `server` is empty.
    pub fn test(&self, server: &str) -> Test {
        Test { parameters: parameters_of(&self.options, server), ..self.parameters().test() }
    }

    /// Checks that parameters and options fit together.
    ///
    /// # Errors
    /// The first mistake, in words.
    pub fn check(&self) -> Result<(), String> {
        let parameters = self.parameters();
        parameters.check()?;
        self.options.check(&parameters).map_err(|mistake| mistake.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slot_has_the_omitted_start_and_the_duration() {
        let described = TestDescription {
            kind: Kind::Throughput,
            duration: Time::from_secs(10),
            rate: None,
            options: TestOptions { congestion: None, parallel: 4, omit: Time::from_secs(2) },
        };
        let parameters = described.parameters();
        assert_eq!((described.check(), parameters.duration), (Ok(()), Time::from_secs(12)));
        let server = "far iperf3 5201 192.0.2.7";
        let test = described.test(server);
        assert_eq!(test.parameters, format!("options/1 parallel=4 omit=2s {server}"));
        // Both ends read the test as it was described.
        assert_eq!(TestParameters::of(&test, parameters.duration), Ok(parameters));
        let latency = TestDescription { kind: Kind::Latency, ..described.clone() };
        assert!(latency.check().unwrap_err().contains("no option parallel"));
        let endless = TestOptions { omit: Time::MAX, ..TestOptions::default() };
        let endless = TestDescription { duration: Time::MAX, options: endless, ..described };
        assert!(endless.check().unwrap_err().contains("is at most"));
    }
}
