//! Plans for applications, sessions of stations, and tests with servers outside the mesh.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use agent::{NewReservation, Session, State, TransferReport};
use jiff::{SignedDuration, Timestamp};
use testing::iperf3_server::QuietServer;

use crate::{
    agents::{Agent, Mesh, end, wait_until, wanted},
    http::{document, get, serve_http},
};

fn now_us() -> u64 {
    Timestamp::now().as_microsecond().cast_unsigned()
}

#[test]
fn a_plan_has_the_tested_rate_and_a_free_slot_that_can_be_reserved() {
    let mesh = Mesh::of(&["a", "b"]);
    let address = serve_http(&mesh.directories[0]);
    let _agents: Vec<Agent> = mesh.directories.iter().map(|directory| Agent::start(directory)).collect();
    let [a, b] = [0, 1].map(|index| mesh.client(index));
    let plan = |bytes: u64, deadline_s: u64| {
        let deadline_us = now_us() + deadline_s * 1_000_000;
        document(&address, &format!("/api/v1/plan?from=a&to=b&bytes={bytes}&deadline_us={deadline_us}"))
    };
    let untested = plan(1_000_000, 3600);
    assert_eq!(untested["is_feasible"], false);
    assert!(untested["reason"].as_str().unwrap().contains("test the pair first"), "{untested}");
    assert!(untested["rate_bps"].is_null() && untested["reservation"].is_null());

    assert_eq!(end(&a, &a.reserve(wanted("a", "b", "throughput")).unwrap().id).phase, "finished");
    // b is busy a few seconds from now: the slot is only in its own calendar and in a's.
    let busy =
        NewReservation { in_us: 8_000_000, duration_us: Some(30_000_000), ..wanted("b", "a", "throughput") };
    let busy = b.reserve(busy).unwrap();
    wait_until("the booking", || (b.why(&busy.id).unwrap()[0].phase == "booked").then_some(()));
    let planned = plan(1_000_000, 3600);
    assert_eq!((&planned["is_feasible"], &planned["tests"]), (&true.into(), &1.into()), "{planned}");
    let rate = planned["rate_bps"].as_f64().unwrap();
    assert!(rate > 1e6 && planned["median_rate_bps"].as_f64() == Some(rate), "{planned}");
    assert!(planned["limit_text"].is_string());
    // A transfer of 20 s does not fit before the other test.
    let bytes = (rate / 8.0 * 20.0) as u64;
    let later = plan(bytes, 3600);
    let slot_start = later["slot"]["start_us"].as_u64().unwrap();
    let busy_start = b.calendar(Duration::from_secs(3600)).unwrap().slots[0].start_us;
    assert!(slot_start > busy_start + 30_000_000, "{later}");
    let refused = plan(bytes * 100, 60);
    assert_eq!(refused["is_feasible"], false);
    assert!(refused["reason"].as_str().unwrap().contains("the deadline is in"), "{refused}");
    assert!(refused["needed_bps"].as_f64().unwrap() > rate);

    // The plan's document reserves the slot.
    b.cancel(&busy.id, "").unwrap();
    let planned = plan(1_000_000, 3600);
    let reservation: NewReservation = serde_json::from_value(planned["reservation"].clone()).unwrap();
    let reserved = a.reserve(reservation).unwrap();
    wait_until("the start of the slot", || {
        (a.why(&reserved.id).unwrap()[0].phase == "running").then_some(())
    });
    // A report without bytes takes the goodput of the connections; there are none.
    let report = TransferReport { bytes: None, duration_us: 1_000_000, error: None };
    a.report(&reserved.id, &report).unwrap();
    assert_eq!(end(&a, &reserved.id).phase, "finished");

    for (query, part) in [
        ("from=a&to=z&bytes=1&deadline_us=1", "no point of the mesh has the name"),
        ("from=a&to=b&bytes=-1&deadline_us=1", "must not be negative"),
        ("from=a&to=b&bytes=1", "needs the parameter deadline_us"),
    ] {
        let (status, body) = get(&address, &format!("/api/v1/plan?{query}"));
        assert!(status == 400 && body.contains(part), "{status} {body}");
    }
}

#[test]
fn stations_send_to_one_correlator_at_the_same_time() {
    let mesh = Mesh::of(&["correlator", "east", "west"]);
    for directory in &mesh.directories {
        let path = directory.join("limits.toml");
        let limits = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, limits.replace("allow_udp = false", "allow_udp = true")).unwrap();
    }
    let _agents: Vec<Agent> = mesh.directories.iter().map(|directory| Agent::start(directory)).collect();
    let correlator = mesh.client(0);
    // The first connections between the points.
    for station in ["east", "west"] {
        let test = correlator.reserve(wanted(station, "correlator", "latency")).unwrap();
        assert_eq!(end(&correlator, &test.id).phase, "finished");
    }
    let start = Timestamp::now() + SignedDuration::from_secs(12);
    let session = format!(
        "name = \"s\"\ncorrelator = \"correlator\"\nstations = [\"east\", \"west\"]\nrate = \"8mbit\"\n\
         [[scans]]\nstart = \"{start}\"\nduration = \"3s\"\ndeadline = \"{}\"\n",
        start + SignedDuration::from_secs(60)
    );
    let session = Session::parse(&session).unwrap();
    let slots = session.slots(Timestamp::now());
    let reserved: Vec<String> =
        slots.iter().map(|slot| correlator.reserve(slot.reservation.clone()).unwrap().id).collect();
    for id in &reserved {
        wait_until("the booking", || (correlator.why(id).unwrap()[0].phase == "booked").then_some(()));
    }
    let calendar = correlator.calendar(Duration::from_secs(600)).unwrap();
    let scans: Vec<_> = calendar.slots.iter().filter(|slot| session.scan_of(slot) == Some(1)).collect();
    assert_eq!(scans.len(), 2, "{calendar:?}");
    // Both slots are at the same time, because they state their rate.
    assert!(scans[0].start_us.abs_diff(scans[1].start_us) < 3_000_000, "{scans:?}");
    assert!(scans.iter().all(|slot| slot.class == "normal"));
    for id in &reserved {
        correlator.cancel(id, "only the rehearsal is run here").unwrap();
    }

    let streams: Vec<String> = session
        .rehearsal(6_000_000, units::Time::from_secs(4))
        .into_iter()
        .map(|stream| correlator.reserve(NewReservation { within_us: 30_000_000, ..stream }).unwrap().id)
        .collect();
    for id in &streams {
        let ended = end(&correlator, id);
        let row = wait_until("the result at the requester", || {
            correlator.why(id).unwrap().into_iter().next()?.result.filter(|row| row.state != State::Running)
        });
        // On a busy machine packets miss their deadlines; the stream is measured nevertheless.
        let goodput = row.figures.goodput_bps;
        assert!(goodput.is_some_and(|bps| bps > 1e6), "{ended:?} {row:?}");
        let is_late = row.reason.as_deref().is_some_and(|reason| reason.contains("missed their time"));
        assert!(ended.phase == "finished" || is_late, "{ended:?}");
    }
}

#[test]
fn servers_outside_the_mesh_can_be_ends_of_tests() {
    let iperf3 = iperf3::ServerOptions { port: 0, ..iperf3::ServerOptions::default() };
    let iperf3 = iperf3::Server::bind(iperf3).unwrap();
    let loopback = std::net::IpAddr::from([127, 0, 0, 1]);
    let twamp = stamp::ControlServer::bind(stamp::ControlProtocol::Twamp, loopback, 0).unwrap();
    let owamp = stamp::ControlServer::bind(stamp::ControlProtocol::Owamp, loopback, 0).unwrap();
    let ports = (iperf3.address().port(), twamp.port().unwrap(), owamp.port().unwrap());
    let stop = Arc::new(AtomicBool::new(false));
    let mut threads = Vec::new();
    let ended = Arc::clone(&stop);
    threads.push(std::thread::spawn(move || iperf3.run(&ended, &QuietServer::default()).unwrap()));
    let ended = Arc::clone(&stop);
    threads.push(std::thread::spawn(move || twamp.run(&ended, &|_| {}).unwrap()));
    let ended = Arc::clone(&stop);
    threads.push(std::thread::spawn(move || owamp.run(&ended, &|_| {}).unwrap()));

    let mesh = Mesh::of(&["a"]);
    let path = mesh.directories[0].join("agent.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let servers = format!(
        "\n[[servers]]\nname = \"far\"\niperf3 = \"127.0.0.1:{}\"\ntwamp = \"127.0.0.1:{}\"\n\
         [[servers]]\nname = \"one-way\"\nowamp = \"127.0.0.1:{}\"\n\
         [[tests]]\nname = \"rtt\"\nto = \"far\"\nkind = \"latency\"\nduration = \"2s\"\nevery = \"10s\"\nslip = \"8s\"\n",
        ports.0, ports.1, ports.2
    );
    std::fs::write(&path, format!("{text}{servers}")).unwrap();
    let address = serve_http(&mesh.directories[0]);
    let _a = Agent::start(&mesh.directories[0]);
    let a = mesh.client(0);
    for (to, kind, seconds) in [("far", "throughput", 2), ("far", "latency", 2), ("one-way", "latency", 6)] {
        let test = NewReservation { duration_us: Some(seconds * 1_000_000), ..wanted("a", to, kind) };
        let id = a.reserve(test).unwrap().id;
        let ended = end(&a, &id);
        assert_eq!(ended.phase, "finished", "{ended:?}");
        let row = ended.result.unwrap();
        assert_eq!((row.from.as_str(), row.to.as_str(), row.kind.as_str()), ("a", to, kind));
        let figure = if kind == "latency" { row.figures.min_rtt_us } else { row.figures.goodput_bps };
        // The reflector's own time is subtracted; on one host the difference can be zero.
        assert!(figure.is_some_and(|value| value > 0.0 || kind == "latency"), "{row:?}");
        let is_counted =
            row.figures.evidence.is_some_and(|text| text.contains(&format!("packets to {to} lost")));
        assert_eq!(is_counted, kind == "latency");
    }
    wait_until("a recurring test", || {
        let rows = a.results(agent::Filter { limit: 100, ..agent::Filter::default() }).unwrap();
        rows.into_iter().find(|row| row.task.as_deref() == Some("rtt") && row.state == State::Finished)
    });
    // An application transfers to the server's host.
    let plan = |to: &str| {
        format!("/api/v1/plan?from=a&to={to}&bytes=1000000&deadline_us={}", now_us() + 3_600_000_000)
    };
    let planned = document(&address, &plan("far"));
    assert_eq!((&planned["is_feasible"], &planned["tests"]), (&true.into(), &1.into()), "{planned}");
    let wanted_slot: NewReservation = serde_json::from_value(planned["reservation"].clone()).unwrap();
    let id = a.reserve(wanted_slot).unwrap().id;
    wait_until("the slot", || (a.why(&id).unwrap()[0].phase == "running").then_some(()));
    a.report(&id, &TransferReport { bytes: Some(1_000_000), duration_us: 1_000_000, error: None }).unwrap();
    let ended = end(&a, &id);
    let row = ended.result.as_ref().filter(|_| ended.phase == "finished");
    assert!(row.is_some_and(|row| row.to == "far" && row.figures.goodput_bps == Some(8e6)), "{ended:?}");
    // Other ends are refused with the reason.
    let error = a.reserve(wanted("a", "far", "diagnose")).unwrap_err().to_string();
    assert!(error.contains("kind diagnose: the other end must be a point of the mesh"), "{error}");
    for (to, part) in [
        (
            "one-way",
            "the server one-way has no service for a test of the kind transfer: agent.toml must name its iperf3",
        ),
        ("near", "no point of the mesh has the name \"near\", and agent.toml has no such server"),
    ] {
        let (status, text) = get(&address, &plan(to));
        assert!(status == 400 && text.contains(part), "{status} {text}");
    }
    stop.store(true, Ordering::Release);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
