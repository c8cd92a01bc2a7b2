//! Receives and checks a client's parameters before the client is queued, so that a client that sends
//! nothing, or one byte a second, does not occupy a turn.

use std::{
    io::{ErrorKind, Read, Write},
    net::{IpAddr, SocketAddr},
    os::fd::{AsFd, BorrowedFd},
    time::{Instant, SystemTime},
};

use socket2::Socket;
use traffic::Attempted;

use super::{ServerObserver, ServerOptions};
use crate::{
    Error,
    auth::AuthError,
    report::{Amount, Direction, Protocol, Role, TestSpec},
    report_builder,
    token::{SEALED_LIMIT_FACTOR, Seal},
    wire::{self, Code, Cookie, PARAMS_LIMIT, Params, State},
};

/// Bytes before a message's text: its length.
const HEADER_BYTES: usize = 4;

/// A client whose parameters are being received.
#[derive(Debug)]
pub(super) struct Admission {
    pub(super) socket: Socket,
    pub(super) peer: SocketAddr,
    pub(super) cookie: Cookie,
    pub(super) since: Instant,
    seal: Option<Seal>,
    /// The message so far, its header included.
    bytes: Vec<u8>,
}

/// A requested test that is allowed.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) params: Params,
    pub(super) spec: TestSpec,
    pub(super) seal: Option<Seal>,
}

impl Admission {
    /// Requests the client's parameters, on a non-blocking socket.
    pub(super) fn begin(
        socket: Socket,
        peer: SocketAddr,
        cookie: Cookie,
        options: &ServerOptions,
    ) -> Result<Self, Error> {
        let what = || "request a test's parameters".to_string();
        socket.set_tcp_nodelay(true).attempted(what)?;
        (&socket).write_all(&State::ParamExchange.code().to_be_bytes()).attempted(what)?;
        let seal = options.gate.as_ref().map(|gate| Seal::new(gate.token().clone(), cookie, Role::Server));
        Ok(Admission { socket, peer, cookie, since: Instant::now(), seal, bytes: Vec::new() })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Reads the received bytes, but nothing after the message; true once it is complete.
    pub(super) fn read(&mut self) -> Result<bool, Error> {
        let limit = PARAMS_LIMIT * if self.seal.is_some() { SEALED_LIMIT_FACTOR } else { 1 };
        loop {
            let needed = match self.bytes.first_chunk::<HEADER_BYTES>() {
                None => HEADER_BYTES,
                Some(header) => {
                    let too_long = Error::TooLong { what: "parameters", limit };
                    HEADER_BYTES + wire::payload_len(*header, limit).ok_or(too_long)?
                }
            };
            let have = self.bytes.len();
            if have >= HEADER_BYTES && have == needed {
                return Ok(true);
            }
            self.bytes.resize(needed, 0);
            let read = (&self.socket).read(&mut self.bytes[have..]);
            self.bytes.truncate(have + read.as_ref().map_or(0, |n| *n));
            match read {
                Ok(0) => return Err(Error::Closed { expected: "parameters" }),
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(e) => return Err(e).attempted(|| "receive parameters".into())?,
            }
        }
    }

    /// The test that the complete message requests, if it is allowed.
    pub(super) fn check(
        &mut self,
        options: &ServerOptions,
        observer: &dyn ServerObserver,
    ) -> Result<Admitted, Error> {
        let text = &self.bytes[HEADER_BYTES..];
        let params = match &mut self.seal {
            None => wire::decode::<Params>(text),
            Some(seal) => wire::decode(seal.open(text)?.as_bytes()),
        };
        let params = params.map_err(|reason| Error::Malformed { what: "parameters", reason })?;
        self.authenticate(&params, options, observer)?;
        let mut spec = TestSpec { interval: options.interval, ..params.spec()? };
        if spec.protocol == Protocol::Tcp && spec.direction != Direction::Both {
            spec.file = options.file.clone();
        }
        check_limits(&spec, options)?;
        Ok(Admitted { params, spec, seal: self.seal.take() })
    }

    fn authenticate(
        &self,
        params: &Params,
        options: &ServerOptions,
        observer: &dyn ServerObserver,
    ) -> Result<(), Error> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        if let Some(gate) = &options.gate {
            gate.admit(&self.cookie, params.longfat_time_s, now.as_secs())?;
        } else if params.longfat_sealed.is_some() {
            return Err(AuthError::Refused("the client uses a token, but this server has none").into());
        }
        let Some(authority) = &options.authority else { return Ok(()) };
        let user = authority.check(params.authtoken.as_deref(), now.as_secs())?;
        observer.note(&format!("{}: authenticated as {user}", canonical(self.peer)));
        Ok(())
    }

    /// Sends the client the reason why it is rejected.
    pub(super) fn reject(&self, error: &Error) {
        if matches!(error, Error::Closed { .. }) {
            return;
        }
        let mut message = vec![State::ServerError.code() as u8];
        message.extend(error.code().0.to_be_bytes());
        message.extend(error.errno().to_be_bytes());
        // An error means that the client does not read.
        let _ = (&self.socket).write(&message);
    }
}

fn check_limits(spec: &TestSpec, options: &ServerOptions) -> Result<(), Error> {
    if let (Some((limit, _)), Some(rate)) = (options.rate_limit, spec.rate) {
        let total = rate.0.saturating_mul(u64::from(report_builder::stream_count(spec)));
        if total > limit.0 {
            let text = format!("the requested rate of {total} bit/s exceeds the limit of {} bit/s", limit.0);
            return Err(Error::Limit(text, Code::TOTAL_RATE));
        }
    }
    if let (Some(max_duration), Amount::Time(time)) = (options.max_duration, spec.amount)
        && time + spec.omit > max_duration
    {
        let text = format!(
            "the requested duration of {} s exceeds the limit of {} s",
            (time + spec.omit).as_secs_f64(),
            max_duration.as_secs_f64()
        );
        return Err(Error::Limit(text, Code::MAX_DURATION));
    }
    Ok(())
}

/// Converts an IPv4-mapped IPv6 address to IPv4.
pub(super) fn canonical(peer: SocketAddr) -> SocketAddr {
    SocketAddr::new(peer.ip().to_canonical(), peer.port())
}

/// The address by which clients share the server: an IPv4 address, or an IPv6 /64 network, because one host
/// may use all its addresses.
pub(super) fn share_key(peer: SocketAddr) -> IpAddr {
    match peer.ip().to_canonical() {
        IpAddr::V6(address) => {
            let mut octets = address.octets();
            octets[8..].fill(0);
            IpAddr::from(octets)
        }
        v4 => v4,
    }
}

/// The index of the oldest (with `newest`: the newest) entry of the address that has the most entries; `None`
/// if no address has more than `at_least` entries.
pub(super) fn largest_share(keys: &[IpAddr], at_least: usize, newest: bool) -> Option<usize> {
    let count = |key: &IpAddr| keys.iter().filter(|other| *other == key).count();
    let (key, entries) = keys.iter().map(|key| (key, count(key))).max_by_key(|(_, n)| *n)?;
    if entries <= at_least {
        return None;
    }
    match newest {
        true => keys.iter().rposition(|other| other == key),
        false => keys.iter().position(|other| other == key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_one_ipv6_network_share_one_address() {
        let key = |text: &str| share_key(text.parse().unwrap());
        assert_eq!(key("[2001:db8::1]:1"), key("[2001:db8::ffff:2]:2"));
        assert_ne!(key("[2001:db8::1]:1"), key("[2001:db8:0:1::1]:1"));
        assert_eq!(key("[::ffff:10.0.0.1]:1"), key("10.0.0.1:2"));
        assert_ne!(key("10.0.0.1:1"), key("10.0.0.2:1"));
    }

    #[test]
    fn an_entry_of_the_address_with_the_most_entries_is_removed() {
        let key = |n: u8| IpAddr::from([10, 0, 0, n]);
        let keys = [key(1), key(2), key(2), key(3), key(2)];
        assert_eq!(largest_share(&keys, 2, false), Some(1));
        assert_eq!(largest_share(&keys, 2, true), Some(4));
        assert_eq!(largest_share(&keys, 3, true), None);
        assert_eq!(largest_share(&[], 0, true), None);
    }
}
