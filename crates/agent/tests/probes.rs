//! Probes of the available bandwidth between two points.

use agent::NewReservation;

use crate::agents::{Agent, Mesh, end, wanted};

#[test]
fn a_probe_between_points_has_the_available_bandwidth_or_the_reason_why_it_is_unknown() {
    let mesh = Mesh::of(&["a", "b"]);
    let probe = NewReservation {
        duration_us: Some(45_000_000),
        rate_bps: Some(200_000_000),
        ..wanted("a", "b", "probe")
    };
    {
        let _agents: Vec<Agent> = mesh.directories.iter().map(|directory| Agent::start(directory)).collect();
        let refused = mesh.client(0).reserve(probe.clone()).unwrap();
        assert!(refused.phase == "not_run" && refused.text.contains("refused by"), "{refused:?}");
    }
    for directory in &mesh.directories {
        let path = directory.join("limits.toml");
        let limits = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, limits.replace("allow_udp = false", "allow_udp = true")).unwrap();
    }
    let _agents: Vec<Agent> = mesh.directories.iter().map(|directory| Agent::start(directory)).collect();
    let a = mesh.client(0);
    let without_rate = NewReservation { rate_bps: None, ..probe.clone() };
    let error = a.reserve(without_rate).unwrap_err().to_string();
    assert!(error.contains("a probe needs a rate"), "{error}");
    let ended = end(&a, &a.reserve(probe).unwrap().id);
    let row = ended.result.as_ref().unwrap();
    // Loopback has no bottleneck, and a busy machine delays packets: the method may find no bandwidth, but
    // the session has run.
    let is_known =
        row.figures.evidence.as_deref().is_some_and(|text| text.starts_with("available bandwidth "));
    let is_unknown =
        row.reason.as_deref().is_some_and(|reason| reason.contains("the available bandwidth is unknown"));
    assert_eq!((is_known, is_unknown), (ended.phase == "finished", ended.phase != "finished"), "{ended:?}");
    assert!(row.figures.goodput_bps.is_none(), "{row:?}");
    // Only a conclusive result is a number.
    let is_conclusive =
        is_known && !row.figures.evidence.as_deref().unwrap_or_default().contains("; inconclusive: ");
    assert_eq!(row.figures.available_bps.is_some(), is_conclusive, "{row:?}");
}
