//! Data shared with bpf/watch.bpf.c: encodes and decodes the structures of bpf/contract.h.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::clocks::Clocks;
use crate::{
    SocketMemory, TcpInfo,
    socket_sample::{SocketAddresses, SocketCookie, SocketState, unmapped},
};

/// Maximum number of namespaces watched at once.
pub(crate) const MAX_NAMESPACES: usize = 64;
/// Size of `struct settings`.
pub(crate) const SETTINGS_BYTES: usize = 12 + 4 * MAX_NAMESPACES;
/// Size of `struct event`.
pub(crate) const EVENT_BYTES: usize = 112;
/// Size of `struct sample`.
pub(crate) const SAMPLE_BYTES: usize = 392;
/// Maximum number of `struct sample`s in a `struct report`, and of slots that one run walks.
pub(crate) const MAX_SAMPLES: usize = 256;
/// Size of the members of `struct report` before the samples.
pub(crate) const REPORT_HEADER_BYTES: usize = 16;
/// Size of `struct report`.
pub(crate) const REPORT_BYTES: usize = REPORT_HEADER_BYTES + MAX_SAMPLES * SAMPLE_BYTES;
/// Size of `struct slot`.
pub(crate) const SLOT_BYTES: usize = 32;
/// Maximum number of cache lines of a socket.
pub(crate) const MAX_LINES: u32 = 64;
/// Maximum number of `struct line_range`s.
pub(crate) const MAX_LINE_RANGES: usize = 16;
/// Value of the map `filter_results` for a connection that the filter rejects; other values are a slot number
/// plus one.
pub(crate) const FILTERED_OUT: u32 = 0;
/// Offset of `info` in `struct sample`.
const INFO_OFFSET: usize = 104;
/// Offset of the member after it.
const LIMITS_OFFSET: usize = 384;

const AF_INET6: u16 = 10;

/// Encodes `struct settings`.
pub(crate) fn encode_settings(info_bytes: u32, per_ack: bool, namespaces: &[u32]) -> [u8; SETTINGS_BYTES] {
    let count = namespaces.len().min(MAX_NAMESPACES);
    let mut bytes = [0; SETTINGS_BYTES];
    let words = [info_bytes, u32::from(per_ack), count as u32];
    for (bytes, word) in bytes.chunks_exact_mut(4).zip(words.iter().chain(&namespaces[..count])) {
        bytes.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

/// Encodes the `struct line_range`s that cover all needed lines. If there are too many ranges, the last one
/// extends to the last needed line.
pub(crate) fn encode_line_ranges(is_needed: impl Fn(u32) -> bool) -> [u8; 8 * MAX_LINE_RANGES] {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for line in (0..MAX_LINES).filter(|line| is_needed(*line)) {
        let is_full = ranges.len() == MAX_LINE_RANGES;
        match ranges.last_mut() {
            Some((first, count)) if *first + *count == line || is_full => *count = line + 1 - *first,
            _ => ranges.push((line, 1)),
        }
    }
    let mut bytes = [0; 8 * MAX_LINE_RANGES];
    for (range, (first, count)) in bytes.chunks_exact_mut(8).zip(ranges) {
        range[..4].copy_from_slice(&first.to_ne_bytes());
        range[4..].copy_from_slice(&count.to_ne_bytes());
    }
    bytes
}

/// The kind of an event of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketEventKind {
    /// Its TCP state changed.
    State {
        /// The previous state.
        old: SocketState,
        /// The new state.
        new: SocketState,
    },
    /// Its congestion state was set: 0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss.
    CaState(u8),
    /// This number of segments was retransmitted.
    Retransmit(u32),
    /// A round trip was measured, us.
    RoundTrip(u32),
    /// A segment arrived. The other members are the sender's state before it processes the segment.
    Ack {
        /// It has no data and acknowledges nothing new while data is outstanding: a duplicate ACK, unless it
        /// changes the window.
        repeats: bool,
    },
}

/// An event of a connection, with the sender's state at the time. For round trips only `cookie`, `time_ns`,
/// `snd_cwnd` and `srtt_us` are set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketEvent {
    /// Identifies the connection.
    pub cookie: SocketCookie,
    /// Time, CLOCK_MONOTONIC, ns.
    pub time_ns: u64,
    /// The kind of event.
    pub kind: SocketEventKind,
    /// The inode of its network namespace.
    pub namespace: u32,
    /// The connection's addresses.
    pub addresses: SocketAddresses,
    /// Bytes acknowledged since the start.
    pub bytes_acked: u64,
    /// Congestion window, segments.
    pub snd_cwnd: u32,
    /// Slow-start threshold, segments; 0x7fffffff while infinite.
    pub snd_ssthresh: u32,
    /// Segments in flight by the sender's estimate.
    pub in_flight: u32,
    /// Smoothed round-trip time, us.
    pub srtt_us: u32,
    /// The peer's receive window, bytes.
    pub snd_wnd: u32,
    /// Our advertised receive window, bytes.
    pub rcv_wnd: u32,
    /// Sender's MSS, bytes.
    pub snd_mss: u32,
    /// Retransmission timeouts since the start (Linux 6.7; 0 on older kernels).
    pub total_rto: u32,
    /// Congestion state.
    pub ca_state: u8,
}

impl SocketEvent {
    /// Decodes `struct event`; `None` if the length or the kind is wrong.
    pub(crate) fn decode(bytes: &[u8]) -> Option<SocketEvent> {
        let bytes: &[u8; EVENT_BYTES] = bytes.try_into().ok()?;
        let value = u64_at(bytes, 16);
        let kind = match u32_at(bytes, 32) {
            1 => {
                SocketEventKind::State { old: SocketState((value >> 8) as u8), new: SocketState(value as u8) }
            }
            2 => SocketEventKind::CaState(value as u8),
            3 => SocketEventKind::Retransmit(value as u32),
            4 => SocketEventKind::RoundTrip(value as u32),
            5 => SocketEventKind::Ack { repeats: value != 0 },
            _ => return None,
        };
        let is_ipv6 = u16_at(bytes, 72) == AF_INET6;
        Some(SocketEvent {
            cookie: SocketCookie(u64_at(bytes, 0)),
            time_ns: u64_at(bytes, 8),
            kind,
            namespace: u32_at(bytes, 36),
            addresses: SocketAddresses {
                local: SocketAddr::new(address(&bytes[80..96], is_ipv6), u16_at(bytes, 74)),
                peer: SocketAddr::new(address(&bytes[96..112], is_ipv6), u16_at(bytes, 76)),
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

/// Upper limits of a connection's windows, which tcp_info does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowLimits {
    /// Limit of the congestion window (`snd_cwnd_clamp`), segments.
    pub cwnd_segs: u32,
    /// Limit of the advertised receive window (`window_clamp`), bytes.
    pub advertised_bytes: u32,
}

/// eBPF's sample of a connection that user space already tracks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BpfSample {
    /// Identifies the connection.
    pub cookie: SocketCookie,
    /// Time, CLOCK_MONOTONIC, ns.
    pub time_ns: u64,
    /// Memory that the socket uses.
    pub memory: Option<SocketMemory>,
    /// Bytes received and not read.
    pub rqueue_bytes: u32,
    /// Bytes written and not acknowledged.
    pub wqueue_bytes: u32,
    /// `struct tcp_info`.
    pub info: TcpInfo,
    /// The values from which the fields that depend on the clock are computed.
    pub clocks: Clocks,
}

impl BpfSample {
    /// Decodes `struct sample` of a kernel with `hz` jiffies per second; `None` if the length is wrong.
    pub(crate) fn decode(bytes: &[u8], hz: u64) -> Option<BpfSample> {
        let raw = RawBpfSample { bytes: bytes.try_into().ok()?, hz };
        let mut info = TcpInfo::from_bytes(&[]);
        let clocks = raw.copy_info(&mut info);
        let (rqueue_bytes, wqueue_bytes) = raw.queues_bytes();
        let (cookie, time_ns, memory) = (raw.cookie(), raw.time_ns(), raw.memory());
        Some(BpfSample { cookie, time_ns, memory, rqueue_bytes, wqueue_bytes, info, clocks })
    }
}

/// `struct sample` in the memory into which eBPF wrote it, of a kernel with `hz` jiffies per second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawBpfSample<'a> {
    pub(crate) bytes: &'a [u8; SAMPLE_BYTES],
    pub(crate) hz: u64,
}

impl RawBpfSample<'_> {
    pub(crate) fn cookie(&self) -> SocketCookie {
        SocketCookie(u64_at(self.bytes, 0))
    }

    /// CLOCK_MONOTONIC, ns.
    pub(crate) fn time_ns(&self) -> u64 {
        u64_at(self.bytes, 8)
    }

    /// The slot of the connection.
    pub(crate) fn slot(&self) -> u32 {
        u32_at(self.bytes, 100)
    }

    pub(crate) fn memory(&self) -> Option<SocketMemory> {
        SocketMemory::from_words(&std::array::from_fn::<_, 9, _>(|i| u32_at(self.bytes, 16 + 4 * i)))
    }

    /// Bytes received and not read, and bytes written and not acknowledged.
    pub(crate) fn queues_bytes(&self) -> (u32, u32) {
        (u32_at(self.bytes, 52), u32_at(self.bytes, 56))
    }

    /// The limits of the connection's windows.
    pub(crate) fn limits(&self) -> WindowLimits {
        WindowLimits {
            cwnd_segs: u32_at(self.bytes, LIMITS_OFFSET),
            advertised_bytes: u32_at(self.bytes, LIMITS_OFFSET + 4),
        }
    }

    /// Copies the sample's `tcp_info` to `info`, and returns the values from which its times are computed.
    pub(crate) fn copy_info(&self, info: &mut TcpInfo) -> Clocks {
        let info_bytes = (u32_at(self.bytes, 60) as usize).min(LIMITS_OFFSET - INFO_OFFSET);
        info.refill(&self.bytes[INFO_OFFSET..INFO_OFFSET + info_bytes]);
        let clocks = Clocks::from_words(std::array::from_fn(|i| u32_at(self.bytes, 68 + 4 * i)));
        clocks.set_times(u32_at(self.bytes, 64), self.hz, info);
        clocks
    }
}

/// Time of one run of `sample_slots`. Connections without a sample in its report are unchanged at this time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SamplingPass {
    /// CLOCK_MONOTONIC, ns.
    pub(crate) time_ns: u64,
    /// The kernel's time, jiffies.
    pub(crate) jiffies: u32,
    /// Jiffies per second.
    pub(crate) hz: u64,
}

/// Decodes `struct report`: the time of the run, and the samples.
pub(crate) fn decode_report(
    bytes: &[u8; REPORT_BYTES],
    hz: u64,
) -> (SamplingPass, impl Iterator<Item = RawBpfSample<'_>>) {
    let count = (u32_at(bytes, 12) as usize).min(MAX_SAMPLES);
    let (samples, _) = bytes[REPORT_HEADER_BYTES..].as_chunks();
    let pass = SamplingPass { time_ns: u64_at(bytes, 0), jiffies: u32_at(bytes, 8), hz };
    (pass, samples[..count].iter().map(move |bytes| RawBpfSample { bytes, hz }))
}

fn address(bytes: &[u8], is_ipv6: bool) -> IpAddr {
    let mut all = [0; 16];
    all.copy_from_slice(bytes);
    if is_ipv6 {
        unmapped(Ipv6Addr::from(all).into())
    } else {
        Ipv4Addr::new(all[0], all[1], all[2], all[3]).into()
    }
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
    fn an_event_is_decoded_by_the_header_offsets() {
        let mut bytes = [0u8; EVENT_BYTES];
        bytes[..8].copy_from_slice(&9u64.to_ne_bytes());
        bytes[16..24].copy_from_slice(&(2u64 << 8 | 1).to_ne_bytes());
        bytes[32..36].copy_from_slice(&1u32.to_ne_bytes());
        bytes[40..44].copy_from_slice(&10u32.to_ne_bytes());
        bytes[72..78].copy_from_slice(&[2, 0, 0x51, 0x14, 80, 0]);
        bytes[80..84].copy_from_slice(&[10, 0, 0, 1]);
        let event = SocketEvent::decode(&bytes).unwrap();
        assert_eq!(event.kind, SocketEventKind::State { old: SocketState(2), new: SocketState::ESTABLISHED });
        assert_eq!((event.cookie, event.snd_cwnd), (SocketCookie(9), 10));
        assert_eq!(event.addresses.to_string(), "10.0.0.1:5201 > 0.0.0.0:80");
        assert_eq!(SocketEvent::decode(&bytes[1..]), None);
        bytes[32] = 77;
        assert_eq!(SocketEvent::decode(&bytes), None);
    }

    #[test]
    fn a_report_yields_as_many_samples_as_it_counts() {
        let mut bytes = [0; REPORT_BYTES];
        bytes[..8].copy_from_slice(&9u64.to_ne_bytes());
        bytes[8..12].copy_from_slice(&7u32.to_ne_bytes());
        bytes[12..16].copy_from_slice(&2u32.to_ne_bytes());
        let second = REPORT_HEADER_BYTES + SAMPLE_BYTES;
        bytes[second..second + 8].copy_from_slice(&5u64.to_ne_bytes());
        bytes[second + 100..second + 104].copy_from_slice(&3u32.to_ne_bytes());
        let (pass, samples) = decode_report(&bytes, 250);
        assert_eq!(pass, SamplingPass { time_ns: 9, jiffies: 7, hz: 250 });
        let decoded: Vec<_> = samples.map(|sample| (sample.cookie(), sample.slot())).collect();
        assert_eq!(decoded, [(SocketCookie(0), 0), (SocketCookie(5), 3)]);
        bytes[12..16].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(decode_report(&bytes, 250).1.count(), MAX_SAMPLES);
    }

    #[test]
    fn line_ranges_cover_the_needed_lines() {
        let covered = |bytes: [u8; 8 * MAX_LINE_RANGES]| -> Vec<u32> {
            let ranges = bytes.chunks_exact(8).map(|range| (u32_at(range, 0), u32_at(range, 4)));
            ranges.flat_map(|(first, count)| first..first + count).collect()
        };
        assert_eq!(covered(encode_line_ranges(|line| [0, 1, 5, 63].contains(&line))), [0, 1, 5, 63]);
        assert!(covered(encode_line_ranges(|_| false)).is_empty());
        let even = covered(encode_line_ranges(|line| line % 2 == 0));
        assert_eq!(
            (even.len(), even[15], even[16]),
            (15 + 33, 30, 31),
            "the sixteenth range extends to the last line"
        );
    }

    #[test]
    fn no_tcp_info_length_panics() {
        for length in [0u32, 104, 280, 281, u32::MAX] {
            let mut bytes = [1u8; SAMPLE_BYTES];
            bytes[60..64].copy_from_slice(&length.to_ne_bytes());
            let sample = BpfSample::decode(&bytes, 250).unwrap();
            assert_eq!(sample.info.snd_cwnd().is_some(), length >= 104);
        }
        let mut bytes = [0u8; SAMPLE_BYTES];
        bytes[384..].copy_from_slice(&[7, 0, 0, 0, 0, 1, 0, 0]);
        let limits = RawBpfSample { bytes: &bytes, hz: 250 }.limits();
        assert_eq!(limits, WindowLimits { cwnd_segs: 7, advertised_bytes: 256 });
        assert_eq!(encode_settings(280, true, &[7; 100])[8..16], [64, 0, 0, 0, 7, 0, 0, 0]);
    }
}
