//! `longfat serve` under abuse: whoever is silent, talks nonsense or stops in the middle holds nobody up for long, and
//! nothing of them stays.

use crate::common;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use common::{
    Place, binary, eventually,
    iperf3::{Running, document, free_port, has_iperf3, wait_for_listener},
};
use iperf3::{
    ClientOptions, Observer,
    report::{Amount, TestSpec},
    wire,
};
use units::Bytes;

struct Quiet;

impl Observer for Quiet {}

/// A server that runs, and its port.
struct Server {
    process: Running,
    port: u16,
}

fn serve(args: &[&str]) -> Server {
    let port = free_port();
    let process = Running::start(Command::new(binary()).args(["serve", "-p", &port.to_string()]).args(args));
    wait_for_listener(port);
    Server { process, port }
}

impl Server {
    /// Threads and open files.
    fn holds(&self) -> (usize, usize) {
        let count =
            |what: &str| std::fs::read_dir(format!("/proc/{}/{what}", self.process.id())).unwrap().count();
        (count("task"), count("fd"))
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).unwrap()
    }

    /// A proper test of so many bytes; what failed.
    fn test(&self, bytes: u64) -> Result<u64, String> {
        self.test_from(None, bytes)
    }

    /// The same from an address of this machine.
    fn test_from(&self, bind: Option<std::net::IpAddr>, bytes: u64) -> Result<u64, String> {
        let spec =
            TestSpec { amount: Amount::Bytes(Bytes(bytes)), ..wire::Params::default().spec().unwrap() };
        let options = ClientOptions { port: self.port, bind, ..ClientOptions::new("127.0.0.1", spec) };
        let tested = iperf3::test(&options, &AtomicBool::new(false), &mut Quiet);
        match (tested.report.end, tested.error) {
            (Some(end), None) => Ok(end.streams.iter().map(|stream| stream.received.bytes).sum()),
            (_, error) => Err(format!("{error:?}")),
        }
    }
}

/// A client's cookie; each `n` has its own.
fn cookie(n: usize) -> Vec<u8> {
    format!("{n:0>36}\0").into_bytes()
}

/// A message of JSON.
fn message(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()
}

/// Goes some steps of a test and stays there; what it holds open is returned.
fn stop_in_the_middle(server: &Server, n: usize) -> Vec<TcpStream> {
    let mut control = server.connect();
    control.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    control.write_all(&cookie(n)).unwrap();
    let mut held = Vec::new();
    // The turn of this one may never come: then it was its neighbours' business.
    let mut state = [0];
    if n.is_multiple_of(5) || control.read_exact(&mut state).is_err() {
        held.push(control);
        return held;
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
                held.push(stream);
            }
        }
        _ => drop(control.write_all(&message("{\"parallel\":1e9,\"time\":-1}"))),
    }
    held.push(control);
    held
}

#[test]
fn only_who_knows_the_token_is_served() {
    let place = Place::new("");
    std::fs::write(place.path("token"), "0123456789abcdef\n").unwrap();
    std::fs::write(place.path("other"), "0123456789abcdeX\n").unwrap();
    std::fs::write(place.path("short"), "secret\n").unwrap();
    let serve = |options: &[&str]| {
        let port = free_port();
        let port_text = port.to_string();
        let args = [&["serve", "-i", "0", "-p", &port_text][..], options].concat();
        let server = Running::start(&mut place.longfat(&args));
        wait_for_listener(port);
        (server, port_text)
    };
    let test = |port: &str, options: &[&str]| {
        let args = ["test", "127.0.0.1", "-p", port, "-n", "1M", "--no-record"];
        place.run(&[&args[..], options].concat())
    };
    let (_guarded, port) = serve(&["--token", "token"]);
    let ran = test(&port, &["--token", "token", "--get-server-output"]);
    assert!(ran.code == 0 && ran.stdout.contains("Server output"), "{ran:?}");
    for wrong in [&["--token", "other"][..], &[]] {
        let ran = test(&port, wrong);
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(ran.stderr.contains("token"), "{ran:?}");
    }
    let (_open, port) = serve(&[]);
    let ran = test(&port, &["--token", "token"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert_eq!(test(&port, &[]).code, 0);
    let ran = test(&port, &["--token", "short"]);
    assert!(ran.code == 2 && ran.stderr.contains("at least 16"), "{ran:?}");
}

#[test]
fn two_hundred_clients_among_them_bad_ones_are_all_served() {
    let server =
        serve(&["--phase-timeout", "0.3", "--rcv-timeout", "400", "--queue-timeout", "60", "-i", "0"]);
    let before = server.holds();
    assert_eq!(server.test(100_000), Ok(100_000));
    let over = AtomicBool::new(false);
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
            let (server, over) = (&server, &over);
            scope.spawn(move || {
                let held = stop_in_the_middle(server, n);
                while !over.load(Ordering::Acquire) {
                    std::thread::sleep(Duration::from_millis(20));
                }
                drop(held);
            });
        }
        let proper: Vec<_> = (0..110).map(|_| scope.spawn(|| server.test(200_000))).collect();
        let results: Vec<_> = proper.into_iter().map(|thread| thread.join().unwrap()).collect();
        over.store(true, Ordering::Release);
        let failed: Vec<_> = results.iter().filter(|result| **result != Ok(200_000)).collect();
        assert!(failed.is_empty(), "{} of 110 were not served: {:?}", failed.len(), failed[0]);
        drop((silent, garbage));
    });
    assert!(
        eventually(|| server.holds() == before),
        "threads and files before {before:?}, afterwards {:?}",
        server.holds()
    );
    let memory = std::fs::read_to_string(format!("/proc/{}/status", server.process.id())).unwrap();
    let peak = memory.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak_kib: u64 = peak.trim().trim_end_matches(" kB").trim().parse().unwrap();
    assert!(peak_kib < 200 << 10, "{peak_kib} KiB at most");
    assert_eq!(server.test(100_000), Ok(100_000));
    server.process.interrupt();
    assert!(server.process.output().status.success());
}

/// Goes as far as its parameters.
fn ask(server: &Server, n: usize, params: &str) -> TcpStream {
    let mut control = server.connect();
    control.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    control.write_all(&cookie(n)).unwrap();
    assert_eq!(next_state(&mut control), 9);
    control.write_all(&message(params)).unwrap();
    control
}

/// And until the data begins: the control connection and the only stream.
fn begin_test(server: &Server, n: usize, params: &str) -> (TcpStream, TcpStream) {
    let mut control = ask(server, n, params);
    assert_eq!(next_state(&mut control), 10);
    let mut stream = server.connect();
    stream.write_all(&cookie(n)).unwrap();
    assert_eq!([next_state(&mut control), next_state(&mut control)], [1, 2]);
    (control, stream)
}

fn next_state(control: &mut TcpStream) -> u8 {
    let mut state = [0];
    control.read_exact(&mut state).unwrap();
    state[0]
}

/// A test of 20 seconds over one stream.
const LONG: &str = r#"{"tcp":true,"omit":0,"time":20,"num":0,"blockcount":0,"parallel":1,"len":131072}"#;

#[test]
fn a_second_control_connection_with_a_cookie_is_turned_away() {
    let server = serve(&["--phase-timeout", "20"]);
    let (first, _stream) = begin_test(&server, 1, LONG);
    let mut second = ask(&server, 2, LONG);
    second.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(second.read_exact(&mut [0]).is_err(), "it is not its turn");
    // The same cookie once more, while the other waits, and while another only begins.
    for n in [2, 3] {
        let mut begun = server.connect();
        begun.write_all(&cookie(n)).unwrap();
        if n == 3 {
            assert_eq!(next_state(&mut begun), 9);
        }
        let mut again = server.connect();
        again.write_all(&cookie(n)).unwrap();
        assert_eq!(next_state(&mut again), 0xff);
    }
    drop(first);
    second.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    assert_eq!(next_state(&mut second), 10, "now it is its turn");
}

#[test]
fn a_client_that_waited_too_long_is_refused() {
    let server = serve(&["--queue-timeout", "0.3", "--phase-timeout", "20"]);
    let _running = begin_test(&server, 1, LONG);
    let begin = Instant::now();
    let mut second = ask(&server, 2, LONG);
    assert_eq!(next_state(&mut second), 0xff);
    assert!(begin.elapsed() >= Duration::from_millis(300));
}

/// Options of a server in which a client that takes somebody's turn is not gone when the next one gives up.
const PATIENT_STEPS: [&str; 4] = ["--phase-timeout", "60", "--queue-timeout", "20"];

#[test]
fn clients_without_parameters_take_nobodys_turn() {
    for count in [8, 258] {
        let server = serve(&[&PATIENT_STEPS[..], &["-i", "0"]].concat());
        let silent: Vec<TcpStream> = (0..count)
            .map(|n| {
                let mut control = server.connect();
                control.write_all(&cookie(n)).unwrap();
                control
            })
            .collect();
        assert_eq!(server.test(100_000), Ok(100_000), "beside {count} silent clients");
        if has_iperf3() {
            let port = server.port.to_string();
            let mut iperf3 = Command::new("iperf3");
            let output = Running::start(iperf3.args(["-c", "127.0.0.1", "-n", "1M", "-p", &port])).output();
            assert!(output.status.success(), "beside {count} silent clients: {output:?}");
        }
        drop(silent);
    }
}

#[test]
fn clients_without_streams_take_nobodys_turn() {
    let server = serve(&[&PATIENT_STEPS[..], &["-i", "0"]].concat());
    let tcp: Vec<TcpStream> = (0..8).map(|n| ask(&server, n, LONG)).collect();
    let udp: Vec<TcpStream> =
        (8..10).map(|n| ask(&server, n, &LONG.replace("tcp", "udp").replace("131072", "1000"))).collect();
    assert_eq!(server.test(100_000), Ok(100_000));
    drop((tcp, udp));
}

#[test]
fn clients_that_send_a_byte_now_and_then_hold_nobody_up_and_are_dropped() {
    let server = serve(&["--phase-timeout", "1.5", "-i", "0"]);
    let greeting = [&cookie(1)[..], &message(LONG)[..20]].concat();
    std::thread::scope(|scope| {
        let slow: Vec<_> = [0, 30, 41]
            .map(|sent_at_once| {
                let (server, greeting) = (&server, &greeting);
                scope.spawn(move || {
                    let mut control = server.connect();
                    let own = greeting.clone();
                    control.write_all(&own[..sent_at_once]).unwrap();
                    // More than the timeout for all of it; the server ends it before.
                    let ended = own[sent_at_once..].iter().cycle().take(600).any(|byte| {
                        std::thread::sleep(Duration::from_millis(50));
                        control.write_all(&[*byte]).is_err()
                    });
                    assert!(ended, "a client with {sent_at_once} bytes at once was never dropped");
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
fn streams_beyond_those_asked_for_are_closed() {
    let server = serve(&["-i", "0"]);
    let mut control = ask(&server, 1, LONG);
    assert_eq!(next_state(&mut control), 10);
    let mut streams: Vec<TcpStream> = (0..300)
        .map(|_| {
            let mut stream = server.connect();
            stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            stream.write_all(&cookie(1)).unwrap();
            stream
        })
        .collect();
    assert_eq!([next_state(&mut control), next_state(&mut control)], [1, 2]);
    // One byte (refused), the end, or a reset: but for the first stream nothing is left open.
    for stream in &mut streams[1..] {
        let read = stream.read(&mut [0]);
        assert!(!matches!(&read, Err(e) if e.kind() == std::io::ErrorKind::WouldBlock), "{read:?}");
    }
    drop((control, streams));
    assert_eq!(server.test(100_000), Ok(100_000));
}

#[test]
fn clients_that_do_not_take_part_in_the_end_hold_nobody_up() {
    let server = serve(&[&PATIENT_STEPS[..], &["-i", "0"]].concat());
    let amount = LONG.replace(r#""num":0"#, r#""num":1000"#);
    let held: Vec<_> = (0..6)
        .map(|n| {
            let (mut control, mut stream) = begin_test(&server, n, &amount);
            stream.write_all(&[7; 1000]).unwrap();
            control.write_all(&[4]).unwrap();
            assert_eq!(next_state(&mut control), 13);
            // Half of them send results and do not read the server's.
            if n % 2 == 0 {
                let results = r#"{"cpu_util_total":0,"cpu_util_user":0,"cpu_util_system":0,"sender_has_retransmits":0,
                    "streams":[{"id":1,"bytes":1000,"retransmits":0,"jitter":0,"errors":0,"packets":0}]}"#;
                control.write_all(&message(results)).unwrap();
            }
            (control, stream)
        })
        .collect();
    assert_eq!(server.test(100_000), Ok(100_000));
    drop(held);
}

#[test]
fn a_full_queue_has_a_share_for_each_address() {
    let server = serve(&["--phase-timeout", "60", "--queue", "4", "--queue-timeout", "60", "-i", "0"]);
    let running = begin_test(&server, 0, LONG);
    let mut greedy: Vec<TcpStream> = (1..=4).map(|n| ask(&server, n, LONG)).collect();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| server.test_from(Some([127, 0, 0, 2].into()), 100_000));
        let last = greedy.last_mut().unwrap();
        assert_eq!(next_state(last), 0xff, "the last of the address with four places gives one up");
        let mut fifth = ask(&server, 5, LONG);
        assert_eq!(next_state(&mut fifth), 0xff, "its own address has the most already");
        drop(running);
        assert_eq!(other.join().unwrap(), Ok(100_000));
    });
}

#[test]
fn a_hundred_iperf3_at_once_are_all_served() {
    if !has_iperf3() {
        return;
    }
    let server = serve(&["-i", "0", "--queue-timeout", "300"]);
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
fn a_client_that_waits_is_sent_for_how_long() {
    let server = serve(&["--phase-timeout", "20"]);
    let (control, stream) = begin_test(&server, 1, LONG);
    let waiting = ask(&server, 2, LONG);
    let place = Place::new("");
    let port = server.port.to_string();
    let mut client = place.longfat(&["test", "127.0.0.1", "-p", &port, "-n", "1M", "--no-record"]);
    let mut client = client.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(client.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert!(said.contains("2 tests ahead, about"), "{said}");
    drop((control, stream, waiting));
    assert!(client.wait().unwrap().success());
}

#[test]
fn output_that_nobody_reads_stops_neither_tests_nor_the_end() {
    // Both pipes are read by nobody: a document of each test is more than they hold together.
    let mut server = serve(&["-J", "--clients", "8"]);
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..120).map(|_| scope.spawn(|| server.test(10_000))).collect();
        for thread in all {
            assert_eq!(thread.join().unwrap(), Ok(10_000));
        }
    });
    assert_eq!(server.test(100_000), Ok(100_000));
    assert!(server.process.ends_when_terminated(Duration::from_secs(20)));
    let output = server.process.output();
    assert!(output.stdout.len() < 120 * 1000, "the pipe held all: {} bytes", output.stdout.len());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("lines of output were dropped"), "{said}");
}

#[test]
fn a_log_that_nobody_reads_stops_nobody() {
    let place = Place::new("");
    let fifo = place.path("log");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let mut server = serve(&["-J", "--clients", "8", "--logfile", fifo.to_str().unwrap()]);
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..120).map(|_| scope.spawn(|| server.test(10_000))).collect();
        for thread in all {
            assert_eq!(thread.join().unwrap(), Ok(10_000));
        }
    });
    assert!(server.process.ends_when_terminated(Duration::from_secs(20)));
    // A full disk is no reason to stop either.
    let mut server = serve(&["--logfile", "/dev/full"]);
    assert_eq!(server.test(100_000), Ok(100_000));
    assert!(server.process.ends_when_terminated(Duration::from_secs(20)));
}

#[test]
fn a_client_whose_output_nobody_reads_ends_its_test() {
    // A test that does not end is ended by the server ten seconds later: after the queue's timeout.
    let server = serve(&["--phase-timeout", "30", "--queue-timeout", "15"]);
    let (place, port) = (Place::new(""), server.port.to_string());
    let args = ["test", "127.0.0.1", "-p", &port, "--no-record", "--json-stream", "-i", "0.001", "-t", "1"];
    let mut stalled = Running::start(&mut place.longfat(&args));
    assert!(eventually(|| server.holds().0 > 4), "its test has begun");
    assert_eq!(server.test(100_000), Ok(100_000));
    assert!(stalled.ends_when_terminated(Duration::from_secs(20)));
}

#[test]
fn a_udp_sender_gives_a_stopped_server_up_after_rcv_timeout() {
    let (server, place) = (serve(&["-i", "0"]), Place::new(""));
    let (port, idle) = (server.port.to_string(), server.holds().0);
    let args = ["test", "127.0.0.1", "-p", &port, "--no-record", "-u", "-t", "3", "--rcv-timeout", "1500"];
    let client = Running::start(&mut place.longfat(&args));
    assert!(eventually(|| server.holds().0 > idle + 1), "its stream runs");
    let id = server.process.id().to_string();
    assert!(Command::new("kill").args(["-STOP", &id]).status().unwrap().success());
    let said = String::from_utf8_lossy(&client.output().stderr).into_owned();
    assert!(said.contains("within 1.5 s"), "{said}");
}

#[test]
fn tests_side_by_side_share_one_port() {
    let server = serve(&["--clients", "4"]);
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..12).map(|_| scope.spawn(|| server.test(3_000_000))).collect();
        for thread in all {
            assert_eq!(thread.join().unwrap(), Ok(3_000_000));
        }
    });
}

#[test]
fn limits_are_kept() {
    let server = serve(&["--server-bitrate-limit", "50M/0.2", "--server-max-duration", "1"]);
    let place = Place::new("");
    let port = server.port.to_string();
    let run = |args: &[&str]| place.run(&[&["test", "127.0.0.1", "-p", &port, "--no-record"], args].concat());
    for (args, why) in [
        (&["-b", "30M", "-P", "2", "-t", "0.5"][..], "faster"),
        (&["-t", "2", "-b", "1M"], "longer"),
        // Asks for no rate and takes all there is.
        (&["-t", "0.9"], "faster"),
    ] {
        let refused = run(args);
        assert_eq!(refused.code, 1, "{args:?}: {refused:?}");
        assert!(refused.stderr.contains(why), "{args:?}: {}", refused.stderr);
    }
    assert_eq!(run(&["-t", "0.5", "-b", "20M"]).code, 0);
}

#[test]
fn only_known_users_test_where_there_are_users() {
    let place = Place::new("");
    let openssl = |args: &[&str]| Command::new("openssl").args(args).current_dir(place.dir.path()).output();
    if openssl(&["version"]).is_err() || !has_iperf3() {
        testing::skip(testing::Missing::Tool, "openssl makes the keys");
        return;
    }
    assert!(openssl(&["genrsa", "-out", "private.pem", "2048"]).unwrap().status.success());
    let public = ["rsa", "-in", "private.pem", "-pubout", "-out", "public.pem"];
    assert!(openssl(&public).unwrap().status.success());
    // printf '{mario}rossi' | sha256sum
    let users = "mario,bf7a49a846d44b454a5d11e7acfaf13d138bbe0b7483aa3e050879700572709b\n";
    std::fs::write(place.path("users.csv"), users).unwrap();
    let (private, users) = (place.path("private.pem"), place.path("users.csv"));
    let keys = [
        "--rsa-private-key-path",
        private.to_str().unwrap(),
        "--authorized-users-path",
        users.to_str().unwrap(),
    ];
    for padding in [&[][..], &["--use-pkcs1-padding"]] {
        let server = serve(&[&keys[..], padding].concat());
        let port = server.port.to_string();
        let test = |password: &str, more: &[&str]| {
            let args = ["test", "127.0.0.1", "-p", &port, "-n", "1M", "--no-record"];
            let mut command = place.longfat(&[&args[..], more].concat());
            command.env("IPERF3_PASSWORD", password).output().unwrap().status.success()
        };
        let known = [&["--username", "mario", "--rsa-public-key-path", "public.pem"][..], padding].concat();
        assert!(test("rossi", &known));
        assert!(!test("bianchi", &known), "the wrong password");
        assert!(!test("rossi", &[]), "nobody");
        if !padding.is_empty() {
            // iperf3 3.12 knows this padding only.
            let args = ["-c", "127.0.0.1", "-p", &port, "-n", "1M", "-J", "--username", "mario"];
            let mut theirs = Command::new("iperf3");
            theirs.args(args).args(["--rsa-public-key-path", "public.pem"]).env("IPERF3_PASSWORD", "rossi");
            let output = Running::start(theirs.current_dir(place.dir.path())).output();
            assert!(output.status.success(), "{output:?}");
            // What it had sent may still have been under way when it said that it was over.
            assert!(document("iperf3", &output)["end"]["sum_received"]["bytes"].as_u64().unwrap() > 0);
        }
    }
}
