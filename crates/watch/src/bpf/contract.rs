//! What bpf/watch.bpf.c and the program tell each other, byte by byte as bpf/contract.h has it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::clocks::Clocks;
use crate::{
    Memory, TcpInfo,
    connection::{Cookie, Ends, State, plain},
};

/// Namespaces that can be watched at once.
pub(crate) const NAMESPACES_MOST: usize = 64;
/// `struct settings`.
pub(crate) const SETTINGS_BYTES: usize = 12 + 4 * NAMESPACES_MOST;
/// `struct event`.
pub(crate) const EVENT_BYTES: usize = 112;
/// `struct sample`.
pub(crate) const SAMPLE_BYTES: usize = 384;
/// `struct pass`.
pub(crate) const PASS_BYTES: usize = 16;
const INFO_AT: usize = 104;
/// Values of the map `wanted`.
pub(crate) const UNWANTED: u32 = 0;
/// Values of the map `wanted`.
pub(crate) const WANTED: u32 = 1;

const AF_INET6: u16 = 10;

/// `struct settings` as bytes.
pub(crate) fn settings(info_bytes: u32, per_ack: bool, namespaces: &[u32]) -> [u8; SETTINGS_BYTES] {
    let count = namespaces.len().min(NAMESPACES_MOST);
    let mut bytes = [0; SETTINGS_BYTES];
    let words = [info_bytes, u32::from(per_ack), count as u32];
    for (place, word) in bytes.chunks_exact_mut(4).zip(words.iter().chain(&namespaces[..count])) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

/// What happened to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// Its TCP state changed.
    State {
        /// Before.
        old: State,
        /// Now.
        new: State,
    },
    /// Its congestion state was set: 0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss.
    CaState(u8),
    /// So many segments were sent again.
    Retransmit(u32),
    /// A round trip was measured, us.
    RoundTrip(u32),
    /// A segment came. The other members are as the sender was before it took it in.
    Ack,
}

/// Something that happened, with the sender's state at the time. Of round trips only `cookie`, time, cwnd and srtt are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Which connection.
    pub cookie: Cookie,
    /// When, CLOCK_MONOTONIC, ns.
    pub time_ns: u64,
    /// What.
    pub kind: EventKind,
    /// The inode of its network namespace.
    pub namespace: u32,
    /// The connection's ends.
    pub ends: Ends,
    /// Bytes acknowledged since the start.
    pub bytes_acked: u64,
    /// Congestion window, segments.
    pub snd_cwnd: u32,
    /// Slow-start threshold, segments; 0x7fffffff while infinite.
    pub snd_ssthresh: u32,
    /// Segments in the network by the sender's reckoning.
    pub in_flight: u32,
    /// Smoothed round-trip time, us.
    pub srtt_us: u32,
    /// The peer's window, bytes.
    pub snd_wnd: u32,
    /// The window that we advertise, bytes.
    pub rcv_wnd: u32,
    /// Sender's MSS, bytes.
    pub snd_mss: u32,
    /// Retransmission timeouts since the start (Linux 6.7; else 0).
    pub total_rto: u32,
    /// Congestion state.
    pub ca_state: u8,
}

impl Event {
    /// Reads `struct event`; `None` where it is none.
    pub(crate) fn read(bytes: &[u8]) -> Option<Event> {
        let bytes: &[u8; EVENT_BYTES] = bytes.try_into().ok()?;
        let value = u64_at(bytes, 16);
        let kind = match u32_at(bytes, 32) {
            1 => EventKind::State { old: State((value >> 8) as u8), new: State(value as u8) },
            2 => EventKind::CaState(value as u8),
            3 => EventKind::Retransmit(value as u32),
            4 => EventKind::RoundTrip(value as u32),
            5 => EventKind::Ack,
            _ => return None,
        };
        let six = u16_at(bytes, 72) == AF_INET6;
        Some(Event {
            cookie: Cookie(u64_at(bytes, 0)),
            time_ns: u64_at(bytes, 8),
            kind,
            namespace: u32_at(bytes, 36),
            ends: Ends {
                local: SocketAddr::new(address(&bytes[80..96], six), u16_at(bytes, 74)),
                peer: SocketAddr::new(address(&bytes[96..112], six), u16_at(bytes, 76)),
            },
            bytes_acked: u64_at(bytes, 24),
            snd_cwnd: u32_at(bytes, 40),
            snd_ssthresh: u32_at(bytes, 44),
            in_flight: u32_at(bytes, 48),
            srtt_us: u32_at(bytes, 52),
            snd_wnd: u32_at(bytes, 56),
            rcv_wnd: u32_at(bytes, 60),
            snd_mss: u32_at(bytes, 64),
            total_rto: u32_at(bytes, 68),
            ca_state: u16_at(bytes, 78) as u8,
        })
    }
}

/// A look at a connection that is known already.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Which connection.
    pub cookie: Cookie,
    /// When, CLOCK_MONOTONIC, ns.
    pub time_ns: u64,
    /// Memory of the socket.
    pub memory: Option<Memory>,
    /// Bytes received and not read.
    pub rqueue_bytes: u32,
    /// Bytes written and not acknowledged.
    pub wqueue_bytes: u32,
    /// `struct tcp_info`.
    pub info: TcpInfo,
    /// What its times are made of.
    pub clocks: Clocks,
}

impl Sample {
    /// Reads `struct sample` of a kernel whose clock ticks `hz` times a second; `None` where it is none.
    pub(crate) fn read(bytes: &[u8], hz: u64) -> Option<Sample> {
        let mut sample = Sample::empty();
        sample.refill(bytes.try_into().ok()?, hz);
        Some(sample)
    }

    /// Of nothing, to be filled.
    pub(crate) fn empty() -> Sample {
        Sample {
            cookie: Cookie(0),
            time_ns: 0,
            memory: None,
            rqueue_bytes: 0,
            wqueue_bytes: 0,
            info: TcpInfo::from_bytes(&[]),
            clocks: Clocks::from_words([0; 8]),
        }
    }

    /// Becomes what [`Sample::read`] gives.
    pub(crate) fn refill(&mut self, bytes: &[u8; SAMPLE_BYTES], hz: u64) {
        let words: [u32; 9] = std::array::from_fn(|i| u32_at(bytes, 16 + 4 * i));
        let info_bytes = (u32_at(bytes, 60) as usize).min(SAMPLE_BYTES - INFO_AT);
        self.cookie = Cookie(u64_at(bytes, 0));
        self.time_ns = u64_at(bytes, 8);
        self.memory = Memory::from_words(&words);
        (self.rqueue_bytes, self.wqueue_bytes) = (u32_at(bytes, 52), u32_at(bytes, 56));
        self.clocks = Clocks::from_words(std::array::from_fn(|i| u32_at(bytes, 68 + 4 * i)));
        self.info.refill(&bytes[INFO_AT..INFO_AT + info_bytes]);
        self.clocks.tell(u32_at(bytes, 64), hz, &mut self.info);
    }
}

/// The end of a look at all: those that were not told of are as before, at this time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pass {
    /// CLOCK_MONOTONIC, ns.
    pub(crate) time_ns: u64,
    /// The kernel's clock, jiffies.
    pub(crate) jiffies: u32,
    /// Jiffies in a second.
    pub(crate) hz: u64,
}

impl Pass {
    /// Reads `struct pass`; `None` where it is none.
    pub(crate) fn read(bytes: &[u8], hz: u64) -> Option<Pass> {
        let bytes: &[u8; PASS_BYTES] = bytes.try_into().ok()?;
        Some(Pass { time_ns: u64_at(bytes, 0), jiffies: u32_at(bytes, 8), hz })
    }
}

fn address(bytes: &[u8], six: bool) -> IpAddr {
    let mut all = [0; 16];
    all.copy_from_slice(bytes);
    if six { plain(Ipv6Addr::from(all).into()) } else { Ipv4Addr::new(all[0], all[1], all[2], all[3]).into() }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_read_where_the_header_puts_it() {
        let mut bytes = [0u8; EVENT_BYTES];
        bytes[..8].copy_from_slice(&9u64.to_ne_bytes());
        bytes[16..24].copy_from_slice(&(2u64 << 8 | 1).to_ne_bytes());
        bytes[32..36].copy_from_slice(&1u32.to_ne_bytes());
        bytes[40..44].copy_from_slice(&10u32.to_ne_bytes());
        bytes[72..78].copy_from_slice(&[2, 0, 0x51, 0x14, 80, 0]);
        bytes[80..84].copy_from_slice(&[10, 0, 0, 1]);
        let event = Event::read(&bytes).unwrap();
        assert_eq!(event.kind, EventKind::State { old: State(2), new: State::ESTABLISHED });
        assert_eq!((event.cookie, event.snd_cwnd), (Cookie(9), 10));
        assert_eq!(event.ends.to_string(), "10.0.0.1:5201 > 0.0.0.0:80");
        assert_eq!(Event::read(&bytes[1..]), None);
        bytes[32] = 77;
        assert_eq!(Event::read(&bytes), None);
    }

    #[test]
    fn no_length_of_tcp_info_panics() {
        for length in [0u32, 104, 280, 281, u32::MAX] {
            let mut bytes = [1u8; SAMPLE_BYTES];
            bytes[60..64].copy_from_slice(&length.to_ne_bytes());
            let sample = Sample::read(&bytes, 250).unwrap();
            assert_eq!(sample.info.snd_cwnd().is_some(), length >= 104);
        }
        assert_eq!(Pass::read(&[1; PASS_BYTES], 250).unwrap().jiffies, 0x0101_0101);
        assert_eq!(Pass::read(&[1; PASS_BYTES + 1], 250), None);
        assert_eq!(settings(280, true, &[7; 100])[8..16], [64, 0, 0, 0, 7, 0, 0, 0]);
    }
}
