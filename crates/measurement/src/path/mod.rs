//! A path between this host and another, measured for a diagnosis: [`MeasuredPath`] implements
//! [`diagnosis::Path`] by echo requests, tests with `longfat serve` or an iperf3 server, and probes.

mod available;
mod datagrams;
mod diagnosed;
pub mod echoes;
mod error;
mod mtu;
mod series;

use std::net::{IpAddr, SocketAddr};

use diagnosis::{Burst, DatagramPlan, Mtu, Path, RoundTrips, TcpPlan, TcpResult};
use iperf3::{
    report::{Amount, Interval, Protocol},
    reverse::{LISTEN, STANDBY_TIMEOUT},
};
use probe::AvailableBandwidthResult;
use units::{BitRate, Time};

use self::series::PathTest;
pub use self::{
    available::probe_available,
    diagnosed::{Diagnosis, DiagnosisRequest, Plan, RemedyElsewhere, diagnose, plan},
    error::Error,
    series::{Peer, TestSeries},
};

/// Echo requests for the round-trip times without load: spread over two seconds, so that queues of other
/// traffic show.
const ECHOES: u32 = 20;

/// Receives the progress of measurements.
pub trait Progress {
    /// A sentence for the user: what is measured next, or what could not be measured.
    fn note(&mut self, text: &str);

    /// A report interval of a running test has ended.
    fn interval(&mut self, interval: &Interval);
}

/// The path to a host that runs `longfat serve` or an iperf3 server.
pub struct MeasuredPath<'a> {
    /// How tests are run, and their records.
    pub tests: TestSeries<'a>,
    /// The address of the other end.
    pub address: IpAddr,
    /// The MTU of the outgoing device.
    pub device_mtu: u32,
}

impl<'a> MeasuredPath<'a> {
    /// The path to the peer of `tests`.
    ///
    /// # Errors
    /// If the peer's name resolves to no address, or no server connects to this machine.
    pub fn new(tests: TestSeries<'a>) -> Result<Self, Error> {
        let Peer { host, port, .. } = &tests.peer;
        let address = match host.as_str() {
            LISTEN => iperf3::reverse::listener(*port)
                .and_then(|listener| listener.server(STANDBY_TIMEOUT, &tests.stop))
                .map_err(|source| Error::Test { host: host.clone(), source })?,
            name => echoes::address(name)?,
        };
        Ok(MeasuredPath { tests, address, device_mtu: diagnosed::DEFAULT_DEVICE_MTU })
    }
}

impl Path for MeasuredPath<'_> {
    type Error = Error;

    fn report_step(&mut self, what: &str) {
        self.tests.progress.note(what);
    }

    /// Measures round trips and the MTU by echo requests. Without the privilege to send them, the time to
    /// connect is used, and packet sizes remain unknown.
    fn round_trips_and_mtu(&mut self) -> Result<(RoundTrips, Mtu), Error> {
        let unknown = Mtu { device: self.device_mtu, passes: None };
        match echoes::round_trips(self.address, ECHOES) {
            Ok(times) => {
                let mtu = mtu::find(self.address, self.device_mtu, times.min).unwrap_or(unknown);
                Ok((times, mtu))
            }
            Err(error) => {
                self.report_step(&format!("{error}; using the time to connect instead"));
                let Peer { host, port, .. } = &self.tests.peer;
                let rtt = echoes::connect_time(self.address, *port).map_err(|reason| Error::Connect {
                    host: host.clone(),
                    port: *port,
                    reason,
                })?;
                Ok((RoundTrips { min: rtt, median: None }, unknown))
            }
        }
    }

    fn round_trip(&mut self) -> Option<Time> {
        echoes::round_trip(self.address).ok()
    }

    fn route_mtu(&mut self) -> Option<u32> {
        traffic::path_mtu::route_mtu(SocketAddr::new(self.address, 0)).ok()
    }

    fn datagrams(&mut self, plan: &DatagramPlan) -> Result<Option<Burst>, Error> {
        match datagrams::send(&mut self.tests, plan) {
            Err(error) if !matches!(error, Error::Interrupted) => {
                // The other measurements remain useful.
                self.report_step(&format!("{}; continuing without it", experiment::error::chain(&error)));
                Ok(None)
            }
            sent => sent,
        }
    }

    fn tcp(&mut self, plan: &TcpPlan) -> Result<Option<TcpResult>, Error> {
        let done = self.tests.run(&tcp_test(1, plan))?;
        Ok(done.and_then(|done| {
            Some(TcpResult {
                flow: done.record.run.flows.into_iter().next()?,
                rows: done.record.rows,
                receiver: done.peer_host,
                sender_busy: done.busy,
                receiver_busy: done.peer_busy,
            })
        }))
    }

    fn parallel_goodput(&mut self, connections: u32, plan: &TcpPlan) -> Result<Option<f64>, Error> {
        let done = self.tests.run(&tcp_test(connections, plan))?;
        let flows = done.map(|done| done.record.run.flows).unwrap_or_default();
        let goodput_bps = flows.iter().map(|flow| flow.steady_or_overall_goodput_bps().unwrap_or(0.0)).sum();
        Ok(Some(goodput_bps).filter(|_| !flows.is_empty()))
    }

    fn available(
        &mut self,
        max_rate: BitRate,
        mtu: Option<u32>,
    ) -> Result<Option<AvailableBandwidthResult>, Error> {
        available::measure(&mut self.tests, max_rate, mtu)
    }
}

fn tcp_test(streams: u32, plan: &TcpPlan) -> PathTest {
    PathTest {
        protocol: Protocol::Tcp,
        streams,
        amount: Amount::Time(plan.time.to_duration()),
        rate: None,
        block: None,
        is_even: false,
        congestion: plan.congestion.clone(),
        part_of: None,
    }
}
