//! `longfat serve` under abuse: clients that are silent, send garbage or stop in the middle delay others only
//! briefly, and the server releases all their resources.

use crate::common;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use common::{
    TestDir, binary, eventually,
    iperf3::{Running, document, free_port, has_iperf3, wait_for_listener},
};
use iperf3::{
    ClientOptions, Observer,
    report::{Amount, TestSpec},
    wire,
};
use units::Bytes;

pub struct IgnoreProgress;

impl Observer for IgnoreProgress {}

// States of the control connection (iperf_api.h).
pub const TEST_START: u8 = 1;
pub const TEST_RUNNING: u8 = 2;
pub const TEST_END: u8 = 4;
const PARAM_EXCHANGE: u8 = 9;
pub const CREATE_STREAMS: u8 = 10;
pub const EXCHANGE_RESULTS: u8 = 13;
const ACCESS_DENIED: u8 = 0xff;

/// A running server and its port.
pub struct Server {
    pub process: Running,
    pub port: u16,
}

pub fn start_server(args: &[&str]) -> Server {
    let port = free_port();
    let process = Running::start(Command::new(binary()).args(["serve", "-p", &port.to_string()]).args(args));
    wait_for_listener(port);
    Server { process, port }
}

impl Server {
    /// Numbers of threads and of open files.
    fn resources(&self) -> (usize, usize) {
        let count =
            |what: &str| std::fs::read_dir(format!("/proc/{}/{what}", self.process.id())).unwrap().count();
        (count("task"), count("fd"))
    }

    pub fn connect(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).unwrap()
    }

    /// Runs a complete test of `bytes` bytes; returns the number received, or the error.
    pub fn test(&self, bytes: u64) -> Result<u64, String> {
        self.test_from(None, bytes)
    }

    /// Like [`Self::test`], from the local address `bind`.
    fn test_from(&self, bind: Option<std::net::IpAddr>, bytes: u64) -> Result<u64, String> {
        let spec =
            TestSpec { amount: Amount::Bytes(Bytes(bytes)), ..wire::Params::default().spec().unwrap() };
        let options = ClientOptions { port: self.port, bind, ..ClientOptions::new("127.0.0.1", spec) };
        let outcome = iperf3::test(&options, &AtomicBool::new(false), &mut IgnoreProgress);
        match (outcome.report.end, outcome.error) {
            (Some(end), None) => Ok(end.streams.iter().map(|stream| stream.received.bytes).sum()),
            (_, error) => Err(format!("{error:?}")),
        }
    }
}

/// The cookie of client `n`.
pub fn cookie(n: usize) -> Vec<u8> {
    format!("{n:0>36}\0").into_bytes()
}

/// A JSON document, preceded by its length.
pub fn message(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()
}

/// Performs the first steps of a test, up to one that depends on `n`, and stops. Returns the open
/// connections.
fn stop_in_the_middle(server: &Server, n: usize) -> Vec<TcpStream> {
    let mut control = server.connect();
    control.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    control.write_all(&cookie(n)).unwrap();
    let mut connections = Vec::new();
    // The read fails if this client never gets its turn.
    let mut state = [0];
    if n.is_multiple_of(5) || control.read_exact(&mut state).is_err() {
        connections.push(control);
        return connections;
    }
    let params = r#"{"tcp":true,"omit":0,"time":5,"num":0,"blockcount":0,"parallel":2,"len":131072}"#;
    match n % 5 {
        1 => drop(control.write_all(&message(params)[..20])),
        2 => drop(control.write_all(&message(params))),
        3 => {
            let _ = control.write_all(&message(params));
            let _ = control.read_exact(&mut state);
            for _ in 0..2 {
                let mut stream = server.connect();
                let _ = stream.write_all(&cookie(n));
                connections.push(stream);
            }
        }
        _ => drop(control.write_all(&message("{\"parallel\":1e9,\"time\":-1}"))),
    }
    connections.push(control);
    connections
}

#[test]
fn only_clients_with_the_token_are_served() {
    let test_dir = TestDir::new("");
    std::fs::write(test_dir.path("token"), "0123456789abcdef\n").unwrap();
    std::fs::write(test_dir.path("other"), "0123456789abcdeX\n").unwrap();
    std::fs::write(test_dir.path("short"), "secret\n").unwrap();
    let start_server_in_place = |options: &[&str]| {
        let port = free_port();
        let port_text = port.to_string();
        let args = [&["serve", "-i", "0", "-p", &port_text][..], options].concat();
        let server = Running::start(&mut test_dir.longfat(&args));
        wait_for_listener(port);
        (server, port_text)
    };
    let test = |port: &str, options: &[&str]| {
        let args = ["test", "127.0.0.1", "-p", port, "-n", "1M", "--no-record"];
        test_dir.run(&[&args[..], options].concat())
    };
    let (_server_with_token, port) = start_server_in_place(&["--token", "token"]);
    let ran = test(&port, &["--token", "token", "--get-server-output"]);
    assert!(ran.code == 0 && ran.stdout.contains("Server output"), "{ran:?}");
    for wrong in [&["--token", "other"][..], &[]] {
        let ran = test(&port, wrong);
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(ran.stderr.contains("token"), "{ran:?}");
    }
    let (_open_server, port) = start_server_in_place(&[]);
    let ran = test(&port, &["--token", "token"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert_eq!(test(&port, &[]).code, 0);
    let ran = test(&port, &["--token", "short"]);
    assert!(ran.code == 2 && ran.stderr.contains("at least 16"), "{ran:?}");
}

#[test]
fn all_110_regular_clients_are_served_beside_90_hostile_ones() {
    let server =
        start_server(&["--phase-timeout", "1", "--rcv-timeout", "1200", "--queue-timeout", "120", "-i", "0"]);
    let before = server.resources();
    assert_eq!(server.test(100_000), Ok(100_000));
    let finished = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let silent: Vec<TcpStream> = (0..50).map(|_| server.connect()).collect();
        let garbage: Vec<TcpStream> = (0..20u8)
            .map(|n| {
                let mut stream = server.connect();
                let noise: Vec<u8> =
                    (0..5000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8 ^ n).collect();
                let _ = stream.write_all(&noise);
                stream
            })
            .collect();
        for n in 0..20 {
            let (server, finished) = (&server, &finished);
            scope.spawn(move || {
                let connections = stop_in_the_middle(server, n);
                while !finished.load(Ordering::Acquire) {
                    std::thread::sleep(Duration::from_millis(20));
                }
                drop(connections);
            });
        }
        let regular: Vec<_> = (0..110).map(|_| scope.spawn(|| server.test(200_000))).collect();
        let results: Vec<_> = regular.into_iter().map(|thread| thread.join().unwrap()).collect();
        finished.store(true, Ordering::Release);
        let failed: Vec<_> = results.iter().filter(|result| **result != Ok(200_000)).collect();
        assert!(failed.is_empty(), "{} of 110 were not served: {:?}", failed.len(), failed[0]);
        drop((silent, garbage));
    });
    assert!(
        eventually(|| server.resources() == before),
        "threads and files before {before:?}, afterwards {:?}",
        server.resources()
    );
    let memory = std::fs::read_to_string(format!("/proc/{}/status", server.process.id())).unwrap();
    let peak = memory.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak_kib: u64 = peak.trim().trim_end_matches(" kB").trim().parse().unwrap();
    assert!(peak_kib < 200 << 10, "peak memory {peak_kib} KiB");
    assert_eq!(server.test(100_000), Ok(100_000));
    server.process.interrupt();
    assert!(server.process.output().status.success());
}

/// Connects as client `n` and sends the parameters of a test.
pub fn send_parameters(server: &Server, n: usize, params: &str) -> TcpStream {
    let mut control = server.connect();
    control.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    control.write_all(&cookie(n)).unwrap();
    assert_eq!(next_state(&mut control), PARAM_EXCHANGE);
    control.write_all(&message(params)).unwrap();
    control
}

/// Starts a test of one stream, until data may be sent. Returns the control connection and the stream.
pub fn begin_test(server: &Server, n: usize, params: &str) -> (TcpStream, TcpStream) {
    let mut control = send_parameters(server, n, params);
    assert_eq!(next_state(&mut control), CREATE_STREAMS);
    let mut stream = server.connect();
    stream.write_all(&cookie(n)).unwrap();
    assert_eq!([next_state(&mut control), next_state(&mut control)], [TEST_START, TEST_RUNNING]);
    (control, stream)
}

pub fn next_state(control: &mut TcpStream) -> u8 {
    let mut state = [0];
    control.read_exact(&mut state).unwrap();
    state[0]
}

/// A test of 20 seconds over one stream.
pub const LONG: &str = r#"{"tcp":true,"omit":0,"time":20,"num":0,"blockcount":0,"parallel":1,"len":131072}"#;

#[test]
fn a_second_control_connection_with_the_same_cookie_is_refused() {
    let server = start_server(&["--phase-timeout", "20"]);
    let (first, _stream) = begin_test(&server, 1, LONG);
    let mut second = send_parameters(&server, 2, LONG);
    second.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(second.read_exact(&mut [0]).is_err(), "the first test still runs");
    // The cookies of a queued client (2) and of a client that has just connected (3).
    for n in [2, 3] {
        let mut other = server.connect();
        other.write_all(&cookie(n)).unwrap();
        if n == 3 {
            assert_eq!(next_state(&mut other), PARAM_EXCHANGE);
        }
        let mut again = server.connect();
        again.write_all(&cookie(n)).unwrap();
        assert_eq!(next_state(&mut again), ACCESS_DENIED);
    }
    drop(first);
    second.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    assert_eq!(next_state(&mut second), CREATE_STREAMS, "the first test has ended");
}

#[test]
fn a_client_that_waited_too_long_is_refused() {
    let server = start_server(&["--queue-timeout", "0.3", "--phase-timeout", "20"]);
    let _running = begin_test(&server, 1, LONG);
    let begin = Instant::now();
    let mut second = send_parameters(&server, 2, LONG);
    assert_eq!(next_state(&mut second), ACCESS_DENIED);
    assert!(begin.elapsed() >= Duration::from_millis(300));
}

/// Options of a server that drops a stalled client only after the clients that wait for it have timed out.
const LONG_PHASE_TIMEOUT: [&str; 4] = ["--phase-timeout", "60", "--queue-timeout", "20"];

#[test]
fn clients_without_parameters_do_not_occupy_the_server() {
    for count in [8, 258] {
        let server = start_server(&[&LONG_PHASE_TIMEOUT[..], &["-i", "0"]].concat());
        let silent: Vec<TcpStream> = (0..count)
            .map(|n| {
                let mut control = server.connect();
                control.write_all(&cookie(n)).unwrap();
                control
            })
            .collect();
        assert_eq!(server.test(100_000), Ok(100_000), "with {count} silent clients");
        if has_iperf3() {
            let port = server.port.to_string();
            let mut iperf3 = Command::new("iperf3");
            let output = Running::start(iperf3.args(["-c", "127.0.0.1", "-n", "1M", "-p", &port])).output();
            assert!(output.status.success(), "with {count} silent clients: {output:?}");
        }
        drop(silent);
    }
}

#[test]
fn clients_without_streams_do_not_occupy_the_server() {
    let server = start_server(&[&LONG_PHASE_TIMEOUT[..], &["-i", "0"]].concat());
    let tcp: Vec<TcpStream> = (0..8).map(|n| send_parameters(&server, n, LONG)).collect();
    let udp: Vec<TcpStream> = (8..10)
        .map(|n| send_parameters(&server, n, &LONG.replace("tcp", "udp").replace("131072", "1000")))
        .collect();
    assert_eq!(server.test(100_000), Ok(100_000));
    drop((tcp, udp));
}

#[test]
fn slow_clients_do_not_delay_others_and_are_dropped() {
    let server = start_server(&["--phase-timeout", "1.5", "-i", "0"]);
    let greeting = [&cookie(1)[..], &message(LONG)[..20]].concat();
    std::thread::scope(|scope| {
        let slow: Vec<_> = [0, 30, 41]
            .map(|sent_at_once| {
                let (server, greeting) = (&server, &greeting);
                scope.spawn(move || {
                    let mut control = server.connect();
                    control.write_all(&greeting[..sent_at_once]).unwrap();
                    // The whole message would take longer than the phase timeout: the server must drop
                    // the client before that.
                    let dropped = greeting[sent_at_once..].iter().cycle().take(600).any(|byte| {
                        std::thread::sleep(Duration::from_millis(50));
                        control.write_all(&[*byte]).is_err()
                    });
                    assert!(dropped, "a client with {sent_at_once} bytes at once was never dropped");
                })
            })
            .into_iter()
            .collect();
        for _ in 0..5 {
            assert_eq!(server.test(100_000), Ok(100_000));
        }
        slow.into_iter().for_each(|thread| thread.join().unwrap());
    });
    assert_eq!(server.test(100_000), Ok(100_000));
}

#[test]
fn excess_streams_are_closed() {
    let server = start_server(&["-i", "0"]);
    let mut control = send_parameters(&server, 1, LONG);
    assert_eq!(next_state(&mut control), CREATE_STREAMS);
    let mut streams: Vec<TcpStream> = (0..300)
        .map(|_| {
            let mut stream = server.connect();
            stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            stream.write_all(&cookie(1)).unwrap();
            stream
        })
        .collect();
    assert_eq!([next_state(&mut control), next_state(&mut control)], [TEST_START, TEST_RUNNING]);
    // All streams but the first are refused (one byte), closed or reset; none stays open.
    for stream in &mut streams[1..] {
        let read = stream.read(&mut [0]);
        assert!(!matches!(&read, Err(e) if e.kind() == std::io::ErrorKind::WouldBlock), "{read:?}");
    }
    drop((control, streams));
    assert_eq!(server.test(100_000), Ok(100_000));
}

#[test]
fn clients_that_do_not_finish_the_exchange_of_results_do_not_delay_others() {
    let server = start_server(&[&LONG_PHASE_TIMEOUT[..], &["-i", "0"]].concat());
    let amount = LONG.replace(r#""num":0"#, r#""num":1000"#);
    let connections: Vec<_> = (0..6)
        .map(|n| {
            let (mut control, mut stream) = begin_test(&server, n, &amount);
            stream.write_all(&[7; 1000]).unwrap();
            control.write_all(&[TEST_END]).unwrap();
            assert_eq!(next_state(&mut control), EXCHANGE_RESULTS);
            // Half of the clients send their results, but do not read the server's.
            if n % 2 == 0 {
                let results = r#"{"cpu_util_total":0,"cpu_util_user":0,"cpu_util_system":0,"sender_has_retransmits":0,
                    "streams":[{"id":1,"bytes":1000,"retransmits":0,"jitter":0,"errors":0,"packets":0}]}"#;
                control.write_all(&message(results)).unwrap();
            }
            (control, stream)
        })
        .collect();
    assert_eq!(server.test(100_000), Ok(100_000));
    drop(connections);
}

#[test]
fn a_full_queue_is_shared_between_addresses() {
    let server = start_server(&["--phase-timeout", "60", "--queue", "4", "--queue-timeout", "60", "-i", "0"]);
    let running = begin_test(&server, 0, LONG);
    let mut greedy: Vec<TcpStream> = (1..=4).map(|n| send_parameters(&server, n, LONG)).collect();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| server.test_from(Some([127, 0, 0, 2].into()), 100_000));
        let last = greedy.last_mut().unwrap();
        assert_eq!(
            next_state(last),
            ACCESS_DENIED,
            "the last client of the address that fills the queue is refused"
        );
        let mut fifth = send_parameters(&server, 5, LONG);
        assert_eq!(
            next_state(&mut fifth),
            ACCESS_DENIED,
            "its address already has the most clients in the queue"
        );
        drop(running);
        assert_eq!(other.join().unwrap(), Ok(100_000));
    });
}

#[test]
fn a_hundred_concurrent_iperf3_clients_are_served() {
    if !has_iperf3() {
        return;
    }
    let server = start_server(&["-i", "0", "--queue-timeout", "300"]);
    let port = server.port.to_string();
    let all: Vec<Running> = (0..100)
        .map(|_| Running::start(Command::new("iperf3").args(["-c", "127.0.0.1", "-n", "1M", "-p", &port])))
        .collect();
    for client in all {
        let output = client.output();
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn a_waiting_client_is_sent_its_expected_waiting_time() {
    let server = start_server(&["--phase-timeout", "20"]);
    let (control, stream) = begin_test(&server, 1, LONG);
    let waiting = send_parameters(&server, 2, LONG);
    let test_dir = TestDir::new("");
    let port = server.port.to_string();
    let mut client = test_dir.longfat(&["test", "127.0.0.1", "-p", &port, "-n", "1M", "--no-record"]);
    let mut client = client.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(client.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("2 tests ahead, about"), "{line}");
    drop((control, stream, waiting));
    assert!(client.wait().unwrap().success());
}

#[test]
fn unread_output_blocks_neither_tests_nor_shutdown() {
    // Nothing reads the server's pipes, and the documents of all tests exceed their capacity.
    let mut server = start_server(&["-J", "--clients", "8"]);
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..120).map(|_| scope.spawn(|| server.test(10_000))).collect();
        for thread in all {
            assert_eq!(thread.join().unwrap(), Ok(10_000));
        }
    });
    assert_eq!(server.test(100_000), Ok(100_000));
    assert!(server.process.ends_when_terminated(Duration::from_secs(20)));
    let output = server.process.output();
    assert!(output.stdout.len() < 120 * 1000, "the pipe held all output: {} bytes", output.stdout.len());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("lines of output were dropped"), "{stderr}");
}

#[test]
fn an_unread_log_blocks_neither_tests_nor_shutdown() {
    let test_dir = TestDir::new("");
    let fifo = test_dir.path("log");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let mut server = start_server(&["-J", "--clients", "8", "--logfile", fifo.to_str().unwrap()]);
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..120).map(|_| scope.spawn(|| server.test(10_000))).collect();
        for thread in all {
            assert_eq!(thread.join().unwrap(), Ok(10_000));
        }
    });
    assert!(server.process.ends_when_terminated(Duration::from_secs(20)));
    // A full disk must not stop the server either.
    let mut server = start_server(&["--logfile", "/dev/full"]);
    assert_eq!(server.test(100_000), Ok(100_000));
    assert!(server.process.ends_when_terminated(Duration::from_secs(20)));
}

#[test]
fn a_client_with_unread_output_ends_its_test() {
    // If the client does not end its test, the server does so only after the queue timeout of the next
    // client.
    let server = start_server(&["--phase-timeout", "30", "--queue-timeout", "15"]);
    let (test_dir, port) = (TestDir::new(""), server.port.to_string());
    let args = ["test", "127.0.0.1", "-p", &port, "--no-record", "--json-stream", "-i", "0.001", "-t", "1"];
    let mut stalled = Running::start(&mut test_dir.longfat(&args));
    assert!(eventually(|| server.resources().0 > 4), "the stalled client's test runs");
    assert_eq!(server.test(100_000), Ok(100_000));
    assert!(stalled.ends_when_terminated(Duration::from_secs(20)));
}

#[test]
fn a_udp_sender_ends_after_rcv_timeout_if_the_server_is_stopped() {
    let (server, test_dir) = (start_server(&["-i", "0"]), TestDir::new(""));
    let (port, idle) = (server.port.to_string(), server.resources().0);
    let args = ["test", "127.0.0.1", "-p", &port, "--no-record", "-u", "-t", "3", "--rcv-timeout", "1500"];
    let id = server.process.id().to_string();
    let signal = |name: &str| assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    let start_and_stop_server = || {
        let mut client = Running::start(&mut test_dir.longfat(&args));
        assert!(eventually(|| server.resources().0 > idle + 1), "the client's stream runs");
        std::thread::sleep(Duration::from_millis(300));
        signal("-STOP");
        let has_ended = client.ends_within(Duration::from_secs(20));
        (client, has_ended)
    };
    // On a busy machine the server may be stopped before it sends the client the start of the test: then the
    // client waits in its queue.
    let mut client = None;
    for _ in 0..3 {
        let (tried, has_ended) = start_and_stop_server();
        if has_ended {
            client = Some(tried);
            break;
        }
        drop(tried);
        signal("-CONT");
        assert!(eventually(|| server.resources().0 <= idle), "the server forgets the client");
    }
    let client = client.expect("the client gives up");
    let stderr = String::from_utf8_lossy(&client.output().stderr).into_owned();
    assert!(stderr.contains("within 1.5 s"), "{stderr}");
}

#[test]
fn concurrent_tests_share_one_port() {
    let server = start_server(&["--clients", "4"]);
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..12).map(|_| scope.spawn(|| server.test(3_000_000))).collect();
        for thread in all {
            assert_eq!(thread.join().unwrap(), Ok(3_000_000));
        }
    });
}

#[test]
fn server_limits_are_enforced() {
    let server = start_server(&["--server-bitrate-limit", "50M/0.2", "--server-max-duration", "1"]);
    let test_dir = TestDir::new("");
    let port = server.port.to_string();
    let run =
        |args: &[&str]| test_dir.run(&[&["test", "127.0.0.1", "-p", &port, "--no-record"], args].concat());
    for (args, why) in [
        (&["-b", "30M", "-P", "2", "-t", "0.5"][..], "faster"),
        (&["-t", "2", "-b", "1M"], "longer"),
        // This client requests no rate limit and sends as fast as it can.
        (&["-t", "0.9"], "faster"),
    ] {
        let refused = run(args);
        assert_eq!(refused.code, 1, "{args:?}: {refused:?}");
        assert!(refused.stderr.contains(why), "{args:?}: {}", refused.stderr);
    }
    assert_eq!(run(&["-t", "0.5", "-b", "20M"]).code, 0);
    let args = ["stream", "127.0.0.1", "-p", &port, "--rate", "1mbit,60mbit", "-t", "0.3", "--no-record"];
    let streamed = test_dir.run(&[&args[..], &["--tolerate-loss", "99"]].concat());
    assert_eq!(streamed.code, 1, "{streamed:?}");
    assert!(
        streamed.stdout.contains("Sustainable: yes, up to 1"),
        "the first rate has a result: {streamed:?}"
    );
}

#[test]
fn a_server_with_users_serves_only_authenticated_clients() {
    let test_dir = TestDir::new("");
    let openssl =
        |args: &[&str]| Command::new("openssl").args(args).current_dir(test_dir.dir.path()).output();
    if openssl(&["version"]).is_err() || !has_iperf3() {
        testing::skip(
            testing::Missing::Tool,
            "openssl, which generates the keys, and iperf3 are both needed",
        );
        return;
    }
    assert!(openssl(&["genrsa", "-out", "private.pem", "2048"]).unwrap().status.success());
    let public = ["rsa", "-in", "private.pem", "-pubout", "-out", "public.pem"];
    assert!(openssl(&public).unwrap().status.success());
    // printf '{mario}rossi' | sha256sum
    let users = "mario,bf7a49a846d44b454a5d11e7acfaf13d138bbe0b7483aa3e050879700572709b\n";
    std::fs::write(test_dir.path("users.csv"), users).unwrap();
    let (private, users) = (test_dir.path("private.pem"), test_dir.path("users.csv"));
    let keys = [
        "--rsa-private-key-path",
        private.to_str().unwrap(),
        "--authorized-users-path",
        users.to_str().unwrap(),
    ];
    for padding in [&[][..], &["--use-pkcs1-padding"]] {
        let server = start_server(&[&keys[..], padding].concat());
        let port = server.port.to_string();
        let test = |password: &str, more: &[&str]| {
            let args = ["test", "127.0.0.1", "-p", &port, "-n", "1M", "--no-record"];
            let mut command = test_dir.longfat(&[&args[..], more].concat());
            command.env("IPERF3_PASSWORD", password).output().unwrap().status.success()
        };
        let credentials =
            [&["--username", "mario", "--rsa-public-key-path", "public.pem"][..], padding].concat();
        assert!(test("rossi", &credentials));
        assert!(!test("bianchi", &credentials), "wrong password");
        assert!(!test("rossi", &[]), "no user name");
        if !padding.is_empty() {
            // iperf3 3.12 supports only this padding.
            let args = ["-c", "127.0.0.1", "-p", &port, "-n", "1M", "-J", "--username", "mario"];
            let mut iperf3 = Command::new("iperf3");
            iperf3.args(args).args(["--rsa-public-key-path", "public.pem"]).env("IPERF3_PASSWORD", "rossi");
            let output = Running::start(iperf3.current_dir(test_dir.dir.path())).output();
            assert!(output.status.success(), "{output:?}");
            // Some data may still have been in flight when the client ended the test.
            assert!(document("iperf3", &output)["end"]["sum_received"]["bytes"].as_u64().unwrap() > 0);
        }
    }
}

/// A server at one address connects to a client that listens at a port.
#[test]
fn a_server_opens_the_connections_of_a_client_that_listens() {
    let test_dir = TestDir::new("");
    let port = free_port().to_string();
    let target = format!("127.0.0.1:{port}");
    let server = start_server(&["--reverse-connect", &target]);
    let test = |options: &[&str]| {
        let base = ["test", "listen", "-p", &port, "--json", "--no-record"];
        let tested = test_dir.run(&[&base[..], options].concat());
        assert_eq!(tested.code, 0, "{options:?}: {tested:?}");
        tested.json()
    };
    // Includes all threads of a server that waits for the client again.
    test(&["-n", "3M"]);
    let is_settled = || {
        let now = server.resources();
        std::thread::sleep(Duration::from_millis(500));
        now == server.resources()
    };
    assert!(eventually(is_settled));
    let before = server.resources();
    for options in [
        &["-n", "3M"][..],
        &["-n", "3M", "-R", "-P", "2", "-w", "200K"],
        &["-u", "-b", "5M", "-t", "1"],
        &["-u", "-b", "5M", "-t", "1", "-R"],
    ] {
        let tested = test(options);
        let bytes: f64 = tested["streams"]
            .as_array()
            .unwrap()
            .iter()
            .map(|s| s["received"]["bytes"].as_f64().unwrap())
            .sum();
        assert!(bytes > 3e5, "{options:?}: {tested}");
    }
    let is_released = || {
        let now = server.resources();
        now.0 <= before.0 && now.1 <= before.1
    };
    assert!(eventually(is_released), "{before:?} {:?}", server.resources());
}

#[test]
fn a_client_that_listens_reports_that_no_server_connects() {
    let test_dir = TestDir::new("");
    let port = free_port().to_string();
    let mut client = Running::start(&mut test_dir.longfat(&["test", "listen", "-p", &port]));
    std::thread::sleep(Duration::from_millis(2500));
    client.interrupt();
    assert!(client.ends_within(Duration::from_secs(10)));
    let output = client.output();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains(&format!("waiting until the server connects to port {port}")), "{text}");
}
