//! The load that one point carries: reservations a second, and queries over a year of a large mesh.
//! `cargo bench -p longfat-agent --bench load -- [POINTS]`; 100 points without an argument.
//!
//! Reservations: two agents on loopback. Requests over the control socket of one agent reserve latency tests
//! with the other at random times of the next hours. A reservation counts when the other point has booked it:
//! after four messages over TLS, and after each step is on the disk at both points.
//!
//! Queries: a year of results in the embedded archive (written to a temporary directory: 8 GB for 100
//! points), and the HTTP requests that the page, programs and Prometheus send. The archive's file is in the
//! kernel's page cache, as it was just written. Each request is listed with its elapsed time and with the
//! processor time of agent and client, which does not depend on the machine's other load.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use agent::{
    Authority, Client, Config, JoinRequest, Kind, Moment, NewReservation, NoObserver, StepObserver,
    StopHandle, benching,
};
use reservation::Event;

/// Total number of requests.
const RESERVATIONS: u64 = 20_000;
/// Number of programs that send requests at the same time.
const CLIENTS: u64 = 16;
/// Number of repetitions of each query.
const REPEATS: usize = 10;

fn main() {
    let points = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(100);
    reservations();
    queries(points);
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address")
}

/// Replaces lines of a file that begin with a key.
fn configure(file: &Path, values: &[(&str, &str)]) {
    let text = std::fs::read_to_string(file).expect("a file");
    let line = |line: &str| {
        let value = values.iter().find(|(key, _)| line.starts_with(&format!("{key} = ")));
        value.map_or(line.to_owned(), |(key, value)| format!("{key} = {value}")) + "\n"
    };
    std::fs::write(file, text.lines().map(line).collect::<String>()).expect("it can be written");
}

/// Assumed error of UTC: clocks of one machine agree.
fn configure_point(directory: &Path) {
    configure(&directory.join("agent.toml"), &[("clock_error", "\"1ms\"")]);
    configure(&directory.join("limits.toml"), &[("max_pending", "1000000")]);
}

/// A running agent.
struct Running {
    stop: StopHandle,
    thread: thread::JoinHandle<()>,
}

impl Running {
    fn start(directory: &Path, observer: Arc<dyn StepObserver>) -> Running {
        let config = Config::read(&directory.join("agent.toml")).expect("a configuration");
        let stop = StopHandle::default();
        let (ready, is_ready) = mpsc::channel();
        let handle = stop.clone();
        let thread = thread::spawn(move || {
            let on_ready = |_| ready.send(()).expect("somebody waits");
            agent::run(config, observer, &handle, on_ready).expect("the agent runs");
        });
        is_ready.recv().expect("the agent starts");
        Running { stop, thread }
    }

    fn end(self) {
        self.stop.stop();
        self.thread.join().expect("the agent ends");
    }
}

/// Counts bookings that are on the disk.
#[derive(Default)]
struct Bookings(AtomicU64);

impl StepObserver for Bookings {
    fn at(&self, moment: Moment, events: &[Event]) {
        if moment == Moment::Written {
            let booked = events.iter().filter(|event| matches!(event, Event::Booked { .. })).count();
            self.0.fetch_add(booked as u64, Ordering::Relaxed);
        }
    }
}

/// Two members of a mesh.
fn mesh(root: &Path) -> [PathBuf; 2] {
    let directories = ["a", "b"].map(|name| root.join(name));
    let address = free_address();
    agent::create_mesh(&directories[0], "a", address, &address.to_string()).expect("a mesh");
    configure_point(&directories[0]);
    let founder = Running::start(&directories[0], Arc::new(NoObserver));
    let state = directories[0].join("state");
    let authority = Authority::open(&state).expect("an authority");
    let hour = Duration::from_secs(3600);
    let invitation = authority.invite(&state, "b", &address.to_string(), hour).expect("an invitation");
    let request = JoinRequest { listen: free_address(), address: None };
    agent::join_mesh(&directories[1], &invitation.to_string().parse().expect("a token"), &request)
        .expect("b joins");
    configure_point(&directories[1]);
    founder.end();
    directories
}

fn reservations() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let directories = mesh(root.path());
    let bookings = [Arc::new(Bookings::default()), Arc::new(Bookings::default())];
    let agents: Vec<Running> = directories
        .iter()
        .zip(&bookings)
        .map(|(directory, bookings)| Running::start(directory, Arc::clone(bookings) as _))
        .collect();
    let client = Client::new(&directories[0].join("state"));
    let next = AtomicU64::new(0);
    let begin = Instant::now();
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= RESERVATIONS {
                        return;
                    }
                    // Spread over ten hours, from one hour on.
                    let in_us = 3_600_000_000 + number.wrapping_mul(2_654_435_761) % 36_000_000_000;
                    let wanted = NewReservation {
                        duration_us: Some(5_000_000),
                        in_us,
                        ..NewReservation::new("a", "b", Kind::Latency)
                    };
                    let explained = client.reserve(wanted).expect("the agent replies");
                    assert!(!explained.is_over(), "{}", explained.text);
                }
            });
        }
    });
    let requested = begin.elapsed();
    let booked = || bookings.iter().map(|bookings| bookings.0.load(Ordering::Relaxed)).min().unwrap_or(0);
    while booked() < RESERVATIONS {
        assert!(begin.elapsed() < Duration::from_secs(600), "{} of {RESERVATIONS} are booked", booked());
        thread::sleep(Duration::from_millis(5));
    }
    let took = begin.elapsed();
    let rate = |time: Duration| RESERVATIONS as f64 / time.as_secs_f64();
    println!("reservations: {RESERVATIONS} by {CLIENTS} clients");
    println!("{:<58} {:>8.0} a second", "requested", rate(requested));
    println!("{:<58} {:>8.0} a second (target: 1000)", "booked at both points", rate(took));
    agents.into_iter().for_each(Running::end);
}

/// The processor time of all threads of this process: `utime` and `stime` of proc(5), in ticks of 10 ms.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/self/stat").expect("proc is mounted");
    let fields = text.rsplit_once(')').expect("a name in parentheses").1;
    let ticks =
        fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().expect("a number"));
    Duration::from_millis(10 * ticks.sum::<u64>())
}

fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("a connection");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").expect("a request");
    let mut response = Vec::new();
    stream.read_to_end(&mut response).expect("a response");
    let response = String::from_utf8(response).expect("text");
    assert!(response.starts_with("HTTP/1.1 200"), "{path}: {}", &response[..response.len().min(300)]);
    response
}

fn queries(points: usize) {
    let root = tempfile::tempdir().expect("a temporary directory");
    let (directory, address) = (root.path().join("p00"), free_address());
    let listen = free_address();
    agent::create_mesh(&directory, "p00", listen, &listen.to_string()).expect("a mesh");
    let config = directory.join("agent.toml");
    let text = std::fs::read_to_string(&config).expect("a configuration");
    std::fs::write(
        &config,
        format!("{text}\n[http]\nlisten = \"{address}\"\n[retention]\nrecords_days = 90\n"),
    )
    .expect("it can be written");
    let archive = directory.join("state/archive.sqlite");
    let now_us = i64::try_from(std::time::UNIX_EPOCH.elapsed().expect("a time").as_micros()).expect("a time");
    let begin = Instant::now();
    let size = benching::fill_archive(&archive, points, now_us).expect("an archive");
    let bytes = std::fs::metadata(&archive).expect("a file").len();
    println!(
        "archive of {points} points: {} tests, {} rows of hours, {:.1} GB, made in {:.0} s",
        size.tests,
        size.hours,
        bytes as f64 / 1e9,
        begin.elapsed().as_secs_f64()
    );
    let running = Running::start(&directory, Arc::new(NoObserver));
    let year_us = now_us - 366 * 86_400_000_000;
    let day_us = now_us - 86_400_000_000;
    for (what, path) in [
        ("page: the mesh", "/api/v1/mesh".to_string()),
        ("page: a pair, a year", format!("/api/v1/pair?from=p01&to=p07&since_us={year_us}&limit=10000")),
        ("page: a pair, a day", format!("/api/v1/pair?from=p01&to=p07&since_us={day_us}&limit=10000")),
        ("results of a pair and kind, a year", {
            format!("/api/v1/results?from=p01&to=p07&kind=throughput&since_us={year_us}")
        }),
        ("results from a point", format!("/api/v1/results?from=p03&since_us={year_us}")),
        ("results to a point", format!("/api/v1/results?to=p03&since_us={year_us}")),
        ("results from a point, 10,000", format!("/api/v1/results?from=p03&since_us={year_us}&limit=10000")),
        ("results of a kind", "/api/v1/results?kind=latency".to_string()),
        ("results of a kind from a point", "/api/v1/results?from=p05&kind=latency".to_string()),
        ("results of a kind to a point", "/api/v1/results?to=p05&kind=latency".to_string()),
        ("newest results", "/api/v1/results".to_string()),
        ("Grafana and Prometheus: metrics", "/metrics".to_string()),
        ("state", "/api/v1/status".to_string()),
    ] {
        let mut times: Vec<Duration> = Vec::new();
        let mut bytes = 0;
        let used_before = processor_time();
        for _ in 0..REPEATS {
            let begin = Instant::now();
            bytes = get(address, &path).len();
            times.push(begin.elapsed());
        }
        let used = (processor_time() - used_before) / REPEATS as u32;
        times.sort();
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        println!(
            "{what:<40} {:>7.1} ms, longest {:>7.1} ms (target: 200 ms), processor {:>5.0} ms, {bytes:>9} bytes",
            ms(times[REPEATS / 2]),
            ms(times[REPEATS - 1]),
            ms(used)
        );
    }
    running.end();
    // The next hour becomes old enough to be replaced.
    let begin = Instant::now();
    let later_us = now_us / 3_600_000_000 * 3_600_000_000 + 2 * 3_600_000_000;
    assert!(benching::replace_an_hour(&archive, later_us).expect("an archive"));
    println!(
        "{:<40} {:>7.1} ms",
        "an hour of tests replaced by its sums",
        begin.elapsed().as_secs_f64() * 1e3
    );
}
