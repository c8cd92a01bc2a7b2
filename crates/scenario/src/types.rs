//! A resolved scenario: what the engines read. Every default is filled in and every name is known.
//!
//! How it is written in a file is not seen here; `decode_*.rs` make it, `validate.rs` checks it.

use std::{collections::BTreeMap, net::IpAddr};

pub use datagrams::{BurstLengths, Bursts};
pub use net::Cidr;
use net::PipeSpec;
use units::{BitRate, Bytes, Time};

use crate::cc::Cc;

/// One experiment, ready to run: one variant of a scenario file, with every default filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// The file's stem, as in `lab8`.
    pub name: String,
    /// One line for people; the name where the file has no title.
    pub title: String,
    /// How long it runs.
    pub duration: Time,
    /// Interval between two samples of a flow.
    pub sample: Time,
    /// The random generator's seed.
    pub seed: u64,
    /// How often the experiment is repeated.
    pub repeat: u32,
    /// The hosts, in the order of the file.
    pub hosts: Vec<Host>,
    /// The switches' names, in the file's order.
    pub switches: Vec<String>,
    /// The routers, in the file's order.
    pub routers: Vec<Router>,
    /// The links, in the file's order.
    pub links: Vec<Link>,
    /// The flows, in the file's order.
    pub flows: Vec<Flow>,
    /// Names of hosts and links whose packets a run captures.
    pub captures: Vec<String>,
}

impl Scenario {
    /// The host called `name`.
    pub fn host(&self, name: &str) -> Option<&Host> {
        self.hosts.iter().find(|h| h.name == name)
    }

    /// How many ends of links are at the host, switch or router called `name`.
    pub fn link_count(&self, name: &str) -> usize {
        self.links.iter().flat_map(|l| &l.ends).filter(|end| *end == name).count()
    }
}

/// A host.
#[derive(Debug, Clone, PartialEq)]
pub struct Host {
    /// Its name; its interfaces are called `NAME-eth0`, `NAME-eth1` and so on.
    pub name: String,
    /// One for each of its links, in the links' order. The first has an address.
    pub interfaces: Vec<Interface>,
    /// MTU of its interfaces, in bytes of IP.
    pub mtu: u32,
    /// Settings of the host's network namespace, by sysctl name.
    pub sysctl: BTreeMap<String, String>,
    /// Routes beside those to the networks of its interfaces; the default route is `0.0.0.0/0` or `::/0`.
    pub routes: Vec<StaticRoute>,
    /// Major and minor version of the Linux that it has in the simulator; `None` is the run's.
    pub kernel: Option<(u8, u8)>,
    /// How its interfaces take packets from the kernel and give them to it.
    pub nic: Nic,
    /// Command to run when the lab is up, where asked.
    pub start: Option<String>,
    /// Command to run before the lab goes down, where asked.
    pub stop: Option<String>,
}

impl Host {
    /// The address of its first interface, which flows use.
    pub fn address(&self) -> IpAddr {
        self.cidr().address
    }

    /// The first address of its first interface and its network.
    pub fn cidr(&self) -> Cidr {
        let first = self.interfaces.first().and_then(|i| i.addresses.first());
        *first.unwrap_or(&Cidr { address: IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), prefix: 0 })
    }
}

/// What joins a host or router to a link.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its addresses, IPv4 and IPv6.
    pub addresses: Vec<Cidr>,
}

/// A route that somebody wrote down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StaticRoute {
    /// Where it leads.
    pub to: Cidr,
    /// The next router's (or host's) address.
    pub via: IpAddr,
}

/// A network interface card, as far as it shapes traffic. What is `None` is left to the lab: no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nic {
    /// The device's transmit queue (txqueuelen) in packets. With it the card takes packets no faster than its link
    /// sends them, and the kernel sees its queue fill; without it the emulated link's queue takes them all.
    pub tx_queue: Option<u32>,
    /// Largest super-packet that the kernel hands to the card, in bytes of IP.
    pub gso: Option<Bytes>,
    /// Most segments that the card hands to the kernel in one super-packet.
    pub gro: Option<u32>,
}

/// A router: forwards between the networks of its interfaces, and answers as routers do.
#[derive(Debug, Clone, PartialEq)]
pub struct Router {
    /// Its name; its interfaces are called `NAME-eth0`, `NAME-eth1` and so on.
    pub name: String,
    /// One for each of its links, in the links' order; each has an address of every family in use.
    pub interfaces: Vec<Interface>,
    /// Routes that override the shortest way.
    pub routes: Vec<StaticRoute>,
}

/// A link between two hosts, switches or routers.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// `s1-s2` unless the file gives a name.
    pub name: String,
    /// The names of what it joins.
    pub ends: [String; 2],
    /// From the first end to the second.
    pub forward: PipeSpec,
    /// From the second end to the first.
    pub backward: PipeSpec,
    /// What changes during a run, in order of time.
    pub changes: Vec<Change>,
}

/// What a link is from an instant on.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Since the run's start.
    pub at: Time,
    /// From the first end to the second.
    pub forward: PipeSpec,
    /// From the second end to the first.
    pub backward: PipeSpec,
}

impl Link {
    /// The direction that a packet takes: `forward`, or `backward` where `reversed`.
    pub fn direction(&self, reversed: bool) -> &PipeSpec {
        if reversed { &self.backward } else { &self.forward }
    }
}

/// Traffic from one host to another.
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    /// Its name.
    pub name: String,
    /// The sending host's name.
    pub from: String,
    /// The receiving host's name.
    pub to: String,
    /// What it sends.
    pub kind: Kind,
    /// When it starts, since the run's start.
    pub start: Time,
    /// When it stops at the latest; `None` is the run's end.
    pub stop: Option<Time>,
}

/// What a flow sends.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// A TCP bulk transfer.
    Tcp(Tcp),
    /// ICMP echo requests and their answers.
    Ping(Ping),
    /// UDP datagrams at a rate.
    Udp(Udp),
    /// An XCP bulk transfer (Katabi, Handley and Rohrs 2002).
    Xcp(Xcp),
}

impl Kind {
    /// The name in files and in the summary.
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Tcp(_) => "tcp",
            Kind::Ping(_) => "ping",
            Kind::Udp(_) => "udp",
            Kind::Xcp(_) => "xcp",
        }
    }
}

/// A TCP bulk transfer. What is `None` is left to the host.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tcp {
    /// Congestion control.
    pub cc: Option<Cc>,
    /// Application bytes to send; `None` sends until the flow stops.
    pub size: Option<Bytes>,
    /// Maximum segment size asked for, in bytes.
    pub mss: Option<u32>,
    /// SO_SNDBUF of the sender.
    pub send_buffer: Option<Bytes>,
    /// SO_RCVBUF of the receiver.
    pub receive_buffer: Option<Bytes>,
    /// Largest pacing rate of the sender.
    pub pacing: Option<BitRate>,
    /// Rate at which the receiving application reads.
    pub read_rate: Option<BitRate>,
    /// Rate at which the sending application writes.
    pub write_rate: Option<BitRate>,
    /// When the receiving application stops reading, since the run's start.
    pub reader_stops: Option<Time>,
    /// When it reads on.
    pub reader_resumes: Option<Time>,
}

/// Echo requests at a fixed interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ping {
    /// Time between two requests.
    pub interval: Time,
    /// How many; `None` sends until the flow stops.
    pub count: Option<u32>,
    /// Bytes of payload behind the ICMP header.
    pub payload: Bytes,
}

impl Default for Ping {
    /// An echo of 56 bytes every 200 ms.
    fn default() -> Self {
        Ping { interval: Time::from_millis(200), count: None, payload: Bytes(56) }
    }
}

/// Datagrams at exact times, in one go or in bursts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Udp {
    /// Payload sent a second, while it sends.
    pub rate: BitRate,
    /// Payload of a datagram; `None` is the most that fits one packet of the sender's MTU.
    pub packet: Option<Bytes>,
    /// Payload to send; `None` sends until the flow stops.
    pub size: Option<Bytes>,
    /// Sends for a while and is silent for a while, in turn; `None` sends all the time.
    pub bursts: Option<Bursts>,
}

impl Udp {
    /// Share of the time in which it sends, from 0 to 1.
    pub fn duty(&self) -> f64 {
        self.bursts.map_or(1.0, |b| b.on.as_secs_f64() / (b.on.as_secs_f64() + b.off.as_secs_f64()))
    }
}

/// A transfer whose window the routers set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Xcp {
    /// Application bytes to send; `None` sends until the flow stops.
    pub size: Option<Bytes>,
}
