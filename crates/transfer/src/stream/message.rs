//! The messages of a stream's control connection, JSON over [`iperf3::service::Channel`].
//!
//! ```text
//! client                          server
//! request
//!                                 ready, or refused
//! (UDP) hello                     (UDP) reply
//! report, many                    report, many
//! ```

use bulk::{
    flow::{Plan, Protocol, ReceiverCounts, SenderCounts},
    stream::{Parameters, PlayoutCounts, vdif},
};
use serde::{Deserialize, Serialize};
use units::{BitRate, Time};

/// Prefix of the cookie of clients; it contains the version of the messages.
pub(super) const COOKIE_PREFIX: &str = "longfat-stream-1-";
/// The longest deadline.
pub(super) const MAX_DEADLINE: Time = Time::from_secs(60);
/// The longest stream.
pub(super) const MAX_DURATION: Time = Time::from_secs(7200);
/// Maximum number of packets that a play-out buffer may have to hold.
const MAX_BUFFERED: u64 = 1 << 26;
/// Larger counts of the other end are errors, of which products and sums would overflow: the longest stream
/// has fewer packets and bytes.
const MAX_PACKETS: u64 = 1 << 40;
const MAX_BYTES: u64 = 1 << 53;
/// Payload of a packet, bytes.
const PAYLOAD_RANGE: std::ops::RangeInclusive<u32> = 8..=9000;

/// The direction of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    FromServer,
}

/// The client's request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Request {
    pub direction: Direction,
    pub rate_bps: u64,
    pub payload_bytes: u32,
    pub deadline_us: u64,
    pub repairs: bool,
    pub packets: u64,
    pub vdif: Option<VdifRequest>,
}

/// VDIF frames of a stream.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct VdifRequest {
    pub station: [u8; 2],
    pub thread: u16,
    pub sample_bits: u8,
    pub epoch: u8,
    pub second: u32,
}

/// The server's reply to a request, or a report of either end.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Message {
    /// The server expects the client's UDP socket.
    Ready,
    /// The server refuses the stream, and why.
    Refused { reason: String },
    /// The sending end's counts.
    Sender(SenderReport),
    /// The receiving end's counts.
    Receiver(ReceiverReport),
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct SenderReport {
    pub has_ended: bool,
    pub is_connected: bool,
    pub sent_packets: u64,
    pub retransmitted_packets: u64,
    pub requests: u64,
    pub requested_packets: u64,
    pub skipped_packets: u64,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct ReceiverReport {
    pub has_ended: bool,
    pub received_bytes: u64,
    pub due: u64,
    pub in_time: u64,
    pub late: u64,
    pub duplicates: u64,
    pub gaps: [u64; 4],
    pub longest_gap: u64,
    pub buffered: u64,
    pub min_rtt_us: Option<u64>,
    pub dropped_at_socket: u64,
}

impl Request {
    pub(super) fn new(direction: Direction, parameters: &Parameters) -> Request {
        let vdif = parameters.vdif.map(|frames| VdifRequest {
            station: frames.station,
            thread: frames.thread,
            sample_bits: frames.sample_bits,
            epoch: frames.begin.epoch,
            second: frames.begin.second,
        });
        Request {
            direction,
            rate_bps: parameters.rate.0,
            payload_bytes: parameters.payload_bytes,
            deadline_us: parameters.deadline.as_micros(),
            repairs: parameters.repairs,
            packets: parameters.packets.unwrap_or(u64::MAX),
            vdif,
        }
    }

    /// The stream's parameters, or why it is not possible.
    pub(super) fn parameters(&self) -> Result<Parameters, String> {
        if self.rate_bps < 1000 {
            return Err("the rate must be at least 1 kbit/s".into());
        }
        if !PAYLOAD_RANGE.contains(&self.payload_bytes) {
            return Err(format!("a packet has 8 to 9000 bytes of payload, not {}", self.payload_bytes));
        }
        if self.deadline_us == 0 || self.deadline_us > MAX_DEADLINE.as_micros() {
            return Err(format!("the deadline must be above 0 and at most {MAX_DEADLINE}"));
        }
        let rate = BitRate(self.rate_bps);
        let vdif = match self.vdif {
            None => None,
            Some(requested) => Some(vdif::Frames {
                station: requested.station,
                thread: requested.thread,
                sample_bits: requested.sample_bits,
                begin: vdif::Second { epoch: requested.epoch, second: requested.second },
                per_second: vdif::frames_per_second(rate, self.payload_bytes).ok_or_else(|| {
                    format!(
                        "a second of {rate} is not a whole number of frames of {} bytes",
                        self.payload_bytes
                    )
                })?,
            }),
        };
        let parameters = Parameters {
            rate,
            payload_bytes: self.payload_bytes,
            deadline: Time::from_nanos(self.deadline_us.saturating_mul(1000)),
            repairs: self.repairs,
            packets: Some(self.packets),
            vdif,
        };
        if self.packets == 0 || parameters.time_of(self.packets) > MAX_DURATION {
            return Err(format!("a stream lasts at most {MAX_DURATION}"));
        }
        let per_second = self.rate_bps / (8 * u64::from(self.payload_bytes));
        if per_second.saturating_mul(self.deadline_us / 1_000_000 + 3) > MAX_BUFFERED {
            return Err(
                "the play-out buffer would have too many packets: use larger packets or a shorter deadline"
                    .into(),
            );
        }
        Ok(parameters)
    }
}

/// The plan of both ends.
pub(super) fn plan(parameters: Parameters) -> Plan {
    // A stream uses none of the sizes and no random numbers.
    Plan { protocol: Protocol::Stream(parameters), bytes: None, mtu: 0, ip_header: 0, seed: 0 }
}

impl SenderReport {
    pub(super) fn of(counts: &SenderCounts, has_ended: bool) -> Self {
        SenderReport {
            has_ended,
            is_connected: counts.is_connected,
            sent_packets: counts.sent_packets,
            retransmitted_packets: counts.retransmitted_packets,
            requests: counts.naks,
            requested_packets: counts.lost_packets,
            skipped_packets: counts.skipped_packets,
        }
    }

    pub(super) fn counts(&self, parameters: &Parameters) -> SenderCounts {
        let count = |packets: u64| packets.min(MAX_PACKETS);
        SenderCounts {
            is_connected: self.is_connected,
            is_complete: self.has_ended,
            payload_bytes: parameters.payload_bytes,
            sent_packets: count(self.sent_packets),
            retransmitted_packets: count(self.retransmitted_packets),
            sent_bytes: count(self.sent_packets) * u64::from(parameters.payload_bytes),
            naks: count(self.requests),
            lost_packets: count(self.requested_packets),
            skipped_packets: count(self.skipped_packets),
            rate_bps: Some(parameters.rate.0),
            ..SenderCounts::default()
        }
    }
}

impl ReceiverReport {
    pub(super) fn of(counts: &ReceiverCounts, dropped_at_socket: u64, has_ended: bool) -> Self {
        let playout = counts.playout.unwrap_or_default();
        ReceiverReport {
            has_ended,
            received_bytes: counts.received_bytes,
            due: playout.due,
            in_time: playout.in_time,
            late: playout.late,
            duplicates: playout.duplicates,
            gaps: playout.gaps,
            longest_gap: playout.longest_gap,
            buffered: playout.buffered,
            min_rtt_us: counts.min_rtt.map(Time::as_micros),
            dropped_at_socket,
        }
    }

    pub(super) fn counts(&self) -> ReceiverCounts {
        let count = |packets: u64| packets.min(MAX_PACKETS);
        ReceiverCounts {
            is_complete: self.has_ended,
            received_bytes: self.received_bytes.min(MAX_BYTES),
            duplicate_packets: count(self.duplicates),
            rtt: None,
            min_rtt: self.min_rtt_us.map(Time::from_micros),
            playout: Some(PlayoutCounts {
                due: count(self.due),
                in_time: count(self.in_time),
                late: count(self.late),
                duplicates: count(self.duplicates),
                gaps: self.gaps.map(count),
                longest_gap: count(self.longest_gap),
                buffered: self.buffered.min(MAX_BUFFERED),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        Request {
            direction: Direction::ToServer,
            rate_bps: 512_000_000,
            payload_bytes: 1280,
            deadline_us: 500_000,
            repairs: true,
            packets: 500_000,
            vdif: None,
        }
    }

    #[test]
    fn extreme_counts_of_the_other_end_do_not_overflow() {
        let max = u64::MAX;
        let report =
            ReceiverReport { due: max, buffered: max, late: max, received_bytes: max, ..Default::default() };
        let counts = report.counts();
        let playout = counts.playout.unwrap();
        // As in a row of a record, and the check for the first packet.
        assert!(
            i64::try_from(playout.buffered * 9000).is_ok() && i64::try_from(counts.received_bytes).is_ok()
        );
        assert!(playout.due.checked_add(playout.buffered + playout.late).is_some());
        let report = SenderReport { sent_packets: max, ..SenderReport::default() };
        assert!(i64::try_from(report.counts(&request().parameters().unwrap()).sent_bytes).is_ok());
    }

    #[test]
    fn requests_that_no_receiver_can_serve_are_refused() {
        assert!(request().parameters().is_ok());
        let vdif = VdifRequest { station: *b"Lf", thread: 0, sample_bits: 2, epoch: 53, second: 0 };
        let frames = Request { vdif: Some(vdif), ..request() }.parameters().unwrap().vdif.unwrap();
        assert_eq!(frames.per_second, 50_000);
        let refused = [
            Request { rate_bps: 0, ..request() },
            Request { payload_bytes: 0, ..request() },
            Request { payload_bytes: 9001, ..request() },
            Request { deadline_us: 0, ..request() },
            Request { deadline_us: u64::MAX, ..request() },
            Request { packets: 0, ..request() },
            Request { packets: u64::MAX, ..request() },
            Request { vdif: Some(vdif), payload_bytes: 1288, ..request() },
            // More packets than memory.
            Request { rate_bps: u64::MAX, payload_bytes: 8, packets: 1, ..request() },
        ];
        for (index, request) in refused.iter().enumerate() {
            assert!(request.parameters().is_err(), "{index}");
        }
    }
}
