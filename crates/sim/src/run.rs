//! One run from its first event to its last row.

use scenario::{
    Scenario, plan,
    rows::{FlowEnd, micros},
};
use schema::{Event, EventKind};
use units::Time;

use crate::{
    Controllers, Error, Machine, Observer, Outcome,
    engine::{Engine, Traffic},
    recorder::Recorder,
    sample::{Memory, look_at_ping, look_at_stream, look_at_transfer, look_at_xcp},
};

/// Traces are handed on at least so often, so that they need little memory.
const TRACE_SPAN: Time = Time(10_000_000);

/// Simulates a scenario.
///
/// # Errors
/// See [`Error`].
pub fn run(
    scenario: &Scenario,
    machine: &Machine,
    controllers: &mut dyn Controllers,
    observer: &mut dyn Observer,
) -> Result<Outcome, Error> {
    let sampled = plan::sampled_pipes(scenario);
    let mut recorder = Recorder::new(&sampled, observer);
    let mut engine = Engine::new(scenario, machine, controllers)?;
    engine.traced = (0..scenario.flows.len()).filter(|i| recorder.traces(&scenario.flows[*i])).collect();
    let mut memories: Vec<Memory> = scenario.flows.iter().map(|_| Memory::default()).collect();
    let mut interrupted = false;
    while !interrupted && engine.flows.iter().any(|flow| !flow.over) {
        let look = next_look(scenario, &engine);
        advance(&mut engine, look, &mut recorder)?;
        for (index, memory) in memories.iter_mut().enumerate() {
            look_at(&mut engine, index, memory, &mut recorder);
        }
        recorder.take_links(look, |pipe| engine.wire.network.sample(pipe, look));
        interrupted = !recorder.tell(look, false)?;
    }
    recorder.tell(engine.now, true)?;
    let ends = scenario.flows.iter().zip(&memories).zip(&mut engine.flows);
    let mut data_segments = 0;
    let flow_ends: Vec<FlowEnd> = ends
        .map(|((spec, memory), flow)| {
            let (mut cc, mut bytes) = (None, 0);
            match &mut flow.traffic {
                Traffic::Tcp(transfer) => {
                    cc = Some(transfer.sender.controller().name().to_owned());
                    bytes = transfer.received();
                    data_segments += u64::from(transfer.sender.info(engine.now.0).data_segs_out_segs);
                }
                Traffic::Udp(stream) => bytes = stream.receiver.counts.bytes,
                Traffic::Xcp(xcp) => bytes = xcp.received,
                Traffic::None | Traffic::Ping(_) | Traffic::Probes(_) => {}
            }
            let Memory { started, ended, .. } = *memory;
            FlowEnd { name: spec.name.clone(), cc, started, ended, bytes }
        })
        .collect();
    let last = memories.iter().filter_map(|memory| memory.ended).max();
    let duration = if interrupted { engine.now } else { last.unwrap_or_default() };
    Ok(Outcome {
        flow_ends,
        link_ends: recorder.links_counted.ends(),
        duration: duration.min(scenario.duration),
        interrupted,
        data_segments,
        flows: recorder.flows,
        links: recorder.links,
        events: recorder.events,
    })
}

/// Lets the run go on until a look, and hands on what is traced.
fn advance(engine: &mut Engine<'_>, until: Time, recorder: &mut Recorder<'_>) -> Result<(), Error> {
    if engine.traced.is_empty() {
        return engine.run_until(until);
    }
    let mut rows = Vec::new();
    while engine.now < until {
        engine.run_until(until.min(Time(engine.now.0 + TRACE_SPAN.0)))?;
        for index in engine.traced.clone() {
            rows.extend(engine.trace(index).map(|trace| trace.rows.drain(..)).into_iter().flatten());
        }
        recorder.take_traces(&mut rows)?;
    }
    Ok(())
}

/// The next look: a whole number of intervals, or the end of a flow that comes before it.
pub(crate) fn next_look(scenario: &Scenario, engine: &Engine<'_>) -> Time {
    let interval = scenario.sample.0.max(1);
    let tick = Time((engine.now.0 / interval + 1).saturating_mul(interval));
    let going = scenario.flows.iter().zip(&engine.flows).filter(|(_, flow)| !flow.over);
    going.map(|(spec, _)| end_of(scenario, spec)).fold(tick, Time::min)
}

/// When a flow is to end at the latest.
fn end_of(scenario: &Scenario, flow: &scenario::Flow) -> Time {
    flow.stop.unwrap_or(scenario.duration).min(scenario.duration)
}

pub(crate) fn look_at(
    engine: &mut Engine<'_>,
    index: usize,
    memory: &mut Memory,
    recorder: &mut Recorder<'_>,
) {
    let (now, scenario) = (engine.now, engine.scenario);
    let spec = &scenario.flows[index];
    if engine.flows[index].over {
        return;
    }
    let event =
        |at: Time, kind, value| Event { time_us: micros(at), subject: spec.name.clone(), kind, value };
    let due = now >= end_of(scenario, spec);
    let (mut started, mut finished) = (None, None);
    match &mut engine.flows[index].traffic {
        Traffic::None | Traffic::Probes(_) => {}
        Traffic::Tcp(transfer) => {
            let row = look_at_transfer(&spec.name, transfer, now, memory, &mut recorder.events);
            row.into_iter().for_each(|row| recorder.take_flow(row));
            (started, finished) = (transfer.started, transfer.finished);
        }
        Traffic::Udp(stream) => {
            recorder.take_flow(look_at_stream(&spec.name, stream, now, memory));
            (started, finished) = (Some(spec.start), stream.finished(now));
        }
        Traffic::Xcp(xcp) => {
            let row = look_at_xcp(&spec.name, xcp, now, memory, &mut recorder.events);
            recorder.take_flow(row);
            (started, finished) = (Some(spec.start), xcp.finished);
        }
        Traffic::Ping(ping) => {
            look_at_ping(&spec.name, ping).for_each(|row| recorder.take_flow(row));
            started = Some(spec.start);
            if ping.is_done(now) || due {
                finished = Some(now);
                let lost = ping.lost(now).map(|n| event(now, EventKind::PingLost, i64::from(n)));
                recorder.events.extend(lost);
            }
        }
    }
    if memory.started.is_none()
        && let Some(at) = started
    {
        memory.started = started;
        recorder.events.push(event(at, EventKind::Start, 0));
    }
    if finished.is_some() || due {
        let ended = finished.unwrap_or(now);
        memory.ended = Some(ended);
        recorder.events.push(event(ended, EventKind::Stop, 0));
        engine.end(index);
    }
}
