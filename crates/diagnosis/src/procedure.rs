//! The measurements of a diagnosis, one after another; each uses the results of those before it.

use schema::FlowSample;
use tune::HostFacts;
use units::{BitRate, Time};
use verdict::StartOfFlow;

use crate::{
    capacity,
    change::{Change, Variation},
    limit::Ranking,
    losses::{Losses, behind_others_share, queued_share},
    observed::{Observed, marked_segs},
    path::{Path, TcpPlan, TcpResult},
    predict::predict,
    rank::rank,
};

/// MTU if unknown, bytes.
const DEFAULT_MTU: u32 = 1500;

/// Maximum duration of the measurement of random loss: if TCP lost packets, and if it did not.
const MAX_LOSS_TIME: Time = Time::from_secs(20);
const MAX_NO_LOSS_TIME: Time = Time::from_secs(10);

/// Number of parallel connections that test a slow path for fair queueing: with it, they are faster than one
/// connection.
const PARALLEL_CONNECTIONS: u32 = 4;
const PARALLEL_TIME: Time = Time::from_secs(4);

/// Options of a diagnosis.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Name of the sending host.
    pub from: String,
    /// Name of the receiving host.
    pub to: String,
    /// Expected goodput of the path, bit/s, and the source of the expectation.
    pub expected: Option<(f64, String)>,
    /// Maximum rate of datagrams.
    pub max_rate: BitRate,
    /// Whether bursts of datagrams are permitted.
    pub datagrams: bool,
    /// IP and UDP headers of a datagram, bytes.
    pub datagram_headers: u32,
    /// Whether probe sessions are permitted.
    pub probes: bool,
    /// Duration of the TCP test.
    pub time: Time,
    /// The sender's congestion control; `None`: the host's default.
    pub congestion: Option<String>,
}

/// Maximum load of the first measurements of a diagnosis. Later measurements depend on their results, and
/// send less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Rate of the fastest burst of datagrams; `None` if none are sent.
    pub datagram_rate: Option<BitRate>,
    /// All bursts together, bytes.
    pub datagram_bytes: u64,
    /// Duration of the TCP test.
    pub tcp_time: Time,
    /// Bytes that the TCP test sends at the expected rate; `None` without an expectation.
    pub tcp_bytes: Option<u64>,
}

impl Options {
    /// The load on the path.
    pub fn load(&self) -> Load {
        let datagram_rate = self.datagrams.then_some(self.max_rate);
        Load {
            datagram_rate,
            datagram_bytes: datagram_rate.map_or(0, capacity::max_burst_bytes),
            tcp_time: self.time,
            tcp_bytes: self.expected.as_ref().map(|(bps, _)| (bps / 8.0 * self.time.as_secs_f64()) as u64),
        }
    }
}

/// Measures a path and ranks its limits. `sender`: the settings of the sending host.
///
/// # Errors
/// The first measurement that failed.
pub fn diagnose<P: Path>(
    path: &mut P,
    options: &Options,
    sender: Option<HostFacts>,
) -> Result<(Observed, Ranking), P::Error> {
    path.report_step("measuring the round-trip time and the path MTU");
    let (round_trips, mtu) = path.round_trips_and_mtu()?;
    let mut rtt = round_trips.min;
    let route = path.route_mtu().unwrap_or(mtu.device);
    let packet = mtu.passes.unwrap_or(DEFAULT_MTU).min(mtu.device).min(route);
    let payload = packet.saturating_sub(options.datagram_headers);
    let mut capacity = None;
    if options.datagrams {
        path.report_step(&format!(
            "measuring the capacity by bursts of datagrams, up to {}",
            options.max_rate
        ));
        capacity = capacity::measure(path, rtt, payload, options.max_rate)?;
        // Other connections have reduced their rate after the burst: the queue is shorter now.
        rtt = path.round_trip().map_or(rtt, |after| after.min(rtt));
    }
    path.report_step(&format!("testing TCP for {} s", options.time.as_secs_f64()));
    let (test, rows) = observed(options, sender, rtt, test_tcp(path, options)?);
    let mut seen = Observed { median_rtt: round_trips.median, mtu, capacity, ..test };
    if options.datagrams && options.probes && seen.receiver.is_some() {
        path.report_step(&format!(
            "measuring the available bandwidth by streams of datagrams, at most {} over any second",
            options.max_rate
        ));
        seen.available = path.available(options.max_rate, seen.mtu.passes)?;
    }
    if seen.is_slow() {
        path.report_step(&format!("testing {PARALLEL_CONNECTIONS} parallel connections"));
        let plan = TcpPlan { time: PARALLEL_TIME, congestion: options.congestion.clone() };
        seen.parallel =
            path.parallel_goodput(PARALLEL_CONNECTIONS, &plan)?.map(|bps| (PARALLEL_CONNECTIONS, bps));
    }
    if options.datagrams
        && seen.may_be_policed()
        && let Some(capacity) = &mut seen.capacity
    {
        path.report_step("testing for a policer by a longer burst");
        capacity::measure_long_overload(path, payload, capacity)?;
    }
    seen.behind_others = behind_others(&seen, &rows);
    if let Some((free, share)) = seen.safe_bps().zip(seen.loss_rate_to_find()).filter(|_| options.datagrams) {
        path.report_step("measuring random loss by datagrams, at a rate that overflows no queue");
        let max_time = if seen.losses.is_some() { MAX_LOSS_TIME } else { MAX_NO_LOSS_TIME };
        seen.datagrams = capacity::measure_loss(path, free, payload, share, max_time)?;
    }
    let ranking = ranked(path, options, &seen);
    Ok((seen, ranking))
}

/// The ranked limits, with the gain of removing each.
fn ranked<P: Path>(path: &mut P, options: &Options, seen: &Observed) -> Ranking {
    let mut ranking = rank(seen);
    if !ranking.healthy {
        path.report_step("simulating the path to predict the gain of removing each limit");
    }
    predict(seen, options.time, &mut ranking);
    ranking
}

fn test_tcp<P: Path>(path: &mut P, options: &Options) -> Result<Option<TcpResult>, P::Error> {
    path.tcp(&TcpPlan { time: options.time, congestion: options.congestion.clone() })
}

fn behind_others(seen: &Observed, rows: &[FlowSample]) -> Option<f64> {
    behind_others_share(rows, seen.base_rtt_us(), seen.capacity_bps()?)
}

/// The observations of the TCP test, and its samples.
fn observed(
    options: &Options,
    sender: Option<HostFacts>,
    rtt: Time,
    tcp: Option<TcpResult>,
) -> (Observed, Vec<FlowSample>) {
    let seen = Observed {
        from: options.from.clone(),
        to: options.to.clone(),
        expected: options.expected.clone(),
        sender,
        rtt,
        ..Observed::default()
    };
    let Some(tcp) = tcp else { return (seen, Vec::new()) };
    let seen = Observed {
        losses: Losses::of(&tcp.rows),
        marked_segs: marked_segs(&tcp.rows),
        start: StartOfFlow::of(&tcp.rows.iter().collect::<Vec<_>>()),
        change: Change::of(&tcp.rows),
        variation: Variation::of(&tcp.rows),
        flow: Some(tcp.flow),
        receiver: tcp.receiver,
        sender_busy: tcp.sender_busy,
        receiver_busy: tcp.receiver_busy,
        ..seen
    };
    let queued = queued_share(&tcp.rows, seen.base_rtt_us());
    (Observed { queued, ..seen }, tcp.rows)
}

/// Diagnoses the path again after a change: repeats the TCP test and keeps all other measurements.
///
/// # Errors
/// If the test failed.
pub fn repeat<P: Path>(
    path: &mut P,
    options: &Options,
    before: &Observed,
    sender: HostFacts,
) -> Result<(Observed, Ranking), P::Error> {
    let (test, rows) = observed(options, Some(sender), before.rtt, test_tcp(path, options)?);
    let mut seen = Observed {
        median_rtt: before.median_rtt,
        mtu: before.mtu,
        capacity: before.capacity.clone(),
        datagrams: before.datagrams,
        available: before.available.clone(),
        parallel: before.parallel,
        ..test
    };
    seen.behind_others = behind_others(&seen, &rows);
    let ranking = ranked(path, options, &seen);
    Ok((seen, ranking))
}
