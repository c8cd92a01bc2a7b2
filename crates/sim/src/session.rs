//! A simulation that somebody measures in: the scenario's flows are the other traffic, and measurements come one after another in the
//! same virtual time, as between real hosts.

use scenario::{Flow, Kind, Ping, Scenario, plan::UDP_HEADER, rows::micros};
use schema::{Event, FlowSample, LinkSample};
use units::Time;

use crate::{
    Controllers, Error, Machine, Observer,
    engine::{Engine, Traffic},
    fragments::Fragments,
    packet::{Body, SimPacket},
    recorder::Recorder,
    run::{look_at, next_look},
    sample::Memory,
    udp::Datagram,
};

/// A probe that is so long on its way will not come.
const PATIENCE: Time = Time::from_secs(2);

/// A simulation under way.
pub struct Session<'a> {
    engine: Engine<'a>,
    memories: Vec<Memory>,
    /// Places for measurements that are left, in the scenario's flows.
    free: std::ops::Range<usize>,
    /// The place that trains of probes use.
    probes: Option<usize>,
    probes_sent: u64,
}

/// What a measured flow gave. Times are since it began.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Its samples.
    pub rows: Vec<FlowSample>,
    /// Its events.
    pub events: Vec<Event>,
    /// Its congestion control.
    pub cc: Option<String>,
    /// When it was connected; `None` where it never was.
    pub connected: Option<Time>,
    /// When its last byte came, or its time was over.
    pub ended: Time,
    /// Application bytes received.
    pub bytes: u64,
    /// Packets that the sending host's device dropped meanwhile.
    pub dropped_here: u64,
}

/// Probes that have arrived: their numbers, and when.
pub(crate) type Arrivals = Vec<(u64, Time)>;

impl<'a> Session<'a> {
    /// The scenario with room for `count` measurements from one host to another; it has no end.
    pub fn room(mut scenario: Scenario, from: &str, to: &str, count: usize) -> Scenario {
        scenario.duration = Time(u64::MAX / 4);
        scenario.flows.extend((0..count).map(|number| Flow {
            name: format!("measured-{number}"),
            from: from.into(),
            to: to.into(),
            kind: Kind::Ping(Ping::default()),
            start: Time(u64::MAX),
            stop: None,
        }));
        scenario
    }

    /// Begins a simulation of a scenario that [`Session::room`] made for `count` measurements.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn new(
        scenario: &'a Scenario,
        count: usize,
        machine: &'a Machine,
        controllers: &'a mut dyn Controllers,
    ) -> Result<Self, Error> {
        let engine = Engine::new(scenario, machine, controllers)?;
        let flows = scenario.flows.len();
        let memories = scenario.flows.iter().map(|_| Memory::default()).collect();
        Ok(Session { engine, memories, free: flows - count..flows, probes: None, probes_sent: 0 })
    }

    /// Now, since the simulation began.
    pub fn now(&self) -> Time {
        self.engine.now
    }

    /// Lets time pass.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn pass(&mut self, time: Time) -> Result<(), Error> {
        let until = Time(self.engine.now.0 + time.0);
        self.look_until(until, usize::MAX).map(|_| ())
    }

    /// Runs a flow of this kind, for `time` at most.
    ///
    /// # Errors
    /// See [`Error`].
    ///
    /// # Panics
    /// Where there are no places for measurements left.
    pub fn measure(&mut self, kind: Kind, time: Time) -> Result<Measured, Error> {
        let index = self.free.next().expect("a place for each measurement");
        let began = self.engine.now;
        let dropped_before = self.dropped_by_host_of(index);
        self.engine.begin_as(index, kind)?;
        let (mut rows, mut events) = self.look_until(Time(began.0 + time.0), index)?;
        let (mut cc, mut bytes) = (None, 0);
        match &mut self.engine.flows[index].traffic {
            Traffic::Tcp(transfer) => {
                cc = Some(transfer.sender.controller().name().to_owned());
                bytes = transfer.received();
            }
            Traffic::Udp(stream) => bytes = stream.receiver.counts.bytes,
            Traffic::Xcp(xcp) => bytes = xcp.received,
            Traffic::None | Traffic::Ping(_) | Traffic::Probes(_) => {}
        }
        self.engine.end(index);
        let since = |at: Time| Time(at.0.saturating_sub(began.0));
        rows.iter_mut().for_each(|row| row.time_us -= micros(began));
        events.iter_mut().for_each(|event| event.time_us -= micros(began));
        let memory = &self.memories[index];
        Ok(Measured {
            rows,
            events,
            cc,
            connected: memory.started.map(since),
            ended: since(memory.ended.unwrap_or(self.engine.now)),
            bytes,
            dropped_here: self.dropped_by_host_of(index) - dropped_before,
        })
    }

    /// Packets that the device of a flow's sending host has dropped so far.
    fn dropped_by_host_of(&mut self, index: usize) -> u64 {
        let engine = &mut self.engine;
        engine.wire.dropped(&engine.flows[index].addresses.there)
    }

    /// Sends UDP packets of `bytes` (IP header included) `at` these instants from now on, which ascend, and waits for them. For each:
    /// when it arrived, since now.
    ///
    /// # Errors
    /// See [`Error`].
    ///
    /// # Panics
    /// Where there are no places for measurements left.
    pub fn send_train(&mut self, bytes: u32, at: &[Time]) -> Result<Vec<Option<Time>>, Error> {
        let index = match self.probes {
            Some(index) => index,
            None => *self.probes.insert(self.free.next().expect("a place for the probes")),
        };
        self.engine.flows[index].traffic = Traffic::Probes(Vec::new());
        let began = self.engine.now;
        let first = self.probes_sent;
        let addresses = self.engine.flows[index].addresses;
        let payload = bytes.saturating_sub(addresses.ip_header + UDP_HEADER);
        for at in at {
            let at = Time(began.0 + at.0);
            self.look_until(at, usize::MAX)?;
            let fragments = Fragments::of(payload + UDP_HEADER, u32::MAX, addresses.ip_header);
            let probe = Datagram { number: self.probes_sent, sent: at, payload, fragments };
            let header = addresses.ip_header;
            let packet = SimPacket { to: 2 * index as u32 + 1, header, body: Body::Datagram(probe) };
            self.engine.wire.send(&addresses.there, at, packet);
            self.probes_sent += 1;
        }
        let sent = self.engine.now;
        let mut found = vec![None; at.len()];
        let step = Time(PATIENCE.0 / 200);
        while found.iter().any(Option::is_none) && self.engine.now < Time(sent.0 + PATIENCE.0) {
            self.look_until(Time(self.engine.now.0 + step.0), usize::MAX)?;
            let Traffic::Probes(arrivals) = &mut self.engine.flows[index].traffic else { break };
            for (number, at) in arrivals.drain(..) {
                // Those of earlier trains are too late.
                if let Some(place) = number.checked_sub(first) {
                    found[place as usize] = Some(Time(at.0 - began.0));
                }
            }
        }
        Ok(found)
    }

    /// Goes on until an instant or until the flow is over, and gives its samples and events.
    fn look_until(&mut self, until: Time, flow: usize) -> Result<(Vec<FlowSample>, Vec<Event>), Error> {
        let mut quiet = Quiet;
        let mut recorder = Recorder::new(&[], &mut quiet);
        let scenario = self.engine.scenario;
        let is_over = |engine: &Engine<'_>| engine.flows.get(flow).is_some_and(|flow| flow.over);
        while self.engine.now < until && !is_over(&self.engine) {
            let look = next_look(scenario, &self.engine);
            self.engine.run_until(look.min(until))?;
            if look > until {
                break;
            }
            for (index, memory) in self.memories.iter_mut().enumerate() {
                look_at(&mut self.engine, index, memory, &mut recorder);
            }
        }
        let name = scenario.flows.get(flow).map_or("", |flow| flow.name.as_str());
        let rows = recorder.flows.into_iter().filter(|row| row.flow == name).collect();
        let events = recorder.events.into_iter().filter(|event| event.subject == name).collect();
        Ok((rows, events))
    }
}

/// Nobody looks on.
struct Quiet;

impl Observer for Quiet {
    fn rows(
        &mut self,
        _: &[FlowSample],
        _: &[LinkSample],
        _: &[Event],
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(())
    }

    fn progress(&mut self, _: Time, _: &[FlowSample]) -> bool {
        true
    }
}
