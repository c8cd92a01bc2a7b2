//! The client: connects the streams and sends the header on each.

use std::{
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    sync::atomic::AtomicBool,
};

use iperf3::{
    ClientOptions, Error, IpVersion, Observer, TestOutcome,
    plain_streams::{self, End, PlainTest, new_socket, set_up},
    report::{self, Direction, Protocol, Role},
};
use socket2::Socket;
use traffic::Attempted;
use units::Bytes;

use crate::{
    udp_client,
    wire::{Amount, ClientHeader, TestMode},
};

/// The port of iperf 2's servers.
pub const DEFAULT_PORT: u16 = 5001;

/// Tests with an iperf 2 server. Of the options only those apply that iperf 2's protocol has. Ends early when `stop`
/// is set.
pub fn test(options: &ClientOptions, stop: &AtomicBool, observer: &mut dyn Observer) -> TestOutcome {
    let outcome = match options.spec.protocol {
        Protocol::Tcp => connect(options, observer).map(|test| plain_streams::run(test, stop, observer)),
        Protocol::Udp => udp_client::test(options, stop, observer),
    };
    outcome.unwrap_or_else(|error| {
        let mut outcome = TestOutcome::default();
        outcome.report.error = Some(error.to_string());
        outcome.error = Some(error);
        outcome
    })
}

/// Connects all streams and sends their headers.
fn connect(options: &ClientOptions, observer: &mut dyn Observer) -> Result<PlainTest, Error> {
    let spec = &options.spec;
    let first = addresses(options)?;
    let mut to = None;
    let mut streams = Vec::new();
    for number in 0..spec.streams {
        let candidates = to.map_or_else(|| first.clone(), |to| vec![to]);
        let (socket, peer) = connect_one(options, &candidates, number, observer)?;
        to = Some(peer);
        let header = header(options);
        socket
            .send(&header.encode(false))
            .attempted(|| "cannot send the header of a stream".into())
            .map_err(Error::from)?;
        let copy = |socket: &Socket| socket.try_clone().attempted(|| "cannot duplicate a stream".into());
        match spec.direction {
            Direction::Forward => streams.push((socket, true)),
            Direction::Reverse => streams.push((socket, false)),
            Direction::Both => {
                streams.push((copy(&socket).map_err(Error::from)?, true));
                streams.push((socket, false));
            }
        }
    }
    let announced = match spec.amount {
        report::Amount::Time(time) => Some(time + options.phase_timeout),
        _ => None,
    };
    Ok(PlainTest {
        role: Role::Client,
        peer: to.expect("there is at least one stream"),
        peer_name: Some(options.host.clone()),
        port: options.port,
        spec: spec.clone(),
        streams,
        pin: options.pin.clone(),
        idle_timeout: options.idle_timeout,
        max_duration: announced,
    })
}

/// Connects one stream to the first address that accepts it.
fn connect_one(
    options: &ClientOptions,
    addresses: &[SocketAddr],
    number: u32,
    observer: &mut dyn Observer,
) -> Result<(Socket, SocketAddr), Error> {
    let congestion = options.congestion.as_deref().or(options.spec.congestion.as_deref());
    let mut failed = None;
    for to in addresses {
        let socket = new_socket(*to, from(options, *to, number), options.device.as_deref(), Protocol::Tcp)?;
        let notes = set_up(&socket, to.ip(), &options.spec, true, congestion, End::Client)?;
        match socket
            .connect_timeout(&(*to).into(), options.connect_timeout)
            .attempted(|| format!("cannot connect to {to}"))
        {
            Ok(()) => {
                if number == 0 {
                    notes.iter().for_each(|note| observer.note(note));
                }
                return Ok((socket, *to));
            }
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.map_or_else(|| no_address(options, "no address of the requested IP version"), Error::from))
}

/// The server's addresses.
pub(crate) fn addresses(options: &ClientOptions) -> Result<Vec<SocketAddr>, Error> {
    let found = (options.host.as_str(), options.port)
        .to_socket_addrs()
        .map_err(|error| no_address(options, &error.to_string()))?;
    let of_version = |address: &SocketAddr| match options.ip {
        Some(IpVersion::V4) => address.is_ipv4(),
        Some(IpVersion::V6) => address.is_ipv6(),
        None => options.bind.is_none_or(|bind| bind.is_ipv4() == address.is_ipv4()),
    };
    Ok(found.filter(of_version).collect())
}

pub(crate) fn no_address(options: &ClientOptions, reason: &str) -> Error {
    Error::NoAddress { host: options.host.clone(), reason: reason.into() }
}

/// The local address of a stream, if one was requested.
pub(crate) fn from(options: &ClientOptions, to: SocketAddr, number: u32) -> Option<SocketAddr> {
    let port = options.client_port.map_or(0, |port| port.wrapping_add(number as u16));
    let any = || if to.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
    (options.bind.is_some() || port > 0).then(|| SocketAddr::new(options.bind.unwrap_or_else(any), port))
}

/// The header of a test.
pub(crate) fn header(options: &ClientOptions) -> ClientHeader {
    let spec = &options.spec;
    let is_udp = spec.protocol == Protocol::Udp;
    let mode = match spec.direction {
        Direction::Forward => TestMode::Forward,
        Direction::Reverse => TestMode::Reverse,
        Direction::Both => TestMode::FullDuplex,
    };
    // Each stream has its part of the amount.
    let part = |bytes: u64| Amount::Bytes(Bytes(bytes.div_ceil(u64::from(spec.streams.max(1)))));
    ClientHeader {
        mode,
        streams: spec.streams,
        port: u32::from(options.port),
        block: if is_udp || !options.fit_block { spec.block.0 as u32 } else { 0 },
        amount: match spec.amount {
            report::Amount::Time(time) => Amount::Time(time),
            report::Amount::Bytes(bytes) => part(bytes.0),
            report::Amount::Blocks(blocks) => part(blocks.saturating_mul(spec.block.0)),
        },
        rate: spec.rate,
        numbers_64bit: is_udp,
        wants_acknowledgement: mode == TestMode::Forward,
        wants_times: false,
        no_udp_report: false,
    }
}
