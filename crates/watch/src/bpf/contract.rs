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
/// `struct sample`s in a `struct report`.
pub(crate) const SAMPLES_MOST: usize = 256;
/// What is before them.
pub(crate) const HEAD_BYTES: usize = 16;
/// `struct report`.
pub(crate) const REPORT_BYTES: usize = HEAD_BYTES + SAMPLES_MOST * SAMPLE_BYTES;
/// `struct slot`.
pub(crate) const SLOT_BYTES: usize = 32;
/// Cache lines that a socket has at most.
pub(crate) const LINES: u32 = 64;
/// `struct run`s that there are at most.
pub(crate) const RUNS_MOST: usize = 16;
/// Value of the map `wanted`; others are a slot and one.
pub(crate) const UNWANTED: u32 = 0;
const INFO_AT: usize = 104;

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

/// The `struct run`s of the lines that are needed. Where they are too many, the last goes on to the last line.
pub(crate) fn runs(is_needed: impl Fn(u32) -> bool) -> [u8; 8 * RUNS_MOST] {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for line in (0..LINES).filter(|line| is_needed(*line)) {
        let is_full = runs.len() == RUNS_MOST;
        match runs.last_mut() {
            Some((first, lines)) if *first + *lines == line || is_full => *lines = line + 1 - *first,
            _ => runs.push((line, 1)),
        }
    }
    let mut bytes = [0; 8 * RUNS_MOST];
    for (place, (first, lines)) in bytes.as_chunks_mut().0.iter_mut().zip(runs) {
        *place = {
            let mut run = [0; 8];
            run[..4].copy_from_slice(&first.to_ne_bytes());
            run[4..].copy_from_slice(&lines.to_ne_bytes());
            run
        };
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
        let raw = RawSample { bytes: bytes.try_into().ok()?, hz };
        let mut info = TcpInfo::from_bytes(&[]);
        let clocks = raw.fill(&mut info);
        let (rqueue_bytes, wqueue_bytes) = raw.queues_bytes();
        let (cookie, time_ns, memory) = (raw.cookie(), raw.time_ns(), raw.memory());
        Some(Sample { cookie, time_ns, memory, rqueue_bytes, wqueue_bytes, info, clocks })
    }
}

/// `struct sample` where eBPF wrote it, of a kernel whose clock ticks `hz` times a second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawSample<'a> {
    pub(crate) bytes: &'a [u8; SAMPLE_BYTES],
    pub(crate) hz: u64,
}

impl RawSample<'_> {
    pub(crate) fn cookie(&self) -> Cookie {
        Cookie(u64_at(self.bytes, 0))
    }

    /// CLOCK_MONOTONIC, ns.
    pub(crate) fn time_ns(&self) -> u64 {
        u64_at(self.bytes, 8)
    }

    /// Which slot the connection has.
    pub(crate) fn slot(&self) -> u32 {
        u32_at(self.bytes, 100)
    }

    pub(crate) fn memory(&self) -> Option<Memory> {
        Memory::from_words(&std::array::from_fn::<_, 9, _>(|i| u32_at(self.bytes, 16 + 4 * i)))
    }

    /// Bytes received and not read, and written and not acknowledged.
    pub(crate) fn queues_bytes(&self) -> (u32, u32) {
        (u32_at(self.bytes, 52), u32_at(self.bytes, 56))
    }

    /// Makes `info` what it told, and returns what its times are made of.
    pub(crate) fn fill(&self, info: &mut TcpInfo) -> Clocks {
        let info_bytes = (u32_at(self.bytes, 60) as usize).min(SAMPLE_BYTES - INFO_AT);
        info.refill(&self.bytes[INFO_AT..INFO_AT + info_bytes]);
        let clocks = Clocks::from_words(std::array::from_fn(|i| u32_at(self.bytes, 68 + 4 * i)));
        clocks.tell(u32_at(self.bytes, 64), self.hz, info);
        clocks
    }
}

/// What a run of `look` told besides samples: connections that were not told of are as before, at this time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pass {
    /// CLOCK_MONOTONIC, ns.
    pub(crate) time_ns: u64,
    /// The kernel's clock, jiffies.
    pub(crate) jiffies: u32,
    /// Jiffies in a second.
    pub(crate) hz: u64,
}

/// Reads `struct report`: the pass and the samples.
pub(crate) fn report(bytes: &[u8; REPORT_BYTES], hz: u64) -> (Pass, impl Iterator<Item = RawSample<'_>>) {
    let count = (u32_at(bytes, 12) as usize).min(SAMPLES_MOST);
    let (samples, _) = bytes[HEAD_BYTES..].as_chunks();
    let pass = Pass { time_ns: u64_at(bytes, 0), jiffies: u32_at(bytes, 8), hz };
    (pass, samples[..count].iter().map(move |bytes| RawSample { bytes, hz }))
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
    fn a_report_has_the_samples_that_it_counts() {
        let mut bytes = [0; REPORT_BYTES];
        bytes[..8].copy_from_slice(&9u64.to_ne_bytes());
        bytes[8..12].copy_from_slice(&7u32.to_ne_bytes());
        bytes[12..16].copy_from_slice(&2u32.to_ne_bytes());
        let second = HEAD_BYTES + SAMPLE_BYTES;
        bytes[second..second + 8].copy_from_slice(&5u64.to_ne_bytes());
        bytes[second + 100..second + 104].copy_from_slice(&3u32.to_ne_bytes());
        let (pass, samples) = report(&bytes, 250);
        assert_eq!(pass, Pass { time_ns: 9, jiffies: 7, hz: 250 });
        let told: Vec<_> = samples.map(|sample| (sample.cookie(), sample.slot())).collect();
        assert_eq!(told, [(Cookie(0), 0), (Cookie(5), 3)]);
        bytes[12..16].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(report(&bytes, 250).1.count(), SAMPLES_MOST);
    }

    #[test]
    fn runs_cover_what_is_needed() {
        let covered = |bytes: [u8; 8 * RUNS_MOST]| -> Vec<u32> {
            let runs = bytes.chunks_exact(8).map(|run| (u32_at(run, 0), u32_at(run, 4)));
            runs.flat_map(|(line, lines)| line..line + lines).collect()
        };
        assert_eq!(covered(runs(|line| [0, 1, 5, 63].contains(&line))), [0, 1, 5, 63]);
        assert_eq!(covered(runs(|_| false)), []);
        let even = covered(runs(|line| line % 2 == 0));
        assert_eq!((even.len(), even[15], even[16]), (15 + 33, 30, 31), "the sixteenth goes to the last");
    }

    #[test]
    fn no_length_of_tcp_info_panics() {
        for length in [0u32, 104, 280, 281, u32::MAX] {
            let mut bytes = [1u8; SAMPLE_BYTES];
            bytes[60..64].copy_from_slice(&length.to_ne_bytes());
            let sample = Sample::read(&bytes, 250).unwrap();
            assert_eq!(sample.info.snd_cwnd().is_some(), length >= 104);
        }
        assert_eq!(settings(280, true, &[7; 100])[8..16], [64, 0, 0, 0, 7, 0, 0, 0]);
    }
}
