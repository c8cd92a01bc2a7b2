//! Both ends of the control protocols joined in memory: the messages of RFC 4656 section 3 and RFC 5357
//! section 3, byte for byte, and as decoded by tshark.

use std::{net::SocketAddr, process::Command as Process};

use proptest::prelude::*;
use stamp::{
    ControlProtocol,
    control::{
        Accept, ClientControl, Command, FetchedSession, PacketRecord, ProtocolError, Reply, ServerControl,
        SessionAccepted, SessionRequest, Slot, StoppedSender,
    },
    wire::{ErrorEstimate, Reply as Reflected, Request},
};

const SID: [u8; 16] = *b"a session's name";

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn two_way() -> SessionRequest {
    SessionRequest {
        two_way: true,
        server_sends: false,
        server_receives: false,
        slots: 0,
        packets: 0,
        sender: at("10.1.2.3:4567"),
        receiver: at("10.4.5.6:7654"),
        sid: [0; 16],
        padding_bytes: 30,
        start: 0x1112_1314_1516_1718,
        timeout: 2 << 32,
        type_p: 46 << 24,
    }
}

fn one_way() -> SessionRequest {
    SessionRequest { two_way: false, server_receives: true, slots: 2, packets: 9, type_p: 0, ..two_way() }
}

fn slots() -> Vec<Slot> {
    vec![Slot::Exponential(1 << 31), Slot::Fixed(7)]
}

/// A connection that is set up. All messages are kept: whether the client sent it, and its bytes.
struct Joined {
    client: ClientControl,
    server: ServerControl,
    messages: Vec<(bool, Vec<u8>)>,
}

impl Joined {
    fn new(protocol: ControlProtocol) -> Self {
        let (server, greeting) = ServerControl::new(protocol, [9; 32]);
        let mut joined = Joined { client: ClientControl::new(protocol), server, messages: Vec::new() };
        assert_eq!(joined.deliver_to_client(greeting), Reply::Greeting);
        let message = joined.client.set_up();
        assert_eq!(joined.deliver_to_server(message), Command::SetUp);
        let message = joined.server.started(77);
        assert_eq!(joined.deliver_to_client(message), Reply::Started);
        joined
    }

    /// Delivers a message byte by byte: it must be read when the last byte arrives, and not before.
    fn deliver_to_server(&mut self, message: Vec<u8>) -> Command {
        for byte in &message {
            assert_eq!(self.server.next_command(), Ok(None));
            self.server.receive(&[*byte]);
        }
        self.messages.push((true, message));
        self.server.next_command().unwrap().expect("a command")
    }

    fn deliver_to_client(&mut self, message: Vec<u8>) -> Reply {
        for byte in &message {
            assert_eq!(self.client.next_reply(), Ok(None));
            self.client.receive(&[*byte]);
        }
        self.messages.push((false, message));
        self.client.next_reply().unwrap().expect("a reply")
    }

    fn start(&mut self) {
        let message = self.client.start();
        assert_eq!(self.deliver_to_server(message), Command::Start);
        let message = self.server.start(Accept::OK);
        assert_eq!(self.deliver_to_client(message), Reply::TestsStarted);
    }
}

fn accepted() -> SessionAccepted {
    SessionAccepted { accept: Accept::OK, port: 8765, sid: SID }
}

/// A complete TWAMP connection.
fn twamp() -> Vec<(bool, Vec<u8>)> {
    let mut joined = Joined::new(ControlProtocol::Twamp);
    let message = joined.client.request(two_way(), &[]);
    assert_eq!(joined.deliver_to_server(message), Command::Request(two_way(), vec![]));
    assert_eq!(joined.deliver_to_client(accepted().to_bytes()), Reply::Accepted(accepted()));
    joined.start();
    let message = joined.client.stop_two_way(1);
    assert_eq!(joined.deliver_to_server(message), Command::Stop(vec![]));
    joined.messages
}

/// A complete OWAMP connection.
fn owamp() -> Vec<(bool, Vec<u8>)> {
    let mut joined = Joined::new(ControlProtocol::Owamp);
    let message = joined.client.request(one_way(), &slots());
    assert_eq!(joined.deliver_to_server(message), Command::Request(one_way(), slots()));
    assert_eq!(joined.deliver_to_client(accepted().to_bytes()), Reply::Accepted(accepted()));
    joined.start();
    let sender = |skipped| StoppedSender { sid: SID, next_sequence: 9, skipped };
    // One, two and no ranges: the padding differs.
    for skipped in [vec![(1, 2)], vec![(1, 2), (4, 4)]] {
        assert_eq!(sender(skipped.clone()).sent(), 7 - skipped.len() as u32 + 1);
        let message = joined.client.stop_one_way(&[sender(skipped.clone()), sender(vec![])]);
        assert_eq!(
            joined.deliver_to_server(message),
            Command::Stop(vec![sender(skipped.clone()), sender(vec![])])
        );
        let message = joined.server.stopped(&[sender(skipped.clone())]);
        assert_eq!(joined.deliver_to_client(message), Reply::Stopped(vec![sender(skipped)]));
        joined.start();
    }
    let message = joined.client.stop_one_way(&[]);
    assert_eq!(joined.deliver_to_server(message), Command::Stop(vec![]));
    let message = joined.client.fetch(SID);
    assert!(matches!(joined.deliver_to_server(message), Command::Fetch(request) if request.sid == SID));
    let record = |sequence| PacketRecord {
        sequence,
        sent_error: ErrorEstimate(0x0102),
        received_error: ErrorEstimate(0x0304),
        sent: 5,
        received: 6,
        ttl: 7,
    };
    for skipped in [vec![], vec![(1, 2)]] {
        let session = FetchedSession {
            is_finished: true,
            next_sequence: 9,
            skipped,
            request: one_way(),
            slots: slots(),
            records: vec![record(3), record(4), record(8)],
        };
        assert_eq!(joined.deliver_to_client(session.to_bytes()), Reply::Fetched(Box::new(session)));
        let _ = joined.client.fetch(SID);
    }
    joined.messages
}

#[test]
fn messages_of_twamp_have_the_layout_of_the_rfc() {
    let messages: Vec<Vec<u8>> = twamp().into_iter().map(|(_, bytes)| bytes).collect();
    let [greeting, set_up, start, request, accept, start_sessions, ack, stop] = &messages[..] else {
        panic!("{messages:?}")
    };
    assert_eq!((greeting.len(), &greeting[12..16], &greeting[16..48]), (64, &[0, 0, 0, 1][..], &[9; 32][..]));
    assert_eq!(greeting[48..52], 1024u32.to_be_bytes());
    assert_eq!((set_up.len(), &set_up[..4]), (164, &[0, 0, 0, 1][..]));
    assert_eq!((start.len(), start[15], start[39]), (48, 0, 77));
    assert_eq!((request.len(), &request[..4]), (112, &[5, 4, 0, 0][..]));
    assert_eq!(request[4..12], [0; 8]);
    assert_eq!(request[12..16], [17, 215, 29, 230]);
    assert_eq!((&request[16..20], &request[32..36]), (&[10, 1, 2, 3][..], &[10, 4, 5, 6][..]));
    assert_eq!(request[64..68], [0, 0, 0, 30]);
    assert_eq!(request[68..76], [0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18]);
    assert_eq!((&request[76..84], &request[84..88]), (&[0, 0, 0, 2, 0, 0, 0, 0][..], &[46, 0, 0, 0][..]));
    assert_eq!((accept.len(), &accept[..4], &accept[4..20]), (48, &[0, 0, 34, 61][..], &SID[..]));
    assert_eq!((start_sessions.len(), start_sessions[0], ack.len(), ack[0]), (32, 2, 32, 0));
    assert_eq!((stop.len(), &stop[..8]), (32, &[3, 0, 0, 0, 0, 0, 0, 1][..]));
}

#[test]
fn messages_of_owamp_have_the_lengths_of_the_rfc() {
    let lengths: Vec<usize> = owamp().iter().map(|(_, bytes)| bytes.len()).collect();
    let set_up = [64, 164, 48];
    // Two slots and their HMAC; a Stop-Sessions of two senders with one and no range, then two and no range.
    let requests = [112 + 3 * 16, 48, 32, 32];
    let stops = [16 + 32 + 32 + 16, 16 + 32 + 16, 32, 32, 16 + 48 + 32 + 16, 16 + 48 + 16, 32, 32, 32];
    // 75 bytes of records take five blocks.
    let fetched = [48, 32 + 112 + 3 * 16 + 16 + 80 + 16, 32 + 112 + 3 * 16 + 16 + 16 + 80 + 16];
    let expected: Vec<usize> = [&set_up[..], &requests, &stops, &fetched].concat();
    assert_eq!(lengths, expected);
}

#[test]
fn each_end_rejects_messages_that_the_other_must_not_send() {
    let mut greeted = ClientControl::new(ControlProtocol::Twamp);
    greeted.receive(&ServerControl::refusing_greeting());
    assert_eq!(greeted.next_reply(), Err(ProtocolError::Unwilling));
    let (_, mut greeting) = ServerControl::new(ControlProtocol::Twamp, [0; 32]);
    greeting[15] = 6;
    let mut greeted = ClientControl::new(ControlProtocol::Twamp);
    greeted.receive(&greeting);
    assert_eq!(greeted.next_reply(), Err(ProtocolError::AuthenticationRequired(6)));

    let mut joined = Joined::new(ControlProtocol::Twamp);
    let _ = joined.client.request(two_way(), &[]);
    joined.client.receive(&SessionAccepted::refused(Accept::TEMPORARY_LIMIT).to_bytes());
    assert_eq!(joined.client.next_reply(), Err(ProtocolError::Refused("the session", Accept(5))));

    let (mut server, _) = ServerControl::new(ControlProtocol::Twamp, [0; 32]);
    server.receive(&[[0, 0, 0, 4].as_slice(), &[0; 160]].concat());
    assert_eq!(server.next_command(), Err(ProtocolError::Mode(4)));
    // Each protocol's own request, the end of no test, and an unknown command.
    for (protocol, command) in [
        (ControlProtocol::Twamp, 1),
        (ControlProtocol::Owamp, 5),
        (ControlProtocol::Twamp, 4),
        (ControlProtocol::Owamp, 3),
        (ControlProtocol::Twamp, 0),
    ] {
        let mut joined = Joined::new(protocol);
        joined.server.receive(&[command]);
        assert_eq!(joined.server.next_command(), Err(ProtocolError::Command(command)));
    }
    let mut testing = Joined::new(ControlProtocol::Owamp);
    testing.start();
    testing.server.receive(&[1]);
    assert_eq!(testing.server.next_command(), Err(ProtocolError::Command(1)));
    // A request that would need too much memory.
    let mut joined = Joined::new(ControlProtocol::Owamp);
    joined.server.receive(&SessionRequest { slots: u32::MAX, ..one_way() }.to_bytes());
    assert_eq!(joined.server.next_command(), Err(ProtocolError::TooMany("slots")));
    let mut testing = Joined::new(ControlProtocol::Owamp);
    testing.start();
    testing.server.receive(&[[3, 0, 0, 0].as_slice(), &[255; 4], &[0; 8]].concat());
    assert_eq!(testing.server.next_command(), Err(ProtocolError::TooMany("senders")));
}

/// An IPv4 packet of TCP (with its sequence and acknowledgement numbers) or UDP, without checksums.
fn packet(client: bool, tcp: Option<(u32, u32)>, ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
    let (from, to) = ([10, 1, 2, 3], [10, 4, 5, 6]);
    let (from, to) = if client { (from, to) } else { (to, from) };
    let [client_port, server_port] = ports.map(u16::to_be_bytes);
    let ports = if client { [client_port, server_port] } else { [server_port, client_port] };
    let mut bytes = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 255, if tcp.is_some() { 6 } else { 17 }, 0, 0];
    bytes.extend([from, to].concat());
    bytes.extend(ports.concat());
    match tcp {
        Some((sequence, acknowledged)) => {
            bytes.extend([sequence.to_be_bytes(), acknowledged.to_be_bytes()].concat());
            bytes.extend([0x50, 0x18, 255, 255, 0, 0, 0, 0]);
        }
        None => bytes.extend([(payload.len() as u16 + 8).to_be_bytes(), [0; 2]].concat()),
    }
    bytes.extend(payload);
    let length = (bytes.len() as u16).to_be_bytes();
    bytes[2..4].copy_from_slice(&length);
    bytes
}

/// A capture file of raw IP packets, one a millisecond.
fn capture(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file: Vec<u8> = [0xa1b2_c3d4u32, 0x0002_0004, 0, 0, 65_535, 101].map(u32::to_be_bytes).concat();
    for (number, packet) in (0u32..).zip(packets) {
        let length = packet.len() as u32;
        file.extend([1, number * 1000, length, length].map(u32::to_be_bytes).concat());
        file.extend(packet);
    }
    file
}

/// tshark, an independent decoder, finds the same fields.
#[test]
fn tshark_reads_our_messages_and_packets() {
    if Process::new("tshark").arg("--version").output().is_err() {
        testing::skip(testing::Missing::Tool, "tshark is not installed");
        return;
    }
    let mut packets = Vec::new();
    let (mut from_client, mut from_server) = (1u32, 1u32);
    let messages = twamp();
    let (before, stop) = messages.split_at(messages.len() - 1);
    for (client, message) in before {
        let (sequence, acknowledged) = match client {
            true => (&mut from_client, from_server),
            false => (&mut from_server, from_client),
        };
        packets.push(packet(*client, Some((*sequence, acknowledged)), [40_000, 862], message));
        *sequence += message.len() as u32;
    }
    let request =
        Request { sequence: 5, stamp: 0xeeac_dcb4_8000_0000, error: ErrorEstimate(0x0155), session: 0 };
    let reflected = Reflected {
        sequence: 6,
        stamp: 0xeeac_dcb5_8000_0000,
        error: ErrorEstimate(0x8123),
        session: 0,
        received: 0xeeac_dcb5_4000_0000,
        request: (5, request.stamp, request.error),
        ttl: 63,
    };
    packets.push(packet(true, None, [4567, 8765], &request.to_bytes(None)));
    packets.push(packet(false, None, [4567, 8765], &reflected.to_bytes(None)));
    packets.push(packet(true, Some((from_client, from_server)), [40_000, 862], &stop[0].1));
    let directory = std::env::temp_dir().join(format!("longfat-twamp-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("twamp.pcap");
    std::fs::write(&file, capture(&packets)).unwrap();
    let fields = [
        "twamp.control.modes",
        "twamp.control.mode",
        "twamp.control.command",
        "twamp.control.accept",
        "twamp.control.ipvn",
        "twamp.control.sender_port",
        "twamp.control.receiver_port",
        "twamp.control.sender_ipv4",
        "twamp.control.receiver_ipv4",
        "twamp.control.padding_length",
        "twamp.control.numsessions",
        "twamp.test.seq_number",
        "twamp.test.sender_seq_number",
        "twamp.test.sender_ttl",
        "twamp.test.error_estimate.multiplier",
        "twamp.test.error_estimate.scale",
        "twamp.test.error_estimate.s",
        "_ws.malformed",
    ];
    let mut command = Process::new("tshark");
    command.arg("-r").arg(&file).args(["-T", "fields", "-E", "separator=;"]);
    let output = command.args(fields.iter().flat_map(|field| ["-e", field])).output().unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text, TSHARK, "{text}");
}

/// A line a packet, in the order of the fields.
const TSHARK: &str = "\
1;;;;;;;;;;;;;;;;;
;1;;;;;;;;;;;;;;;;
;;;0;;;;;;;;;;;;;;
;;5;;4;4567;7654;10.1.2.3;10.4.5.6;30;;;;;;;;
;;;0;;;8765;;;;;;;;;;;
;;2;;;;;;;;;;;;;;;
;;;0;;;;;;;;;;;;;;
;;;;;;;;;;;5;0;0;85,0;1,0;0,0;
;;;;;;;;;;;6;5;63;35,85;1,1;1,0;
;;3;0;;;;;;;1;;;;;;;
";

proptest! {
    /// Messages with changed, removed and added bytes, in every state of both ends.
    #[test]
    fn damaged_messages_cause_no_panic(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
        more in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let messages = [twamp(), owamp()].concat();
        let mut bytes = which.get(&messages).1.clone();
        for (position, byte) in changes {
            let position = position.index(bytes.len());
            bytes[position] = byte;
        }
        stamp::control::fuzz(&bytes);
        bytes.truncate(cut.index(bytes.len()));
        bytes.extend(more);
        stamp::control::fuzz(&bytes);
    }
}
