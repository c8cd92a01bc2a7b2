//! The request on which the limits decide.

use std::net::IpAddr;

use reservation::Transport;
use units::{BitRate, Time};

/// iperf3's default.
const DEFAULT_DURATION: Time = Time::from_secs(10);

/// A request: the requester and the test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestRequest {
    /// The authenticated user; `None` for a request without authentication.
    pub user: Option<String>,
    /// The address that it comes from.
    pub address: Option<IpAddr>,
    /// The address of the host at the other end of the test; decides which links it loads. If it is `None`,
    /// `address` does, except with a server.
    pub other_end: Option<IpAddr>,
    /// The other end is a server outside the mesh. Without an address it loads the links that carry tests
    /// with all hosts.
    pub is_with_server: bool,
    /// The transport protocol.
    pub transport: Transport,
    /// The rate that the test sends at.
    pub rate: Option<BitRate>,
    /// Its duration.
    pub duration: Time,
    /// Time until its start.
    pub starts_in: Time,
    /// Sum of both clocks' errors.
    pub time_error: Time,
    /// Its priority; `None`: it may displace reservations of any priority.
    pub priority: Option<i32>,
}

/// Why a text is not a test.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{part:?} in the test {text:?} is neither tcp, udp or other, nor a rate, a duration, in=TIME, error=TIME or priority=NUMBER; an example: udp,500mbit,30s,in=60s"
)]
pub struct TestRequestError {
    text: String,
    part: String,
}

impl TestRequest {
    /// Reads a test: `tcp,30s` or `udp,500mbit,30s,in=60s,error=10ms,priority=1`. The user and the addresses
    /// are not set.
    ///
    /// # Errors
    /// The part that cannot be read.
    pub fn parse_test(text: &str) -> Result<Self, TestRequestError> {
        let mut request = TestRequest {
            user: None,
            address: None,
            other_end: None,
            is_with_server: false,
            transport: Transport::Tcp,
            rate: None,
            duration: DEFAULT_DURATION,
            starts_in: Time::ZERO,
            time_error: Time::ZERO,
            priority: Some(0),
        };
        for part in text.split(',').map(str::trim) {
            let invalid = || TestRequestError { text: text.into(), part: part.into() };
            let time = |value: &str| value.parse::<Time>().map_err(|_| invalid());
            match part {
                "tcp" => request.transport = Transport::Tcp,
                "udp" => request.transport = Transport::Udp,
                "other" => request.transport = Transport::Other,
                _ => match part.split_once('=') {
                    Some(("in", value)) => request.starts_in = time(value)?,
                    Some(("error", value)) => request.time_error = time(value)?,
                    Some(("priority", value)) => {
                        request.priority = Some(value.parse().map_err(|_| invalid())?);
                    }
                    Some(_) => return Err(invalid()),
                    None => match part.parse::<Time>() {
                        Ok(duration) => request.duration = duration,
                        Err(_) => request.rate = Some(part.parse().map_err(|_| invalid())?),
                    },
                },
            }
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_requests_are_parsed() {
        let request = TestRequest::parse_test("udp, 500mbit, 30s, in=60s, error=10ms").unwrap();
        assert_eq!(request.transport, Transport::Udp);
        assert_eq!((request.rate, request.duration), (Some(BitRate(500_000_000)), Time::from_secs(30)));
        assert_eq!((request.starts_in, request.time_error), (Time::from_secs(60), Time::from_millis(10)));
        assert_eq!(TestRequest::parse_test("tcp").unwrap().duration, Time::from_secs(10));
        assert_eq!(TestRequest::parse_test("tcp,priority=-3").unwrap().priority, Some(-3));
        for text in ["", "tcp,priority=high", "sctp", "tcp,", "tcp,in", "tcp,in=", "tcp,at=3s", "tcp,30"] {
            assert!(TestRequest::parse_test(text).is_err(), "{text}");
        }
    }
}
