//! Watches connections of this machine while they open, carry data and close. Tests that need root are
//! skipped without it.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    os::fd::AsFd,
    time::Duration,
};

use socket2::SockRef;
use watch::{
    Error, Filter, NetNamespace, SocketAddresses, SocketEventKind, SocketState, TcpInfo, TracingMode, Watcher,
};

/// Opens a connection over loopback and transfers 100 kB.
fn open_connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut receiver, _) = listener.accept().unwrap();
    transfer(&mut sender, &mut receiver);
    (sender, receiver)
}

fn transfer(sender: &mut TcpStream, receiver: &mut TcpStream) {
    sender.write_all(&[0; 100_000]).unwrap();
    receiver.read_exact(&mut [0; 100_000]).unwrap();
}

fn new_watcher(filter: &str, mode: TracingMode) -> Result<Watcher, Error> {
    Watcher::new(vec![NetNamespace::current().unwrap()], Filter::parse(filter).unwrap(), mode)
}

/// Returns a filter that matches only this sender's connection: connections to different peers may share a
/// local port.
fn filter_for(sender: &TcpStream) -> String {
    let (local, peer) = (sender.local_addr().unwrap().port(), sender.peer_addr().unwrap().port());
    format!("local port {local} and peer port {peer}")
}

fn check_tracking(mode: TracingMode) {
    let (mut sender, mut receiver) = open_connection();
    let mut watcher = match new_watcher(&filter_for(&sender), mode) {
        Ok(watcher) => watcher,
        Err(Error::Missing(why)) => return testing::skip(testing::Missing::Feature, why),
        Err(error) => panic!("{error}"),
    };
    watcher.sample().unwrap();
    let tracked: Vec<_> = watcher.connections().collect();
    let [tracked] = tracked.as_slice() else { panic!("{tracked:?}") };
    assert_eq!(tracked.sample.addresses.peer, receiver.local_addr().unwrap());
    assert_eq!(tracked.process.as_ref().unwrap().pid, std::process::id());
    assert_eq!(tracked.sample.state, SocketState::ESTABLISHED);
    assert_eq!(tracked.sample.info.bytes_acked(), Some(100_001));
    let own = watch::read_tcp_info(sender.as_fd()).unwrap();
    let cookie = tracked.sample.cookie;
    for (name, value) in own.fields() {
        let sampled = tracked.sample.info.fields().find(|(known, _)| *known == name).map(|(_, value)| value);
        // A few milliseconds may have passed between the two readings.
        if !name.starts_with("last_") {
            assert_eq!(sampled, Some(value), "{name}, {mode:?}");
        }
    }
    transfer(&mut sender, &mut receiver);
    watcher.sample().unwrap();
    let limits = watcher.connection(cookie).unwrap().limits;
    assert_eq!(limits.is_some(), watcher.uses_bpf(), "{mode:?}");
    assert!(
        limits.is_none_or(|limits| limits.cwnd_segs > 0 && limits.advertised_bytes >= 4096),
        "{limits:?}"
    );
    assert_eq!(watcher.connection(cookie).unwrap().sample.info.bytes_acked(), Some(200_001));
    drop(receiver);
    drop(sender);
    std::thread::sleep(Duration::from_millis(300));
    watcher.sample().unwrap();
    let closed = watcher.connection(cookie).unwrap().clone();
    assert!(closed.closed_ns.is_some() && closed.sample.state == SocketState::CLOSED, "{closed:?}");
    // eBPF samples a connection when it closes, and the FIN counts as a byte; without eBPF the previous
    // sample remains.
    let last = 200_001 + u64::from(mode != TracingMode::Never && watcher.uses_bpf());
    assert_eq!(closed.sample.info.bytes_acked(), Some(last));
    let events = watcher.take_events();
    if matches!(mode, TracingMode::Events | TracingMode::PerAck) {
        let new_state = |event: &watch::SocketEvent| match event.kind {
            SocketEventKind::State { new, .. } => Some(new.name()),
            _ => None,
        };
        let states: Vec<_> = events.iter().filter_map(new_state).collect();
        assert!(states.contains(&"fin-wait-1") || states.contains(&"close-wait"), "{states:?}");
    }
    if mode == TracingMode::PerAck {
        assert!(events.iter().any(|event| matches!(event.kind, SocketEventKind::Ack { .. })));
        // Without loss and reordering, no ACK repeats another.
        assert_eq!(closed.counters.duplicate_acks, 0);
        assert_eq!(watcher.traces_round_trips(), closed.counters.round_trips > 0);
        let reported =
            events.iter().filter(|event| matches!(event.kind, SocketEventKind::RoundTrip(_))).count();
        assert_eq!(closed.counters.round_trips, reported as u64);
    } else {
        assert_eq!(closed.counters.round_trips, 0);
    }
}

#[test]
fn a_connection_is_sampled_by_sock_diag() {
    check_tracking(TracingMode::Never);
}

#[test]
fn a_connection_is_sampled_by_ebpf() {
    check_tracking(TracingMode::IfPossible);
}

#[test]
fn a_connection_is_traced_with_its_events() {
    check_tracking(TracingMode::Events);
}

#[test]
fn a_connection_is_traced_with_its_acks() {
    check_tracking(TracingMode::PerAck);
}

#[test]
fn a_connection_is_traced_from_its_first_segment() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut watcher = match new_watcher(&format!("local port {port}"), TracingMode::Events) {
        Ok(watcher) => watcher,
        Err(Error::Missing(why)) => return testing::skip(testing::Missing::Feature, why),
        Err(error) => panic!("{error}"),
    };
    watcher.sample().unwrap();
    let _sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (_receiver, _) = listener.accept().unwrap();
    watcher.wait(Duration::from_secs(1)).unwrap();
    // The watcher searches for new connections at most every 20 ms, and retains their earlier events.
    std::thread::sleep(Duration::from_millis(30));
    watcher.sample().unwrap();
    let first = watcher.take_events().into_iter().find_map(|event| match event.kind {
        SocketEventKind::State { old, new } => Some((old.name(), new.name())),
        _ => None,
    });
    assert_eq!(first, Some(("listening", "syn-recv")));
}

/// Samples until TCP_INFO of the socket is the same before and after the sample, then compares the two.
/// Fields that advance with the clock alone must lie between both readings.
fn assert_sample_is_current(watcher: &mut Watcher, socket: &TcpStream, step: &str) {
    let read = || watch::read_tcp_info(socket.as_fd()).unwrap();
    let depends_on_clock = |name: &str| {
        name.starts_with("last_") || ["busy_time_us", "rwnd_limited_us", "sndbuf_limited_us"].contains(&name)
    };
    let other_fields =
        |info: &TcpInfo| -> Vec<_> { info.fields().filter(|(name, _)| !depends_on_clock(name)).collect() };
    for _ in 0..100 {
        let before = read();
        watcher.sample().unwrap();
        let after = read();
        if other_fields(&before) != other_fields(&after) {
            continue;
        }
        let addresses =
            SocketAddresses { local: socket.local_addr().unwrap(), peer: socket.peer_addr().unwrap() };
        let sampled = watcher.connections().find(|c| c.sample.addresses == addresses).unwrap().sample.info;
        let fields = before.fields().zip(sampled.fields()).zip(after.fields());
        for (((name, min), (_, value)), (_, max)) in fields {
            let is_inverted = name == "last_data_recv_ms" && min > max;
            assert!(
                is_inverted || (min..=max).contains(&value),
                "{name} after {step}: {min}, {value}, {max}"
            );
        }
        return;
    }
    panic!("the socket never stopped changing after {step}");
}

/// Checks the samples after each kind of operation, and after none: the eBPF program must report every
/// change.
#[test]
fn ebpf_reports_every_change_of_a_connection() {
    let (mut sender, mut receiver) = open_connection();
    let ports = [&sender, &receiver].map(|socket| socket.local_addr().unwrap().port());
    let filter = Filter::parse(&format!("local port {} or local port {}", ports[0], ports[1])).unwrap();
    let mut watcher =
        Watcher::new(vec![NetNamespace::current().unwrap()], filter, TracingMode::IfPossible).unwrap();
    if let Some(why) = watcher.bpf_unavailable_reason() {
        return testing::skip(testing::Missing::Feature, why);
    }
    sender.set_nonblocking(true).unwrap();
    for round in 0..3 {
        let mut test_step = |operation: &str, run: &mut dyn FnMut(&mut TcpStream, &mut TcpStream)| {
            run(&mut sender, &mut receiver);
            for pause_ms in [0, 1, 30] {
                std::thread::sleep(Duration::from_millis(pause_ms));
                let step = format!("{operation} and {pause_ms} ms of round {round}");
                assert_sample_is_current(&mut watcher, &sender, &step);
                assert_sample_is_current(&mut watcher, &receiver, &step);
            }
        };
        test_step("nothing", &mut |_, _| {});
        test_step("sending a byte", &mut |sender, _| sender.write_all(&[0]).unwrap());
        test_step("setting the send buffer", &mut |sender, _| {
            SockRef::from(&*sender).set_send_buffer_size(100_000 + round).unwrap()
        });
        test_step("setting the receive buffer", &mut |_, receiver| {
            SockRef::from(&*receiver).set_recv_buffer_size(60_000 + round).unwrap();
        });
        // Fills the peer's receive window: then rwnd_limited advances although nothing else changes.
        test_step("filling the window", &mut |sender, _| while sender.write(&[0; 65536]).is_ok() {});
        test_step("reading 3000 bytes", &mut |_, receiver| receiver.read_exact(&mut [0; 3000]).unwrap());
        test_step("reading all", &mut |_, receiver| {
            receiver.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
            while receiver.read(&mut [0; 65536]).is_ok() {}
        });
    }
    sender.shutdown(Shutdown::Write).unwrap();
    assert_sample_is_current(&mut watcher, &receiver, "a FIN");
}

/// Opens more connections than one run of the eBPF program samples. Closes half of them and opens others,
/// which get their slots.
#[test]
fn each_of_many_connections_gets_its_own_samples() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let filter = Filter::parse(&format!("port {}", address.port())).unwrap();
    let mut watcher =
        Watcher::new(vec![NetNamespace::current().unwrap()], filter, TracingMode::IfPossible).unwrap();
    if let Some(why) = watcher.bpf_unavailable_reason() {
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
    for round in 0..3 {
        // The watcher searches for new connections at most every 20 ms.
        std::thread::sleep(Duration::from_millis(30));
        for (index, (sender, receiver)) in pairs.iter().enumerate() {
            assert_sample_is_current(&mut watcher, sender, &format!("round {round}, sender {index}"));
            assert_sample_is_current(&mut watcher, receiver, &format!("round {round}, receiver {index}"));
        }
        let (before, closing) = (watcher.connections().count(), pairs.split_off(75));
        let ports: Vec<_> = closing.iter().map(|(sender, _)| sender.local_addr().unwrap().port()).collect();
        drop(closing);
        // eBPF reports closed connections immediately.
        watcher.sample().unwrap();
        for port in ports {
            let closed = watcher.connections().find(|c| c.sample.addresses.local.port() == port).unwrap();
            let state = (closed.sample.state, closed.closed_ns.is_some());
            assert_eq!(state, (SocketState::CLOSED, true), "{closed:?}");
        }
        assert_eq!(watcher.connections().count(), before);
        pairs.extend((1000 * (round + 1)..1000 * (round + 1) + 75).map(open));
    }
}
