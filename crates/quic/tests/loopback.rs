//! Connections over loopback.

use std::{
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use quic::{Error, Identity, QuicListener, QuicOptions, QuicStream};
use units::BitRate;

pub const TIMEOUT: Duration = Duration::from_secs(30);
pub const PROTOCOL: &[u8] = b"longfat-test";

pub fn options(identity: &Identity, peer: Option<&Identity>, congestion: &str) -> QuicOptions {
    QuicOptions {
        identity: identity.clone(),
        peer_certificate: peer.map(|peer| peer.certificate().to_vec()),
        protocol: PROTOCOL.to_vec(),
        packet_bytes: 1500,
        congestion: cc::Source::built_in(congestion).unwrap(),
        rate: None,
    }
}

pub fn byte_at(at: usize) -> u8 {
    (at % 251) as u8
}

/// Reads `bytes` bytes of the pattern.
pub fn read_pattern(stream: &mut QuicStream, bytes: usize) {
    let (mut at, mut buffer) = (0, vec![0; 65_536]);
    while at < bytes {
        let most = buffer.len().min(bytes - at);
        let count = stream.read(&mut buffer[..most], &mut no_check).unwrap();
        assert!(count > 0, "the stream ended at {at}");
        for byte in &buffer[..count] {
            assert_eq!(*byte, byte_at(at), "byte {at}");
            at += 1;
        }
    }
}

pub fn no_check() -> Result<(), Error> {
    Ok(())
}

/// A listener's thread: accepts, reads `bytes` bytes of the pattern, and sends them back.
fn echo(
    server: Identity,
    client: Identity,
    congestion: &'static str,
    bytes: usize,
) -> (u16, thread::JoinHandle<()>) {
    let (port_sender, port) = std::sync::mpsc::channel();
    let thread = thread::spawn(move || {
        let options = options(&server, Some(&client), congestion);
        let listener = QuicListener::bind("127.0.0.1:0".parse().unwrap(), options).unwrap();
        port_sender.send(listener.port().unwrap()).unwrap();
        let mut stream = listener.accept(TIMEOUT, |_| true, &mut no_check).unwrap();
        read_pattern(&mut stream, bytes);
        let content: Vec<u8> = (0..bytes).map(byte_at).collect();
        stream.write_all(&content, &mut no_check).unwrap();
        stream.finish(&mut no_check).unwrap();
    });
    (port.recv().unwrap(), thread)
}

/// Sends the pattern to an echo server and reads it back.
fn exchange(port: u16, client: &QuicOptions, bytes: usize) {
    let peer = SocketAddr::from(([127, 0, 0, 1], port));
    let mut stream = QuicStream::connect(peer, client, TIMEOUT, &mut no_check).unwrap();
    let content: Vec<u8> = (0..bytes).map(byte_at).collect();
    stream.write_all(&content, &mut no_check).unwrap();
    read_pattern(&mut stream, bytes);
    assert_eq!(stream.read(&mut [0], &mut no_check).unwrap(), 0, "the end of the stream");
    assert!(stream.statistics().sent_packets >= bytes as u64 / 1472);
    stream.close().unwrap();
}

#[test]
fn data_arrives_in_both_directions() {
    let (server, client) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let (port, thread) = echo(server.clone(), client.clone(), "cubic", 3_000_000);
    exchange(port, &options(&client, Some(&server), "bbr"), 3_000_000);
    thread.join().unwrap();
}

/// Forwards datagrams and loses every `lose`th.
fn lossy_relay(to: u16, lose: u32) -> (u16, Arc<AtomicBool>, thread::JoinHandle<()>) {
    let (front, back) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    back.connect(("127.0.0.1", to)).unwrap();
    let port = front.local_addr().unwrap().port();
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let thread = thread::spawn(move || {
        let poll = Some(Duration::from_micros(200));
        front.set_read_timeout(poll).unwrap();
        back.set_read_timeout(poll).unwrap();
        let (mut buffer, mut client, mut count) = ([0; 2048], None, 0u32);
        while !flag.load(Ordering::Acquire) {
            while let Ok((length, from)) = front.recv_from(&mut buffer) {
                client = Some(from);
                count += 1;
                if count % lose != 0 {
                    let _ = back.send(&buffer[..length]);
                }
            }
            while let Ok(length) = back.recv(&mut buffer) {
                count += 1;
                if let (Some(client), true) = (client, count % lose != 0) {
                    let _ = front.send_to(&buffer[..length], client);
                }
            }
        }
    });
    (port, stop, thread)
}

#[test]
fn lost_datagrams_are_repaired_with_each_kind_of_congestion_control() {
    for congestion in ["reno", "cubic", "bbr", "vegas"] {
        let (server, client) = (Identity::generate().unwrap(), Identity::generate().unwrap());
        let (port, thread) = echo(server.clone(), client.clone(), congestion, 300_000);
        let (relay_port, stop, relay) = lossy_relay(port, 37);
        let peer = SocketAddr::from(([127, 0, 0, 1], relay_port));
        let options = options(&client, Some(&server), congestion);
        let mut stream = QuicStream::connect(peer, &options, TIMEOUT, &mut no_check).unwrap();
        let content: Vec<u8> = (0..300_000).map(byte_at).collect();
        stream.write_all(&content, &mut no_check).unwrap();
        read_pattern(&mut stream, 300_000);
        assert!(stream.statistics().lost_packets > 0, "{congestion}");
        // The last acknowledgement for the other end may be lost: that end retransmits its data until this
        // end acknowledges it.
        let begin = Instant::now();
        while !thread.is_finished() && begin.elapsed() < TIMEOUT {
            stream.serve(Duration::from_millis(20)).unwrap();
        }
        thread.join().unwrap();
        stop.store(true, Ordering::Release);
        relay.join().unwrap();
    }
}

#[test]
fn a_rate_limit_is_not_exceeded() {
    let (server, client) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let (port, thread) = echo(server.clone(), client.clone(), "cubic", 1_000_000);
    let options = QuicOptions { rate: Some(BitRate(8_000_000)), ..options(&client, Some(&server), "cubic") };
    let begin = Instant::now();
    exchange(port, &options, 1_000_000);
    assert!(begin.elapsed() >= Duration::from_millis(950), "{:?}", begin.elapsed());
    thread.join().unwrap();
}

#[test]
fn each_end_accepts_only_the_expected_certificate() {
    let (server, client) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let other = Identity::generate().unwrap();
    let (port, thread) = echo(server.clone(), client.clone(), "cubic", 1000);
    let peer = SocketAddr::from(([127, 0, 0, 1], port));
    // The client refuses the server.
    let expects_other = options(&client, Some(&other), "cubic");
    let error = QuicStream::connect(peer, &expects_other, TIMEOUT, &mut no_check).err().unwrap();
    assert!(matches!(error, Error::Connection(_)), "{error}");
    // The server refuses the client; TLS 1.3 reports this after the client's part of the handshake.
    let is_other = options(&other, Some(&server), "cubic");
    let refused = QuicStream::connect(peer, &is_other, TIMEOUT, &mut no_check)
        .and_then(|mut stream| stream.read(&mut [0], &mut no_check).map(|_| ()));
    assert!(matches!(refused, Err(Error::Connection(_))), "{refused:?}");
    // Neither prevents the expected client from connecting.
    exchange(port, &options(&client, Some(&server), "cubic"), 1000);
    thread.join().unwrap();
}

#[test]
fn connecting_to_an_unused_port_times_out() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (server, client) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let options = options(&client, Some(&server), "cubic");
    let timeout = Duration::from_millis(300);
    let error = QuicStream::connect(silent.local_addr().unwrap(), &options, timeout, &mut no_check).err();
    assert!(matches!(error, Some(Error::Timeout { .. })), "{error:?}");
}
