//! The address of a host and the round-trip time to it: the other end needs no server.

use std::{
    net::{IpAddr, TcpStream, ToSocketAddrs},
    time::{Duration, Instant},
};

use diagnosis::RoundTrips;
use traffic::{Echo, PingOptions, PingSocket, Stop};
use units::{Bytes, Time};

use super::Error;

/// Echo requests for one round-trip time.
const ECHOES: u32 = 5;
const INTERVAL: Time = Time::from_millis(100);
/// Timeout of a reply or a connection.
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);

/// The first address that a host's name resolves to.
///
/// # Errors
/// If it resolves to none.
pub fn address(host: &str) -> Result<IpAddr, Error> {
    let found =
        (host, 0).to_socket_addrs().map_err(|reason| Error::UnknownHost { host: host.into(), reason })?;
    let first = found.map(|address| address.ip()).next();
    first.ok_or_else(|| Error::NoAddress(host.into()))
}

/// The smallest round-trip time of a few echo requests.
///
/// # Errors
/// If this process may not send echo requests, or no reply arrived.
pub fn round_trip(to: IpAddr) -> Result<Time, Error> {
    Ok(round_trips(to, ECHOES)?.min)
}

/// The smallest and the median round-trip time of `count` echo requests.
///
/// # Errors
/// As [`round_trip`].
pub fn round_trips(to: IpAddr, count: u32) -> Result<RoundTrips, Error> {
    let echoes = echoes(to, count, Bytes(56), REPLY_TIMEOUT).map_err(Error::Echoes)?;
    let mut times: Vec<Duration> = echoes.iter().filter_map(|echo| echo.rtt).collect();
    times.sort_unstable();
    let fastest = times.first().ok_or(Error::NoReply { host: to, count })?;
    // More digits than the precision of an echo would only be noise.
    let rounded = |time: &Duration| Time::from_nanos(units::three_digits(time.as_nanos() as f64));
    let median = (times.len() > 1).then(|| rounded(&times[times.len() / 2]));
    Ok(RoundTrips { min: rounded(fastest), median })
}

/// Sends `count` echo requests with `payload` bytes each and waits up to `timeout` for each reply. Packets up
/// to the device's MTU carry the don't-fragment bit (IP_PMTUDISC_WANT, the default of raw sockets).
pub(super) fn echoes(
    to: IpAddr,
    count: u32,
    payload: Bytes,
    timeout: Duration,
) -> Result<Vec<Echo>, traffic::Error> {
    let identifier = std::process::id() as u16;
    let socket = PingSocket::new(to, identifier)?;
    let options = PingOptions { interval: INTERVAL, count: Some(count), payload, timeout };
    let mut echoes = Vec::new();
    socket.run(&options, &Stop::default(), |echo| echoes.push(echo))?;
    Ok(echoes)
}

/// The time to connect: a round trip and the processing of both hosts.
///
/// # Errors
/// If the connection is refused or times out.
pub fn connect_time(to: IpAddr, port: u16) -> std::io::Result<Time> {
    let before = Instant::now();
    TcpStream::connect_timeout(&(to, port).into(), REPLY_TIMEOUT)?;
    Ok(Time::from_nanos(before.elapsed().as_nanos() as u64))
}
