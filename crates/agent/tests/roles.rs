//! Roles at each entrance: the control socket, the HTTP interface, and the connections of the mesh.

use std::{path::Path, time::Duration};

use agent::{Client, Error, Filter, NewReservation, PairName, Scope, Tokens, TransferReport};
use serde_json::Value;

use crate::{
    agents::{Agent, Mesh, end, reload, wait_until, wanted},
    http::{post, serve_http},
};

/// The configuration of a point without roles, to which tests add roles.
struct Configured<'a> {
    directory: &'a Path,
    without_roles: String,
}

impl<'a> Configured<'a> {
    fn of(directory: &'a Path) -> Self {
        let without_roles = std::fs::read_to_string(directory.join("agent.toml")).unwrap();
        Configured { directory, without_roles }
    }

    /// Replaces the roles; a running agent reads them again.
    fn set(&self, roles: &str) {
        let text = format!("{}\n{roles}", self.without_roles);
        std::fs::write(self.directory.join("agent.toml"), text).unwrap();
        reload(self.directory);
    }
}

fn role(name: &str, may: &[Scope], others: &str) -> String {
    let may: Vec<&str> = may.iter().map(|scope| scope.name()).collect();
    format!("[[roles]]\nname = \"{name}\"\nmay = {may:?}\n{others}\n")
}

/// A test that does not start during these tests.
fn later(from: &str, to: &str) -> NewReservation {
    NewReservation { in_us: 3_600_000_000, ..wanted(from, to, "latency") }
}

fn audit_log(directory: &Path) -> Vec<Value> {
    let log = std::fs::read_to_string(directory.join("state/audit.log")).unwrap();
    log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// One request of each kind, with the scope that it needs.
fn requests(client: &Client, id: &str) -> Vec<(Scope, Result<(), Error>)> {
    let pair = || PairName { from: "a".into(), to: "b".into() };
    let minute = Duration::from_secs(60);
    let report = TransferReport { bytes: Some(1), duration_us: 1, error: None };
    vec![
        (Scope::Read, client.status().map(drop)),
        (Scope::Read, client.calendar(minute).map(drop)),
        (Scope::Read, client.why(id).map(drop)),
        (Scope::Read, client.alerts().map(drop)),
        (Scope::Read, client.results(Filter { limit: 1, ..Filter::default() }).map(drop)),
        (Scope::Reserve, client.reserve(later("a", "b")).map(drop)),
        (Scope::Report, client.report(id, &report).map(drop)),
        (Scope::Alerts, client.acknowledge(pair(), Some(1), "").map(drop)),
        (Scope::Alerts, client.mute(pair(), minute, "").map(drop)),
        (Scope::Administer, client.expel("z").map(drop)),
    ]
}

/// Whether a role refuses.
fn is_refused(result: &Result<(), Error>) -> bool {
    result.as_ref().is_err_and(|error| error.to_string().contains("refused by role "))
}

fn is_refused_by(result: &Result<(), Error>, role: &str) -> bool {
    let text = format!("refused by role {role}: ");
    result.as_ref().is_err_and(|error| error.to_string().contains(&text))
}

#[test]
fn the_control_socket_permits_the_scopes_of_a_users_role() {
    let mesh = Mesh::of(&["a", "b"]);
    let directory = &mesh.directories[0];
    let configured = Configured::of(directory);
    let _a = Agent::start(directory);
    let a = mesh.client(0);
    let id = a.reserve(later("a", "b")).unwrap().id;
    let user = audit_log(directory).last().unwrap()["user"].as_str().unwrap().to_owned();
    for (_, result) in requests(&a, &id) {
        assert!(!is_refused(&result), "{result:?}");
    }
    for scope in Scope::ALL {
        let name = format!("only-{scope}");
        configured.set(&role(&name, &[scope], &format!("users = [\"{user}\"]")));
        wait_until(&format!("the role {name}"), || {
            let result = if scope == Scope::Read { a.expel("z") } else { a.status() };
            is_refused_by(&result.map(drop), &name).then_some(())
        });
        for (needed, result) in requests(&a, &id) {
            assert_eq!(is_refused_by(&result, &name), needed != scope, "{name}, {needed}: {result:?}");
        }
        let may_cancel = [Scope::Reserve, Scope::Cancel].contains(&scope);
        assert_eq!(is_refused_by(&a.cancel(&id, "").map(drop), &name), !may_cancel, "{name}");
        let log = audit_log(directory);
        let of_role: Vec<&Value> = log.iter().filter(|entry| entry["role"] == name.as_str()).collect();
        let refused = |action: &str| {
            of_role.iter().any(|entry| entry["action"] == action && entry.get("refused").is_some())
        };
        assert!(scope == Scope::Administer || refused("expel"), "{of_role:?}");
        assert!(scope == Scope::Reserve || refused("reserve"), "{of_role:?}");
    }
    // Without a role the owner may do everything again.
    configured.set("");
    wait_until("the end of the role", || a.status().is_ok().then_some(()));
    for (_, result) in requests(&a, &id) {
        assert!(!is_refused(&result), "{result:?}");
    }
}

#[test]
fn the_http_interface_permits_the_scopes_of_a_tokens_role() {
    let mesh = Mesh::of(&["a", "b"]);
    let directory = &mesh.directories[0];
    let address = serve_http(directory);
    let configured = Configured::of(directory);
    let all: String = Scope::ALL.iter().map(|scope| role(&format!("only-{scope}"), &[*scope], "")).collect();
    configured.set(&all);
    let _a = Agent::start(directory);
    let a = mesh.client(0);
    let create = |name: &str, role: &str| {
        Tokens::open(&directory.join("state")).unwrap().create_with_role(name, role, None).unwrap()
    };
    let paths: [(&str, &[Scope]); 5] = [
        ("reserve", &[Scope::Reserve]),
        ("cancel", &[Scope::Reserve, Scope::Cancel]),
        ("report", &[Scope::Report]),
        ("acknowledge", &[Scope::Alerts]),
        ("mute", &[Scope::Alerts]),
    ];
    for scope in Scope::ALL {
        let (name, role) = (format!("token-{scope}"), format!("only-{scope}"));
        let token = create(&name, &role);
        for (path, needed) in &paths {
            // An empty document is not valid; it is not read if the role refuses.
            let (status, body) = post(&address, &format!("/api/v1/{path}"), Some(&token), "{}");
            let is_refused = body.contains(&format!("refused by role {role}: "));
            let expected = if needed.contains(&scope) { (400, false) } else { (403, true) };
            assert_eq!((status, is_refused), expected, "{path} with {role}: {body}");
            if is_refused {
                let entry = audit_log(directory).pop().unwrap();
                let [user, action] = [format!("token:{name}@a"), (*path).to_owned()].map(Value::from);
                assert_eq!((&entry["user"], &entry["action"]), (&user, &action), "{entry}");
                assert_eq!(entry["role"], role.as_str(), "{entry}");
                assert!(body.contains(entry["refused"].as_str().unwrap()), "{entry}");
            }
        }
    }
    let unknown = create("unknown", "removed");
    let (status, body) = post(&address, "/api/v1/reserve", Some(&unknown), "{}");
    assert!(status == 403 && body.contains("refused by role removed: "), "{body}");

    // With `reserve` a program cancels its own reservations, with `cancel` all.
    let id = a.reserve(later("a", "b")).unwrap().id;
    let cancel = format!(r#"{{"id":"{id}","reason":"maintenance"}}"#);
    let (reserver, canceller) = (create("reserver", "only-reserve"), create("canceller", "only-cancel"));
    let (status, body) = post(&address, "/api/v1/cancel", Some(&reserver), &cancel);
    assert!(status == 400 && body.contains("was not reserved with this token"), "{body}");
    let (status, body) = post(&address, "/api/v1/cancel", Some(&canceller), &cancel);
    assert!(status == 200 && body.contains("cancelled at a: maintenance"), "{body}");
    let log = audit_log(directory);
    let entry = log.iter().rev().find(|entry| entry["action"] == "cancel").unwrap();
    assert_eq!(
        (&entry["user"], &entry["role"]),
        (&"token:canceller@a".into(), &"only-cancel".into()),
        "{entry}"
    );

    // A changed role applies to the tokens that have it.
    configured.set(&role("only-reserve", &[], ""));
    wait_until("the changed role", || {
        (post(&address, "/api/v1/reserve", Some(&reserver), "{}").0 == 403).then_some(())
    });
}

#[test]
fn the_role_of_a_point_applies_to_what_it_requests() {
    let mesh = Mesh::of(&["a", "b"]);
    let configured = Configured::of(&mesh.directories[0]);
    let _agents: Vec<Agent> = mesh.directories.iter().map(|directory| Agent::start(directory)).collect();
    let b = mesh.client(1);
    let minute = Duration::from_secs(60);
    let calendar = || b.calendar_of(Some("a".into()), minute).map(drop);
    let reserved = || end(&b, &b.reserve(wanted("b", "a", "latency")).unwrap().id);
    wait_until("the calendar of a", || calendar().ok());
    assert_eq!(reserved().phase, "finished");
    let user = audit_log(&mesh.directories[1]).last().unwrap()["user"].as_str().unwrap().to_owned();

    configured.set(&role("blocked", &[], "points = [\"b\"]"));
    wait_until("the role blocked", || is_refused_by(&calendar(), "blocked").then_some(()));
    let refused = reserved();
    let text = "point a does not allow it: refused by role blocked: reserve is not among its scopes (none)";
    assert!(refused.phase == "not_run" && refused.text.contains(text), "{refused:?}");

    configured.set(&role("readers", &[Scope::Read], "points = [\"b\"]"));
    wait_until("the role readers", || calendar().ok());
    assert!(reserved().text.contains("refused by role readers: "));

    // The role of a user has precedence over that of its point, and names the class of its requests.
    let limits = mesh.directories[0].join("limits.toml");
    let with_class = std::fs::read_to_string(&limits).unwrap()
        + "\n[classes.short]\nparent = \"mesh\"\nmax_duration = \"1s\"\n";
    std::fs::write(&limits, with_class).unwrap();
    let point = role("closed", &[], "points = [\"b\"]");
    let with_class = |class: &str| {
        let others = format!("limits = \"{class}\"\nusers = [\"{user}\"]");
        point.clone() + &role("testers", &[Scope::Reserve], &others)
    };
    configured.set(&with_class("mesh"));
    wait_until("the role closed", || is_refused_by(&calendar(), "closed").then_some(()));
    assert_eq!(reserved().phase, "finished");
    configured.set(&with_class("short"));
    let expected = "point a does not allow it: refused by max_duration of class short: ";
    wait_until("the class short", || reserved().text.contains(expected).then_some(()));
}
