//! The record of watched connections: a flow per direction that carries data.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::{Path, PathBuf},
    time::Duration,
};

use diagnosis::Change;
use record::Writer;
use schema::{
    EngineName, Event, EventKind, FlowKind, FlowSample, FlowSummary, RunSummary, SUMMARY_SCHEMA, Summary,
    TraceKind, TraceRow,
};
use verdict::{FlowContext, FlowTimes};
use watch::{SocketCookie, TrackedConnection, Watcher, monotonic_ns};

use super::{
    ack_samples::AckSamples,
    devices::{Devices, Sender},
    flows::{self, Pairs},
};
use crate::{Result, record as measured};

/// The engine's name in the record.
const ENGINE: EngineName = EngineName::Watch;
const NAME: &str = "watch";
/// Initial slow-start threshold (TCP_INFINITE_SSTHRESH, net/tcp.h).
const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// A record being written.
pub struct Recording {
    writer: Writer,
    title: String,
    started: String,
    begun_ns: u64,
    flows: BTreeMap<String, Flow>,
    names: FlowNames,
    events: Vec<Event>,
    tracks: HashMap<SocketCookie, Track>,
    /// Closed connections whose last sample was added.
    ended: HashSet<SocketCookie>,
    devices: Devices,
}

/// The samples and totals of a flow.
#[derive(Default)]
struct Flow {
    rows: Vec<FlowSample>,
    acks: AckSamples,
    sampled_us: Option<i64>,
    /// The sender, if that end is watched.
    sender: Option<Sender>,
    from: String,
    to: String,
    congestion: Option<String>,
    /// Payload at the first sample.
    before: u64,
    /// Payload since then, as counted by the sender if it is watched.
    bytes: u64,
}

/// The names of flows. The second connection between the same ports has `#2` at the end, as in captures: its
/// counts begin at 0 again.
#[derive(Default)]
struct FlowNames {
    /// The flows between two ports, in their order: the sockets of sender and receiver, as far as they were
    /// seen.
    flows: HashMap<String, Vec<[Option<SocketCookie>; 2]>>,
}

impl FlowNames {
    /// The name of the flow between two ports whose sender and receiver have these sockets; `None`: not
    /// watched.
    fn of(&mut self, ports: String, ends: [Option<SocketCookie>; 2]) -> String {
        let flows = self.flows.entry(ports.clone()).or_default();
        let is_any_end = |flow: &[Option<SocketCookie>; 2], holds: fn(SocketCookie, SocketCookie) -> bool| {
            let mut both = flow.iter().zip(&ends).filter_map(|(known, now)| known.zip(*now));
            both.any(|(known, now)| holds(known, now))
        };
        // Events of a closed connection may arrive after the first samples of the next one.
        let known = flows.iter().rposition(|flow| is_any_end(flow, |known, now| known == now));
        let latest =
            flows.len().checked_sub(1).filter(|last| !is_any_end(&flows[*last], |known, now| known != now));
        let index = known.or(latest).unwrap_or_else(|| {
            flows.push([None; 2]);
            flows.len() - 1
        });
        for (known, now) in flows[index].iter_mut().zip(ends) {
            *known = known.or(now);
        }
        match index {
            0 => ports,
            _ => format!("{ports}#{}", index + 1),
        }
    }
}

/// State of a connection that is needed to interpret its next event.
#[derive(Default)]
struct Track {
    /// An ACK whose effect the next event shows.
    pending: Option<TraceRow>,
    window_shut: bool,
    total_rto: Option<u32>,
    ca_state: u8,
}

impl Recording {
    /// Creates the record; `filter` becomes the title.
    ///
    /// # Errors
    /// If the record cannot be created.
    pub fn begin(runs_dir: &Path, filter: &str) -> Result<Self> {
        let title = if filter.is_empty() { "all connections".into() } else { filter.to_string() };
        let started = experiment::now();
        let summary = summary(&title, RunSummary::begun(ENGINE, started.clone()));
        let writer = measured::create(runs_dir, "Watched connections", &summary)?;
        Ok(Recording {
            writer,
            title,
            started,
            begun_ns: monotonic_ns(),
            flows: BTreeMap::new(),
            names: FlowNames::default(),
            events: Vec::new(),
            tracks: HashMap::new(),
            ended: HashSet::new(),
            devices: Devices::default(),
        })
    }

    /// Adds the latest samples and the events since the previous call.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub fn append(&mut self, watcher: &Watcher, events: &[watch::SocketEvent]) -> Result<()> {
        let pairs = Pairs::of(watcher);
        let mut rows = Vec::new();
        let mut new_events = Vec::new();
        let is_new = |connection: &&TrackedConnection| {
            connection.closed_ns.is_none() || self.ended.insert(connection.sample.cookie)
        };
        let connections: Vec<&TrackedConnection> = watcher.connections().filter(is_new).collect();
        for connection in connections {
            // After a connection is closed, another one may have its ports.
            let other = pairs.other_end(connection).filter(|_| connection.closed_ns.is_none());
            if flows::acked(connection) > 0 || connection.sample.wqueue_bytes > 0 {
                self.row(watcher, connection, other, true, &mut rows, &mut new_events);
            }
            if other.is_none() && flows::received(connection) > 0 {
                self.row(watcher, connection, None, false, &mut rows, &mut new_events);
            }
        }
        let traced = self.trace(watcher, events, &mut new_events);
        self.writer.append(&rows, &[], &new_events)?;
        self.writer.append_trace(&traced)?;
        self.events.extend(new_events);
        Ok(())
    }

    fn time_us(&self, at_ns: u64) -> i64 {
        (at_ns.saturating_sub(self.begun_ns) / 1000) as i64
    }

    /// A row of the flow that a connection sends or receives.
    fn row(
        &mut self,
        watcher: &Watcher,
        connection: &TrackedConnection,
        other: Option<&TrackedConnection>,
        sends: bool,
        rows: &mut Vec<FlowSample>,
        new_events: &mut Vec<Event>,
    ) {
        let time_us = self.time_us(connection.sampled_ns);
        let cookie = Some(connection.sample.cookie);
        let (ports, sockets, ends) = match sends {
            true => {
                let sockets = [cookie, other.map(|other| other.sample.cookie)];
                (flows::outgoing(connection), sockets, connection.sample.addresses)
            }
            false => (flows::incoming(connection), [None, cookie], connection.sample.addresses.reversed()),
        };
        let name = self.names.of(ports, sockets);
        // A closed connection only continues its flow. The sender's last sample has the totals.
        let flow = self.flows.get(&name);
        if connection.closed_ns.is_some() && flow.is_none_or(|flow| !sends && flow.sender.is_some()) {
            return;
        }
        let counted = if sends { flows::acked(connection) } else { flows::received(connection) };
        let mut row = FlowSample { time_us, flow: name.clone(), ..FlowSample::default() };
        match sends {
            true => flows::sent_row(connection, other, &mut row),
            false => flows::received_row(connection, &mut row),
        }
        let flow = self.flows.entry(name.clone()).or_insert_with(|| {
            new_events.push(Event { time_us, subject: name, kind: EventKind::Start, value: 0 });
            let sender = sends.then(|| (connection.namespace.clone(), ends.local.ip()));
            if let Some(sender) = &sender {
                self.devices.add(watcher, sender);
            }
            Flow {
                sender,
                from: ends.local.ip().to_string(),
                to: ends.peer.ip().to_string(),
                before: counted,
                ..Flow::default()
            }
        });
        // The sample has not changed.
        if flow.sampled_us.replace(time_us) == Some(time_us) {
            return;
        }
        if sends {
            flow.congestion.clone_from(&connection.sample.congestion);
        }
        flow.bytes = counted.saturating_sub(flow.before);
        match flow.rows.last() {
            Some(last) if !connection.counters.is_traced => watch::detect_events(last, &row, new_events),
            _ => {}
        }
        flow.rows.push(row.clone());
        rows.push(row);
    }

    /// Adds events to the record's events, and returns the rows of the trace.
    fn trace(
        &mut self,
        watcher: &Watcher,
        events: &[watch::SocketEvent],
        new_events: &mut Vec<Event>,
    ) -> Vec<TraceRow> {
        let mut rows = Vec::new();
        for event in events {
            let Some(connection) = watcher.connection(event.cookie) else { continue };
            let subject = self.names.of(flows::outgoing(connection), [Some(event.cookie), None]);
            let time_us = self.time_us(event.time_ns);
            let track = self.tracks.entry(event.cookie).or_default();
            let waiting = i64::from(connection.sample.wqueue_bytes);
            if let Some(row) = track.take(event, time_us, &subject, waiting, new_events) {
                if let Some(flow) = self.flows.get_mut(&subject) {
                    flow.acks.push(&row, event.snd_mss);
                }
                rows.push(row);
            }
        }
        rows
    }

    /// Completes the record and returns its directory. `early`: it ended before the requested time.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub fn end(mut self, watcher: &Watcher, early: bool) -> Result<PathBuf> {
        let mut run = RunSummary::begun(ENGINE, self.started.clone());
        run.id = self.writer.id().to_string();
        run.partial = early;
        run.duration_s = monotonic_ns().saturating_sub(self.begun_ns) as f64 * 1e-9;
        run.wall_s = run.duration_s;
        if let Some(why) = watcher.bpf_unavailable_reason() {
            run.quality.notes.push(format!("sampled by sock_diag: {why}"));
        }
        if watcher.lost_events() > 0 {
            run.quality.add_fault(format!(
                "{} events were lost: they arrived faster than they were read",
                watcher.lost_events()
            ));
        }
        let mut rows = Vec::new();
        // Flows without data are omitted.
        self.flows.retain(|_, flow| flow.bytes > 0);
        let mut retransmitted: BTreeMap<Sender, u64> = BTreeMap::new();
        for flow in self.flows.values() {
            let Some(sender) = &flow.sender else { continue };
            *retransmitted.entry(sender.clone()).or_default() += flow.retransmitted();
        }
        for sender in retransmitted.keys() {
            self.devices.refresh(watcher, sender, Duration::ZERO);
        }
        for (name, mut flow) in self.flows {
            flow.rows.sort_by_key(|row| row.time_us);
            let device = flow.sender.as_ref().map(|sender| {
                let all = retransmitted.get(sender).copied().unwrap_or(0);
                self.devices.of_flow(sender, flow.mss(), flow.retransmitted(), all)
            });
            let context = FlowContext { device: device.unwrap_or_default(), ..context(&name, &flow) };
            verdict::decide(&mut flow.rows, &verdict::LinkRows::default(), &context);
            let mut summary = flow.summary(&context);
            summary.evidence.extend(change_of(&flow.rows));
            // The ACKs show windows between the samples.
            let at_acks = flow.acks.max_cwnd_bytes().and_then(|bytes| u64::try_from(bytes).ok());
            summary.max_cwnd_bytes = summary.max_cwnd_bytes.max(at_acks);
            run.flows.push(summary);
            rows.append(&mut flow.rows);
            rows.extend(flow.acks.rows(&name));
        }
        rows.sort_by_key(|row| row.time_us);
        self.events.sort_by_key(|event| event.time_us);
        run.fairness_jain = measured::fairness(&run.flows);
        Ok(self.writer.finish(&summary(&self.title, run), &rows, &[], &self.events)?)
    }
}

/// A change of the path's rate, in words.
fn change_of(rows: &[FlowSample]) -> Option<String> {
    let change = Change::of(rows)?;
    Some(change.sentence(change.at.as_secs_f64()))
}

impl Flow {
    /// Segments retransmitted while the flow was watched.
    fn retransmitted(&self) -> u64 {
        verdict::retransmitted_segs(&self.rows, self.rows.first().map_or("", |row| row.flow.as_str()))
    }

    fn mss(&self) -> u64 {
        let all = self.rows.iter().filter_map(|row| row.snd_mss_bytes);
        all.max().and_then(|mss| u64::try_from(mss).ok()).unwrap_or(0)
    }

    fn summary(&self, context: &FlowContext) -> FlowSummary {
        let times = FlowTimes {
            kind: FlowKind::Tcp,
            cc: self.congestion.clone(),
            started_us: self.rows.first().map(|row| row.time_us),
            ended_us: self.rows.last().map(|row| row.time_us),
            bytes: self.bytes,
        };
        verdict::summarize(&self.rows, &[], &times, context)
    }
}

impl Track {
    fn take(
        &mut self,
        event: &watch::SocketEvent,
        time_us: i64,
        subject: &str,
        waiting_bytes: i64,
        new_events: &mut Vec<Event>,
    ) -> Option<TraceRow> {
        let mut report =
            |kind, value| new_events.push(Event { time_us, subject: subject.into(), kind, value });
        match event.kind {
            watch::SocketEventKind::RoundTrip(rtt_us) => {
                // This event occurs while the ACK is processed.
                if let Some(pending) = &mut self.pending {
                    pending.rtt_us = Some(rtt_us.into());
                }
                return None;
            }
            watch::SocketEventKind::State { new, .. } => {
                report(EventKind::TcpState, new.0.into());
                if new == watch::SocketState::CLOSED {
                    report(EventKind::Stop, 0);
                }
            }
            watch::SocketEventKind::CaState(state) if state != self.ca_state => {
                self.ca_state = state;
                report(EventKind::CaState, state.into());
            }
            watch::SocketEventKind::Retransmit(segments) => report(EventKind::Retransmit, segments.into()),
            watch::SocketEventKind::CaState(_) | watch::SocketEventKind::Ack { .. } => {}
        }
        if let Some(before) = self.total_rto.replace(event.total_rto)
            && event.total_rto > before
        {
            report(EventKind::Rto, (event.total_rto - before).into());
        }
        let shut = event.snd_wnd == 0;
        if shut != self.window_shut && event.bytes_acked > 0 {
            self.window_shut = shut;
            match shut {
                true => report(EventKind::ZeroWindow, waiting_bytes),
                false => report(EventKind::WindowOpen, event.snd_wnd.into()),
            }
        }
        // A SYN counts as a byte: one acknowledged byte means no data yet.
        if !matches!(event.kind, watch::SocketEventKind::Ack { .. }) || event.bytes_acked <= 1 {
            return None;
        }
        let next = TraceRow { time_us, flow: subject.into(), kind: TraceKind::Ack, ..TraceRow::default() };
        let mut row = self.pending.replace(next)?;
        // The sender's current state is the effect of the previous ACK.
        row.ack_bytes = i64::try_from(event.bytes_acked - 1).ok();
        row.snd_cwnd_segs = Some(event.snd_cwnd.into());
        row.snd_ssthresh_segs = (event.snd_ssthresh < INFINITE_SSTHRESH).then_some(event.snd_ssthresh.into());
        row.inflight_segs = Some(event.in_flight.into());
        row.srtt_us = (event.srtt_us > 0).then_some(event.srtt_us.into());
        row.snd_wnd_bytes = Some(event.snd_wnd.into());
        Some(row)
    }
}

/// The verdict's context, without path and buffers: settings of other namespaces and hosts are not visible
/// here.
fn context(name: &str, flow: &Flow) -> FlowContext {
    FlowContext {
        name: name.into(),
        from: flow.from.clone(),
        to: flow.to.clone(),
        unknown_path: true,
        ..FlowContext::default()
    }
}

fn summary(title: &str, run: RunSummary) -> Summary {
    Summary {
        schema: SUMMARY_SCHEMA.into(),
        scenario: NAME.into(),
        title: format!("watch: {title}"),
        host: lab::host_info(),
        runs: vec![run],
        published: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: watch::SocketEventKind, cwnd: u32, snd_wnd: u32, total_rto: u32) -> watch::SocketEvent {
        watch::SocketEvent {
            cookie: SocketCookie(1),
            time_ns: 0,
            kind,
            namespace: 0,
            addresses: watch::SocketAddresses {
                local: "10.0.0.1:1".parse().unwrap(),
                peer: "10.0.0.2:2".parse().unwrap(),
            },
            bytes_acked: 1001,
            snd_cwnd: cwnd,
            snd_ssthresh: INFINITE_SSTHRESH,
            in_flight: 3,
            srtt_us: 100,
            snd_wnd,
            rcv_wnd: 1,
            snd_mss: 1448,
            total_rto,
            ca_state: 0,
        }
    }

    #[test]
    fn a_new_connection_between_the_same_ports_is_a_new_flow() {
        let mut names = FlowNames::default();
        let mut name = |sender: Option<u64>, receiver: Option<u64>| {
            names.of("a>b".into(), [sender.map(SocketCookie), receiver.map(SocketCookie)])
        };
        assert_eq!(name(None, Some(2)), "a>b");
        assert_eq!(name(Some(1), Some(2)), "a>b", "its sender was found later");
        assert_eq!(name(None, Some(2)), "a>b", "its sender closed first");
        assert_eq!(name(Some(3), None), "a>b#2");
        assert_eq!(name(Some(3), Some(4)), "a>b#2");
        assert_eq!(name(None, Some(6)), "a>b#3");
        assert_eq!(name(Some(1), None), "a>b", "an event of a closed connection");
        assert_eq!(name(Some(5), Some(6)), "a>b#3");
    }

    #[test]
    fn an_ack_is_recorded_with_its_round_trip_and_the_resulting_window() {
        let mut track = Track::default();
        let mut new_events = Vec::new();
        let ack = watch::SocketEventKind::Ack { repeats: false };
        assert_eq!(track.take(&event(ack, 10, 500, 0), 5, "f", 0, &mut new_events), None);
        track.take(&event(watch::SocketEventKind::RoundTrip(77), 10, 0, 0), 6, "f", 0, &mut new_events);
        let row = track.take(&event(ack, 11, 500, 0), 9, "f", 0, &mut new_events).unwrap();
        assert_eq!((row.time_us, row.snd_cwnd_segs, row.rtt_us), (5, Some(11), Some(77)));
        assert_eq!((row.ack_bytes, row.snd_ssthresh_segs), (Some(1000), None));
        assert!(new_events.is_empty(), "{new_events:?}");
    }

    #[test]
    fn window_changes_timeouts_and_states_are_each_one_event() {
        let mut track = Track::default();
        let mut new_events = Vec::new();
        for (kind, snd_wnd, total_rto) in [
            (watch::SocketEventKind::CaState(0), 500, 0),
            (watch::SocketEventKind::CaState(4), 500, 1),
            (watch::SocketEventKind::CaState(4), 0, 1),
            (watch::SocketEventKind::Retransmit(2), 0, 3),
            (watch::SocketEventKind::Ack { repeats: false }, 900, 3),
        ] {
            track.take(&event(kind, 10, snd_wnd, total_rto), 0, "f", 42, &mut new_events);
        }
        let found: Vec<_> = new_events.iter().map(|event| (event.kind, event.value)).collect();
        let expected = [
            (EventKind::CaState, 4),
            (EventKind::Rto, 1),
            (EventKind::ZeroWindow, 42),
            (EventKind::Retransmit, 2),
            (EventKind::Rto, 2),
            (EventKind::WindowOpen, 900),
        ];
        assert_eq!(found, expected);
    }
}
