use std::sync::atomic::AtomicBool;

use super::*;

/// Opens the connections of both ends; those of the sender are to the address that `through` returns for
/// the receiver's.
fn connected(
    numbering: Numbering,
    through: impl FnOnce(SocketAddr) -> SocketAddr,
) -> (TcpStreams, TcpStreams) {
    let stop = AtomicBool::new(false);
    let control = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(control.local_addr().unwrap()).unwrap();
    let mut far = Control::new(control.accept().unwrap().0, &stop).unwrap();
    let mut near = Control::new(near, &stop).unwrap();
    let listener = StreamsListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let to = through(SocketAddr::from(([127, 0, 0, 1], listener.port().unwrap())));
    let key = [b'k'; 64];
    let sender = TcpStreams::connect(to, 8, (&key[..], numbering), &mut near, |_| Ok(())).unwrap();
    let receiver = listener.accept(8, (&key[..], numbering), |_| true, &mut far).unwrap();
    (sender, receiver)
}

#[test]
fn both_ends_number_the_connections_alike() {
    for numbering in [Numbering::Sent, Numbering::ByPort] {
        let (sender, receiver) = connected(numbering, |to| to);
        let address = |stream: &TcpStream| stream.local_addr().unwrap();
        let sent: Vec<SocketAddr> = sender.connections().iter().map(address).collect();
        let peer = |stream: &TcpStream| stream.peer_addr().unwrap();
        let received: Vec<SocketAddr> = receiver.connections().iter().map(peer).collect();
        assert_eq!(sent, received, "{numbering:?}");
    }
}

/// A NAT replaces the sender's ports, so their order is another one at the receiver.
#[test]
fn both_ends_number_the_connections_alike_behind_a_nat() {
    let (sender, receiver) = connected(Numbering::Sent, |to| {
        let outside = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = outside.local_addr().unwrap();
        std::thread::spawn(move || {
            let mut inner: Vec<TcpStream> = (0..8).map(|_| outside.accept().unwrap().0).collect();
            // The outer ports have the opposite order.
            inner.sort_by_key(|stream| stream.peer_addr().unwrap().port());
            let mut outer: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(to).unwrap()).collect();
            outer.sort_by_key(|stream| std::cmp::Reverse(stream.local_addr().unwrap().port()));
            for (mut from, mut to) in inner.into_iter().zip(outer) {
                std::thread::spawn(move || std::io::copy(&mut from, &mut to));
            }
        });
        address
    });
    for (number, mut stream) in (0u8..).zip(sender.connections()) {
        stream.write_all(&[number]).unwrap();
    }
    for (number, stream) in (0u8..).zip(receiver.connections()) {
        stream.set_nonblocking(false).unwrap();
        let (mut stream, mut received) = (stream, [0]);
        stream.read_exact(&mut received).unwrap();
        assert_eq!(received, [number]);
    }
}

#[test]
fn silent_connections_do_not_keep_out_those_of_the_session() {
    let stop = AtomicBool::new(false);
    let control = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(control.local_addr().unwrap()).unwrap();
    let mut far = Control::new(control.accept().unwrap().0, &stop).unwrap();
    let mut near = Control::new(near, &stop).unwrap();
    let listener = StreamsListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let to = SocketAddr::from(([127, 0, 0, 1], listener.port().unwrap()));
    let key = [b'k'; 64];
    let begins = (&key[..], Numbering::Sent);
    let accepted = std::thread::scope(|scope| {
        let accepting = scope.spawn(|| listener.accept(8, begins, |_| true, &mut far));
        let silent: Vec<TcpStream> = (0..MAX_WAITING + 70).map(|_| TcpStream::connect(to).unwrap()).collect();
        let _sender = TcpStreams::connect(to, 8, begins, &mut near, |_| Ok(())).unwrap();
        let accepted = accepting.join().unwrap();
        drop(silent);
        accepted
    });
    assert_eq!(accepted.unwrap().connections().len(), 8);
}

fn arrived() -> ArrivedBlocks {
    ArrivedBlocks { from: 100, bytes: 1000, contiguous: 100, total: 100, later: BTreeMap::new() }
}

#[test]
fn blocks_are_counted_once_and_only_within_the_file() {
    let mut arrived = arrived();
    arrived.insert(200, 50).unwrap();
    arrived.insert(300, 700).unwrap();
    assert_eq!((arrived.contiguous, arrived.total), (100, 850));
    for (offset, length) in [(200, 50), (249, 1), (190, 11), (299, 2), (150, 60), (999, 1), (99, 1)] {
        assert!(arrived.insert(offset, length).is_err(), "{offset} {length}");
    }
    arrived.insert(100, 100).unwrap();
    arrived.insert(250, 50).unwrap();
    assert_eq!((arrived.contiguous, arrived.total), (1000, 1000));
    for (offset, length) in [(99, 1), (999, 2), (u64::MAX, 1)] {
        assert!(arrived.check(offset, length).is_err(), "{offset} {length}");
    }
}

#[test]
fn a_block_is_sent_and_received() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&[7; 300]).unwrap();
    let mut sending = OutgoingBlock::new(200..300);
    let mut file_bytes = 0;
    while !sending.is_sent() {
        file_bytes += sending.send(&stream, &file).unwrap().unwrap();
    }
    // Another file: the socket refers to the pages of the first one.
    let shorter = tempfile::tempfile().unwrap();
    let mut shrunk = OutgoingBlock::new(250..300);
    assert_eq!(shrunk.send(&stream, &shorter).unwrap(), Some(0), "the header");
    assert_eq!(shrunk.send(&stream, &shorter).unwrap(), None);
    drop(stream);
    let mut wire = Vec::new();
    listener.accept().unwrap().0.read_to_end(&mut wire).unwrap();
    assert_eq!((file_bytes, wire.len()), (100, 100 + 2 * HEADER_BYTES));
    assert_eq!(&wire[HEADER_BYTES..][..100], [7; 100]);
    let receiving = IncomingBlock {
        header: wire[..HEADER_BYTES].try_into().unwrap(),
        bytes: AlignedBuffer::default(),
        received: HEADER_BYTES,
    };
    assert_eq!(receiving.header().unwrap(), Some((200, 100)));
    let mut empty = receiving;
    empty.header[8..].fill(0);
    assert!(empty.header().is_err());
}
