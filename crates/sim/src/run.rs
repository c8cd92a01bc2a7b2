//! One run from its first event to its last row.

use engine_common::{FlowTotals, sampled_pipes, time_us};
use net::Node;
use scenario::Scenario;
use schema::{Event, EventKind};
use units::{Instant, Time};

use crate::{
    Controllers, Error, HostDefaults, Observer, Outcome, TransmitQueueDrops, UnresolvedDrops,
    engine::{Engine, Traffic},
    neighbours::WaitingDrops,
    recorder::Recorder,
    sample::{SampleState, sample_bulk, sample_datagrams, sample_ping, sample_transfer, sample_xcp},
};

/// Traces are passed to the observer at least this often, which bounds their memory.
const TRACE_INTERVAL: Time = Time::from_millis(10);

/// Simulates a scenario.
///
/// # Errors
/// See [`Error`].
pub fn run(
    scenario: &Scenario,
    defaults: &HostDefaults,
    controllers: &mut dyn Controllers,
    observer: &mut dyn Observer,
) -> Result<Outcome, Error> {
    let sampled = sampled_pipes(scenario);
    let mut recorder = Recorder::new(&sampled, observer);
    let mut engine = Engine::new(scenario, defaults, controllers)?;
    engine.traced = (0..scenario.flows.len()).filter(|i| recorder.is_traced(&scenario.flows[*i])).collect();
    let mut sample_states: Vec<SampleState> = scenario.flows.iter().map(|_| SampleState::default()).collect();
    let mut interrupted = false;
    while !interrupted && engine.flows.iter().any(|flow| !flow.is_over) {
        let now = next_sample_time(scenario, &engine);
        run_until(&mut engine, now, &mut recorder)?;
        for (index, state) in sample_states.iter_mut().enumerate() {
            sample_flow(&mut engine, index, state, &mut recorder);
        }
        if let Some(processing) = &engine.links.arrivals.processing {
            processing.work(now).for_each(|(host, sample)| recorder.add_host(host, sample));
        }
        recorder.add_links(now, |pipe| engine.links.network.sample(pipe, now));
        interrupted = !recorder.report(now, false)?;
    }
    recorder.report(engine.now, true)?;
    let flows = scenario.flows.iter().zip(&sample_states).zip(&mut engine.flows);
    let mut data_segments = 0;
    let flow_totals: Vec<FlowTotals> = flows
        .map(|((spec, state), flow)| {
            let (mut cc, mut bytes, mut playout) = (None, 0, None);
            match &mut flow.traffic {
                Traffic::Tcp(transfer) => {
                    cc = Some(transfer.sender.controller().name().to_owned());
                    bytes = transfer.received();
                    data_segments +=
                        u64::from(transfer.sender.info(engine.now.as_nanos()).data_segs_out_segs);
                }
                Traffic::Udp(udp) => bytes = udp.receiver.counts.bytes,
                Traffic::Xcp(xcp) => bytes = xcp.received,
                Traffic::Bulk(bulk) => {
                    let counts = bulk.receiver.counts();
                    (bytes, playout) = (counts.received_bytes, counts.playout);
                }
                Traffic::None | Traffic::Ping(_) | Traffic::Probes(_) => {}
            }
            let SampleState { started, ended, .. } = *state;
            FlowTotals { name: spec.name.clone(), cc, started, ended, bytes, playout }
        })
        .collect();
    let last = sample_states.iter().filter_map(|state| state.ended).max();
    let end = if interrupted { engine.now } else { last.unwrap_or_default() };
    Ok(Outcome {
        flow_totals,
        link_totals: recorder.link_sampler.totals(),
        hosts: recorder.hosts,
        unresolved: unresolved_drops(&engine),
        transmit_queue_drops: transmit_queue_drops(&engine),
        duration: end.min(scenario.end()).since_origin(),
        interrupted,
        data_segments,
        flows: recorder.flows,
        links: recorder.links,
        events: recorder.events,
    })
}

/// The hosts that dropped packets without a neighbour's address.
fn unresolved_drops(engine: &Engine<'_>) -> Vec<UnresolvedDrops> {
    let stations = engine_common::build_topology(engine.scenario).stations();
    let mut drops: Vec<UnresolvedDrops> = Vec::new();
    for (index, station) in stations.iter().enumerate() {
        let dropped = engine.links.dropped_waiting(index as u32);
        let Node::Host(host) = station.node else { continue };
        if dropped == WaitingDrops::default() {
            continue;
        }
        let name = &engine.scenario.hosts[host as usize].name;
        // The stations of a host follow one another.
        if drops.last().is_none_or(|last| last.host != *name) {
            drops.push(UnresolvedDrops { host: name.clone(), ..UnresolvedDrops::default() });
        }
        if let Some(last) = drops.last_mut() {
            last.queue_full += dropped.queue_full;
            last.no_reply += dropped.no_reply;
        }
    }
    drops
}

/// The hosts whose transmit queues dropped packets.
fn transmit_queue_drops(engine: &Engine<'_>) -> Vec<TransmitQueueDrops> {
    let stations = engine_common::build_topology(engine.scenario).stations();
    let mut drops: Vec<TransmitQueueDrops> = Vec::new();
    for (index, station) in stations.iter().enumerate() {
        let packets = engine.links.dropped_by_queue(index as u32);
        let Node::Host(host) = station.node else { continue };
        if packets == 0 {
            continue;
        }
        let name = &engine.scenario.hosts[host as usize].name;
        // The stations of a host follow one another.
        match drops.last_mut().filter(|last| last.host == *name) {
            Some(last) => last.packets += packets,
            None => drops.push(TransmitQueueDrops { host: name.clone(), packets }),
        }
    }
    drops
}

/// Runs the engine until the next sample and passes traces to the observer.
fn run_until(engine: &mut Engine<'_>, until: Instant, recorder: &mut Recorder<'_>) -> Result<(), Error> {
    if engine.traced.is_empty() {
        return engine.run_until(until);
    }
    let mut rows = Vec::new();
    while engine.now < until {
        engine.run_until(until.min(engine.now.later_by(TRACE_INTERVAL)))?;
        for index in engine.traced.clone() {
            rows.extend(engine.trace(index).map(|trace| trace.rows.drain(..)).into_iter().flatten());
        }
        recorder.report_traces(&mut rows)?;
    }
    Ok(())
}

/// When to sample next: a multiple of the interval, or the end of a flow before that.
pub(crate) fn next_sample_time(scenario: &Scenario, engine: &Engine<'_>) -> Instant {
    let tick = engine.now.next_tick(scenario.sample);
    let active = scenario.flows.iter().zip(&engine.flows).filter(|(_, flow)| !flow.is_over);
    active.map(|(spec, _)| latest_end(scenario, spec)).fold(tick, Instant::min)
}

/// The latest time at which a flow may end.
fn latest_end(scenario: &Scenario, flow: &scenario::FlowSpec) -> Instant {
    flow.stop.unwrap_or(scenario.end()).min(scenario.end())
}

/// Adds a flow's rows and events since its previous sample, and ends the flow if it has finished or its time
/// is over.
pub(crate) fn sample_flow(
    engine: &mut Engine<'_>,
    index: usize,
    state: &mut SampleState,
    recorder: &mut Recorder<'_>,
) {
    let (now, scenario) = (engine.now, engine.scenario);
    let spec = &scenario.flows[index];
    if engine.flows[index].is_over {
        return;
    }
    let event =
        |at: Instant, kind, value| Event { time_us: time_us(at), subject: spec.name.clone(), kind, value };
    let is_time_over = now >= latest_end(scenario, spec);
    let (mut started, mut finished) = (None, None);
    match &mut engine.flows[index].traffic {
        Traffic::None | Traffic::Probes(_) => {}
        Traffic::Tcp(transfer) => {
            let row = sample_transfer(&spec.name, transfer, now, state, &mut recorder.events);
            row.into_iter().for_each(|row| recorder.add_flow(row));
            (started, finished) = (transfer.started, transfer.finished);
        }
        Traffic::Udp(udp) => {
            recorder.add_flow(sample_datagrams(&spec.name, udp, now, state));
            (started, finished) = (Some(spec.start), udp.finished(now));
        }
        Traffic::Xcp(xcp) => {
            let row = sample_xcp(&spec.name, xcp, now, state, &mut recorder.events);
            recorder.add_flow(row);
            (started, finished) = (Some(spec.start), xcp.finished);
        }
        Traffic::Bulk(bulk) => {
            let row = sample_bulk(&spec.name, bulk, now, state, &mut recorder.events);
            row.into_iter().for_each(|row| recorder.add_flow(row));
            (started, finished) = (bulk.started, bulk.finished);
        }
        Traffic::Ping(ping) => {
            sample_ping(&spec.name, ping).for_each(|row| recorder.add_flow(row));
            started = Some(spec.start);
            if ping.is_done(now) || is_time_over {
                finished = Some(now);
                let lost = ping.lost(now).map(|n| event(now, EventKind::PingLost, i64::from(n)));
                recorder.events.extend(lost);
            }
        }
    }
    if state.started.is_none()
        && let Some(at) = started
    {
        state.started = started;
        recorder.events.push(event(at, EventKind::Start, 0));
    }
    if finished.is_some() || is_time_over {
        let ended = finished.unwrap_or(now);
        state.ended = Some(ended);
        recorder.events.push(event(ended, EventKind::Stop, 0));
        engine.end(index);
    }
}
