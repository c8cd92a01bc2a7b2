//! The recurring tests of a point as a pSConfig file.

use serde_json::{Map, Value, json};
use units::{Instant, Time};

use super::iso_text;
use crate::{
    Config, Members,
    address::host_and_port,
    test::{Kind, options_of},
};

/// Interval between the packets of an exported latency test: pScheduler's tools send few packets.
const RTT_INTERVAL: Time = Time::from_secs(1);

/// A pSConfig file.
#[derive(Debug, Clone)]
pub struct PsconfigExport {
    /// The file.
    pub document: Value,
    /// Notes on settings without a counterpart.
    pub notes: Vec<String>,
}

/// Converts the recurring tests of a point.
pub fn export_psconfig(config: &Config, members: &Members) -> PsconfigExport {
    let mut notes = Vec::new();
    let [mut groups, mut tests, mut schedules, mut tasks] = [(); 4].map(|()| Map::new());
    let addresses = members.members.iter().filter_map(|member| {
        let (host, _) = host_and_port(&member.address)?;
        Some((member.name.0.clone(), json!({ "address": host })))
    });
    let addresses: Map<String, Value> = addresses.collect();
    for task in &config.tasks(members) {
        let (name, spec) = (&task.name.0, &task.spec);
        let Some(peer) = &spec.peer else {
            notes.push(format!("the test {name} is skipped: its other end is not a point of the mesh"));
            continue;
        };
        let mut spec_json = json!({ "source": "{% address[0] %}", "dest": "{% address[1] %}" });
        let kind = match spec.test.kind.parse() {
            Ok(Kind::Throughput) => {
                // A point's own tests are valid.
                let options = options_of(&spec.test).unwrap_or_default();
                spec_json["duration"] = iso_text(spec.duration.saturating_sub(options.omit)).into();
                if let Some(rate) = spec.test.rate {
                    spec_json["udp"] = true.into();
                    // The rate of each stream.
                    spec_json["bandwidth"] = options.rate_of_stream(rate).0.into();
                }
                if options.parallel != 1 {
                    spec_json["parallel"] = options.parallel.into();
                }
                if options.omit > Time::ZERO {
                    spec_json["omit"] = iso_text(options.omit).into();
                }
                if let Some(congestion) = options.congestion {
                    spec_json["congestion"] = congestion.into();
                }
                "throughput"
            }
            Ok(Kind::Latency) => {
                spec_json["count"] = (spec.duration / RTT_INTERVAL).max(1).into();
                spec_json["interval"] = iso_text(RTT_INTERVAL).into();
                "rtt"
            }
            Ok(Kind::Trace) => {
                if spec.duration != Kind::Trace.default_duration() {
                    notes.push(format!("the duration of the trace {name} is dropped"));
                }
                "trace"
            }
            _ => {
                let kind = &spec.test.kind;
                notes.push(format!("the test {name} is skipped: pScheduler has no test of the kind {kind}"));
                continue;
            }
        };
        if task.recurrence.first > Instant::ZERO {
            notes.push(format!("the offset of the test {name} is dropped"));
        }
        groups.insert(
            name.clone(),
            json!({
                "type": "disjoint", "unidirectional": true,
                "a-addresses": [{ "name": config.name.0 }], "b-addresses": [{ "name": peer.0 }],
            }),
        );
        tests.insert(name.clone(), json!({ "type": kind, "spec": spec_json }));
        schedules.insert(
            name.clone(),
            json!({
                "repeat": iso_text(task.recurrence.every), "slip": iso_text(task.recurrence.slip),
                "sliprand": task.recurrence.random_start,
            }),
        );
        tasks.insert(
            name.clone(),
            json!({
                "group": name, "test": name, "schedule": name, "priority": spec.priority,
            }),
        );
    }
    let document = json!({
        "addresses": addresses, "groups": groups, "tests": tests, "schedules": schedules, "tasks": tasks,
        "_meta": { "display-name": format!("recurring tests of {}", config.name) },
    });
    PsconfigExport { document, notes }
}
