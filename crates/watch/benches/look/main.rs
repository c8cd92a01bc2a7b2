//! `make bench`, the watcher's part: what looking costs, as a share of one core. Ratios count; single figures depend on the
//! machine's mood.
//!
//! - 1,000 connections over loopback, looked at 100 times a second, by eBPF and by sock_diag: all idle, 100 of which move, and all
//!   of which move between any two looks
//! - for comparison, waking up so often for nothing

mod cpu;

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use watch::{Filter, Place, Tracing, Watcher};

const CONNECTIONS: usize = 1000;
const HERTZ: f64 = 100.0;
const SECONDS: f64 = 5.0;

fn main() {
    let Some(mut pairs) = connections(CONNECTIONS / 2) else { return };
    println!("A share of one core, over {SECONDS} s:");
    for (name, tracing) in [("eBPF", Tracing::IfPossible), ("sock_diag", Tracing::Never)] {
        let filter = Filter::parse(&format!("pid {}", std::process::id())).expect("it is one");
        let here = Place::here().unwrap_or_else(|e| panic!("{e}"));
        let mut watcher = Watcher::new(vec![here], filter, tracing).unwrap_or_else(|e| panic!("{e}"));
        if let Some(why) = watcher.without_kernel() {
            println!("{name}: skipped: {why}");
            continue;
        }
        for moving in [0, 50, pairs.len()] {
            let (share, rounds) = watch(&mut watcher, &mut pairs[..moving]);
            let found = watcher.connections().count();
            let rate = rounds as f64 / SECONDS;
            println!(
                "{found} connections at {HERTZ} Hz by {name:<9}, of which {:>4} move {rate:>3.0} times a second  {:>6.2} %",
                2 * moving,
                share * 100.0
            );
        }
    }
    println!("waking up {HERTZ} times a second for nothing {:>6.2} %", paced(|| {}) * 100.0);
}

/// Looks while another thread lets these carry data, so many rounds; the share of a core that looking took.
fn watch(watcher: &mut Watcher, moving: &mut [(TcpStream, TcpStream)]) -> (f64, u64) {
    let (is_over, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut look = || watcher.look().unwrap_or_else(|e| panic!("{e}"));
    look();
    let share = std::thread::scope(|scope| {
        if !moving.is_empty() {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    moving.iter_mut().for_each(carry);
                    rounds.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(9).saturating_sub(begun.elapsed()));
                }
            });
        }
        let share = paced(look);
        is_over.store(true, Ordering::Relaxed);
        share
    });
    (share, rounds.into_inner())
}

/// Does it [`HERTZ`] times a second; this thread's processor time over the time.
fn paced(mut work: impl FnMut()) -> f64 {
    let period = Duration::from_secs_f64(1.0 / HERTZ);
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
        let sender = match TcpStream::connect(address) {
            Ok(sender) => sender,
            Err(error) => {
                println!("skipped: connection {} of {count}: {error} (ulimit -n?)", pairs.len());
                return None;
            }
        };
        let (receiver, _) = listener.accept().expect("it was connected");
        let mut pair = (sender, receiver);
        carry(&mut pair);
        pairs.push(pair);
    }
    Some(pairs)
}

fn carry((sender, receiver): &mut (TcpStream, TcpStream)) {
    sender.write_all(&[0; 1000]).expect("it is alive");
    receiver.read_exact(&mut [0; 1000]).expect("it was sent");
}
