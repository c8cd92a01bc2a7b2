//! Addresses and routes that are assigned between routers and hosts, and the paths of packets.

use scenario::{Scenario, ScenarioFile};

fn resolved(text: &str) -> Scenario {
    let file = ScenarioFile::parse("net.toml", text).unwrap_or_else(|e| panic!("{e}"));
    let scenario = file.resolve(None, &[]).unwrap();
    let again = ScenarioFile::parse("net.toml", &scenario.to_toml()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(again.resolve(None, &[]).unwrap(), scenario, "the completed scenario remains the same");
    scenario
}

fn mistakes(text: &str) -> String {
    ScenarioFile::parse("net.toml", text).map(|_| "no mistakes".to_owned()).unwrap_or_else(|e| e.to_string())
}

/// `hosts` with addresses, routers and links, as a file.
fn network(hosts: &[(&str, &str)], routers: &[&str], switches: &[&str], links: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, rest) in hosts {
        text += &format!("[hosts.{name}]\n{rest}\n");
    }
    text += &format!("[routers]\nnames = {routers:?}\n[switches]\nnames = {switches:?}\n");
    for (a, b) in links {
        text += &format!("[[links]]\nends = [\"{a}\", \"{b}\"]\n");
    }
    text
}

fn router_addresses(scenario: &Scenario) -> Vec<String> {
    let all = scenario.routers.iter().flat_map(|r| r.interfaces.iter().map(move |i| (r, i)));
    let shown = |a: &scenario::Cidr| a.to_string();
    all.map(|(r, i)| format!("{} {}", r.name, i.addresses.iter().map(shown).collect::<Vec<_>>().join(" ")))
        .collect()
}

fn way(scenario: &Scenario, from: &str, to: &str) -> Option<Vec<String>> {
    let hops = scenario.path(from, to)?;
    Some(hops.iter().map(|h| scenario.links[h.link].receiver(h.direction).to_owned()).collect())
}

const CHAIN: [(&str, &str); 5] = [("h1", "s1"), ("s1", "r1"), ("r1", "r2"), ("r2", "r3"), ("r3", "h2")];

#[test]
fn a_chain_of_routers_needs_only_their_names() {
    let hosts = [("h1", "address = \"10.0.1.1/24\""), ("h2", "address = \"10.0.2.1/24\"")];
    let scenario = resolved(&network(&hosts, &["r1", "r2", "r3"], &["s1"], &CHAIN));
    assert_eq!(
        router_addresses(&scenario),
        [
            "r1 10.0.1.254/24",
            "r1 100.64.0.1/30",
            "r2 100.64.0.2/30",
            "r2 100.64.0.5/30",
            "r3 100.64.0.6/30",
            "r3 10.0.2.254/24",
        ]
    );
    assert_eq!(scenario.hosts[0].routes[0].via.to_string(), "10.0.1.254");
    assert_eq!(scenario.hosts[1].routes[0].to.to_string(), "0.0.0.0/0");
    assert_eq!(way(&scenario, "h1", "h2").unwrap(), ["s1", "r1", "r2", "r3", "h2"]);
    assert_eq!(way(&scenario, "h2", "h1").unwrap(), ["r3", "r2", "r1", "s1", "h1"]);
}

#[test]
fn both_ip_versions_get_addresses() {
    let hosts = [
        ("h1", "address = [\"10.0.1.1/24\", \"fd01::1/64\"]"),
        ("h2", "address = [\"fd02::1/64\", \"10.0.2.254/24\"]"),
    ];
    let text = network(&hosts, &["r1", "r2", "r3"], &["s1"], &CHAIN)
        + "duration = \"1s\"\n"
        + "[[flows]]\nname = \"f\"\nfrom = \"h1\"\nto = \"h2\"\n";
    let text = text.replace("duration = \"1s\"\n", "");
    let scenario = resolved(&format!("duration = \"1s\"\n{text}"));
    assert_eq!(
        router_addresses(&scenario),
        [
            "r1 10.0.1.254/24 fd01::ffff:ffff:ffff:ffff/64",
            "r1 100.64.0.1/30 fd64::5/126",
            "r2 100.64.0.2/30 fd64::6/126",
            "r2 100.64.0.9/30 fd64::d/126",
            "r3 100.64.0.10/30 fd64::e/126",
            "r3 10.0.2.253/24 fd02::ffff:ffff:ffff:ffff/64",
        ]
    );
    let (from, to) = scenario.flow_addresses(&scenario.flows[0]).unwrap();
    assert_eq!((from.to_string(), to.to_string()), ("10.0.1.1".to_owned(), "10.0.2.254".to_owned()));
}

#[test]
fn blocks_between_routers_avoid_used_addresses() {
    let hosts = [("h1", "address = \"100.64.0.1/24\""), ("h2", "address = \"10.0.2.1/24\"")];
    let scenario = resolved(&network(&hosts, &["r1", "r2", "r3"], &["s1"], &CHAIN));
    assert_eq!(router_addresses(&scenario)[1], "r1 100.64.1.1/30");
    // Five routers on one switch need more than four addresses.
    let links = [("h1", "r1"), ("r1", "s1"), ("r2", "s1"), ("r3", "s1"), ("h2", "r3")];
    let scenario = resolved(&network(&hosts, &["r1", "r2", "r3"], &["s1"], &links));
    assert_eq!(
        router_addresses(&scenario)[1..4],
        ["r1 100.64.1.1/29", "r2 100.64.1.2/29", "r3 100.64.1.3/29"]
    );
}

#[test]
fn a_full_network_is_reported() {
    let hosts = [
        ("h1", "address = \"10.0.1.1/30\""),
        ("h3", "address = \"10.0.1.2/30\""),
        ("h2", "address = \"10.0.2.1/24\""),
    ];
    let links = [("h1", "s1"), ("h3", "s1"), ("s1", "r1"), ("r1", "h2")];
    let text = network(&hosts, &["r1"], &["s1"], &links);
    assert_eq!(
        mistakes(&text),
        "net.toml:8:9: no address is free for r1-eth0 in its network; give the hosts there a larger network, or this interface an address"
    );
}

/// Two paths from r1 to r4: over r2, and the longer one over r3 and r5.
const TWO_WAYS: [(&str, &str); 8] = [
    ("h1", "r1"),
    ("r1", "r2"),
    ("r2", "r4"),
    ("r1", "r3"),
    ("r3", "r5"),
    ("r5", "r4"),
    ("r4", "s1"),
    ("s1", "h2"),
];
const ROUTERS: [&str; 5] = ["r1", "r2", "r3", "r4", "r5"];
const HOSTS: [(&str, &str); 2] = [("h1", "address = \"10.0.1.1/24\""), ("h2", "address = \"10.0.2.1/24\"")];

#[test]
fn static_routes_override_the_fewest_hops() {
    let text = network(&HOSTS, &ROUTERS, &["s1"], &TWO_WAYS);
    let scenario = resolved(&text);
    assert_eq!(way(&scenario, "h1", "h2").unwrap(), ["r1", "r2", "r4", "s1", "h2"]);
    // r3 is 100.64.0.10 on the third link between routers; from there the fewest hops are over r5.
    let route = "[routers.r1]\nroutes = [{ to = \"10.0.2.0/24\", via = \"100.64.0.10\" }]\n";
    let scenario = resolved(&format!("{text}{route}"));
    assert_eq!(way(&scenario, "h1", "h2").unwrap(), ["r1", "r3", "r5", "r4", "s1", "h2"]);
    assert_eq!(
        way(&scenario, "h2", "h1").unwrap(),
        ["s1", "r4", "r2", "r1", "h1"],
        "the backward path differs"
    );
    let other = route.replace("10.0.2.0/24", "10.0.9.0/24");
    let scenario = resolved(&format!("{text}{other}"));
    assert_eq!(way(&scenario, "h1", "h2").unwrap().len(), 5, "a route to elsewhere changes nothing");
}

#[test]
fn routing_loops_and_unreachable_next_hops_are_no_path() {
    let circle = "[routers.r1]\nroutes = [{ to = \"10.0.2.0/24\", via = \"100.64.0.2\" }]\n\
                  [routers.r2]\nroutes = [{ to = \"default\", via = \"100.64.0.1\" }]\n";
    let flow = "[[flows]]\nname = \"f\"\nfrom = \"h1\"\nto = \"h2\"\n";
    let text = network(&HOSTS, &ROUTERS, &["s1"], &TWO_WAYS);
    assert_eq!(resolved(&format!("{text}{circle}")).path("h1", "h2"), None);
    let shown = mistakes(&format!("duration = \"1s\"\n{text}{circle}{flow}"));
    assert!(shown.contains("no route from h1 (10.0.1.1/24) to h2 (10.0.2.1/24) and back"), "{shown}");
    // The next hop is in the network, but no station has its address.
    let unreachable = "[routers.r1]\nroutes = [{ to = \"10.0.2.0/24\", via = \"10.0.1.77\" }]\n";
    assert_eq!(resolved(&format!("{text}{unreachable}")).path("h1", "h2"), None);
}

#[test]
fn a_host_uses_its_configured_interface_and_gateway() {
    let hosts = [
        (
            "h1",
            "address = \"10.0.1.1/24\"\ninterfaces = { eth1 = \"10.0.3.1/24\" }\nroutes = [{ to = \"10.0.2.0/24\", via = \"10.0.3.254\" }]",
        ),
        ("h2", "address = \"10.0.2.1/24\""),
    ];
    let links = [("h1", "r1"), ("h1", "r2"), ("r1", "s1"), ("r2", "s1"), ("s1", "h2")];
    let scenario = resolved(&network(&hosts, &["r1", "r2"], &["s1"], &links));
    assert_eq!(way(&scenario, "h1", "h2").unwrap(), ["r2", "s1", "h2"]);
    assert_eq!(way(&scenario, "h2", "h1").unwrap(), ["s1", "r1", "h1"], "r1 is h2's default");
    assert_eq!(
        scenario.hosts[0].routes.len(),
        2,
        "a default route in addition to the static route: {:?}",
        scenario.hosts[0].routes
    );
}

#[test]
fn networks_on_two_sides_of_a_router_must_not_overlap() {
    let hosts = [("h1", "address = \"10.0.1.1/16\""), ("h2", "address = \"10.0.2.1/24\"")];
    let text = network(&hosts, &["r1"], &[], &[("h1", "r1"), ("r1", "h2")]);
    assert_eq!(
        mistakes(&text),
        "net.toml:4:11: 10.0.2.1/24 of h2 and 10.0.1.1/16 of h1 overlap, with a router between them; give each side of the router a different network"
    );
    // Networks that no router joins may be the same.
    let hosts = [
        ("h1", "address = \"10.0.0.1/8\""),
        ("h2", "address = \"10.0.0.2/8\""),
        ("h3", "address = \"10.0.0.3/8\""),
    ];
    let text = network(&hosts, &["r1"], &["s1"], &[("h1", "s1"), ("h2", "s1"), ("h3", "r1")]);
    assert_eq!(mistakes(&text), "no mistakes");
}

#[test]
fn loops_of_switches_and_hosts_with_two_links_are_valid() {
    let links = [("h1", "s1"), ("s1", "s2"), ("s2", "s3"), ("s3", "s1"), ("s3", "h2"), ("h1", "s3")];
    let hosts = [("h1", "address = \"10.0.0.1/8\""), ("h2", "address = \"10.0.0.2/8\"")];
    let scenario = resolved(&network(&hosts, &[], &["s1", "s2", "s3"], &links));
    assert_eq!(scenario.hosts[0].interfaces.len(), 2);
    assert_eq!(way(&scenario, "h1", "h2").unwrap(), ["s1", "s3", "h2"]);
}
