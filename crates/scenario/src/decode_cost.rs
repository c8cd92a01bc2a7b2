//! Decodes the cost of packets at a host: `cost = "server-2003"`, or a table that may start from a
//! preset.

use units::{Picoseconds, Time};

use crate::{
    host_cost::{COST_PRESETS, HostCost, MAX_COST, MAX_MODERATION, MODERATION_FRAMES},
    read::{Keys, Reader},
    tree::Value,
};

pub(crate) const COST: Keys = Keys {
    what: "a cost",
    known: &[
        "preset",
        "per_packet",
        "per_frame",
        "per_byte",
        "per_interrupt",
        "rx_delay",
        "rx_frames",
        "tx_delay",
        "tx_frames",
        "bus",
        "rx_queue",
    ],
    nested: None,
};
/// Received packets that wait for the processor: from one to far more than rings hold.
const RX_QUEUE: std::ops::RangeInclusive<u64> = 1..=1_000_000;

/// Decodes a host's key `cost`; without it the host costs nothing.
pub(crate) fn decode_cost(host: &mut Reader) -> HostCost {
    let Some(node) = host.node("cost") else { return HostCost::default() };
    if let Value::Text(_) = node.value {
        return preset(host, "cost").unwrap_or_default();
    }
    if node.table().is_none() {
        let message = format!("\"cost\" is a table or a preset's name, not {}", node.kind());
        host.report("cost", message, format!("write for example cost = \"{}\"", COST_PRESETS[0].name));
        return HostCost::default();
    }
    let Some(mut reader) = Reader::new(node, &COST, host.problems()) else { return HostCost::default() };
    let reader = &mut reader;
    let mut cost = preset(reader, "preset").unwrap_or_default();
    set(&mut cost.per_packet, processor_time(reader, "per_packet"));
    set(&mut cost.per_frame, processor_time(reader, "per_frame"));
    set(&mut cost.per_byte, processor_time(reader, "per_byte"));
    set(&mut cost.per_interrupt, processor_time(reader, "per_interrupt"));
    set(&mut cost.rx.delay, delay(reader, "rx_delay"));
    set(&mut cost.tx.delay, delay(reader, "tx_delay"));
    let frames = |reader: &mut Reader, key| {
        reader.integer(key, MODERATION_FRAMES, " frames").map(|frames| Some(frames as u32))
    };
    set(&mut cost.rx.frames, frames(reader, "rx_frames"));
    set(&mut cost.tx.frames, frames(reader, "tx_frames"));
    set(&mut cost.bus, reader.rate("bus").map(Some));
    set(&mut cost.rx_queue, reader.integer("rx_queue", RX_QUEUE, " packets").map(|n| Some(n as u32)));
    cost
}

fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

fn preset(reader: &mut Reader, key: &str) -> Option<HostCost> {
    let words: Vec<_> = COST_PRESETS.iter().map(|preset| (preset.name, preset.cost)).collect();
    reader.choice(key, &words).map(|cost| cost())
}

fn processor_time(reader: &mut Reader, key: &str) -> Option<Picoseconds> {
    let time: Picoseconds = reader.quantity(key)?;
    if time > MAX_COST {
        reader.report(key, format!("\"{key}\" exceeds {MAX_COST}"), "write for example \"4us\"");
        return None;
    }
    Some(time)
}

fn delay(reader: &mut Reader, key: &str) -> Option<Time> {
    let delay = reader.time(key)?;
    if delay > MAX_MODERATION {
        reader.report(key, format!("\"{key}\" exceeds {MAX_MODERATION}"), "write for example \"64us\"");
        return None;
    }
    Some(delay)
}
