//! Limits that a point applies to its own requests and to proposals.

use std::net::IpAddr;

use limits::{Enforced, Limits};
use reservation::{
    Body, Class, Now, Outcome, Phase, Point, PointName, Reason, Settings, Spec, Step, Test, Transport,
};
use units::{BitRate, Instant, Time};

const FILE: &str = r#"
[classes.root]
max_pending = 2
allow_open = true
allow_udp = true
[assign]
default = "root"
[[links]]
name = "uplink"
nets = ["192.0.2.0/24"]
rate = "1gbit"
daily_bytes = "8GB"
"#;

fn server_address(test: &Test) -> Option<IpAddr> {
    test.parameters.parse().ok()
}

fn enforced(file: &str) -> Enforced {
    let addresses = [("a", "198.51.100.1"), ("b", "192.0.2.2")];
    let addresses = addresses.map(|(name, address)| (PointName::from(name), address.parse().unwrap()));
    let server_address = Some(server_address as fn(&Test) -> Option<IpAddr>);
    Enforced { limits: file.parse::<Limits>().unwrap(), addresses: addresses.into(), server_address }
}

fn now(seconds: u64) -> Now {
    let utc = Instant::from_secs(20_000 * 86_400 + seconds);
    Now { steady: Instant::from_secs(seconds), utc, error: Time::from_millis(1) }
}

fn spec(at: u64, rate: Option<BitRate>) -> Spec {
    Spec {
        peer: Some("b".into()),
        user: None,
        test: Test { kind: "throughput".into(), transport: Transport::Tcp, rate, ..Test::default() },
        class: Class::Exclusive,
        priority: 0,
        duration: Time::from_secs(30),
        earliest: now(at).utc,
        latest: now(at + 600).utc,
    }
}

fn rule(step: &Step) -> Option<String> {
    step.events.iter().find_map(|event| match event {
        reservation::Event::Ended { outcome: Outcome::NotRun(Reason::Rule { rule, .. }), .. } => {
            Some(rule.clone())
        }
        _ => None,
    })
}

#[test]
fn refusals_by_max_pending_or_a_budget_name_the_rule() {
    let limits = enforced(FILE);
    let mut point = Point::new("a".into(), Settings::default());
    // 3.75 GB each: two fit into 8 GB.
    for at in [100, 200] {
        let (id, step) = point.reserve(now(0), spec(at, None), &limits);
        assert_eq!(rule(&step), None);
        assert!(matches!(point.reservation(&id).unwrap().phase, Phase::Held { .. }));
    }
    let (_, step) = point.reserve(now(0), spec(300, None), &limits);
    assert_eq!(
        rule(&step).unwrap(),
        "refused by max_pending of class root: one more than 2 pending requested, at most 2"
    );
    let more = enforced(&FILE.replace("max_pending = 2", "max_pending = 9"));
    let (_, step) = point.reserve(now(0), spec(300, None), &more);
    let refused = rule(&step).unwrap();
    assert!(
        refused.starts_with("refused by daily_bytes of link uplink: 3.75 GB requested, at most 500 MB"),
        "{refused}"
    );
    let (_, step) = point.reserve(now(0), spec(300, Some(BitRate(100_000_000))), &more);
    assert_eq!(rule(&step), None, "375 MB fit");
    let (_, step) = point.reserve(now(0), spec(86_400, None), &more);
    assert_eq!(rule(&step), None, "the next day has its own budget");
}

#[test]
fn tests_with_servers_outside_the_mesh_use_the_budget() {
    let with_server = |at: u64, server: &str| {
        let spec = spec(at, None);
        Spec { peer: None, test: Test { parameters: server.into(), ..spec.test.clone() }, ..spec }
    };
    let file = FILE.replace("max_pending = 2", "max_pending = 9");
    let all_hosts = file.replace("192.0.2.0/24", "0.0.0.0/0");
    for (file, server, is_refused) in [
        (&file, "192.0.2.9", true),
        (&file, "203.0.113.9", false),
        // An address that is not known: the link of all hosts carries the test.
        (&file, "far.example", false),
        (&all_hosts, "far.example", true),
    ] {
        let limits = enforced(file);
        let mut point = Point::new("a".into(), Settings::default());
        let mut refused = |at| rule(&point.reserve(now(0), with_server(at, server), &limits).1);
        assert_eq!((refused(100), refused(200)), (None, None), "{server}");
        let third = refused(300);
        assert_eq!(third.is_some_and(|rule| rule.contains("daily_bytes")), is_refused, "{server}");
    }
}

#[test]
fn the_peers_limits_refuse_a_proposal() {
    let mut lead = Point::new("a".into(), Settings::default());
    let mut peer = Point::new("b".into(), Settings::default());
    let (id, step) = lead.reserve(now(0), spec(100, None), &reservation::AdmitAll);
    let closed = enforced(&FILE.replace("allow_open = true", "allow_open = false"));
    let (_, proposal) = step.messages.into_iter().next().unwrap();
    let reply = peer.handle_message(now(0), &"a".into(), proposal, &closed);
    assert_eq!(reply.events, [], "a refused proposal costs no storage");
    let (_, reply) = reply.messages.into_iter().next().unwrap();
    assert!(matches!(reply.body, Body::Refuse { .. }));
    let _ = lead.handle_message(now(0), &"b".into(), reply, &reservation::AdmitAll);
    let text = lead.explain(&id).unwrap();
    assert!(
        text.contains("not run: point b does not allow it: refused by allow_open = false of class root"),
        "{text}"
    );
}

/// A lead that forwards a request can only claim which user made it.
#[test]
fn a_lead_cannot_act_for_users_of_other_points() {
    let only_admin = FILE.replace("default = \"root\"", "[assign.users]\n\"admin@z\" = \"root\"");
    let limits = enforced(&only_admin);
    let spec = Spec { user: Some("admin@z".into()), ..spec(100, None) };
    let mut requester = Point::new("z".into(), Settings::default());
    let (_, step) = requester.request(now(0), "a".into(), spec, &reservation::AdmitAll);
    let (_, request) = step.messages.into_iter().next().unwrap();
    let mut lead = Point::new("a".into(), Settings::default());
    let step = lead.handle_message(now(0), &"z".into(), request, &limits);
    assert_eq!(rule(&step), None, "the lead has the request from the user's own point");
    let (_, proposal) = step.messages.into_iter().next().unwrap();
    let mut peer = Point::new("b".into(), Settings::default());
    let propose = |peer: &mut Point, limits: &Enforced| {
        let reply = peer.handle_message(now(0), &"a".into(), proposal.clone(), limits);
        reply.messages.into_iter().next().unwrap().1.body
    };
    let refused = propose(&mut peer, &limits);
    assert!(matches!(refused, Body::Refuse { .. }), "{refused:?}");
    let as_users_of_the_lead = FILE.replace("max_pending = 2", "max_pending = 1");
    let limits = enforced(&as_users_of_the_lead);
    assert!(matches!(propose(&mut peer, &limits), Body::Hold { .. }));
    let open: Vec<_> = peer.state().open().collect();
    assert_eq!(open, [(&PointName::from("a"), Some("admin@z@a"), 1)]);
}
