//! Identifiers of a network's parts: nodes, directions of links, stations, and destinations of packets.

/// An end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    /// A host, by index.
    Host(u32),
    /// A switch, by index.
    Switch(u32),
    /// A router, by index.
    Router(u32),
}

impl std::fmt::Display for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Node::Host(h) => write!(f, "host {h}"),
            Node::Switch(s) => write!(f, "switch {s}"),
            Node::Router(r) => write!(f, "router {r}"),
        }
    }
}

/// A direction of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the link's first end to its second.
    Forward,
    /// From the link's second end to its first.
    Backward,
}

impl Direction {
    /// Both directions.
    pub const BOTH: [Direction; 2] = [Direction::Forward, Direction::Backward];

    /// The name in scenario files and records.
    pub fn name(self) -> &'static str {
        match self {
            Direction::Forward => "forward",
            Direction::Backward => "backward",
        }
    }
}

impl std::fmt::Display for Direction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// One direction of one link, in the order of the [`Topology::add_link`](crate::Topology::add_link) calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PipeId {
    /// The link's index.
    pub link: u32,
    /// Its direction.
    pub direction: Direction,
}

impl PipeId {
    pub(crate) fn index(self) -> usize {
        self.link as usize * 2 + usize::from(self.direction == Direction::Backward)
    }

    pub(crate) fn from_index(index: usize) -> Self {
        let direction = if index.is_multiple_of(2) { Direction::Forward } else { Direction::Backward };
        PipeId { link: (index / 2) as u32, direction }
    }
}

/// The index of the other direction of the same link.
pub(crate) fn opposite(pipe: usize) -> usize {
    pipe ^ 1
}

/// The end of a link at a host or a router, which has a link-layer address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Station {
    /// The host or router.
    pub node: Node,
    /// Index of the interface: the node's links are its interfaces, in the order of the links.
    pub interface: u32,
    /// The direction of the link that leaves the node.
    pub out: PipeId,
}

/// The destination of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// One station. The network ignores a packet to the sending station itself, and drops one to an
    /// unreachable station.
    Station(u32),
    /// Every other station of the broadcast domain: a broadcast, a multicast, or a frame to an unknown
    /// address.
    All,
}
