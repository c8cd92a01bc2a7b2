//! Traces to a point and to a host outside the mesh, requested and recurring.

use std::time::Duration;

use agent::{Filter, NewReservation, PairName, State, TestRow};

use crate::agents::{Agent, Mesh, end, wait_until, wanted};

/// A trace, whose slot is long enough for a busy machine.
fn trace(from: &str, to: &str) -> NewReservation {
    NewReservation { duration_us: Some(30_000_000), ..wanted(from, to, "trace") }
}

/// Loopback is one hop, and its MTU exceeds the sizes that are searched.
fn assert_is_loopback(row: &TestRow) {
    let figures = &row.figures;
    let evidence = figures.evidence.as_deref().unwrap_or_default();
    assert!(evidence.starts_with("path MTU at least 9000 bytes; 1 hop: 127.0.0.1 "), "{row:?}");
    assert!(figures.min_rtt_us.is_some() && figures.min_rtt_us <= figures.typical_rtt_us, "{row:?}");
    assert_eq!((figures.mtu_bytes, figures.hops), (Some(9000), Some(1)), "{row:?}");
    assert_eq!((&figures.goodput_bps, &figures.verdict, &row.record), (&None, &None, &None));
}

#[test]
fn traces_between_points_have_hops_and_path_mtu_at_both_ends() {
    let mesh = Mesh::of(&["a", "b"]);
    let _agents: Vec<Agent> = mesh.directories.iter().map(|directory| Agent::start(directory)).collect();
    let [a, b] = [0, 1].map(|index| mesh.client(index));
    // Also requested by the other end.
    let ids = [a.reserve(trace("a", "b")).unwrap().id, a.reserve(trace("b", "a")).unwrap().id];
    for (id, (from, to)) in ids.iter().zip([("a", "b"), ("b", "a")]) {
        for client in [&a, &b] {
            let ended = end(client, id);
            assert_eq!(ended.phase, "finished", "{ended:?}");
            let row = wait_until("the result at both ends", || {
                let known = client.why(id).unwrap().into_iter().next();
                known?.result.filter(|row| row.state == State::Finished)
            });
            assert_eq!((row.from.as_str(), row.to.as_str(), row.kind.as_str()), (from, to, "trace"));
            assert_is_loopback(&row);
        }
    }
    let with_rate = NewReservation { rate_bps: Some(1_000_000), ..trace("a", "b") };
    let error = a.reserve(with_rate).unwrap_err().to_string();
    assert!(error.contains("a test of the kind trace has no rate"), "{error}");
}

#[test]
fn traces_overlap_with_exclusive_tests() {
    let mesh = Mesh::of(&["a", "b"]);
    let _agents: Vec<Agent> = mesh.directories.iter().map(|directory| Agent::start(directory)).collect();
    let a = mesh.client(0);
    let exclusive = NewReservation { duration_us: Some(50_000_000), ..wanted("a", "b", "throughput") };
    let exclusive = a.reserve(exclusive).unwrap().id;
    wait_until("the throughput test", || (a.why(&exclusive).unwrap()[0].phase == "running").then_some(()));
    let slots = a.calendar(Duration::from_secs(600)).unwrap().slots;
    let slot = slots.into_iter().find(|slot| slot.id == exclusive).unwrap();
    let ended = end(&a, &a.reserve(trace("a", "b")).unwrap().id);
    assert_eq!(ended.phase, "finished", "{ended:?}");
    let row = ended.result.unwrap();
    assert_is_loopback(&row);
    assert!(row.start_us.cast_unsigned() < slot.start_us + slot.duration_us, "{row:?} {slot:?}");
    a.cancel(&exclusive, "the trace has run").unwrap();
}

#[test]
fn hosts_that_know_nothing_of_the_mesh_are_traced_as_a_recurring_test() {
    let mesh = Mesh::of(&["a"]);
    let path = mesh.directories[0].join("agent.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let servers = "\n[[servers]]\nname = \"far\"\nhost = \"127.0.0.1\"\n\
         [[tests]]\nname = \"path\"\nto = \"far\"\nkind = \"trace\"\nduration = \"30s\"\nevery = \"60s\"\nslip = \"50s\"\n";
    std::fs::write(&path, format!("{text}{servers}")).unwrap();
    let _a = Agent::start(&mesh.directories[0]);
    let a = mesh.client(0);
    let row = wait_until("a recurring trace", || {
        let filter = Filter { kind: Some("trace".into()), limit: 100, ..Filter::default() };
        let rows = a.results(filter).unwrap();
        rows.into_iter().find(|row| row.task.as_deref() == Some("path") && row.state == State::Finished)
    });
    assert_eq!((row.from.as_str(), row.to.as_str()), ("a", "far"));
    assert_is_loopback(&row);
    // Alerts of the pair can be muted.
    for from in ["a", "*"] {
        let pair = PairName { from: from.into(), to: "far".into() };
        a.mute(pair, Duration::from_secs(60), "").unwrap();
    }
    // It has no service for other tests.
    let error = a.reserve(wanted("a", "far", "latency")).unwrap_err().to_string();
    assert!(error.contains("the server far has no service for a test of the kind latency"), "{error}");
}
