//! iperf3's options for unattended use, and tests that send and receive files.

use crate::common;
use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::Command,
    time::Duration,
};

use common::{
    TestDir, binary, eventually,
    iperf3::{Running, document, free_port, has_iperf3, wait_for_listener},
};

/// 20 MB without repetition.
fn noise() -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let word = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 32) as u32
    };
    std::iter::repeat_with(word).take(5_000_000).flat_map(u32::to_le_bytes).collect()
}

fn one_off_server(program: &str, port: u16, file: &Path) -> Running {
    let mut command = Command::new(program);
    command.args(if program == "iperf3" { ["-s", "-1"] } else { ["serve", "-1"] });
    let process = Running::start(command.args(["-p", &port.to_string(), "-F"]).arg(file));
    wait_for_listener(port);
    process
}

#[test]
fn files_arrive_complete_in_both_directions() {
    let (test_dir, noise) = (TestDir::new(""), noise());
    let (here, there) = (test_dir.path("here"), test_dir.path("there"));
    fs::write(&here, &noise).unwrap();
    for zero_copy in [false, true] {
        let (port, _) = (free_port(), fs::remove_file(&there));
        let server = one_off_server(binary(), port, &there);
        let mut client = test_dir.longfat(&["test", "127.0.0.1", "--no-record", "-J", "-F"]);
        client.arg(&here).args(["-p", &port.to_string()]).args(zero_copy.then_some("-Z"));
        let report = document("a file", &client.output().unwrap());
        let file = &report["end"]["streams"][0]["diskfile"];
        assert_eq!((&file["sent"], &file["size"]), (&noise.len().into(), &noise.len().into()), "{file}");
        assert_eq!(
            (&file["received"], &file["percent_received"]),
            (&noise.len().into(), &100.into()),
            "{file}"
        );
        let served = server.output();
        assert!(served.status.success(), "{served:?}");
        assert!(fs::read(&there).unwrap() == noise, "the received file differs (zero copy: {zero_copy})");
    }
    fs::remove_file(&there).unwrap();
    let port = free_port();
    let _server = one_off_server(binary(), port, &here);
    let mut client = test_dir.longfat(&["test", "127.0.0.1", "--no-record", "-J", "-R", "-t", "2", "-F"]);
    let report =
        document("a file back", &client.arg(&there).args(["-p", &port.to_string()]).output().unwrap());
    assert_eq!(report["end"]["streams"][0]["diskfile"]["received"], noise.len());
    assert!(fs::read(&there).unwrap() == noise);
}

#[test]
fn files_are_sent_to_iperf3_and_received_from_it() {
    if !has_iperf3() {
        return;
    }
    let (test_dir, noise) = (TestDir::new(""), noise());
    let (here, there) = (test_dir.path("here"), test_dir.path("there"));
    fs::write(&here, &noise).unwrap();
    let port = free_port();
    let server = one_off_server("iperf3", port, &there);
    let mut client = test_dir.longfat(&["test", "127.0.0.1", "--no-record", "-J", "-F"]);
    let output = client.arg(&here).args(["-p", &port.to_string()]).output().unwrap();
    let report = document("to iperf3", &output);
    assert_eq!(report["end"]["streams"][0]["diskfile"]["sent"], noise.len(), "{report}");
    let served = server.output();
    assert!(served.status.success(), "{served:?}");
    // The client gives iperf3's server time to read. If that was too short, the client reports it and fails.
    let arrived = fs::read(&there).unwrap();
    assert!(!arrived.is_empty() && noise.starts_with(&arrived), "{} bytes", arrived.len());
    let stderr = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => assert_eq!(arrived.len(), noise.len(), "{stderr}"),
        false => assert!(arrived.len() < noise.len() && stderr.contains("incomplete"), "{stderr}"),
    }
    let port = free_port();
    let server = one_off_server(binary(), port, &there);
    let sent = Command::new("iperf3")
        .args(["-c", "127.0.0.1", "-p", &port.to_string(), "-F"])
        .arg(&here)
        .output()
        .unwrap();
    assert!(sent.status.success(), "{sent:?}");
    let served = server.output();
    assert!(served.status.success(), "{served:?}");
    // Only the length is compared: iperf3 3.12's client reorders the parts of a block if its socket accepts
    // the block in two parts.
    assert_eq!(fs::metadata(&there).unwrap().len(), noise.len() as u64);
}

/// A server that closes its streams as soon as it receives TEST_END, as iperf3's does, with half of the file
/// unread.
#[test]
fn an_incompletely_received_file_is_an_error() {
    let (test_dir, noise) = (TestDir::new(""), noise());
    fs::write(test_dir.path("here"), &noise).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let serving = std::thread::spawn(move || {
        let mut control = listener.accept().unwrap().0;
        let read = |control: &mut TcpStream, len: usize| {
            let mut bytes = vec![0; len];
            control.read_exact(&mut bytes).unwrap();
            bytes
        };
        let message = |control: &mut TcpStream| {
            let header = read(control, 4).try_into().unwrap();
            read(control, u32::from_be_bytes(header) as usize)
        };
        control.read_exact(&mut [0; 37]).unwrap();
        control.write_all(&[9]).unwrap();
        message(&mut control);
        control.write_all(&[10]).unwrap();
        let mut stream = listener.accept().unwrap().0;
        stream.read_exact(&mut [0; 37]).unwrap();
        control.write_all(&[1, 2]).unwrap();
        // All data is acknowledged, but not read.
        std::io::copy(&mut (&mut stream).take(20_000_000), &mut std::io::sink()).unwrap();
        control.read_exact(&mut [0]).unwrap();
        control.write_all(&[13]).unwrap();
        message(&mut control);
        let results = br#"{"cpu_util_total":0,"cpu_util_user":0,"cpu_util_system":0,"sender_has_retransmits":-1,"streams":
            [{"id":1,"bytes":10000000,"retransmits":-1,"jitter":0,"errors":0,"packets":0,"start_time":0,"end_time":1.5}]}"#;
        control.write_all(&(results.len() as u32).to_be_bytes()).unwrap();
        control.write_all(results).unwrap();
        control.write_all(&[14]).unwrap();
        control.read_exact(&mut [0]).unwrap();
    });
    let ran = test_dir.run(&["test", "127.0.0.1", "-p", &port, "--no-record", "-F", "here"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stderr.contains("received 10000000 of 20000000 bytes"), "{ran:?}");
    serving.join().unwrap();
}

#[test]
fn a_background_server_is_ready_or_reports_the_reason() {
    let test_dir = TestDir::new("");
    let (pid, log) = (test_dir.path("pid"), test_dir.path("log"));
    let port = free_port().to_string();
    let background = ["serve", "-D", "-p", &port, "--timestamps=at %Y: ", "-I"];
    let mut command = test_dir.longfat(&background);
    let begun = command.arg(&pid).arg("--logfile").arg(&log).output().unwrap();
    assert!(begun.status.success() && begun.stdout.is_empty(), "{begun:?}");
    let process: u32 = fs::read_to_string(&pid).unwrap().trim().parse().unwrap();

    let again = test_dir.longfat(&["serve", "-D", "-p", &port]).output().unwrap();
    let why = String::from_utf8_lossy(&again.stderr).into_owned();
    assert_eq!(again.status.code(), Some(1), "{why}");
    assert!(why.contains("Address already in use"), "{why}");

    let tested =
        test_dir.run(&["test", "127.0.0.1", "-p", &port, "-t", "0.2", "--no-record", "--timestamps=now "]);
    assert!(tested.code == 0, "{tested:?}");
    assert!(tested.stdout.lines().all(|line| line.starts_with("now ")), "{tested:?}");

    assert!(Command::new("kill").arg(process.to_string()).status().unwrap().success());
    assert!(eventually(|| !pid.exists()), "the server ends orderly");
    let log = fs::read_to_string(&log).unwrap();
    assert!(log.starts_with("longfat: listening on"), "{log}");
    assert!(log.lines().any(|line| line.starts_with("at 2") && line.contains("receiver")), "{log}");
}

#[test]
fn contradictory_options_are_refused_before_connecting() {
    let test_dir = TestDir::new("");
    let missing = test_dir.run(&["test", "127.0.0.1", "-p", "1", "-F", "none"]);
    assert!(missing.code == 2 && missing.stderr.contains("cannot open none"), "{missing:?}");
    let invalid = test_dir.run(&["test", "127.0.0.1", "-p", "1", "--timestamps=%Q%"]);
    assert!(invalid.code == 2 && invalid.stderr.contains("--timestamps"), "{invalid:?}");
    let both = test_dir.run(&["test", "127.0.0.1", "--bidir", "-F", "none"]);
    assert_eq!(both.code, 2, "{both:?}");
    // A server that cannot write the file fails the test, and continues to serve.
    let port = free_port();
    let server =
        Running::start(Command::new(binary()).args(["serve", "-p", &port.to_string(), "-F", "/none/none"]));
    wait_for_listener(port);
    for _ in 0..2 {
        let failed = test_dir.run(&["test", "127.0.0.1", "-p", &port.to_string(), "-t", "1", "--no-record"]);
        assert_eq!(failed.code, 1, "{failed:?}");
    }
    std::thread::sleep(Duration::from_millis(50));
    server.interrupt();
    let stderr = String::from_utf8_lossy(&server.output().stderr).into_owned();
    assert!(stderr.contains("cannot create /none/none"), "{stderr}");
}
