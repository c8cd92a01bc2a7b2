//! Limits of the flows that a client requests from a server. A server without a token accepts requests of
//! anyone who reaches its port: none of these requests may exhaust its memory, or make it send traffic to a
//! host other than the client.

use std::{net::IpAddr, time::Duration};

use iperf3::wire::Params;
use units::Bytes;

use crate::{
    flow::spec,
    message::{FlowRequest, Traffic},
};

/// Minimum interval of samples, which iperf3's server has too (`SAMPLE_MIN`).
const MIN_SAMPLE_INTERVAL: Duration = Duration::from_millis(1);
/// Minimum interval of echo requests, as in scenarios.
const MIN_ECHO_INTERVAL: Duration = Duration::from_millis(1);
/// Longest name of a flow, bytes; each row contains it. Scenarios have at most 64, and a number is appended
/// to the names of continuations.
const MAX_NAME_BYTES: usize = 128;

/// The request as this server runs it. `client`: the only permitted destination; `None` permits all, for
/// authenticated clients.
///
/// # Errors
/// Why the flow may not be run.
pub(crate) fn permit(mut flow: FlowRequest, client: Option<IpAddr>) -> Result<FlowRequest, String> {
    if flow.name.len() > MAX_NAME_BYTES {
        return Err(format!("the name of a flow has at most {MAX_NAME_BYTES} bytes"));
    }
    check_traffic(&flow)?;
    flow.sample_us = flow.sample_us.max(micros(MIN_SAMPLE_INTERVAL));
    if let Some(client) = client {
        flow.to = destination(&flow, client)?.to_string();
    }
    Ok(flow)
}

fn check_traffic(flow: &FlowRequest) -> Result<(), String> {
    if let Traffic::Ping { interval_us, payload, .. } = flow.traffic {
        if interval_us < micros(MIN_ECHO_INTERVAL) {
            return Err(format!("the interval of echo requests is {interval_us} us, less than 1 ms"));
        }
        if payload > traffic::MAX_ECHO_PAYLOAD {
            return Err(format!("an echo request cannot carry {payload}"));
        }
        return Ok(());
    }
    let spec = spec(flow);
    if spec.block == Bytes(0) {
        return Err("a write or a datagram cannot have 0 bytes".into());
    }
    // The server at the other end has the same limits.
    Params::of(&spec).spec().map(drop).map_err(|refusal| refusal.to_string())
}

/// The address to which a flow goes, if it is the client's. Names are not resolved: a second resolution, when
/// the flow connects, could return the address of another host.
fn destination(flow: &FlowRequest, client: IpAddr) -> Result<IpAddr, String> {
    let what = if matches!(flow.traffic, Traffic::Ping { .. }) { "echo requests" } else { "data" };
    match flow.to.parse::<IpAddr>().map(|address| address.to_canonical()) {
        Ok(address) if address == client.to_canonical() => Ok(address),
        Ok(_) => Err(format!("this server sends {what} to other hosts only if it has a token (--token)")),
        Err(_) => Err(format!(
            "this server has no token (--token): it sends {what} to its client's IP address, not to a name"
        )),
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use units::BitRate;

    use super::*;

    const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7));

    fn flow(traffic: Traffic) -> FlowRequest {
        FlowRequest {
            name: "bulk".into(),
            to: CLIENT.to_string(),
            port: 5201,
            session: None,
            reverse: false,
            bind: None,
            duration_us: 2_000_000,
            sample_us: 10_000,
            traffic,
        }
    }

    fn ping() -> Traffic {
        Traffic::Ping { interval_us: 1000, count: None, payload: Bytes(65_507), timeout_us: u64::MAX }
    }

    #[test]
    fn flows_are_sent_only_to_the_clients_address() {
        for to in ["192.0.2.7", "::ffff:192.0.2.7"] {
            let permitted = permit(FlowRequest { to: to.into(), ..flow(ping()) }, Some(CLIENT)).unwrap();
            assert_eq!(permitted.to, "192.0.2.7");
        }
        let mapped = "::ffff:192.0.2.7".parse().unwrap();
        assert!(permit(flow(ping()), Some(mapped)).is_ok(), "the address of a dual-stack listener's client");
        // A name is refused even if it currently resolves to the client's address.
        for (to, client) in [("192.0.2.8", CLIENT), ("localhost", [127, 0, 0, 1].into()), ("", CLIENT)] {
            let other = FlowRequest { to: to.into(), ..flow(ping()) };
            let refused = permit(other.clone(), Some(client)).unwrap_err();
            assert!(refused.contains("--token"), "{to}: {refused}");
            assert_eq!(permit(other, None).unwrap().to, to, "authenticated clients choose the host");
        }
    }

    #[test]
    fn each_quantity_in_a_request_is_limited() {
        let tcp = |write_size, send_buffer| Traffic::Tcp {
            congestion_control: None,
            size: Some(Bytes(u64::MAX)),
            mss: None,
            send_buffer,
            receive_buffer: None,
            pacing: None,
            write_rate: None,
            write_size,
        };
        let udp = |payload| Traffic::Udp { rate: BitRate(u64::MAX), payload, size: Some(Bytes(u64::MAX)) };
        let echoes =
            |interval_us, payload| Traffic::Ping { interval_us, count: None, payload, timeout_us: 0 };
        let permitted = |traffic| permit(flow(traffic), Some(CLIENT)).is_ok();
        for size in [Some(Bytes(1 << 20)), Some(Bytes(1)), None] {
            assert!(permitted(tcp(size, None)), "{size:?}");
        }
        for size in [0, (1 << 20) + 1, 1 << 40, u64::MAX] {
            assert!(!permitted(tcp(Some(Bytes(size)), None)), "{size}");
        }
        assert!(permitted(tcp(None, Some(Bytes(512 << 20)))) && !permitted(tcp(None, Some(Bytes(u64::MAX)))));
        assert!(permitted(udp(Some(Bytes(65_507)))) && permitted(udp(None)));
        for size in [0, 65_508, 1 << 40, u64::MAX] {
            assert!(!permitted(udp(Some(Bytes(size)))), "{size}");
            assert!(size == 0 || !permitted(echoes(1000, Bytes(size))), "{size}");
        }
        for interval_us in [0, 1, 999] {
            assert!(!permitted(echoes(interval_us, Bytes(56))), "{interval_us}");
        }
        assert!(permitted(echoes(u64::MAX, Bytes(0))));
        let renamed = |bytes| FlowRequest { name: "x".repeat(bytes), ..flow(ping()) };
        assert!(permit(renamed(128), None).is_ok() && permit(renamed(129), None).is_err());
        let sampled = |sample_us| permit(FlowRequest { sample_us, ..flow(ping()) }, None).unwrap();
        assert_eq!([0, 1, 10_000].map(|sample_us| sampled(sample_us).sample_us), [1000, 1000, 10_000]);
    }
}
