//! The HTTP interface of running agents.

use std::{
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    time::Duration,
};

use serde_json::Value;

use crate::agents::{Agent, Mesh, add, end, listen, wait_until, wanted};

/// A response: status and body.
fn get_as(address: &str, path: &str, host: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    let status = head.split_ascii_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(head.to_ascii_lowercase().contains("content-security-policy: default-src 'none'"), "{head}");
    (status, body.into())
}

pub fn get(address: &str, path: &str) -> (u16, String) {
    get_as(address, path, address)
}

/// Requests a path with a token, whose header follows the host: status and body of the response.
fn get_with_token(address: &str, path: &str, token: &str) -> (u16, String) {
    get_as(address, path, &format!("{address}\r\nAuthorization: Bearer {token}"))
}

pub fn document(address: &str, path: &str) -> Value {
    let (status, body) = get(address, path);
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

/// The differences between a value and a schema of the OpenAPI document, for the keywords that this document
/// uses.
fn mistake(value: &Value, schema: &Value, all: &Value, path: &str) -> Option<String> {
    let Some(schema) = schema.as_object() else {
        return (schema == &Value::Bool(false)).then(|| format!("{path} is not allowed"));
    };
    for (keyword, rule) in schema {
        let wrong = match keyword.as_str() {
            "$ref" => {
                let name = rule.as_str().unwrap().strip_prefix("#").unwrap();
                let target = all.pointer(name).unwrap_or_else(|| panic!("{path}: no schema {name}"));
                mistake(value, target, all, path)
            }
            "type" => {
                let names: Vec<&str> = match rule {
                    Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
                    name => name.as_str().into_iter().collect(),
                };
                let is = |name: &str| match name {
                    "null" => value.is_null(),
                    "boolean" => value.is_boolean(),
                    "integer" => value.is_i64() || value.is_u64(),
                    "number" => value.is_number(),
                    "string" => value.is_string(),
                    "array" => value.is_array(),
                    "object" => value.is_object(),
                    other => panic!("unknown type {other}"),
                };
                (!names.iter().any(|name| is(name))).then(|| format!("{path} is {value}, not {rule}"))
            }
            "required" => rule.as_array().unwrap().iter().find_map(|name| {
                let name = name.as_str().unwrap();
                (value.is_object() && value.get(name).is_none()).then(|| format!("{path}.{name} is missing"))
            }),
            "properties" => {
                rule.as_object().unwrap().iter().find_map(|(name, schema)| {
                    mistake(value.get(name)?, schema, all, &format!("{path}.{name}"))
                })
            }
            "additionalProperties" => {
                let known = schema.get("properties");
                let values = value.as_object().into_iter().flatten();
                let mut others =
                    values.filter(|(name, _)| known.and_then(|known| known.get(*name)).is_none());
                others.find_map(|(name, value)| mistake(value, rule, all, &format!("{path}.{name}")))
            }
            "items" => value.as_array().into_iter().flatten().find_map(|item| mistake(item, rule, all, path)),
            "enum" => (!rule.as_array().unwrap().contains(value)).then(|| format!("{path} is {value}")),
            "const" => (rule != value).then(|| format!("{path} is {value}, not {rule}")),
            "anyOf" | "oneOf" => {
                let schemas = rule.as_array().unwrap();
                let fits = schemas.iter().any(|schema| mistake(value, schema, all, path).is_none());
                (!fits).then(|| format!("{path}: {value} does not match {rule}"))
            }
            "minimum" => {
                (value.as_f64() < rule.as_f64() && value.is_number()).then(|| format!("{path} < {rule}"))
            }
            "maximum" => {
                (value.as_f64() > rule.as_f64() && value.is_number()).then(|| format!("{path} > {rule}"))
            }
            "description" | "format" | "title" | "default" => None,
            other => panic!("{path}: the test does not know the keyword {other}"),
        };
        if wrong.is_some() {
            return wrong;
        }
    }
    None
}

/// Adds an HTTP interface to a point; its address.
pub fn serve_http(directory: &Path) -> String {
    let address = listen().to_string();
    let path = directory.join("agent.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{text}\n[http]\nlisten = \"{address}\"\n")).unwrap();
    address
}

#[test]
fn documents_match_the_openapi_document_and_the_types_of_the_page() {
    let mesh = Mesh::of(&["a", "b", "c"]);
    let address = serve_http(&mesh.directories[0]);
    // The results of b go to a as well.
    let path = mesh.directories[1].join("agent.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("# results_to = [\"a\"]", "results_to = [\"a\"]")).unwrap();
    let agents: Vec<Agent> = mesh.directories.iter().map(|directory| Agent::start(directory)).collect();
    let [a, b] = [0, 1].map(|index| mesh.client(index));
    for kind in ["throughput", "latency"] {
        assert_eq!(end(&a, &a.reserve(wanted("a", "b", kind)).unwrap().id).phase, "finished");
    }
    let foreign = b.reserve(wanted("b", "c", "throughput")).unwrap().id;
    assert_eq!(end(&b, &foreign).phase, "finished", "{:?}", b.why(&foreign));
    let refused =
        b.reserve(agent::NewReservation { duration_us: Some(90_000_000), ..wanted("b", "c", "throughput") });
    let refused = refused.unwrap().id;
    b.reserve(agent::NewReservation { in_us: 600_000_000, ..wanted("b", "c", "latency") }).unwrap();
    wait_until("the results of b to c at a", || {
        let tests = document(&address, "/api/v1/results?from=b&to=c");
        let has = |id: &str| tests["tests"].as_array().unwrap().iter().any(|row| row["id"] == id);
        (has(&foreign) && has(&refused)).then_some(())
    });

    let description = document(&address, "/api/v1/openapi.json");
    assert_eq!(description["openapi"], "3.1.0");
    let source = include_str!("../../../web/src/mesh-api.ts");
    let interfaces = testing::page_types::interfaces(source);
    for (path, query, interface) in [
        ("/api/v1/mesh", "", "MeshDocument"),
        ("/api/v1/pair", "?from=a&to=b", "PairDocument"),
        ("/api/v1/results", "?kind=latency&limit=5", ""),
        ("/api/v1/calendar", "?point=b&seconds=3600", "CalendarDocument"),
        ("/api/v1/directory", "?capability=latency&hops=127.0.0.1", ""),
        ("/api/v1/status", "", ""),
        ("/api/v1/plan", "?from=a&to=b&bytes=1000000&deadline_us=4000000000000000", ""),
        ("/api/v1/reservation", "?id=a/1", ""),
    ] {
        let value = document(&address, &format!("{path}{query}"));
        let schema =
            format!("/paths/{}/get/responses/200/content/application~1json/schema", path.replace('/', "~1"));
        let schema = description.pointer(&schema).unwrap_or_else(|| panic!("{path} is not described"));
        assert_eq!(mistake(&value, schema, &description, path), None);
        if !interface.is_empty() {
            assert_eq!(testing::page_types::mistake(&value, interface, &interfaces, interface), None);
        }
    }
    // The check itself reports mistakes.
    let schema = description.pointer("/components/schemas/MeshPair").unwrap();
    assert!(mistake(&serde_json::json!({ "from": 1 }), schema, &description, "x").is_some());

    let mesh_document = document(&address, "/api/v1/mesh");
    let pairs = mesh_document["pairs"].as_array().unwrap();
    let pair =
        |from: &str, to: &str| pairs.iter().find(|pair| pair["from"] == from && pair["to"] == to).unwrap();
    assert_eq!(mesh_document["points"].as_array().unwrap().len(), 3);
    for (from, to) in [("a", "b"), ("b", "c")] {
        let pair = pair(from, to);
        assert!(pair["goodput_bps"].as_f64().unwrap() > 1e6 && pair["cause_text"].is_string(), "{pair}");
    }
    assert_eq!(
        (&pair("b", "c")["tests"]["refused"], &pair("b", "c")["tests"]["finished"]),
        (&1.into(), &1.into())
    );
    // The calendar of another point, where the slot of the finished test ends a little later, and of one that
    // does not reply.
    wait_until("the calendar of c with only the test that is to come", || {
        let calendar = document(&address, "/api/v1/calendar?point=c&seconds=3600");
        assert_eq!(calendar["point"], "c");
        (calendar["slots"].as_array().unwrap().len() == 1).then_some(())
    });
    let history = document(&address, "/api/v1/pair?from=a&to=b");
    assert_eq!(history["tests"].as_array().unwrap().len(), 2);
    assert_eq!(history["changes"].as_array().unwrap().len(), 1);
    drop(agents);
}

/// More connections than the interface serves, which send nothing or a byte now and then.
#[test]
fn hostile_clients_do_not_block_regular_clients_of_the_interface() {
    let mesh = Mesh::of(&["a"]);
    let address = serve_http(&mesh.directories[0]);
    let _a = Agent::start(&mesh.directories[0]);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let stopped = || stop.load(std::sync::atomic::Ordering::Acquire);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut open: Vec<TcpStream> = Vec::new();
                while !stopped() {
                    if open.len() < 50 {
                        open.extend(TcpStream::connect(&address));
                    }
                    // Every second one is silent. Those that were closed are opened again.
                    open.retain_mut(|stream| {
                        stream.set_nonblocking(true).unwrap();
                        let is_silent = stream.local_addr().unwrap().port().is_multiple_of(2);
                        let written = is_silent || stream.write_all(b"x").is_ok();
                        let closed = stream.read(&mut [0; 256]).is_ok();
                        written && !closed
                    });
                    std::thread::sleep(Duration::from_millis(10));
                }
            });
        }
        let proper = std::panic::catch_unwind(|| {
            for _ in 0..50 {
                assert_eq!(document(&address, "/api/v1/mesh")["point"], "a");
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        stop.store(true, std::sync::atomic::Ordering::Release);
        if let Err(panic) = proper {
            std::panic::resume_unwind(panic);
        }
    });
}

#[test]
fn metrics_are_in_the_text_format_and_requests_are_checked() {
    let mesh = Mesh::of(&["a", "b"]);
    let address = serve_http(&mesh.directories[0]);
    let _a = Agent::start(&mesh.directories[0]);
    let b = Agent::start(&mesh.directories[1]);
    let a = mesh.client(0);
    assert_eq!(end(&a, &a.reserve(wanted("a", "b", "throughput")).unwrap().id).phase, "finished");
    let (status, text) = get(&address, "/metrics");
    assert_eq!(status, 200, "{text}");
    let mut names = std::collections::BTreeSet::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (metric, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
        let name = metric.split('{').next().unwrap();
        assert!(text.contains(&format!("\n# TYPE {name} ")) || text.starts_with("# HELP"), "{line}");
        names.insert(name.to_owned());
    }
    assert!(text.contains("longfat_tests_total{from=\"a\",to=\"b\",end=\"finished\"} 1\n"), "{text}");
    assert!(text.contains("longfat_points_unreachable 0\n"), "{text}");
    assert!(
        text.contains("longfat_points 2\n") && text.contains("longfat_cause{from=\"a\",to=\"b\",cause=\""),
        "{text}"
    );
    // The dashboard uses metrics that exist.
    let dashboard = include_str!("../../../packaging/grafana-longfat-mesh.json");
    let dashboard: Value = serde_json::from_str(dashboard).unwrap();
    let mut queries = 0;
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            queries += 1;
            let query = target["expr"].as_str().unwrap();
            let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let used: Vec<&str> =
                words.filter(|word| word.starts_with("longfat_") || word.starts_with("process_")).collect();
            assert!(!used.is_empty(), "{query}");
            for name in used {
                // Metrics without values, because only a throughput test has run: they are described
                // nonetheless.
                let is_described = text.contains(&format!("\n# TYPE {name} gauge\n"));
                assert!(names.contains(name) || is_described, "{name} of {query} is not a metric");
            }
        }
    }
    assert!(queries >= 6, "{queries}");

    for (path, status, part) in [
        ("/", 200, "data-content=\"mesh\""),
        ("/app.js", 200, "longfat"),
        ("/api/vocabulary", 200, "receive_window"),
        ("/api/v1/pair?from=a", 400, "needs the parameter to"),
        ("/api/v1/results?limit=0", 400, "limit must be 1 to 10000"),
        ("/api/v1/directory?near=z", 400, "neither a point of the mesh nor LATITUDE,LONGITUDE"),
        ("/api/v1/calendar?point=z", 400, "no point of the mesh has the name"),
        ("/api/v1/nothing", 404, ""),
    ] {
        let (found, body) = get(&address, path);
        assert_eq!(found, status, "{path}: {body}");
        assert!(body.contains(part), "{path}: {}", &body[..body.len().min(500)]);
    }
    // A host name of another site that resolves to this machine.
    assert_eq!(get_as(&address, "/api/v1/mesh", "evil.example").0, 421);
    b.kill();
    let (status, body) = get(&address, "/api/v1/calendar?point=b");
    assert_eq!((status, body.as_str()), (503, "b does not reply\n"));
}

/// Sends a document with a token: status and body of the response.
pub fn post(address: &str, path: &str, token: Option<&str>, document: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let token = token.map_or(String::new(), |token| format!("Authorization: Bearer {token}\r\n"));
    let length = document.len();
    let head = format!("POST {path} HTTP/1.1\r\nHost: {address}\r\n{token}Content-Length: {length}\r\n");
    // A server that refuses a request does not read all of its document.
    let _ = write!(stream, "{head}Connection: close\r\n\r\n{document}");
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response);
    let response = String::from_utf8(response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no response: {response}"));
    (head.split_ascii_whitespace().nth(1).unwrap().parse().unwrap(), body.into())
}

#[test]
fn reading_needs_a_token_if_the_configuration_requires_one() {
    let mesh = Mesh::of(&["a"]);
    let directory = &mesh.directories[0];
    let address = serve_http(directory);
    add(directory, "read = \"token\"\n");
    let _a = Agent::start(directory);
    let create = |name: &str, scope: agent::Scope| {
        agent::Tokens::open(&directory.join("state")).unwrap().create(name, &[scope], None).unwrap()
    };
    let (reader, reserver) =
        (create("reader", agent::Scope::Read), create("reserver", agent::Scope::Reserve));
    for path in [
        "/api/v1/mesh",
        "/api/v1/directory",
        "/api/v1/results",
        "/api/v1/calendar",
        "/api/v1/status",
        "/api/v1/openapi.json",
        "/metrics",
    ] {
        assert_eq!(get(&address, path).0, 401, "{path}");
        let (status, body) = get_with_token(&address, path, &reserver);
        assert!(status == 403 && body.contains("the token lacks the scope read"), "{path}: {status} {body}");
        assert_eq!(get_with_token(&address, path, &reader).0, 200, "{path}");
    }
    // The files of the page have no results.
    assert_eq!(get(&address, "/").0, 200);
    assert_eq!(post(&address, "/api/v1/reserve", Some(&reader), "{}").0, 403);
}

#[test]
fn a_requested_test_has_the_options_of_a_recurring_one() {
    let mesh = Mesh::of(&["a", "b"]);
    let address = serve_http(&mesh.directories[0]);
    let _agents: Vec<Agent> = mesh.directories.iter().map(|directory| Agent::start(directory)).collect();
    let mut tokens = agent::Tokens::open(&mesh.directories[0].join("state")).unwrap();
    let token = tokens.create("app", &[agent::Scope::Reserve], None).unwrap();
    let reserve = |kind: &str, options: &str| {
        let test = format!(r#"{{"from":"a","to":"b","kind":"{kind}","duration_us":1500000{options}}}"#);
        post(&address, "/api/v1/reserve", Some(&token), &test)
    };
    for (kind, options, part) in [
        ("throughput", r#","parallel":0"#, "1 to 128 streams"),
        ("throughput", r#","congestion":"Reno""#, "is not the name of a congestion control"),
        ("throughput", r#","omit_us":500"#, "whole milliseconds"),
        ("throughput", r#","rate_bps":1000000,"congestion":"reno""#, "a UDP test has no congestion control"),
        ("latency", r#","parallel":3"#, "has no option parallel"),
    ] {
        let (status, body) = reserve(kind, options);
        assert!(status == 400 && body.contains(part), "{options}: {status} {body}");
    }
    // Each kernel has reno.
    let options = r#","parallel":3,"congestion":"reno","omit_us":500000"#;
    let by_program = reservation(reserve("throughput", options))["id"].clone();
    // The other point requests a test that this point leads.
    let wanted = agent::NewReservation { parallel: 2, ..wanted("a", "b", "throughput") };
    let by_peer = mesh.client(1).reserve(wanted).unwrap().id;
    for (client, id, options, duration_us) in [
        (mesh.client(0), by_program.as_str().unwrap(), "congestion=reno parallel=3 omit=500ms", 2_000_000),
        (mesh.client(1), by_peer.as_str(), "parallel=2", 1_500_000),
    ] {
        let ended = end(&client, id);
        assert_eq!(ended.phase, "finished", "{ended:?}");
        // The other end gets the result after the end of the reservation.
        let row = wait_until(&format!("the result of {id}"), || {
            let result = client.why(id).unwrap().into_iter().next()?.result;
            result.filter(|row| row.state == agent::State::Finished)
        });
        assert_eq!((row.options.as_deref(), row.duration_us), (Some(options), duration_us), "{row:?}");
        assert!(row.figures.goodput_bps.is_some_and(|bps| bps > 1e6), "{row:?}");
    }
}

/// The only reservation of a response.
fn reservation(response: (u16, String)) -> Value {
    assert_eq!(response.0, 200, "{}", response.1);
    let document: Value = serde_json::from_str(&response.1).unwrap();
    document["reservations"][0].clone()
}

#[test]
fn programs_reserve_slots_for_their_transfers_and_report_them() {
    let mesh = Mesh::of(&["a", "b"]);
    let address = serve_http(&mesh.directories[0]);
    let _agents: Vec<Agent> = mesh.directories.iter().map(|directory| Agent::start(directory)).collect();
    let state = mesh.directories[0].join("state");
    let create = |name: &str, scopes: &[agent::Scope]| {
        agent::Tokens::open(&state).unwrap().create(name, scopes, None).unwrap()
    };
    let token = create("app", &agent::Scope::ALL);
    let other = create("other", &[agent::Scope::Reserve, agent::Scope::Report, agent::Scope::Alerts]);
    let reporter = create("reporter", &[agent::Scope::Report]);
    let wanted = r#"{"from":"a","to":"b","kind":"transfer","duration_us":20000000}"#;

    for (token, document, status, part) in [
        (None, wanted, 401, "a valid token is needed"),
        (Some("longfat-token-app.0"), wanted, 401, "a valid token is needed"),
        (Some(reporter.as_str()), wanted, 403, "lacks the scope reserve"),
        (Some(token.as_str()), "{", 400, "the document: "),
        (
            Some(token.as_str()),
            r#"{"from":"a","to":"b","kind":"transfer","wihin_us":1}"#,
            400,
            "unknown field",
        ),
        (Some(token.as_str()), r#"{"from":"a","to":"z","kind":"transfer"}"#, 400, "no point of the mesh"),
        (Some(token.as_str()), &format!("{{\"from\":\"{}\"}}", "a".repeat(20_000)), 413, "longer than 16384"),
    ] {
        let (found, body) = post(&address, "/api/v1/reserve", token, document);
        assert!(found == status && body.contains(part), "{document:.80}: {found} {body}");
    }
    assert_eq!(get(&address, "/api/v1/reserve").0, 405);

    let id = reservation(post(&address, "/api/v1/reserve", Some(&token), wanted))["id"].clone();
    let id = id.as_str().unwrap();
    let state_of =
        |id: &str| reservation(get(&address, &format!("/api/v1/reservation?id={}", id.replace('/', "%2F"))));
    wait_until("the start of the slot", || (state_of(id)["phase"] == "running").then_some(()));
    let calendar = document(&address, "/api/v1/calendar?point=b");
    assert_eq!(calendar["slots"][0]["user"], "token:app@a");
    // The application.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap();
    let mut sender = TcpStream::connect(own).unwrap();
    let (mut receiver, _) = listener.accept().unwrap();
    let reader = std::thread::spawn(move || std::io::copy(&mut receiver, &mut std::io::sink()).unwrap());
    let begin = std::time::Instant::now();
    while begin.elapsed() < Duration::from_secs(3) {
        sender.write_all(&[0; 10_000]).unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    let report = |token: &str, bytes: u64, error: &str| {
        let document = format!(r#"{{"id":"{id}","bytes":{bytes},"duration_us":2000000{error}}}"#);
        post(&address, "/api/v1/report", Some(token), &document)
    };
    let (status, body) = report(&other, 1, "");
    assert!(status == 400 && body.contains("was not reserved with this token"), "{body}");
    let ended = reservation(report(&token, 1_000_000, ""));
    drop(sender);
    reader.join().unwrap();
    assert_eq!(ended["phase"], "finished", "{ended}");
    assert_eq!(ended["result"]["goodput_bps"], 4e6, "the application's figure");
    assert!(ended["result"]["verdict"].is_string(), "its connection was judged: {ended}");
    let record = Path::new(ended["result"]["record"].as_str().unwrap()).join("summary.json");
    let record: Value = serde_json::from_str(&std::fs::read_to_string(record).unwrap()).unwrap();
    assert_eq!(record["title"], format!("watch: {id}: transfer to b"));
    // Connections of other programs over the loopback device are in the record too.
    let flows = record["runs"][0]["flows"].as_array().unwrap();
    let is_own = |flow: &&Value| flow["name"].as_str().unwrap().ends_with(&format!(">{own}"));
    assert_eq!(flows.iter().filter(is_own).count(), 1, "{record}");
    // Not a test of the path.
    assert!(document(&address, "/api/v1/mesh")["pairs"][0]["cause"].is_null());

    // A later report corrects an earlier one, for example if the slot cut the transfer off.
    let corrected = reservation(report(&token, 3_000_000, r#","error":"half of the file is missing""#));
    assert_eq!(corrected["result"]["goodput_bps"], 12e6);
    assert_eq!(
        (&corrected["result"]["state"], &corrected["result"]["reason"]),
        (&"failed".into(), &"half of the file is missing".into())
    );
    let test = mesh.client(0).reserve(self::wanted("a", "b", "latency")).unwrap().id;
    let document = format!(r#"{{"id":"{test}","bytes":1,"duration_us":1}}"#);
    let (status, body) = post(&address, "/api/v1/report", Some(&token), &document);
    assert!(status == 400 && body.contains("was not reserved with this token"), "{body}");

    // A slot that is no longer needed.
    let later = r#"{"from":"a","to":"b","kind":"transfer","in_us":600000000}"#;
    let later = reservation(post(&address, "/api/v1/reserve", Some(&token), later))["id"].clone();
    let cancel = format!(r#"{{"id":{later},"reason":"no data"}}"#);
    assert_eq!(post(&address, "/api/v1/cancel", Some(&other), &cancel).0, 400);
    let cancelled = reservation(post(&address, "/api/v1/cancel", Some(&token), &cancel));
    assert_eq!(cancelled["phase"], "not_run", "{cancelled}");
    // A token that was removed.
    agent::Tokens::open(&state).unwrap().remove("app").unwrap();
    assert_eq!(post(&address, "/api/v1/reserve", Some(&token), wanted).0, 401);

    let log = std::fs::read_to_string(state.join("audit.log")).unwrap();
    let entries: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let has = |user: &str, action: &str, key: &str, value: &str| {
        entries.iter().any(|entry| {
            entry["user"] == user
                && entry["action"] == action
                && entry[key].as_str().is_some_and(|text| text.contains(value))
        })
    };
    for (user, action, key, value) in [
        ("token:app@a", "reserve", "object", id),
        ("token:app@a", "reserve", "refused", "no point of the mesh"),
        ("token:reporter@a", "reserve", "refused", "the token lacks the scope reserve"),
        ("token:other@a", "report", "refused", "not reserved with this token"),
        ("token:app@a", "report", "object", id),
        ("token:app@a", "cancel", "text", "no data"),
    ] {
        assert!(has(user, action, key, value), "{user} {action} {value}: {log}");
    }
    assert!(entries.iter().any(|entry| entry["action"] == "join" && entry["point"] == "b"), "{log}");
    assert!(entries.iter().any(|entry| entry["action"] == "remove token"), "{log}");
    assert!(!log.contains(token.split_once('.').unwrap().1));
}
