//! Which measurements are made, one after another, each with what those before it found.

use schema::FlowSample;
use tune::HostFacts;
use units::{BitRate, Time};

use crate::{
    capacity,
    change::Change,
    limit::Ranking,
    losses::{Losses, behind_others_share, queued_share},
    observed::Observed,
    path::{Path, TcpPlan, TcpSeen},
    predict::predict,
    rank::rank,
};

/// An MTU where nothing is known of it.
const MTU: u32 = 1500;

/// Maximum time of the search for packets that are lost by chance: where TCP lost some, and where it did not.
const MAX_LOSS_TIME: Time = Time::from_secs(20);
const MAX_NO_LOSS_TIME: Time = Time::from_secs(10);

/// Connections that are tested together where a path seems slow: beside others' they get more than one does if each is served in turn.
const SEVERAL: u32 = 4;
const SEVERAL_TIME: Time = Time::from_secs(4);

/// What is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The sending host's name.
    pub from: String,
    /// The receiving host's.
    pub to: String,
    /// What the path should carry as goodput, bit/s, and who says so.
    pub expected: Option<(f64, String)>,
    /// Datagrams go no faster than this.
    pub max_rate: BitRate,
    /// Whether any may be sent at all.
    pub datagrams: bool,
    /// IP and UDP headers of a datagram, bytes.
    pub datagram_headers: u32,
    /// Whether the other end may be probed.
    pub probes: bool,
    /// How long the TCP test sends.
    pub time: Time,
    /// The sender's congestion control, where it is not the host's own choice.
    pub congestion: Option<String>,
}

/// Measures a path and says what limits it. `sender` is what was read of the sending host.
///
/// # Errors
/// The first measurement that failed.
pub fn diagnose<P: Path>(
    path: &mut P,
    options: &Options,
    sender: Option<HostFacts>,
) -> Result<(Observed, Ranking), P::Error> {
    path.doing("the round trip, and packets of all sizes");
    let (round_trips, mtu) = path.round_trips_and_mtu()?;
    let mut rtt = round_trips.fastest;
    let route = path.route_mtu().unwrap_or(mtu.device);
    let packet = mtu.passes.unwrap_or(MTU).min(mtu.device).min(route);
    let payload = packet.saturating_sub(options.datagram_headers);
    let mut capacity = None;
    if options.datagrams {
        path.doing(&format!("what the path carries: bursts of datagrams, up to {}", options.max_rate));
        capacity = capacity::find(path, rtt, payload, options.max_rate)?;
        // Connections whose packets stood in the queue have lost some to the burst, and wait.
        rtt = path.round_trip().map_or(rtt, |after| after.min(rtt));
    }
    path.doing(&format!("TCP, for {} s", options.time.as_secs_f64()));
    let (test, rows) = observed(options, sender, rtt, test_tcp(path, options)?);
    let mut seen = Observed { usual_rtt: round_trips.median, mtu, capacity, ..test };
    if options.datagrams && options.probes && seen.receiver.is_some() {
        path.doing(&format!(
            "what other traffic leaves: streams of datagrams, {} within a second at most",
            options.max_rate
        ));
        seen.available = path.available(options.max_rate, seen.mtu.passes)?;
    }
    if seen.is_slow() {
        path.doing(&format!("what {SEVERAL} connections get together"));
        let plan = TcpPlan { time: SEVERAL_TIME, congestion: options.congestion.clone() };
        seen.several = path.several(SEVERAL, &plan)?.map(|bps| (SEVERAL, bps));
    }
    if options.datagrams
        && seen.may_be_policed()
        && let Some(capacity) = &mut seen.capacity
    {
        path.doing("whether the path lets as much pass for longer");
        capacity::later(path, payload, capacity)?;
    }
    seen.behind_others = behind_others(&seen, &rows);
    if let Some((free, share)) = seen.free_bps().zip(seen.share_to_find()).filter(|_| options.datagrams) {
        path.doing("whether packets are lost at half of what is free");
        let max_time = if seen.losses.is_some() { MAX_LOSS_TIME } else { MAX_NO_LOSS_TIME };
        seen.datagrams = capacity::losses(path, free, payload, share, max_time)?;
    }
    let ranking = ranked(path, options, &seen);
    Ok((seen, ranking))
}

/// The limits, and what is gained without each.
fn ranked<P: Path>(path: &mut P, options: &Options, seen: &Observed) -> Ranking {
    let mut ranking = rank(seen);
    if !ranking.healthy {
        path.doing("what is gained without each limit: simulating the path");
    }
    predict(seen, options.time, &mut ranking);
    ranking
}

fn test_tcp<P: Path>(path: &mut P, options: &Options) -> Result<Option<TcpSeen>, P::Error> {
    path.tcp(&TcpPlan { time: options.time, congestion: options.congestion.clone() })
}

fn behind_others(seen: &Observed, rows: &[FlowSample]) -> Option<f64> {
    behind_others_share(rows, seen.base_rtt_us(), seen.carried_bps()?)
}

/// What the TCP test showed, and its samples.
fn observed(
    options: &Options,
    sender: Option<HostFacts>,
    rtt: Time,
    tcp: Option<TcpSeen>,
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
        marked_segs: tcp.rows.iter().filter_map(|row| row.delivered_ce_segs).max().unwrap_or(0).max(0) as u64,
        change: Change::of(&tcp.rows),
        flow: Some(tcp.flow),
        receiver: tcp.receiver,
        sender_busy: tcp.sender_busy,
        receiver_busy: tcp.receiver_busy,
        ..seen
    };
    let queued = queued_share(&tcp.rows, seen.base_rtt_us());
    (Observed { queued, ..seen }, tcp.rows)
}

/// The same path after something was changed: the TCP test again, all other measurements as they were made before the change.
///
/// # Errors
/// Where the test failed.
pub fn again<P: Path>(
    path: &mut P,
    options: &Options,
    before: &Observed,
    sender: HostFacts,
) -> Result<(Observed, Ranking), P::Error> {
    let (test, rows) = observed(options, Some(sender), before.rtt, test_tcp(path, options)?);
    let mut seen = Observed {
        usual_rtt: before.usual_rtt,
        mtu: before.mtu,
        capacity: before.capacity.clone(),
        datagrams: before.datagrams,
        available: before.available.clone(),
        several: before.several,
        ..test
    };
    seen.behind_others = behind_others(&seen, &rows);
    let ranking = ranked(path, options, &seen);
    Ok((seen, ranking))
}
