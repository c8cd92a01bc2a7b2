//! Connections of this machine, watched while they live and die. What needs root says so and is left out without it.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    time::Duration,
};

use watch::{Error, EventKind, Filter, Place, State, Tracing, Watcher};

/// A connection over loopback that has carried 100 kB.
fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut receiver, _) = listener.accept().unwrap();
    carry(&mut sender, &mut receiver);
    (sender, receiver)
}

fn carry(sender: &mut TcpStream, receiver: &mut TcpStream) {
    sender.write_all(&[0; 100_000]).unwrap();
    receiver.read_exact(&mut [0; 100_000]).unwrap();
}

fn watcher(port: u16, tracing: Tracing) -> Result<Watcher, Error> {
    let filter = Filter::parse(&format!("local port {port}")).unwrap();
    Watcher::new(vec![Place::here().unwrap()], filter, tracing)
}

fn follow(tracing: Tracing) {
    let (mut sender, mut receiver) = connection();
    let port = sender.local_addr().unwrap().port();
    let mut watcher = match watcher(port, tracing) {
        Ok(watcher) => watcher,
        Err(Error::Missing(why)) => return eprintln!("skipped: {why}"),
        Err(error) => panic!("{error}"),
    };
    watcher.look().unwrap();
    let seen: Vec<_> = watcher.connections().collect();
    let [one] = seen.as_slice() else { panic!("{seen:?}") };
    assert_eq!(one.look.ends.peer, receiver.local_addr().unwrap());
    assert_eq!(one.process.as_ref().unwrap().pid, std::process::id());
    assert_eq!(one.look.state, State::ESTABLISHED);
    assert_eq!(one.look.info.bytes_acked(), Some(100_001));
    let own = watch::tcp_info(std::os::fd::AsFd::as_fd(&sender)).unwrap();
    let cookie = one.look.cookie;
    for (name, value) in own.fields() {
        let told = one.look.info.fields().find(|(known, _)| *known == name).map(|(_, value)| value);
        // Between the two some milliseconds may have passed.
        if !name.starts_with("last_") {
            assert_eq!(told, Some(value), "{name}, {tracing:?}");
        }
    }
    carry(&mut sender, &mut receiver);
    watcher.look().unwrap();
    assert_eq!(watcher.connection(cookie).unwrap().look.info.bytes_acked(), Some(200_001));
    drop(receiver);
    drop(sender);
    std::thread::sleep(Duration::from_millis(300));
    watcher.look().unwrap();
    let closed = watcher.connection(cookie).unwrap().clone();
    assert!(closed.closed_ns.is_some() && closed.look.state == State::CLOSED, "{closed:?}");
    // eBPF looks when a connection closes, and its FIN counts as a byte; otherwise the last look stays.
    let last = 200_001 + u64::from(tracing != Tracing::Never && watcher.has_kernel());
    assert_eq!(closed.look.info.bytes_acked(), Some(last));
    let events = watcher.take_events();
    if matches!(tracing, Tracing::Events | Tracing::PerAck) {
        let new = |event: &watch::Event| match event.kind {
            EventKind::State { new, .. } => Some(new.name()),
            _ => None,
        };
        let states: Vec<_> = events.iter().filter_map(new).collect();
        assert!(states.contains(&"fin-wait-1") || states.contains(&"close-wait"), "{states:?}");
    }
    if tracing == Tracing::PerAck {
        assert!(events.iter().any(|event| event.kind == EventKind::Ack));
        assert_eq!(watcher.tells_round_trips(), closed.tally.round_trips > 0);
        let known = events.iter().filter(|event| matches!(event.kind, EventKind::RoundTrip(_))).count();
        assert_eq!(closed.tally.round_trips, known as u64);
    } else {
        assert_eq!(closed.tally.round_trips, 0);
    }
}

#[test]
fn a_connection_is_followed_by_sock_diag() {
    follow(Tracing::Never);
}

#[test]
fn a_connection_is_followed_by_ebpf() {
    follow(Tracing::IfPossible);
}

#[test]
fn a_connection_is_followed_by_its_events() {
    follow(Tracing::Events);
}

#[test]
fn a_connection_is_followed_by_its_acks() {
    follow(Tracing::PerAck);
}

#[test]
fn a_connection_is_traced_from_its_first_segment() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut watcher = match watcher(port, Tracing::Events) {
        Ok(watcher) => watcher,
        Err(Error::Missing(why)) => return eprintln!("skipped: {why}"),
        Err(error) => panic!("{error}"),
    };
    watcher.look().unwrap();
    let _sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (_receiver, _) = listener.accept().unwrap();
    watcher.wait(Duration::from_secs(1)).unwrap();
    // Who it is is asked no more often than each 20 ms; what happened meanwhile is kept.
    std::thread::sleep(Duration::from_millis(30));
    watcher.look().unwrap();
    let first = watcher.take_events().into_iter().find_map(|event| match event.kind {
        EventKind::State { old, new } => Some((old.name(), new.name())),
        _ => None,
    });
    assert_eq!(first, Some(("listening", "syn-recv")));
}
