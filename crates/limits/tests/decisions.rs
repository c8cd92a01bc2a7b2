//! The rules that allow or refuse requests.

use limits::{AssignedRole, Error, Limits, Pending, TestRequest, Usage};
use units::Bytes;

const FILE: &str = r#"
[classes.root]
max_rate = "900mbit"
max_duration = "60s"
max_horizon = "300s"
max_time_error = "10s"
max_pending = 5
allow_open = true
allow_udp = true

[classes.guests]
parent = "root"
max_duration = "10s"
allow_udp = false

[classes.friends]
parent = "root"
max_pending = 2
allow_open = false

[assign]
default = "guests"
[assign.nets]
"10.0.0.0/8" = "friends"
"10.1.0.0/16" = "guests"
[assign.users]
alice = "friends"

[[links]]
name = "uplink"
nets = ["0.0.0.0/0"]
rate = "1gbit"
daily_bytes = "10GB"
"#;

fn limits() -> Limits {
    FILE.parse().unwrap()
}

fn request(user: &str, address: &str, test: &str) -> TestRequest {
    let user = Some(user).filter(|user| !user.is_empty()).map(String::from);
    TestRequest { user, address: address.parse().ok(), ..TestRequest::parse_test(test).unwrap() }
}

fn decided(user: &str, address: &str, test: &str) -> String {
    limits().decide(&request(user, address, test), &Usage::default()).to_string()
}

#[test]
fn the_first_rule_that_does_not_pass_decides() {
    for (user, address, test, expected) in [
        ("alice", "192.0.2.1", "tcp,30s", "allowed in class friends"),
        (
            "alice",
            "192.0.2.1",
            "tcp,61s",
            "refused by max_duration of class root: 61 s requested, at most 60 s",
        ),
        ("", "192.0.2.1", "tcp,10s", "allowed in class guests"),
        ("", "192.0.2.1", "tcp,11s", "refused by max_duration of class guests: 11 s requested, at most 10 s"),
        ("", "192.0.2.1", "udp,1mbit", "refused by allow_udp = false of class guests: a UDP test"),
        ("alice", "", "udp,900mbit", "allowed in class friends"),
        (
            "alice",
            "",
            "udp,901mbit",
            "refused by max_rate of class root: 901 Mb/s requested, at most 900 Mb/s",
        ),
        (
            "alice",
            "",
            "udp",
            "refused by max_rate of class root: an unlimited rate requested, at most 900 Mb/s",
        ),
        (
            "alice",
            "",
            "tcp,in=301s",
            "refused by max_horizon of class root: a start in 301 s requested, at most 300 s",
        ),
        (
            "alice",
            "",
            "tcp,error=11s",
            "refused by max_time_error of class root: 11 s requested, at most 10 s",
        ),
        (
            "",
            "10.2.0.1",
            "tcp",
            "refused by allow_open = false of class friends: a request without authentication",
        ),
        ("", "10.1.0.1", "tcp", "allowed in class guests"),
        ("mallory", "10.2.0.1", "tcp", "allowed in class friends"),
        (
            "alice",
            "",
            "tcp,priority=1",
            "refused by max_priority of class root: priority 1 requested, at most 0",
        ),
        ("alice", "", "tcp,priority=0", "allowed in class friends"),
        ("alice", "", "tcp,priority=-1", "allowed in class friends"),
    ] {
        assert_eq!(decided(user, address, test), expected, "{user} {address} {test}");
    }
}

#[test]
fn pending_reservations_count_in_all_classes_above() {
    let usage = |friends, guests| {
        let alice = Pending { user: Some("alice".to_owned()), address: None, count: friends };
        let guests = Pending { user: None, address: "192.0.2.1".parse().ok(), count: guests };
        Usage { pending: vec![alice, guests], ..Usage::default() }
    };
    let decided =
        |friends, guests| limits().decide(&request("alice", "", "tcp"), &usage(friends, guests)).to_string();
    assert_eq!(decided(1, 3), "allowed in class friends");
    assert_eq!(
        decided(2, 0),
        "refused by max_pending of class friends: one more than 2 pending requested, at most 2"
    );
    assert_eq!(
        decided(1, 4),
        "refused by max_pending of class root: one more than 5 pending requested, at most 5"
    );
}

#[test]
fn a_budget_counts_the_links_rate_if_the_test_has_none() {
    let decision = |test, reserved| {
        let usage =
            Usage { reserved_today: [("uplink".to_owned(), Bytes(reserved))].into(), ..Usage::default() };
        limits().decide(&request("alice", "192.0.2.1", test), &usage).to_string()
    };
    assert_eq!(decision("tcp,60s", 2_500_000_000), "allowed in class friends");
    assert_eq!(
        decision("tcp,60s", 2_500_000_001),
        "refused by daily_bytes of link uplink: 7.5 GB requested, at most 7.499999999 GB (of 10 GB a day, 2.500000001 GB reserved)"
    );
    assert_eq!(decision("udp,100mbit,60s", 9_250_000_000), "allowed in class friends");
    assert!(decision("udp,100mbit,60s", 9_250_000_001).starts_with("refused by daily_bytes"));
    // A latency test does not send at the link's rate.
    assert_eq!(decision("other,60s", 10_000_000_000), "allowed in class friends");
}

#[test]
fn requests_without_a_class_are_refused() {
    let closed: Limits = "[classes.root]\nallow_open = true".parse().unwrap();
    let decision = closed.decide(&request("", "192.0.2.1", "tcp"), &Usage::default());
    assert!(!decision.is_allowed());
    assert!(decision.to_string().contains("no class is assigned"));
}

#[test]
fn mistakes_are_named() {
    let error = |from: &str, to: &str| {
        assert!(FILE.contains(from));
        FILE.replacen(from, to, 1).parse::<Limits>().unwrap_err().to_string()
    };
    assert_eq!(
        error("max_duration = \"10s\"", "max_duration = \"90s\""),
        "class guests: max_duration = 90 s allows more than max_duration = 60 s of its ancestor root; a class may only narrow its parent's limits"
    );
    assert_eq!(
        error("parent = \"root\"\nmax_pending", "parent = \"roto\"\nmax_pending"),
        "class friends: parent names the class roto, which does not exist"
    );
    assert_eq!(
        error("default = \"guests\"", "default = \"guest\""),
        "assign.default names the class guest, which does not exist"
    );
    assert!(
        error("10.1.0.0/16", "10.1.2.0/16")
            .contains("10.1.2.0/16 has bits after its prefix; the network is 10.1.0.0/16")
    );
    assert!(
        error("\"900mbit\"", "\"900\"").starts_with("class root: max_rate: "),
        "{}",
        error("\"900mbit\"", "\"900\"")
    );
    let budget = error("daily_bytes = \"10GB\"", "daily_bytes = \"much\"");
    assert!(budget.starts_with("link uplink: daily_bytes: "), "{budget}");
    let unknown = error("max_pending = 2", "max_pendign = 2");
    assert!(unknown.contains("max_pendign") && unknown.contains("line 18"), "{unknown}");
    assert!(error("[classes.friends]\nparent = \"root\"\n", "[classes.friends]\n").contains("friends, root"));
    let cycle = "[classes.a]\nparent = \"b\"\n[classes.b]\nparent = \"a\"\n[classes.c]".parse::<Limits>();
    assert_eq!(cycle, Err(Error::Cycle { class: "a".into() }));
    assert!("".parse::<Limits>().unwrap_err().to_string().contains("none: none"));
}

#[test]
fn a_permission_that_the_root_does_not_give_is_an_error() {
    let error =
        "[classes.root]\n[classes.a]\nparent = \"root\"\nallow_udp = true".parse::<Limits>().unwrap_err();
    assert!(
        error
            .to_string()
            .contains("allow_udp = true allows more than allow_udp = false of its ancestor root")
    );
}

#[test]
fn a_printed_file_parses_to_the_same_limits() {
    let text = limits().to_string();
    assert_eq!(text.parse::<Limits>().unwrap(), limits(), "{text}");
}

#[test]
fn priorities_are_limited_by_class() {
    let file = FILE.replace("max_pending = 5", "max_pending = 5\nmax_priority = 10");
    let file = file.replace("max_pending = 2", "max_pending = 2\nmax_priority = 3");
    let limits: Limits = file.parse().unwrap();
    let decide =
        |user: &str, test: &str| limits.decide(&request(user, "", test), &Usage::default()).to_string();
    assert_eq!(decide("alice", "tcp,priority=3"), "allowed in class friends");
    assert_eq!(
        decide("alice", "tcp,priority=4"),
        "refused by max_priority of class friends: priority 4 requested, at most 3"
    );
    assert_eq!(
        decide("bob", "tcp,priority=11"),
        "refused by max_priority of class root: priority 11 requested, at most 10"
    );
    // Without a limit: the point's own operator.
    let operator = TestRequest { priority: None, ..request("alice", "", "tcp") };
    assert!(limits.decide(&operator, &Usage::default()).is_allowed());
    // A class may only narrow: the root's default is 0.
    let widened = FILE.replace("max_pending = 2", "max_pending = 2\nmax_priority = 1");
    assert!(matches!(widened.parse::<Limits>(), Err(Error::Widens { key: "max_priority", .. })));
    assert_eq!(limits.to_string().parse::<Limits>().unwrap(), limits);
}

#[test]
fn a_role_permits_requests_and_names_their_class() {
    let role = |name: &str, may_reserve, class: Option<&str>| AssignedRole {
        name: name.into(),
        may_reserve,
        scopes: if may_reserve { "read, reserve".into() } else { "read".into() },
        class: class.map(str::to_owned),
    };
    let roles = [
        ("alice@b", role("testers", true, Some("friends"))),
        ("bob@b", role("readers", false, None)),
        ("@b", role("visitors", true, Some("guests"))),
        ("alice", role("testers", true, Some("guests"))),
    ];
    let mut limits = limits();
    limits.set_roles(roles.map(|(to, role)| (to.to_owned(), role)).into());
    let decide = |user: &str| limits.decide(&request(user, "", "tcp,30s"), &Usage::default());
    assert_eq!(decide("alice@b").to_string(), "allowed in class friends");
    assert_eq!(decide("alice@b").assigned_by.as_deref(), Some("role testers"));
    assert_eq!(
        decide("bob@b").to_string(),
        "refused by role readers: reserve is not among its scopes (read)"
    );
    // Of another user of the point, and of users that the point b forwards.
    for user in ["carol@b", "alice@c@b"] {
        assert_eq!(
            decide(user).to_string(),
            "refused by max_duration of class guests: 30 s requested, at most 10 s"
        );
    }
    // A user that the file names has the class that it states, and users without a role are decided as
    // before.
    assert_eq!(decide("alice").assigned_by.as_deref(), Some("user alice"));
    let before = self::limits().decide(&request("dave@c", "", "tcp,30s"), &Usage::default());
    assert_eq!(decide("dave@c"), before);
    // The class of a role is announced.
    let announced: Vec<String> = limits.assignments().map(|(to, _)| to).collect();
    assert!(announced.contains(&"role testers".to_string()), "{announced:?}");
    assert!(!announced.contains(&"role readers".to_string()), "{announced:?}");
}
