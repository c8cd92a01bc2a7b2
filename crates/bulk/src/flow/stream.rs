//! The ends of a real-time stream.

use units::{BitRate, Instant};

use super::{End, ReceiverCounts, SenderCounts, plan::UDP_HEADER};
use crate::stream::{self, NUMBER_BYTES, Parameters, vdif};

/// The sending end.
pub(super) struct StreamSender {
    sender: stream::Sender,
    parameters: Parameters,
    is_complete: bool,
}

impl StreamSender {
    pub(super) fn new(parameters: Parameters) -> Self {
        StreamSender { sender: stream::Sender::new(parameters), parameters, is_complete: false }
    }

    pub(super) fn begin(&mut self, now: Instant) {
        self.sender.begin(now);
    }

    pub(super) fn counts(&self) -> SenderCounts {
        let statistics = self.sender.statistics();
        SenderCounts {
            is_connected: self.sender.has_started(),
            is_complete: self.is_complete,
            payload_bytes: self.parameters.payload_bytes,
            sent_packets: statistics.sent_packets,
            retransmitted_packets: statistics.retransmitted_packets,
            sent_bytes: statistics.sent_packets * u64::from(self.parameters.payload_bytes),
            lost_packets: statistics.requested_packets,
            naks: statistics.requests,
            skipped_packets: statistics.skipped_packets,
            rate_bps: Some(self.parameters.rate.0),
            ..SenderCounts::default()
        }
    }
}

impl End for StreamSender {
    fn handle_datagram(&mut self, now: Instant, bytes: &[u8]) {
        self.sender.handle_datagram(now, bytes);
    }
    fn handle_control(&mut self, _now: Instant, _bytes: &[u8]) {}
    fn next_timeout(&self) -> Instant {
        self.sender.next_timeout()
    }
    fn handle_timeout(&mut self, _now: Instant) {}
    fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        let Some(number) = self.sender.poll_transmit(now) else {
            self.is_complete = self.sender.is_over(now);
            return false;
        };
        self.parameters.write_header(number, out);
        out.resize(out.len() + self.parameters.payload_bytes as usize, 0);
        true
    }
    fn take_control(&mut self) -> Vec<u8> {
        Vec::new()
    }
    fn failure(&self) -> Option<String> {
        None
    }
}

/// The receiving end.
pub(super) struct StreamReceiver(stream::Receiver);

impl StreamReceiver {
    pub(super) fn new(parameters: Parameters) -> Self {
        StreamReceiver(stream::Receiver::new(parameters))
    }

    pub(super) fn counts(&self) -> ReceiverCounts {
        let playout = self.0.counts();
        ReceiverCounts {
            is_complete: self.0.is_over(),
            received_bytes: self.0.received_bytes(),
            duplicate_packets: playout.duplicates,
            rtt: None,
            min_rtt: self.0.min_rtt(),
            playout: Some(playout),
        }
    }
}

impl End for StreamReceiver {
    fn handle_datagram(&mut self, now: Instant, bytes: &[u8]) {
        self.0.handle_datagram(now, bytes);
    }
    fn handle_control(&mut self, _now: Instant, _bytes: &[u8]) {}
    fn next_timeout(&self) -> Instant {
        self.0.next_timeout()
    }
    fn handle_timeout(&mut self, now: Instant) {
        self.0.handle_timeout(now);
    }
    fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        self.0.poll_transmit(now, out)
    }
    fn take_control(&mut self) -> Vec<u8> {
        Vec::new()
    }
    fn failure(&self) -> Option<String> {
        None
    }
}

/// The largest payload for which a packet fits into `mtu` bytes, rounded down to a multiple of eight so that
/// no sample (at most eight bytes) is split over two packets.
pub fn full_stream_payload(mtu: u32, ip_header: u32) -> u32 {
    (mtu.saturating_sub(ip_header + UDP_HEADER + NUMBER_BYTES as u32) / 8 * 8).max(8)
}

/// The largest payload for which a packet with a VDIF frame fits into `mtu` bytes, and a second at `rate` has
/// a whole number of frames; `None` if there is no such size.
pub fn full_vdif_payload(mtu: u32, ip_header: u32, rate: BitRate) -> Option<u32> {
    let headers = ip_header + UDP_HEADER + (NUMBER_BYTES + vdif::HEADER_BYTES) as u32;
    vdif::largest_payload(rate, mtu.saturating_sub(headers))
}
