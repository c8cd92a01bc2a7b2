//! What can be learned of a path without anything at its other end: the address, and the round-trip time.

use std::{
    net::{IpAddr, TcpStream, ToSocketAddrs},
    time::{Duration, Instant},
};

use anyhow::Context;
use diagnosis::RoundTrips;
use perf::{Echo, PingOptions, PingSocket, Stop};
use units::{Bytes, Time};

use crate::exit::Exit;

/// Echoes for one round-trip time.
const ECHOES: u32 = 5;
const INTERVAL: Time = Time::from_millis(100);
/// How long an echo may take.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// The first address of a host's name.
pub fn address(host: &str) -> anyhow::Result<IpAddr> {
    let found =
        (host, 0).to_socket_addrs().map_err(|e| Exit::BadInput(format!("cannot find {host}: {e}")))?;
    let first = found.map(|address| address.ip()).next();
    first.ok_or_else(|| Exit::BadInput(format!("{host} has no address")).into())
}

/// The smallest round-trip time of some echoes.
///
/// # Errors
/// Where there is no right to send echoes (exit code 4), or none came back.
pub fn round_trip(to: IpAddr) -> anyhow::Result<Time> {
    Ok(round_trips(to, ECHOES)?.fastest)
}

/// The fastest and the median of so many echoes.
///
/// # Errors
/// As [`round_trip`].
pub fn round_trips(to: IpAddr, count: u32) -> anyhow::Result<RoundTrips> {
    let echoes = echoes(to, count, Bytes(56), PATIENCE).map_err(|error| {
        Exit::Missing(format!(
            "{error}; sending echoes takes CAP_NET_RAW: try sudo, or say the time with --rtt"
        ))
    })?;
    let mut times: Vec<Duration> = echoes.iter().filter_map(|echo| echo.rtt).collect();
    times.sort_unstable();
    let fastest = times
        .first()
        .with_context(|| format!("{to} answered none of {count} echoes; say the time with --rtt"))?;
    // A capture's precision would only be noise to read.
    let rounded = |time: &Duration| Time(units::three_digits(time.as_nanos() as f64));
    let median = (times.len() > 1).then(|| rounded(&times[times.len() / 2]));
    Ok(RoundTrips { fastest: rounded(fastest), median })
}

/// Sends `count` echoes with `payload` bytes each and waits for each as long as `patience`. What fits the device's MTU goes
/// unfragmented and may not be fragmented on the way (IP_PMTUDISC_WANT, the default of raw sockets).
pub fn echoes(to: IpAddr, count: u32, payload: Bytes, patience: Duration) -> Result<Vec<Echo>, perf::Error> {
    let identifier = std::process::id() as u16;
    let socket = PingSocket::new(to, identifier)?;
    let options = PingOptions { interval: INTERVAL, count: Some(count), payload, patience };
    let mut echoes = Vec::new();
    socket.run(&options, &Stop::default(), |echo| echoes.push(echo))?;
    Ok(echoes)
}

/// How long a connection takes: a round trip and what the hosts need, where no echoes may be sent.
pub fn connect_time(to: IpAddr, port: u16) -> std::io::Result<Time> {
    let before = Instant::now();
    TcpStream::connect_timeout(&(to, port).into(), PATIENCE)?;
    Ok(Time(before.elapsed().as_nanos() as u64))
}
