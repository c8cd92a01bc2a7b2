//! Goodput at wire rate: the link rate less headers.
//!
//! Sources: RFC 791 and 8200 (IP header 20 and 40 bytes, Fragment header 8 bytes), RFC 9293 and 7323 (TCP 20
//! bytes and 12 of timestamps), RFC 768 (UDP 8 bytes), IEEE 802.3 (Ethernet header 14, checksum 4, preamble
//! 8, gap 12).

use units::BitRate;

/// The version of IP, for its header's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IpVersion {
    /// 20 bytes.
    V4,
    /// 40 bytes.
    V6,
}

/// The transport, for its header's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// TCP with timestamps, as Linux sends it: 32 bytes.
    Tcp,
    /// UDP: 8 bytes.
    Udp,
}

impl IpVersion {
    /// Header bytes.
    pub fn header_bytes(self) -> u32 {
        match self {
            IpVersion::V4 => 20,
            IpVersion::V6 => 40,
        }
    }

    /// Header bytes of a fragment: IPv6 adds the Fragment header (RFC 8200 section 4.5).
    fn fragment_header_bytes(self) -> u32 {
        match self {
            IpVersion::V4 => self.header_bytes(),
            IpVersion::V6 => self.header_bytes() + 8,
        }
    }
}

impl Transport {
    /// Header bytes.
    pub fn header_bytes(self) -> u32 {
        match self {
            Transport::Tcp => 32,
            Transport::Udp => 8,
        }
    }
}

/// Payload bytes of a full packet at `mtu`; 0 where the headers do not fit.
pub fn payload_bytes(mtu: u32, ip: IpVersion, transport: Transport) -> u32 {
    mtu.saturating_sub(ip.header_bytes() + transport.header_bytes())
}

/// The smallest MSS of Linux, bytes (`net.ipv4.tcp_min_snd_mss`, TCP_MIN_SND_MSS in include/net/tcp.h); it
/// includes timestamps.
const MIN_SND_MSS: u32 = 48;
/// Bytes of timestamps in a TCP header, padded (RFC 7323, appendix A).
const TIMESTAMP_BYTES: u32 = 12;

/// TCP's payload bytes per segment with timestamps, for `mtu` and a requested MSS (TCP_MAXSEG).
///
/// As in the kernel, a requested MSS includes the 12 bytes of timestamps, and a segment has at least 36
/// bytes, also if the MTU is too small for them.
pub fn mss(mtu: u32, ip: IpVersion, requested: Option<u32>) -> u32 {
    let path = payload_bytes(mtu, ip, Transport::Tcp);
    let payload = requested.map_or(path, |requested| path.min(requested.saturating_sub(TIMESTAMP_BYTES)));
    payload.max(MIN_SND_MSS - TIMESTAMP_BYTES)
}

/// Goodput in bits per second of back-to-back packets on a link of `rate`.
///
/// Each packet has `payload` bytes of the application, `headers` bytes of IP and transport, and `overhead`
/// bytes that the link counts in addition (14 as tbf does, 38 for Ethernet with preamble and gap).
pub fn goodput_bps(rate: BitRate, payload: u32, headers: u32, overhead: u32) -> f64 {
    let wire = u64::from(payload) + u64::from(headers) + u64::from(overhead);
    if wire == 0 { 0.0 } else { rate.as_f64() * f64::from(payload) / wire as f64 }
}

/// Payload in bits per second of back-to-back datagrams of `payload` bytes on a link of `rate`, which counts
/// `overhead` bytes in addition to IP for each packet.
pub fn datagram_goodput_bps(rate: BitRate, payload: u32, mtu: u32, ip: IpVersion, overhead: u32) -> f64 {
    let packets = datagram_packets(payload, mtu, ip);
    let wire = packets.ip_bytes() + u64::from(packets.count) * u64::from(overhead);
    rate.as_f64() * f64::from(payload) / wire as f64
}

/// The packets of one datagram or echo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramPackets {
    /// Their number.
    pub count: u32,
    /// IP bytes of each packet but the last.
    pub full_bytes: u32,
    /// IP bytes of the last packet.
    pub last_bytes: u32,
}

impl DatagramPackets {
    /// One packet of this size.
    pub fn single(ip_bytes: u32) -> Self {
        DatagramPackets { count: 1, full_bytes: ip_bytes, last_bytes: ip_bytes }
    }

    /// IP bytes of each packet.
    pub fn sizes(self) -> impl Iterator<Item = u32> {
        (1..=self.count)
            .map(move |number| if number < self.count { self.full_bytes } else { self.last_bytes })
    }

    /// IP bytes of all packets.
    pub fn ip_bytes(&self) -> u64 {
        u64::from(self.count - 1) * u64::from(self.full_bytes) + u64::from(self.last_bytes)
    }
}

/// The packets of a datagram of `payload` bytes after the header of UDP, or of an echo after that of ICMP,
/// which has 8 bytes too. Datagrams larger than `mtu` are fragmented at multiples of 8 bytes (RFC 791 section
/// 3.2).
pub fn datagram_packets(payload: u32, mtu: u32, ip: IpVersion) -> DatagramPackets {
    let body = payload.saturating_add(Transport::Udp.header_bytes());
    let whole = body.saturating_add(ip.header_bytes());
    if whole <= mtu {
        return DatagramPackets::single(whole);
    }
    let header = ip.fragment_header_bytes();
    let part = (mtu.saturating_sub(header) / 8 * 8).max(8);
    let count = body.div_ceil(part);
    DatagramPackets { count, full_bytes: header + part, last_bytes: header + body - (count - 1) * part }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_sizes() {
        assert_eq!(mss(1_500, IpVersion::V4, None), 1_448);
        assert_eq!(mss(9_000, IpVersion::V4, None), 8_948);
        assert_eq!(mss(1_500, IpVersion::V6, None), 1_428);
        assert_eq!(mss(1_500, IpVersion::V4, Some(536)), 524);
        assert_eq!(mss(1_500, IpVersion::V4, Some(9_000)), 1_448);
        assert_eq!(mss(88, IpVersion::V4, None), 36);
        assert_eq!(mss(68, IpVersion::V4, Some(20)), 36);
        assert_eq!(payload_bytes(1_500, IpVersion::V4, Transport::Udp), 1_472);
        assert_eq!(payload_bytes(20, IpVersion::V6, Transport::Tcp), 0);
    }

    #[test]
    fn datagrams() {
        let gigabit = BitRate(1_000_000_000);
        let whole = datagram_goodput_bps(gigabit, 1_472, 1_500, IpVersion::V4, 38);
        assert_eq!((whole / 1e6).round(), 957.0);
        assert_eq!(datagram_packets(8_000, 1_500, IpVersion::V4).count, 6);
        let cut = datagram_goodput_bps(gigabit, 8_000, 1_500, IpVersion::V4, 38);
        assert_eq!(cut, 1e9 * 8_000.0 / (8_008.0 + 6.0 * 58.0));
        // (1500 - 48) / 8 * 8 = 1448 bytes a fragment: 8 bytes beyond five fragments.
        let packets = datagram_packets(5 * 1_448, 1_500, IpVersion::V6);
        assert_eq!(packets, DatagramPackets { count: 6, full_bytes: 1_496, last_bytes: 56 });
        assert_eq!(packets.sizes().collect::<Vec<_>>(), [1_496, 1_496, 1_496, 1_496, 1_496, 56]);
        let cut = datagram_goodput_bps(gigabit, 5 * 1_448, 1_500, IpVersion::V6, 38);
        assert_eq!(cut, 1e9 * 7_240.0 / (7_248.0 + 6.0 * 86.0));
        assert_eq!(datagram_packets(1_452, 1_500, IpVersion::V6).count, 1);
    }

    #[test]
    fn without_payload_there_is_no_goodput() {
        assert_eq!(goodput_bps(BitRate(1_000), 0, 0, 0), 0.0);
    }
}
