//! The hops of a path with their round-trip times, and the path MTU, within a given time.

use std::{net::SocketAddr, sync::atomic::AtomicBool, time::Instant};

use probe::{MtuResult, Trace, TraceResult};
use traffic::path_mtu::route_mtu;

use super::{
    Error,
    client::MAX_MTU,
    icmp_probes::{IcmpProber, MAX_HOPS, REPLY_TIMEOUT, search_mtu, timeout_after},
};

/// The hops of a path, and its MTU.
#[derive(Debug, Clone, PartialEq)]
pub struct PathTrace {
    /// The hops.
    pub hops: TraceResult,
    /// The search for the path MTU; `None` if the host did not reply to the trace.
    pub mtu: Option<MtuResult>,
    /// Whether larger packets than the MTU found do not pass: the search is complete, and its limit of 9000
    /// bytes is not below the MTU of this host's link.
    pub is_mtu_exact: bool,
    /// Whether the search for the MTU was not cut off: larger packets either do not pass, or were not tried
    /// because of the limit of 9000 bytes.
    pub is_mtu_complete: bool,
}

/// Traces the path to a host, and then searches its MTU. Both end before `until`, with what they have found
/// so far. `doing` is called with a description of each step.
///
/// # Errors
/// If there is no route to the host, the socket fails, or `stop` is set.
pub fn trace(
    to: SocketAddr,
    until: Instant,
    stop: &AtomicBool,
    doing: &mut dyn FnMut(&str),
) -> Result<PathTrace, Error> {
    let route = route_mtu(to)?;
    let hops = trace_hops(to, until, stop, doing)?;
    if !hops.reached {
        return Ok(PathTrace { hops, mtu: None, is_mtu_exact: false, is_mtu_complete: false });
    }
    let (mtu, is_complete) = search_mtu(to, route.min(MAX_MTU), Some(until), stop, doing)?;
    let is_at_limit = route > MAX_MTU && mtu.mtu_bytes == Some(MAX_MTU);
    let is_mtu_exact = is_complete && !is_at_limit;
    Ok(PathTrace { hops, mtu: Some(mtu), is_mtu_exact, is_mtu_complete: is_complete })
}

fn trace_hops(
    to: SocketAddr,
    until: Instant,
    stop: &AtomicBool,
    doing: &mut dyn FnMut(&str),
) -> Result<TraceResult, Error> {
    let prober = IcmpProber::new(to)?;
    let mut trace = Trace::new(MAX_HOPS);
    let (mut at, mut timeout) = (0, REPLY_TIMEOUT);
    while let Some(packet) = trace.next_packet() {
        if packet.ttl != at {
            doing(&format!("hop {}", packet.ttl));
            (at, timeout) = (packet.ttl, REPLY_TIMEOUT);
        }
        if Instant::now() + timeout > until {
            break;
        }
        let reply = prober.probe(&[packet], timeout, stop)?.first().copied().flatten();
        if let Some(reply) = &reply {
            timeout = timeout.min(timeout_after(reply));
        }
        trace.add_reply(reply);
    }
    Ok(trace.result())
}
