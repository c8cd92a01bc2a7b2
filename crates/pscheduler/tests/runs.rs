//! Runs on loopback, executed as by pScheduler: each participant separately, then the merge.

use std::{
    net::{IpAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use jiff::{SignedDuration, Timestamp};
use pscheduler::{Method, Settings, call};
use serde_json::{Value, json};
use testing::iperf3_server::QuietServer;

use crate::schema;

const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// A port that is free now.
fn free_port() -> u16 {
    TcpListener::bind((LOOPBACK, 0)).unwrap().local_addr().unwrap().port()
}

/// Runs a test with all its participants and merges their results.
fn run(test: &Value, participants: usize, settings: &Settings) -> Value {
    let ask = |method: Method, input: &Value| call(method, &input.to_string(), settings).unwrap();
    assert_eq!(ask(Method::CanRun, test), json!({ "can-run": true }));
    let data: Vec<Value> = (0..participants)
        .map(|participant| ask(Method::ParticipantData, &json!({ "participant": participant, "test": test })))
        .collect();
    let start = Timestamp::now() + SignedDuration::from_millis(500);
    // On a busy machine a run needs longer than its slot.
    let schedule = json!({ "start": start.to_string(), "duration": "PT120S" });
    let input = |participant: usize| {
        json!({
            "schema": 1, "task-uuid": "d2b5c6ba-9cf4-4a3c-9b4c-2f0f5f3a5b60", "schedule": schedule, "test": test,
            "participant": participant, "participant-data": data, "limits-passed": [],
        })
    };
    let results: Vec<Value> = thread::scope(|scope| {
        let runs: Vec<_> = (0..participants)
            .map(|participant| scope.spawn(move || ask(Method::Run, &input(participant))))
            .collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    for result in &results {
        assert_eq!(schema::mistakes(result, &schema::participant_result()), Vec::<String>::new(), "{result}");
    }
    ask(Method::MergedResults, &json!({ "test": test, "results": results }))
}

fn throughput(spec: Value) -> (Value, usize) {
    let mut test =
        json!({ "type": "throughput", "spec": { "schema": 7, "dest": "127.0.0.1", "duration": "PT1S" } });
    for (name, value) in spec.as_object().unwrap() {
        test["spec"][name] = value.clone();
    }
    let participants = if spec.get("single-ended").is_some() { 1 } else { 2 };
    (test, participants)
}

fn assert_throughput(result: &Value) {
    assert_eq!(schema::mistakes(result, &schema::throughput_result()), Vec::<String>::new(), "{result:#}");
    assert_eq!(result["succeeded"], true, "{result:#}");
    let summary = &result["summary"]["summary"];
    for name in ["throughput-bits", "receiver-throughput-bits"] {
        assert!(summary[name].as_f64().unwrap() > 1000.0, "{name}: {summary}");
    }
    assert!(!result["intervals"].as_array().unwrap().is_empty());
}

#[test]
fn two_participants_measure_throughput_and_report_the_verdict() {
    let directory = tempfile::tempdir().unwrap();
    let runs_dir = Some(directory.path().to_path_buf());
    let settings = Settings { port: free_port(), runs_dir, ..Settings::default() };
    let (test, participants) =
        throughput(json!({ "interval": "PT0.5S", "bandwidth": 20_000_000, "parallel": 2 }));
    let result = run(&test, participants, &settings);
    assert_throughput(&result);
    let diags = result["diags"].as_str().unwrap();
    // -b limits both streams.
    assert!(diags.contains("stream-1 was limited by: pacing"), "{diags}");
    assert!(diags.contains("record: "), "{diags}");
    let streams = result["summary"]["streams"].as_array().unwrap();
    assert_eq!(streams.len(), 2);
    let sum: u64 = streams.iter().filter_map(|stream| stream["throughput-bytes"].as_u64()).sum();
    assert_eq!(result["summary"]["summary"]["throughput-bytes"], sum);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn the_other_participant_can_send() {
    let settings = Settings { port: free_port(), ..Settings::default() };
    let (test, participants) =
        throughput(json!({ "reverse": true, "omit": "PT0.2S", "bandwidth": 50_000_000 }));
    assert_throughput(&run(&test, participants, &settings));
}

#[test]
fn datagrams_are_counted() {
    let settings = Settings { port: free_port(), ..Settings::default() };
    let (test, participants) = throughput(json!({ "udp": true, "bandwidth": 5_000_000 }));
    let result = run(&test, participants, &settings);
    assert_throughput(&result);
    let summary = &result["summary"]["summary"];
    assert!(summary["sent"].as_u64().unwrap() > 10, "{summary}");
    assert!(summary["lost"].is_u64() && summary["jitter"].is_f64(), "{summary}");
}

#[test]
fn a_single_ended_test_needs_only_an_iperf3_server() {
    let port = free_port();
    let server = iperf3::ServerOptions { port, one_off: true, ..iperf3::ServerOptions::default() };
    let server = iperf3::Server::bind(server).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let running = scope.spawn(|| server.run(&stop, &QuietServer::default()));
        let (test, participants) =
            throughput(json!({ "single-ended": true, "single-ended-port": port, "bandwidth": 50_000_000 }));
        assert_throughput(&run(&test, participants, &Settings::default()));
        stop.store(true, Ordering::Release);
        running.join().unwrap().unwrap();
    });
}

#[test]
fn a_missing_server_is_named() {
    let (test, participants) = throughput(json!({ "single-ended": true, "single-ended-port": free_port() }));
    let result = run(&test, participants, &Settings::default());
    assert_eq!(result["succeeded"], false);
    assert!(result["error"].as_str().unwrap().contains("cannot connect to 127.0.0.1"), "{result}");
}

#[test]
fn a_wrong_number_of_participants_is_an_input_error() {
    let (test, _) = throughput(json!({}));
    let schedule = json!({ "start": Timestamp::now().to_string(), "duration": "PT5S" });
    let input = json!({ "schedule": schedule, "test": test, "participant": 0, "participant-data": [{}] });
    let error = call(Method::Run, &input.to_string(), &Settings::default()).unwrap_err();
    assert!(error.to_string().contains("has 2 participants"), "{error}");
}

#[test]
fn round_trips_are_measured_by_twamp_and_stamp() {
    let stop = Arc::new(AtomicBool::new(false));
    let reflector = stamp::Reflector::bind(LOOPBACK, 0, None).unwrap();
    let server = stamp::ControlServer::bind(stamp::ControlProtocol::Twamp, LOOPBACK, 0).unwrap();
    let ports = [("stamp", reflector.port().unwrap()), ("twamp", server.port().unwrap())];
    thread::scope(|scope| {
        scope.spawn(|| reflector.run(&stop));
        scope.spawn(|| server.run(&stop, &|_| {}));
        for (protocol, port) in ports {
            let spec = json!({
                "schema": 4, "dest": "127.0.0.1", "protocol": protocol, "port": port, "count": 8, "interval": "PT0.01S",
            });
            let result = run(&json!({ "type": "rtt", "spec": spec }), 1, &Settings::default());
            assert_eq!(schema::mistakes(&result, &schema::rtt_result()), Vec::<String>::new(), "{result:#}");
            assert_eq!((&result["succeeded"], &result["sent"]), (&json!(true), &json!(8)), "{result:#}");
            assert_eq!(
                result["roundtrips"].as_array().unwrap().len() as u64,
                result["received"].as_u64().unwrap()
            );
            assert!(result["diags"].as_str().unwrap().contains("8 packets sent"), "{result:#}");
        }
        stop.store(true, Ordering::Release);
    });
    // The reflector has ended.
    let spec = json!({
        "schema": 4, "dest": "127.0.0.1", "protocol": "stamp", "port": ports[0].1, "count": 2, "interval": "PT0.01S", "timeout": "PT0.2S",
    });
    let result = run(&json!({ "type": "rtt", "spec": spec }), 1, &Settings::default());
    assert_eq!(result["succeeded"], false);
    assert!(result["error"].as_str().unwrap().contains("longfat serve --stamp"), "{result}");
}
