//! The network between two running agents is cut and restored: relays stop passing bytes, so that connections
//! stay open and silent.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{sleep, spawn},
    time::Duration,
};

use agent::{Authority, JoinRequest, NewReservation, State};

use crate::agents::{Agent, configure, end, listen, results, wait_for_empty_calendar, wait_until, wanted};

/// Poll interval of a relay.
const POLL: Duration = Duration::from_millis(5);

/// Passes bytes on unless the network is cut.
fn relay(mut from: TcpStream, mut to: TcpStream, cut: &AtomicBool) {
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        while cut.load(Ordering::Acquire) {
            sleep(POLL);
        }
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

/// An address whose connections are relayed to another one while the network is not cut.
fn relay_to(target: SocketAddr, cut: &Arc<AtomicBool>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let cut = Arc::clone(cut);
    spawn(move || {
        for stream in listener.incoming() {
            while cut.load(Ordering::Acquire) {
                sleep(POLL);
            }
            let (Ok(client), Ok(server)) = (stream, TcpStream::connect(target)) else { continue };
            for (from, to) in [
                (client.try_clone().unwrap(), server.try_clone().unwrap()),
                (server.try_clone().unwrap(), client.try_clone().unwrap()),
            ] {
                let cut = Arc::clone(&cut);
                spawn(move || relay(from, to, &cut));
            }
        }
    });
    address
}

/// Two points whose agents reach each other by relays; tests do not pass through them.
fn mesh(cut: &Arc<AtomicBool>) -> (tempfile::TempDir, Vec<PathBuf>) {
    let root = tempfile::tempdir().unwrap();
    let directories: Vec<PathBuf> = ["a", "b"].iter().map(|name| root.path().join(name)).collect();
    let at = listen();
    let address = relay_to(at, cut).to_string();
    agent::create_mesh(&directories[0], "a", at, &address).unwrap();
    configure(&directories[0], "clock_error", "\"100ms\"");
    let founder = Agent::start(&directories[0]);
    let state = directories[0].join("state");
    let authority = Authority::open(&state).unwrap();
    let invitation = authority.invite(&state, "b", &address, Duration::from_secs(3600)).unwrap();
    let at = listen();
    let request = JoinRequest { listen: at, address: Some(relay_to(at, cut).to_string()) };
    agent::join_mesh(&directories[1], &invitation.to_string().parse().unwrap(), &request).unwrap();
    configure(&directories[1], "clock_error", "\"100ms\"");
    drop(founder);
    (root, directories)
}

#[test]
fn a_partition_before_or_during_a_test_repeats_no_test_and_loses_no_result() {
    let cut = Arc::new(AtomicBool::new(false));
    let (_root, directories) = mesh(&cut);
    let _agents: Vec<Agent> = directories.iter().map(|directory| Agent::start(directory)).collect();
    let [a, b] = [0, 1].map(|index| agent::Client::new(&directories[index].join("state")));
    let phase = |client: &agent::Client, id: &str, phase: &str| {
        client.why(id).ok().and_then(|known| known.into_iter().find(|known| known.phase == phase))
    };
    let first = a.reserve(wanted("a", "b", "throughput")).unwrap();
    assert_eq!(end(&a, &first.id).phase, "finished");

    // Before the agreement.
    cut.store(true, Ordering::Release);
    let unagreed =
        a.reserve(NewReservation { within_us: 5_000_000, ..wanted("a", "b", "throughput") }).unwrap();
    assert_eq!(end(&a, &unagreed.id).phase, "not_run");
    wait_for_empty_calendar(&a);
    cut.store(false, Ordering::Release);

    // Between the booking and the start.
    let later = NewReservation { in_us: 10_000_000, within_us: 30_000_000, ..wanted("a", "b", "throughput") };
    let booked = a.reserve(later).unwrap();
    wait_until("the booking at both points", || {
        phase(&a, &booked.id, "booked").and(phase(&b, &booked.id, "booked"))
    });
    cut.store(true, Ordering::Release);
    assert_eq!(end(&a, &booked.id).phase, "not_run");
    [&a, &b].into_iter().for_each(wait_for_empty_calendar);
    cut.store(false, Ordering::Release);

    // During the test, whose data do not pass through the relays: both calendars become free, and the result
    // arrives afterwards.
    let wanted = NewReservation { duration_us: Some(6_000_000), ..wanted("a", "b", "latency") };
    let during = a.reserve(wanted).unwrap();
    wait_until("the start", || phase(&a, &during.id, "running"));
    // The lead has begun, so the address of the server has arrived.
    sleep(Duration::from_secs(1));
    cut.store(true, Ordering::Release);
    let over = end(&a, &during.id);
    assert_eq!(over.phase, "finished", "{}", over.text);
    [&a, &b].into_iter().for_each(wait_for_empty_calendar);
    let copy = || results(&b).into_iter().find(|row| row.id == during.id && row.state == State::Finished);
    assert!(copy().is_none());
    cut.store(false, Ordering::Release);
    wait_until("the result at the other end", copy);

    // One start for each test that ran.
    let ran = results(&a).into_iter().filter(|row| row.state != State::NotRun);
    let ids: Vec<String> = ran.map(|row| row.id).collect();
    assert_eq!(ids, [during.id, first.id]);
    let last = a.reserve(self::wanted("a", "b", "throughput")).unwrap();
    assert_eq!(end(&a, &last.id).phase, "finished", "{:?}", a.why(&last.id));
}
