//! Servers that vanish at each phase of a run: their packets no longer arrive, and no error reports it. A
//! relay between the run and a server forwards a number of bytes, then forwards no more and keeps its
//! connections open.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use hosts::{Address, Error, HostLocation, HostLocations, HostService, Measured, RunOptions, run};
use iperf3::{Server, ServerOptions};
use testing::iperf3_server::QuietServer;

use crate::common::{Silent, scenario};

/// Longer than all timeouts of a run together, also on a busy machine, and shorter than the flows.
const DEADLINE: Duration = Duration::from_secs(150);

/// When a relay becomes silent.
#[derive(Debug, Clone, Copy)]
enum Vanishes {
    /// The connection with this number has received this many bytes from the server.
    AfterReplies { connection: u64, bytes: u64 },
    /// This time after the third connection, which carries the data.
    DuringData(Duration),
}

/// Forwards connections to `to` until it becomes silent; returns its port.
fn relay(to: SocketAddr, vanishes: Vanishes, ended: &Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (ended, is_silent) = (ended.clone(), Arc::new(AtomicBool::new(false)));
    std::thread::spawn(move || {
        let count = AtomicU64::new(0);
        for client in listener.incoming() {
            let (client, server) = (client.unwrap(), TcpStream::connect(to).unwrap());
            let number = count.fetch_add(1, Ordering::Relaxed);
            if let (Vanishes::DuringData(after), 2) = (vanishes, number) {
                let is_silent = is_silent.clone();
                std::thread::spawn(move || {
                    std::thread::sleep(after);
                    is_silent.store(true, Ordering::Release);
                });
            }
            let limit = match vanishes {
                Vanishes::AfterReplies { connection, bytes } if connection == number => bytes,
                _ => u64::MAX,
            };
            for (from, to, limit) in [
                (client.try_clone().unwrap(), server.try_clone().unwrap(), u64::MAX),
                (server, client, limit),
            ] {
                let (is_silent, ended) = (is_silent.clone(), ended.clone());
                std::thread::spawn(move || forward(from, to, limit, &is_silent, &ended));
            }
        }
    });
    port
}

fn forward(mut from: TcpStream, mut to: TcpStream, limit: u64, is_silent: &AtomicBool, ended: &AtomicBool) {
    from.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let (mut buffer, mut forwarded) = ([0; 16_384], 0);
    while !ended.load(Ordering::Acquire) {
        if forwarded >= limit {
            is_silent.store(true, Ordering::Release);
        }
        if is_silent.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        }
        let max_bytes = usize::try_from(limit - forwarded).unwrap_or(usize::MAX).min(buffer.len());
        match from.read(&mut buffer[..max_bytes]) {
            Ok(0) => break,
            Ok(count) if to.write_all(&buffer[..count]).is_ok() => forwarded += count as u64,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            _ => break,
        }
        // A path of some 100 Mb/s.
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs a flow to (or from) a server that vanishes; returns the result and how long it took.
fn vanish(from: &str, vanishes: Vanishes) -> (Result<Measured, Error>, Duration) {
    static RUNS: AtomicBool = AtomicBool::new(false);
    let options = ServerOptions { bind: Some([127, 0, 0, 1].into()), port: 0, ..ServerOptions::default() };
    let server = Server::bind(options).unwrap().with_service(Box::new(HostService::default()));
    let stop = Arc::new(AtomicBool::new(false));
    let port = relay(server.address(), vanishes, &stop);
    std::thread::scope(|scope| {
        let stop_server = stop.clone();
        scope.spawn(move || server.run(&stop_server, &QuietServer::default()));
        let at = HostLocation::At(Address { host: "127.0.0.1".into(), port });
        let locations = HostLocations::new([("h2".into(), at)]);
        let options = RunOptions {
            locations: &locations,
            token: None,
            allows_tune: false,
            reconnect: None,
            stop: &RUNS,
        };
        let begin = Instant::now();
        let to = if from == "h1" { "h2" } else { "h1" };
        let ran = run(&scenario(from, to), &options, &mut Silent);
        let elapsed = begin.elapsed();
        stop.store(true, Ordering::Release);
        (ran, elapsed)
    })
}

#[test]
fn a_run_ends_when_a_server_vanishes_at_any_phase() {
    let replies = |connection, bytes| Vanishes::AfterReplies { connection, bytes };
    // Connection 0 is the session: its position in the server's queue, the host description, the clock, and
    // messages while the flow runs. Connection 1 is the flow's control connection, connection 2 carries its
    // data.
    let phases = [
        ("h1", replies(0, 0)),
        ("h1", replies(0, 1)),
        ("h1", replies(0, 60)),
        ("h1", replies(0, 700)),
        ("h1", replies(1, 0)),
        ("h1", replies(1, 1)),
        ("h1", replies(1, 2)),
        ("h2", replies(1, 2)),
        ("h1", Vanishes::DuringData(Duration::from_secs(2))),
        ("h2", Vanishes::DuringData(Duration::from_secs(2))),
    ];
    std::thread::scope(|scope| {
        let runs =
            phases.map(|(from, vanishes)| scope.spawn(move || (from, vanishes, vanish(from, vanishes))));
        for run in runs {
            let (from, vanishes, (ran, elapsed)) = run.join().unwrap();
            assert!(elapsed < DEADLINE, "{vanishes:?}, data from {from}: {elapsed:?}");
            match (vanishes, ran) {
                (Vanishes::DuringData(_), Ok(measured)) => {
                    assert!(measured.failed.is_some(), "{vanishes:?}: {:?}", measured.notes);
                    assert!(
                        measured.rows.len() > 3,
                        "{vanishes:?}, data from {from}: {} rows",
                        measured.rows.len()
                    );
                    assert!(measured.flow_totals[0].bytes > 10_000, "{:?}", measured.flow_totals);
                }
                (Vanishes::DuringData(_), Err(error)) => panic!("{vanishes:?}, data from {from}: {error}"),
                (_, ran) => assert!(ran.is_err(), "{vanishes:?}"),
            }
        }
    });
}
