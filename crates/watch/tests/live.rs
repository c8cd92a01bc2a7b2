//! Connections of this machine, watched while they live and die. What needs root says so and is left out without it.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    os::fd::AsFd,
    time::Duration,
};

use socket2::SockRef;
use watch::{Ends, Error, EventKind, Filter, Place, State, TcpInfo, Tracing, Watcher};

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

fn watcher(filter: &str, tracing: Tracing) -> Result<Watcher, Error> {
    Watcher::new(vec![Place::here().unwrap()], Filter::parse(filter).unwrap(), tracing)
}

/// This sender's connection alone: connections to different peers may share a local port.
fn connection_of(sender: &TcpStream) -> String {
    let (local, peer) = (sender.local_addr().unwrap().port(), sender.peer_addr().unwrap().port());
    format!("local port {local} and peer port {peer}")
}

fn follow(tracing: Tracing) {
    let (mut sender, mut receiver) = connection();
    let mut watcher = match watcher(&connection_of(&sender), tracing) {
        Ok(watcher) => watcher,
        Err(Error::Missing(why)) => return testing::skip(testing::Missing::Feature, why),
        Err(error) => panic!("{error}"),
    };
    watcher.look().unwrap();
    let seen: Vec<_> = watcher.connections().collect();
    let [one] = seen.as_slice() else { panic!("{seen:?}") };
    assert_eq!(one.look.ends.peer, receiver.local_addr().unwrap());
    assert_eq!(one.process.as_ref().unwrap().pid, std::process::id());
    assert_eq!(one.look.state, State::ESTABLISHED);
    assert_eq!(one.look.info.bytes_acked(), Some(100_001));
    let own = watch::tcp_info(sender.as_fd()).unwrap();
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
    let mut watcher = match watcher(&format!("local port {port}"), Tracing::Events) {
        Ok(watcher) => watcher,
        Err(Error::Missing(why)) => return testing::skip(testing::Missing::Feature, why),
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

/// Looks until nothing happened to a socket meanwhile, and holds what was seen of it against its own account: what changes
/// with the clock alone lies between the accounts before and after.
fn agrees(watcher: &mut Watcher, socket: &TcpStream, after: &str) {
    let own = || watch::tcp_info(socket.as_fd()).unwrap();
    let grows = |name: &str| {
        name.starts_with("last_") || ["busy_time_us", "rwnd_limited_us", "sndbuf_limited_us"].contains(&name)
    };
    let rests = |info: &TcpInfo| -> Vec<_> { info.fields().filter(|(name, _)| !grows(name)).collect() };
    for _ in 0..100 {
        let before = own();
        watcher.look().unwrap();
        let then = own();
        if rests(&before) != rests(&then) {
            continue;
        }
        let ends = Ends { local: socket.local_addr().unwrap(), peer: socket.peer_addr().unwrap() };
        let told = watcher.connections().find(|c| c.look.ends == ends).unwrap().look.info;
        let fields = before.fields().zip(told.fields()).zip(then.fields());
        for (((name, least), (_, value)), (_, most)) in fields {
            let asked_last = name == "last_data_recv_ms" && least > most;
            assert!(
                asked_last || (least..=most).contains(&value),
                "{name} after {after}: {least}, {value}, {most}"
            );
        }
        return;
    }
    panic!("something happened all the time after {after}");
}

/// Whatever an application does, and in between nothing: the eBPF program may leave nothing out that has changed.
#[test]
fn what_is_not_told_again_has_not_changed() {
    let (mut sender, mut receiver) = connection();
    let ports = [&sender, &receiver].map(|socket| socket.local_addr().unwrap().port());
    let filter = Filter::parse(&format!("local port {} or local port {}", ports[0], ports[1])).unwrap();
    let mut watcher = Watcher::new(vec![Place::here().unwrap()], filter, Tracing::IfPossible).unwrap();
    if let Some(why) = watcher.without_kernel() {
        return testing::skip(testing::Missing::Feature, why);
    }
    sender.set_nonblocking(true).unwrap();
    for round in 0..3 {
        let mut step = |what: &str, work: &mut dyn FnMut(&mut TcpStream, &mut TcpStream)| {
            work(&mut sender, &mut receiver);
            for rest in [0, 1, 30] {
                std::thread::sleep(Duration::from_millis(rest));
                let after = format!("{what} and {rest} ms of round {round}");
                agrees(&mut watcher, &sender, &after);
                agrees(&mut watcher, &receiver, &after);
            }
        };
        step("nothing", &mut |_, _| {});
        step("a byte", &mut |sender, _| sender.write_all(&[0]).unwrap());
        step("a send buffer", &mut |sender, _| {
            SockRef::from(&*sender).set_send_buffer_size(100_000 + round).unwrap()
        });
        step("a receive buffer", &mut |_, receiver| {
            SockRef::from(&*receiver).set_recv_buffer_size(60_000 + round).unwrap();
        });
        // Until the peer's window is shut: a clock runs on with nobody doing anything.
        step("more than the window", &mut |sender, _| while sender.write(&[0; 65536]).is_ok() {});
        step("a read", &mut |_, receiver| receiver.read_exact(&mut [0; 3000]).unwrap());
        step("reading all", &mut |_, receiver| {
            receiver.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
            while receiver.read(&mut [0; 65536]).is_ok() {}
        });
    }
    sender.shutdown(Shutdown::Write).unwrap();
    agrees(&mut watcher, &receiver, "an end");
}

/// More than one run of eBPF looks at, and again after half of them went and others took their slots.
#[test]
fn each_of_many_connections_is_told_of_itself() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let filter = Filter::parse(&format!("port {}", address.port())).unwrap();
    let mut watcher = Watcher::new(vec![Place::here().unwrap()], filter, Tracing::IfPossible).unwrap();
    if let Some(why) = watcher.without_kernel() {
        return testing::skip(testing::Missing::Feature, why);
    }
    let open = |bytes: usize| {
        let mut sender = TcpStream::connect(address).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        sender.write_all(&vec![0; bytes]).unwrap();
        receiver.read_exact(&mut vec![0; bytes]).unwrap();
        (sender, receiver)
    };
    let mut pairs: Vec<_> = (1..=150).map(open).collect();
    for turn in 0..3 {
        // Who is new is asked no more often than each 20 ms.
        std::thread::sleep(Duration::from_millis(30));
        for (at, (sender, receiver)) in pairs.iter().enumerate() {
            agrees(&mut watcher, sender, &format!("turn {turn} at sender {at}"));
            agrees(&mut watcher, receiver, &format!("turn {turn} at receiver {at}"));
        }
        let (before, gone) = (watcher.connections().count(), pairs.split_off(75));
        let ports: Vec<_> = gone.iter().map(|(sender, _)| sender.local_addr().unwrap().port()).collect();
        drop(gone);
        // The kernel tells of the end, at once.
        watcher.look().unwrap();
        for port in ports {
            let one = watcher.connections().find(|c| c.look.ends.local.port() == port).unwrap();
            assert_eq!((one.look.state, one.closed_ns.is_some()), (State::CLOSED, true), "{one:?}");
        }
        assert_eq!(watcher.connections().count(), before);
        pairs.extend((1000 * (turn + 1)..1000 * (turn + 1) + 75).map(open));
    }
}
