//! The ends of a test as processes in the two namespaces: iperf3's, and ours.

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
/// Where data goes to, with iperf3 and with ours.
pub const PORT: u16 = 5201;

/// Runs as one of our own ends, where the command line says so.
pub fn run_as_child(words: &[String]) -> bool {
    match words.first().map(String::as_str) {
        Some("receiver") => receive(),
        Some("sender") => send(words.get(1).and_then(|rate| rate.parse().ok())),
        _ => return false,
    }
    true
}

fn receive() {
    let socket = UdpSocket::bind((RIGHT, PORT)).expect("it can be bound");
    socket.connect((LEFT, PORT)).expect("it can be connected");
    let (stop, tally) = (Stop::default(), SharedStatistics::new(NumberWidth::Bits64));
    let receiver =
        Receiver::new(socket, ArrivalTimes::Coalesced, ReceiveBuffer::Wide).expect("it can receive");
    std::thread::scope(|scope| {
        let receiving = scope.spawn(|| receiver.run(&stop, &tally));
        std::thread::sleep(Duration::from_secs(SECONDS.into()) + Duration::from_millis(700));
        stop.set();
        receiving.join().expect("no panic").expect("it receives");
    });
    println!("{}", tally.lock().counts.received);
}

fn send(rate_mbps: Option<u64>) {
    let socket = UdpSocket::bind((LEFT, PORT)).expect("it can be bound");
    socket.connect((RIGHT, PORT)).expect("it can be connected");
    let rate = rate_mbps.map(|rate| BitRate(rate * 1_000_000));
    let options = SenderOptions { block: BLOCK, rate, ..SenderOptions::default() };
    let (stop, sent) = (Stop::default(), SentCounts::default());
    let sender = Sender::new(socket, &options);
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| sender.run(&stop, &sent));
        std::thread::sleep(Duration::from_secs(SECONDS.into()));
        stop.set();
        sending.join().expect("no panic").expect("it sends");
    });
    println!("{}", sent.datagrams.load(Ordering::Relaxed));
}

/// One of our ends in this thread's namespace.
fn own(words: &[&str]) -> Child {
    let program = std::env::current_exe().expect("it has a name");
    Command::new(program).args(words).stdout(Stdio::piped()).spawn().expect("it can be started")
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

fn longfat(pair: &VethPair, sender: &[&str]) -> (process::Ended, process::Ended) {
    let receiver = pair.right(|| own(&["receiver"])).expect("the namespace is there");
    wait_for_port(pair, "udp");
    let sender = pair.left(|| own(sender)).expect("the namespace is there");
    let ended = |child| process::end(child).expect("ours end well");
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
fn iperf3(pair: &VethPair, rate: &str) -> (process::Ended, process::Ended) {
    let block = BLOCK.to_string();
    both(pair, Program::Iperf3, &["-u", "-b", rate, "-l", &block])
}

/// Whose client and server.
#[derive(Debug, Clone, Copy)]
pub enum Program {
    Iperf3,
    Longfat,
}

impl Program {
    fn start(self, server: bool, words: &[&str]) -> Child {
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
        command.args(words).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it can be started")
    }
}

/// Client and server of one test with these flags.
pub fn both(pair: &VethPair, program: Program, flags: &[&str]) -> (process::Ended, process::Ended) {
    tried(pair, program, flags, 3)
}

/// Where a datagram of iperf3's greeting is lost its ends wait for each other for ever, and begin again, up to so many times.
fn tried(pair: &VethPair, program: Program, flags: &[&str], tries: u32) -> (process::Ended, process::Ended) {
    let server = pair.right(|| program.start(true, &[])).expect("the namespace is there");
    wait_for_port(pair, "tcp6");
    let (seconds, address) = (SECONDS.to_string(), RIGHT.to_string());
    let words = [&[&address, "-t", &seconds, "-J"], flags].concat();
    let client = pair.left(|| program.start(false, &words)).expect("the namespace is there");
    let client = process::end(client);
    match (client, process::end(server)) {
        (Some(client), Some(server)) => (client, server),
        _ if tries > 1 => {
            println!("({program:?} hung and begins again)");
            tried(pair, program, flags, tries - 1)
        }
        _ => panic!("{program:?} does not work here"),
    }
}

/// Waits until somebody in the right namespace has the port, of TCP to listen at: connections that are over have it for a while.
fn wait_for_port(pair: &VethPair, table: &str) {
    let path = format!("/proc/thread-self/net/{table}");
    let until = Instant::now() + Duration::from_secs(10);
    let found = || {
        let table = pair.right(|| std::fs::read_to_string(&path)).expect("the namespace is there");
        let has_it = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            // TCP_LISTEN; what a connected socket of datagrams has is no less its own.
            let [_, local, _, state, ..] = words[..] else { return false };
            local.ends_with(&format!(":{PORT:04X}")) && (state == "0A" || path.ends_with("udp"))
        };
        table.is_ok_and(|table| table.lines().any(has_it))
    };
    while !found() {
        assert!(Instant::now() < until, "nobody has port {PORT}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
