//! The methods that need no network.

use pscheduler::{Method, Settings, call};
use serde_json::{Value, json};

use crate::schema;

fn reply(method: Method, input: &Value) -> Value {
    call(method, &input.to_string(), &Settings::default()).unwrap()
}

fn test(kind: &str, spec: Value) -> Value {
    json!({ "type": kind, "spec": spec })
}

fn reasons(kind: &str, spec: Value) -> String {
    let reply = reply(Method::CanRun, &test(kind, spec));
    let reasons = reply["reasons"].as_array().cloned().unwrap_or_default();
    assert_eq!(reply["can-run"], json!(reasons.is_empty()), "{reply}");
    reasons.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("; ")
}

#[test]
fn the_tool_describes_itself() {
    let enumeration = call(Method::Enumerate, "", &Settings::default()).unwrap();
    assert_eq!(schema::mistakes(&enumeration, &schema::enumeration()), Vec::<String>::new());
    // pScheduler finds the tool in the directory of this name.
    assert_eq!(
        (&enumeration["name"], &enumeration["tests"]),
        (&json!("longfat"), &json!(["throughput", "rtt"]))
    );
    for method in Method::ALL {
        assert_eq!(method.name().parse::<Method>(), Ok(method));
    }
}

#[test]
fn unsupported_tests_are_refused_with_the_reason() {
    let dest = || json!({ "schema": 7, "dest": "b.example" });
    let with = |name: &str, value: Value| {
        let mut spec = dest();
        spec[name] = value;
        spec
    };
    assert_eq!(reasons("throughput", dest()), "");
    let everything = json!({
        "schema": 7, "source": "192.0.2.1", "source-node": "a.example", "dest": "b.example", "dest-node": "b.example:8443",
        "duration": "PT20S", "interval": "PT2S", "link-rtt": "PT0.2S", "omit": "PT2S", "parallel": 4, "udp": false,
        "bandwidth": 500_000_000, "window-size": 8_388_608, "mss": 1448, "buffer-length": 131_072, "ip-tos": 32,
        "ip-version": 4, "local-address": "192.0.2.2", "no-delay": true, "congestion": "htcp", "zero-copy": true,
        "flow-label": 7, "client-cpu-affinity": 0, "server-cpu-affinity": 1, "reverse": true, "loopback": false,
    });
    assert_eq!(reasons("throughput", everything), "");
    // `pscheduler task throughput --bandwidth 1.5G --window-size 0.5M`.
    assert_eq!(reasons("throughput", with("bandwidth", json!(1_500_000_000.0))), "");
    assert_eq!(reasons("throughput", with("window-size", json!(500_000.0))), "");
    for (name, value, expected) in [
        ("schema", json!(8), "schema 8 is newer than 7"),
        ("burst-size", json!(10), "does not support the option burst-size"),
        ("loopback", json!(true), "does not support loopback tests"),
        ("duration", json!("20s"), "is not an ISO 8601 duration"),
        ("parallel", json!(1000), "parallel is 1000, which is outside"),
        ("parallel", json!("4"), "invalid type: string"),
        ("bandwidth", json!("1G"), "invalid type: string"),
        ("bandwidth", json!(0.5), "invalid type: floating point"),
        ("ip-version", json!(5), "ip-version must be 4 or 6"),
    ] {
        let given = reasons("throughput", with(name, value));
        assert!(given.contains(expected), "{name}: {given}");
    }
    let mut both = with("bandwidth", json!(1000));
    both["fq-rate"] = json!(1000);
    assert!(reasons("throughput", both).contains("exclude each other"));
    assert!(reasons("throughput", json!({})).contains("dest is missing"));

    let spec =
        |protocol: Value| json!({ "schema": 4, "dest": "b.example", "count": 10, "protocol": protocol });
    for protocol in ["twamp", "stamp"] {
        assert_eq!(reasons("rtt", spec(json!(protocol))), "");
    }
    assert!(reasons("rtt", spec(json!("icmp"))).contains("needs a privilege"));
    assert!(reasons("rtt", json!({ "dest": "b.example" })).contains("needs a privilege"));
    assert!(
        reasons("rtt", json!({ "dest": "b.example", "protocol": "twamp", "ttl": 3 }))
            .contains("the option ttl")
    );
    assert!(reasons("trace", dest()).contains("no test of the type trace"));
    // Input that is not a test.
    for input in ["", "{}", "[]", r#"{"type": "throughput"}"#] {
        let reply = call(Method::CanRun, input, &Settings::default()).unwrap();
        assert_eq!(reply["can-run"], false, "{input}");
    }
}

#[test]
fn slots_include_time_for_the_start_and_the_end() {
    let duration = |kind: &str, spec: Value| reply(Method::Duration, &test(kind, spec))["duration"].clone();
    let spec = |more: &[(&str, &str)]| {
        let mut spec = json!({ "dest": "b.example" });
        more.iter().for_each(|(name, value)| spec[name] = json!(value));
        spec
    };
    assert_eq!(duration("throughput", spec(&[])), "PT20S");
    assert_eq!(duration("throughput", spec(&[("duration", "PT1M"), ("omit", "PT5S")])), "PT75S");
    // 20 round trips of 181 ms.
    assert_eq!(duration("throughput", spec(&[("link-rtt", "PT0.181S")])), "PT24S");
    assert_eq!(duration("rtt", spec(&[("protocol", "twamp")])), "PT11S");
    assert_eq!(duration("rtt", spec(&[("protocol", "twamp"), ("deadline", "PT2.5S")])), "PT9S");
    for wrong in [json!({}), test("trace", json!({})), test("rtt", json!({ "dest": "b" }))] {
        assert!(call(Method::Duration, &wrong.to_string(), &Settings::default()).is_err(), "{wrong}");
    }
}

#[test]
fn the_server_names_its_port_and_a_new_secret() {
    let data = |kind: &str, participant: u32| {
        let input = json!({ "participant": participant, "test": test(kind, json!({ "dest": "b.example" })) });
        let settings = Settings { port: 5301, ..Settings::default() };
        call(Method::ParticipantData, &input.to_string(), &settings).unwrap()
    };
    assert_eq!(data("throughput", 0), json!({ "schema": 1 }));
    assert_eq!(data("rtt", 0), json!({ "schema": 1 }));
    let (first, second) = (data("throughput", 1), data("throughput", 1));
    assert_eq!(first["port"], 5301);
    // pScheduler hides members with an underscore from others.
    assert_eq!(first["_secret"].as_str().unwrap().len(), 32);
    assert_ne!(first["_secret"], second["_secret"]);
}

#[test]
fn results_of_failed_runs_contain_the_reason() {
    let merged = |results: Value| {
        let input = json!({ "test": test("throughput", json!({ "dest": "b.example" })), "results": results });
        reply(Method::MergedResults, &input)
    };
    let failed = json!({ "succeeded": false, "error": "no route", "diags": "text", "result": null });
    let server =
        json!({ "succeeded": false, "error": "no client came within the slot", "diags": "", "result": null });
    let result = merged(json!([failed, server]));
    assert_eq!(result["succeeded"], false);
    assert_eq!(result["error"], "throughput: no route");
    assert_eq!(result["diags"], "Participant 0:\ntext\n\nParticipant 1:\nno client came within the slot");
    for results in [json!([]), json!([null, null]), json!([{ "succeeded": true, "result": null }])] {
        let result = merged(results);
        assert_eq!(result["succeeded"], false);
        assert!(result["error"].as_str().unwrap().contains("participant 0 has no result"), "{result}");
    }
}
