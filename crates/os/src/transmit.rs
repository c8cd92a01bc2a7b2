//! The transmit counters of a device, and its queue, by rtnetlink.

use std::io;

use netlink_packet_route::{
    RouteNetlinkMessage,
    link::{LinkAttribute, LinkMessage},
    tc::{TcAttribute, TcHandle, TcMessage, TcStats2},
};

use crate::netlink::RouteSocket;

/// A device's transmit counters since it was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TxCounters {
    /// Packets sent; a GSO super-packet counts once.
    pub packets: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Packets dropped by the device or its root queueing discipline.
    pub dropped: u64,
}

/// The queue before a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransmitQueue {
    /// The device's name.
    pub device: String,
    /// Its root queueing discipline, as in `fq_codel`; `None` if the kernel does not report it.
    pub qdisc: Option<String>,
    /// Length of its transmit queue, packets (`txqueuelen`).
    pub packets: u32,
}

impl TxCounters {
    /// The counters of the device with an interface index, in this thread's network namespace; all 0 without
    /// such a device.
    ///
    /// # Errors
    /// If rtnetlink fails.
    pub fn read(index: u32) -> io::Result<Self> {
        let socket = RouteSocket::open()?;
        let mut counters = TxCounters::default();
        socket.dump(RouteNetlinkMessage::GetLink(LinkMessage::default()), |message| {
            let RouteNetlinkMessage::NewLink(link) = message else { return };
            for attribute in link.attributes.iter().filter(|_| link.header.index == index) {
                if let LinkAttribute::Stats64(stats) = attribute {
                    counters = TxCounters {
                        packets: stats.tx_packets,
                        bytes: stats.tx_bytes,
                        dropped: stats.tx_dropped,
                    };
                }
            }
        })?;
        socket.dump(RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default()), |message| {
            if let RouteNetlinkMessage::NewQueueDiscipline(qdisc) = message
                && u32::try_from(qdisc.header.index) == Ok(index)
                && qdisc.header.parent == TcHandle::ROOT
            {
                counters.dropped += qdisc_drops(&qdisc);
            }
        })?;
        Ok(counters)
    }

    /// The counts since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        TxCounters {
            packets: self.packets.saturating_sub(before.packets),
            bytes: self.bytes.saturating_sub(before.bytes),
            dropped: self.dropped.saturating_sub(before.dropped),
        }
    }

    /// Estimates the number of segments of `mss` bytes that were dropped: a dropped super-packet contains
    /// several.
    pub fn segments_dropped(self, mss: u64) -> u64 {
        let segments_per_packet = self.bytes as f64 / self.packets.max(1) as f64 / mss.max(1) as f64;
        (self.dropped as f64 * segments_per_packet.max(1.0)).round() as u64
    }
}

/// The sum of the counters of two devices.
impl std::ops::Add for TxCounters {
    type Output = TxCounters;

    fn add(self, other: TxCounters) -> TxCounters {
        TxCounters {
            packets: self.packets + other.packets,
            bytes: self.bytes + other.bytes,
            dropped: self.dropped + other.dropped,
        }
    }
}

impl TransmitQueue {
    /// The queue of the device with an interface index, in this thread's network namespace; `None` without
    /// such a device.
    ///
    /// # Errors
    /// If rtnetlink fails.
    pub fn read(index: u32) -> io::Result<Option<Self>> {
        let mut found = None;
        RouteSocket::open()?.dump(RouteNetlinkMessage::GetLink(LinkMessage::default()), |message| {
            if let RouteNetlinkMessage::NewLink(link) = message
                && link.header.index == index
            {
                found = Some(queue(&link));
            }
        })?;
        Ok(found)
    }
}

fn queue(link: &LinkMessage) -> TransmitQueue {
    let mut queue = TransmitQueue { device: String::new(), qdisc: None, packets: 0 };
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::IfName(name) => queue.device.clone_from(name),
            LinkAttribute::Qdisc(name) => queue.qdisc = Some(name.clone()),
            LinkAttribute::TxQueueLen(packets) => queue.packets = *packets,
            _ => {}
        }
    }
    queue
}

fn qdisc_drops(qdisc: &TcMessage) -> u64 {
    let all = qdisc.attributes.iter().find_map(|attribute| match attribute {
        TcAttribute::Stats2(all) => Some(all),
        _ => None,
    });
    let queues = all.into_iter().flatten().filter_map(|stats| match stats {
        TcStats2::Queue(queue) => Some(u64::from(queue.drops)),
        _ => None,
    });
    queues.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_super_packet_contains_several_segments() {
        let before = TxCounters { packets: 100, bytes: 150_000, dropped: 7 };
        let now = TxCounters { packets: 200, bytes: 150_000 + 100 * 14_480, dropped: 10 };
        assert_eq!(now.since(before), TxCounters { packets: 100, bytes: 1_448_000, dropped: 3 });
        assert_eq!(now.since(before).segments_dropped(1448), 30);
        assert_eq!(TxCounters { packets: 0, bytes: 0, dropped: 2 }.segments_dropped(1448), 2);
    }

    #[test]
    fn a_socket_to_the_loopback_device_adds_to_its_counters() {
        let index = 1;
        let before = TxCounters::read(index).unwrap();
        std::net::UdpSocket::bind("127.0.0.1:0").unwrap().send_to(&[0; 1000], "127.0.0.1:9").unwrap();
        let sent = TxCounters::read(index).unwrap().since(before);
        assert!(sent.packets >= 1 && sent.bytes >= 1000, "{sent:?}");
        assert_eq!(TransmitQueue::read(index).unwrap().unwrap().device, "lo");
        assert_eq!(TransmitQueue::read(u32::MAX >> 1).unwrap(), None);
    }
}
