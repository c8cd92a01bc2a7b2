//! The control connections of perfSONAR's programs (<https://github.com/perfsonar/owamp>, 5.2.3), captured on
//! the loopback interface: `twping -c 2 -i 0.1f -L 1` with twampd, and `owping -c 2 -i 0.1 -L 1` with owampd.
//! The messages of each end are decoded, and encoded as the same bytes.

use stamp::{
    ControlProtocol,
    control::{
        Accept, ClientControl, Command, FetchedSession, Reply, ServerControl, SessionAccepted,
        SessionRequest, Slot, StoppedSender,
    },
    wire::ErrorEstimate,
};

/// Set-Up-Response, Request-TW-Session, Start-Sessions, Stop-Sessions.
const TWAMP_CLIENT: &str = "\
000000010000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
000000000000000000000000000000000000000005040000000000000000000026d426d47f0000010000000000000000\
000000007f000002000000000000000000000000000000000000000000000000000000000000001beeb1ad0bc067dfe3\
000000010000000000000000000000000000000000000000000000000000000000000000020000000000000000000000\
000000000000000000000000000000000000000003000000000000010000000000000000000000000000000000000000\
00000000";

/// Greeting, Server-Start, Accept-Session, Start-Ack.
const TWAMP_SERVER: &str = "\
0000000000000000000000000000000fa1d23c7e953f66c3b05c3d0a24c488dd61a90846b811e1523251ae27b501bb64\
000008000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
eeb1ad07b7399f5d000000000000000000004e6e7f000002eeb1ad0ac06759abecc8edeb000000000000000000000000\
000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000";

/// Set-Up-Response, two Request-Sessions, Start-Sessions, Stop-Sessions, Fetch-Session.
const OWAMP_CLIENT: &str = "\
000000010000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
0000000000000000000000000000000000000000010400010000000100000002240200007f0000010000000000000000\
000000007f0000020000000000000000000000000000000000000000000000000000000000000000eeb1ad0df7fb15b6\
000000010000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
1999999900000000000000000000000000000000010401000000000100000002000026a17f0000020000000000000000\
000000007f0000010000000000000000000000007f000001eeb1ad0d0468b9fd35e0615600000000eeb1ad0df7fb15b6\
000000010000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
199999990000000000000000000000000000000002000000000000000000000000000000000000000000000000000000\
00000000030000000000000100000000000000007f000002eeb1ad0d044449db8ecdb87c000000020000000000000000\
0000000000000000000000000000000000000000040000000000000000000000ffffffff7f000002eeb1ad0d044449db\
8ecdb87c00000000000000000000000000000000";

/// Greeting, Server-Start, two Accept-Sessions, Start-Ack, Stop-Sessions, the fetched session.
const OWAMP_SERVER: &str = "\
000000000000000000000000000000079ab86970e5e1a3055388ba4395cb0b6154330500e74f59845bbc60191207bf60\
000008000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
eeb1ad07b16fc9bc0000000000000000000052567f000002eeb1ad0d044449db8ecdb87c000000000000000000000000\
000000000000000000000000000000000000521f7f000001eeb1ad0d0468b9fd35e06156000000000000000000000000\
000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
030000000000000100000000000000007f000001eeb1ad0d0468b9fd35e0615600000002000000000000000000000000\
000000000000000000000000000000000001000000000002000000000000000200000000000000000000000000000000\
010400010000000100000002240252567f0000010000000000000000000000007f000002000000000000000000000000\
7f000002eeb1ad0d044449db8ecdb87c00000000eeb1ad0df7fb15b60000000100000000000000000000000000000000\
000000000000000000000000000000000000000000000000000000001999999900000000000000000000000000000000\
000000000000000000000000000000000000000000010001eeb1ad0e06938de6eeb1ad0e06978d4fff00000001000100\
01eeb1ad0e529b499deeb1ad0e53657753ff000000000000000000000000000000000000000000000000000000000000";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex.chars().map(|digit| digit.to_digit(16).unwrap()).collect();
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

/// The commands of a client's bytes, which arrive at once.
fn commands(protocol: ControlProtocol, stream: &[u8]) -> Vec<Command> {
    let (mut server, _greeting) = ServerControl::new(protocol, [0; 32]);
    server.receive(stream);
    let mut commands = Vec::new();
    while let Some(command) = server.next_command().unwrap() {
        if command == Command::Start {
            let _ = server.start(Accept::OK);
        }
        commands.push(command);
    }
    commands
}

/// The greeting that a server of ours sends with their challenge and salt. They also offer the modes with
/// keys, and derive keys in more rounds.
fn greeting(protocol: ControlProtocol, stream: &[u8]) -> (ServerControl, Vec<u8>) {
    let (server, mut greeting) = ServerControl::new(protocol, stream[16..48].try_into().unwrap());
    greeting[12..16].copy_from_slice(&stream[12..16]);
    greeting[48..52].copy_from_slice(&2048u32.to_be_bytes());
    (server, greeting)
}

/// When their server started.
fn started(stream: &[u8]) -> u64 {
    u64::from_be_bytes(stream[96..104].try_into().unwrap())
}

#[test]
fn messages_of_the_twamp_client_round_trip() {
    let stream = bytes(TWAMP_CLIENT);
    let commands = commands(ControlProtocol::Twamp, &stream);
    let [Command::SetUp, Command::Request(request, slots), Command::Start, Command::Stop(senders)] =
        &commands[..]
    else {
        panic!("{commands:?}")
    };
    assert_eq!((slots.len(), senders.len()), (0, 0));
    let expected = SessionRequest {
        two_way: true,
        server_sends: false,
        server_receives: false,
        slots: 0,
        packets: 0,
        sender: "127.0.0.1:9940".parse().unwrap(),
        receiver: "127.0.0.2:9940".parse().unwrap(),
        sid: [0; 16],
        padding_bytes: 27,
        start: 0xeeb1_ad0b_c067_dfe3,
        timeout: 1 << 32,
        type_p: 0,
    };
    assert_eq!(*request, expected);
    let mut client = ClientControl::new(ControlProtocol::Twamp);
    let written = [client.set_up(), client.request(*request, &[]), client.start(), client.stop_two_way(1)];
    assert_eq!(written.concat(), stream);
}

#[test]
fn messages_of_the_twamp_server_round_trip() {
    let stream = bytes(TWAMP_SERVER);
    let mut client = ClientControl::new(ControlProtocol::Twamp);
    client.receive(&stream);
    assert_eq!(client.next_reply(), Ok(Some(Reply::Greeting)));
    let _ = client.set_up();
    assert_eq!(client.next_reply(), Ok(Some(Reply::Started)));
    let Command::Request(request, _) = &commands(ControlProtocol::Twamp, &bytes(TWAMP_CLIENT))[1] else {
        panic!()
    };
    let _ = client.request(*request, &[]);
    let sid = bytes("7f000002eeb1ad0ac06759abecc8edeb").try_into().unwrap();
    let accepted = SessionAccepted { accept: Accept::OK, port: 20_078, sid };
    assert_eq!(client.next_reply(), Ok(Some(Reply::Accepted(accepted))));
    let _ = client.start();
    assert_eq!(client.next_reply(), Ok(Some(Reply::TestsStarted)));
    let (mut server, greeting) = greeting(ControlProtocol::Twamp, &stream);
    let written = [greeting, server.started(started(&stream)), accepted.to_bytes(), server.start(Accept::OK)];
    assert_eq!(written.concat(), stream);
}

/// The parts of their OWAMP test: both requests, and what the server sent.
fn owamp() -> (Vec<Command>, Vec<Reply>) {
    let commands = commands(ControlProtocol::Owamp, &bytes(OWAMP_CLIENT));
    let mut client = ClientControl::new(ControlProtocol::Owamp);
    client.receive(&bytes(OWAMP_SERVER));
    let mut replies = vec![client.next_reply().unwrap().unwrap()];
    let mut reply = |client: &mut ClientControl, _message: Vec<u8>| {
        replies.push(client.next_reply().unwrap().expect("a complete message"));
    };
    let message = client.set_up();
    reply(&mut client, message);
    for command in &commands[1..3] {
        let Command::Request(request, slots) = command else { panic!("{command:?}") };
        let message = client.request(*request, slots);
        reply(&mut client, message);
    }
    let message = client.start();
    reply(&mut client, message);
    reply(&mut client, Vec::new());
    let message = client.fetch([0; 16]);
    reply(&mut client, message);
    assert_eq!(client.next_reply(), Ok(None));
    (commands, replies)
}

#[test]
fn messages_of_the_owamp_client_round_trip() {
    let (commands, _) = owamp();
    let [
        Command::SetUp,
        Command::Request(there, slots),
        Command::Request(back, _),
        Command::Start,
        Command::Stop(senders),
        Command::Fetch(fetch),
    ] = &commands[..]
    else {
        panic!("{commands:?}")
    };
    // A tenth of a second.
    assert_eq!(slots[..], [Slot::Exponential(0x1999_9999)]);
    assert_eq!((there.server_receives, there.server_sends, there.packets), (true, false, 2));
    assert_eq!(
        (back.server_receives, back.server_sends, back.sid),
        (false, true, {
            let sid: [u8; 16] = bytes("7f000001eeb1ad0d0468b9fd35e06156").try_into().unwrap();
            sid
        })
    );
    assert_eq!(senders[..], [StoppedSender { sid: fetch.sid, next_sequence: 2, skipped: vec![] }]);
    assert_eq!(fetch.range, (0, u32::MAX));
    let mut client = ClientControl::new(ControlProtocol::Owamp);
    let written = [
        client.set_up(),
        client.request(*there, slots),
        client.request(*back, slots),
        client.start(),
        client.stop_one_way(senders),
        client.fetch(fetch.sid),
    ];
    assert_eq!(written.concat(), bytes(OWAMP_CLIENT));
}

#[test]
fn messages_of_the_owamp_server_round_trip() {
    let (_, replies) = owamp();
    let [
        Reply::Greeting,
        Reply::Started,
        Reply::Accepted(there),
        Reply::Accepted(back),
        Reply::TestsStarted,
        Reply::Stopped(senders),
        Reply::Fetched(fetched),
    ] = &replies[..]
    else {
        panic!("{replies:?}")
    };
    assert_eq!((there.port, back.port), (21_078, 21_023));
    assert_eq!(senders[..], [StoppedSender { sid: back.sid, next_sequence: 2, skipped: vec![] }]);
    let FetchedSession { is_finished: true, next_sequence: 2, request, records, .. } = &**fetched else {
        panic!("{fetched:?}")
    };
    assert_eq!((request.sid, records.len()), (there.sid, 2));
    for (record, sequence) in records.iter().zip(0..) {
        assert_eq!((record.sequence, record.ttl), (sequence, 255));
        assert!(record.sent < record.received && record.sent > request.start, "{record:?}");
        assert_eq!((record.sent_error, record.received_error), (ErrorEstimate(1), ErrorEstimate(1)));
    }
    let stream = bytes(OWAMP_SERVER);
    let (mut server, greeting) = greeting(ControlProtocol::Owamp, &stream);
    let written = [
        greeting,
        server.started(started(&stream)),
        there.to_bytes(),
        back.to_bytes(),
        server.start(Accept::OK),
        server.stopped(senders),
        fetched.to_bytes(),
    ];
    assert_eq!(written.concat(), stream);
}
