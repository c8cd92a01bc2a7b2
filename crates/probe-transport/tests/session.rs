//! A session over loopback: the probe service at the port of an iperf3 server, and at that of a server
//! without it.

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use iperf3::{Server, ServerOptions, TIME_SKEW, Token, TokenGate};
use probe::{RequestResponse, UdpmonGrid, UdpmonPlan};
use probe_transport::{ArrivalStamps, ProbeSecret, ProbeService, Session, SessionOptions};
use testing::iperf3_server::QuietServer;
use units::{BitRate, Time};

/// Opens a session with this server and passes it to `with`; returns the result of `with`, and the server's
/// log.
fn opened<T>(server: Server, with: impl FnOnce(Session) -> T) -> (Option<T>, Vec<String>) {
    opened_with(server, None, with)
}

fn opened_with<T>(
    server: Server,
    secret: Option<ProbeSecret>,
    with: impl FnOnce(Session) -> T,
) -> (Option<T>, Vec<String>) {
    let options = SessionOptions {
        host: "127.0.0.1".into(),
        port: server.address().port(),
        ip: None,
        max_rate: BitRate(1_000_000_000),
        mtu: Some(1500),
        timeout: Duration::from_secs(10),
        secret,
    };
    let (stop, log) = (AtomicBool::new(false), QuietServer::default());
    let result = std::thread::scope(|scope| {
        scope.spawn(|| server.run(&stop, &log).unwrap());
        let session = Session::open(&options, &AtomicBool::new(false));
        let result = session.ok().map(with);
        stop.store(true, Ordering::Release);
        result
    });
    (result, log.into_notes())
}

fn server() -> Server {
    server_with(None)
}

fn server_with(gate: Option<TokenGate>) -> Server {
    let options = ServerOptions {
        gate: gate.map(Arc::new),
        bind: Some(IpAddr::from([127, 0, 0, 1])),
        port: 0,
        phase_timeout: Duration::from_secs(2),
        ..ServerOptions::default()
    };
    Server::bind(options).unwrap()
}

#[test]
fn a_server_with_the_service_replies_to_probes() {
    let mtu = |session: Session| session.path_mtu().mtu_bytes;
    let (mtu, log) = opened(server().with_service(Box::new(ProbeService { secret: None })), mtu);
    assert_eq!(mtu, Some(Some(1500)));
    assert!(log.iter().any(|line| line.ends_with("path probe started")), "{log:?}");
}

#[test]
fn a_server_without_the_service_rejects_probes() {
    let (mtu, log) = opened(server(), drop);
    assert_eq!(mtu, None);
    assert!(!log.iter().any(|line| line.contains("path probe")), "{log:?}");
}

#[test]
fn a_server_with_a_token_serves_probes_with_the_secret_only() {
    let secret = |text: &str| ProbeSecret::new(&text.repeat(20)).unwrap();
    let open = |required: Option<ProbeSecret>, sent: Option<ProbeSecret>| {
        let gate = TokenGate::new(Token::new(b"of iperf3"), TIME_SKEW);
        let server = server_with(Some(gate)).with_service(Box::new(ProbeService { secret: required }));
        opened_with(server, sent, drop).0.is_some()
    };
    assert!(open(Some(secret("a")), Some(secret("a"))));
    assert!(!open(Some(secret("a")), Some(secret("b"))));
    assert!(!open(Some(secret("a")), None));
    assert!(!open(None, None), "nothing authenticates the client");
}

#[test]
fn a_grid_gets_arrivals_and_requests_get_replies() {
    let measure = |mut session: Session| {
        let plan = UdpmonPlan {
            sizes: vec![200, 700, 1500],
            spacings: Some(vec![Time::ZERO, Time::from_nanos(200_000)]),
            packets: 50,
            rounds: 2,
            requests: 5,
            smallest_request: session.smallest_request(),
        };
        let stop = AtomicBool::new(false);
        let mut grid = UdpmonGrid::new(plan.clone(), session.limits());
        let grid = session.run(&mut grid, &stop, &mut |_| {}).unwrap();
        let mut requests = RequestResponse::new(&plan, session.limits(), None);
        let latency = session.request_response(&mut requests, &stop, &mut |_| {}).unwrap();
        let load = session.load();
        (grid, latency, session.arrival_stamps(), load, plan.load())
    };
    let (found, log) = opened(server().with_service(Box::new(ProbeService { secret: None })), measure);
    let (grid, latency, stamps, load, planned) = found.unwrap_or_else(|| panic!("{log:?}"));
    assert_eq!(grid.cells.len(), 6);
    // A busy machine may lose packets, even on loopback.
    for cell in &grid.cells {
        assert_eq!((cell.sent, cell.trains), (100, 2), "{cell:?}");
        assert!(cell.received > 50 && cell.interarrival.total() > 20, "{cell:?}");
    }
    // Sizes of 52, 200, 700 and 1500 bytes, and both kinds of replies.
    assert_eq!(latency.points.len(), 8, "{latency:?}");
    for point in &latency.points {
        assert!(point.sent == 10 && point.received > 5, "{point:?}");
        assert!(0.0 < point.min_us && point.min_us <= point.median_us, "{point:?}");
    }
    // The loopback device has no network card.
    assert_eq!(stamps, ArrivalStamps::Software);
    // The search for the path MTU comes before the grid.
    assert!(load.packets > planned.0 && load.packets < planned.0 + 100, "{load:?} {planned:?}");
}
