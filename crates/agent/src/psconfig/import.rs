//! Tasks of a pSConfig file as the recurring tests of a point, in the form of agent.toml.

use std::{collections::BTreeMap, fmt::Write};

use reservation::PointName;
use serde::Deserialize;
use serde_json::Value;
use units::{BitRate, Time};

use super::{
    duration,
    groups::{Address, Group},
};
use crate::{
    Error, Members,
    address::host_and_port,
    test::{Kind, TestDescription, TestOptions},
};

/// Interval and duration of tests that pSConfig runs continuously.
const CONTINUOUS: (Time, Time) = (Time::from_secs(60), Time::from_secs(10));
/// Parameters that the import uses, or that have no effect on the measurement.
const KNOWN: [&str; 19] = [
    "schema",
    "source",
    "dest",
    "duration",
    "udp",
    "bandwidth",
    "reverse",
    "parallel",
    "congestion",
    "omit",
    "count",
    "interval",
    "packet-count",
    "packet-interval",
    "source-node",
    "dest-node",
    "link-rtt",
    "as",
    "hostnames",
];

#[derive(Debug, Deserialize)]
struct File {
    addresses: BTreeMap<String, Address>,
    groups: BTreeMap<String, Group>,
    tests: BTreeMap<String, Test>,
    #[serde(default)]
    schedules: BTreeMap<String, Schedule>,
    tasks: BTreeMap<String, Task>,
    #[serde(default)]
    includes: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Test {
    #[serde(rename = "type")]
    kind: String,
    spec: Value,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Schedule {
    repeat: Option<String>,
    slip: Option<String>,
    #[serde(default)]
    sliprand: bool,
    start: Option<Value>,
    until: Option<Value>,
    max_runs: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Task {
    group: String,
    test: String,
    schedule: Option<String>,
    #[serde(default)]
    disabled: bool,
    priority: Option<i32>,
    #[serde(default)]
    subtasks: Vec<String>,
}

/// Recurring tests of a point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PsconfigImport {
    /// `[[tests]]` for agent.toml.
    pub toml: String,
    /// Number of tests.
    pub tests: usize,
    /// Notes on settings that were changed or skipped.
    pub notes: Vec<String>,
}

/// The settings of a recurring test that correspond to a pSConfig test.
struct Measurement {
    kind: Kind,
    duration: Option<Time>,
    /// Of all streams together.
    rate_bps: Option<u64>,
    options: TestOptions,
    is_reverse: bool,
    is_continuous: bool,
}

/// Converts the tasks that this point leads. `points` maps addresses to points, for addresses that are not
/// those of the members.
///
/// # Errors
/// If the text is not a pSConfig file.
pub fn import_psconfig(
    text: &str,
    own: &PointName,
    members: &Members,
    points: &BTreeMap<String, String>,
) -> Result<PsconfigImport, Error> {
    let file: File = serde_json::from_str(text)
        .map_err(|error| Error::Refused(format!("this is not a pSConfig file: {error}")))?;
    let mut notes: Vec<String> = file
        .includes
        .iter()
        .map(|address| format!("the include {address} is skipped; import it separately"))
        .collect();
    let mut imported = PsconfigImport { toml: String::new(), tests: 0, notes: Vec::new() };
    for (name, task) in &file.tasks {
        let mut note = |text: String| notes.push(format!("task {name}: {text}"));
        if task.disabled {
            note("it is disabled".into());
            continue;
        }
        let (Some(group), Some(test)) = (file.groups.get(&task.group), file.tests.get(&task.test)) else {
            note(format!("the group {:?} or the test {:?} does not exist", task.group, task.test));
            continue;
        };
        if !task.subtasks.is_empty() {
            note("its subtasks are skipped".into());
        }
        let measurement = match measurement(test, &mut note) {
            Ok(measurement) => measurement,
            Err(text) => {
                note(text);
                continue;
            }
        };
        let schedule = task.schedule.as_ref().and_then(|name| file.schedules.get(name)).cloned();
        let Some(times) = times(&schedule.unwrap_or_default(), measurement.is_continuous, &mut note) else {
            continue;
        };
        if let Some(priority) = task.priority.filter(|priority| *priority > 0) {
            note(format!(
                "the other points must allow its priority: max_priority = {priority} in their limits.toml"
            ));
        }
        let mut group_notes = Vec::new();
        for (first, second) in group.pairs(&file.addresses, &mut group_notes) {
            let (from, to) = if measurement.is_reverse { (second, first) } else { (first, second) };
            let ends = [from, to].map(|end| (end.address, point(end.name, end.address, members, points)));
            for (address, _) in ends.iter().filter(|(_, point)| point.is_none()) {
                group_notes.push(format!(
                    "no point of the mesh has the address {address}; name it: --map {address}=POINT"
                ));
            }
            let [(_, Some(from)), (_, Some(to))] = ends else { continue };
            if from == *own && to != *own {
                imported.tests += 1;
                imported.toml += &table(name, &to, &measurement, &times, task.priority);
            }
        }
        group_notes.sort();
        group_notes.dedup();
        group_notes.into_iter().for_each(note);
    }
    imported.notes = notes;
    Ok(imported)
}

/// The point of an address.
fn point(
    name: &str,
    address: &str,
    members: &Members,
    points: &BTreeMap<String, String>,
) -> Option<PointName> {
    if let Some(point) = points.get(address).or_else(|| points.get(name)) {
        return Some(PointName(point.clone()));
    }
    let matches = |text: &str| text == address || text == name;
    let known = members.members.iter().find(|member| {
        let host = host_and_port(&member.address).map(|(host, _)| host);
        matches(&member.name.0) || host.is_some_and(matches)
    });
    known.map(|member| member.name.clone())
}

/// The index of a template, as in `{% address[1] %}`.
fn index(spec: &Value, key: &str, default: usize) -> Result<usize, String> {
    let Some(text) = spec.get(key).and_then(Value::as_str) else { return Ok(default) };
    let inside = text.trim().strip_prefix("{%").and_then(|text| text.strip_suffix("%}")).map(str::trim);
    match inside {
        Some("address[0]") => Ok(0),
        Some("address[1]") => Ok(1),
        _ => Err(format!("{key} is {text:?}, not the template of an address of the pair")),
    }
}

fn measurement(test: &Test, note: &mut impl FnMut(String)) -> Result<Measurement, String> {
    let spec = &test.spec;
    let is_set = |key: &str| spec.get(key).and_then(Value::as_bool).unwrap_or(false);
    let time = |key: &str| match spec.get(key).map(|value| (value.as_str(), value.as_f64())) {
        None => Ok(None),
        Some((Some(text), _)) => {
            duration(text).map(Some).ok_or_else(|| format!("{key} is not a duration: {text:?}"))
        }
        // The test `latency` gives seconds.
        Some((None, Some(seconds))) if seconds >= 0.0 => Ok(Some(Time::from_nanos((seconds * 1e9) as u64))),
        Some(_) => Err(format!("{key} is not a duration")),
    };
    let count = |key: &str, default: u64| spec.get(key).and_then(Value::as_u64).unwrap_or(default);
    // The defaults of pScheduler's tools.
    let (kind, duration, is_continuous) = match test.kind.as_str() {
        "throughput" => (Kind::Throughput, time("duration")?, false),
        "rtt" => {
            let total =
                time("interval")?.unwrap_or(Time::from_secs(1)).as_nanos().saturating_mul(count("count", 5));
            (Kind::Latency, Some(Time::from_nanos(total).max(Time::from_secs(1))), false)
        }
        "latency" => {
            let interval = time("packet-interval")?.unwrap_or(Time::from_millis(100)).as_nanos();
            let total = Time::from_nanos(interval.saturating_mul(count("packet-count", 100)));
            (Kind::Latency, Some(total.max(Time::from_secs(1))), false)
        }
        "latencybg" => {
            let (every, duration) = CONTINUOUS;
            note(format!("a continuous test becomes one of {duration} every {every}"));
            (Kind::Latency, Some(duration), true)
        }
        "trace" => (Kind::Trace, None, false),
        "mtu" => {
            note("it becomes a trace, which also has the hops of the path".into());
            (Kind::Trace, None, false)
        }
        other => return Err(format!("tests of the type {other} are not supported")),
    };
    let mut options = TestOptions::default();
    if kind == Kind::Throughput {
        options.congestion = spec.get("congestion").and_then(Value::as_str).map(str::to_owned);
        options.omit = time("omit")?.unwrap_or(Time::ZERO);
        options.parallel = match spec.get("parallel") {
            None => 1,
            Some(streams) => streams
                .as_u64()
                .and_then(|streams| u32::try_from(streams).ok())
                .ok_or_else(|| format!("parallel is not a number of streams: {streams}"))?,
        };
    }
    let ends = (index(spec, "source", 0)?, index(spec, "dest", 1)?);
    if ends.0 == ends.1 {
        return Err("source and dest are the same address".into());
    }
    let rate_bps = spec.get("bandwidth").and_then(Value::as_u64);
    if is_set("udp") && rate_bps.is_none() {
        return Err("a UDP test needs a bandwidth".into());
    }
    if rate_bps.is_some() && !is_set("udp") {
        note("its bandwidth is dropped: the rate of a TCP test is not limited".into());
    }
    let dropped: Vec<&str> = spec
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, _)| key.as_str())
        .filter(|key| !KNOWN.contains(key) && !key.starts_with(['_', '#']))
        .collect();
    if !dropped.is_empty() {
        note(format!("these parameters are dropped: {}", dropped.join(", ")));
    }
    let streams = u64::from(options.parallel);
    let rate_bps = rate_bps.filter(|_| is_set("udp")).map(|rate| rate.saturating_mul(streams));
    let described = TestDescription {
        kind,
        duration: duration.unwrap_or(kind.default_duration()),
        rate: rate_bps.map(BitRate),
        options,
    };
    described.options.check(&described.parameters()).map_err(|mistake| mistake.text)?;
    Ok(Measurement {
        kind,
        duration,
        rate_bps,
        options: described.options,
        is_reverse: (ends == (1, 0)) != is_set("reverse"),
        is_continuous,
    })
}

/// Interval, slip, and whether the start is random.
struct Times {
    every: Time,
    slip: Option<Time>,
    random_start: bool,
}

fn times(schedule: &Schedule, is_continuous: bool, note: &mut impl FnMut(String)) -> Option<Times> {
    let every = match schedule.repeat.as_deref().map(duration) {
        None if is_continuous => CONTINUOUS.0,
        Some(Some(every)) if every > Time::ZERO => every,
        None => {
            note("it does not recur".into());
            return None;
        }
        Some(_) => {
            note(format!("its interval is not a duration: {:?}", schedule.repeat));
            return None;
        }
    };
    let others = [
        (schedule.start.is_some(), "start"),
        (schedule.until.is_some(), "until"),
        (schedule.max_runs.is_some(), "max-runs"),
    ];
    for (_, key) in others.into_iter().filter(|(is_set, _)| *is_set) {
        note(format!("{key} of its schedule is dropped"));
    }
    let slip = schedule.slip.as_deref().and_then(duration);
    Some(Times { every, slip, random_start: schedule.sliprand })
}

/// A duration in the notation of agent.toml.
fn text(time: Time) -> String {
    match time.as_nanos() % 1_000_000_000 {
        0 => format!("{}s", time.as_nanos() / 1_000_000_000),
        _ => format!("{}ms", time.as_millis()),
    }
}

fn table(task: &str, to: &PointName, of: &Measurement, times: &Times, priority: Option<i32>) -> String {
    let quoted = |text: &str| toml::Value::String(text.into()).to_string();
    let mut toml = format!("[[tests]]\nname = {}\n", quoted(&format!("{task}-{to}")));
    // Writing to a string does not fail.
    let _ = writeln!(toml, "to = {}\nkind = \"{}\"", quoted(&to.0), of.kind);
    if let Some(duration) = of.duration {
        let _ = writeln!(toml, "duration = \"{}\"", text(duration));
    }
    if let Some(rate) = of.rate_bps {
        let _ = writeln!(toml, "rate = \"{rate}bit\"");
    }
    if let Some(congestion) = &of.options.congestion {
        let _ = writeln!(toml, "congestion = {}", quoted(congestion));
    }
    if of.options.parallel != 1 {
        let _ = writeln!(toml, "parallel = {}", of.options.parallel);
    }
    if of.options.omit > Time::ZERO {
        let _ = writeln!(toml, "omit = \"{}\"", text(of.options.omit));
    }
    let _ = writeln!(toml, "every = \"{}\"", text(times.every));
    if let Some(slip) = times.slip {
        let _ = writeln!(toml, "slip = \"{}\"", text(slip));
    }
    if times.random_start {
        toml += "random_start = true\n";
    }
    if let Some(priority) = priority {
        let _ = writeln!(toml, "priority = {priority}");
    }
    toml + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, files, psconfig::export_psconfig};

    fn members(list: &[(&str, &str)]) -> Members {
        let mut members = Members::of_one(list[0].0.into(), list[0].1);
        for (name, address) in &list[1..] {
            members.set((*name).into(), address);
        }
        members
    }

    fn config(toml: &str, members: &Members) -> Config {
        let directory = tempfile::tempdir().unwrap();
        let limits = "[classes.mesh]\nallow_udp = true\n[assign]\ndefault = \"mesh\"\n";
        std::fs::write(directory.path().join("limits.toml"), limits).unwrap();
        std::fs::create_dir(directory.path().join("state")).unwrap();
        members.write(&directory.path().join("state")).unwrap();
        let text = crate::template::config("a", "[::]:4862", "a.example:4862") + toml;
        Config::parse("agent.toml", &text, directory.path(), &files::read).unwrap()
    }

    /// The form of perfsonar/psconfig's example-1-simple.json.
    const SIMPLE: &str = r##"{
      "addresses": {
        "host-a": {"address": "a.example"}, "host-b": {"address": "192.0.2.2"},
        "host-c": {"address": "c.example", "labels": {"v6": {"address": "2001:db8::3"}}},
        "host-d": {"address": "d.example"}, "off": {"address": "off.example", "disabled": true}
      },
      "groups": {
        "all": {"type": "mesh", "addresses": [{"name": "host-a"}, {"name": "host-b"}, {"name": "host-c"}, {"name": "off"}],
                "excludes": [{"local-address": {"name": "host-a"}, "target-addresses": [{"name": "host-c"}]}]},
        "star": {"type": "disjoint", "a-addresses": [{"name": "host-a"}], "b-addresses": [{"name": "host-c", "label": "v6"}, {"name": "host-d"}],
                 "unidirectional": true},
        "class": {"type": "mesh", "addresses": [{"class": "x"}]}
      },
      "tests": {
        "tcp": {"type": "throughput", "spec": {"source": "{% address[0] %}", "dest": "{% address[1] %}", "duration": "PT30S", "parallel": 4, "omit": "PT5S", "congestion": "bbr", "ip-tos": 8}},
        "udp": {"type": "throughput", "spec": {"source": "{% address[1] %}", "dest": "{% address[0] %}", "udp": true, "bandwidth": 2500000, "parallel": 2}},
        "bg": {"type": "latencybg", "spec": {"source": "{% address[0] %}", "dest": "{% address[1] %}"}},
        "rtt": {"type": "rtt", "spec": {"source": "{% address[0] %}", "dest": "{% address[1] %}", "count": 10}},
        "trace": {"type": "trace", "spec": {"dest": "{% address[1] %}", "hostnames": false, "probe-type": "icmp", "hops": 20}},
        "mtu": {"type": "mtu", "spec": {"source": "{% address[0] %}", "dest": "{% address[1] %}"}},
        "dns": {"type": "dns", "spec": {"query": "a.example", "record": "a"}}
      },
      "schedules": {"4h": {"repeat": "PT4H", "slip": "PT1H", "sliprand": true}, "once": {}},
      "tasks": {
        "bg": {"group": "star", "test": "bg"},
        "class": {"group": "class", "test": "tcp", "schedule": "4h"},
        "dns": {"group": "all", "test": "dns", "schedule": "4h"},
        "mtu": {"group": "all", "test": "mtu", "schedule": "4h"},
        "off": {"group": "all", "test": "tcp", "schedule": "4h", "disabled": true},
        "once": {"group": "all", "test": "rtt", "schedule": "once"},
        "rtt": {"group": "all", "test": "rtt", "schedule": "4h", "priority": 3},
        "tcp": {"group": "all", "test": "tcp", "schedule": "4h"},
        "trace": {"group": "all", "test": "trace", "schedule": "4h"},
        "udp": {"group": "all", "test": "udp", "schedule": "4h"}
      },
      "_meta": {"#": "ignored"}
    }"##;

    #[test]
    fn tasks_become_recurring_tests_of_the_point_that_sends() {
        let members = members(&[("a", "a.example:4862"), ("b", "192.0.2.2:4862"), ("c", "c.example:1")]);
        let points = BTreeMap::from([("2001:db8::3".to_string(), "c".to_string())]);
        let imported = import_psconfig(SIMPLE, &"a".into(), &members, &points).unwrap();
        let config = config(&imported.toml, &members);
        let tests: Vec<(&str, &str, &str, u64)> = config
            .tests
            .iter()
            .map(|task| {
                let spec = &task.spec;
                let to = spec.peer.as_ref().unwrap().0.as_str();
                (task.name.0.as_str(), to, spec.test.kind.as_str(), spec.duration.as_nanos() / 1_000_000_000)
            })
            .collect();
        // In the test "udp" the second address sends: a to b and, since only c may not be a target of a, a to
        // c.
        assert_eq!(
            tests,
            [
                ("bg-c", "c", "latency", 10),
                ("mtu-b", "b", "trace", 60),
                ("rtt-b", "b", "latency", 10),
                ("tcp-b", "b", "throughput", 35),
                ("trace-b", "b", "trace", 60),
                ("udp-b", "b", "throughput", 10),
                ("udp-c", "c", "throughput", 10),
            ]
        );
        assert_eq!(imported.tests, 7);
        let tcp = &config.tests[3];
        assert_eq!(tcp.recurrence.every, Time::from_secs(14_400));
        assert_eq!((tcp.recurrence.slip, tcp.recurrence.random_start), (Time::from_secs(3600), true));
        assert_eq!(config.tests[2].spec.priority, 3);
        // The bandwidth is that of each stream.
        assert_eq!(config.tests[5].spec.test.rate, Some(BitRate(5_000_000)));
        let parameters = |index: usize| config.tests[index].spec.test.parameters.as_str();
        assert_eq!(parameters(3), "options/1 congestion=bbr parallel=4 omit=5s");
        assert_eq!((parameters(5), parameters(0)), ("options/1 parallel=2", ""));
        let notes = imported.notes.join("\n");
        for part in [
            "task rtt: the other points must allow its priority: max_priority = 3",
            "task bg: a continuous test becomes one of",
            "task bg: no point of the mesh has the address d.example; name it: --map d.example=POINT",
            "task class: address classes are not supported",
            "task off: it is disabled",
            "task once: it does not recur",
            "task tcp: these parameters are dropped: ip-tos",
            "task trace: these parameters are dropped: probe-type, hops",
            "task mtu: it becomes a trace",
            "task dns: tests of the type dns are not supported",
        ] {
            assert!(notes.contains(part), "{part}\nis not in\n{notes}");
        }
        assert!(import_psconfig("[]", &"a".into(), &members, &points).is_err());
    }

    #[test]
    fn exported_tests_are_the_same_when_they_are_imported() {
        let members = members(&[("a", "a.example:4862"), ("b", "[2001:db8::2]:4862")]);
        let tests = "[[tests]]\nname = \"x\"\nto = \"b\"\nkind = \"throughput\"\nduration = \"20s\"\nomit = \"1500ms\"\nparallel = 8\ncongestion = \"cubic\"\nevery = \"1h\"\nslip = \"90s\"\n\
             [[tests]]\nname = \"y\"\nto = \"b\"\nkind = \"latency\"\nduration = \"30s\"\nevery = \"10min\"\nrandom_start = true\n\
             [[tests]]\nname = \"z\"\nto = \"b\"\nkind = \"throughput\"\nrate = \"6mbit\"\nparallel = 3\nevery = \"1h\"\npriority = -1\n\
             [[tests]]\nname = \"zt\"\nto = \"b\"\nkind = \"trace\"\nevery = \"1h\"\n\
             [[tests]]\nname = \"d\"\nto = \"b\"\nkind = \"diagnose\"\nevery = \"24h\"\n";
        let before = config(tests, &members);
        let exported = export_psconfig(&before, &members);
        assert_eq!(exported.notes, ["the test d is skipped: pScheduler has no test of the kind diagnose"]);
        let text = exported.document.to_string();
        let imported = import_psconfig(&text, &"a".into(), &members, &BTreeMap::new()).unwrap();
        assert!(imported.notes.is_empty(), "{:?}", imported.notes);
        let after = config(&imported.toml, &members);
        for (index, (before, after)) in before.tests.iter().zip(&after.tests).enumerate() {
            assert_eq!((&before.spec, &before.recurrence), (&after.spec, &after.recurrence), "{index}");
        }
        assert_eq!(after.tests.len(), 4);
        let long =
            "[[tests]]\nname = \"t\"\nto = \"b\"\nkind = \"trace\"\nduration = \"90s\"\nevery = \"1h\"\n";
        let exported = export_psconfig(&config(long, &members), &members);
        assert_eq!(exported.notes, ["the duration of the trace t is dropped"]);
    }

    #[test]
    fn options_that_no_test_has_are_refused() {
        let members = members(&[("a", "a.example:4862"), ("b", "192.0.2.2:4862"), ("c", "c.example:1")]);
        for (option, part) in [
            ("\"parallel\": 129", "task tcp: a test has 1 to 128 streams"),
            ("\"parallel\": \"4\"", "task tcp: parallel is not a number of streams"),
            ("\"omit\": \"4h\"", "task tcp: omit is not a duration"),
            ("\"omit\": \"PT1H\"", "task tcp: the omitted start"),
            ("\"congestion\": \"b b r\"", "task tcp: \"b b r\" is not the name of a congestion control"),
        ] {
            let text = SIMPLE.replace("\"parallel\": 4, \"omit\": \"PT5S\", \"congestion\": \"bbr\"", option);
            let imported = import_psconfig(&text, &"a".into(), &members, &BTreeMap::new()).unwrap();
            let notes = imported.notes.join("\n");
            assert!(notes.contains(part), "{part}\nis not in\n{notes}");
            assert!(!imported.toml.contains("tcp-b"), "{}", imported.toml);
        }
    }
}
