//! Peers that send nothing, arbitrary bytes, or only some of the messages.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    sync::atomic::AtomicBool,
    thread,
    time::Duration,
};

use transfer::{Error, Transport, send};

use crate::loopback::{Quiet, Running, file, send_quietly};

/// A frame of the control connection.
fn frame(kind: u8, body: &str) -> Vec<u8> {
    let mut frame = (body.len() as u32).to_be_bytes().to_vec();
    frame.push(kind);
    frame.extend_from_slice(body.as_bytes());
    frame
}

/// Reads a frame; returns its body.
fn read_frame(stream: &mut TcpStream) -> String {
    let mut header = [0; 5];
    stream.read_exact(&mut header).unwrap();
    let [a, b, c, d, _] = header;
    let mut body = vec![0; u32::from_be_bytes([a, b, c, d]) as usize];
    stream.read_exact(&mut body).unwrap();
    String::from_utf8(body).unwrap()
}

#[test]
fn silent_and_garbled_peers_block_no_other_peer() {
    let running = Running::start(None);
    let source = tempfile::tempdir().unwrap();
    let path = source.path().join("f");
    std::fs::write(&path, b"content").unwrap();
    let mut silent = Vec::new();
    for i in 0..200u32 {
        let Ok(mut stream) = TcpStream::connect(running.address) else { continue };
        let garbage: Vec<u8> = (0..i * 7).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        // The receiver may have closed the connection.
        let _ = stream.write_all(&garbage);
        if i % 2 == 0 {
            silent.push(stream);
        }
    }
    // An address may have 16 connections without a proof; they time out after 10 s.
    let begin = std::time::Instant::now();
    loop {
        let options = running.options(Transport::Udt);
        match send(std::slice::from_ref(&path), &options, &Quiet::default(), &AtomicBool::new(false)) {
            Ok(_) => break,
            Err(error) => assert!(begin.elapsed() < Duration::from_secs(60), "{error}"),
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(running.directory.path().join("f").exists());
    drop(silent);
}

#[test]
fn an_oversized_message_ends_the_session() {
    let running = Running::start(None);
    let mut stream = TcpStream::connect(running.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(&[0xff, 0xff, 0xff, 0xff, 0]).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let text = String::from_utf8_lossy(&answer);
    assert!(text.contains("failed") && text.contains("4294967295"), "{text}");
    assert_eq!(std::fs::read_dir(Path::new(running.directory.path())).unwrap().count(), 0);
}

#[test]
fn a_sender_that_cannot_read_its_file_sends_no_message_in_place_of_data() {
    let source = tempfile::tempdir().unwrap();
    let path = file(source.path(), "f", 100_000);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let running = Running::start(None);
    let options = transfer::SenderOptions {
        receiver: listener.local_addr().unwrap(),
        ..running.options(Transport::Tcp)
    };
    thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            let hello =
                r#"{"type":"hello","protocol":"longfat-transfer/1","challenge":"00","needs_token":false}"#;
            stream.write_all(&frame(0, hello)).unwrap();
            read_frame(&mut stream);
            stream.write_all(&frame(0, r#"{"type":"ready","proof":null,"key":"00","port":null}"#)).unwrap();
            assert!(read_frame(&mut stream).contains("100000"));
            // The file becomes shorter before the sender reads it.
            std::fs::File::create(&path).unwrap();
            stream.write_all(&frame(0, r#"{"type":"resume","bytes":0,"hash":""}"#)).unwrap();
            assert!(read_frame(&mut stream).contains("begin"));
            let mut data = Vec::new();
            stream.read_to_end(&mut data).unwrap();
            data
        });
        let error = send_quietly(std::slice::from_ref(&path), &options).unwrap_err();
        assert!(matches!(error, Error::Shrunk(_)), "{error}");
        assert_eq!(receiver.join().unwrap(), b"");
    });
}

/// As a sender of SABUL does, whose connection ends with a report.
#[test]
fn a_report_after_the_last_message_does_not_reset_the_connection() {
    let running = Running::start(None);
    let mut stream = TcpStream::connect(running.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let start = r#"{"type":"start","protocol":"longfat-transfer/1","challenge":"00","proof":null,"directory":"",
        "transport":"tcp","mss":1500,"rate_bps":1000}"#;
    let messages = [frame(0, start), frame(0, r#"{"type":"end"}"#), frame(2, "report")];
    stream.write_all(&messages.concat()).unwrap();
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    assert!(String::from_utf8_lossy(&received).contains("ready"));
}
