//! Flows of which nothing arrives, and why: a run that gives 0 b/s names the cause, or is not sound.

use net::PipeSpec;
use scenario::{Flow, Kind, PathMtu, Scenario};
use schema::{FlowSummary, RunSummary};
use units::Time;

/// A connection needs so many round trips before its first data is read.
const ROUND_TRIPS_TO_CONNECT: u64 = 3;

/// Says of each flow whose packets are too large for its path that they are, and of each flow that delivered nothing why. A flow
/// that delivered nothing for no known reason makes the run unsound.
pub fn explain(scenario: &Scenario, summary: &mut RunSummary) {
    for flow in &scenario.flows {
        let Some(result) = summary.flows.iter_mut().find(|result| result.name == flow.name) else { continue };
        let is_empty = delivered_nothing(flow, result);
        if let Some((sentence, remedy)) = black_hole(scenario, flow) {
            result.evidence.insert(0, sentence);
            result.remedy = Some(remedy);
        }
        if !is_empty || summary.partial {
            continue;
        }
        let name = &flow.name;
        match cause(scenario, flow) {
            Some(cause) => summary.quality.notes.push(format!("flow {name} delivered nothing: {cause}")),
            None => {
                let note = format!("flow {name} delivered nothing, and nothing in the scenario explains it");
                summary.quality.add_fault(note);
            }
        }
    }
}

fn delivered_nothing(flow: &Flow, result: &FlowSummary) -> bool {
    match flow.kind {
        Kind::Tcp(_) | Kind::Udp(_) | Kind::Xcp(_) => {
            result.bytes.unwrap_or(0) == 0 && result.goodput_bps.unwrap_or(0.0) == 0.0
        }
        Kind::Ping(_) => result.min_rtt_us.is_none(),
    }
}

/// Why nothing of a flow can arrive, as the scenario describes its path.
fn cause(scenario: &Scenario, flow: &Flow) -> Option<String> {
    if let Some((sentence, _)) = black_hole(scenario, flow) {
        return Some(sentence);
    }
    if let Some(link) = down_link(scenario, flow) {
        return Some(format!("link {link} of its path is down"));
    }
    let path = hops(scenario, flow);
    if let Some((link, _)) = path.iter().find(|(_, direction)| direction.loss.mean() >= 1.0) {
        return Some(format!("link {link} of its path loses every packet"));
    }
    let end = flow.stop.unwrap_or(scenario.duration).min(scenario.duration);
    let active = end.0.saturating_sub(flow.start.0);
    if active == 0 {
        return Some("it starts when the run has ended".into());
    }
    let rtt: u64 = path.iter().map(|(_, direction)| direction.delay.0).sum();
    if active < rtt.saturating_mul(ROUND_TRIPS_TO_CONNECT) {
        let (active, rtt) = (Time(active), Time(rtt));
        return Some(format!("it lasts {active}, less than {ROUND_TRIPS_TO_CONNECT} round trips of {rtt}"));
    }
    match &flow.kind {
        Kind::Tcp(tcp) if tcp.reader_stops.is_some_and(|at| at <= flow.start) => {
            Some("its receiver reads nothing (reader_stops)".into())
        }
        _ => None,
    }
}

/// What is to be said where a flow's packets are too large for a link that does not report it, and what helps.
fn black_hole(scenario: &Scenario, flow: &Flow) -> Option<(String, String)> {
    let PathMtu { mtu, black_hole } = scenario.path_mtu(flow)?;
    let hole = black_hole?;
    let search = match flow.kind {
        Kind::Tcp(_) => {
            format!(
                ", or let its TCP search: hosts.{}.sysctl.\"net.ipv4.tcp_mtu_probing\" = \"1\"",
                flow.from
            )
        }
        _ => String::new(),
    };
    let remedy = format!("give {} an MTU of {}{search}", flow.from, hole.mtu);
    Some((hole.sentence(mtu), remedy))
}

/// A link of a flow's path that is down from the start and stays so, in either direction.
pub fn down_link<'a>(scenario: &'a Scenario, flow: &Flow) -> Option<&'a str> {
    [(&flow.from, &flow.to), (&flow.to, &flow.from)].into_iter().find_map(|(from, to)| {
        let hops = scenario.path(from, to)?;
        hops.iter().find_map(|hop| {
            let link = &scenario.links[hop.link];
            let later = link.changes.iter().map(|c| if hop.reversed { &c.backward } else { &c.forward });
            let stays = link.direction(hop.reversed).down && later.clone().all(|direction| direction.down);
            stays.then_some(link.name.as_str())
        })
    })
}

/// The directions of links that data and answers cross.
fn hops<'a>(scenario: &'a Scenario, flow: &Flow) -> Vec<(&'a str, &'a PipeSpec)> {
    let there = scenario.path(&flow.from, &flow.to).unwrap_or_default();
    let back = scenario.path(&flow.to, &flow.from).unwrap_or_default();
    let of = |hop: scenario::Hop| {
        let link = &scenario.links[hop.link];
        (link.name.as_str(), link.direction(hop.reversed))
    };
    there.into_iter().chain(back).map(of).collect()
}
