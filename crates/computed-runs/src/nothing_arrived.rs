//! Flows that deliver nothing: a run with 0 b/s names the cause, or is marked as faulty.

use net::PipeSpec;
use scenario::{FlowKind, FlowSpec, PathMtu, Scenario};
use schema::{EngineName, FlowSummary, RunSummary};
use units::{Instant, Time};

/// Number of round trips until a receiver reads the first data of a connection.
const ROUND_TRIPS_TO_FIRST_DATA: u64 = 3;

/// Adds evidence to flows whose packets are too large for their path, and a note to flows that delivered
/// nothing. A flow that delivered nothing for no known reason adds a fault to the run.
pub fn explain(scenario: &Scenario, summary: &mut RunSummary) {
    for flow in &scenario.flows {
        let Some(result) = summary.flows.iter_mut().find(|result| result.name == flow.name) else { continue };
        let is_silent = delivered_nothing(flow, result);
        if let Some((sentence, remedy)) = black_hole(scenario, flow) {
            result.evidence.insert(0, sentence);
            result.remedy = Some(remedy);
        }
        if !is_silent || summary.partial {
            continue;
        }
        let name = &flow.name;
        // An infinite rate, or a kind of flow or path without a closed form.
        let is_unknown = result.bytes.is_none() && !matches!(flow.kind, FlowKind::Ping(_));
        if is_unknown && summary.engine == EngineName::Model {
            let note = format!("the closed forms have no figure for flow {name} on this path");
            summary.quality.notes.push(note);
            continue;
        }
        match cause(scenario, flow) {
            Some(cause) => summary.quality.notes.push(format!("flow {name} delivered nothing: {cause}")),
            None => {
                let note = format!("flow {name} delivered nothing, and nothing in the scenario explains it");
                summary.quality.add_fault(note);
            }
        }
    }
}

fn delivered_nothing(flow: &FlowSpec, result: &FlowSummary) -> bool {
    match flow.kind {
        FlowKind::Tcp(_)
        | FlowKind::Udp(_)
        | FlowKind::Xcp(_)
        | FlowKind::Udt(_)
        | FlowKind::Tsunami(_)
        | FlowKind::Stream(_)
        | FlowKind::Quic(_) => result.bytes.unwrap_or(0) == 0 && result.goodput_bps.unwrap_or(0.0) == 0.0,
        FlowKind::Ping(_) => result.min_rtt_us.is_none(),
    }
}

/// Why no packet of a flow can arrive, according to the scenario.
fn cause(scenario: &Scenario, flow: &FlowSpec) -> Option<String> {
    if let Some((sentence, _)) = black_hole(scenario, flow) {
        return Some(sentence);
    }
    if let Some(DeadLink { name, state }) = dead_link(scenario, flow) {
        return Some(format!("link {name} on its path {state}"));
    }
    let path = hops(scenario, flow);
    let active = end(scenario, flow).saturating_since(flow.start).as_nanos();
    if active == 0 {
        return Some("it starts after the end of the run".into());
    }
    let rtt: u64 = path.iter().map(|(_, direction)| direction.delay.as_nanos()).sum();
    if active < rtt.saturating_mul(ROUND_TRIPS_TO_FIRST_DATA) {
        let (active, rtt) = (Time::from_nanos(active), Time::from_nanos(rtt));
        return Some(format!(
            "it lasts {active}, less than {ROUND_TRIPS_TO_FIRST_DATA} round trips of {rtt}"
        ));
    }
    match &flow.kind {
        FlowKind::Tcp(tcp) if tcp.reader_stops.is_some_and(|at| at <= flow.start) => {
            Some("its receiver reads nothing (reader_stops)".into())
        }
        _ => None,
    }
}

/// The problem and its remedy if a flow's packets are too large for a link that does not report it (path MTU
/// black hole).
fn black_hole(scenario: &Scenario, flow: &FlowSpec) -> Option<(String, String)> {
    let PathMtu { mtu, black_hole } = scenario.path_mtu(flow)?;
    let hole = black_hole?;
    let probing = match flow.kind {
        FlowKind::Tcp(_) => {
            format!(
                ", or enable its TCP MTU probing: hosts.{}.sysctl.\"net.ipv4.tcp_mtu_probing\" = \"1\"",
                flow.from
            )
        }
        _ => String::new(),
    };
    let remedy = format!("give {} an MTU of {}{probing}", flow.from, hole.mtu);
    Some((hole.sentence(mtu), remedy))
}

/// The end of a flow's time.
fn end(scenario: &Scenario, flow: &FlowSpec) -> Instant {
    flow.stop.unwrap_or(scenario.end()).min(scenario.end())
}

/// A link that passes no packet during the whole time of a flow.
pub struct DeadLink<'a> {
    /// Its name.
    pub name: &'a str,
    /// Why it passes none, as in `is down`.
    pub state: &'static str,
}

/// A dead link on a flow's path, in a direction that the flow needs. Replies need the reverse direction:
/// acknowledgements, echoes, and for datagrams the resolution of addresses.
pub fn dead_link<'a>(scenario: &'a Scenario, flow: &FlowSpec) -> Option<DeadLink<'a>> {
    let has_replies = !scenario.fixed_neighbours || !matches!(flow.kind, FlowKind::Udp(_));
    let reverse = has_replies.then_some((&flow.to, &flow.from));
    [Some((&flow.from, &flow.to)), reverse].into_iter().flatten().find_map(|(from, to)| {
        let hops = scenario.path(from, to)?;
        hops.iter().find_map(|hop| {
            let link = &scenario.links[hop.link];
            let (earlier, later) =
                link.changes.split_at(link.changes.partition_point(|change| change.at <= flow.start));
            let at_start =
                earlier.last().map_or(link.pipe(hop.direction), |change| change.pipe(hop.direction));
            let state = dead_state(at_start)?;
            let mut later = later.iter().take_while(|change| change.at < end(scenario, flow));
            let stays_dead = later.all(|change| dead_state(change.pipe(hop.direction)).is_some());
            stays_dead.then_some(DeadLink { name: &link.name, state })
        })
    })
}

/// Why no packet passes a link's direction; `None` if packets pass it.
fn dead_state(direction: &PipeSpec) -> Option<&'static str> {
    match () {
        () if direction.down => Some("is down"),
        () if direction.loss.mean() >= 1.0 => Some("loses every packet"),
        () if direction.corrupt >= 1.0 => Some("corrupts every packet"),
        () => None,
    }
}

/// The link directions that data and replies cross.
fn hops<'a>(scenario: &'a Scenario, flow: &FlowSpec) -> Vec<(&'a str, &'a PipeSpec)> {
    let forward = scenario.path(&flow.from, &flow.to).unwrap_or_default();
    let reverse = scenario.path(&flow.to, &flow.from).unwrap_or_default();
    let of = |hop: scenario::PathHop| {
        let link = &scenario.links[hop.link];
        (link.name.as_str(), link.pipe(hop.direction))
    };
    forward.into_iter().chain(reverse).map(of).collect()
}
