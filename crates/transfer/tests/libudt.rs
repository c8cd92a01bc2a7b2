//! UDT with libudt of Debian at the other end, in both roles.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use bulk::udt::{Config, Daimd};
use testing::{Missing, skip};
use transfer::{UdtListener, UdtStream};

const BYTES: usize = 20_000_000;

fn byte_at(at: usize) -> u8 {
    (at % 251) as u8
}

/// Compiles the other end; `None` if libudt is not installed.
fn program(directory: &Path) -> Option<PathBuf> {
    let program = directory.join("libudt");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/libudt.cpp");
    let output = Command::new("c++").arg("-O1").arg("-o").arg(&program).arg(source).arg("-ludt").output();
    match output {
        Ok(output) if output.status.success() => Some(program),
        Ok(output) => {
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            let is_missing = errors.contains("udt/udt.h") || errors.contains("-ludt");
            assert!(is_missing, "{errors}");
            skip(Missing::Tool, "libudt-dev is not installed");
            None
        }
        Err(error) => {
            skip(Missing::Tool, format!("c++: {error}"));
            None
        }
    }
}

#[test]
fn libudt_sends_to_this_end() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = program(directory.path()) else { return };
    let listener = UdtListener::bind("127.0.0.1:0".parse().unwrap(), Config::default()).unwrap();
    let port = listener.port().unwrap().to_string();
    let mut child = Command::new(program).args(["send", &port, &BYTES.to_string()]).spawn().unwrap();
    let check = &mut || Ok(());
    let mut stream =
        listener.accept(Duration::from_secs(30), |_| true, Box::new(Daimd::new(1)), check).unwrap();
    let (mut at, mut buffer) = (0, vec![0; 65_536]);
    while at < BYTES {
        let count = stream.read(&mut buffer, check).unwrap();
        assert!(count > 0, "closed at {at}");
        for byte in &buffer[..count] {
            assert_eq!(*byte, byte_at(at), "byte {at}");
            at += 1;
        }
    }
    // libudt closes when its data is acknowledged.
    while stream.read(&mut buffer, check).unwrap() > 0 {}
    assert!(child.wait().unwrap().success());
}

#[test]
fn libudt_receives_from_this_end() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = program(directory.path()) else { return };
    let mut child =
        Command::new(program).args(["receive", &BYTES.to_string()]).stdout(Stdio::piped()).spawn().unwrap();
    let mut port = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let peer = format!("127.0.0.1:{}", port.trim()).parse().unwrap();
    let check = &mut || Ok(());
    let mut stream = UdtStream::connect(peer, Config::default(), Box::new(Daimd::new(1)), check).unwrap();
    let content: Vec<u8> = (0..BYTES).map(byte_at).collect();
    stream.write_all(&content, check).unwrap();
    stream.close(check).unwrap();
    assert!(child.wait().unwrap().success());
}
