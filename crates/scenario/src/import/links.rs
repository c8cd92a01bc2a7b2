//! Links of a MiniEdit file.

use super::{
    json::{ImportError, JsonNode},
    nodes::MnNode,
};

/// Mininet ignores bandwidths above this, in Mbit/s (`TCIntf.bwParamMax`).
const MAX_MININET_BANDWIDTH_MBPS: f64 = 1000.0;
/// Largest rate of a scenario, in Mbit/s.
const MAX_BANDWIDTH_MBPS: f64 = 1e6;
/// Longest accepted delay of a link: an hour, in microseconds.
const MAX_DELAY_US: f64 = 3.6e9;

/// A link. `None` means no limit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MnLink {
    pub name: Option<String>,
    /// The new names of its ends.
    pub ends: [String; 2],
    pub rate_bps: Option<u64>,
    pub delay_ns: Option<u64>,
    pub jitter_ns: Option<u64>,
    pub loss_percent: Option<f64>,
    pub queue_packets: Option<u64>,
}

/// Reads the links; their ends must be in `nodes`.
pub fn read_links(
    root: &JsonNode,
    nodes: &[MnNode],
    notes: &mut Vec<String>,
) -> Result<Vec<MnLink>, ImportError> {
    let mut links: Vec<MnLink> = Vec::new();
    for at in root.required("links")?.list()? {
        let ends = [end(&at, "src", nodes)?, end(&at, "dest", nodes)?];
        if ends[0] == ends[1] {
            return Err(at.error(format!("the link joins {} with itself", ends[0])));
        }
        let mut link = MnLink { ends, ..MnLink::default() };
        let same = links.iter().filter(|l| l.ends == link.ends).count();
        if same > 0 {
            link.name = Some(format!("{}-{}-{}", link.ends[0], link.ends[1], same + 1));
        }
        if let Some(opts) = at.field("opts")? {
            read_options(&opts, &mut link, notes)?;
        }
        links.push(link);
    }
    Ok(links)
}

fn end(at: &JsonNode, key: &str, nodes: &[MnNode]) -> Result<String, ImportError> {
    let end = at.required(key)?;
    let old_name = end.text()?;
    let node = nodes.iter().find(|n| n.old_name == old_name);
    let node = node.ok_or_else(|| end.error(format!("no host or switch is called \"{old_name}\"")))?;
    Ok(node.name.clone())
}

fn read_options(opts: &JsonNode, link: &mut MnLink, notes: &mut Vec<String>) -> Result<(), ImportError> {
    let name = link.name.clone().unwrap_or_else(|| link.ends.join("-"));
    if let Some(bw) = opts.some_number("bw")? {
        if !(0.0..=MAX_BANDWIDTH_MBPS).contains(&bw) {
            return Err(
                opts.error(format!("a bandwidth of {bw} Mbit/s is not between 0 and {MAX_BANDWIDTH_MBPS}"))
            );
        }
        let rate = libm::round(bw * 1e6) as u64;
        link.rate_bps = Some(rate).filter(|rate| *rate > 0);
        let note = "bandwidths above 1000 Mbit/s are applied here; Mininet ignores them";
        if bw > MAX_MININET_BANDWIDTH_MBPS && !notes.iter().any(|n| n == note) {
            notes.push(note.to_owned());
        }
    }
    link.delay_ns = time(opts, "delay")?;
    link.jitter_ns = time(opts, "jitter")?;
    if link.jitter_ns.is_some() && link.delay_ns.is_none() {
        link.jitter_ns = None;
        notes.push(format!("{name}: jitter without a delay is not imported; Mininet ignores it"));
    }
    if let Some(loss) = opts.some_number("loss")? {
        if !(0.0..=100.0).contains(&loss) {
            return Err(opts.error(format!("a loss of {loss} % is not between 0 and 100")));
        }
        link.loss_percent = Some(loss).filter(|loss| *loss > 0.0);
    }
    if let Some(queue) = opts.some_number("max_queue_size")? {
        if !(0.0..=1e9).contains(&queue) {
            return Err(opts.error(format!("a queue of {queue} packets is not between 0 and 1000000000")));
        }
        link.queue_packets = Some(queue as u64).filter(|packets| *packets > 0);
        if link.queue_packets.is_some() && link.rate_bps.is_none() {
            link.queue_packets = None;
            notes.push(format!("{name}: a queue without a bandwidth is not imported; it would never fill"));
        }
    }
    if opts.some_number("speedup")?.is_some_and(|speedup| speedup > 0.0) {
        notes.push(format!("{name}: speedup is not imported"));
    }
    Ok(())
}

/// Parses a time as tc does: `5ms`, or a bare number of microseconds. Zero means none.
fn time(opts: &JsonNode, key: &str) -> Result<Option<u64>, ImportError> {
    let Some(at) = opts.field(key)? else { return Ok(None) };
    let text = at.scalar()?;
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    if text.is_empty() {
        return Ok(None);
    }
    let us_per_unit = match unit.to_ascii_lowercase().as_str() {
        "" | "us" | "usec" | "usecs" => 1.0,
        "ms" | "msec" | "msecs" => 1e3,
        "s" | "sec" | "secs" => 1e6,
        "ns" | "nsec" | "nsecs" => 1e-3,
        _ => return Err(at.error(format!("{text:?} is not a time; write for example \"5ms\""))),
    };
    let us = number.trim().parse::<f64>().map(|n| n * us_per_unit);
    let us = us.ok().filter(|us| (0.0..=MAX_DELAY_US).contains(us));
    let us = us.ok_or_else(|| at.error(format!("{text:?} is not a time up to an hour, such as \"5ms\"")))?;
    Ok(Some(libm::round(us * 1e3) as u64).filter(|ns| *ns > 0))
}

/// Removes nodes without links, which are not part of the network.
pub fn remove_unlinked(nodes: &mut Vec<MnNode>, links: &[MnLink], notes: &mut Vec<String>) {
    nodes.retain(|node| {
        let is_linked = links.iter().any(|link| link.ends.contains(&node.name));
        if !is_linked {
            notes.push(format!("{} has no link and is not imported", node.name));
        }
        is_linked
    });
}
