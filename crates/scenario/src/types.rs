//! A resolved scenario: what the engines read. Every default is filled in and every name is known.
//!
//! How it is written in a file is not seen here; `decode_*.rs` make it, `validate.rs` checks it.

use std::{collections::BTreeMap, net::IpAddr};

use units::{BitRate, Bytes, Time};

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
    /// The links, in the file's order.
    pub links: Vec<Link>,
    /// The flows, in the file's order.
    pub flows: Vec<Flow>,
}

impl Scenario {
    /// The host called `name`.
    pub fn host(&self, name: &str) -> Option<&Host> {
        self.hosts.iter().find(|h| h.name == name)
    }
}

/// A host with one interface.
#[derive(Debug, Clone, PartialEq)]
pub struct Host {
    /// Its name; the interface is called `NAME-eth0`.
    pub name: String,
    /// The interface's address.
    pub address: IpAddr,
    /// Length of the address's network prefix, in bits.
    pub prefix: u8,
    /// The interface's MTU, in bytes of IP.
    pub mtu: u32,
    /// Settings of the host's network namespace, by sysctl name.
    pub sysctl: BTreeMap<String, String>,
}

/// A link between two hosts or switches.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// `s1-s2` unless the file gives a name.
    pub name: String,
    /// The names of what it joins.
    pub ends: [String; 2],
    /// From the first end to the second.
    pub forward: Direction,
    /// From the second end to the first.
    pub backward: Direction,
}

impl Link {
    /// The direction that a packet takes: `forward`, or `backward` where `reversed`.
    pub fn direction(&self, reversed: bool) -> &Direction {
        if reversed { &self.backward } else { &self.forward }
    }
}

/// One direction of a link.
#[derive(Debug, Clone, PartialEq)]
pub struct Direction {
    /// Rate at which packets leave the queue; `None` is infinitely fast.
    pub rate: Option<BitRate>,
    /// Propagation delay.
    pub delay: Time,
    /// What may wait for the rate.
    pub queue: Queue,
    /// Probability that a packet (segment) is lost, independent of all others, 0 to 1.
    pub loss: f64,
    /// Depth of the token bucket; `None` sends at exactly `rate`.
    pub burst: Option<Bytes>,
    /// Bytes that a packet counts on the wire beside IP.
    pub overhead: u32,
}

impl Direction {
    /// Overhead of a packet unless the file says otherwise: an Ethernet header, as tbf counts.
    pub const DEFAULT_OVERHEAD_BYTES: u32 = 14;
    /// Queue of a direction with a rate unless the file says otherwise (netem's and a device's usual 1000).
    pub const DEFAULT_QUEUE: Queue = Queue::Packets(1000);

    /// True where it neither limits, delays nor loses anything.
    pub fn is_ideal(&self) -> bool {
        self.rate.is_none() && self.delay == Time::ZERO && self.loss == 0.0
    }
}

impl Default for Direction {
    /// An ideal direction: no rate, no delay, no loss.
    fn default() -> Self {
        Direction {
            rate: None,
            delay: Time::ZERO,
            queue: Queue::Unlimited,
            loss: 0.0,
            burst: None,
            overhead: Self::DEFAULT_OVERHEAD_BYTES,
        }
    }
}

/// The limit of a drop-tail queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// No limit: of a direction without a rate, where nothing ever waits.
    Unlimited,
    /// At most so many bytes, overhead included.
    Bytes(Bytes),
    /// At most so many packets (segments).
    Packets(u64),
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
}

impl Kind {
    /// The name in files and in the summary.
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Tcp(_) => "tcp",
            Kind::Ping(_) => "ping",
        }
    }
}

/// A TCP bulk transfer. What is `None` is left to the host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tcp {
    /// Congestion control.
    pub cc: Option<String>,
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
