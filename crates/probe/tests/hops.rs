//! Hops on random chains of three routers in virtual time, with cross traffic on the links between them: the
//! narrowest link must be found. Links have MTUs, routers quote as much as IPv4 or IPv6 routers do, and in
//! half of the chains the two directions of a link have different rates.

use std::net::IpAddr;

use datagrams::Draws;
use net::{
    Destination, DropCause, Network, Node, Packet, PacketSink, PipeId, PipeSpec, QueueLimit, Rate,
    RoutablePacket, Router, RouterAction, RouterArrival, Topology, XcpPacket,
};
use probe::{HopReply, Hops, HopsResult, IpVersion};
use units::{BitRate, Instant, Time};

const ROUTERS: u32 = 3;
/// Minimum share of links whose interval contains the true rate.
const MIN_COVERAGE: f64 = 0.95;

/// The part of a packet that an ICMP error quotes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Quotation {
    /// RFC 792: the IP header and 8 bytes.
    Eight,
    /// RFC 4884: 128 bytes, and an extension of 20 (an MPLS label).
    Extended,
    /// RFC 1812: as much as fits into 576 bytes.
    V4,
    /// RFC 4443: as much as fits into 1280 bytes.
    V6,
}

impl Quotation {
    /// Size of the error for a packet of this size, bytes of IP.
    fn error_bytes(self, packet: u32) -> u32 {
        match self {
            Quotation::Eight => 56,
            Quotation::Extended => 28 + 128 + 20,
            Quotation::V4 => (28 + packet).min(576),
            Quotation::V6 => (48 + packet).min(1280),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum PacketKind {
    Probe { number: usize, ttl: u8, quoting: [Quotation; ROUTERS as usize] },
    Reply { number: usize, from: u8, is_host: bool },
    Cross,
}

/// A packet with a time to live, to whose expiry routers reply.
#[derive(Debug, Clone, Copy)]
struct HopTestPacket {
    kind: PacketKind,
    bytes: u32,
}

impl Packet for HopTestPacket {
    fn segments(&self) -> u32 {
        1
    }
    fn segment_bytes(&self) -> u32 {
        self.bytes
    }
    fn last_segment_bytes(&self) -> u32 {
        self.bytes
    }
    fn split_off(&mut self, _at: u32) -> Self {
        unreachable!("single segments are never split")
    }
}

impl XcpPacket for HopTestPacket {}

impl RoutablePacket for HopTestPacket {
    fn process_at_router(self, router: &Router, arrival: RouterArrival, out: &mut Vec<RouterAction<Self>>) {
        let (packet, to) = match self.kind {
            PacketKind::Probe { number, ttl: 1, quoting } => {
                // The first station of a router identifies it.
                let from = router.interfaces[0].station as u8;
                let kind = PacketKind::Reply { number, from, is_host: false };
                let bytes = quoting[usize::from(router_number(from))].error_bytes(self.bytes);
                (HopTestPacket { kind, bytes }, Destination::Station(0))
            }
            PacketKind::Probe { number, ttl, quoting } => (
                HopTestPacket { kind: PacketKind::Probe { number, ttl: ttl - 1, quoting }, ..self },
                arrival.to,
            ),
            _ => (self, arrival.to),
        };
        let Destination::Station(station) = to else { return };
        match router.next_hop_to(station) {
            Some(way) => out.push(RouterAction::Send { interface: way.interface, to, packet }),
            None => out.push(RouterAction::Drop(packet)),
        }
    }
}

#[derive(Default)]
struct Replies {
    replies: Vec<Option<(u64, u8, u32, bool)>>,
    outstanding: usize,
    above_mtu: usize,
    /// Index and size of packets that arrived at the host.
    at_host: Vec<(usize, u32)>,
}

impl PacketSink<HopTestPacket> for Replies {
    fn deliver(&mut self, _station: u32, at: Instant, packet: HopTestPacket) {
        match packet.kind {
            PacketKind::Probe { number, .. } => self.at_host.push((number, packet.bytes)),
            PacketKind::Reply { number, from, is_host } => {
                self.replies[number] = Some((at.as_nanos(), from, packet.bytes, is_host));
                self.outstanding -= 1;
            }
            PacketKind::Cross => {}
        }
    }
    fn drop(&mut self, _pipe: PipeId, _at: Instant, cause: DropCause, packet: HopTestPacket) {
        self.above_mtu += usize::from(cause == DropCause::Mtu);
        self.outstanding -= usize::from(packet.kind != PacketKind::Cross);
    }
}

/// h0 - r0 - r1 - r2 - h1; another host at each router sends cross traffic to the next.
struct Chain {
    network: Network<HopTestPacket>,
    rates: Vec<f64>,
    version: IpVersion,
    quoting: [Quotation; ROUTERS as usize],
    is_symmetric: bool,
    mtu: u32,
    host_mtu: u32,
    load: f64,
    draws: Draws,
    next_cross: Vec<u64>,
    now: u64,
}

impl Chain {
    fn new(seed: u64) -> Self {
        let mut draws = Draws::new(seed, 9);
        let mut uniform = || draws.below(1 << 30) as f64 / (1u64 << 30) as f64;
        let mut rates: Vec<f64> = (0..=ROUTERS).map(|_| 20e6 * 50f64.powf(uniform())).collect();
        // The rate of the narrowest link is at least a fifth below all others, so that it is unique.
        let narrowest = narrowest(&rates);
        let min = rates[narrowest];
        for (index, rate) in rates.iter_mut().enumerate() {
            if index != narrowest {
                *rate = rate.max(1.25 * min);
            }
        }
        let load = 0.5 * uniform();
        let mut kinds = Draws::new(seed, 13);
        let version = if kinds.below(2) == 0 { IpVersion::V4 } else { IpVersion::V6 };
        let quoting = std::array::from_fn(|_| match (version, kinds.below(4)) {
            (IpVersion::V6, _) => Quotation::V6,
            (IpVersion::V4, 0) => Quotation::Eight,
            (IpVersion::V4, 1) => Quotation::Extended,
            (IpVersion::V4, _) => Quotation::V4,
        });
        let is_symmetric = kinds.below(2) == 0;
        let mtu = [1280, 1400, 1500, 9000][kinds.below(4) as usize];
        let host_mtu = mtu.max(1500);
        let narrow_mtu = kinds.below(u64::from(ROUTERS)) as usize + 1;
        let pipes: Vec<PipeSpec> = rates
            .iter()
            .map(|rate| PipeSpec {
                rate: Rate::Constant(BitRate(*rate as u64)),
                delay: Time::from_secs_f64(0.0001 + 0.005 * uniform()),
                queue: QueueLimit::Packets(1000),
                mtu: Some(host_mtu),
                ..PipeSpec::default()
            })
            .collect();
        let backs: Vec<PipeSpec> = pipes
            .iter()
            .zip(&rates)
            .map(|(pipe, rate)| {
                let factor = if is_symmetric { 1.0 } else { 0.25 * 16f64.powf(uniform()) };
                PipeSpec { rate: Rate::Constant(BitRate((rate * factor) as u64)), ..pipe.clone() }
            })
            .collect();
        let mut pipes = pipes;
        pipes[narrow_mtu].mtu = Some(mtu);
        let mut topology = Topology::new(2 + ROUTERS, 0);
        let routers: Vec<Node> = (0..ROUTERS).map(|_| topology.add_router()).collect();
        let mut chain = vec![Node::Host(0)];
        chain.extend(&routers);
        chain.push(Node::Host(1));
        for ((ends, pipe), back) in chain.windows(2).zip(&pipes).zip(&backs) {
            topology.add_link(ends[0], ends[1], pipe.clone(), back.clone());
        }
        for (index, router) in (0..).zip(&routers) {
            topology.add_link(Node::Host(2 + index), *router, PipeSpec::default(), PipeSpec::default());
        }
        let next_cross = vec![0; ROUTERS as usize - 1];
        Chain {
            network: topology.build(seed).unwrap(),
            rates,
            version,
            quoting,
            is_symmetric,
            mtu,
            host_mtu,
            load,
            draws,
            next_cross,
            now: 0,
        }
    }

    /// Measures with the path MTU known, or with ICMP errors of routers for the first packets that are too
    /// large.
    fn measure(&mut self, mtu_is_known: bool) -> HopsResult {
        let mtu = if mtu_is_known { self.mtu } else { self.host_mtu };
        let mut hops = Hops::new(10, mtu, self.version, 100.0);
        loop {
            let packets = hops.next_packets();
            if packets.is_empty() {
                return hops.result();
            }
            let mut sink = Replies {
                replies: vec![None; packets.len()],
                outstanding: packets.len(),
                ..Replies::default()
            };
            // Cross traffic begins earlier than the probes.
            let begin = self.now + 10_000_000;
            self.next_cross.fill(self.now);
            self.run(begin, &mut sink);
            for (number, packet) in packets.iter().enumerate() {
                let kind = PacketKind::Probe { number, ttl: packet.ttl, quoting: self.quoting };
                let probe = HopTestPacket { kind, bytes: packet.bytes };
                self.network.send(0, Instant::from_nanos(begin), Destination::Station(1), probe, &mut sink);
            }
            while sink.outstanding > 0 {
                let next = self.network.next_event().map_or(u64::MAX, |at| at.as_nanos());
                self.run(next.min(self.now + 1_000_000).max(self.now + 1), &mut sink);
            }
            if sink.above_mtu > 0 {
                assert!(!mtu_is_known, "no probe is above the path MTU");
                assert!(hops.reduce_mtu(self.mtu), "each size above the MTU is tried once");
                continue;
            }
            let replies: Vec<Option<HopReply>> = sink
                .replies
                .iter()
                .map(|reply| {
                    reply.map(|(at, from, bytes, is_host)| HopReply {
                        after_ns: (at - begin) as f64,
                        from: IpAddr::from([10, 0, 0, from]),
                        bytes,
                        is_host,
                        is_unreachable: false,
                    })
                })
                .collect();
            hops.add_replies(&replies);
        }
    }

    /// Runs the network until `end`, with cross traffic and the replies of the host.
    fn run(&mut self, end: u64, sink: &mut Replies) {
        loop {
            let link = (0..self.next_cross.len()).min_by_key(|link| self.next_cross[*link]).unwrap();
            let cross = if self.load > 0.0 { self.next_cross[link] } else { u64::MAX };
            let wake = self.network.next_event().map_or(u64::MAX, |at| at.as_nanos());
            self.now = end.min(cross).min(wake.max(self.now));
            self.network.run_until(Instant::from_nanos(self.now), sink);
            for (number, bytes) in std::mem::take(&mut sink.at_host) {
                let kind = PacketKind::Reply { number, from: 99, is_host: true };
                // The number of bytes that Linux quotes.
                let quoting = match self.version {
                    IpVersion::V4 => Quotation::V4,
                    IpVersion::V6 => Quotation::V6,
                };
                let reply = HopTestPacket { kind, bytes: quoting.error_bytes(bytes) };
                self.network.send(1, Instant::from_nanos(self.now), Destination::Station(0), reply, sink);
            }
            if self.now >= cross {
                let packet = HopTestPacket { kind: PacketKind::Cross, bytes: self.mtu.min(1500) };
                let station = 2 + link as u32;
                self.network.send(
                    station,
                    Instant::from_nanos(self.now),
                    Destination::Station(station + 1),
                    packet,
                    sink,
                );
                let mean = f64::from(self.mtu.min(1500) + 14) * 8e9 / (self.rates[link + 1] * self.load);
                self.next_cross[link] =
                    cross + self.draws.exponential(Time::from_nanos(mean as u64)).as_nanos().max(1);
            } else if self.now >= end {
                return;
            }
        }
    }
}

/// The router with this first station: stations are numbered host by host (one each), and then router by
/// router (three each).
fn router_number(station: u8) -> u8 {
    (station - (2 + ROUTERS as u8)) / 3
}

fn narrowest(rates: &[f64]) -> usize {
    (0..rates.len()).min_by(|a, b| rates[*a].total_cmp(&rates[*b])).unwrap()
}

#[test]
fn the_narrowest_link_is_found_in_95_per_cent_of_the_chains() {
    let chains = std::env::var("LONGFAT_PATHS").ok().and_then(|n| n.parse().ok()).unwrap_or(40u64);
    let (mut found, mut by_slopes, mut by_trains, mut wrong_but_valid) = (0, 0, 0, 0);
    let (mut links, mut covered, mut assumed) = (0, 0, 0);
    for seed in 0..chains {
        let mut chain = Chain::new(seed);
        let result = chain.measure(seed % 4 < 3);
        let true_value = Some(narrowest(&chain.rates) as u8 + 1);
        assert!(result.reached && result.hops.len() == 4, "{seed}: {result:?}");
        for (hop, rate) in result.hops.iter().zip(&chain.rates) {
            let Some(link) = hop.link_bps else { continue };
            links += 1;
            assumed += u64::from(hop.assumes_equal_directions);
            let is_covered = link.low <= *rate && *rate <= link.high;
            covered += u64::from(is_covered);
            if !is_covered {
                println!(
                    "{seed}: hop {} {rate:.0} {:?} {:?} symmetric {} mtu {} load {:.2} {hop:?}",
                    hop.hop, chain.version, chain.quoting, chain.is_symmetric, chain.mtu, chain.load
                );
            }
        }
        found += u64::from(result.bottleneck == true_value);
        by_slopes += u64::from(result.by_slopes == true_value);
        by_trains += u64::from(result.by_trains == true_value);
        wrong_but_valid += u64::from(result.bottleneck != true_value && result.validity.valid);
        if result.bottleneck != true_value {
            println!("{seed}: {:?} load {:.2} {result:?}", chain.rates, chain.load);
        }
    }
    println!(
        "{found} of {chains} found; {by_slopes} by slopes, {by_trains} by trains; {wrong_but_valid} wrong \
        although valid"
    );
    println!(
        "{covered} of {links} links in their intervals; {assumed} assume equal rates in both directions"
    );
    assert!(covered as f64 >= MIN_COVERAGE * links as f64, "{covered} of {links}");
    assert!(found * 20 >= chains * 19);
    assert!(wrong_but_valid * 50 <= chains);
}
