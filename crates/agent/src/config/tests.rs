use reservation::{Class, Transport};

use super::*;
use crate::{MetricsCredentials, MetricsReceiver, PushProtocol};

const LIMITS: &str = "[classes.mesh]\nmax_duration = \"60s\"\n[assign]\ndefault = \"mesh\"\n";

fn parse(text: &str) -> Result<Config, Error> {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("limits.toml"), LIMITS).unwrap();
    Config::parse("agent.toml", text, directory.path(), &files::read)
}

#[test]
fn the_template_is_valid_with_and_without_its_commented_keys() {
    let config = parse(&crate::template::config("a", "[::]:4862", "a.example:4862")).unwrap();
    assert_eq!((config.name.0.as_str(), config.address.as_str()), ("a", "a.example:4862"));
    assert_eq!(config.test_ports, 5202..=5299);
    // The keys that it comments out are valid too.
    let text = crate::template::config("a", "[::]:4862", "a.example:4862");
    let is_key = |line: &&str| {
        line.starts_with('[') || line.split_once(" = ").is_some_and(|(key, _)| !key.contains(' '))
    };
    let uncommented = |line: &str| line.strip_prefix("# ").filter(is_key).unwrap_or(line).to_owned() + "\n";
    let complete: String = text.lines().map(uncommented).collect();
    let complete = complete.replace("[\"a\"]", "[\"b\"]");
    let config = parse(&complete).unwrap();
    assert_eq!(config.tests.len(), 1);
    assert_eq!(config.tests[0].recurrence.every, Time::from_secs(3600));
    let spec = &config.tests[0].spec;
    assert_eq!(spec.test.parameters, "options/1 congestion=cubic parallel=4 omit=2s");
    assert_eq!(spec.duration, Time::from_secs(12), "the slot includes the omitted start");
    assert_eq!(config.http.unwrap().listen.port(), 4863);
    assert_eq!(config.results_to, [PointName("b".into())]);
    let services: Vec<String> = config.servers.iter().map(ToString::to_string).collect();
    assert_eq!(
        services,
        ["far host 0 www.example", "far iperf3 5201 iperf.example", "far twamp 862 ps.example"]
    );
    assert_eq!(config.retention, Retention::default());
    assert!(config.postgres.is_some());
    assert_eq!(config.place.name.as_deref(), Some("Kashima, Japan"));
    let operators = config.roles.get("operators").unwrap();
    assert!(operators.scopes.contains(&crate::Scope::Cancel) && operators.class.as_deref() == Some("mesh"));
    assert_eq!(config.roles.of_user("alice@b"), Some(operators));
    let alerts = config.alerts.unwrap();
    assert_eq!(alerts.mail.as_deref(), Some("noc@example.org"));
    assert!(alerts.alertmanager.is_some());
    let metrics = config.metrics.unwrap();
    let receiver = MetricsReceiver::new(PushProtocol::Otlp, "http://127.0.0.1:4318/v1/metrics").unwrap();
    assert_eq!(metrics, MetricsPush { receiver, credentials: None, every: Time::from_secs(60) });
}

#[test]
fn all_mistakes_are_shown_with_their_positions() {
    let text = r#"name = "A"
listen = "4862"
address = "a.example"
state = "state"
limits = "limits.toml"
test_ports = "9-2"
clock_error = "soon"

[[tests]]
name = "t"
to = "A"
kind = "throughput"
every = "10ms"

[[tests]]
name = "long"
to = "b"
kind = "throughput"
duration = "90s"
every = "1h"
"#;
    let error = parse(text).unwrap_err().to_string();
    let lines: Vec<&str> = error.lines().collect();
    for (line, part) in lines.iter().zip([
        "agent.toml:1:8: \"A\" is not a valid point name",
        "agent.toml:2:10: \"4862\" is not an address and port to listen on",
        "agent.toml:3:11: \"a.example\" is not an address; the form is HOST:PORT",
        "agent.toml:6:14: \"9-2\" is not a range of ports",
        "agent.toml:7:15: ",
        "agent.toml:11:6: the other end is this point itself",
        "agent.toml:13:9: the shortest interval of recurring tests is",
        "agent.toml:16:8: the limits of this point do not allow it: refused by max_duration of class mesh",
    ]) {
        assert!(line.starts_with(part), "{line}\nis not\n{part}");
    }
    assert_eq!(lines.len(), 8, "{error}");
}

#[test]
fn mistakes_in_tables_have_positions() {
    let text = crate::template::config("a", "[::]:4862", "a.example:4862")
        + "[http]\nlisten = \"4863\"\n[archive]\npostgres = \"dbname=x\"\n[retention]\nrecords_days = 9\ntests_days = 8\n[alerts]\nwebhook = \"x\"\ncommand = []\n\
           mail = \"a b@c\"\nalertmanager = \"http://localhost:9093/api/v2/alerts\"\n";
    let error = parse(&text).unwrap_err().to_string();
    for part in [
        "\"4863\" is not an address and port to listen on",
        "the host is missing",
        "records would be kept for 9 d, longer than the 8 d of their tests",
        "\"x\" is not the address of a webhook",
        "the command is empty",
        "\"a b@c\" is not a mail address",
        "\"http://localhost:9093/api/v2/alerts\" is not the address of an Alertmanager",
    ] {
        assert!(error.contains(part), "{error}\nhas no\n{part}");
    }
    let empty = crate::template::config("a", "[::]:4862", "a.example:4862") + "[alerts]\n";
    let error = parse(&empty).unwrap_err().to_string();
    assert!(error.contains("need a webhook, a command, a mail address or an alertmanager"), "{error}");
}

#[test]
fn reading_by_http_is_open_unless_a_token_is_required() {
    let base = crate::template::config("a", "[::]:4862", "a.example:4862");
    let http = |listen: &str, read: &str| {
        let config = parse(&format!("{base}[http]\nlisten = \"{listen}:4863\"\n{read}"));
        config.map(|config| config.http.unwrap())
    };
    for (listen, read, access, is_open_to_others) in [
        ("127.0.0.1", "", ReadAccess::Open, false),
        ("[::1]", "read = \"open\"", ReadAccess::Open, false),
        ("0.0.0.0", "", ReadAccess::Open, true),
        ("192.0.2.7", "read = \"token\"", ReadAccess::Token, false),
    ] {
        let interface = http(listen, read).unwrap();
        assert_eq!((interface.read, interface.is_open_to_others()), (access, is_open_to_others), "{listen}");
    }
    let error = http("127.0.0.1", "read = \"role\"").unwrap_err().to_string();
    assert!(error.contains("\"role\" is neither \"open\" nor \"token\""), "{error}");
}

/// The configuration of a point `a` with these members and these tests.
fn with_members(tests: &str, others: &[&str]) -> (Result<Config, Error>, Members) {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("limits.toml"), LIMITS).unwrap();
    let mut members = Members::of_one("a".into(), "a.example:4862");
    for name in others {
        members.set((*name).into(), &format!("{name}.example:4862"));
    }
    std::fs::create_dir(directory.path().join("state")).unwrap();
    members.write(&directory.path().join("state")).unwrap();
    let text = crate::template::config("a", "[::]:4862", "a.example:4862") + tests;
    (Config::parse("agent.toml", &text, directory.path(), &files::read), members)
}

#[test]
fn a_test_may_have_several_other_ends() {
    let table = |name: &str, to: &str| {
        format!(
            "[[tests]]\nname = \"{name}\"\nto = {to}\nkind = \"throughput\"\nparallel = 2\nevery = \"1h\"\n"
        )
    };
    let server = "[[servers]]\nname = \"far\"\niperf3 = \"192.0.2.7\"\n";
    let tests = table("all", "\"*\"") + &table("some", "[\"c\", \"far\"]") + &table("one", "\"b\"") + server;
    let (config, mut members) = with_members(&tests, &["b", "c"]);
    let config = config.unwrap();
    let ends = |members: &Members| {
        let end = |task: &Task| {
            let peer = task.spec.peer.as_ref().map_or("-", |peer| peer.0.as_str());
            format!("{} {peer} {}", task.name, task.spec.test.parameters)
        };
        config.tasks(members).iter().map(end).collect::<Vec<_>>()
    };
    let now = [
        "some-c c options/1 parallel=2",
        "some-far - options/1 parallel=2 far iperf3 5201 192.0.2.7",
        "one b options/1 parallel=2",
        "all-b b options/1 parallel=2",
        "all-c c options/1 parallel=2",
    ];
    assert_eq!(ends(&members), now);
    // A point joins, and leaves.
    members.set("d".into(), "d.example:1");
    let later = ends(&members);
    assert_eq!((later.len(), later[5].as_str()), (6, "all-d d options/1 parallel=2"));
    members.remove(&"d".into());
    assert_eq!(ends(&members), now);
    // The test for a point that has joined gets no name that another test has: the other test remains.
    let (config, mut members) = with_members(&(table("t", "\"*\"") + &table("t-c", "\"b\"")), &["b"]);
    members.set("c".into(), "c.example:1");
    let tasks = config.unwrap().tasks(&members);
    let tasks: Vec<(&str, &str)> = tasks
        .iter()
        .map(|task| (task.name.0.as_str(), task.spec.peer.as_ref().unwrap().0.as_str()))
        .collect();
    assert_eq!(tasks, [("t-c", "b"), ("t-b", "b")]);
    for (tests, part) in [
        (table("t", "[\"b\", \"z\"]"), ":3:12: no point of the mesh has the name \"z\""),
        (table("t", "[\"b\", \"b\"]"), ":3:12: b is named twice"),
        (table("t", "[\"*\"]"), ":3:7: a list names each other end; write to = \"*\" instead of the list"),
        (table("t", "[]"), ":3:6: the list of other ends is empty"),
        (table("t", "[\"a\"]"), ":3:7: the other end is this point itself"),
        (table("t", "\"*\"") + &table("t-b", "\"b\""), "two tests have the name \"t-b\""),
    ] {
        // Lines are counted from the end of the template.
        let first = crate::template::config("a", "[::]:4862", "a.example:4862").lines().count();
        let part = part.strip_prefix(":3:").map_or(part.to_string(), |part| format!(":{}:{part}", first + 3));
        let error = with_members(&tests, &["b"]).0.unwrap_err().to_string();
        assert!(error.contains(&part), "{error}\nhas no\n{part}");
    }
}

#[test]
fn mistakes_in_options_have_positions() {
    let base = crate::template::config("a", "[::]:4862", "a.example:4862");
    let line = base.lines().count() + 5;
    let with = |kind: &str, option: &str| {
        let test =
            format!("[[tests]]\nname = \"t\"\nto = \"b\"\nkind = \"{kind}\"\n{option}\nevery = \"1h\"\n");
        parse(&format!("{base}{test}")).map(drop).map_err(|error| error.to_string())
    };
    for (kind, option, column, part) in [
        ("throughput", "parallel = 129", 12, "a test has 1 to 128 streams"),
        ("throughput", "congestion = \"BBR\"", 14, "\"BBR\" is not the name of a congestion control"),
        ("throughput", "omit = \"11min\"", 8, "the omitted start has whole milliseconds"),
        ("throughput", "omit = \"soon\"", 8, ""),
        ("latency", "parallel = 2", 12, "a test of the kind latency has no option parallel"),
        ("diagnose", "omit = \"1s\"", 8, "a test of the kind diagnose has no option omit"),
    ] {
        let error = with(kind, option).unwrap_err();
        let position = format!("agent.toml:{line}:{column}: {part}");
        assert!(error.contains(&position), "{error}\nhas no\n{position}");
    }
    let error = with("throughput", "reverse = true").unwrap_err();
    assert!(error.contains("a recurring test sends from this point; for the other direction"), "{error}");
    assert_eq!(with("throughput", "parallel = 128"), Ok(()));
}

#[test]
fn keys_that_a_running_agent_does_not_apply_are_named() {
    let base = crate::template::config("a", "[::]:4862", "a.example:4862");
    let old = parse(&base).unwrap();
    let test = "[[tests]]\nname = \"t\"\nto = \"b\"\nkind = \"latency\"\nevery = \"1h\"\n";
    // Each configuration is parsed in a separate directory.
    let parse = |text: &str| Config { state: old.state.clone(), ..parse(text).unwrap() };
    assert_eq!(old.keys_for_restart(&parse(&format!("{base}{test}"))), Vec::<&str>::new());
    let new = parse(&(base.replace("5202-5299", "6000-6010") + "[http]\nlisten = \"127.0.0.1:4863\"\n"));
    assert_eq!(old.keys_for_restart(&new), ["test_ports", "[http]"]);
    let mut config = old.clone();
    let metrics = "[metrics]\notlp = \"http://localhost:4318/v1/metrics\"\n";
    let new = parse(&format!("{base}{test}{metrics}"));
    assert_eq!(old.keys_for_restart(&new), Vec::<&str>::new());
    config.reload_from(new);
    assert_eq!((config.tests.len(), config.metrics.is_some()), (1, true));
    config.reload_from(parse(&base.replace("5202-5299", "6000-6010")));
    assert_eq!((config.tests.len(), config.metrics, config.test_ports), (0, None, 5202..=5299));
}

#[test]
fn the_push_of_metrics_is_checked() {
    let base = crate::template::config("a", "[::]:4862", "a.example:4862");
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in [("limits.toml", LIMITS), ("secret", "abc\n"), ("empty", "\n")] {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    let with = |metrics: &str| {
        let text = format!("{base}\n[metrics]\n{metrics}\n");
        let parsed = Config::parse("agent.toml", &text, directory.path(), &files::read);
        parsed.map(|config| config.metrics.unwrap()).map_err(|error| error.to_string())
    };
    let otlp = "otlp = \"http://localhost:4318/v1/metrics\"";
    assert_eq!(with(otlp).unwrap().every, Time::from_secs(60));
    assert_eq!(with(&format!("{otlp}\nevery = \"15s\"")).unwrap().every, Time::from_secs(15));
    let remote_write = "remote_write = \"http://localhost:9090/api/v1/write\"";
    let receiver =
        MetricsReceiver::new(PushProtocol::RemoteWrite, "http://localhost:9090/api/v1/write").unwrap();
    let file = directory.path().join("secret");
    for (keys, credentials) in [
        ("", None),
        ("token_file = \"secret\"", Some(MetricsCredentials::Token { file: file.clone() })),
        (
            "user = \"x\"\npassword_file = \"secret\"",
            Some(MetricsCredentials::Password { user: "x".into(), file: file.clone() }),
        ),
    ] {
        let push = with(&format!("{remote_write}\n{keys}")).unwrap();
        assert_eq!((&push.receiver, push.credentials), (&receiver, credentials));
    }
    let line = base.lines().count() + 3;
    for (metrics, position, part) in [
        (
            format!("{otlp}\n{remote_write}"),
            format!(":{}:16: ", line + 1),
            "metrics are pushed to one receiver; keep otlp or remote_write",
        ),
        (
            "remote_write = \"localhost\"".into(),
            format!(":{line}:16: "),
            "\"localhost\" is not the address of a receiver of Prometheus remote write",
        ),
        (
            format!("{otlp}\ntoken_file = \"secret\"\nuser = \"x\""),
            format!(":{}:14: ", line + 1),
            "a push has a token or a password, not both",
        ),
        (format!("{otlp}\nuser = \"x\""), format!(":{}:8: ", line + 1), "a user needs a password_file"),
        (
            format!("{otlp}\npassword_file = \"secret\""),
            format!(":{}:17: ", line + 1),
            "a password_file needs a user",
        ),
        (
            format!("{otlp}\nuser = \"a:b\"\npassword_file = \"secret\""),
            format!(":{}:8: ", line + 1),
            "\"a:b\" is not a user name",
        ),
        (format!("{otlp}\ntoken_file = \"absent\""), format!(":{}:14: ", line + 1), "cannot read "),
        (
            format!("{otlp}\ntoken_file = \"empty\""),
            format!(":{}:14: ", line + 1),
            "empty does not have a token",
        ),
        (
            "otlp = \"localhost:4318\"".into(),
            format!(":{line}:8: "),
            "\"localhost:4318\" is not the address of an OTLP receiver",
        ),
        (
            format!("{otlp}\nevery = \"500ms\""),
            format!(":{}:9: ", line + 1),
            "metrics are pushed at intervals of 1 s to 86400 s; the default is",
        ),
        (format!("{otlp}\nevery = \"soon\""), format!(":{}:9: ", line + 1), ""),
        (
            "every = \"1min\"".into(),
            String::new(),
            "a push of metrics needs the address of a receiver; the keys are otlp and remote_write",
        ),
        (format!("{otlp}\ninterval = 5"), format!(":{}:1: ", line + 1), "unknown field `interval`"),
    ] {
        let error = with(&metrics).unwrap_err();
        assert!(error.contains(&position) && error.contains(part), "{error}\nhas no\n{position}{part}");
    }
}

#[test]
fn servers_need_a_service_of_the_kind_of_test() {
    let base = crate::template::config("a", "[::]:4862", "a.example:4862");
    let task = "[[tests]]\nname = \"t\"\nto = \"far\"\nevery = \"1h\"\nkind = ";
    let with =
        |server: &str, kind: &str| parse(&format!("{base}\n[[servers]]\n{server}\n{task}\"{kind}\"\n"));
    let config = with("name = \"far\"\nstamp = \"192.0.2.7\"", "latency").unwrap();
    let spec = &config.tests[0].spec;
    assert_eq!((spec.peer.as_ref(), spec.test.parameters.as_str()), (None, "far stamp 862 192.0.2.7"));
    // The path to any server can be traced; `host` names the host if there are several.
    for (server, parameters) in [
        ("name = \"far\"\nhost = \"www.example\"", "far host 0 www.example"),
        ("name = \"far\"\ntwamp = \"ps.example\"", "far twamp 862 ps.example"),
        ("name = \"far\"\ntwamp = \"ps.example\"\nhost = \"192.0.2.7\"", "far host 0 192.0.2.7"),
    ] {
        let config = with(server, "trace").unwrap();
        let spec = &config.tests[0].spec;
        assert_eq!((spec.test.parameters.as_str(), spec.class), (parameters, Class::Background));
        assert_eq!((spec.duration, spec.test.transport), (Time::from_secs(60), Transport::Other));
    }
    for (server, kind, part) in [
        (
            "name = \"far\"\nstamp = \"192.0.2.7\"",
            "throughput",
            "no service for a test of the kind throughput",
        ),
        ("name = \"far\"", "latency", "the server has no service"),
        ("name = \"far\"\nhost = \"192.0.2.7\"", "latency", "must name its twamp or stamp or owamp"),
        ("name = \"far\"\nhost = \"www.example:80\"", "trace", "\"www.example:80\" is not a host"),
        ("name = \"far\"\ntwamp = \"a b\"", "latency", "\"a b\" is not an address"),
        ("name = \"F\"\ntwamp = \"x\"", "latency", "\"F\" is not a valid point name"),
    ] {
        let error = with(server, kind).unwrap_err().to_string();
        assert!(error.contains(part), "{error}\nhas no\n{part}");
    }
}

#[test]
fn places_are_checked() {
    let base = crate::template::config("a", "[::]:4862", "a.example:4862");
    let with = |directory: &str| parse(&format!("{base}\n[directory]\n{directory}\n"));
    let config =
        with("place = \"Onsala, Sweden\"\nlatitude = 57.4\nlongitude = 11\nnetworks = [\"NORDUnet\"]");
    let place = config.unwrap().place;
    assert_eq!(place.coordinates, Some(Coordinates::new(57.4, 11.0).unwrap()));
    assert_eq!((place.name.as_deref(), place.networks.len()), (Some("Onsala, Sweden"), 1));
    for (directory, part) in [
        ("latitude = 57.4", "coordinates need a latitude and a longitude"),
        ("latitude = 97.4\nlongitude = 11.9", "the latitude 97.4 is not between"),
        ("place = \"\"", "the place is empty"),
        ("networks = [\"192.0.2.1/24\"]", "has bits after its prefix"),
        (&format!("networks = {:?}", vec!["n"; 33]), "at most 32 networks"),
    ] {
        let error = with(directory).unwrap_err().to_string();
        assert!(error.contains(part), "{error}\nhas no\n{part}");
    }
}

#[test]
fn keys_below_a_table_that_belong_above_it_are_explained() {
    let base = crate::template::config("a", "[::]:4862", "a.example:4862");
    for table in ["[http]\nlisten = \"127.0.0.1:4863\"", "[retention]", "[[tests]]\nname = \"t\""] {
        let error = parse(&format!("{base}\n{table}\nresults_to = [\"b\"]\n")).unwrap_err().to_string();
        assert!(error.contains("`results_to` is not a key of this table"), "{error}");
        assert!(error.contains("above the first [table]"), "{error}");
    }
}

#[test]
fn unknown_keys_have_a_position() {
    let error = parse("name = \"a\"\nlisten_on = \"x\"\n").unwrap_err().to_string();
    assert!(error.starts_with("agent.toml:2:1: unknown field `listen_on`"), "{error}");
}

#[test]
fn mistakes_in_roles_have_positions() {
    let roles = r#"
[[roles]]
name = "Operators"
may = ["read", "fly"]
limits = "guests"
users = ["alice", "alice@a", "token:app@a", "bob@z"]
points = ["a", "z", "b"]

[[roles]]
name = "readers"
may = []
users = ["alice@a"]
points = ["b"]

[[roles]]
name = "readers"
may = ["read"]
"#;
    let error = with_members(roles, &["b"]).0.unwrap_err().to_string();
    let parts = [
        "\"Operators\" is not a valid name of a role",
        "\"fly\" is not a scope; the scopes are: reserve, report, alerts, cancel, read, administer",
        "the limits have no class \"guests\"",
        "\"alice\" is not a user; the form is NAME@POINT",
        "a token of this point gets its role when it is created",
        "z is not a point of the mesh",
        "a is not another point of the mesh",
        "z is not another point of the mesh",
        "alice@a has two roles",
        "b has two roles",
        "two roles have the name \"readers\"",
    ];
    for part in parts {
        assert!(error.lines().any(|line| line.contains(part)), "{error}\nhas no\n{part}");
    }
    assert_eq!(error.lines().count(), parts.len(), "{error}");
    assert!(error.lines().all(|line| line.starts_with("agent.toml:")), "{error}");
}

#[test]
fn recurring_tests_are_checked_against_the_role_of_their_user() {
    let test = "[[tests]]\nname = \"t\"\nto = \"b\"\nkind = \"throughput\"\nevery = \"1h\"\n";
    assert!(with_members(test, &["b"]).0.is_ok());
    let role = "[[roles]]\nname = \"readers\"\nmay = [\"read\"]\nusers = [\"recurring@a\"]\n";
    let error = with_members(&format!("{role}{test}"), &["b"]).0.unwrap_err().to_string();
    assert!(error.contains("refused by role readers: reserve is not among its scopes (read)"), "{error}");
}
