//! Hosts that send arbitrary datagrams to a listener's port.

use std::{
    net::UdpSocket,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use quic::{Identity, QuicListener, QuicStream};

use crate::loopback::{TIMEOUT, no_check, options};

/// The first datagram of a client with this certificate.
fn initial_datagram(client: &Identity, server: &Identity) -> Vec<u8> {
    let trap = UdpSocket::bind("127.0.0.1:0").unwrap();
    trap.set_read_timeout(Some(TIMEOUT)).unwrap();
    let options = options(client, Some(server), "cubic");
    let timeout = Duration::from_millis(20);
    assert!(QuicStream::connect(trap.local_addr().unwrap(), &options, timeout, &mut no_check).is_err());
    let mut buffer = vec![0; 2048];
    let length = trap.recv(&mut buffer).unwrap();
    buffer.truncate(length);
    buffer
}

/// All replies that arrive, bytes.
fn received_bytes(socket: &UdpSocket) -> usize {
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let mut buffer = [0; 2048];
    std::iter::from_fn(|| socket.recv(&mut buffer).ok()).sum()
}

#[test]
fn replies_to_arbitrary_datagrams_are_no_larger_and_do_not_block_a_client() {
    let (server, client) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let listener =
        QuicListener::bind("127.0.0.1:0".parse().unwrap(), options(&server, Some(&client), "cubic")).unwrap();
    let port = listener.port().unwrap();
    let initial = initial_datagram(&client, &server);
    assert!(initial.len() >= 1200);

    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let attacker = thread::spawn(move || {
        // The datagrams of one source, and all replies to it.
        let send = |datagrams: &[Vec<u8>]| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.connect(("127.0.0.1", port)).unwrap();
            // After the listener has gone, the port is closed.
            let sent: usize = datagrams.iter().filter_map(|datagram| socket.send(datagram).ok()).sum();
            let received = received_bytes(&socket);
            assert!(received <= sent, "{received} bytes for {sent}");
        };
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize
        };
        let mut rounds = 0;
        while rounds < 5 || !flag.load(Ordering::Acquire) {
            let mut datagrams = vec![initial.clone(), Vec::new(), vec![0xc0; 1200], vec![0x40; 100]];
            // An unknown version, truncated copies, and copies with other bytes.
            let mut version = initial.clone();
            version[1..5].copy_from_slice(&[0xfa, 0xce, 0xb0, 0x0c]);
            datagrams.push(version);
            for _ in 0..20 {
                let mut changed = initial.clone();
                changed.truncate(1 + random() % initial.len());
                let at = random() % changed.len();
                changed[at] ^= 1 + (random() % 255) as u8;
                datagrams.push(changed);
                datagrams.push((0..random() % 1500).map(|_| random() as u8).collect());
            }
            // Eight datagrams from each source: the replies to none of the sources may have more bytes than
            // it sent.
            datagrams.chunks(8).for_each(send);
            rounds += 1;
        }
    });

    let connecting = thread::spawn(move || {
        thread::sleep(Duration::from_millis(500));
        let peer = std::net::SocketAddr::from(([127, 0, 0, 1], port));
        let options = options(&client, Some(&server), "cubic");
        let mut stream = QuicStream::connect(peer, &options, TIMEOUT, &mut no_check).unwrap();
        stream.write_all(b"whole", &mut no_check).unwrap();
        stream.finish(&mut no_check).unwrap();
    });
    let mut stream = listener.accept(TIMEOUT, |_| true, &mut no_check).unwrap();
    let (mut buffer, mut filled) = ([0; 16], 0);
    loop {
        match stream.read(&mut buffer[filled..], &mut no_check).unwrap() {
            0 => break,
            count => filled += count,
        }
    }
    assert_eq!(&buffer[..filled], b"whole");
    while !connecting.is_finished() {
        stream.serve(Duration::from_millis(10)).unwrap();
    }
    connecting.join().unwrap();
    stop.store(true, Ordering::Release);
    attacker.join().unwrap();
}
