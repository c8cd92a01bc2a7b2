//! QUIC between hostile hosts: datagrams at its port, and a control connection that an attacker changes.

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
};

use transfer::{Token, Transport};

use crate::loopback::{Running, file, send_quietly};

/// Forwards one control connection; `change` receives each of its JSON messages, of both directions, and
/// returns the message to forward.
pub fn relay(to: SocketAddr, change: impl Fn(String) -> String + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let change: Arc<dyn Fn(String) -> String + Send + Sync> = Arc::new(change);
    thread::spawn(move || {
        let (sender, _) = listener.accept().unwrap();
        let receiver = TcpStream::connect(to).unwrap();
        let forward =
            |mut from: TcpStream, mut to: TcpStream, change: Arc<dyn Fn(String) -> String + Send + Sync>| {
                let mut header = [0; 5];
                while from.read_exact(&mut header).is_ok() {
                    let length = u32::from_be_bytes(header[..4].try_into().unwrap()) as usize;
                    let mut body = vec![0; length];
                    if from.read_exact(&mut body).is_err() {
                        break;
                    }
                    let body = change(String::from_utf8(body).unwrap());
                    let mut frame = (body.len() as u32).to_be_bytes().to_vec();
                    frame.push(header[4]);
                    frame.extend_from_slice(body.as_bytes());
                    if to.write_all(&frame).is_err() {
                        break;
                    }
                }
                // The other end may have closed it.
                let _ = to.shutdown(std::net::Shutdown::Write);
            };
        let back = (receiver.try_clone().unwrap(), sender.try_clone().unwrap());
        let for_back = Arc::clone(&change);
        let backward = thread::spawn(move || forward(back.0, back.1, for_back));
        forward(sender, receiver, change);
        backward.join().unwrap();
    });
    address
}

fn token(directory: &tempfile::TempDir) -> Token {
    let path = directory.path().join("token");
    fs::write(&path, "the secret of both ends").unwrap();
    Token::read(&path).unwrap()
}

#[test]
fn changes_of_the_control_connection_are_detected() {
    let source = tempfile::tempdir().unwrap();
    let path = file(source.path(), "f", 300_000);
    // Each is a message that one end would accept by UDT or TCP.
    let changes: [(&str, &str, &str); 5] = [
        ("\"name\":\"f\"", "\"name\":\"g\"", "confirm"),
        ("\"mode\":", "\"mode\":1", "confirm"),
        ("\"directory\":\"\"", "\"directory\":\"other\"", "token"),
        ("\"certificate\":\"30", "\"certificate\":\"31", "token"),
        ("\"transport\":\"quic\"", "\"transport\":\"tcp\"", "certificate"),
    ];
    for (from, to, reason) in changes {
        let running = Running::start(Some(token(&source)));
        let attacked = relay(running.address, move |message| message.replace(from, to));
        let mut options = running.options(Transport::Quic);
        (options.receiver, options.token) = (attacked, Some(token(&source)));
        let error = send_quietly(std::slice::from_ref(&path), &options).unwrap_err();
        assert!(error.to_string().contains(reason), "{from}: {error}");
        let names: Vec<_> =
            fs::read_dir(running.directory.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        let is_stored = names.iter().any(|name| !name.to_str().unwrap().starts_with('.'));
        assert!(!is_stored, "{from}: {names:?} {error}");
    }
}

#[test]
fn datagrams_of_others_do_not_disturb_a_transfer() {
    let source = tempfile::tempdir().unwrap();
    let path = file(source.path(), "f", 20_000_000);
    let running = Running::start(Some(token(&source)));
    let (port_sender, port) = mpsc::channel();
    let through = relay(running.address, move |message| {
        let json: serde_json::Value = serde_json::from_str(&message).unwrap();
        if json["type"] == "ready" {
            port_sender.send(json["port"].as_u64().unwrap() as u16).unwrap();
        }
        message
    });
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let attacker = thread::spawn(move || {
        let port = port.recv().unwrap();
        let mut state = 1u64;
        let mut sent = 0;
        while !flag.load(Ordering::Acquire) {
            // A new source port each time: the receiver's socket is not yet connected during the handshake.
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            for _ in 0..100 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let length = (state >> 33) as usize % 1500;
                let datagram: Vec<u8> = (0..length).map(|at| (state >> (at % 50)) as u8).collect();
                sent += u32::from(socket.send_to(&datagram, ("127.0.0.1", port)).is_ok());
            }
            thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(sent > 0);
    });
    let mut options = running.options(Transport::Quic);
    (options.receiver, options.token) = (through, Some(token(&source)));
    let result = send_quietly(std::slice::from_ref(&path), &options);
    stop.store(true, Ordering::Release);
    attacker.join().unwrap();
    result.unwrap();
    assert_eq!(fs::read(&path).unwrap(), fs::read(running.directory.path().join("f")).unwrap());
}

#[test]
fn longfats_congestion_controls_can_be_chosen() {
    let source = tempfile::tempdir().unwrap();
    let path = file(source.path(), "f", 3_000_000);
    for name in ["bbr", "reno"] {
        let running = Running::start(None);
        let mut options = running.options(Transport::Quic);
        options.congestion = Some(name.into());
        let reports = send_quietly(std::slice::from_ref(&path), &options).unwrap();
        assert!(reports[0].sent_packets.unwrap() > 2000, "{reports:?}");
        assert_eq!(fs::read(&path).unwrap(), fs::read(running.directory.path().join("f")).unwrap());
    }
    let running = Running::start(None);
    let mut options = running.options(Transport::Quic);
    options.congestion = Some("nothing".into());
    let error = send_quietly(&[path], &options).unwrap_err();
    assert!(error.to_string().contains("cc list"), "{error}");
}
