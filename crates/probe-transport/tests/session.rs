//! A session over loopback: the probe service at the port of an iperf3 server, and at that of a server without it.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use iperf3::{
    Observer, Server, ServerObserver, ServerOptions,
    report::{Report, ServerOutput},
};
use probe_transport::{ProbeService, Session, SessionOptions};
use units::BitRate;

#[derive(Default)]
struct Log(Mutex<Vec<String>>);

struct Quiet;

impl Observer for Quiet {}

impl ServerObserver for Log {
    fn note(&self, text: &str) {
        self.0.lock().unwrap().push(text.into());
    }

    fn begin(&self, _: SocketAddr) -> Box<dyn Observer + '_> {
        Box::new(Quiet)
    }

    fn end(&self, _: SocketAddr, _: &Report, _: Option<&iperf3::Error>) {}

    fn output(&self, _: &Report) -> ServerOutput {
        ServerOutput::Text(String::new())
    }
}

/// Opens a session with this server; returns the path MTU that it found, and the server's log.
fn opened(server: Server) -> (Option<u32>, Vec<String>) {
    let options = SessionOptions {
        host: "127.0.0.1".into(),
        port: server.address().port(),
        ip: None,
        max_rate: BitRate(1_000_000_000),
        mtu: Some(1500),
        timeout: Duration::from_secs(10),
    };
    let (stop, log) = (AtomicBool::new(false), Log::default());
    let mtu = std::thread::scope(|scope| {
        scope.spawn(|| server.run(&stop, &log).unwrap());
        let session = Session::open(&options, &AtomicBool::new(false));
        let mtu = session.ok().and_then(|session| session.path_mtu().mtu_bytes);
        stop.store(true, Ordering::Release);
        mtu
    });
    (mtu, log.0.into_inner().unwrap())
}

fn server() -> Server {
    let options = ServerOptions {
        bind: Some(IpAddr::from([127, 0, 0, 1])),
        port: 0,
        phase_timeout: Duration::from_secs(2),
        ..ServerOptions::default()
    };
    Server::bind(options).unwrap()
}

#[test]
fn a_server_with_the_service_replies_to_probes() {
    let (mtu, log) = opened(server().with_service(Box::new(ProbeService)));
    assert_eq!(mtu, Some(1500));
    assert!(log.iter().any(|line| line.ends_with("path probe started")), "{log:?}");
}

#[test]
fn a_server_without_the_service_rejects_probes() {
    let (mtu, log) = opened(server());
    assert_eq!(mtu, None);
    assert!(!log.iter().any(|line| line.contains("path probe")), "{log:?}");
}
