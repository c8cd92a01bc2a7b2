//! Advice about devices, processors and routes. If a device is named, `tune --apply` changes its transmit
//! queue, rings, offloads and interrupt coalescing; for everything else there are commands to run by hand.

use units::{BitRate, Bytes, Time};

use crate::{
    advice::{Goal, Recommendation, RecommendationStatus, Target},
    facts::{Device, HostFacts, Reading},
};

/// At or above this rate, packets of 1500 bytes use much of a processor core.
const JUMBO_MIN_RATE: BitRate = BitRate(10_000_000_000);
/// At or above this rate, a ring of a few hundred descriptors can overflow between two runs of the driver.
const LONG_RING_MIN_RATE: BitRate = BitRate(1_000_000_000);
/// Time from a packet to its interrupt: 20,000 interrupts a second, as ixgbe's default for bulk traffic.
const INTERRUPT_DELAY: Time = Time::from_micros(50);
/// With a shorter delay an interrupt reports only one or two packets at 1 Gb/s, where full-sized packets
/// follow every 12 us.
const MIN_INTERRUPT_DELAY: Time = Time::from_micros(20);
/// The round trip is at least this many delays long, so that the interrupt delay of a host adds little to it.
const MIN_DELAYS_PER_ROUND_TRIP: u64 = 20;
/// MTU of jumbo frames, bytes.
const JUMBO_MTU: u32 = 9000;
/// The kernel's default length of a transmit queue, packets.
const TX_QUEUE_PACKETS: u32 = 1000;
const FASTERDATA: &str = "fasterdata.es.net, NIC tuning";

/// The devices that a goal concerns: the named one, else all that are up.
pub(crate) fn devices_of_goal<'a>(host: &'a HostFacts, goal: &'a Goal) -> impl Iterator<Item = &'a Device> {
    host.devices.iter().filter(move |device| match &goal.device {
        Some(name) => device.name == *name,
        None => device.up,
    })
}

/// Adds recommendations about devices, processors and routes.
pub(crate) fn advise(host: &HostFacts, goal: &Goal, items: &mut Vec<Recommendation>) {
    for device in devices_of_goal(host, goal) {
        recommend_link(device, goal, items);
        recommend_rings(device, goal, host.page_bytes_or_default(), items);
        recommend_offloads(device, items);
        recommend_coalescing(device, goal, items);
        recommend_queues(device, goal, host.fq.known() == Some(&true), items);
        recommend_pause(device, items);
        recommend_interrupts(device, goal, items);
    }
    recommend_governor(host, goal, items);
    recommend_routes(host, goal, items);
}

fn recommend_link(device: &Device, goal: &Goal, items: &mut Vec<Recommendation>) {
    let name = || device.name.clone();
    if device.full_duplex.known() == Some(&false) && device.speed_mbps.known().is_some() {
        let reason = "half duplex collides under load; the usual cause is that only one side autonegotiates";
        let target = Target::Link { device: name() };
        items.push(item(
            target,
            Some("half duplex".into()),
            "full duplex",
            RecommendationStatus::ManualReview,
            reason,
            "IEEE 802.3 clause 28",
        ));
    }
    if let Some(speed) = device.speed()
        && speed < goal.rate
    {
        let reason = "the device is slower than the requested rate; no other setting can compensate for that";
        let target = Target::Link { device: name() };
        let advised = format!("{} or more", goal.rate);
        items.push(item(
            target,
            Some(speed.to_string()),
            &advised,
            RecommendationStatus::ManualReview,
            reason,
            "the driver",
        ));
    }
    if device.mtu < JUMBO_MTU && goal.rate >= JUMBO_MIN_RATE {
        let reason = "a sixth of the packets, so less work for the same rate; only if every host and switch \
                      of the path and of this network supports them";
        let target = Target::Mtu { device: name() };
        let now = Some(device.mtu.to_string());
        items.push(item(
            target,
            now,
            &JUMBO_MTU.to_string(),
            RecommendationStatus::ManualReview,
            reason,
            "fasterdata.es.net, MTU",
        ));
    }
}

fn recommend_rings(device: &Device, goal: &Goal, page_bytes: u64, items: &mut Vec<Recommendation>) {
    let Reading::Known(rings) = device.rings else { return };
    if goal.rate < LONG_RING_MIN_RATE {
        return;
    }
    for (ring, now, max) in [("rx", rings.rx, rings.rx_max), ("tx", rings.tx, rings.tx_max)] {
        if max == 0 {
            continue;
        }
        let status = if now < max { RecommendationStatus::Change } else { RecommendationStatus::Satisfied };
        let reason = "a short ring drops packets that arrive while its processor is busy";
        let target = Target::Ring { device: device.name.clone(), ring };
        let mut item = item(target, Some(now.to_string()), &max.to_string(), status, reason, FASTERDATA);
        // Each receive descriptor has a buffer of a page or half a page.
        item.memory_bytes = (ring == "rx").then_some(u64::from(max).saturating_mul(page_bytes));
        items.push(item);
    }
}

fn recommend_offloads(device: &Device, items: &mut Vec<Recommendation>) {
    let Reading::Known(offloads) = device.offloads else { return };
    // Checksums come first: without transmit checksums the kernel refuses TSO and GSO.
    let recommended = [
        ("rx", offloads.rx_checksum, "the processor verifies the checksum of each packet"),
        (
            "tx",
            offloads.tx_checksum,
            "the processor computes the checksum of each packet, and TSO and GSO are impossible",
        ),
        ("tso", offloads.tso, "the stack sends single segments"),
        ("gso", offloads.gso, "the stack sends single segments"),
        ("gro", offloads.gro, "the stack receives single segments, and acknowledges more of them"),
    ];
    for (feature, _, without) in recommended.into_iter().filter(|(_, on, _)| !on) {
        let reason = format!("without it {without}");
        let target = Target::Offload { device: device.name.clone(), feature };
        items.push(item(
            target,
            Some("off".into()),
            "on",
            RecommendationStatus::Change,
            &reason,
            "ethtool(8)",
        ));
    }
    if offloads.lro {
        let reason =
            "packets that the device merges cannot be forwarded or captured unchanged; gro avoids that";
        let target = Target::Offload { device: device.name.clone(), feature: "lro" };
        items.push(item(
            target,
            Some("on".into()),
            "off",
            RecommendationStatus::ManualReview,
            reason,
            FASTERDATA,
        ));
    }
}

/// Fewer interrupts cost less processor time. The delay also lengthens the round trip, so there
/// is no recommendation for short paths.
fn recommend_coalescing(device: &Device, goal: &Goal, items: &mut Vec<Recommendation>) {
    if goal.rate < LONG_RING_MIN_RATE || goal.rtt < INTERRUPT_DELAY * MIN_DELAYS_PER_ROUND_TRIP {
        return;
    }
    let target = |setting| Target::Coalescing { device: device.name.clone(), setting };
    let advised = INTERRUPT_DELAY.as_micros().to_string();
    let reason =
        "with an interrupt for every packet or two, interrupts use the processor time that packets need";
    let coalescing = match &device.coalescing {
        Reading::Known(coalescing) => coalescing,
        // Virtual devices have no coalescing, so only a device that was named is listed.
        Reading::Unknown { why } if goal.device.is_some() => {
            let status = RecommendationStatus::Unknown { why: why.clone() };
            items.push(item(target("rx-usecs"), None, &advised, status, reason, FASTERDATA));
            return;
        }
        Reading::Unknown { .. } => return,
    };
    let directions = [
        ("rx-usecs", coalescing.rx_us, coalescing.adaptive_rx),
        ("tx-usecs", coalescing.tx_us, coalescing.adaptive_tx || coalescing.adaptive_rx),
    ];
    for (setting, now_us, is_adaptive) in directions {
        let status = match Time::from_micros(now_us.into()) >= MIN_INTERRUPT_DELAY || is_adaptive {
            true => RecommendationStatus::Satisfied,
            false => RecommendationStatus::Change,
        };
        let advised =
            if status == RecommendationStatus::Satisfied { now_us.to_string() } else { advised.clone() };
        items.push(item(target(setting), Some(now_us.to_string()), &advised, status, reason, FASTERDATA));
    }
}

fn recommend_queues(device: &Device, goal: &Goal, has_fq: bool, items: &mut Vec<Recommendation>) {
    let name = || device.name.clone();
    let queue = device.qdisc.as_deref().unwrap_or_default();
    let uses_length = matches!(queue, "pfifo_fast" | "pfifo" | "bfifo" | "mq");
    if uses_length && device.tx_queue_len < TX_QUEUE_PACKETS && goal.rate >= LONG_RING_MIN_RATE {
        let reason = "a burst of segments overflows a short queue";
        let now = Some(device.tx_queue_len.to_string());
        let target = Target::TxQueue { device: name() };
        items.push(item(
            target,
            now,
            &TX_QUEUE_PACKETS.to_string(),
            RecommendationStatus::Change,
            reason,
            "ip-link(8)",
        ));
    }
    // Devices with several hardware queues have `mq`, with the default qdisc below each queue.
    if has_fq && is_default(queue) {
        let reason = "fq paces each connection; a new default affects only devices that come up later";
        let target = Target::Qdisc { device: name() };
        items.push(item(
            target,
            Some(queue.into()),
            "fq",
            RecommendationStatus::ManualReview,
            reason,
            "tc-fq(8)",
        ));
    }
}

/// Whether the kernel chose this queueing discipline by default.
fn is_default(queue: &str) -> bool {
    matches!(queue, "pfifo_fast" | "fq_codel")
}

fn recommend_pause(device: &Device, items: &mut Vec<Recommendation>) {
    let Reading::Known(pause) = device.pause else { return };
    if pause.rx {
        return;
    }
    let reason = "without flow control a switch with full buffers drops packets; ESnet recommends it between \
        host and first switch";
    let now = Some(format!("rx {} tx {}", on_off(pause.rx), on_off(pause.tx)));
    let target = Target::Pause { device: device.name.clone() };
    items.push(item(
        target,
        now,
        "rx on tx on",
        RecommendationStatus::ManualReview,
        reason,
        "fasterdata.es.net, flow control",
    ));
}

fn on_off(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}

fn recommend_interrupts(device: &Device, goal: &Goal, items: &mut Vec<Recommendation>) {
    let (Reading::Known(node), Reading::Known(lines)) = (&device.numa_node, &device.interrupts) else {
        return;
    };
    if goal.rate < JUMBO_MIN_RATE || lines.is_empty() {
        return;
    }
    let now =
        lines.iter().map(|line| format!("{}: {}", line.number, line.cpus)).collect::<Vec<_>>().join(", ");
    let reason = "interrupts and programs on another memory node fetch each packet across the interconnect";
    let target = Target::Interrupts { device: device.name.clone() };
    let advised = format!("processors of node {node}");
    items.push(item(
        target,
        Some(now),
        &advised,
        RecommendationStatus::ManualReview,
        reason,
        "fasterdata.es.net, interrupt binding",
    ));
}

fn recommend_governor(host: &HostFacts, goal: &Goal, items: &mut Vec<Recommendation>) {
    let Reading::Known(governors) = &host.governors else { return };
    if goal.rate < LONG_RING_MIN_RATE || governors.iter().all(|name| name == "performance") {
        return;
    }
    let reason =
        "a processor that lowers its frequency between bursts limits the rate that one core can handle";
    let now = Some(governors.join(", "));
    items.push(item(
        Target::Governor,
        now,
        "performance",
        RecommendationStatus::Change,
        reason,
        "fasterdata.es.net, CPU governor",
    ));
}

fn recommend_routes(host: &HostFacts, goal: &Goal, items: &mut Vec<Recommendation>) {
    let bdp = model::bdp(goal.rate, goal.rtt);
    let Reading::Known(routes) = &host.routes else { return };
    let goal_routes = routes.iter().filter(|route| goal.device.is_none() || route.device == goal.device);
    for route in goal_routes {
        let mut add = |metric: &str, reason: String| {
            let now = route.metrics.get(metric).map(u64::to_string);
            let target = Target::Route { to: route.to.clone(), metric: metric.into() };
            items.push(item(target, now, "none", RecommendationStatus::ManualReview, &reason, "ip-route(8)"));
        };
        if route.metrics.get("window").is_some_and(|window| Bytes(*window) < bdp) {
            add(
                "window",
                format!("limits the window of connections over this route, and the path holds {bdp}"),
            );
        }
        if route.metrics.contains_key("cwnd") && route.locked.iter().any(|name| name == "cwnd") {
            add("cwnd", "a locked congestion window limits all connections over this route".into());
        }
        if route.metrics.contains_key("ssthresh") {
            add("ssthresh", "connections over this route leave slow start at this window".into());
        }
    }
}

fn item(
    target: Target,
    now: Option<String>,
    advised: &str,
    status: RecommendationStatus,
    reason: &str,
    source: &'static str,
) -> Recommendation {
    Recommendation {
        target,
        now,
        advised: advised.into(),
        status,
        reason: reason.into(),
        memory_bytes: None,
        source,
    }
}
