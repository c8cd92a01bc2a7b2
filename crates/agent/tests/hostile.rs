//! Connections from non-members: silent ones, slow ones, TLS without a certificate and with one of another
//! mesh.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use agent::{Authority, JoinRequest, Members, NewReservation};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use serde_json::{Value, json};

use crate::agents::{Agent, Mesh, TIMEOUT, end, listen, results, wait_for_empty_calendar, wanted};

/// Number of simultaneous hostile connections of each of two kinds: silent and slow.
const EACH: usize = 100;
/// Regular tests at the same time: latency tests in both directions, and throughput tests, each of which
/// needs a separate slot.
const LATENCY_TESTS: usize = 42;
const THROUGHPUT_TESTS: usize = 8;

/// Sends nothing, or a byte of a TLS handshake now and then, until it is closed.
fn hold(address: SocketAddr, is_slow: bool, stop: &AtomicBool) {
    let Ok(mut stream) = TcpStream::connect(address) else {
        return thread::sleep(Duration::from_millis(100));
    };
    stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    // A record of 16,384 bytes that never arrives (RFC 8446 section 5.1).
    let mut bytes = [22, 3, 1, 64, 0].into_iter().chain(std::iter::repeat(0));
    while !stop.load(Ordering::Acquire) {
        if is_slow && stream.write_all(&[bytes.next().unwrap()]).is_err() {
            return;
        }
        match stream.read(&mut [0; 64]) {
            Ok(0) => return,
            Err(error) if !matches!(error.kind(), std::io::ErrorKind::WouldBlock) => return,
            _ => {}
        }
    }
}

/// TLS with the right authority, but without a certificate: whether a frame got a reply.
fn without_certificate(address: SocketAddr, root: &CertificateDer<'static>) -> bool {
    let mut roots = RootCertStore::empty();
    roots.add(root.clone()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"longfat-agent/1".to_vec()];
    let name = ServerName::try_from("a.point").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let Ok(socket) = TcpStream::connect(address) else { return false };
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut stream = StreamOwned::new(connection, socket);
    let frame = br#"{"frame":"hello","members":0}"#;
    let sent = stream.write_all(&(frame.len() as u32).to_be_bytes()).and_then(|()| stream.write_all(frame));
    sent.is_ok() && stream.read(&mut [0; 4]).is_ok_and(|length| length > 0)
}

#[test]
fn hostile_connections_get_no_reply_and_regular_tests_run() {
    let mesh = Mesh::of(&["a", "b"]);
    let _agents: Vec<Agent> = mesh.directories.iter().map(|directory| Agent::start(directory)).collect();
    let [a, b] = [0, 1].map(|index| mesh.client(index));
    let address: SocketAddr = a.status().unwrap().address.parse().unwrap();
    let pem = std::fs::read(mesh.directories[0].join("state/tls/authority.pem")).unwrap();
    let root = CertificateDer::from_pem_slice(&pem).unwrap();
    // Another mesh, whose point has the same name.
    let foreign = tempfile::tempdir().unwrap();
    let (authority, _) = Authority::create(foreign.path(), "a").unwrap();
    Members::of_one("a".into(), "192.0.2.1:4862").write(foreign.path()).unwrap();
    let hour = Duration::from_secs(3600);
    let invitation = authority.invite(foreign.path(), "c", &address.to_string(), hour).unwrap();
    let stop = AtomicBool::new(false);
    let attempts = AtomicUsize::new(0);
    thread::scope(|scope| {
        for number in 0..2 * EACH {
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(Ordering::Acquire) {
                    hold(address, number % 2 == 0, stop);
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Acquire) {
                    assert!(!without_certificate(address, &root));
                    let request = JoinRequest { listen: listen(), address: None };
                    let state = tempfile::tempdir().unwrap();
                    let error = agent::join(&invitation, &request, state.path()).unwrap_err();
                    assert!(!error.to_string().contains("refuses"), "{error}");
                    attempts.fetch_add(2, Ordering::Relaxed);
                }
            });
        }
        // The scope waits for its threads: they must be stopped first if an assertion fails.
        let regular = std::panic::catch_unwind(|| {
            let long = |wanted: NewReservation| NewReservation { within_us: 600_000_000, ..wanted };
            let mut requested = Vec::new();
            for number in 0..LATENCY_TESTS + THROUGHPUT_TESTS {
                let kind = if number < LATENCY_TESTS { "latency" } else { "throughput" };
                let (client, from, to) = if number % 2 == 0 { (&a, "a", "b") } else { (&b, "b", "a") };
                requested.push((client, client.reserve(long(wanted(from, to, kind))).unwrap().id));
            }
            for (client, id) in &requested {
                let over = end(client, id);
                assert_eq!(over.phase, "finished", "{}", over.text);
            }
            // Each exclusive test ran in a separate slot.
            let mut exclusive: Vec<_> = [&a, &b].into_iter().flat_map(results).collect();
            exclusive.retain(|row| row.kind == "throughput");
            exclusive.sort_by(|one, other| (one.start_us, &one.id).cmp(&(other.start_us, &other.id)));
            exclusive.dedup_by(|one, other| one.id == other.id);
            assert_eq!(exclusive.len(), THROUGHPUT_TESTS);
            for pair in exclusive.windows(2) {
                assert!(pair[0].start_us + pair[0].duration_us <= pair[1].start_us, "{pair:?}");
            }
        });
        stop.store(true, Ordering::Release);
        if let Err(panic) = regular {
            std::panic::resume_unwind(panic);
        }
    });
    assert!(attempts.load(Ordering::Relaxed) >= 4);
    [&a, &b].into_iter().for_each(wait_for_empty_calendar);
}

/// Sends frames as a member of the mesh, and reads the replies until one contains `last`.
pub fn send_as(member: &Path, to: SocketAddr, frames: &[Value], last: &str) {
    let read = |file: &str| std::fs::read(member.join("state/tls").join(file)).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&read("authority.pem")).unwrap()).unwrap();
    let chain = vec![CertificateDer::from_pem_slice(&read("point.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(&read("key.pem")).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .unwrap();
    config.alpn_protocols = vec![b"longfat-agent/1".to_vec()];
    let name = ServerName::try_from("a.point").unwrap();
    let socket = TcpStream::connect(to).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut stream = StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), socket);
    for frame in frames {
        let bytes = serde_json::to_vec(frame).unwrap();
        stream.write_all(&(bytes.len() as u32).to_be_bytes()).unwrap();
        stream.write_all(&bytes).unwrap();
    }
    loop {
        let mut header = [0; 4];
        stream.read_exact(&mut header).unwrap();
        let mut reply = vec![0; u32::from_be_bytes(header) as usize];
        stream.read_exact(&mut reply).unwrap();
        if String::from_utf8_lossy(&reply).contains(last) {
            return;
        }
    }
}

#[test]
fn a_member_can_send_results_of_its_own_tests_only() {
    let mesh = Mesh::of(&["a", "b", "c"]);
    let _agent = Agent::start(&mesh.directories[0]);
    let a = mesh.client(0);
    let address: SocketAddr = a.status().unwrap().address.parse().unwrap();
    let requested = a.reserve(NewReservation { within_us: 0, ..wanted("a", "b", "latency") }).unwrap().id;
    assert_eq!(end(&a, &requested).phase, "not_run");
    let now_us = i64::try_from(os::realtime().as_micros()).unwrap();
    let year_us = 366 * 86_400_000_000_i64;
    let row = |id: &str, from: &str, start_us: i64| {
        json!({ "frame": "result", "row": {
            "id": id, "from": from, "to": "a", "kind": "throughput", "task": null, "start_us": start_us, "duration_us": 1_000_000,
            "state": "finished", "reason": null, "goodput_bps": 1e9, "loss_share": 0.0, "min_rtt_us": 1.0, "typical_rtt_us": 1.0,
            "verdict": "path_rate", "evidence": null, "record": "/tmp/x" }})
    };
    let with = |id: &str, member: &str, value: Value| {
        let mut frame = row(id, "b", now_us);
        frame["row"][member] = value;
        frame
    };
    let frames = [
        row("b/1", "c", now_us),
        // Results of tests that others lead, or that a did not request.
        row(&requested, "b", now_us),
        row("a/999", "b", now_us),
        row("b/2", "b", i64::MIN),
        row("b/3", "b", now_us + year_us),
        with("b/4", "kind", "dns".into()),
        with("b/5", "state", "running".into()),
        with("b/6", "verdict", "x\r\nBcc: y".into()),
        with("b/7", "to", "d\r\nBcc: y".into()),
        with("b/8", "reason", "x".repeat(1 << 19).into()),
        row("c/9", "b", now_us),
        row("b/10", "b", now_us),
    ];
    send_as(&mesh.directories[1], address, &frames, "b/10");
    // c leads a test with the number that b has used.
    send_as(&mesh.directories[2], address, &[row("c/9", "c", now_us)], "c/9");
    let rows = results(&a);
    let mut stored: Vec<(&str, &str)> = rows.iter().map(|row| (row.id.as_str(), row.from.as_str())).collect();
    stored.sort_unstable();
    assert_eq!(stored, [(requested.as_str(), "a"), ("b/10", "b"), ("b/8", "b"), ("c/9", "c")]);
    let long = rows.iter().find(|row| row.id == "b/8").unwrap();
    assert!(long.reason.as_ref().unwrap().len() < 10_000);
}
