//! Another implementation of QUIC at the other end, in both roles: aioquic, a Python package.
//!
//! `LONGFAT_AIOQUIC` names a Python with that package; otherwise `python3` is tried.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Command, Stdio},
};

use quic::{Identity, QuicListener, QuicOptions, QuicStream};
use testing::{Missing, skip};

use crate::loopback::{TIMEOUT, byte_at, no_check, options, read_pattern};

const BYTES: usize = 2_000_000;

/// The other end's program with its arguments; `None` if aioquic is not installed.
fn aioquic(arguments: &[&str]) -> Option<Command> {
    let python = std::env::var_os("LONGFAT_AIOQUIC").unwrap_or("python3".into());
    let found = Command::new(&python).args(["-c", "import aioquic"]).stderr(Stdio::null()).status();
    if !found.is_ok_and(|status| status.success()) {
        skip(Missing::Feature, "neither python3 nor the Python of LONGFAT_AIOQUIC has aioquic");
        return None;
    }
    let mut command = Command::new(python);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/aioquic_peer.py")).args(arguments);
    Some(command)
}

#[test]
fn aioquic_sends_to_this_end() {
    let identity = Identity::generate().unwrap();
    let listener =
        QuicListener::bind("127.0.0.1:0".parse().unwrap(), options(&identity, None, "cubic")).unwrap();
    let port = listener.port().unwrap().to_string();
    let Some(mut command) = aioquic(&["client", &port, &BYTES.to_string()]) else { return };
    let mut child = command.spawn().unwrap();
    let mut stream = listener.accept(TIMEOUT, |_| true, &mut no_check).unwrap();
    read_pattern(&mut stream, BYTES);
    assert_eq!(stream.read(&mut [0], &mut no_check).unwrap(), 0, "the end of the stream");
    stream.write_all(b"whole", &mut no_check).unwrap();
    stream.finish(&mut no_check).unwrap();
    stream.close().unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn aioquic_receives_from_this_end() {
    let directory = tempfile::tempdir().unwrap();
    let Some(mut command) = aioquic(&["server", directory.path().to_str().unwrap(), &BYTES.to_string()])
    else {
        return;
    };
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut port = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let peer = SocketAddr::from(([127, 0, 0, 1], port.trim().parse().unwrap()));
    let certificate = std::fs::read(directory.path().join("certificate.der")).unwrap();
    let identity = Identity::generate().unwrap();
    let options = QuicOptions { peer_certificate: Some(certificate), ..options(&identity, None, "cubic") };
    let mut stream = QuicStream::connect(peer, &options, TIMEOUT, &mut no_check).unwrap();
    let content: Vec<u8> = (0..BYTES).map(byte_at).collect();
    stream.write_all(&content, &mut no_check).unwrap();
    stream.finish(&mut no_check).unwrap();
    let mut reply = [0; 5];
    let mut filled = 0;
    while filled < reply.len() {
        filled += stream.read(&mut reply[filled..], &mut no_check).unwrap();
    }
    assert_eq!(&reply, b"whole");
    stream.close().unwrap();
    assert!(child.wait().unwrap().success());
}
