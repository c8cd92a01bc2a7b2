//! Changes settings of live connections, and restores them. The resulting values are then read by
//! getsockopt(2) and TCP_INFO.

use std::{
    collections::BTreeSet,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::fd::AsFd,
    path::Path,
};

use socket2::SockRef;
use watch::{
    Error, Filter, NetNamespace, SocketCookie, TracingMode, Watcher,
    modify::{ModificationJournal, ModifiedConnection, Modifier, Setting, is_modifiable},
};

const SO_BUF_LOCK: i32 = 72;

fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (receiver, _) = listener.accept().unwrap();
    (sender, receiver)
}

/// Applies settings to the connection of this sender, with a journal in `directory`.
fn modify(sender: &TcpStream, settings: &[&str], directory: &Path) -> ModifiedConnection {
    let (local, peer) = (sender.local_addr().unwrap().port(), sender.peer_addr().unwrap().port());
    let filter = Filter::parse(&format!("local port {local} and peer port {peer}")).unwrap();
    let mut watcher =
        Watcher::new(vec![NetNamespace::current().unwrap()], filter, TracingMode::Never).unwrap();
    watcher.sample().unwrap();
    let found: Vec<_> = watcher.connections().filter(|connection| is_modifiable(connection)).collect();
    let [found] = found.as_slice() else { panic!("{found:?}") };
    let settings: Vec<Setting> = settings.iter().map(|text| text.parse().unwrap()).collect();
    Modifier::new(ModificationJournal::open(directory).unwrap()).modify(found, &settings)
}

fn restore(directory: &Path, selected: Option<&BTreeSet<SocketCookie>>) -> Vec<ModifiedConnection> {
    Modifier::new(ModificationJournal::open(directory).unwrap()).restore(selected).unwrap()
}

/// Congestion control, maximum pacing rate (bytes/s), both buffers (bytes) and their locks.
fn settings_of(socket: &TcpStream) -> (Vec<u8>, u64, usize, usize, i32) {
    let (mut pacing, mut locks) = (0u64, 0i32);
    os::read_option(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &mut pacing).unwrap();
    os::read_option(socket, libc::SOL_SOCKET, SO_BUF_LOCK, &mut locks).unwrap();
    let socket = SockRef::from(socket);
    let cc = socket.tcp_congestion().unwrap().into_iter().take_while(|byte| *byte != 0).collect();
    (cc, pacing, socket.send_buffer_size().unwrap(), socket.recv_buffer_size().unwrap(), locks)
}

#[test]
fn settings_are_changed_and_restored() {
    let directory = tempfile::tempdir().unwrap();
    let (sender, _receiver) = connection();
    let original = settings_of(&sender);
    assert_eq!((original.1, original.4), (u64::MAX, 0), "no pacing limit, no fixed buffer");

    let settings = ["cc=reno", "pacing=80mbit", "sndbuf=50kB", "rcvbuf=60kB"];
    let result = modify(&sender, &settings, directory.path());
    assert!(result.error.is_none(), "{result:?}");
    assert_eq!(result.process.unwrap().pid, std::process::id());
    assert_eq!(settings_of(&sender), (b"reno".to_vec(), 10_000_000, 100_000, 120_000, 3));
    let shown: Vec<String> = result.changes.iter().map(|change| change.after.to_string()).collect();
    assert_eq!(shown, ["reno", "80 Mb/s", "100 kB (fixed)", "120 kB (fixed)"]);

    // A second change does not replace the original value.
    assert!(modify(&sender, &["pacing=8mbit"], directory.path()).error.is_none());
    assert_eq!(settings_of(&sender).1, 1_000_000);
    let none = BTreeSet::from([SocketCookie(0)]);
    assert!(restore(directory.path(), Some(&none)).is_empty(), "another connection was selected");
    let restored = restore(directory.path(), None);
    assert_eq!((restored.len(), restored[0].error.is_none()), (1, true), "{restored:?}");
    assert_eq!(settings_of(&sender), original);
    assert!(restore(directory.path(), None).is_empty());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "an empty journal has no file");
}

#[test]
fn a_refused_setting_is_an_error_and_later_ones_are_skipped() {
    let directory = tempfile::tempdir().unwrap();
    let (sender, _receiver) = connection();
    let result = modify(&sender, &["pacing=80mbit", "cc=warpdrive", "sndbuf=50kB"], directory.path());
    let error = result.error.unwrap().to_string();
    assert!(error.starts_with("cannot set cc of 127.0.0.1:") && error.contains("warpdrive"), "{error}");
    assert_eq!(result.changes.len(), 1);
    assert_eq!(settings_of(&sender).4, 0, "the send buffer was not changed");
    assert_eq!(restore(directory.path(), None).len(), 1);
    assert_eq!(settings_of(&sender).1, u64::MAX);
}

#[test]
fn a_closed_connection_is_forgotten() {
    let directory = tempfile::tempdir().unwrap();
    let (sender, receiver) = connection();
    assert!(modify(&sender, &["pacing=80mbit"], directory.path()).error.is_none());
    drop((sender, receiver));
    assert!(restore(directory.path(), None).is_empty());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_damaged_journal_is_named_and_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("modified-connections.json");
    std::fs::write(&path, "[{").unwrap();
    let error = ModificationJournal::open(directory.path()).unwrap_err().to_string();
    assert!(error.contains("modified-connections.json"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "[{");
}

#[test]
fn the_window_stays_below_its_clamp() {
    let directory = tempfile::tempdir().unwrap();
    let (mut sender, receiver) = connection();
    let result = modify(&sender, &["cwnd_clamp=4"], directory.path());
    if let Some(Error::Missing(why)) = &result.error {
        return testing::skip(testing::Missing::Feature, why.clone());
    }
    assert!(result.error.is_none(), "{result:?}");
    assert_eq!(result.changes[0].before, Setting::CwndClamp(None));
    assert_eq!(result.changes[0].after, Setting::CwndClamp(Some(4)));
    let drain = std::thread::spawn(move || {
        let received = std::io::copy(&mut (&receiver).take(20_000_000), &mut std::io::sink());
        (received.unwrap(), receiver)
    });
    sender.write_all(&vec![0; 20_000_000]).unwrap();
    let (received, _receiver) = drain.join().unwrap();
    assert_eq!(received, 20_000_000);
    let cwnd = watch::read_tcp_info(sender.as_fd()).unwrap().snd_cwnd().unwrap();
    assert!(cwnd <= 4, "{cwnd}");
    let restored = restore(directory.path(), None);
    assert_eq!(restored[0].changes[0].after, Setting::CwndClamp(None), "{restored:?}");
}
