//! A trace over loopback, whose only hop is this host.

use std::{
    net::IpAddr,
    sync::atomic::AtomicBool,
    time::{Duration, Instant},
};

#[test]
fn a_trace_over_loopback_has_one_hop_and_the_largest_mtu() {
    for host in ["127.0.0.1", "::1"] {
        // Containers may have no IPv6.
        if std::net::UdpSocket::bind((host, 0)).is_err() {
            continue;
        }
        let to = probe_transport::resolve(host, None).unwrap();
        let until = Instant::now() + Duration::from_secs(120);
        let mut steps = Vec::new();
        let doing = &mut |step: &str| steps.push(step.to_owned());
        let found = probe_transport::trace(to, until, &AtomicBool::new(false), doing).unwrap();
        assert!(found.hops.reached && found.hops.is_complete, "{found:?}");
        let [hop] = &found.hops.hops[..] else { panic!("{found:?}") };
        assert_eq!((hop.hop, &hop.addresses[..]), (1, &[host.parse::<IpAddr>().unwrap()][..]));
        assert!(hop.min_rtt_us <= hop.median_rtt_us && hop.min_rtt_us.is_some(), "{hop:?}");
        // Loopback's MTU is 65,536 bytes, above the search's limit.
        let mtu = found.mtu.as_ref().unwrap();
        assert_eq!((mtu.mtu_bytes, mtu.black_hole), (Some(9000), false));
        assert_eq!((found.is_mtu_exact, found.is_mtu_complete), (false, true));
        assert_eq!(steps.first().map(String::as_str), Some("hop 1"));
    }
}

#[test]
fn a_trace_without_time_has_no_hops_and_a_stopped_one_is_an_error() {
    let to = probe_transport::resolve("127.0.0.1", None).unwrap();
    let nothing = probe_transport::trace(to, Instant::now(), &AtomicBool::new(false), &mut |_| {}).unwrap();
    assert!(nothing.hops.hops.is_empty() && !nothing.hops.is_complete && nothing.mtu.is_none());
    let until = Instant::now() + Duration::from_secs(60);
    assert!(probe_transport::trace(to, until, &AtomicBool::new(true), &mut |_| {}).is_err());
}
