//! Restores the parameters of a test from its reservation, and checks them together with its options and its
//! server.

use reservation::Test;
use units::Time;

use super::{Kind, ServerProtocol, TestParameters, options_of, server_of};

/// The shortest latency test by OWAMP, whose connection and records take some seconds.
const MIN_OWAMP_DURATION: Time = Time::from_secs(5);

impl TestParameters {
    /// Restores the parameters from a test that [`TestParameters::test`] made.
    pub(crate) fn of(test: &Test, duration: Time) -> Result<Self, String> {
        let parameters = TestParameters { kind: test.kind.parse()?, duration, rate: test.rate };
        parameters.check()?;
        options_of(test)?.check(&parameters).map_err(|mistake| mistake.text)?;
        let server = server_of(test)?;
        if parameters.kind == Kind::Latency
            && server.as_ref().is_some_and(|server| server.protocol == ServerProtocol::Owamp)
            && duration < MIN_OWAMP_DURATION
        {
            return Err(format!("a latency test by OWAMP lasts at least {MIN_OWAMP_DURATION}"));
        }
        let fits = server.is_none_or(|server| server.protocol.serves(parameters.kind));
        if !fits || parameters.test() != (Test { parameters: String::new(), ..test.clone() }) {
            return Err(format!("its parameters do not fit a test of the kind {}", parameters.kind));
        }
        Ok(parameters)
    }
}

#[cfg(test)]
mod tests {
    use reservation::Transport;
    use units::BitRate;

    use super::*;
    use crate::ServerService;

    #[test]
    fn parameters_are_read_as_they_were_written() {
        for (kind, rate) in [
            (Kind::Throughput, None),
            (Kind::Throughput, Some(BitRate(5_000_000))),
            (Kind::Latency, None),
            (Kind::Diagnose, None),
            (Kind::Probe, Some(BitRate(100_000_000))),
            (Kind::Trace, None),
            (Kind::Transfer, None),
            (Kind::Transfer, Some(BitRate(5_000_000))),
            (Kind::Stream, Some(BitRate(512_000_000))),
        ] {
            let parameters = TestParameters { kind, duration: Time::from_secs(50), rate };
            assert_eq!(TestParameters::of(&parameters.test(), parameters.duration), Ok(parameters));
        }
        let udp =
            TestParameters { kind: Kind::Throughput, duration: Time::from_secs(5), rate: Some(BitRate(1)) };
        // Limits decide by the transport: it must be that of the test which runs.
        let disguised = Test { transport: Transport::Tcp, ..udp.test() };
        assert!(TestParameters::of(&disguised, udp.duration).is_err());
        // A reflector does not serve throughput tests.
        let server = |protocol| ServerService::new("far", protocol, "far.example").unwrap().to_string();
        let with = |protocol| Test { parameters: server(protocol), ..udp.test() };
        assert_eq!(TestParameters::of(&with(ServerProtocol::Iperf3), udp.duration), Ok(udp));
        assert!(TestParameters::of(&with(ServerProtocol::Twamp), udp.duration).is_err());
        let latency =
            |seconds| TestParameters { kind: Kind::Latency, duration: Time::from_secs(seconds), rate: None };
        let one_way = Test { parameters: server(ServerProtocol::Owamp), ..latency(1).test() };
        assert!(
            TestParameters::of(&one_way, Time::from_secs(4)).unwrap_err().contains("OWAMP lasts at least")
        );
        assert_eq!(TestParameters::of(&one_way, Time::from_secs(5)), Ok(latency(5)));
        // A trace needs no service.
        let trace = TestParameters { kind: Kind::Trace, duration: Time::from_secs(5), rate: None };
        for protocol in ServerProtocol::ALL {
            let test = Test { parameters: server(protocol), ..trace.test() };
            assert_eq!(TestParameters::of(&test, trace.duration), Ok(trace));
        }
        assert!(TestParameters::of(&with(ServerProtocol::Host), udp.duration).is_err());
        let (short, fast) = (Time::from_secs(4), Some(BitRate(1)));
        let probe = TestParameters { kind: Kind::Probe, duration: Time::from_secs(45), rate: None };
        for wrong in [
            TestParameters { duration: short, ..trace },
            TestParameters { rate: fast, ..trace },
            TestParameters { duration: short, rate: fast, ..probe },
            probe,
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
        let other = Test { kind: "dns".into(), ..Test::default() };
        assert!(TestParameters::of(&other, udp.duration).is_err());
    }
}
