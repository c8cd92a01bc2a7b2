//! longfat's client with Debian's iperf 2 and vice versa, hostile clients, and imports of iperf 2's output.
//! Over loopback.

use crate::common;
use std::{
    io::{Read, Write},
    net::{TcpStream, UdpSocket},
    process::Command,
    time::{Duration, Instant},
};

use common::{
    TestDir, binary,
    iperf3::{Running, free_port, wait_for_listener},
};
use serde_json::Value;

/// Timeout of a client that must end soon, even on a busy machine.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(60);

fn has_iperf2() -> bool {
    let version = Command::new("iperf").arg("--version").output();
    let is_2 = version.is_ok_and(|output| {
        let text = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&text).contains("iperf version 2.")
    });
    if !is_2 {
        testing::skip(testing::Missing::Tool, "iperf 2 is not installed");
    }
    is_2
}

fn iperf2(args: &str, port: u16) -> Command {
    let mut command = Command::new("iperf");
    command.args(args.split_whitespace()).args(["-p", &port.to_string()]);
    command
}

/// Waits until a program listens on a UDP port.
fn wait_for_udp(port: u16) {
    let begin = Instant::now();
    let local = format!(":{port:04X} ");
    let is_open = || {
        ["/proc/net/udp", "/proc/net/udp6"]
            .iter()
            .any(|path| std::fs::read_to_string(path).unwrap_or_default().contains(&local))
    };
    while !is_open() {
        assert!(begin.elapsed() < CLIENT_TIMEOUT, "nothing listens on UDP port {port}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// longfat's client against this port; returns its document.
fn longfat_client(test_dir: &TestDir, port: u16, flags: &str) -> (i32, Value, String) {
    let port = port.to_string();
    let mut args = vec!["test", "127.0.0.1", "--iperf2", "--json", "-p", &port];
    args.extend(flags.split_whitespace());
    let ran = test_dir.run(&args);
    (ran.code, serde_json::from_str(&ran.stdout).unwrap_or_default(), ran.stderr)
}

fn serve(port: u16, iperf2_port: u16, more: &[&str]) -> Running {
    let mut command = Command::new(binary());
    command.args(["serve", "-p", &port.to_string(), &format!("--iperf2={iperf2_port}")]).args(more);
    let server = Running::start(&mut command);
    wait_for_listener(iperf2_port);
    wait_for_listener(port);
    server
}

fn sum(document: &Value, end: &str, what: &str) -> u64 {
    let streams = document["streams"].as_array().cloned().unwrap_or_default();
    streams.iter().filter_map(|stream| stream[end][what].as_u64()).sum()
}

#[test]
fn our_client_tests_with_debians_iperf_server() {
    if !has_iperf2() {
        return;
    }
    let test_dir = TestDir::new("");
    let port = free_port();
    let _server = Running::start(&mut iperf2("-s", port));
    wait_for_listener(port);
    for (flags, streams) in [
        ("-n 20M", 1),
        ("-n 20M -P 3 -w 256K", 3),
        ("-t 1 -R -i 0.5", 1),
        ("-t 1 --bidir", 2),
        ("-t 1 -R -P 2", 2),
    ] {
        let (code, document, stderr) = longfat_client(&test_dir, port, flags);
        assert_eq!(code, 0, "{flags}: {document:#} {stderr}");
        assert_eq!(document["streams"].as_array().map(Vec::len), Some(streams), "{flags}: {document:#}");
        let received = sum(&document, "received", "bytes");
        match flags.contains("-n 20M") {
            true => assert_eq!(received, 20 << 20, "{flags}"),
            false => assert!(received > 0, "{flags}: {document:#}"),
        }
        let record = test_dir.path(document["record"].as_str().unwrap());
        assert!(record.join("flows.parquet").exists(), "{flags}");
    }
}

#[test]
fn our_client_sends_and_receives_datagrams_of_debians_iperf() {
    if !has_iperf2() {
        return;
    }
    let test_dir = TestDir::new("");
    let run = |flags: &str| {
        // Debian's iperf 2.1.8 crashes in its second UDP test, also with its own client: a server for each.
        let port = free_port();
        let _server = Running::start(&mut iperf2("-s -u", port));
        wait_for_udp(port);
        let (code, document, stderr) = longfat_client(&test_dir, port, flags);
        assert_eq!(code, 0, "{flags}: {document:#} {stderr}");
        document
    };
    let document = run("-u -b 8M -t 1");
    let (sent, received) = (sum(&document, "sent", "packets"), sum(&document, "received", "packets"));
    // The last datagram may be repeated.
    assert!(
        sent > 100 && received.abs_diff(sent) <= 3,
        "the server counts the datagrams that were sent: {document:#}"
    );
    let document = run("-u -b 8M -t 1 -R");
    assert!(sum(&document, "received", "packets") > 100, "{document:#}");
    let (code, document, _) = longfat_client(&test_dir, free_port(), "-u -b 8M -t 1");
    assert!(
        code == 1 && document["error"].to_string().contains("is an iperf 2 server running"),
        "{document:#}"
    );
    let refused = test_dir.run(&["test", "127.0.0.1", "--iperf2", "-u", "-l", "40"]);
    assert!(refused.code != 0 && refused.stderr.contains("at least 76 bytes"), "{refused:?}");
}

#[test]
fn debians_iperf_client_tests_with_our_server() {
    if !has_iperf2() {
        return;
    }
    let (port, iperf2_port) = (free_port(), free_port());
    let _server = serve(port, iperf2_port, &[]);
    let run = |flags: &str| {
        let output = Running::start(&mut iperf2(&format!("-c 127.0.0.1 {flags}"), iperf2_port)).output();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{flags}: {output:?}");
        text
    };
    for flags in ["-t 1", "-n 10M -w 256K", "-t 1 -e -i 0.5", "-t 1 -R", "-t 1 --full-duplex"] {
        let text = run(flags);
        let results = text.lines().filter(|line| line.contains("bits/sec") && !line.contains(" 0.000 B"));
        assert!(results.count() > 0, "{flags}: {text}");
    }
    let parallel = run("-t 1 -P 3");
    assert!(parallel.lines().any(|line| line.starts_with("[SUM]")), "{parallel}");
    let datagrams = run("-u -t 1 -b 8M");
    let (_, report) = datagrams.split_once("Server Report:").expect(&datagrams);
    assert!(report.contains("%)") && report.contains(" ms "), "{datagrams}");
}

/// The server connects back, and the client's own listener receives.
#[test]
fn in_the_old_bidirectional_tests_the_server_connects_back() {
    if !has_iperf2() {
        return;
    }
    let (port, iperf2_port, own) = (free_port(), free_port(), free_port());
    let server = serve(port, iperf2_port, &[]);
    // -d suffices to test the port in the header: -r uses the same code after the client's data.
    for flag in ["-d", "-r"] {
        let flags = format!("-c 127.0.0.1 -t 1 {flag} -L {own}");
        let output = Running::start(&mut iperf2(&flags, iperf2_port)).output();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains(&format!("port {own} connected with")), "{flag}: {text}");
    }
    // A client that names the server's own port must not make it connect to itself.
    let output = Running::start(&mut iperf2("-c 127.0.0.1 -t 1 -r", iperf2_port)).output();
    assert!(output.status.code().is_some());
    server.interrupt();
    let printed = server.output();
    let notes = String::from_utf8_lossy(&printed.stderr).into_owned();
    assert!(notes.contains("this server's own address and port"), "{notes}");
}

#[test]
fn the_wrong_protocol_is_reported_clearly() {
    let test_dir = TestDir::new("");
    let (port, iperf2_port) = (free_port(), free_port());
    let server = serve(port, iperf2_port, &[]);
    if has_iperf2() {
        let begin = Instant::now();
        Running::start(&mut iperf2("-c 127.0.0.1 -t 30", port)).output();
        assert!(begin.elapsed() < Duration::from_secs(30), "the connection is closed at once");
    }
    let text = iperf2_port.to_string();
    let ran = test_dir.run(&["test", "127.0.0.1", "-p", &text, "--no-record"]);
    assert!(ran.code == 1 && ran.stderr.contains("--iperf2"), "{ran:?}");
    server.interrupt();
    let notes = String::from_utf8_lossy(&server.output().stderr).into_owned();
    assert!(notes.contains("this is an iperf3 client"), "{notes}");
    if has_iperf2() {
        assert!(notes.contains("closed the connection of an iperf 2 client"), "{notes}");
    }
}

#[test]
fn hostile_clients_do_not_block_others() {
    let test_dir = TestDir::new("");
    let (port, iperf2_port) = (free_port(), free_port());
    let _server = serve(port, iperf2_port, &["--phase-timeout", "1"]);
    let connect = || TcpStream::connect(("127.0.0.1", iperf2_port)).unwrap();
    // A silent client; half a header; random bytes; the announcement of a header that never arrives.
    let mut hostile: Vec<TcpStream> = (0..20).map(|_| connect()).collect();
    for (index, bytes) in [&b"\x40\x01\x00\x78"[..], b"\xff\xff\xff\xff", b"\x40", b"\x00\x80\x00\x00"]
        .into_iter()
        .cycle()
        .enumerate()
        .take(16)
    {
        hostile[index].write_all(bytes).unwrap();
    }
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    for length in [0, 1, 11, 15, 16, 40, 1000] {
        udp.send_to(&vec![0xff; length], ("127.0.0.1", iperf2_port)).unwrap();
        udp.send_to(&vec![0x40; length], ("127.0.0.1", iperf2_port)).unwrap();
    }
    let (code, document, stderr) = longfat_client(&test_dir, iperf2_port, "-n 5M --no-record");
    assert_eq!((code, sum(&document, "received", "bytes")), (0, 5 << 20), "{document:#} {stderr}");
    let (code, document, stderr) = longfat_client(&test_dir, iperf2_port, "-u -t 1 -b 1M --no-record");
    assert_eq!(code, 0, "{document:#} {stderr}");
    // Silent connections are closed after the timeout of the header.
    let mut silent = hostile.pop().unwrap();
    silent.set_read_timeout(Some(CLIENT_TIMEOUT)).unwrap();
    let closed = silent.read(&mut [0; 1]);
    assert!(
        matches!(closed, Ok(0)) || closed.is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionReset)
    );
    // A request for datagrams with a forged address would flood another host.
    let refused = longfat_client(&test_dir, iperf2_port, "-u -t 1 -b 1M -R --no-record");
    assert_eq!(refused.0, 1, "{refused:?}");
}

#[test]
fn both_ends_may_be_longfat() {
    let test_dir = TestDir::new("");
    let (port, iperf2_port) = (free_port(), free_port());
    let _server = serve(port, iperf2_port, &[]);
    for flags in ["-n 8M", "-t 1 -R", "-n 8M -P 4", "-t 1 --bidir"] {
        let (code, document, stderr) = longfat_client(&test_dir, iperf2_port, flags);
        assert_eq!(code, 0, "{flags}: {document:#} {stderr}");
        assert!(sum(&document, "received", "bytes") > 0, "{flags}: {document:#}");
    }
    let (code, document, stderr) = longfat_client(&test_dir, iperf2_port, "-u -b 4M -t 1");
    assert_eq!(code, 0, "{document:#} {stderr}");
    let (sent, received) = (sum(&document, "sent", "packets"), sum(&document, "received", "packets"));
    assert!(sent > 100 && received.abs_diff(sent) <= 3, "{document:#}");
}

#[test]
fn output_of_iperf_2_becomes_records() {
    let test_dir = TestDir::new("");
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/iperf2_document");
    for (file, tests) in
        [("c.csv", 1), ("su.csv", 1), ("c.txt", 1), ("cu.txt", 1), ("su.txt", 1), ("cr.txt", 1)]
    {
        let ran = test_dir.run(&["import", "iperf2", &format!("{corpus}/{file}"), "--json"]);
        let document: Value = serde_json::from_str(&ran.stdout).unwrap_or_default();
        assert_eq!(
            (ran.code, document["records"].as_array().map(Vec::len)),
            (0, Some(tests)),
            "{file}: {ran:?}"
        );
    }
    let listed = test_dir.run(&["ls"]);
    assert!(listed.stdout.contains("iperf2"), "{listed:?}");
    let ran = test_dir.run(&["import", "iperf2", &format!("{corpus}/su.csv"), "--json"]);
    let document: Value = serde_json::from_str(&ran.stdout).unwrap();
    let shown = test_dir.run(&["show", document["records"][0]["record"].as_str().unwrap()]);
    assert!(shown.code == 0 && shown.stdout.contains("datagrams lost"), "{shown:?}");
    std::fs::write(test_dir.path("wrong"), "no output of iperf\n").unwrap();
    let wrong = test_dir.run(&["import", "iperf2", "wrong"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("no report of iperf 2"), "{wrong:?}");
}
