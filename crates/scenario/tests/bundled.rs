//! The scenarios that come with the program, resolved.

#![allow(clippy::disallowed_methods)] // a test may read the files it is about

use net::QueueLimit;
use scenario::{FlowKind, Metric, MetricPath, PathHop, PingSpec, ScenarioFile};
use units::{BitRate, Bytes, Time};

fn bundled(name: &str) -> ScenarioFile {
    let path = format!("{}/../../scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap();
    ScenarioFile::parse(&format!("scenarios/{name}.toml"), &text).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn lab8() {
    let file = bundled("lab8");
    assert_eq!(file.name(), "lab8");
    assert_eq!(file.variants().collect::<Vec<_>>(), ["default", "tuned"]);

    let base = file.resolve(None, &[]).unwrap();
    assert_eq!((base.name.as_str(), base.title.as_str()), ("lab8", "BDP and TCP buffer size"));
    assert_eq!((base.duration, base.sample), (Time::from_secs(20), Time::from_millis(10)));
    assert_eq!((base.seed, base.repeat), (1, 1));
    let [h1, h2] = &base.hosts[..] else { panic!("{:?}", base.hosts) };
    assert_eq!((h1.name.as_str(), h1.address().to_string(), h1.cidr().prefix), ("h1", "10.0.0.1".into(), 8));
    assert_eq!((h2.name.as_str(), h2.mtu, h2.sysctl.len()), ("h2", 1500, 0));
    let names: Vec<&str> = base.links.iter().map(|l| l.name.as_str()).collect();
    assert_eq!(names, ["h1-s1", "s1-s2", "s2-h2"]);
    let slow = &base.links[1];
    assert_eq!(slow.forward.rate.mean(), Some(BitRate(10_000_000_000)));
    assert_eq!(slow.forward.delay, Time::from_millis(20));
    assert_eq!(slow.forward.queue, QueueLimit::Bytes(Bytes(25_000_000)));
    assert_eq!((slow.forward.loss.mean(), slow.forward.burst, slow.forward.overhead), (0.0, None, 14));
    assert!(slow.backward.is_ideal() && base.links[0].forward.is_ideal());
    let FlowKind::Tcp(tcp) = &base.flows[0].kind else { panic!("{:?}", base.flows) };
    assert_eq!(tcp.cc, Some(scenario::Cc::Named("cubic".into())));

    let tuned = file.resolve(Some("tuned"), &[]).unwrap();
    for host in &tuned.hosts {
        assert_eq!(host.sysctl["net.ipv4.tcp_rmem"], "10240 87380 52428800");
        assert_eq!(host.sysctl["net.ipv4.tcp_wmem"], "10240 87380 52428800");
    }
    assert_eq!(tuned.links, base.links);

    let [default, tuned] = file.published() else { panic!("{:?}", file.published()) };
    assert_eq!((default.id.as_str(), default.variant.as_deref()), ("L8-default", Some("default")));
    assert_eq!(default.figure, MetricPath::Flow { flow: "bulk".into(), metric: Metric::Goodput });
    assert_eq!((default.value, default.tolerance, default.unit()), (Some(3e9), 0.15, "bit/s"));
    assert_eq!(default.metric_path(), "flows.bulk.goodput");
    assert!(default.holds_on("6.1.0-18-amd64") && !default.holds_on("6.18.5"));
    assert!(default.why.as_deref().unwrap().contains("scaling_ratio"));
    assert_eq!((tuned.value, tuned.tolerance, &tuned.holds_for_kernel), (Some(1e10), 0.1, &None));
    assert!(tuned.holds_on("6.18.5"));
}

#[test]
fn lab8_has_paths_in_both_directions() {
    let scenario = bundled("lab8").resolve(None, &[]).unwrap();
    let hops = |direction, links: [usize; 3]| links.map(|link| PathHop { link, direction }).to_vec();
    assert_eq!(scenario.path("h1", "h2"), Some(hops(scenario::Direction::Forward, [0, 1, 2])));
    assert_eq!(scenario.path("h2", "h1"), Some(hops(scenario::Direction::Backward, [2, 1, 0])));
    assert_eq!(scenario.path("h1", "nowhere"), None);
    let slow = scenario.path("h1", "h2").unwrap()[1];
    assert!(scenario.links[slow.link].pipe(slow.direction).rate.mean().is_some());
}

#[test]
fn lab8_ping() {
    let file = bundled("lab8-ping");
    assert_eq!(file.variants().count(), 0);
    let scenario = file.resolve(None, &[]).unwrap();
    let ping = PingSpec { interval: Time::from_secs(1), count: Some(4), payload: Bytes(56) };
    assert_eq!(scenario.flows[0].kind, FlowKind::Ping(ping));
    let [min, mean, max, mdev] = file.published() else { panic!("{:?}", file.published()) };
    let of = |metric| MetricPath::Flow { flow: "ping".into(), metric };
    assert_eq!((&min.figure, min.value, min.unit()), (&of(Metric::MinRtt), Some(0.020092), "s"));
    assert_eq!((&mean.figure, mean.value), (&of(Metric::MeanRtt), Some(0.025353)));
    assert_eq!((&max.figure, max.value), (&of(Metric::MaxRtt), Some(0.041132)));
    assert_eq!((&mdev.figure, mdev.value, mdev.tolerance), (&of(Metric::MdevRtt), Some(0.009111), 0.1));
}

#[test]
fn verdicts() {
    let file = bundled("verdicts");
    let names: Vec<&str> = file.variants().collect();
    assert_eq!(names, ["only-rmem-small", "only-wmem-small", "both-raised", "lossy", "slow-reader"]);
    let resolve = |name| file.resolve(Some(name), &[]).unwrap();
    let path = resolve("both-raised").links[1].forward.clone();
    // One bandwidth-delay product of queue.
    assert_eq!(path.queue, QueueLimit::Bytes(path.rate.mean().unwrap().bytes_in(path.delay)));
    assert_eq!(resolve("lossy").links[1].forward.loss.mean(), 0.005);
    let FlowKind::Tcp(tcp) = &resolve("slow-reader").flows[0].kind else { panic!("not tcp") };
    assert_eq!(tcp.read_rate, Some(BitRate(40_000_000)));
}
