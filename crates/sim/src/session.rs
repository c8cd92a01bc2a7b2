//! A simulation for measurements on request, one after another in the same virtual time, as between real
//! hosts. The scenario's own flows are the cross traffic.

use engine_common::{UDP_HEADER_BYTES, time_us};
use scenario::{FlowKind, FlowSpec, PingSpec, Scenario};
use schema::{Event, FlowSample};
use units::{Instant, Time};

use crate::{
    Controllers, Error, HostDefaults,
    engine::{Engine, Traffic},
    fragments::Fragments,
    packet::{Body, Datagram, SimPacket},
    recorder::Recorder,
    run::{next_sample_time, sample_flow},
    sample::SampleState,
};

/// Time to wait for a probe.
const PROBE_TIMEOUT: Time = Time::from_secs(2);

/// A simulation in which a path is measured.
pub struct MeasurementSession<'a> {
    engine: Engine<'a>,
    sample_states: Vec<SampleState>,
    /// Indices of the scenario's flows that are reserved for further measurements.
    reserved: std::ops::Range<usize>,
    /// Index of the flow that trains of probes use.
    probe_flow: Option<usize>,
    probes_sent: u64,
}

/// The result of a measured flow. Times are since its start.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredFlow {
    /// Its samples.
    pub rows: Vec<FlowSample>,
    /// Its events.
    pub events: Vec<Event>,
    /// Its congestion control.
    pub cc: Option<String>,
    /// When it was connected; `None` if it never was.
    pub connected: Option<Time>,
    /// When its last byte arrived, or its time was over.
    pub ended: Time,
    /// Application bytes received.
    pub bytes: u64,
    /// Packets that the transmit queue of the sending host dropped during the measurement.
    pub dropped_here: u64,
}

impl<'a> MeasurementSession<'a> {
    /// Adds `count` reserved flows from one host to another to a scenario, for measurements, and removes its
    /// end.
    pub fn reserve(mut scenario: Scenario, from: &str, to: &str, count: usize) -> Scenario {
        scenario.duration = Time::from_nanos(u64::MAX / 4);
        scenario.flows.extend((0..count).map(|number| FlowSpec {
            name: format!("measured-{number}"),
            from: from.into(),
            to: to.into(),
            kind: FlowKind::Ping(PingSpec::default()),
            start: Instant::NEVER,
            stop: None,
        }));
        scenario
    }

    /// Starts the simulation of a scenario that [`MeasurementSession::reserve`] prepared for `count`
    /// measurements.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn new(
        scenario: &'a Scenario,
        count: usize,
        defaults: &'a HostDefaults,
        controllers: &'a mut dyn Controllers,
    ) -> Result<Self, Error> {
        let engine = Engine::new(scenario, defaults, controllers)?;
        let flows = scenario.flows.len();
        let sample_states = scenario.flows.iter().map(|_| SampleState::default()).collect();
        Ok(MeasurementSession {
            engine,
            sample_states,
            reserved: flows - count..flows,
            probe_flow: None,
            probes_sent: 0,
        })
    }

    /// The virtual time since the simulation's start.
    pub fn now(&self) -> Instant {
        self.engine.now
    }

    /// Advances virtual time by `time`.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn advance(&mut self, time: Time) -> Result<(), Error> {
        let until = self.engine.now.later_by(time);
        self.sample_until(until, usize::MAX).map(|_| ())
    }

    /// Runs a flow of this kind, at most for `time`.
    ///
    /// # Errors
    /// See [`Error`].
    ///
    /// # Panics
    /// If no reserved flow is left.
    pub fn measure(&mut self, kind: FlowKind, time: Time) -> Result<MeasuredFlow, Error> {
        let index = self.reserved.next().expect("a reserved flow for each measurement");
        let start = self.engine.now;
        let dropped_before = self.dropped_by_host_of(index);
        self.engine.start_as(index, kind)?;
        let (mut rows, mut events) = self.sample_until(start.later_by(time), index)?;
        let (mut cc, mut bytes) = (None, 0);
        match &mut self.engine.flows[index].traffic {
            Traffic::Tcp(transfer) => {
                cc = Some(transfer.sender.controller().name().to_owned());
                bytes = transfer.received();
            }
            Traffic::Udp(stream) => bytes = stream.receiver.counts.bytes,
            Traffic::Xcp(xcp) => bytes = xcp.received,
            Traffic::Bulk(bulk) => bytes = bulk.receiver.counts().received_bytes,
            Traffic::None | Traffic::Ping(_) | Traffic::Probes(_) => {}
        }
        self.engine.end(index);
        let since = |at: Instant| at.saturating_since(start);
        rows.iter_mut().for_each(|row| row.time_us -= time_us(start));
        events.iter_mut().for_each(|event| event.time_us -= time_us(start));
        let state = &self.sample_states[index];
        Ok(MeasuredFlow {
            rows,
            events,
            cc,
            connected: state.started.map(since),
            ended: since(state.ended.unwrap_or(self.engine.now)),
            bytes,
            dropped_here: self.dropped_by_host_of(index) - dropped_before,
        })
    }

    /// Packets that the transmit queue of a flow's sending host has dropped so far.
    fn dropped_by_host_of(&self, index: usize) -> u64 {
        self.engine.links.dropped_by_queue(self.engine.flows[index].addresses.forward.from)
    }

    /// Sends a UDP packet of `bytes` (IP header included) at each of the times `at`, in ascending order since
    /// now, and waits for them to arrive. Returns each packet's arrival time since now; `None` if it did not
    /// arrive within 2 s.
    ///
    /// # Errors
    /// See [`Error`].
    ///
    /// # Panics
    /// If no reserved flow is left.
    pub fn send_train(&mut self, bytes: u32, at: &[Time]) -> Result<Vec<Option<Time>>, Error> {
        let index = match self.probe_flow {
            Some(index) => index,
            None => *self.probe_flow.insert(self.reserved.next().expect("a reserved flow for the probes")),
        };
        self.engine.flows[index].traffic = Traffic::Probes(Vec::new());
        let start = self.engine.now;
        let first = self.probes_sent;
        let addresses = self.engine.flows[index].addresses;
        let payload = bytes.saturating_sub(addresses.ip_header + UDP_HEADER_BYTES);
        for at in at {
            let at = start.later_by(*at);
            self.sample_until(at, usize::MAX)?;
            let fragments = Fragments::new(payload + UDP_HEADER_BYTES, u32::MAX, addresses.ip_header);
            let probe = Datagram { number: self.probes_sent, sent: at, payload, fragments };
            let header = addresses.ip_header;
            let packet = SimPacket { to: 2 * index as u32 + 1, header, body: Body::Datagram(probe) };
            self.engine.links.send(&addresses.forward, at, packet);
            self.probes_sent += 1;
        }
        let last_sent = self.engine.now;
        let mut arrival_times = vec![None; at.len()];
        let step = PROBE_TIMEOUT / 200;
        while arrival_times.iter().any(Option::is_none) && self.engine.now < last_sent.later_by(PROBE_TIMEOUT)
        {
            self.sample_until(self.engine.now.later_by(step), usize::MAX)?;
            let Traffic::Probes(arrivals) = &mut self.engine.flows[index].traffic else { break };
            for (number, at) in arrivals.drain(..) {
                // Probes of earlier trains have timed out.
                if let Some(index) = number.checked_sub(first) {
                    arrival_times[index as usize] = Some(at.since(start));
                }
            }
        }
        Ok(arrival_times)
    }

    /// Runs until `until` or the end of the flow with index `flow`. Returns that flow's samples and events.
    fn sample_until(&mut self, until: Instant, flow: usize) -> Result<(Vec<FlowSample>, Vec<Event>), Error> {
        let mut observer = ();
        let mut recorder = Recorder::new(&[], &mut observer);
        let scenario = self.engine.scenario;
        let is_over = |engine: &Engine<'_>| engine.flows.get(flow).is_some_and(|flow| flow.is_over);
        while self.engine.now < until && !is_over(&self.engine) {
            let sample_time = next_sample_time(scenario, &self.engine);
            self.engine.run_until(sample_time.min(until))?;
            if sample_time > until {
                break;
            }
            for (index, state) in self.sample_states.iter_mut().enumerate() {
                sample_flow(&mut self.engine, index, state, &mut recorder);
            }
        }
        let name = scenario.flows.get(flow).map_or("", |flow| flow.name.as_str());
        let rows = recorder.flows.into_iter().filter(|row| row.flow == name).collect();
        let events = recorder.events.into_iter().filter(|event| event.subject == name).collect();
        Ok((rows, events))
    }
}
