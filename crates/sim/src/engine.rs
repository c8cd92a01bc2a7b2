//! The event loop: what happens next, in the network or at a flow, in order of time.
//!
//! At one instant the network comes first, then flows in the scenario's order, sender before receiver, timers before
//! applications. There is one entry for each thing that waits (a pipe, a timer, an application), never one for a packet.

use net::{Station, Wakes};
use scenario::{
    Kind, Scenario,
    plan::{UDP_HEADER, patience, source},
};
use tcp::{CongestionControl, Segment};
use units::Time;

use crate::{
    Controllers, Error, Machine, Side,
    addresses::{Addresses, addresses},
    device::Devices,
    fragments::Fragments,
    packet::{Body, Echo, SimPacket},
    parcel::Parcel,
    path_mtu::{Ends, PathMtus, TooBig},
    ping::Ping,
    session::Arrivals,
    trace::Trace,
    transfer::{Plan, Transfer},
    udp::{self, Stream},
    wire::{self, Wire},
    xcp::XcpFlow,
};

/// So many events at one instant are a circle.
const MOST_AT_ONCE: u32 = 50_000_000;

/// A flow may wait for its sender's timer, its receiver's timer, its sender's application, its receiver's application.
const SLOTS: usize = 4;
const APPLICATION: usize = 2;

/// A flow of the scenario.
pub(crate) struct Flow {
    pub(crate) addresses: Addresses,
    pub(crate) traffic: Traffic,
    /// It takes no more part in anything.
    pub(crate) over: bool,
}

/// What a flow does.
pub(crate) enum Traffic {
    /// It has not begun, or is over.
    None,
    Tcp(Box<Transfer>),
    Ping(Ping),
    Udp(Box<Stream>),
    Xcp(Box<XcpFlow>),
    /// Probes that have come, of a session.
    Probes(Arrivals),
}

/// A simulation under way.
pub(crate) struct Engine<'a> {
    pub(crate) scenario: &'a Scenario,
    machine: &'a Machine,
    controllers: &'a mut dyn Controllers,
    pub(crate) wire: Wire,
    pub(crate) flows: Vec<Flow>,
    wakes: Wakes,
    pub(crate) now: Time,
    /// Flows to be traced, by their place in the scenario.
    pub(crate) traced: Vec<usize>,
}

impl<'a> Engine<'a> {
    pub(crate) fn new(
        scenario: &'a Scenario,
        machine: &'a Machine,
        controllers: &'a mut dyn Controllers,
    ) -> Result<Self, Error> {
        let stations: Vec<Station> = scenario::plan::topology(scenario).stations();
        let network = scenario::plan::network::<Parcel>(scenario)?;
        // The last slot is for what hosts forget.
        let mut wakes = Wakes::new(SLOTS * scenario.flows.len() + 1);
        let mut flows = Vec::new();
        for (index, flow) in scenario.flows.iter().enumerate() {
            let addresses = addresses(scenario, flow, &stations, &network)?;
            flows.push(Flow { addresses, traffic: Traffic::None, over: false });
            wakes.arm(SLOTS * index + APPLICATION, Some(flow.start));
        }
        let devices = Devices::new(scenario, stations.iter().map(|station| station.node));
        let ends = |flow: &Flow| {
            let Addresses { there, back, ip_header } = flow.addresses;
            // Packets to a number come from the address that answers go to.
            [
                Ends { source: there.to, target: back.to, ip_header },
                Ends { source: back.to, target: there.to, ip_header },
            ]
        };
        let path_mtus = PathMtus::new(flows.iter().flat_map(ends).collect());
        let plan = wire::Plan { network, devices, stations: &stations, path_mtus };
        let wire = Wire::new(plan, machine, scenario.seed);
        Ok(Engine { scenario, machine, controllers, wire, flows, wakes, now: Time(0), traced: Vec::new() })
    }

    /// Does all that happens up to and including `until`.
    pub(crate) fn run_until(&mut self, until: Time) -> Result<(), Error> {
        let mut at_once = 0;
        loop {
            let next = self.wire.run_network(until.min(self.wakes.next())).min(self.wakes.next());
            if next > until {
                self.now = until;
                return Ok(());
            }
            at_once = if next > self.now { 0 } else { at_once + 1 };
            if at_once > MOST_AT_ONCE {
                return Err(Error::Stuck(self.now));
            }
            self.now = next;
            self.wire.run_until(next);
            self.take_news();
            while let Some((_, slot)) = self.wakes.due(next) {
                self.wake(slot)?;
                self.take_news();
                at_once += 1;
                if at_once > MOST_AT_ONCE {
                    return Err(Error::Stuck(self.now));
                }
            }
        }
    }

    /// The flow takes no more part: what still comes for it is thrown away.
    pub(crate) fn end(&mut self, flow: usize) {
        self.flows[flow].over = true;
        (0..SLOTS).for_each(|slot| self.wakes.arm(SLOTS * flow + slot, None));
    }

    /// Looks at packets that have left their devices' queues, then at those that have come.
    #[inline]
    fn take_news(&mut self) {
        while let Some(to) = self.wire.next_left() {
            let index = to as usize / 2;
            let side = if to.is_multiple_of(2) { Side::Receiver } else { Side::Sender };
            if self.waits_for_device(index, side) {
                self.go_on(index, side);
            }
        }
        if self.wire.has_come(self.now) {
            self.take_arrived();
        }
    }

    #[inline(never)]
    fn take_arrived(&mut self) {
        while let Some(packet) = self.wire.receive(self.now) {
            self.take(packet);
        }
        while let Some(report) = self.wire.reports.pop_front() {
            self.take_too_big(report);
        }
    }

    /// A router reports to a host that a packet was too large: the host remembers the path's MTU, and the flow goes by it.
    #[cold]
    #[inline(never)]
    fn take_too_big(&mut self, report: TooBig) {
        let TooBig { number, seq, mtu } = report;
        let (index, now) = (number as usize / 2, self.now);
        let side = if number.is_multiple_of(2) { Side::Receiver } else { Side::Sender };
        let Some(mtu) = self.wire.path_mtus.learn(number, mtu, now) else { return };
        self.wakes.arm(SLOTS * self.flows.len(), self.wire.path_mtus.next_expiry());
        let Some(flow) = self.flows.get_mut(index).filter(|flow| !flow.over) else { return };
        match &mut flow.traffic {
            Traffic::Tcp(transfer) => {
                transfer.take_too_big(side, seq, mtu, now, &mut self.wire);
                self.follow_up(index, side);
            }
            Traffic::Udp(stream) => stream.mtu = stream.mtu.min(mtu),
            Traffic::Ping(ping) if side == Side::Sender => ping.set_mtu(mtu),
            Traffic::None | Traffic::Ping(_) | Traffic::Xcp(_) | Traffic::Probes(_) => {}
        }
    }

    /// Hosts forget what they learned long ago of paths' MTUs, and send packets of their own MTU again.
    #[cold]
    #[inline(never)]
    fn forget_path_mtus(&mut self) {
        let now = self.now;
        self.wire.path_mtus.expire(now);
        self.wakes.arm(SLOTS * self.flows.len(), self.wire.path_mtus.next_expiry());
        for index in 0..self.flows.len() {
            let mtus = self.path_mtus(index);
            match &mut self.flows[index].traffic {
                Traffic::Tcp(transfer) => {
                    for side in [Side::Sender, Side::Receiver] {
                        transfer.set_path_mtu(side, mtus[side as usize], now);
                    }
                }
                Traffic::Udp(stream) => stream.mtu = mtus[0],
                Traffic::Ping(ping) => ping.set_mtu(mtus[0]),
                Traffic::None | Traffic::Xcp(_) | Traffic::Probes(_) => {}
            }
        }
    }

    /// The MTUs of the paths from a flow's sender and from its receiver, as far as their hosts know them.
    fn path_mtus(&self, index: usize) -> [u32; 2] {
        let flow = &self.scenario.flows[index];
        let number = 2 * index as u32;
        let of = |name: &str, to: u32| {
            let own = self.scenario.host(name).map_or(u32::MAX, |host| host.mtu);
            self.wire.path_mtus.get(to, self.now).unwrap_or(u32::MAX).min(own)
        };
        [of(&flow.from, number + 1), of(&flow.to, number)]
    }

    #[inline]
    fn take(&mut self, parcel: Parcel) {
        let index = parcel.to() as usize / 2;
        let side = if parcel.to().is_multiple_of(2) { Side::Sender } else { Side::Receiver };
        let Some(flow) = self.flows.get_mut(index).filter(|flow| !flow.over) else { return };
        if let Traffic::Tcp(transfer) = &mut flow.traffic {
            if let Ok(segment) = Segment::try_from(parcel) {
                transfer.take(side, segment, self.now, &mut self.wire);
                self.follow_up(index, side);
            }
            return;
        }
        self.take_other(index, parcel.into());
    }

    /// A packet arrives that is not TCP's.
    #[inline(never)]
    fn take_other(&mut self, index: usize, packet: SimPacket) {
        let is_request = matches!(&packet.body, Body::Echo(echo) if !echo.reply);
        let mtu_back = if is_request { self.path_mtus(index)[1] } else { 0 };
        let flow = &mut self.flows[index];
        match (&mut flow.traffic, packet.body) {
            (Traffic::Udp(stream), Body::Datagram(datagram)) => stream.receiver.take(&datagram, self.now),
            (Traffic::Probes(arrivals), Body::Datagram(probe)) => arrivals.push((probe.number, self.now)),
            (Traffic::Xcp(xcp), Body::Xcp(data)) => xcp.take_data(&data, self.now, &mut self.wire),
            (Traffic::Xcp(xcp), Body::XcpAck(ack)) => {
                xcp.take_ack(&ack, self.now, &mut self.wire);
                self.wakes.arm(SLOTS * index, xcp.window.timeout());
            }
            (Traffic::Ping(ping), Body::Echo(echo)) => {
                let reassembly = &mut ping.reassembly[usize::from(echo.reply)];
                if !reassembly.completes(u64::from(echo.sequence), &echo.fragments) {
                    return;
                }
                if echo.reply {
                    ping.take(self.now, &echo);
                    self.wakes.arm(SLOTS * index + APPLICATION, ping.next());
                } else {
                    let bytes = echo.fragments.total_bytes;
                    let mut fragments = Fragments::of(bytes, mtu_back, packet.header);
                    // Replies may be fragmented on their way (`icmp_reply` asks for no discovery).
                    fragments.whole_only = false;
                    let echo = Body::Echo(Echo { reply: true, fragments, ..echo });
                    let reply = SimPacket { to: packet.to - 1, header: packet.header, body: echo };
                    self.wire.send(&flow.addresses.back, self.now, reply);
                }
            }
            _ => {}
        }
    }

    /// Whether an end waits until a packet of it has left its host.
    #[inline]
    fn waits_for_device(&self, index: usize, side: Side) -> bool {
        match self.flows.get(index) {
            Some(Flow { traffic: Traffic::Tcp(transfer), over: false, .. }) => {
                transfer.waits_for_device(side)
            }
            _ => false,
        }
    }

    /// A packet of an end that had waited for that has left its host.
    #[inline(never)]
    fn go_on(&mut self, index: usize, side: Side) {
        if let Traffic::Tcp(transfer) = &mut self.flows[index].traffic {
            transfer.go_on(side, self.now, &mut self.wire);
            self.follow_up(index, side);
        }
    }

    /// After anything happened to one end of a connection: its application works, its timers are set.
    #[inline]
    fn follow_up(&mut self, index: usize, side: Side) {
        let Traffic::Tcp(transfer) = &mut self.flows[index].traffic else { return };
        let slot = SLOTS * index + side as usize;
        let wake = transfer.work(side, self.now, &mut self.wire);
        self.wakes.arm(slot + APPLICATION, wake);
        self.wakes.arm_by(slot, transfer.next_timer(side));
    }

    #[inline(never)]
    fn wake(&mut self, slot: usize) -> Result<(), Error> {
        let (index, what) = (slot / SLOTS, slot % SLOTS);
        if index == self.flows.len() {
            self.forget_path_mtus();
            return Ok(());
        }
        let side = if what.is_multiple_of(2) { Side::Sender } else { Side::Receiver };
        self.wakes.arm(slot, None);
        match &mut self.flows[index].traffic {
            Traffic::None => self.begin(index, &self.scenario.flows[index])?,
            Traffic::Probes(_) => {}
            Traffic::Tcp(transfer) => {
                if what < APPLICATION {
                    let timer = transfer.next_timer(side);
                    if timer.is_none_or(|at| at > self.now) {
                        // It was put off meanwhile.
                        self.wakes.arm(slot, timer);
                        return Ok(());
                    }
                    transfer.on_timer(side, self.now, &mut self.wire);
                }
                self.follow_up(index, side);
            }
            Traffic::Ping(_) => self.ping(index),
            Traffic::Udp(stream) => {
                self.wakes.arm(slot, stream.send(self.now, &mut self.wire));
            }
            Traffic::Xcp(xcp) => {
                xcp.on_timer(self.now, &mut self.wire);
                self.wakes.arm(slot, xcp.window.timeout());
            }
        }
        Ok(())
    }

    /// The trace of a flow that has one.
    pub(crate) fn trace(&mut self, index: usize) -> Option<&mut Trace> {
        match &mut self.flows[index].traffic {
            Traffic::Tcp(transfer) => transfer.trace.as_deref_mut(),
            _ => None,
        }
    }

    /// A flow begins now, as another kind than the scenario has.
    pub(crate) fn begin_as(&mut self, index: usize, kind: Kind) -> Result<(), Error> {
        let flow = scenario::Flow { kind, ..self.scenario.flows[index].clone() };
        self.begin(index, &flow)
    }

    /// A flow's time has come.
    fn begin(&mut self, index: usize, flow: &scenario::Flow) -> Result<(), Error> {
        let addresses = self.flows[index].addresses;
        let host = |name: &str| self.scenario.host(name).ok_or_else(|| Error::NoWay(flow.name.clone()));
        let hosts = [host(&flow.from)?, host(&flow.to)?];
        let (number, seed) = (2 * index as u32, self.scenario.seed);
        let mtus = self.path_mtus(index);
        match &flow.kind {
            Kind::Tcp(tcp) => {
                let machine = self.machine;
                let traced = self.traced.contains(&index).then_some(flow.name.as_str());
                let plan = Plan { machine, hosts, tcp, addresses, number, path_mtus: mtus, seed, traced };
                let ends = [self.controller(flow, Side::Sender)?, self.controller(flow, Side::Receiver)?];
                let transfer = Transfer::connect(&plan, ends, self.now)?;
                self.flows[index].traffic = Traffic::Tcp(Box::new(transfer));
                self.follow_up(index, Side::Sender);
            }
            Kind::Ping(ping) => {
                let patience = patience(self.scenario);
                let ping = Ping::new(ping, self.now, patience, mtus[0], addresses.ip_header);
                self.flows[index].traffic = Traffic::Ping(ping);
                self.ping(index);
            }
            Kind::Udp(udp) => {
                let most = hosts[0].mtu - addresses.ip_header - UDP_HEADER;
                let plan = udp::Plan {
                    source: source(udp, most, seed, index, self.now),
                    there: addresses.there,
                    ip_header: addresses.ip_header,
                    mtu: mtus[0],
                    to: number + 1,
                    patience: patience(self.scenario),
                };
                let mut stream = Stream::new(plan);
                self.wakes.arm(SLOTS * index + APPLICATION, stream.send(self.now, &mut self.wire));
                self.flows[index].traffic = Traffic::Udp(Box::new(stream));
            }
            Kind::Xcp(spec) => {
                let most = hosts[0].mtu.min(hosts[1].mtu);
                let mtu = self.scenario.path_mtu(flow).map_or(most, |path| path.mtu);
                let mut xcp = XcpFlow::new(spec, mtu, addresses, number);
                xcp.send(self.now, &mut self.wire);
                self.wakes.arm(SLOTS * index, xcp.window.timeout());
                self.flows[index].traffic = Traffic::Xcp(Box::new(xcp));
            }
        }
        Ok(())
    }

    fn controller(&mut self, flow: &scenario::Flow, side: Side) -> Result<Box<dyn CongestionControl>, Error> {
        let named = |source| Error::Controller { flow: flow.name.clone(), source };
        self.controllers.controller(flow, side).map_err(named)
    }

    /// A ping sends what is due.
    fn ping(&mut self, index: usize) {
        let Flow { traffic: Traffic::Ping(ping), addresses, .. } = &mut self.flows[index] else { return };
        while let Some(echo) = ping.send(self.now) {
            let to = 2 * index as u32 + 1;
            let packet = SimPacket { to, header: addresses.ip_header, body: Body::Echo(echo) };
            self.wire.send(&addresses.there, self.now, packet);
        }
        // What comes now was seen; a flow that is done waits for the next look.
        self.wakes.arm(SLOTS * index + APPLICATION, ping.next().filter(|at| *at > self.now));
    }
}
