//! The path MTU: echo requests of the device's MTU, and where those vanish, a binary search below it.

use std::{net::IpAddr, time::Duration};

use diagnosis::Mtu;
use units::{Bytes, Time};

use super::echoes::echoes;

/// Minimum MTU over IPv4 and IPv6, bytes: hosts must accept 576 (RFC 791); IPv6 links carry 1280 (RFC 8200).
const MIN_MTU: (u32, u32) = (576, 1280);
/// IP and ICMP headers over IPv4 and IPv6, bytes.
const HEADERS: (u32, u32) = (28, 48);
/// Number of echo requests of one size: enough that random loss does not affect all of them.
const TRIES: u32 = 3;
/// Added to four round trips: how long a reply may take.
const REPLY_TIMEOUT: Duration = Duration::from_millis(200);
/// Resolution of the search, bytes.
const RESOLUTION: u32 = 4;

/// Finds the path MTU. After an ICMP "fragmentation needed", this host's kernel fragments echo requests, so
/// they pass.
///
/// # Errors
/// If echo requests cannot be sent.
pub fn find(to: IpAddr, device: u32, rtt: Time) -> Result<Mtu, traffic::Error> {
    let (min_mtu, headers) = match to {
        IpAddr::V4(_) => (MIN_MTU.0, HEADERS.0),
        IpAddr::V6(_) => (MIN_MTU.1, HEADERS.1),
    };
    let timeout = REPLY_TIMEOUT + 4 * rtt.to_duration();
    let passes = |bytes: u32| {
        let sent = echoes(to, TRIES, Bytes(u64::from(bytes - headers)), timeout)?;
        Ok::<bool, traffic::Error>(sent.iter().any(|echo| echo.rtt.is_some()))
    };
    if device <= min_mtu || passes(device)? {
        return Ok(Mtu { device, passes: Some(device) });
    }
    if !passes(min_mtu)? {
        // Echo requests are filtered, or the path is down: the sizes that pass stay unknown.
        return Ok(Mtu { device, passes: None });
    }
    let (mut good, mut bad) = (min_mtu, device);
    while bad - good > RESOLUTION {
        let middle = good + (bad - good) / 2;
        match passes(middle)? {
            true => good = middle,
            false => bad = middle,
        }
    }
    Ok(Mtu { device, passes: Some(good) })
}
