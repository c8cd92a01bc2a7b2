//! The watcher's part of `make bench`: the cost of sampling, as a share of one core. Compare ratios,
//! because absolute figures vary with the machine's load.
//!
//! - 1,000 connections over loopback, sampled 100 times per second, by eBPF and by sock_diag: all idle, 100
//!   of them active, and all active between any two samples
//! - for comparison, waking up 100 times per second without work

mod cpu;

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use watch::{Filter, NetNamespace, TracingMode, Watcher};

const CONNECTIONS: usize = 1000;
const RATE_HZ: f64 = 100.0;
const DURATION_S: f64 = 5.0;

fn main() {
    let Some(mut pairs) = connections(CONNECTIONS / 2) else { return };
    println!("A share of one core, over {DURATION_S} s:");
    for (name, mode) in [("eBPF", TracingMode::IfPossible), ("sock_diag", TracingMode::Never)] {
        let filter = Filter::parse(&format!("pid {}", std::process::id())).expect("the filter is valid");
        let namespace = NetNamespace::current().unwrap_or_else(|e| panic!("{e}"));
        let mut watcher = Watcher::new(vec![namespace], filter, mode).unwrap_or_else(|e| panic!("{e}"));
        if let Some(why) = watcher.bpf_unavailable_reason() {
            println!("{name}: skipped: {why}");
            continue;
        }
        for active in [0, 50, pairs.len()] {
            let (share, rounds) = sample_while_active(&mut watcher, &mut pairs[..active]);
            let found = watcher.connections().count();
            let rate = rounds as f64 / DURATION_S;
            println!(
                "{found} connections at {RATE_HZ} Hz by {name:<9}, of which {:>4} are active {rate:>3.0} \
                times a second  {:>6.2} %",
                2 * active,
                share * 100.0
            );
        }
    }
    println!("waking up {RATE_HZ} times a second without work {:>6.2} %", paced(|| {}) * 100.0);
}

/// Samples while another thread transfers data on the `active` connections. Returns the share of a core that
/// sampling took, and the number of rounds of transfers.
fn sample_while_active(watcher: &mut Watcher, active: &mut [(TcpStream, TcpStream)]) -> (f64, u64) {
    let (is_over, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut sample = || watcher.sample().unwrap_or_else(|e| panic!("{e}"));
    sample();
    let share = std::thread::scope(|scope| {
        if !active.is_empty() {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    active.iter_mut().for_each(transfer);
                    rounds.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(9).saturating_sub(begun.elapsed()));
                }
            });
        }
        let share = paced(sample);
        is_over.store(true, Ordering::Relaxed);
        share
    });
    (share, rounds.into_inner())
}

/// Runs `work` [`RATE_HZ`] times per second; returns this thread's processor time divided by the elapsed
/// time.
fn paced(mut work: impl FnMut()) -> f64 {
    let period = Duration::from_secs_f64(1.0 / RATE_HZ);
    let (start, before) = (Instant::now(), cpu::thread_seconds());
    let mut next = start;
    while start.elapsed().as_secs_f64() < DURATION_S {
        work();
        next += period;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    (cpu::thread_seconds() - before) / start.elapsed().as_secs_f64()
}

/// Both ends of `count` connections that have transferred some data; `None` if the limit of open files is too
/// low.
fn connections(count: usize) -> Option<Vec<(TcpStream, TcpStream)>> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback exists");
    let address = listener.local_addr().expect("the listener is bound");
    let mut pairs = Vec::new();
    for _ in 0..count {
        let sender = match TcpStream::connect(address) {
            Ok(sender) => sender,
            Err(error) => {
                println!("skipped: connection {} of {count}: {error} (ulimit -n?)", pairs.len());
                return None;
            }
        };
        let (receiver, _) = listener.accept().expect("a connection is pending");
        let mut pair = (sender, receiver);
        transfer(&mut pair);
        pairs.push(pair);
    }
    Some(pairs)
}

fn transfer((sender, receiver): &mut (TcpStream, TcpStream)) {
    sender.write_all(&[0; 1000]).expect("the connection is open");
    receiver.read_exact(&mut [0; 1000]).expect("the data was sent");
}
