//! Decodes a host's network interface card: the table `nic`, or its keys directly in the host.

use units::Bytes;

use crate::{
    read::{Keys, Reader},
    tree::{Node, Span},
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

/// The keys of a card, and where `tso` is written.
#[derive(Default)]
struct NicKeys {
    tx_queue: Option<u32>,
    tso: Option<(bool, Span)>,
    gso: Option<Bytes>,
    gso_segs: Option<u32>,
    software_gso: Option<bool>,
    gro: Option<u32>,
}

/// Decodes the card of a host with this MTU. Keys in `nic` override keys in the host.
pub(crate) fn decode_nic(host: &mut Reader, mtu: u32) -> Nic {
    let in_host = read_nic(host, mtu);
    let node = host.node("nic");
    let in_nic = node.and_then(|node| Some(read_nic(&mut Reader::new(node, &NIC, host.problems())?, mtu)));
    let in_nic = in_nic.unwrap_or_default();
    let gso = in_nic.gso.or(in_host.gso);
    let gso_segs = in_nic.gso_segs.or(in_host.gso_segs);
    let one_packet = Bytes(mtu.into());
    let without_tso = in_nic.tso.or(in_host.tso).filter(|(tso, _)| !tso);
    if let Some((_, span)) = without_tso {
        let sizes =
            [("gso", gso.is_some_and(|gso| gso > one_packet)), ("gso_segs", gso_segs.is_some_and(|n| n > 1))];
        for (key, _) in sizes.into_iter().filter(|(_, merges)| *merges) {
            let message = format!("super-packets (\"{key}\") need tso");
            host.problems().add_help(span, message, format!("remove \"tso\" or \"{key}\""));
        }
    }
    Nic {
        tx_queue: in_nic.tx_queue.or(in_host.tx_queue),
        gso: if without_tso.is_some() { Some(one_packet) } else { gso },
        gso_segs,
        software_gso: in_nic.software_gso.or(in_host.software_gso).unwrap_or(false),
        gro: in_nic.gro.or(in_host.gro),
    }
}

fn read_nic(reader: &mut Reader, mtu: u32) -> NicKeys {
    let tso = reader.boolean("tso");
    let gso = reader.size("gso");
    if let Some(gso) = gso.filter(|gso| !(Bytes(mtu.into())..=MAX_GSO).contains(gso)) {
        let help = format!("write a size from {mtu}B (one packet) to {}B", MAX_GSO.0);
        reader.report("gso", format!("\"gso\" cannot be {gso}"), help);
    }
    NicKeys {
        tx_queue: tx_queue(reader),
        tso: tso.zip(reader.node("tso").map(|node| node.span)),
        gso,
        gso_segs: reader.integer("gso_segs", GSO_SEGS, " segments").map(|n| n as u32),
        software_gso: is_segmented_in_software(reader),
        gro: reader.integer("gro", GRO, " segments").map(|n| n as u32),
    }
}

/// Decodes where super-packets are segmented: by the `"device"` (the default), or in `"software"`.
fn is_segmented_in_software(reader: &mut Reader) -> Option<bool> {
    let text = reader.text("segmentation")?;
    if text != "software" && text != "device" {
        let message = format!("\"segmentation\" cannot be {text:?}");
        reader.report("segmentation", message, "write \"software\" or \"device\"");
    }
    Some(text == "software")
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ScenarioFile;

    /// The card of a host with these keys, or the messages.
    fn nic(keys: &str) -> Result<Nic, String> {
        let text = format!(
            "[hosts.h1]\naddress = \"10.0.0.1/24\"\n{keys}\n[hosts.h2]\naddress = \"10.0.0.2/24\"\n\
             [[links]]\nends = [\"h1\", \"h2\"]\n"
        );
        let file = ScenarioFile::parse("f.toml", &text).map_err(|error| error.to_string())?;
        let scenario = file.resolve(None, &[]).map_err(|error| error.to_string())?;
        Ok(scenario.hosts[0].nic.clone())
    }

    #[test]
    fn each_key_of_the_card_overrides_that_of_the_host() {
        let in_host = "tx_queue = 10\ntso = false\ngso_segs = 1\nsegmentation = \"software\"\ngro = 2\n";
        let packet = Some(Bytes(1500));
        let host_only =
            Nic { tx_queue: Some(10), gso: packet, gso_segs: Some(1), software_gso: true, gro: Some(2) };
        assert_eq!(nic(in_host), Ok(host_only.clone()));
        for (key, expected) in [
            ("tx_queue = 20", Nic { tx_queue: Some(20), ..host_only.clone() }),
            ("tso = true", Nic { gso: None, ..host_only.clone() }),
            ("tso = true, gso = \"16kB\"", Nic { gso: Some(Bytes(16_000)), ..host_only.clone() }),
            ("tso = true, gso_segs = 4", Nic { gso: None, gso_segs: Some(4), ..host_only.clone() }),
            ("segmentation = \"device\"", Nic { software_gso: false, ..host_only.clone() }),
            ("gro = 8", Nic { gro: Some(8), ..host_only.clone() }),
        ] {
            assert_eq!(nic(&format!("{in_host}nic = {{ {key} }}\n")), Ok(expected), "{key}");
        }
        assert_eq!(nic("tso = true\nnic = { tso = false }\n").map(|nic| nic.gso), Ok(packet));
    }

    #[test]
    fn a_card_with_super_packets_needs_tso_wherever_it_is_written() {
        for keys in ["tso = false\nnic = { gso = \"16kB\" }", "gso = \"16kB\"\nnic = { tso = false }"] {
            assert!(nic(keys).unwrap_err().contains("need tso"), "{keys}");
        }
    }
}
