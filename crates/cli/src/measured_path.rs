//! The path between this host and another as a diagnosis measures it.

use std::{net::IpAddr, time::Duration};

use diagnosis::{Burst, DatagramPlan, Mtu, Path, RoundTrips, TcpPlan, TcpSeen};
use perf::report::{Amount, Protocol};
use probe::AvailableAnswer;
use units::{BitRate, Time};

use crate::{
    exit::Exit,
    output, path_available, path_datagrams, path_facts, path_mtu,
    path_test::{PathTest, Tests},
};

/// Echoes for the round trips without load: over two seconds, so that others' queues show.
const ECHOES: u32 = 20;

/// The path to the other end of some tests.
pub struct MeasuredPath<'a> {
    /// How tests are run, and their records.
    pub tests: Tests<'a>,
    /// The other end.
    pub address: IpAddr,
    /// The MTU of the device that leads there.
    pub device_mtu: u32,
}

impl Path for MeasuredPath<'_> {
    type Error = anyhow::Error;

    fn doing(&mut self, what: &str) {
        output::note(&format!("longfat: {what}"));
    }

    /// By echoes; where those may not be sent, by connecting, and nothing is known of sizes.
    fn round_trips_and_mtu(&mut self) -> anyhow::Result<(RoundTrips, Mtu)> {
        let unknown = Mtu { device: self.device_mtu, passes: None };
        match path_facts::round_trips(self.address, ECHOES) {
            Ok(times) => {
                let mtu = path_mtu::find(self.address, self.device_mtu, times.fastest).unwrap_or(unknown);
                Ok((times, mtu))
            }
            Err(why) => {
                self.doing(&format!("{why}; taking how long a connection needs instead"));
                let Tests { host, port, .. } = self.tests;
                let rtt = path_facts::connect_time(self.address, port).map_err(|error| {
                    Exit::Failed(format!(
                        "cannot connect to {host} at port {port}: {error}; is longfat serve running there?"
                    ))
                })?;
                Ok((RoundTrips { fastest: rtt, median: None }, unknown))
            }
        }
    }

    fn round_trip(&mut self) -> Option<Time> {
        path_facts::round_trip(self.address).ok()
    }

    fn route_mtu(&mut self) -> Option<u32> {
        perf::probe::route_mtu(self.address).ok()
    }

    fn datagrams(&mut self, plan: &DatagramPlan) -> anyhow::Result<Option<Burst>> {
        match path_datagrams::send(&mut self.tests, plan) {
            Err(error) if !is_interrupted(&error) => {
                // What else is measured is worth its while.
                self.doing(&format!("{error:#}; going on without it"));
                Ok(None)
            }
            sent => sent,
        }
    }

    fn tcp(&mut self, plan: &TcpPlan) -> anyhow::Result<Option<TcpSeen>> {
        let done = self.tests.run(&tcp_test(1, plan))?;
        Ok(done.and_then(|done| {
            Some(TcpSeen {
                flow: done.kept.run.flows.into_iter().next()?,
                rows: done.kept.rows,
                receiver: done.peer,
                sender_busy: done.busy,
                receiver_busy: done.peer_busy,
            })
        }))
    }

    fn several(&mut self, connections: u32, plan: &TcpPlan) -> anyhow::Result<Option<f64>> {
        let done = self.tests.run(&tcp_test(connections, plan))?;
        let flows = done.map(|done| done.kept.run.flows).unwrap_or_default();
        let got = flows.iter().map(|flow| flow.steady_or_overall_goodput_bps().unwrap_or(0.0)).sum();
        Ok(Some(got).filter(|_| !flows.is_empty()))
    }

    fn available(&mut self, most: BitRate, mtu: Option<u32>) -> anyhow::Result<Option<AvailableAnswer>> {
        path_available::find(&self.tests, most, mtu)
    }
}

fn is_interrupted(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Exit::Interrupted))
}

fn tcp_test(streams: u32, plan: &TcpPlan) -> PathTest {
    PathTest {
        protocol: Protocol::Tcp,
        streams,
        amount: Amount::Time(Duration::from_nanos(plan.time.0)),
        rate: None,
        block: None,
        is_even: false,
        congestion: plan.congestion.clone(),
    }
}
