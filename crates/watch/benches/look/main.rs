//! `make bench`, the watcher's part: what looking costs, as a share of one core. Ratios count; single figures depend on the
//! machine's mood.
//!
//! - 1,000 connections over loopback, each with data that was just sent, looked at 100 times a second: by eBPF, by sock_diag
//! - four flows of our own, looked at 1,000 times a second by getsockopt

mod cpu;

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::fd::AsFd,
    time::{Duration, Instant},
};

use schema::FlowSample;
use watch::{Filter, Place, Tracing, Watcher};

const CONNECTIONS: usize = 1000;
const OWN_FLOWS: usize = 4;
const SECONDS: f64 = 5.0;

fn main() {
    let Some(pairs) = connections(CONNECTIONS / 2) else { return };
    println!("A share of one core, over {SECONDS} s:");
    for (name, tracing) in [("eBPF", Tracing::IfPossible), ("sock_diag", Tracing::Never)] {
        let filter = Filter::parse(&format!("pid {}", std::process::id())).expect("it is one");
        let here = Place::here().unwrap_or_else(|e| panic!("{e}"));
        let mut watcher = Watcher::new(vec![here], filter, tracing).unwrap_or_else(|e| panic!("{e}"));
        if let Some(why) = watcher.without_kernel() {
            println!("{name}: skipped: {why}");
            continue;
        }
        watcher.look().unwrap_or_else(|e| panic!("{e}"));
        let found = watcher.connections().count();
        let share = paced(100.0, || watcher.look().unwrap_or_else(|e| panic!("{e}")));
        println!("{found} connections at 100 Hz by {name:<10} {:>6.2} %", share * 100.0);
    }
    let own = &pairs[..OWN_FLOWS];
    let share = paced(1000.0, || {
        for (sender, receiver) in own {
            let mut row = FlowSample::default();
            watch::read_sender(sender.as_fd(), &mut row).expect("a live socket");
            watch::read_receiver(receiver.as_fd(), &mut row).expect("a live socket");
        }
    });
    println!("{OWN_FLOWS} own flows, both ends, at 1 kHz       {:>6.2} %", share * 100.0);
    let idle = paced(1000.0, || {});
    println!("of it waking up 1,000 times a second    {:>6.2} %", idle * 100.0);
}

/// Does it so often a second; the processor time over the time.
fn paced(hertz: f64, mut work: impl FnMut()) -> f64 {
    let period = Duration::from_secs_f64(1.0 / hertz);
    let (begun, before) = (Instant::now(), cpu::seconds());
    let mut next = begun;
    while begun.elapsed().as_secs_f64() < SECONDS {
        work();
        next += period;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    (cpu::seconds() - before) / begun.elapsed().as_secs_f64()
}

/// Both ends of connections that have carried a little.
fn connections(count: usize) -> Option<Vec<(TcpStream, TcpStream)>> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let address = listener.local_addr().expect("it is bound");
    let mut pairs = Vec::new();
    for _ in 0..count {
        let mut sender = match TcpStream::connect(address) {
            Ok(sender) => sender,
            Err(error) => {
                println!("skipped: connection {} of {count}: {error} (ulimit -n?)", pairs.len());
                return None;
            }
        };
        let (mut receiver, _) = listener.accept().expect("it was connected");
        sender.write_all(&[0; 1000]).expect("it is alive");
        receiver.read_exact(&mut [0; 1000]).expect("it was sent");
        pairs.push((sender, receiver));
    }
    Some(pairs)
}
