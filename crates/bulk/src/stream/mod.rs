//! A real-time stream, without I/O: packets of one size at a constant rate, played at the receiver with a fixed delay.
//!
//! The receiver plays packet n at the arrival of the first packet, plus the deadline, plus n times the spacing. A packet that
//! arrives later is useless. With repairs, the receiver requests missing packets while a retransmission can still arrive in time.
//!
//! ```text
//! data      number (64)   payload
//! start     1 byte
//! request   first number (64)   count (32)   ..., repeated
//! ```
//!
//! The sender begins when the receiver's start arrives; the receiver repeats it until data arrives. A host therefore gets no stream
//! that it did not request, and address resolution does not cost the first packets.
//!
//! All fields are big-endian. There is no congestion control: the rate is the user's choice.

mod playout;
mod receiver;
mod sender;

pub use playout::{GAP_LENGTHS, Playout, PlayoutCounts};
pub use receiver::Receiver;
pub use sender::{Sender, SenderStatistics};

use units::{BitRate, Time};

/// Bytes of a data packet's header.
pub const HEADER_BYTES: usize = 8;
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
}

impl Parameters {
    /// When packet `number` is sent, since the start.
    pub fn time_of(&self, number: u64) -> Time {
        let bits = u128::from(number) * u128::from(self.payload_bytes) * 8;
        let ns = bits * 1_000_000_000 / u128::from(self.rate.0.max(1));
        Time(u64::try_from(ns).unwrap_or(u64::MAX / 2))
    }
}

fn be64(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.get(..8)?.try_into().ok()?))
}
