//! Peers that send nothing, or arbitrary bytes.

use std::{
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    sync::atomic::AtomicBool,
    time::Duration,
};

use transfer::{Transport, send};

use crate::loopback::{Quiet, Running};

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
