//! For the benchmark: sends UDP packets of one size from the first host to the second, as fast as one thread
//! can.

use std::{
    net::UdpSocket,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::channel,
    },
    time::{Duration, Instant},
};

use net::{Direction, Network, PipeId};
use scenario::Scenario;
use units::Time;

use crate::{
    Backend, Error,
    buffers::Buffers,
    capture::Captures,
    clock::{Clock, RunTime, TimeMode},
    driver::{Driver, Shared},
    error::Attempted,
    frame::Frame,
    processors::{Placement, move_to},
    run::Lab,
};

/// Result of a flood, over the measured span.
#[derive(Debug, Clone, Copy)]
pub struct Flood {
    /// Packets per second that the program sent.
    pub sent_pps: f64,
    /// Packets per second that the first link forwarded.
    pub carried_pps: f64,
    /// The rate on that link in bit/s, overhead included.
    pub carried_bps: f64,
}

/// Floods the first link's forward direction with packets of `ip_bytes` (28 at least) for `span`, after half
/// a second of warm-up.
///
/// # Errors
/// If the lab cannot be created or the scenario does not have two hosts.
pub fn udp_flood(
    scenario: &Scenario,
    backend: Backend,
    ip_bytes: usize,
    span: Duration,
) -> Result<Flood, Error> {
    let lab = Lab::build(scenario, backend)?;
    let [from, to] = &lab.hosts[..] else {
        return Err(Error::Emulator("a flood needs two hosts".into()));
    };
    let network: Network<Frame> = engine_common::build_network(scenario)?;
    let pipe = PipeId { link: 0, direction: Direction::Forward };
    let buffers = Buffers::for_links(&scenario.links);
    let time = RunTime::begin(TimeMode::Real);
    let placement = Placement::choose(true);
    let (_command_sender, commands) = channel();
    let driver = Driver {
        network,
        ports: &lab.ports,
        sampled: vec![pipe],
        interval: Time::from_millis(10),
        clock: Clock::new(time.clone(), &scenario.links),
        buffers,
        placement: placement.clone(),
        may_spin: true,
        commands,
        captures: Captures::new(time.clone()),
    };
    let shared = Arc::new(Shared::default());
    let over = AtomicBool::new(false);
    let (sender, rows) = channel();
    let bind =
        |address: std::net::IpAddr| UdpSocket::bind((address, 5000)).attempted(|| "bind a UDP socket".into());
    let source = from.namespace.run(|| bind(from.address))?;
    let sink = to.namespace.run(|| bind(to.address))?;
    source.connect((to.address, 5000)).attempted(|| "connect a UDP socket".into())?;
    sink.set_read_timeout(Some(Duration::from_millis(50))).attempted(|| "use a UDP socket".into())?;
    let payload = vec![0u8; ip_bytes.saturating_sub(28)];
    let cpus = placement.flows;
    let (first, last, sent) = std::thread::scope(|scope| {
        let (shared, over, cpus) = (&shared, &over, &cpus);
        let driving = scope.spawn(move || driver.run(shared, &sender));
        scope.spawn(move || {
            move_to(cpus.as_deref());
            let mut buffer = [0u8; 65_536];
            while !over.load(Ordering::Relaxed) {
                let _ = sink.recv(&mut buffer);
            }
        });
        let sending = scope.spawn(move || {
            move_to(cpus.as_deref());
            let mut sent = 0u64;
            while !over.load(Ordering::Relaxed) {
                // A datagram that the device does not accept is not counted.
                sent += u64::from(source.send(&payload).is_ok());
            }
            sent
        });
        std::thread::sleep(Duration::from_millis(500));
        let mut first = None;
        let (began, since) = (Instant::now(), time.now());
        while began.elapsed() < span {
            std::thread::sleep(Duration::from_millis(5));
            for row in rows.try_iter() {
                if row.at >= since {
                    first.get_or_insert((row.at, row.counters[0]));
                }
            }
        }
        over.store(true, Ordering::Relaxed);
        let last = rows.recv().ok().map(|row| (row.at, row.counters[0]));
        let sent = sending.join().unwrap_or(0);
        shared.stop.store(true, Ordering::Relaxed);
        let _ = driving.join();
        (first, last, sent)
    });
    let (Some((t0, a)), Some((t1, b))) = (first, last) else {
        return Err(Error::Emulator("it returned no samples".into()));
    };
    let seconds = t1.since(t0).as_nanos() as f64 * 1e-9;
    Ok(Flood {
        sent_pps: sent as f64 / (span.as_secs_f64() + 0.5),
        carried_pps: (b.sent_packets - a.sent_packets) as f64 / seconds,
        carried_bps: (b.sent_bytes - a.sent_bytes) as f64 * 8.0 / seconds,
    })
}
