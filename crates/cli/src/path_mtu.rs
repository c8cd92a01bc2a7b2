//! The largest packet that comes through: echoes of the device's MTU, and where those vanish, sizes in between.

use std::{net::IpAddr, time::Duration};

use diagnosis::Mtu;
use units::{Bytes, Time};

use crate::path_facts::echoes;

/// What every path carries: RFC 791's 576 bytes are what hosts must take; IPv6's least MTU is 1280 (RFC 8200).
const LEAST: (u32, u32) = (576, 1280);
/// IP and ICMP headers.
const HEADERS: (u32, u32) = (28, 48);
/// Echoes of one size: that many are not lost by chance.
const TRIES: u32 = 3;
/// Beside some round trips.
const PATIENCE: Duration = Duration::from_millis(200);
/// Sizes are told apart down to this many bytes.
const FINE: u32 = 4;

/// Finds it. Packets that a router sends back with a word about its MTU are cut by our kernel from then on, and pass.
pub fn find(to: IpAddr, device: u32, rtt: Time) -> Result<Mtu, perf::Error> {
    let (least, headers) = match to {
        IpAddr::V4(_) => (LEAST.0, HEADERS.0),
        IpAddr::V6(_) => (LEAST.1, HEADERS.1),
    };
    let patience = PATIENCE + 4 * Duration::from_nanos(rtt.0);
    let passes = |bytes: u32| {
        let sent = echoes(to, TRIES, Bytes(u64::from(bytes - headers)), patience)?;
        Ok::<bool, perf::Error>(sent.iter().any(|echo| echo.rtt.is_some()))
    };
    if device <= least || passes(device)? {
        return Ok(Mtu { device, passes: Some(device) });
    }
    if !passes(least)? {
        // Echoes are filtered, or the path is down: nothing is known of sizes.
        return Ok(Mtu { device, passes: None });
    }
    let (mut good, mut bad) = (least, device);
    while bad - good > FINE {
        let middle = good + (bad - good) / 2;
        match passes(middle)? {
            true => good = middle,
            false => bad = middle,
        }
    }
    Ok(Mtu { device, passes: Some(good) })
}
