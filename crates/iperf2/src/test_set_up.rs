//! Common parts of a client's TCP and UDP tests: the server's addresses, local addresses, and the header.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use iperf3::{
    ClientOptions, Error, IpVersion,
    report::{self, Direction, Protocol},
};
use units::Bytes;

use crate::wire::{Amount, ClientHeader, TestMode};

/// The server's addresses.
pub(crate) fn addresses(options: &ClientOptions) -> Result<Vec<SocketAddr>, Error> {
    let found = (options.host.as_str(), options.port)
        .to_socket_addrs()
        .map_err(|error| no_address(options, &error.to_string()))?;
    let has_version = |address: &SocketAddr| match options.ip {
        Some(IpVersion::V4) => address.is_ipv4(),
        Some(IpVersion::V6) => address.is_ipv6(),
        None => options.bind.is_none_or(|bind| bind.is_ipv4() == address.is_ipv4()),
    };
    Ok(found.filter(has_version).collect())
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
