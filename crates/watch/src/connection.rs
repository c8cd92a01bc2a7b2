//! A connection of some namespace: who it is, and what the kernel told of it at one instant.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

use crate::TcpInfo;

/// Names of the TCP states by number (include/net/tcp_states.h), as `ss` writes them.
const STATES: [&str; 14] = [
    "unknown",
    "established",
    "syn-sent",
    "syn-recv",
    "fin-wait-1",
    "fin-wait-2",
    "time-wait",
    "closed",
    "close-wait",
    "last-ack",
    "listening",
    "closing",
    "new-syn-recv",
    "bound",
];

/// What the kernel's sock_diag calls a connection: unique on the machine as long as it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cookie(pub u64);

/// A TCP state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct State(pub u8);

impl State {
    /// Data may flow both ways.
    pub const ESTABLISHED: State = State(1);
    /// No more than a memory.
    pub const CLOSED: State = State(7);

    /// The state called `name`.
    pub fn from_name(name: &str) -> Option<State> {
        STATES.iter().position(|known| *known == name).map(|number| State(number as u8))
    }

    /// The names that a connection's state can have.
    pub fn names() -> impl Iterator<Item = &'static str> {
        STATES[1..=11].iter().copied()
    }

    /// The state's name.
    pub fn name(self) -> &'static str {
        STATES.get(usize::from(self.0)).unwrap_or(&STATES[0])
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// SK_MEMINFO_* (include/uapi/linux/sock_diag.h), bytes; `drops` counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Charged to the receive buffer.
    pub rmem_alloc: u32,
    /// SO_RCVBUF.
    pub rcvbuf: u32,
    /// Handed to the network and not freed.
    pub wmem_alloc: u32,
    /// SO_SNDBUF.
    pub sndbuf: u32,
    /// Reserved and unused.
    pub fwd_alloc: u32,
    /// Charged to the send buffer.
    pub wmem_queued: u32,
    /// Used by options.
    pub optmem: u32,
    /// Waiting for the socket's owner.
    pub backlog: u32,
    /// Packets dropped.
    pub drops: u32,
}

impl Memory {
    /// From the kernel's nine words; `None` where there are fewer (drops, since 4.7, may be absent).
    pub fn from_words(words: &[u32]) -> Option<Memory> {
        let [rmem_alloc, rcvbuf, wmem_alloc, sndbuf, fwd_alloc, wmem_queued, optmem, backlog, rest @ ..] =
            words
        else {
            return None;
        };
        Some(Memory {
            rmem_alloc: *rmem_alloc,
            rcvbuf: *rcvbuf,
            wmem_alloc: *wmem_alloc,
            sndbuf: *sndbuf,
            fwd_alloc: *fwd_alloc,
            wmem_queued: *wmem_queued,
            optmem: *optmem,
            backlog: *backlog,
            drops: rest.first().copied().unwrap_or(0),
        })
    }
}

/// What the congestion control tells of itself (include/uapi/linux/inet_diag.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CongestionInfo {
    /// `struct tcpvegas_info`; Illinois and Westwood use it too.
    Vegas {
        /// Whether it is at work.
        enabled: u32,
        /// Round-trip samples.
        rtt_count: u32,
        /// Round-trip time, us.
        rtt_us: u32,
        /// Smallest, us.
        min_rtt_us: u32,
    },
    /// `struct tcp_bbr_info`.
    Bbr {
        /// Bandwidth estimate, bytes a second.
        bandwidth: u64,
        /// Smallest round-trip time, us.
        min_rtt_us: u32,
        /// Gains, times 256.
        pacing_gain: u32,
        /// Gains, times 256.
        cwnd_gain: u32,
    },
    /// `struct tcp_dctcp_info`.
    Dctcp {
        /// Whether ECN was negotiated.
        enabled: u16,
        /// Whether the last packet was marked.
        ce_state: u16,
        /// Share of marks, times 1024.
        alpha: u32,
        /// Bytes acknowledged with a mark.
        marked_bytes: u32,
        /// Bytes acknowledged.
        total_bytes: u32,
    },
}

/// The ends of a connection, as its owner sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ends {
    /// Ours.
    pub local: SocketAddr,
    /// The other one.
    pub peer: SocketAddr,
}

impl Ends {
    /// As the other end sees them.
    pub fn reversed(self) -> Ends {
        Ends { local: self.peer, peer: self.local }
    }
}

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {}", self.local, self.peer)
    }
}

/// A connection at one instant.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// Which connection.
    pub cookie: Cookie,
    /// Its ends; addresses of IPv4 in IPv6 are written as IPv4.
    pub ends: Ends,
    /// Its state.
    pub state: State,
    /// The user that owns it.
    pub uid: u32,
    /// The inode of its descriptor in /proc/PID/fd; 0 without one.
    pub inode: u32,
    /// Bytes received and not read.
    pub rqueue_bytes: u32,
    /// Bytes written and not acknowledged.
    pub wqueue_bytes: u32,
    /// Type of service, or traffic class of IPv6.
    pub tos: Option<u8>,
    /// Congestion control's name.
    pub congestion: Option<String>,
    /// What that one tells.
    pub congestion_info: Option<CongestionInfo>,
    /// Memory of the socket.
    pub memory: Option<Memory>,
    /// `struct tcp_info`.
    pub info: TcpInfo,
}

/// An address without the clothes of IPv6 that IPv4 wears on sockets of both.
pub(crate) fn plain(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_the_names_of_ss() {
        assert_eq!(State::from_name("close-wait"), Some(State(8)));
        assert_eq!(State::ESTABLISHED.name(), "established");
        assert_eq!(State(200).name(), "unknown");
        assert_eq!(State::names().count(), 11);
    }

    #[test]
    fn memory_without_drops_is_memory() {
        assert_eq!(Memory::from_words(&[1; 7]), None);
        assert_eq!(Memory::from_words(&[1; 8]).unwrap().drops, 0);
        assert_eq!(Memory::from_words(&[2; 9]).unwrap().drops, 2);
    }
}
