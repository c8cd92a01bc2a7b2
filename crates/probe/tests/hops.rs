//! pathchar's and pathneck's answers on random chains of three routers in virtual time, with cross traffic on the links
//! between them: the narrowest link is found.

use std::net::IpAddr;

use datagrams::Draws;
use net::{
    Arrival, Destination, DropCause, Emission, Network, Node, Packet, PipeId, PipeSpec, QueueLimit, Rate,
    Router, Sink, Topology,
};
use probe::{HopReply, Hops, HopsAnswer};
use units::{BitRate, Time};

const ROUTERS: u32 = 3;
/// Bytes of a router's answer.
const ANSWER: u32 = 56;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Probe { number: usize, ttl: u8 },
    Reply { number: usize, from: u8, is_host: bool },
    Cross,
}

/// A packet with a time to live, which routers answer.
#[derive(Debug, Clone, Copy)]
struct Hopping {
    kind: Kind,
    bytes: u32,
}

impl Packet for Hopping {
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
    fn at_router(self, router: &Router, arrival: Arrival, out: &mut Vec<Emission<Self>>) {
        let (packet, to) = match self.kind {
            Kind::Probe { number, ttl: 1 } => {
                // Which router it is its first station tells.
                let from = router.interfaces[0].station as u8;
                let kind = Kind::Reply { number, from, is_host: false };
                (Hopping { kind, bytes: ANSWER }, Destination::Station(0))
            }
            Kind::Probe { number, ttl } => {
                (Hopping { kind: Kind::Probe { number, ttl: ttl - 1 }, ..self }, arrival.to)
            }
            _ => (self, arrival.to),
        };
        let Destination::Station(station) = to else { return };
        match router.toward(station) {
            Some(way) => out.push(Emission::Send { interface: way.interface, to, packet }),
            None => out.push(Emission::Refuse(packet)),
        }
    }
}

#[derive(Default)]
struct Replies {
    replies: Vec<Option<(u64, u8, bool)>>,
    open: usize,
    /// What came to the host, and when.
    at_host: Vec<(u64, usize)>,
}

impl Sink<Hopping> for Replies {
    fn deliver(&mut self, _station: u32, at: Time, packet: Hopping) {
        match packet.kind {
            Kind::Probe { number, .. } => self.at_host.push((at.0, number)),
            Kind::Reply { number, from, is_host } => {
                self.replies[number] = Some((at.0, from, is_host));
                self.open -= 1;
            }
            Kind::Cross => {}
        }
    }
    fn drop(&mut self, _pipe: PipeId, _at: Time, _cause: DropCause, packet: Hopping) {
        self.open -= usize::from(packet.kind != Kind::Cross);
    }
}

/// h0 - r0 - r1 - r2 - h1; a further host at each router makes the cross traffic to the next.
struct Chain {
    network: Network<Hopping>,
    rates: Vec<f64>,
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
        // The narrowest is so by a fifth at least: which of two equals it is nobody can say.
        let narrowest = narrowest(&rates);
        let least = rates[narrowest];
        for (index, rate) in rates.iter_mut().enumerate() {
            if index != narrowest {
                *rate = rate.max(1.25 * least);
            }
        }
        let load = 0.5 * uniform();
        let pipes: Vec<PipeSpec> = rates
            .iter()
            .map(|rate| PipeSpec {
                rate: Rate::Constant(BitRate(*rate as u64)),
                delay: Time::from_secs_f64(0.0001 + 0.005 * uniform()),
                queue: QueueLimit::Packets(1000),
                ..PipeSpec::default()
            })
            .collect();
        let mut topology = Topology::new(2 + ROUTERS, 0);
        let routers: Vec<Node> = (0..ROUTERS).map(|_| topology.router()).collect();
        let mut joins = vec![Node::Host(0)];
        joins.extend(&routers);
        joins.push(Node::Host(1));
        for (ends, pipe) in joins.windows(2).zip(&pipes) {
            topology.link(ends[0], ends[1], pipe.clone(), pipe.clone());
        }
        for (index, router) in (0..).zip(&routers) {
            topology.link(Node::Host(2 + index), *router, PipeSpec::default(), PipeSpec::default());
        }
        let next_cross = vec![0; ROUTERS as usize - 1];
        Chain { network: topology.build(seed).unwrap(), rates, load, draws, next_cross, now: 0 }
    }

    fn measure(&mut self) -> HopsAnswer {
        let mut hops = Hops::new(10, 1500, 100.0);
        loop {
            let packets = hops.next();
            if packets.is_empty() {
                return hops.answer();
            }
            let mut sink =
                Replies { replies: vec![None; packets.len()], open: packets.len(), at_host: Vec::new() };
            // Cross traffic runs for a while before.
            let begin = self.now + 10_000_000;
            self.next_cross.fill(self.now);
            self.run(begin, &mut sink);
            for (number, packet) in packets.iter().enumerate() {
                let probe = Hopping { kind: Kind::Probe { number, ttl: packet.ttl }, bytes: packet.bytes };
                self.network.send(0, Time(begin), Destination::Station(1), probe, &mut sink);
            }
            while sink.open > 0 {
                let next = self.network.next_wake().map_or(u64::MAX, |at| at.0);
                self.run(next.min(self.now + 1_000_000).max(self.now + 1), &mut sink);
            }
            let replies: Vec<Option<HopReply>> = sink
                .replies
                .iter()
                .map(|reply| {
                    reply.map(|(at, from, is_host)| HopReply {
                        after_ns: (at - begin) as f64,
                        from: IpAddr::from([10, 0, 0, from]),
                        is_host,
                    })
                })
                .collect();
            hops.take(&replies);
        }
    }

    /// Until `end`: cross traffic, and what the host answers.
    fn run(&mut self, end: u64, sink: &mut Replies) {
        loop {
            let link = (0..self.next_cross.len()).min_by_key(|link| self.next_cross[*link]).unwrap();
            let cross = if self.load > 0.0 { self.next_cross[link] } else { u64::MAX };
            let wake = self.network.next_wake().map_or(u64::MAX, |at| at.0);
            self.now = end.min(cross).min(wake.max(self.now));
            self.network.run_until(Time(self.now), sink);
            for (_, number) in std::mem::take(&mut sink.at_host) {
                let kind = Kind::Reply { number, from: 99, is_host: true };
                let reply = Hopping { kind, bytes: ANSWER };
                self.network.send(1, Time(self.now), Destination::Station(0), reply, sink);
            }
            if self.now >= cross {
                let packet = Hopping { kind: Kind::Cross, bytes: 1500 };
                let station = 2 + link as u32;
                self.network.send(station, Time(self.now), Destination::Station(station + 1), packet, sink);
                let mean = 1514.0 * 8e9 / (self.rates[link + 1] * self.load);
                self.next_cross[link] = cross + self.draws.exponential(Time(mean as u64)).0.max(1);
            } else if self.now >= end {
                return;
            }
        }
    }
}

fn narrowest(rates: &[f64]) -> usize {
    (0..rates.len()).min_by(|a, b| rates[*a].total_cmp(&rates[*b])).unwrap()
}

#[test]
fn the_narrowest_link_is_found_in_nineteen_of_twenty_chains() {
    let chains = std::env::var("LONGFAT_PATHS").ok().and_then(|n| n.parse().ok()).unwrap_or(40u64);
    let (mut found, mut by_slopes, mut by_trains, mut silent) = (0, 0, 0, 0);
    for seed in 0..chains {
        let mut chain = Chain::new(seed);
        let answer = chain.measure();
        let truth = Some(narrowest(&chain.rates) as u8 + 1);
        assert!(answer.reached && answer.hops.len() == 4, "{seed}: {answer:?}");
        found += u64::from(answer.bottleneck == truth);
        by_slopes += u64::from(answer.by_slopes == truth);
        by_trains += u64::from(answer.by_trains == truth);
        silent += u64::from(answer.bottleneck != truth && answer.validity.valid);
        if answer.bottleneck != truth {
            println!("{seed}: {:?} load {:.2} {answer:?}", chain.rates, chain.load);
        }
    }
    println!(
        "{found} of {chains} found; {by_slopes} by slopes, {by_trains} by trains; {silent} wrong without a warning"
    );
    assert!(found * 20 >= chains * 19);
    assert!(silent * 50 <= chains);
}
