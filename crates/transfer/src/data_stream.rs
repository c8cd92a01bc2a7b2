//! Byte streams in order that carry the data of files, separate from the control connection.

use std::{
    net::{IpAddr, SocketAddr},
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use bulk::flow::{ReceiverCounts, SenderCounts};
use quic::{QuicStatistics, QuicStream};
use units::Time;

use crate::{
    Error, UdtStream,
    control::{Control, control_check},
    sampler::{PUBLISH_INTERVAL, SharedCounts},
    udt_stream::Attendant,
};

/// Smallest and largest packets with headers: a payload of 32 B, and jumbo frames; bytes.
pub(crate) const MSS_RANGE: std::ops::RangeInclusive<u32> = 76..=9000;
/// Difference between the sizes of the headers of IPv6 and IPv4.
const IPV6_EXTRA_BYTES: u32 = 20;

/// The packet size that UDT, SABUL and Tsunami need so that packets to `peer` have at most `mss` bytes with
/// all headers: these protocols subtract the headers of IPv4.
pub(crate) fn datagram_mss(mss: u32, peer: SocketAddr) -> u32 {
    let mss = mss.clamp(*MSS_RANGE.start(), *MSS_RANGE.end());
    match peer.ip().to_canonical() {
        IpAddr::V4(_) => mss,
        IpAddr::V6(_) => (mss - IPV6_EXTRA_BYTES).max(*MSS_RANGE.start()),
    }
}

/// The same address with another port. It keeps the zone, without which a link-local address is invalid.
pub(crate) fn with_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}

/// The congestion control of QUIC connections.
pub(crate) const DEFAULT_QUIC_CONGESTION: &str = "cubic";
/// A connection for files' data. Its calls block, and end with an error if the control connection reports
/// one.
pub(crate) trait DataStream {
    /// Writes all bytes into the send buffer.
    fn write_all(&mut self, bytes: &[u8], control: &mut Control<'_>) -> Result<(), Error>;

    /// Reads at least one byte; 0 after the peer closed.
    fn read(&mut self, buffer: &mut [u8], control: &mut Control<'_>) -> Result<usize, Error>;

    /// Waits until the peer has all data. Protocols whose next message implies this need not wait.
    fn flush(&mut self, _control: &mut Control<'_>) -> Result<(), Error> {
        Ok(())
    }

    /// Acknowledges and sends for about `time`.
    fn serve(&mut self, time: Duration, control: &mut Control<'_>) -> Result<(), Error>;

    /// Handles a report that arrived over the control connection; false: this protocol has none.
    fn handle_report(&mut self, _packet: &[u8]) -> bool {
        false
    }

    fn close(self: Box<Self>, control: &mut Control<'_>) -> Result<(), Error>;

    /// Bytes in the send buffer, at most.
    fn buffered_bytes(&self) -> u64;

    /// Number of data packets sent, and of retransmissions (of QUIC: lost packets).
    fn packets(&self) -> (u64, u64);

    /// Publishes its counts from now on.
    fn publish_to(&mut self, counts: SharedCounts);

    /// Whether the stream authenticates its peer by the certificates that the token proves, so that it can
    /// confirm messages of the control connection.
    fn is_authenticated(&self) -> bool {
        false
    }
}

impl DataStream for UdtStream {
    fn write_all(&mut self, bytes: &[u8], control: &mut Control<'_>) -> Result<(), Error> {
        UdtStream::write_all(self, bytes, &mut control_check(control))
    }

    fn read(&mut self, buffer: &mut [u8], control: &mut Control<'_>) -> Result<usize, Error> {
        UdtStream::read(self, buffer, &mut control_check(control))
    }

    fn flush(&mut self, control: &mut Control<'_>) -> Result<(), Error> {
        UdtStream::flush(self, &mut control_check(control))
    }

    fn serve(&mut self, time: Duration, _control: &mut Control<'_>) -> Result<(), Error> {
        UdtStream::serve(self, time, &mut || Ok(()))
    }

    fn close(self: Box<Self>, _control: &mut Control<'_>) -> Result<(), Error> {
        UdtStream::close(*self, &mut || Ok(()))
    }

    fn buffered_bytes(&self) -> u64 {
        self.unacknowledged_bytes()
    }

    fn packets(&self) -> (u64, u64) {
        let statistics = self.statistics();
        (statistics.sent_packets, statistics.retransmitted_packets)
    }

    fn publish_to(&mut self, counts: SharedCounts) {
        UdtStream::publish_to(self, counts);
    }
}

/// SABUL: data over UDP, and reports over the control connection. The connection and the packets are those of
/// UDT, SABUL's successor.
pub(crate) struct SabulStream(pub(crate) UdtStream);

/// Sends and receives reports over the control connection.
struct ReportChannel<'a, 'b>(&'a mut Control<'b>);

impl Attendant for ReportChannel<'_, '_> {
    fn check(&mut self) -> Result<(), Error> {
        self.0.check_stop()
    }

    fn send_report(&mut self, packet: &[u8]) -> Result<bool, Error> {
        self.0.send_report(packet).map(|()| true)
    }

    fn poll_report(&mut self) -> Result<Option<Vec<u8>>, Error> {
        self.0.poll_report()
    }

    fn report_descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.stream().as_fd())
    }
}

impl DataStream for SabulStream {
    fn write_all(&mut self, bytes: &[u8], control: &mut Control<'_>) -> Result<(), Error> {
        self.0.write_all(bytes, &mut ReportChannel(control))
    }

    fn read(&mut self, buffer: &mut [u8], control: &mut Control<'_>) -> Result<usize, Error> {
        self.0.read(buffer, &mut ReportChannel(control))
    }

    fn flush(&mut self, control: &mut Control<'_>) -> Result<(), Error> {
        self.0.flush(&mut ReportChannel(control))
    }

    fn serve(&mut self, time: Duration, control: &mut Control<'_>) -> Result<(), Error> {
        self.0.serve(time, &mut ReportChannel(control))
    }

    fn handle_report(&mut self, packet: &[u8]) -> bool {
        self.0.handle_report(packet);
        true
    }

    fn close(self: Box<Self>, control: &mut Control<'_>) -> Result<(), Error> {
        self.0.close(&mut ReportChannel(control))
    }

    fn buffered_bytes(&self) -> u64 {
        self.0.unacknowledged_bytes()
    }

    fn packets(&self) -> (u64, u64) {
        self.0.packets()
    }

    fn publish_to(&mut self, counts: SharedCounts) {
        self.0.publish_to(counts);
    }
}

impl DataStream for QuicStream {
    fn write_all(&mut self, bytes: &[u8], control: &mut Control<'_>) -> Result<(), Error> {
        QuicStream::write_all(self, bytes, &mut control_check(control))
    }

    fn read(&mut self, buffer: &mut [u8], control: &mut Control<'_>) -> Result<usize, Error> {
        QuicStream::read(self, buffer, &mut control_check(control))
    }

    fn serve(&mut self, time: Duration, _control: &mut Control<'_>) -> Result<(), Error> {
        Ok(QuicStream::serve(self, time)?)
    }

    fn close(self: Box<Self>, _control: &mut Control<'_>) -> Result<(), Error> {
        Ok(QuicStream::close(*self)?)
    }

    fn buffered_bytes(&self) -> u64 {
        QuicStream::buffered_bytes(self)
    }

    fn packets(&self) -> (u64, u64) {
        let statistics = self.statistics();
        (statistics.sent_packets, statistics.lost_packets)
    }

    fn publish_to(&mut self, counts: SharedCounts) {
        self.observe(PUBLISH_INTERVAL, move |statistics| {
            let (sender, receiver) = quic_counts(statistics);
            counts.publish(sender, receiver);
        });
    }

    fn is_authenticated(&self) -> bool {
        true
    }
}

/// The counts of a QUIC connection, which carries the data of lost packets in new packets.
fn quic_counts(statistics: &QuicStatistics) -> (SenderCounts, ReceiverCounts) {
    let packets = |bytes: u64| bytes.div_ceil(u64::from(statistics.packet_bytes.max(1)));
    let time = Time::from_duration;
    let sender = SenderCounts {
        is_connected: true,
        payload_bytes: u32::from(statistics.packet_bytes),
        sent_packets: statistics.sent_packets,
        retransmitted_packets: statistics.lost_packets,
        sent_bytes: statistics.sent_bytes,
        unacked_packets: Some(statistics.in_flight_packets),
        lost_packets: statistics.lost_packets,
        window_packets: Some(packets(statistics.window_bytes)),
        rate_bps: statistics.rate_bps,
        rtt: statistics.rtt.map(|(smoothed, _)| (time(smoothed), statistics.rtt_deviation)),
        ..SenderCounts::default()
    };
    let receiver = ReceiverCounts {
        received_bytes: statistics.read_bytes,
        min_rtt: statistics.rtt.map(|(_, minimum)| time(minimum)),
        ..ReceiverCounts::default()
    };
    (sender, receiver)
}

/// The congestion control of a QUIC connection: a built-in one, or a user's C file (a path with a slash, or
/// that ends in `.c`).
pub(crate) fn quic_congestion(name: Option<&str>) -> Result<cc::Source, Error> {
    let name = name.unwrap_or(DEFAULT_QUIC_CONGESTION);
    if name.contains('/') || name.ends_with(".c") {
        return cc::Source::file(name.as_ref()).map_err(|error| Error::Input(error.to_string()));
    }
    let source = cc::Source::built_in(name);
    source
        .ok_or_else(|| Error::Input(format!("longfat has no congestion control {name:?} (longfat cc list)")))
}

/// Reads exactly this number of bytes.
pub(crate) fn read_exact(
    stream: &mut dyn DataStream,
    buffer: &mut [u8],
    control: &mut Control<'_>,
) -> Result<(), Error> {
    let mut filled = 0;
    while filled < buffer.len() {
        match stream.read(&mut buffer[filled..], control)? {
            0 => return Err(Error::Closed),
            count => filled += count,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_senders_round_trip_time_of_quic_has_its_deviation() {
        let (rtt, minimum) = (Duration::from_millis(30), Duration::from_millis(20));
        let rtt_deviation = Time::from_millis(4);
        let statistics = QuicStatistics {
            sent_packets: 10,
            lost_packets: 0,
            sent_bytes: 12_000,
            read_bytes: 0,
            packet_bytes: 1200,
            window_bytes: 12_000,
            in_flight_packets: 5,
            rate_bps: None,
            rtt: Some((rtt, minimum)),
            rtt_deviation,
        };
        let (sender, receiver) = quic_counts(&statistics);
        assert_eq!(sender.rtt, Some((Time::from_millis(30), rtt_deviation)));
        assert_eq!(receiver.min_rtt, Some(Time::from_millis(20)));
    }

    #[test]
    fn packets_over_ipv6_have_the_same_size_with_their_longer_header() {
        let mss = |mss, peer: &str| datagram_mss(mss, peer.parse().unwrap());
        assert_eq!(mss(1500, "192.0.2.1:1"), 1500);
        assert_eq!(mss(1500, "[2001:db8::1]:1"), 1480);
        assert_eq!(mss(1500, "[::ffff:192.0.2.1]:1"), 1500);
        assert_eq!((mss(10, "192.0.2.1:1"), mss(80, "[2001:db8::1]:1")), (76, 76));
    }

    #[test]
    fn another_port_of_a_link_local_address_keeps_its_zone() {
        let address: SocketAddr = "[fe80::1%3]:5".parse().unwrap();
        assert_eq!(with_port(address, 7).to_string(), "[fe80::1%3]:7");
    }
}
