//! The limits of a file transfer: each limit is caused, and the verdicts of both ends and the record must
//! name it.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::Value;

use crate::common::{
    CommandOutput, TestDir, binary, eventually, is_root,
    lab::{Lab, signal},
    lab_slots::acquire_all_lab_slots,
};

/// Delays each read and write of a file at an offset: a slow disk.
const SLOW_DISK: &str = r#"
#define _GNU_SOURCE
#include <sys/types.h>
#include <time.h>
#include <unistd.h>
#include <sys/syscall.h>
static void wait_for_disk(size_t bytes) {
    struct timespec pause = { 0, 100000000 };
    if (bytes >= 65536) nanosleep(&pause, 0);
}
ssize_t pread64(int fd, void *to, size_t bytes, off64_t at) {
    wait_for_disk(bytes);
    return syscall(SYS_pread64, fd, to, bytes, at);
}
ssize_t pwrite64(int fd, const void *from, size_t bytes, off64_t at) {
    wait_for_disk(bytes);
    return syscall(SYS_pwrite64, fd, from, bytes, at);
}
"#;

/// A `longfat receive` on this machine, until it is dropped.
struct Receiver {
    child: Child,
    directory: PathBuf,
    port: u16,
    output: PathBuf,
}

impl Receiver {
    fn start(test_dir: &TestDir, environment: &[(&str, &str)]) -> Self {
        let (directory, output) = (test_dir.path("received"), test_dir.path("receiver-output"));
        std::fs::create_dir_all(&directory).unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let port_text = port.to_string();
        let args = [
            "receive",
            "received",
            "--no-token",
            "--json",
            "--record",
            "-B",
            "127.0.0.1",
            "--port",
            &port_text,
        ];
        let mut command = test_dir.longfat(&args);
        command.envs(environment.iter().copied()).stderr(Stdio::null());
        let child = command.stdout(std::fs::File::create(&output).unwrap()).spawn().unwrap();
        let listens = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        assert!(eventually(listens), "the receiver does not listen");
        Receiver { child, directory, port, output }
    }

    /// Sends `sent`, and returns the sender's document.
    fn send(&self, test_dir: &TestDir, options: &[&str], environment: &[(&str, &str)]) -> Value {
        let port = self.port.to_string();
        let args = [&["send", "sent", "127.0.0.1:", "--json", "--port", &port], options].concat();
        let mut command = test_dir.longfat(&args);
        let json = CommandOutput::from(command.envs(environment.iter().copied()).output().unwrap()).json();
        let (sent, arrived) = (test_dir.path("sent"), self.directory.join("sent"));
        assert!(std::fs::read(sent).unwrap() == std::fs::read(&arrived).unwrap(), "{options:?}");
        std::fs::remove_file(arrived).unwrap();
        json
    }

    /// The receiver's lines about sessions that are over.
    fn sessions(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.output).unwrap();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| line.get("sender").is_some()).collect()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn content(bytes: u32) -> Vec<u8> {
    (0..bytes).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// The limit, and the sentences of the first flow.
fn limit(json: &Value) -> (String, String) {
    let limit = json["limited_by"].as_str().unwrap_or_default().to_string();
    (limit, json["flows"][0]["evidence"].to_string())
}

/// Whether a busy machine was the limit.
fn is_processor((limit, _): &(String, String)) -> bool {
    limit.ends_with("processor") || limit == "processors"
}

#[test]
fn a_slow_disk_of_either_end_is_named() {
    let test_dir = TestDir::new("");
    let (source, library) = (test_dir.path("slow.c"), test_dir.path("slow.so"));
    std::fs::write(&source, SLOW_DISK).unwrap();
    let compiled =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status().unwrap();
    assert!(compiled.success());
    std::fs::write(test_dir.path("sent"), content(15_000_000)).unwrap();
    let preload = [("LD_PRELOAD", library.to_str().unwrap())];
    for protocol in ["tcp", "udt", "quic"] {
        let receiver = Receiver::start(&test_dir, &[]);
        let json = receiver.send(&test_dir, &["--protocol", protocol], &preload);
        let (found, evidence) = limit(&json);
        assert_eq!(found, "sender_disk", "{protocol} {json}");
        assert!(evidence.contains("the sender waited until its file was read"), "{evidence}");
        assert!(eventually(|| receiver.sessions().len() == 1));
        let session = receiver.sessions().remove(0);
        assert_eq!(limit(&session).0, "sender_disk", "the receiver knows both ends' waits: {session}");
    }
    for protocol in ["tcp", "udt"] {
        let receiver = Receiver::start(&test_dir, &preload);
        let json = receiver.send(&test_dir, &["--protocol", protocol], &[]);
        let (found, evidence) = limit(&json);
        assert_eq!(found, "receiver_disk", "{protocol} {json}");
        assert!(evidence.contains("the receiver waited until its file was written"), "{evidence}");
    }
    // The record of the sender and that of the receiver.
    let listed = test_dir.run(&["ls", "--json"]).json();
    let text = listed.to_string();
    assert!(text.contains("send-127.0.0.1") && text.contains("receive-127.0.0.1"), "{listed}");
    let shown = test_dir.run(&["show", "last"]);
    assert!(shown.code == 0 && shown.stdout.contains("stream-1"), "{shown:?}");
}

#[test]
fn the_requested_rate_is_named() {
    let test_dir = TestDir::new("");
    std::fs::write(test_dir.path("sent"), content(4_000_000)).unwrap();
    let receiver = Receiver::start(&test_dir, &[]);
    for protocol in ["udt", "tsunami", "quic"] {
        // On a busy machine, other programs may use the processors.
        let mut found = Vec::new();
        let named = (0..3).find_map(|_| {
            let json = receiver.send(&test_dir, &["--protocol", protocol, "--rate", "12mbit"], &[]);
            found.push(limit(&json));
            (found.last()?.0 == "requested_rate").then_some(json)
        });
        let Some(json) = named else {
            assert!(found.iter().all(is_processor), "{protocol} {found:?}");
            return testing::skip(testing::Missing::QuietMachine, format_args!("{protocol}: {found:?}"));
        };
        assert!(limit(&json).1.contains("--rate"), "{json}");
        assert_eq!(json["flows"][0]["kind"], protocol, "{json}");
    }
    let refused = test_dir.run(&["send", "sent", "127.0.0.1:", "--port", "1", "--no-record"]);
    assert_eq!(refused.code, 1, "{refused:?}");
}

/// A path of 50 Mb/s and 20 ms in a lab: losses, a small receive buffer, and the rate of TCP.
#[test]
fn limits_of_the_path_and_of_the_peers_window_are_named() {
    if !is_root() || !Path::new("/dev/net/tun").exists() {
        return testing::skip(testing::Missing::Privilege, "labs need a privilege");
    }
    let _slot = acquire_all_lab_slots();
    let path = |loss: &str| {
        format!(
            r#"duration = "10s"
fixed_neighbours = true
[hosts.h1]
address = "10.0.0.1/24"
[hosts.h2]
address = "10.0.0.2/24"
[[links]]
name = "path"
ends = ["h1", "h2"]
forward = {{ rate = "50mbit", delay = "10ms", queue = "250kB"{loss} }}
backward = {{ delay = "10ms" }}
"#
        )
    };
    // (loss, setting of h2, options, limits): a busy machine may take the processors away.
    let cases: [(&str, &str, &[&str], &[&str]); 5] = [
        (", loss = 0.01", "true", &["tcp", "--cc", "cubic"], &["losses"]),
        (", loss = 0.01", "true", &["udt"], &["losses"]),
        (", loss = 0.01", "true", &["quic"], &["losses"]),
        ("", "sysctl -w net.ipv4.tcp_rmem='4096 16384 32768'", &["tcp"], &["receive_window"]),
        ("", "true", &["tcp", "--rate", "10mbit"], &["requested_rate"]),
    ];
    for (loss, setting, options, expected) in cases {
        let test_dir = TestDir::new(&path(loss));
        let lab = Lab::up(&test_dir, &[]);
        assert_eq!(lab.sh("h2", setting).code, 0);
        let (sent, received) = (test_dir.path("sent"), test_dir.path("received"));
        std::fs::write(&sent, content(5_000_000)).unwrap();
        std::fs::create_dir(&received).unwrap();
        let receive =
            format!("{} receive {} --no-token >/dev/null 2>&1 & echo $!", binary(), received.display());
        let receiver: u32 = lab.sh("h2", &receive).stdout.trim().parse().unwrap();
        let listens = || lab.sh("h2", "cat /proc/net/tcp6 /proc/net/tcp").stdout.contains(":B491 ");
        assert!(eventually(listens), "no receiver");
        let send =
            [&[binary(), "send", sent.to_str().unwrap(), "10.0.0.2:", "--json", "--protocol"], options];
        let mut found = Vec::new();
        let is_named = (0..3).any(|_| {
            let json = lab.exec("h1", &send.concat()).json();
            found.push(limit(&json));
            expected.contains(&found.last().unwrap().0.as_str())
        });
        signal("-TERM", receiver);
        if !is_named && found.iter().all(is_processor) {
            return testing::skip(testing::Missing::QuietMachine, format_args!("{options:?}: {found:?}"));
        }
        assert!(is_named, "{options:?}{loss}: {found:?}");
    }
}
