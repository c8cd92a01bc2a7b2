//! The event loop: handles the events of the network and of flows in order of time.
//!
//! Events of one instant are handled in this order: the network, then flows in the scenario's order, sender
//! before receiver, timers before applications. The timer queue has one entry for each timer and application,
//! never one for a packet.

use engine_common::{UDP_HEADER_BYTES, datagram_source, echo_timeout};
use net::{Node, Station, TimerQueue};
use scenario::{FlowKind, Scenario};
use tcp::{CongestionControl, Segment};
use units::{Instant, Time};

use crate::{
    Controllers, Error, HostDefaults, Side,
    addresses::{Addresses, addresses},
    bulk::{BulkFlow, BulkFlowPlan},
    compact_packet::CompactPacket,
    control_connection::{ControlConnection, ControlPlan},
    fragments::Fragments,
    host_processing::HostProcessing,
    link_layer::{LinkLayer, LinkLayerParts},
    neighbours::WaitingLimit,
    packet::{Body, Echo, SimPacket, TooBig},
    path_mtu::{Path, PathMtus},
    ping::Ping,
    trace::Trace,
    transfer::{Transfer, TransferPlan},
    transmit_queue::TransmitQueues,
    udp::{DatagramFlow, DatagramFlowPlan},
    xcp::XcpFlow,
};

/// Livelock guard: maximum number of events at one instant.
const MAX_EVENTS_PER_INSTANT: u32 = 50_000_000;

/// Timers of a flow: the sender's TCP, the receiver's TCP, the sender's application, the receiver's
/// application.
const TIMERS_PER_FLOW: usize = 4;
/// Index of the first application timer among these.
const APPLICATION: usize = 2;

/// A flow of the scenario.
pub(crate) struct FlowState {
    pub(crate) addresses: Addresses,
    pub(crate) traffic: Traffic,
    /// The flow has ended: its packets and timers are ignored.
    pub(crate) is_over: bool,
}

/// Probes that have arrived: their numbers and arrival times.
pub(crate) type ProbeArrivals = Vec<(u64, Instant)>;

/// The protocol state of a flow.
pub(crate) enum Traffic {
    /// The flow has not started.
    None,
    Tcp(Box<Transfer>),
    Ping(Ping),
    Udp(Box<DatagramFlow>),
    Xcp(Box<XcpFlow>),
    Bulk(Box<BulkFlow>),
    /// The probes of a measurement session that have arrived.
    Probes(ProbeArrivals),
}

/// A simulation in progress.
pub(crate) struct Engine<'a> {
    pub(crate) scenario: &'a Scenario,
    defaults: &'a HostDefaults,
    controllers: &'a mut dyn Controllers,
    pub(crate) links: LinkLayer,
    pub(crate) flows: Vec<FlowState>,
    timers: TimerQueue,
    pub(crate) now: Instant,
    /// Indices of the flows to trace.
    pub(crate) traced: Vec<usize>,
}

impl<'a> Engine<'a> {
    pub(crate) fn new(
        scenario: &'a Scenario,
        defaults: &'a HostDefaults,
        controllers: &'a mut dyn Controllers,
    ) -> Result<Self, Error> {
        let stations: Vec<Station> = engine_common::build_topology(scenario).stations();
        let network = engine_common::build_network::<CompactPacket>(scenario)?;
        // The last timer is for the expiry of path MTUs.
        let mut timers = TimerQueue::new(TIMERS_PER_FLOW * scenario.flows.len() + 1);
        let mut flows = Vec::new();
        for (index, flow) in scenario.flows.iter().enumerate() {
            let addresses = addresses(scenario, flow, &stations, &network)?;
            flows.push(FlowState { addresses, traffic: Traffic::None, is_over: false });
            timers.arm(TIMERS_PER_FLOW * index + APPLICATION, Some(flow.start));
        }
        let transmit_queues = TransmitQueues::new(scenario, stations.iter().map(|station| station.node));
        let paths = |flow: &FlowState| {
            let Addresses { forward, reverse, ip_header } = flow.addresses;
            // The source of packets to an endpoint is the address that its replies go to.
            [
                Path { source: forward.to, target: reverse.to, ip_header },
                Path { source: reverse.to, target: forward.to, ip_header },
            ]
        };
        let path_mtus = PathMtus::new(flows.iter().flat_map(paths).collect());
        let processing = HostProcessing::new(scenario, defaults, &stations);
        let jitter = stations.iter().map(|station| match station.node {
            Node::Host(host) => defaults.receive_jitter_of(&scenario.hosts[host as usize]),
            _ => Time::ZERO,
        });
        let waiting_limits = stations.iter().map(|station| match station.node {
            Node::Host(host) => defaults.waiting_limit(&scenario.hosts[host as usize]),
            _ => WaitingLimit::Memory,
        });
        let parts = LinkLayerParts {
            network,
            transmit_queues,
            stations: &stations,
            processing,
            path_mtus,
            fixed_neighbours: scenario.fixed_neighbours,
            waiting_limits: waiting_limits.collect(),
            jitter: jitter.collect(),
            segmenting: defaults.segmenting_stations(scenario, &stations),
        };
        let links = LinkLayer::new(parts, scenario.seed);
        Ok(Engine {
            scenario,
            defaults,
            controllers,
            links,
            flows,
            timers,
            now: Instant::ZERO,
            traced: Vec::new(),
        })
    }

    /// Handles all events up to and including `until`.
    pub(crate) fn run_until(&mut self, until: Instant) -> Result<(), Error> {
        let mut events_now = 0;
        loop {
            let next = self.links.run_network(until.min(self.timers.next())).min(self.timers.next());
            if next > until {
                self.now = until;
                return Ok(());
            }
            events_now = if next > self.now { 0 } else { events_now + 1 };
            if events_now > MAX_EVENTS_PER_INSTANT {
                return Err(Error::Stuck(self.now));
            }
            self.now = next;
            self.links.run_timers(next);
            self.handle_arrivals();
            while let Some((_, slot)) = self.timers.due(next) {
                self.on_timer(slot)?;
                self.handle_arrivals();
                events_now += 1;
                if events_now > MAX_EVENTS_PER_INSTANT {
                    return Err(Error::Stuck(self.now));
                }
            }
        }
    }

    /// Ends a flow: its later packets are discarded.
    pub(crate) fn end(&mut self, flow: usize) {
        self.flows[flow].is_over = true;
        (0..TIMERS_PER_FLOW).for_each(|slot| self.timers.arm(TIMERS_PER_FLOW * flow + slot, None));
    }

    /// Handles packets that have left transmit queues, then packets that have arrived.
    #[inline]
    fn handle_arrivals(&mut self) {
        while let Some(to) = self.links.next_dequeued() {
            let index = to as usize / 2;
            let side = if to.is_multiple_of(2) { Side::Receiver } else { Side::Sender };
            if self.waits_for_device(index, side) {
                self.on_dequeued(index, side);
            }
        }
        if self.links.has_arrivals(self.now) {
            self.receive_packets();
        }
    }

    #[inline(never)]
    fn receive_packets(&mut self) {
        while let Some(packet) = self.links.receive(self.now) {
            self.receive(packet);
        }
        while let Some(error) = self.links.icmp_errors.pop_front() {
            self.on_packet_too_big(error);
        }
    }

    /// A host receives ICMP "packet too big": it caches the path MTU, and the flow applies it.
    #[cold]
    #[inline(never)]
    fn on_packet_too_big(&mut self, error: TooBig) {
        let TooBig { number, seq, mtu } = error;
        let (index, now) = (number as usize / 2, self.now);
        let side = if number.is_multiple_of(2) { Side::Receiver } else { Side::Sender };
        let Some(mtu) = self.links.path_mtus.update(number, mtu, now) else { return };
        self.timers.arm(TIMERS_PER_FLOW * self.flows.len(), self.links.path_mtus.next_expiry());
        let Some(flow) = self.flows.get_mut(index).filter(|flow| !flow.is_over) else { return };
        match &mut flow.traffic {
            Traffic::Tcp(transfer) => {
                transfer.on_packet_too_big(side, seq, mtu, now, &mut self.links);
                self.follow_up(index, side);
            }
            Traffic::Udp(udp) => udp.mtu = udp.mtu.min(mtu),
            Traffic::Bulk(bulk) => {
                bulk.on_packet_too_big(side, seq, mtu, now, &mut self.links);
                self.arm_bulk(index);
            }
            Traffic::Ping(ping) if side == Side::Sender => ping.set_mtu(mtu),
            Traffic::None | Traffic::Ping(_) | Traffic::Xcp(_) | Traffic::Probes(_) => {}
        }
    }

    /// Removes expired path MTUs: flows over these paths send packets of their interface's MTU again.
    #[cold]
    #[inline(never)]
    fn expire_path_mtus(&mut self) {
        let now = self.now;
        self.links.path_mtus.expire(now);
        self.timers.arm(TIMERS_PER_FLOW * self.flows.len(), self.links.path_mtus.next_expiry());
        for index in 0..self.flows.len() {
            let mtus = self.path_mtus(index);
            match &mut self.flows[index].traffic {
                Traffic::Tcp(transfer) => {
                    for side in [Side::Sender, Side::Receiver] {
                        transfer.set_path_mtu(side, mtus[side as usize], now);
                    }
                }
                Traffic::Udp(udp) => udp.mtu = mtus[0],
                Traffic::Bulk(bulk) => bulk.mtus = mtus,
                Traffic::Ping(ping) => ping.set_mtu(mtus[0]),
                Traffic::None | Traffic::Xcp(_) | Traffic::Probes(_) => {}
            }
        }
    }

    /// The path MTUs from a flow's sender and from its receiver that their hosts have cached, at most their
    /// interfaces' MTUs.
    fn path_mtus(&self, index: usize) -> [u32; 2] {
        let flow = &self.scenario.flows[index];
        let number = 2 * index as u32;
        let of = |name: &str, to: u32| {
            let own = self.scenario.host(name).map_or(u32::MAX, |host| host.mtu);
            self.links.path_mtus.get(to, self.now).unwrap_or(u32::MAX).min(own)
        };
        [of(&flow.from, number + 1), of(&flow.to, number)]
    }

    #[inline]
    fn receive(&mut self, packet: CompactPacket) {
        let index = packet.to() as usize / 2;
        let side = if packet.to().is_multiple_of(2) { Side::Sender } else { Side::Receiver };
        let Some(flow) = self.flows.get_mut(index).filter(|flow| !flow.is_over) else { return };
        if let Traffic::Tcp(transfer) = &mut flow.traffic {
            if let Ok(segment) = Segment::try_from(packet) {
                transfer.on_segment(side, segment, self.now, &mut self.links);
                self.follow_up(index, side);
            }
            return;
        }
        self.receive_other(index, packet.into());
    }

    /// Receives a packet that is not TCP.
    #[inline(never)]
    fn receive_other(&mut self, index: usize, packet: SimPacket) {
        let is_request = matches!(&packet.body, Body::Echo(echo) if !echo.is_reply);
        let mtu_back = if is_request { self.path_mtus(index)[1] } else { 0 };
        let flow = &mut self.flows[index];
        match (&mut flow.traffic, packet.body) {
            (Traffic::Udp(udp), Body::Datagram(datagram)) => udp.receiver.take(&datagram, self.now),
            (Traffic::Probes(arrivals), Body::Datagram(probe)) => arrivals.push((probe.number, self.now)),
            (Traffic::Bulk(bulk), body) => {
                let side = if packet.to.is_multiple_of(2) { Side::Sender } else { Side::Receiver };
                match &body {
                    Body::Bulk(datagram) => bulk.on_datagram(side, datagram, self.now, &mut self.links),
                    Body::Tcp(segment) => bulk.on_segment(side, segment, self.now, &mut self.links),
                    _ => return,
                }
                self.arm_bulk(index);
            }
            (Traffic::Xcp(xcp), Body::Xcp(data)) => xcp.on_data(&data, self.now, &mut self.links),
            (Traffic::Xcp(xcp), Body::XcpAck(ack)) => {
                xcp.on_ack(&ack, self.now, &mut self.links);
                self.timers.arm(TIMERS_PER_FLOW * index, xcp.window.timeout());
            }
            (Traffic::Ping(ping), Body::Echo(echo)) => {
                let reassembly = &mut ping.reassembly[usize::from(echo.is_reply)];
                if !reassembly.completes(u64::from(echo.sequence), &echo.fragments) {
                    return;
                }
                if echo.is_reply {
                    ping.on_reply(self.now, &echo);
                    self.timers.arm(TIMERS_PER_FLOW * index + APPLICATION, ping.next());
                } else {
                    let bytes = echo.fragments.total_bytes;
                    let mut fragments = Fragments::new(bytes, mtu_back, packet.header);
                    // Routers may fragment replies: `icmp_reply` does no path MTU discovery.
                    fragments.dont_fragment = false;
                    let echo = Body::Echo(Echo { is_reply: true, fragments, ..echo });
                    let reply = SimPacket { to: packet.to - 1, header: packet.header, body: echo };
                    self.links.send(&flow.addresses.reverse, self.now, reply);
                }
            }
            _ => {}
        }
    }

    /// True if an end waits until one of its packets has left the transmit queue.
    #[inline]
    fn waits_for_device(&self, index: usize, side: Side) -> bool {
        match self.flows.get(index) {
            Some(FlowState { traffic: Traffic::Tcp(transfer), is_over: false, .. }) => {
                transfer.waits_for_device(side)
            }
            _ => false,
        }
    }

    /// A packet has left the transmit queue, and its sender has waited for that.
    #[inline(never)]
    fn on_dequeued(&mut self, index: usize, side: Side) {
        if let Traffic::Tcp(transfer) = &mut self.flows[index].traffic {
            transfer.on_device_sent(side, self.now, &mut self.links);
            self.follow_up(index, side);
        }
    }

    /// After any event at one end of a connection: runs its application and sets its timers.
    #[inline]
    fn follow_up(&mut self, index: usize, side: Side) {
        let Traffic::Tcp(transfer) = &mut self.flows[index].traffic else { return };
        let slot = TIMERS_PER_FLOW * index + side as usize;
        let at = transfer.run_application(side, self.now, &mut self.links);
        self.timers.arm(slot + APPLICATION, at);
        self.timers.arm_no_later_than(slot, transfer.next_timer(side));
    }

    #[inline(never)]
    fn on_timer(&mut self, slot: usize) -> Result<(), Error> {
        let (index, what) = (slot / TIMERS_PER_FLOW, slot % TIMERS_PER_FLOW);
        if index == self.flows.len() {
            self.expire_path_mtus();
            return Ok(());
        }
        let side = if what.is_multiple_of(2) { Side::Sender } else { Side::Receiver };
        self.timers.arm(slot, None);
        match &mut self.flows[index].traffic {
            Traffic::None => self.start(index, &self.scenario.flows[index])?,
            Traffic::Probes(_) => {}
            Traffic::Tcp(transfer) => {
                if what < APPLICATION {
                    let timer = transfer.next_timer(side);
                    if timer.is_none_or(|at| at > self.now) {
                        // It was postponed in the meantime.
                        self.timers.arm(slot, timer);
                        return Ok(());
                    }
                    transfer.on_timer(side, self.now, &mut self.links);
                }
                self.follow_up(index, side);
            }
            Traffic::Ping(_) => self.send_echoes(index),
            Traffic::Udp(udp) => {
                self.timers.arm(slot, udp.send(self.now, &mut self.links));
            }
            Traffic::Xcp(xcp) => {
                xcp.on_timer(self.now, &mut self.links);
                self.timers.arm(slot, xcp.window.timeout());
            }
            Traffic::Bulk(bulk) => {
                bulk.on_timer(side, self.now, &mut self.links);
                self.arm_bulk(index);
            }
        }
        Ok(())
    }

    /// Sets the timers of both ends of a udt, tsunami, stream or quic flow.
    fn arm_bulk(&mut self, index: usize) {
        let Traffic::Bulk(bulk) = &self.flows[index].traffic else { return };
        for side in [Side::Sender, Side::Receiver] {
            self.timers.arm(TIMERS_PER_FLOW * index + side as usize, bulk.next_timer(side));
        }
    }

    /// Starts a udt, tsunami, stream or quic flow.
    fn start_bulk(&mut self, index: usize, flow: &scenario::FlowSpec) -> Result<(), Error> {
        let Some(plan) = engine_common::bulk_plan(self.scenario, flow, index) else {
            // quinn needs a clock of the operating system.
            let is_impossible = cfg!(target_arch = "wasm32") && matches!(flow.kind, FlowKind::Quic(_));
            let kind = flow.kind.name();
            return match is_impossible {
                true => Err(Error::NotOnThisTarget { flow: flow.name.clone(), kind }),
                false => Ok(()),
            };
        };
        let is_controlled = plan.has_congestion_control();
        let congestion = is_controlled.then(|| self.controller(flow, Side::Sender)).transpose()?;
        let (addresses, number) = (self.flows[index].addresses, 2 * index as u32);
        let host = |name: &str| self.scenario.host(name).ok_or_else(|| Error::NoPath(flow.name.clone()));
        let hosts = [host(&flow.from)?, host(&flow.to)?];
        let mtus = self.path_mtus(index);
        let control = if plan.has_control_connection() {
            let ends = [self.controller(flow, Side::Sender)?, self.controller(flow, Side::Receiver)?];
            let seed = self.scenario.seed;
            let control = ControlPlan { defaults: self.defaults, hosts, mtus, addresses, number, seed };
            Some(ControlConnection::open(&control, ends, self.now)?)
        } else {
            None
        };
        let mut bulk =
            BulkFlow::new(BulkFlowPlan { plan, congestion, control, addresses, number, mtus }, self.now);
        for side in [Side::Sender, Side::Receiver] {
            bulk.on_timer(side, self.now, &mut self.links);
        }
        self.flows[index].traffic = Traffic::Bulk(Box::new(bulk));
        self.arm_bulk(index);
        Ok(())
    }

    /// A flow's trace, if it is traced.
    pub(crate) fn trace(&mut self, index: usize) -> Option<&mut Trace> {
        match &mut self.flows[index].traffic {
            Traffic::Tcp(transfer) => transfer.trace.as_deref_mut(),
            _ => None,
        }
    }

    /// Starts a flow now, with another kind than the scenario has for it.
    pub(crate) fn start_as(&mut self, index: usize, kind: FlowKind) -> Result<(), Error> {
        let flow = scenario::FlowSpec { kind, ..self.scenario.flows[index].clone() };
        self.start(index, &flow)
    }

    /// Starts a flow.
    fn start(&mut self, index: usize, flow: &scenario::FlowSpec) -> Result<(), Error> {
        let addresses = self.flows[index].addresses;
        let host = |name: &str| self.scenario.host(name).ok_or_else(|| Error::NoPath(flow.name.clone()));
        let hosts = [host(&flow.from)?, host(&flow.to)?];
        let (number, seed) = (2 * index as u32, self.scenario.seed);
        let mtus = self.path_mtus(index);
        match &flow.kind {
            FlowKind::Tcp(tcp) => {
                let defaults = self.defaults;
                let traced = self.traced.contains(&index).then_some(flow.name.as_str());
                let plan =
                    TransferPlan { defaults, hosts, tcp, addresses, number, path_mtus: mtus, seed, traced };
                let ends = [self.controller(flow, Side::Sender)?, self.controller(flow, Side::Receiver)?];
                let transfer = Transfer::connect(&plan, ends, self.now)?;
                self.flows[index].traffic = Traffic::Tcp(Box::new(transfer));
                self.follow_up(index, Side::Sender);
            }
            FlowKind::Ping(ping) => {
                let timeout = echo_timeout(self.scenario);
                let ping = Ping::new(ping, self.now, timeout, mtus[0], addresses.ip_header);
                self.flows[index].traffic = Traffic::Ping(ping);
                self.send_echoes(index);
            }
            FlowKind::Udp(udp) => {
                let max_payload = hosts[0].mtu - addresses.ip_header - UDP_HEADER_BYTES;
                let plan = DatagramFlowPlan {
                    source: datagram_source(udp, max_payload, seed, index, self.now),
                    forward: addresses.forward,
                    ip_header: addresses.ip_header,
                    mtu: mtus[0],
                    to: number + 1,
                    timeout: echo_timeout(self.scenario),
                };
                let mut udp = DatagramFlow::new(plan);
                self.timers.arm(TIMERS_PER_FLOW * index + APPLICATION, udp.send(self.now, &mut self.links));
                self.flows[index].traffic = Traffic::Udp(Box::new(udp));
            }
            FlowKind::Udt(_) | FlowKind::Tsunami(_) | FlowKind::Stream(_) | FlowKind::Quic(_) => {
                self.start_bulk(index, flow)?;
            }
            FlowKind::Xcp(spec) => {
                let max = hosts[0].mtu.min(hosts[1].mtu);
                let mtu = self.scenario.path_mtu(flow).map_or(max, |path| path.mtu);
                let mut xcp = XcpFlow::new(spec, mtu, addresses, number);
                xcp.send(self.now, &mut self.links);
                self.timers.arm(TIMERS_PER_FLOW * index, xcp.window.timeout());
                self.flows[index].traffic = Traffic::Xcp(Box::new(xcp));
            }
        }
        Ok(())
    }

    fn controller(
        &mut self,
        flow: &scenario::FlowSpec,
        side: Side,
    ) -> Result<Box<dyn CongestionControl>, Error> {
        let error = |source| Error::Controller { flow: flow.name.clone(), source };
        self.controllers.controller(flow, side).map_err(error)
    }

    /// Sends the echo requests of a ping that are due.
    fn send_echoes(&mut self, index: usize) {
        let FlowState { traffic: Traffic::Ping(ping), addresses, .. } = &mut self.flows[index] else {
            return;
        };
        while let Some(echo) = ping.send(self.now) {
            let to = 2 * index as u32 + 1;
            let packet = SimPacket { to, header: addresses.ip_header, body: Body::Echo(echo) };
            self.links.send(&addresses.forward, self.now, packet);
        }
        // The next sample ends a flow that is done, so no timer is set for now.
        self.timers.arm(TIMERS_PER_FLOW * index + APPLICATION, ping.next().filter(|at| *at > self.now));
    }
}
