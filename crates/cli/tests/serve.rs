//! `longfat serve` under abuse: whoever is silent, talks nonsense or stops in the middle holds nobody up for long, and
//! nothing of them stays.

use crate::common;
use std::{
    io::{Read, Write},
    net::TcpStream,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use common::{
    Place, binary, eventually,
    iperf3::{Running, document, free_port, has_iperf3, wait_for_listener},
};
use perf::{
    iperf3::{self, ClientOptions, Observer, wire},
    report::{Amount, TestSpec},
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
        let spec =
            TestSpec { amount: Amount::Bytes(Bytes(bytes)), ..wire::Params::default().spec().unwrap() };
        let options = ClientOptions { port: self.port, ..ClientOptions::new("127.0.0.1", spec) };
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

#[test]
fn a_stream_with_a_strangers_cookie_is_turned_away() {
    let server = serve(&["--phase-timeout", "5"]);
    let mut control = server.connect();
    control.write_all(&cookie(1)).unwrap();
    let mut state = [0];
    control.read_exact(&mut state).unwrap();
    assert_eq!(state, [9]);
    // The test does not wait for streams yet, so none is wanted beyond what it holds; a second client waits its turn.
    let mut second = server.connect();
    second.write_all(&cookie(2)).unwrap();
    second.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(second.read_exact(&mut state).is_err(), "it is not its turn");
    // The same cookie once more, while the other waits.
    let mut third = server.connect();
    third.write_all(&cookie(2)).unwrap();
    third.read_exact(&mut state).unwrap();
    assert_eq!(state, [0xff]);
    drop(control);
    second.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    second.read_exact(&mut state).unwrap();
    assert_eq!(state, [9], "now it is its turn");
}

#[test]
fn who_waited_too_long_is_told_so() {
    let server = serve(&["--queue-timeout", "0.3", "--phase-timeout", "20"]);
    let mut first = server.connect();
    first.write_all(&cookie(1)).unwrap();
    let mut state = [0];
    first.read_exact(&mut state).unwrap();
    let begin = Instant::now();
    let mut second = server.connect();
    second.write_all(&cookie(2)).unwrap();
    second.read_exact(&mut state).unwrap();
    assert_eq!(state, [0xff]);
    assert!(begin.elapsed() >= Duration::from_millis(300));
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
