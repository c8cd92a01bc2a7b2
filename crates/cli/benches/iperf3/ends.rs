//! Runs the ends of a test, of iperf3 and of longfat, as processes in the two namespaces.

use std::{
    net::{Ipv4Addr, UdpSocket},
    process::{Child, Command, Stdio},
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use lab::baseline::VethPair;
use traffic::{
    Stop,
    udp::{
        ArrivalTimes, NumberWidth, ReceiveBuffer, Receiver, Sender, SenderOptions, SentCounts,
        SharedStatistics,
    },
};
use units::BitRate;

use crate::{BLOCK, Flood, SECONDS, process};

const LEFT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const RIGHT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// Destination port of the data, for both programs.
pub const PORT: u16 = 5201;

/// Runs as one end of longfat's test, if the command line requests it. Returns whether it did.
pub fn run_as_child(arguments: &[String]) -> bool {
    match arguments.first().map(String::as_str) {
        Some("receiver") => receive(),
        Some("sender") => send(arguments.get(1).and_then(|rate| rate.parse().ok())),
        _ => return false,
    }
    true
}

fn receive() {
    let socket = UdpSocket::bind((RIGHT, PORT)).expect("the socket can be bound");
    socket.connect((LEFT, PORT)).expect("the socket can be connected");
    let (stop, tally) = (Stop::default(), SharedStatistics::new(NumberWidth::Bits64));
    let receiver = Receiver::new(socket, ArrivalTimes::Coalesced, ReceiveBuffer::Wide)
        .expect("the receiver can be created");
    std::thread::scope(|scope| {
        let receiving = scope.spawn(|| receiver.run(&stop, &tally));
        std::thread::sleep(Duration::from_secs(SECONDS.into()) + Duration::from_millis(700));
        stop.set();
        receiving.join().expect("no panic").expect("the receiver succeeds");
    });
    println!("{}", tally.lock().counts.received);
}

fn send(rate_mbps: Option<u64>) {
    let socket = UdpSocket::bind((LEFT, PORT)).expect("the socket can be bound");
    socket.connect((RIGHT, PORT)).expect("the socket can be connected");
    let rate = rate_mbps.map(|rate| BitRate(rate * 1_000_000));
    let options = SenderOptions { block: BLOCK, rate, ..SenderOptions::default() };
    let (stop, sent) = (Stop::default(), SentCounts::default());
    let sender = Sender::new(socket, &options);
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| sender.run(&stop, &sent));
        std::thread::sleep(Duration::from_secs(SECONDS.into()));
        stop.set();
        sending.join().expect("no panic").expect("the sender succeeds");
    });
    println!("{}", sent.datagrams.load(Ordering::Relaxed));
}

/// Starts one end of longfat's test in this thread's namespace.
fn start_own_end(arguments: &[&str]) -> Child {
    let program = std::env::current_exe().expect("this program has a path");
    Command::new(program).args(arguments).stdout(Stdio::piped()).spawn().expect("the program can be started")
}

pub fn longfat_flood(pair: &VethPair) -> Flood {
    let (sender, receiver) = longfat(pair, &["sender"]);
    Flood {
        sent: last_number(&sender.stdout),
        received: last_number(&receiver.stdout),
        sender_cpu_s: sender.cpu_s,
        receiver_cpu_s: receiver.cpu_s,
    }
}

/// The sender's processor time, seconds.
pub fn longfat_paced(pair: &VethPair, rate_mbps: u32) -> f64 {
    longfat(pair, &["sender", &rate_mbps.to_string()]).0.cpu_s
}

fn longfat(pair: &VethPair, sender: &[&str]) -> (process::FinishedProcess, process::FinishedProcess) {
    let receiver = pair.right(|| start_own_end(&["receiver"])).expect("the namespace exists");
    wait_for_port(pair, "udp");
    let sender = pair.left(|| start_own_end(sender)).expect("the namespace exists");
    let ended = |child| process::wait(child).expect("both ends of longfat succeed");
    (ended(sender), ended(receiver))
}

fn last_number(text: &str) -> f64 {
    text.lines().last().and_then(|line| line.parse().ok()).unwrap_or_else(|| panic!("no number: {text}"))
}

pub fn iperf3_flood(pair: &VethPair) -> Flood {
    let (client, server) = iperf3(pair, "0");
    let json: serde_json::Value = serde_json::from_str(&client.stdout).expect("iperf3 writes JSON");
    let figure = |name: &str| json["end"]["sum"][name].as_f64().unwrap_or_else(|| panic!("{json}"));
    let sent = figure("packets");
    Flood {
        sent,
        received: sent - figure("lost_packets"),
        sender_cpu_s: client.cpu_s,
        receiver_cpu_s: server.cpu_s,
    }
}

/// The sender's processor time, seconds.
pub fn iperf3_paced(pair: &VethPair, rate_mbps: u32) -> f64 {
    iperf3(pair, &format!("{rate_mbps}M")).0.cpu_s
}

/// Client and server of one UDP test.
fn iperf3(pair: &VethPair, rate: &str) -> (process::FinishedProcess, process::FinishedProcess) {
    let block = BLOCK.to_string();
    client_and_server(pair, Program::Iperf3, &["-u", "-b", rate, "-l", &block])
}

/// The program whose client and server run.
#[derive(Debug, Clone, Copy)]
pub enum Program {
    Iperf3,
    Longfat,
}

impl Program {
    fn start(self, server: bool, arguments: &[&str]) -> Child {
        let mut command = match self {
            Program::Iperf3 => Command::new("iperf3"),
            Program::Longfat => Command::new(env!("CARGO_BIN_EXE_longfat")),
        };
        match (self, server) {
            (Program::Iperf3, true) => command.args(["-s", "-1"]),
            (Program::Longfat, true) => command.args(["serve", "-1"]),
            (Program::Iperf3, false) => command.arg("-c"),
            (Program::Longfat, false) => command.args(["test", "--no-record"]),
        };
        command
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program can be started")
    }
}

/// Client and server of one test with these flags.
pub fn client_and_server(
    pair: &VethPair,
    program: Program,
    flags: &[&str],
) -> (process::FinishedProcess, process::FinishedProcess) {
    run_test(pair, program, flags, 3)
}

/// Runs client and server, up to `attempts` times: if a datagram of iperf3's UDP handshake is lost, both ends
/// hang.
fn run_test(
    pair: &VethPair,
    program: Program,
    flags: &[&str],
    attempts: u32,
) -> (process::FinishedProcess, process::FinishedProcess) {
    let server = pair.right(|| program.start(true, &[])).expect("the namespace exists");
    wait_for_port(pair, "tcp6");
    let (seconds, address) = (SECONDS.to_string(), RIGHT.to_string());
    let arguments = [&[&address, "-t", &seconds, "-J"], flags].concat();
    let client = pair.left(|| program.start(false, &arguments)).expect("the namespace exists");
    let client = process::wait(client);
    match (client, process::wait(server)) {
        (Some(client), Some(server)) => (client, server),
        _ if attempts > 1 => {
            println!("({program:?} hung; trying again)");
            run_test(pair, program, flags, attempts - 1)
        }
        _ => panic!("{program:?} does not work here"),
    }
}

/// Waits until a socket in the namespace `right` listens at the port (TCP) or is bound to it (UDP).
fn wait_for_port(pair: &VethPair, table: &str) {
    let path = format!("/proc/thread-self/net/{table}");
    let until = Instant::now() + Duration::from_secs(10);
    let found = || {
        let table = pair.right(|| std::fs::read_to_string(&path)).expect("the namespace exists");
        let has_port = |line: &str| {
            let arguments: Vec<&str> = line.split_whitespace().collect();
            // 0A is TCP_LISTEN. Closed connections (TIME_WAIT) keep the port for a while. UDP sockets have
            // another state.
            let [_, local, _, state, ..] = arguments[..] else { return false };
            local.ends_with(&format!(":{PORT:04X}")) && (state == "0A" || path.ends_with("udp"))
        };
        table.is_ok_and(|table| table.lines().any(has_port))
    };
    while !found() {
        assert!(Instant::now() < until, "no socket has port {PORT}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
