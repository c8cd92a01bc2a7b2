//! Metrics that an agent pushes by OTLP.

use std::{
    net::TcpListener,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};

use crate::{
    agents::{Agent, Mesh, add, configure, end, reload, wait_until, wanted},
    receiver::receive,
};

/// The only data point of a metric in a request, or the one with this attribute.
fn point(request: &Value, name: &str, attribute: Option<&str>) -> Value {
    let metrics = request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let metric = metrics.iter().find(|metric| metric["name"] == name).unwrap_or_else(|| panic!("no {name}"));
    let data = metric.get("sum").or_else(|| metric.get("gauge")).unwrap();
    let is_wanted = |point: &&Value| {
        attribute.is_none_or(|wanted| {
            let mut attributes = point["attributes"].as_array().unwrap().iter();
            attributes.any(|attribute| attribute["value"]["stringValue"] == wanted)
        })
    };
    let points: Vec<&Value> = data["dataPoints"].as_array().unwrap().iter().filter(is_wanted).collect();
    assert_eq!(points.len(), 1, "{metric}");
    points[0].clone()
}

/// A collector that accepts connections and does not reply delays neither users nor tests; SIGHUP replaces
/// it.
#[test]
fn a_collector_gets_the_metrics_and_one_that_stalls_delays_nothing() {
    let mesh = Mesh::of(&["a", "b"]);
    let directory = &mesh.directories[0];
    let stalled = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = stalled.local_addr().unwrap();
    add(directory, &format!("\n[metrics]\notlp = \"http://{address}/v1/metrics\"\nevery = \"1s\"\n"));
    let _agents: Vec<Agent> = mesh.directories.iter().map(|directory| Agent::start(directory)).collect();
    let a = mesh.client(0);
    stalled.set_nonblocking(true).unwrap();
    let _connection = wait_until("the first push", || stalled.accept().ok());
    assert_eq!(a.status().unwrap().name, "a");
    assert_eq!(end(&a, &a.reserve(wanted("a", "b", "throughput")).unwrap().id).phase, "finished");

    let pushed = Arc::new(Mutex::new(Vec::new()));
    let requests = Arc::clone(&pushed);
    let address = receive("/v1/metrics", move |request| requests.lock().unwrap().push(request));
    configure(directory, "otlp", &format!("\"{address}/v1/metrics\""));
    reload(directory);
    let [first, second]: [Value; 2] = wait_until("two pushes", || {
        let pushed = pushed.lock().unwrap();
        Some([pushed.first()?.clone(), pushed.get(1)?.clone()])
    });
    let attributes = first["resourceMetrics"][0]["resource"]["attributes"].as_array().unwrap();
    for (key, value) in [("service.name", "longfat"), ("service.instance.id", "a")] {
        let expected = json!({ "key": key, "value": { "stringValue": value } });
        assert!(attributes.contains(&expected), "{attributes:?}");
    }
    assert_eq!(point(&first, "longfat_points", None)["asInt"], "2");
    let tests = [&first, &second].map(|request| point(request, "longfat_tests_total", Some("finished")));
    for tests in &tests {
        assert_eq!(tests["asInt"], "1");
    }
    // One sequence begins with the first push.
    let time = |point: &Value, key: &str| point[key].as_str().unwrap().parse::<u64>().unwrap();
    let start = time(&tests[0], "startTimeUnixNano");
    assert_eq!(time(&tests[0], "timeUnixNano"), start);
    assert_eq!(time(&tests[1], "startTimeUnixNano"), start);
    assert!(time(&tests[1], "timeUnixNano") > start);
}
