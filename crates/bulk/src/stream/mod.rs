//! A real-time stream, without I/O: packets of one size at a constant rate, played at the receiver with a
//! fixed delay.
//!
//! The receiver plays packet n at the arrival of the first packet, plus the deadline, plus n times the
//! spacing. A packet that arrives later is useless. With repairs, the receiver requests missing packets while
//! a retransmission can still arrive in time.
//!
//! ```text
//! data      number (64)   payload
//! start     1 byte
//! request   first number (64)   count (32)   ..., repeated
//! ```
//!
//! The sender begins when the receiver's start message arrives; the receiver repeats this message until data
//! arrives. A host therefore receives no stream that it did not request, and the first packets are not lost
//! to address resolution.
//!
//! All fields are big-endian. There is no congestion control: the rate is the user's choice.
//!
//! With [`vdif::Frames`], data packets have the format of VLBI recorders instead: the number, little-endian,
//! and a VDIF frame.

mod playout;
mod receiver;
mod sender;
pub mod vdif;

pub use playout::{GAP_LENGTHS, Playout, PlayoutCounts};
pub use receiver::Receiver;
pub use sender::{Sender, SenderStatistics};

use units::{BitRate, Instant, Time};

/// Bytes of a data packet's number.
pub const NUMBER_BYTES: usize = 8;
/// The start message, which is shorter than any request for packets.
const START: &[u8] = &[0];
/// Bytes of a range in a request.
const RANGE_BYTES: usize = 12;
/// Ranges in one request; all fit into 1400 B.
const MAX_RANGES: usize = 100;

/// The parameters of a stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameters {
    /// Rate of payload.
    pub rate: BitRate,
    /// Payload of a packet, bytes.
    pub payload_bytes: u32,
    /// Delay between the first packet's arrival and its play-out.
    pub deadline: Time,
    /// Missing packets are requested again.
    pub repairs: bool,
    /// Number of packets; `None`: no end.
    pub packets: Option<u64>,
    /// The packets carry VDIF frames, whose data is the payload.
    pub vdif: Option<vdif::Frames>,
}

impl Parameters {
    /// When packet `number` is sent, since the start.
    pub fn time_of(&self, number: u64) -> Time {
        let bits = u128::from(number) * u128::from(self.payload_bytes) * 8;
        let ns = bits * 1_000_000_000 / u128::from(self.rate.0.max(1));
        Time::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX / 2))
    }

    /// Bytes of a data packet before the payload.
    pub fn header_bytes(&self) -> usize {
        NUMBER_BYTES + if self.vdif.is_some() { vdif::HEADER_BYTES } else { 0 }
    }

    /// Appends the header of packet `number`.
    pub fn write_header(&self, number: u64, out: &mut Vec<u8>) {
        match &self.vdif {
            None => out.extend_from_slice(&number.to_be_bytes()),
            Some(frames) => {
                out.extend_from_slice(&number.to_le_bytes());
                out.extend_from_slice(&frames.header(number, self.payload_bytes).encode());
            }
        }
    }

    /// The number of a data packet; `None` for other datagrams.
    pub fn read_number(&self, datagram: &[u8]) -> Option<u64> {
        if datagram.len() != self.header_bytes() + self.payload_bytes as usize {
            return None;
        }
        let (number, rest) = datagram.split_first_chunk::<NUMBER_BYTES>()?;
        let Some(frames) = &self.vdif else { return Some(u64::from_be_bytes(*number)) };
        let number = u64::from_le_bytes(*number);
        let header = vdif::Header::decode(rest.first_chunk()?)?;
        (header == frames.header(number, self.payload_bytes)).then_some(number)
    }
}

/// Passes pieces of arbitrary bytes as datagrams to both ends, with and without VDIF frames; for fuzzers.
#[doc(hidden)]
pub fn fuzz(bytes: &[u8]) {
    let begin = vdif::Second { epoch: 53, second: 0 };
    let frames = vdif::Frames { station: *b"Lf", thread: 0, sample_bits: 2, begin, per_second: 1000 };
    for vdif in [None, Some(frames)] {
        let parameters = Parameters {
            rate: BitRate(64_000),
            payload_bytes: 8,
            deadline: Time::from_millis(500),
            repairs: true,
            packets: None,
            vdif,
        };
        let (mut sender, mut receiver) = (Sender::new(parameters), Receiver::new(parameters));
        let (mut now, mut out) = (Instant::ZERO, Vec::new());
        // The pieces have the length of a data packet, so that some are taken for data.
        for piece in bytes.chunks(parameters.header_bytes() + 8) {
            now += Time::from_millis(9);
            receiver.handle_datagram(now, piece);
            receiver.handle_timeout(now);
            sender.handle_datagram(now, piece);
            while receiver.poll_transmit(now, &mut out) {
                sender.handle_datagram(now, &out);
                out.clear();
            }
            while let Some(number) = sender.poll_transmit(now) {
                parameters.write_header(number, &mut out);
                out.extend_from_slice(&[0; 8]);
                receiver.handle_datagram(now, &out);
                out.clear();
            }
        }
    }
}

fn be64(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.get(..8)?.try_into().ok()?))
}
