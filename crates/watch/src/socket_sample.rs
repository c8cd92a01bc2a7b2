//! A socket at one instant: its identity, and the state that the kernel reports.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

use crate::TcpInfo;

/// Names of the TCP states by number (include/net/tcp_states.h), in lower case and spelled out.
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

/// The kernel's socket cookie (SO_COOKIE, sock_diag): unique on the machine until it reboots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketCookie(pub u64);

/// A TCP state by the kernel's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SocketState(pub u8);

impl SocketState {
    /// TCP_ESTABLISHED: data may flow both ways.
    pub const ESTABLISHED: SocketState = SocketState(1);
    /// TCP_CLOSE.
    pub const CLOSED: SocketState = SocketState(7);

    /// The state called `name`.
    pub fn from_name(name: &str) -> Option<SocketState> {
        STATES.iter().position(|known| *known == name).map(|number| SocketState(number as u8))
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

impl fmt::Display for SocketState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// SK_MEMINFO_* (include/uapi/linux/sock_diag.h), bytes; `drops` counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketMemory {
    /// Charged to the receive buffer.
    pub rmem_alloc: u32,
    /// SO_RCVBUF.
    pub rcvbuf: u32,
    /// Passed to the network layer and not yet freed.
    pub wmem_alloc: u32,
    /// SO_SNDBUF.
    pub sndbuf: u32,
    /// Reserved and not used.
    pub fwd_alloc: u32,
    /// Charged to the send buffer.
    pub wmem_queued: u32,
    /// Used by socket options.
    pub optmem: u32,
    /// In the backlog: received while a process held the socket's lock.
    pub backlog: u32,
    /// Packets dropped.
    pub drops: u32,
}

impl SocketMemory {
    /// Decodes the kernel's nine words; `None` if there are fewer than eight (`drops` is absent before Linux
    /// 4.7).
    pub fn from_words(words: &[u32]) -> Option<SocketMemory> {
        let [rmem_alloc, rcvbuf, wmem_alloc, sndbuf, fwd_alloc, wmem_queued, optmem, backlog, drops @ ..] =
            words
        else {
            return None;
        };
        Some(SocketMemory {
            rmem_alloc: *rmem_alloc,
            rcvbuf: *rcvbuf,
            wmem_alloc: *wmem_alloc,
            sndbuf: *sndbuf,
            fwd_alloc: *fwd_alloc,
            wmem_queued: *wmem_queued,
            optmem: *optmem,
            backlog: *backlog,
            drops: drops.first().copied().unwrap_or(0),
        })
    }
}

/// State that the congestion control reports (include/uapi/linux/inet_diag.h).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CongestionInfo {
    /// `struct tcpvegas_info`; Illinois and Westwood use it too.
    Vegas {
        /// Whether Vegas' algorithm is active.
        enabled: u32,
        /// Round-trip samples.
        rtt_count: u32,
        /// Round-trip time, us.
        rtt_us: u32,
        /// Minimum round-trip time, us.
        min_rtt_us: u32,
    },
    /// `struct tcp_bbr_info`.
    Bbr {
        /// Bandwidth estimate, bit/s.
        bandwidth_bps: u64,
        /// Minimum round-trip time, us.
        min_rtt_us: u32,
        /// Pacing gain.
        pacing_gain: f64,
        /// Window gain.
        cwnd_gain: f64,
    },
    /// `struct tcp_dctcp_info`.
    Dctcp {
        /// Whether ECN was negotiated.
        enabled: u16,
        /// Whether the last packet was CE-marked.
        ce_state: u16,
        /// Estimated fraction of marked bytes, 0 to 1.
        alpha: f64,
        /// Bytes acknowledged as marked.
        marked_bytes: u32,
        /// Bytes acknowledged.
        total_bytes: u32,
    },
}

/// The two socket addresses of a connection, as seen from one end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SocketAddresses {
    /// The address of this end.
    pub local: SocketAddr,
    /// The address of the other end.
    pub peer: SocketAddr,
}

impl SocketAddresses {
    /// As seen from the other end.
    pub fn reversed(self) -> SocketAddresses {
        SocketAddresses { local: self.peer, peer: self.local }
    }
}

impl fmt::Display for SocketAddresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {}", self.local, self.peer)
    }
}

/// A report of sock_diag about one connection at one instant.
#[derive(Debug, Clone, PartialEq)]
pub struct SocketSample {
    /// Identifies the connection.
    pub cookie: SocketCookie,
    /// Its addresses; IPv4-mapped IPv6 addresses are written as IPv4.
    pub addresses: SocketAddresses,
    /// TCP state.
    pub state: SocketState,
    /// User ID of the owner.
    pub uid: u32,
    /// Inode of the socket, as in /proc/PID/fd; 0 if no process has it open.
    pub inode: u32,
    /// Bytes received and not read.
    pub rqueue_bytes: u32,
    /// Bytes written and not acknowledged.
    pub wqueue_bytes: u32,
    /// IPv4 type of service, or IPv6 traffic class.
    pub tos: Option<u8>,
    /// Name of the congestion control.
    pub congestion: Option<String>,
    /// State that the congestion control reports.
    pub congestion_info: Option<CongestionInfo>,
    /// Memory that the socket uses.
    pub memory: Option<SocketMemory>,
    /// `struct tcp_info`.
    pub info: TcpInfo,
}

/// Converts an IPv4-mapped IPv6 address (of a dual-stack socket) to IPv4; returns any other address
/// unchanged.
pub(crate) fn unmapped(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_names() {
        assert_eq!(SocketState::from_name("close-wait"), Some(SocketState(8)));
        assert_eq!(SocketState::ESTABLISHED.name(), "established");
        assert_eq!(SocketState(200).name(), "unknown");
        assert_eq!(SocketState::names().count(), 11);
    }

    #[test]
    fn the_drops_word_of_memory_is_optional() {
        assert_eq!(SocketMemory::from_words(&[1; 7]), None);
        assert_eq!(SocketMemory::from_words(&[1; 8]).unwrap().drops, 0);
        assert_eq!(SocketMemory::from_words(&[2; 9]).unwrap().drops, 2);
    }
}
