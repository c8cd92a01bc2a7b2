//! Decodes a host's network interface card: the table `nic`, or its keys directly in the host.

use units::Bytes;

use crate::{
    read::{Keys, Reader},
    tree::Node,
    types::Nic,
};

pub(crate) const NIC: Keys = Keys {
    what: "a nic",
    known: &["tx_queue", "tso", "gso", "gso_segs", "segmentation", "gro"],
    nested: None,
};
/// Largest super-packet that fits an IP packet's length field; longer ones (BIG TCP) do not cross a TAP
/// device.
const MAX_GSO: Bytes = Bytes(65535);
/// Devices accept far more; the limit catches typing errors.
const TX_QUEUE: std::ops::RangeInclusive<u64> = 1..=1_000_000;
/// `GSO_MAX_SEGS` of the kernel (linux/netdevice.h).
const GSO_SEGS: std::ops::RangeInclusive<u64> = 1..=65535;
/// The upper end exceeds the segments of the largest super-packet at the smallest MTU.
const GRO: std::ops::RangeInclusive<u64> = 1..=1000;

/// Decodes the card of a host with this MTU. Keys in `nic` override keys in the host.
pub(crate) fn decode_nic(host: &mut Reader, mtu: u32) -> Nic {
    let in_host = read_nic(host, mtu);
    let Some(node) = host.node("nic") else { return in_host };
    let Some(mut reader) = Reader::new(node, &NIC, host.problems()) else { return in_host };
    let in_nic = read_nic(&mut reader, mtu);
    Nic {
        tx_queue: in_nic.tx_queue.or(in_host.tx_queue),
        gso: in_nic.gso.or(in_host.gso),
        gso_segs: in_nic.gso_segs.or(in_host.gso_segs),
        software_gso: in_nic.software_gso || in_host.software_gso,
        gro: in_nic.gro.or(in_host.gro),
    }
}

fn read_nic(reader: &mut Reader, mtu: u32) -> Nic {
    let one_packet = Bytes(mtu.into());
    let tso = reader.boolean("tso");
    let gso = reader.size("gso");
    if let Some(gso) = gso {
        if !(one_packet..=MAX_GSO).contains(&gso) {
            let help = format!("write a size from {mtu}B (one packet) to {}B", MAX_GSO.0);
            reader.report("gso", format!("\"gso\" cannot be {gso}"), help);
        }
        if tso == Some(false) && gso > one_packet {
            reader.report("tso", "super-packets (\"gso\") need tso", "remove \"tso\" or \"gso\"");
        }
    }
    let gso_segs = reader.integer("gso_segs", GSO_SEGS, " segments").map(|n| n as u32);
    if tso == Some(false) && gso_segs.is_some_and(|segments| segments > 1) {
        reader.report("tso", "super-packets (\"gso_segs\") need tso", "remove \"tso\" or \"gso_segs\"");
    }
    Nic {
        tx_queue: tx_queue(reader),
        gso: if tso == Some(false) { Some(one_packet) } else { gso },
        gso_segs,
        software_gso: is_segmented_in_software(reader),
        gro: reader.integer("gro", GRO, " segments").map(|n| n as u32),
    }
}

/// Decodes where super-packets are segmented: by the `"device"` (the default), or in `"software"`.
fn is_segmented_in_software(reader: &mut Reader) -> bool {
    let Some(text) = reader.text("segmentation") else { return false };
    if text != "software" && text != "device" {
        let message = format!("\"segmentation\" cannot be {text:?}");
        reader.report("segmentation", message, "write \"software\" or \"device\"");
    }
    text == "software"
}

/// Decodes `100` or `"100p"`.
fn tx_queue(reader: &mut Reader) -> Option<u32> {
    let Some(text) = reader.node("tx_queue").and_then(Node::text) else {
        return reader.integer("tx_queue", TX_QUEUE, " packets").map(|n| n as u32);
    };
    let number = text.trim().strip_suffix('p').and_then(|n| n.trim_end().parse().ok());
    match number.filter(|n: &u64| TX_QUEUE.contains(n)) {
        Some(number) => Some(number as u32),
        None => {
            let message = format!("\"tx_queue\" cannot be \"{text}\"");
            reader.report("tx_queue", message, "write a number of packets: 100 or \"100p\"");
            None
        }
    }
}
