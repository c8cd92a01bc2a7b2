//! Options of a throughput test, and how a reservation carries them.
//!
//! They are in [`Test::parameters`], which both ends receive: `options/1 congestion=bbr parallel=4 omit=2s`,
//! followed by the server outside the mesh if the test has one. A point of a version without options expects
//! the name of a server there, and refuses the test.

use std::{fmt, str::FromStr};

use reservation::Test;
use units::{BitRate, Time};

use super::{Kind, TestParameters};

/// Begins parameters with options. The number changes if the meaning of the options changes.
const MARK: &str = "options/1";
/// What the marks of all versions have in common.
const ANY_MARK: &str = "options/";
/// Maximum number of streams of a test (MAX_STREAMS of iperf3).
const MAX_STREAMS: u32 = 128;
/// The longest omitted start (MAX_OMIT_TIME of iperf3).
const MAX_OMIT: Time = Time::from_secs(600);
/// The shortest time that remains after the omitted start.
const MIN_COUNTED: Time = Time::from_secs(1);
/// The longest name of a congestion control, bytes (TCP_CA_NAME_MAX of Linux, without the final zero).
const MAX_CONGESTION_BYTES: usize = 15;
/// Nanoseconds of a millisecond and of a second.
const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;

/// Options of a throughput test, named as those of `longfat test` and pSConfig.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TestOptions {
    /// The sender's congestion control, as its kernel names it; `None`: the default of the system.
    pub congestion: Option<String>,
    /// Number of parallel streams, 1 to 128.
    pub parallel: u32,
    /// The start of the test, which no figure includes; whole milliseconds. It is a part of the test's
    /// duration.
    pub omit: Time,
}

impl Default for TestOptions {
    fn default() -> Self {
        TestOptions { congestion: None, parallel: 1, omit: Time::ZERO }
    }
}

/// A mistake in an option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OptionMistake {
    /// The name of the option.
    pub option: &'static str,
    /// The mistake, in words.
    pub text: String,
}

impl TestOptions {
    /// Checks the options of a test with these parameters. Their duration includes the omitted start.
    ///
    /// # Errors
    /// The first option with a mistake.
    pub fn check(&self, of: &TestParameters) -> Result<(), OptionMistake> {
        let mistake = |option, text: String| Err(OptionMistake { option, text });
        let is_set = [
            ("congestion", self.congestion.is_some()),
            ("parallel", self.parallel != 1),
            ("omit", self.omit > Time::ZERO),
        ];
        let unfit = is_set.into_iter().find(|(_, is_set)| *is_set && of.kind != Kind::Throughput);
        if let Some((option, _)) = unfit {
            return mistake(option, format!("a test of the kind {} has no option {option}", of.kind));
        }
        if let Some(name) = &self.congestion {
            let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
            if name.is_empty() || name.len() > MAX_CONGESTION_BYTES || !name.bytes().all(is_plain) {
                let text = format!("{name:?} is not the name of a congestion control, as in \"cubic\"");
                return mistake("congestion", text);
            }
            if of.rate.is_some() {
                return mistake("congestion", "a UDP test has no congestion control".into());
            }
        }
        if !(1..=MAX_STREAMS).contains(&self.parallel) {
            return mistake("parallel", format!("a test has 1 to {MAX_STREAMS} streams"));
        }
        if of.rate.is_some_and(|rate| self.rate_of_stream(rate) == BitRate(0)) {
            return mistake("parallel", "the rate of the test is less than 1 bit/s for each stream".into());
        }
        if self.omit > MAX_OMIT || !self.omit.as_nanos().is_multiple_of(MS) {
            let text = format!("the omitted start has whole milliseconds, and is at most {MAX_OMIT}");
            return mistake("omit", text);
        }
        if self.omit > Time::ZERO && of.duration.saturating_sub(self.omit) < MIN_COUNTED {
            let text = format!("the test must last at least {MIN_COUNTED} after its omitted start");
            return mistake("omit", text);
        }
        Ok(())
    }

    /// The rate of each stream of a test with this rate.
    pub(crate) fn rate_of_stream(&self, rate: BitRate) -> BitRate {
        BitRate(rate.0 / u64::from(self.parallel.max(1)))
    }

    /// The options that differ from the defaults, as results have them; `None` if there are none. Equal
    /// options have the same text.
    pub fn text(&self) -> Option<String> {
        Some(self.to_string()).filter(|text| !text.is_empty())
    }
}

impl fmt::Display for TestOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let omit = match self.omit.as_nanos() {
            0 => None,
            ns if ns.is_multiple_of(S) => Some(format!("omit={}s", ns / S)),
            ns => Some(format!("omit={}ms", ns / MS)),
        };
        let words = [
            self.congestion.as_ref().map(|name| format!("congestion={name}")),
            (self.parallel != 1).then(|| format!("parallel={}", self.parallel)),
            omit,
        ];
        f.write_str(&words.into_iter().flatten().collect::<Vec<_>>().join(" "))
    }
}

impl FromStr for TestOptions {
    type Err = String;

    /// Reads what [`Display`](fmt::Display) has written.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} are not options of a test");
        let mut options = TestOptions::default();
        for word in text.split_whitespace() {
            let (name, value) = word.split_once('=').ok_or_else(wrong)?;
            match name {
                "congestion" => options.congestion = Some(value.into()),
                "parallel" => options.parallel = value.parse().map_err(|_| wrong())?,
                "omit" => options.omit = value.parse().map_err(|_| wrong())?,
                _ => {
                    let version = env!("CARGO_PKG_VERSION");
                    return Err(format!(
                        "longfat {version} has no option {name} of tests; it needs a newer version"
                    ));
                }
            }
        }
        // Results are compared by their text.
        if options.to_string() == text { Ok(options) } else { Err(wrong()) }
    }
}

/// The parameters of a test with options and a server outside the mesh; without one, `server` is empty.
pub(crate) fn parameters_of(options: &TestOptions, server: &str) -> String {
    match options.text() {
        None => server.into(),
        Some(options) if server.is_empty() => format!("{MARK} {options}"),
        Some(options) => format!("{MARK} {options} {server}"),
    }
}

/// The texts of the options and of the server in the parameters of a test; each may be empty.
pub(super) fn split(parameters: &str) -> Result<(&str, &str), String> {
    let (mark, rest) = parameters.split_once(' ').unwrap_or((parameters, ""));
    if !mark.starts_with(ANY_MARK) {
        return Ok(("", parameters));
    }
    if mark != MARK {
        let version = env!("CARGO_PKG_VERSION");
        return Err(format!(
            "longfat {version} does not know the {mark} of this test; it needs a newer version"
        ));
    }
    // Options have an equals sign; the name of a server, which follows them, has none.
    let options: usize = rest.split_inclusive(' ').take_while(|word| word.contains('=')).map(str::len).sum();
    let (options, server) = rest.split_at(options);
    Ok((options.trim_end(), server))
}

/// The options of a test.
pub(crate) fn options_of(test: &Test) -> Result<TestOptions, String> {
    split(&test.parameters)?.0.parse()
}

/// The reason why a test was not run, with a hint if another point refused its options because of an earlier
/// version.
pub(crate) fn explain_refusal(test: &Test, reason: String) -> String {
    let refusal = format!("{:?} is not a server", test.parameters);
    if !test.parameters.starts_with(ANY_MARK) || !reason.contains(&refusal) {
        return reason;
    }
    let options = options_of(test).map(|options| options.to_string()).unwrap_or_default();
    format!(
        "{reason}; its version of longfat does not support the options of this test ({options}): update it"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::server_of;

    fn options(congestion: Option<&str>, parallel: u32, omit_ms: u64) -> TestOptions {
        TestOptions { congestion: congestion.map(str::to_owned), parallel, omit: Time::from_millis(omit_ms) }
    }

    fn tcp(seconds: u64) -> TestParameters {
        TestParameters { kind: Kind::Throughput, duration: Time::from_secs(seconds), rate: None }
    }

    #[test]
    fn options_are_read_as_they_were_written() {
        for (known, text) in [
            (options(None, 1, 0), ""),
            (options(Some("bbr"), 1, 0), "congestion=bbr"),
            (options(Some("cubic"), 4, 2000), "congestion=cubic parallel=4 omit=2s"),
            (options(None, 128, 1500), "parallel=128 omit=1500ms"),
        ] {
            assert_eq!(known.to_string(), text);
            assert_eq!(text.parse::<TestOptions>(), Ok(known.clone()));
            for server in ["", "far iperf3 5201 192.0.2.7"] {
                let test = Test { parameters: parameters_of(&known, server), ..tcp(10).test() };
                assert_eq!(options_of(&test), Ok(known.clone()), "{}", test.parameters);
                let found = server_of(&test).unwrap().map(|server| server.to_string()).unwrap_or_default();
                assert_eq!(found, server);
            }
        }
        assert_eq!(parameters_of(&TestOptions::default(), ""), "", "as tests of earlier versions");
        // Other spellings would be other options of the same test.
        let unusual =
            ["parallel=04", "parallel=1", "omit=2000ms", "parallel=4 congestion=bbr", "parallel", "omit=x"];
        for text in unusual {
            assert!(text.parse::<TestOptions>().is_err(), "{text}");
        }
        assert!("tos=8".parse::<TestOptions>().unwrap_err().contains("has no option tos of tests"));
        let newer = Test { parameters: "options/2 x=1".into(), ..tcp(10).test() };
        assert!(options_of(&newer).unwrap_err().contains("does not know the options/2 of this test"));
        assert!(server_of(&newer).is_err());
    }

    #[test]
    fn mistakes_name_their_option() {
        let udp = TestParameters { rate: Some(BitRate(3)), ..tcp(10) };
        let latency = TestParameters { kind: Kind::Latency, ..tcp(10) };
        for (known, of, option, part) in [
            (options(Some("BBR"), 1, 0), tcp(10), "congestion", "is not the name of a congestion control"),
            (options(Some("a b"), 1, 0), tcp(10), "congestion", "is not the name of a congestion control"),
            (options(Some("sixteen_letters_"), 1, 0), tcp(10), "congestion", "is not the name"),
            (options(Some("bbr"), 1, 0), udp, "congestion", "a UDP test has no congestion control"),
            (options(None, 0, 0), tcp(10), "parallel", "1 to 128 streams"),
            (options(None, 129, 0), tcp(10), "parallel", "1 to 128 streams"),
            (options(None, 4, 0), udp, "parallel", "less than 1 bit/s for each stream"),
            (options(None, 1, 601_000), tcp(1000), "omit", "is at most"),
            (options(None, 1, 9500), tcp(10), "omit", "after its omitted start"),
            (options(None, 2, 0), latency, "parallel", "a test of the kind latency has no option parallel"),
        ] {
            let mistake = known.check(&of).unwrap_err();
            assert_eq!(mistake.option, option, "{known:?}");
            assert!(mistake.text.contains(part), "{}", mistake.text);
        }
        assert_eq!(options(Some("bbr"), 128, 9000).check(&tcp(10)), Ok(()));
        assert_eq!(options(None, 3, 0).check(&udp), Ok(()));
        assert_eq!(TestOptions::default().check(&latency), Ok(()));
        let fine = Test { parameters: parameters_of(&options(None, 4, 0), ""), ..tcp(10).test() };
        assert_eq!(TestParameters::of(&fine, tcp(10).duration), Ok(tcp(10)));
        let disguised = Test { parameters: fine.parameters.clone(), ..latency.test() };
        assert!(TestParameters::of(&disguised, tcp(10).duration).unwrap_err().contains("no option parallel"));
    }

    #[test]
    fn the_refusal_of_a_version_without_options_is_explained() {
        let test = Test { parameters: parameters_of(&options(None, 4, 0), ""), ..tcp(10).test() };
        let refusal = "point b does not allow it: \"options/1 parallel=4\" is not a server".to_string();
        let explained = explain_refusal(&test, refusal.clone());
        assert!(
            explained.starts_with(&refusal) && explained.contains("(parallel=4): update it"),
            "{explained}"
        );
        let other = "point b does not allow it: refused by max_duration".to_string();
        assert_eq!(explain_refusal(&test, other.clone()), other);
        assert_eq!(explain_refusal(&tcp(10).test(), refusal.clone()), refusal);
    }
}
