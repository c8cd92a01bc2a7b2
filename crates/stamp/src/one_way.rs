//! One direction of OWAMP: sends packets on a schedule, or receives them (RFC 4656 section 4).

use std::{collections::BTreeSet, net::SocketAddr, time::Duration};

use os::realtime_ns;
use socket2::Socket;
use traffic::{Error, ancillary::ReceivedDatagram};

use crate::{
    control::{PacketRecord, Schedule, SessionRequest, Slot, StoppedSender},
    test_socket::{self, own_error},
    wire::{ErrorEstimate, Request, SHORTEST_REQUEST_BYTES, interval, ntp},
};

/// The largest error estimate: of the send time of a lost packet (RFC 4656 section 4.2).
const UNKNOWN_ERROR: ErrorEstimate = ErrorEstimate(63 << 8 | 1);

/// A session's sender. Its owner calls [`Self::send`] when a packet is due.
pub(crate) struct OneWaySender {
    to: SocketAddr,
    schedule: Schedule,
    count: u32,
    payload: usize,
    next: u32,
    /// When the next packet is due after the start.
    due: Duration,
}

impl OneWaySender {
    pub(crate) fn new(request: &SessionRequest, slots: &[Slot], to: SocketAddr) -> Self {
        let mut schedule = Schedule::new(&request.sid, slots.to_vec());
        let due = interval(schedule.next().unwrap_or(0));
        let payload = SHORTEST_REQUEST_BYTES + request.padding_bytes as usize;
        OneWaySender { to, schedule, count: request.packets, payload, next: 0, due }
    }

    /// When the next packet is due after the start; `None` after the last one.
    pub(crate) fn due(&self) -> Option<Duration> {
        (self.next < self.count).then_some(self.due)
    }

    /// Sends the next packet.
    ///
    /// # Errors
    /// If the socket fails.
    pub(crate) fn send(&mut self, socket: &Socket) -> Result<(), Error> {
        let packet =
            Request { sequence: self.next, stamp: ntp(realtime_ns()), error: own_error(), session: 0 };
        let mut bytes = packet.to_bytes(None);
        bytes.resize(self.payload, 0);
        self.next += 1;
        self.due += interval(self.schedule.next().unwrap_or(0));
        test_socket::send(socket, &bytes, self.to)
    }

    /// The report of the sender at the end.
    pub(crate) fn stopped(&self, sid: [u8; 16]) -> StoppedSender {
        StoppedSender { sid, next_sequence: self.next, skipped: Vec::new() }
    }
}

/// A session's receiver.
#[derive(Default)]
pub(crate) struct OneWayReceiver {
    records: Vec<PacketRecord>,
}

impl OneWayReceiver {
    /// Stores a datagram if it is a packet of the session; at most `limit` records are kept.
    pub(crate) fn receive(&mut self, bytes: &[u8], datagram: &ReceivedDatagram, limit: usize) {
        let Some(packet) = Request::from_bytes(bytes, None) else { return };
        if self.records.len() < limit {
            self.records.push(PacketRecord {
                sequence: packet.sequence,
                sent_error: packet.error,
                received_error: own_error(),
                sent: packet.stamp,
                received: ntp(datagram.stamp_ns.unwrap_or_else(realtime_ns)),
                ttl: datagram.ttl.unwrap_or(255),
            });
        }
    }

    /// The records of a finished session: those of received packets, then those of lost ones. Packets that
    /// the sender does not report as sent are not part of the session.
    pub(crate) fn finish(
        mut self,
        request: &SessionRequest,
        slots: &[Slot],
        stopped: &StoppedSender,
    ) -> Vec<PacketRecord> {
        let sent = stopped.next_sequence.min(request.packets);
        let is_skipped = |n: u32| stopped.skipped.iter().any(|(first, last)| (*first..=*last).contains(&n));
        self.records.retain(|record| record.sequence < sent);
        let arrived: BTreeSet<u32> = self.records.iter().map(|record| record.sequence).collect();
        let mut schedule = Schedule::new(&request.sid, slots.to_vec());
        let mut due = request.start;
        for sequence in 0..sent {
            // NTP's time wraps in 2036 (RFC 5905 section 6).
            due = due.wrapping_add(schedule.next().unwrap_or(0));
            if !arrived.contains(&sequence) && !is_skipped(sequence) {
                self.records.push(PacketRecord {
                    sequence,
                    sent_error: UNKNOWN_ERROR,
                    received_error: own_error(),
                    sent: due,
                    received: 0,
                    ttl: 255,
                });
            }
        }
        self.records
    }

    /// Number of packets that arrived.
    pub(crate) fn count(&self) -> usize {
        self.records.len()
    }

    /// The records of received packets.
    pub(crate) fn into_records(self) -> Vec<PacketRecord> {
        self.records
    }
}

/// When the packets of a schedule that starts at `start_ns` are due.
pub(crate) fn send_times(
    request: &SessionRequest,
    slots: &[Slot],
    start_ns: i64,
) -> impl Iterator<Item = i64> + use<> {
    let schedule = Schedule::new(&request.sid, slots.to_vec());
    schedule.scan(0_u64, move |units, next| {
        *units = units.saturating_add(next);
        let after_ns = i64::try_from(interval(*units).as_nanos()).unwrap_or(i64::MAX);
        Some(start_ns.saturating_add(after_ns))
    })
}

/// The duration of a schedule. It ends with the last packet.
pub(crate) fn duration(request: &SessionRequest, slots: &[Slot]) -> Duration {
    let units: u128 =
        Schedule::new(&request.sid, slots.to_vec()).take(request.packets as usize).map(u128::from).sum();
    interval(u64::try_from(units).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    #[test]
    fn records_of_lost_packets_have_scheduled_times_across_ntp_eras() {
        let end = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        // Half a second before 2036-02-07 06:28:16 UTC.
        let start = u64::MAX - (1 << 31) + 1;
        let request = SessionRequest {
            two_way: false,
            server_sends: false,
            server_receives: true,
            slots: 1,
            packets: 2,
            sender: end,
            receiver: end,
            sid: [0; 16],
            padding_bytes: 0,
            start,
            timeout: 0,
            type_p: 0,
        };
        let stopped = StoppedSender { sid: [0; 16], next_sequence: 2, skipped: Vec::new() };
        let records = OneWayReceiver::default().finish(&request, &[Slot::Fixed(1 << 32)], &stopped);
        assert_eq!(records.iter().map(|record| record.sent).collect::<Vec<_>>(), [1 << 31, 3 << 31]);
    }
}
