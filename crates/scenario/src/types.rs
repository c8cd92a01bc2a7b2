//! A resolved scenario: the input of the engines, with all defaults and valid names.
//!
//! It does not depend on the file's syntax: `decode_*.rs` build it, `validate.rs` checks it.

use std::{collections::BTreeMap, net::IpAddr};

pub use datagrams::{BurstLengths, Bursts};
pub use net::Cidr;
use net::{Direction, PipeSpec};
use units::{BitRate, Bytes, Instant, Time};

use crate::{cc::Cc, host_cost::HostCost, host_location::HostLocation};

/// One experiment, ready to run: one variant of a scenario file, with every default filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// The file's stem, as in `lab8`.
    pub name: String,
    /// The title in one line; the name if the file has none.
    pub title: String,
    /// Duration of a run.
    pub duration: Time,
    /// Interval between two samples of a flow.
    pub sample: Time,
    /// Seed of the random number generators.
    pub seed: u64,
    /// Number of runs of the experiment.
    pub repeat: u32,
    /// The origin of sysctls that the file does not state; `None`: chosen by the run.
    pub sysctl: Option<SysctlDefaults>,
    /// Neighbour tables are complete from the beginning, without ARP or neighbour discovery.
    pub fixed_neighbours: bool,
    /// The hosts, in the order of the file.
    pub hosts: Vec<Host>,
    /// The switches' names, in the file's order.
    pub switches: Vec<String>,
    /// The routers, in the file's order.
    pub routers: Vec<Router>,
    /// The links, in the file's order.
    pub links: Vec<Link>,
    /// The flows, in the file's order.
    pub flows: Vec<FlowSpec>,
    /// Names of hosts and links whose packets a run captures.
    pub captures: Vec<String>,
}

impl Scenario {
    /// When a run ends.
    pub fn end(&self) -> Instant {
        Instant::ZERO + self.duration
    }

    /// The host called `name`.
    pub fn host(&self, name: &str) -> Option<&Host> {
        self.hosts.iter().find(|h| h.name == name)
    }

    /// Number of link ends at the host, switch or router called `name`.
    pub fn link_count(&self, name: &str) -> usize {
        self.links.iter().flat_map(|l| &l.ends).filter(|end| *end == name).count()
    }
}

/// The origin of sysctls that the scenario does not state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SysctlDefaults {
    /// The sysctls of the machine that runs the scenario.
    Machine,
    /// The defaults of a Linux version, by major and minor number.
    Linux((u8, u8)),
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
    /// Static routes, in addition to those to the networks of its interfaces; the default route is
    /// `0.0.0.0/0` or `::/0`.
    pub routes: Vec<StaticRoute>,
    /// Major and minor version of Linux in the simulator; `None` means the run's default.
    pub kernel: Option<(u8, u8)>,
    /// Its Linux 2.4 has web100's patch (`kernel = "2.4-web100"`).
    pub web100: bool,
    /// Timer ticks per second (`CONFIG_HZ`) in the simulator; `None` means those of this machine's kernel.
    pub hz: Option<u32>,
    /// The kernel reduces the congestion window when the host's own device queue is full; without it a full
    /// queue only delays the data (`WAD_IFQ` of web100).
    pub local_congestion: bool,
    /// Time from a packet's arrival to the host's earliest reaction, in addition to the processing cost.
    pub turnaround: Time,
    /// Longest random delay until its TCP processes a received segment in the simulator, uniformly
    /// distributed from 0; `None` means the run's default.
    pub receive_jitter: Option<Time>,
    /// Its processing costs of packets.
    pub cost: HostCost,
    /// Its network interface card.
    pub nic: Nic,
    /// Its address in runs between real hosts.
    pub at: Option<HostLocation>,
    /// Command to run when the lab is up.
    pub start: Option<String>,
    /// Command to run before the lab goes down.
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

/// Joins a host or router to a link.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its addresses, IPv4 and IPv6.
    pub addresses: Vec<Cidr>,
}

/// A static route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StaticRoute {
    /// Its destination.
    pub to: Cidr,
    /// The next router's (or host's) address.
    pub via: IpAddr,
}

/// The settings of a network interface card that affect traffic. `None` means no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nic {
    /// The device's transmit queue (txqueuelen) in packets. With it the card accepts packets no faster than
    /// its link sends them, and the kernel's queue fills; without it the emulated link's queue holds all
    /// packets.
    pub tx_queue: Option<u32>,
    /// Largest super-packet that the kernel passes to the card (GSO), in bytes of IP.
    pub gso: Option<Bytes>,
    /// Maximum number of segments in a super-packet (`gso_max_segs`).
    pub gso_segs: Option<u32>,
    /// TCP builds super-packets, and the kernel segments them before the device: software GSO, as after
    /// `ethtool -K tso off`.
    pub software_gso: bool,
    /// Maximum number of segments that the card merges for the kernel (GRO).
    pub gro: Option<u32>,
}

impl Nic {
    /// Whether the kernel passes only single packets to the card of a host with this MTU, and no
    /// super-packets.
    pub fn has_no_super_packets(&self, mtu: u32) -> bool {
        self.gso_segs == Some(1) || self.gso.is_some_and(|gso| gso.0 <= u64::from(mtu))
    }
}

/// A router: forwards between the networks of its interfaces, and sends ICMP errors.
#[derive(Debug, Clone, PartialEq)]
pub struct Router {
    /// Its name; its interfaces are called `NAME-eth0`, `NAME-eth1` and so on.
    pub name: String,
    /// One for each of its links, in the links' order; each has an address of every family in use.
    pub interfaces: Vec<Interface>,
    /// Static routes, which override the path with the fewest hops.
    pub routes: Vec<StaticRoute>,
}

/// A link between two hosts, switches or routers.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// `s1-s2` unless the file gives a name.
    pub name: String,
    /// The names of its two ends.
    pub ends: [String; 2],
    /// From the first end to the second.
    pub forward: PipeSpec,
    /// From the second end to the first.
    pub backward: PipeSpec,
    /// Changes during a run, in order of time.
    pub changes: Vec<LinkChange>,
}

/// The properties of a link from a time on.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkChange {
    /// Since the run's start.
    pub at: Instant,
    /// From the first end to the second.
    pub forward: PipeSpec,
    /// From the second end to the first.
    pub backward: PipeSpec,
}

impl LinkChange {
    /// The parameters of one direction after the change.
    pub fn pipe(&self, direction: Direction) -> &PipeSpec {
        match direction {
            Direction::Forward => &self.forward,
            Direction::Backward => &self.backward,
        }
    }
}

impl Link {
    /// The parameters of one direction at the run's start.
    pub fn pipe(&self, direction: Direction) -> &PipeSpec {
        match direction {
            Direction::Forward => &self.forward,
            Direction::Backward => &self.backward,
        }
    }

    /// The name of the end from which a direction leads.
    pub fn sender(&self, direction: Direction) -> &str {
        match direction {
            Direction::Forward => &self.ends[0],
            Direction::Backward => &self.ends[1],
        }
    }

    /// The name of the end that a direction leads to.
    pub fn receiver(&self, direction: Direction) -> &str {
        match direction {
            Direction::Forward => &self.ends[1],
            Direction::Backward => &self.ends[0],
        }
    }
}

/// Traffic from one host to another.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowSpec {
    /// Its name.
    pub name: String,
    /// The sending host's name.
    pub from: String,
    /// The receiving host's name.
    pub to: String,
    /// The kind of traffic.
    pub kind: FlowKind,
    /// When it starts, since the run's start.
    pub start: Instant,
    /// Its latest end; `None` means the run's end.
    pub stop: Option<Instant>,
}

/// The kind of traffic of a flow.
#[derive(Debug, Clone, PartialEq)]
pub enum FlowKind {
    /// A TCP bulk transfer.
    Tcp(TcpSpec),
    /// ICMP echo requests and replies.
    Ping(PingSpec),
    /// UDP datagrams at a rate.
    Udp(UdpSpec),
    /// An XCP bulk transfer (Katabi, Handley and Rohrs 2002).
    Xcp(XcpSpec),
    /// A UDT 4 bulk transfer.
    Udt(UdtSpec),
    /// A Tsunami bulk transfer.
    Tsunami(TsunamiSpec),
    /// A real-time stream at a constant rate.
    Stream(StreamSpec),
    /// A QUIC bulk transfer.
    Quic(QuicSpec),
}

impl FlowKind {
    /// The name in files and in the summary.
    pub fn name(&self) -> &'static str {
        match self {
            FlowKind::Tcp(_) => "tcp",
            FlowKind::Ping(_) => "ping",
            FlowKind::Udp(_) => "udp",
            FlowKind::Xcp(_) => "xcp",
            FlowKind::Udt(_) => "udt",
            FlowKind::Tsunami(_) => "tsunami",
            FlowKind::Stream(_) => "stream",
            FlowKind::Quic(_) => "quic",
        }
    }
}

/// A TCP bulk transfer. `None` means the host's default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TcpSpec {
    /// Congestion control.
    pub cc: Option<Cc>,
    /// Application bytes to send; `None` sends until the flow stops.
    pub size: Option<Bytes>,
    /// Requested maximum segment size (TCP_MAXSEG), in bytes.
    pub mss: Option<u32>,
    /// SO_SNDBUF of the sender.
    pub send_buffer: Option<Bytes>,
    /// SO_RCVBUF of the receiver.
    pub receive_buffer: Option<Bytes>,
    /// Maximum pacing rate of the sender.
    pub pacing: Option<BitRate>,
    /// Rate at which the receiving application reads.
    pub read_rate: Option<BitRate>,
    /// Rate at which the sending application writes.
    pub write_rate: Option<BitRate>,
    /// Size of its writes.
    pub write_size: Option<Bytes>,
    /// When the receiving application stops reading, since the run's start.
    pub reader_stops: Option<Instant>,
    /// When it resumes reading.
    pub reader_resumes: Option<Instant>,
}

/// Echo requests at a fixed interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PingSpec {
    /// Time between two requests.
    pub interval: Time,
    /// Number of requests; `None` sends until the flow stops.
    pub count: Option<u32>,
    /// Bytes of payload after the ICMP header.
    pub payload: Bytes,
}

impl Default for PingSpec {
    /// An echo of 56 bytes every 200 ms.
    fn default() -> Self {
        PingSpec { interval: Time::from_millis(200), count: None, payload: Bytes(56) }
    }
}

/// Datagrams at exact times, continuously or in bursts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UdpSpec {
    /// Rate of payload while it sends.
    pub rate: BitRate,
    /// Payload of a datagram; `None` means the largest that fits the sender's MTU.
    pub packet: Option<Bytes>,
    /// Payload to send; `None` sends until the flow stops.
    pub size: Option<Bytes>,
    /// Alternating bursts and pauses; `None` sends continuously.
    pub bursts: Option<Bursts>,
}

impl UdpSpec {
    /// Share of the time during which it sends, from 0 to 1.
    pub fn duty(&self) -> f64 {
        self.bursts.map_or(1.0, |b| b.on.as_secs_f64() / (b.on.as_secs_f64() + b.off.as_secs_f64()))
    }
}

/// A UDT 4 bulk transfer, from memory to memory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UdtSpec {
    /// Application bytes to send; `None` sends until the flow stops.
    pub size: Option<Bytes>,
    /// Constant rate of full packets with their headers, independent of losses; `None`: UDT's rate control.
    pub rate: Option<BitRate>,
    /// Share of lost packets (0 to 1) that does not slow it down.
    pub tolerate_loss: Option<f64>,
    /// SABUL's rate control instead of UDT's.
    pub sabul: bool,
    /// Receive buffer, which is also the largest window; `None`: 25,600 packets, as libudt.
    pub receive_buffer: Option<Bytes>,
}

/// A Tsunami bulk transfer, from memory to memory. The receiver is Tsunami's client.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TsunamiSpec {
    /// Application bytes to send; `None` sends until the flow stops.
    pub size: Option<Bytes>,
    /// Target rate of payload; `None`: 650 Mb/s, as the published client.
    pub rate: Option<BitRate>,
    /// Payload of a datagram; `None`: the largest that fits the MTU.
    pub block: Option<Bytes>,
    /// Share of errors (0 to 1) above which it slows down; `None`: 7.5 %, as the published client.
    pub error_threshold: Option<f64>,
}

/// A QUIC bulk transfer on one stream, from memory to memory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct QuicSpec {
    /// Application bytes to send; `None` sends until the flow stops.
    pub size: Option<Bytes>,
    /// One of the program's congestion controls; `None`: CUBIC.
    pub cc: Option<Cc>,
    /// Flow-control window of the receiver; `None`: 64 MiB.
    pub receive_buffer: Option<Bytes>,
}

impl QuicSpec {
    /// The congestion control of a flow without one.
    pub const DEFAULT_CC: &'static str = "cubic";

    /// The congestion control.
    pub fn cc(&self) -> Cc {
        self.cc.clone().unwrap_or_else(|| Cc::Named(Self::DEFAULT_CC.into()))
    }
}

/// A real-time stream, which the receiver plays with a fixed delay.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamSpec {
    /// Rate of payload.
    pub rate: BitRate,
    /// Payload of a packet; `None`: the largest that fits the MTU.
    pub packet: Option<Bytes>,
    /// Payload to send; `None` sends until the flow stops.
    pub size: Option<Bytes>,
    /// Delay between the first packet's arrival and its play-out.
    pub deadline: Time,
    /// The receiver requests missing packets while they can still arrive in time.
    pub repair: bool,
    /// Share of the packets (0 to 1) that may miss their play-out in a stream that counts as sustainable.
    pub tolerate_loss: f64,
}

impl StreamSpec {
    /// Play-out after this time unless the flow has a deadline.
    pub const DEFAULT_DEADLINE: Time = Time::from_millis(500);
    /// One packet in a thousand: e-VLBI correlators accept more.
    pub const DEFAULT_TOLERANCE: f64 = 0.001;
}

/// An XCP bulk transfer, whose window the routers set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct XcpSpec {
    /// Application bytes to send; `None` sends until the flow stops.
    pub size: Option<Bytes>,
}
