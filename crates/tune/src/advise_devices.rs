//! Advice about devices, processors and routes. Of a device that is named `tune --apply` changes transmit queue, rings and offloads; for all
//! else the commands are told.

use units::{BitRate, Bytes};

use crate::{
    advice::{Goal, Item, State, Target},
    facts::{Device, HostFacts, Reading},
};

/// From this rate on packets of 1500 bytes cost a processor's core much of its time.
const FAST: BitRate = BitRate(10_000_000_000);
/// From this rate on a ring of a few hundred descriptors is emptied too seldom.
const RINGS: BitRate = BitRate(1_000_000_000);
const JUMBO: u32 = 9000;
const TX_QUEUE: u32 = 1000;
const FASTERDATA: &str = "fasterdata.es.net, NIC tuning";

/// The devices that a goal is about.
pub(crate) fn concerned<'a>(host: &'a HostFacts, goal: &'a Goal) -> impl Iterator<Item = &'a Device> {
    host.devices.iter().filter(move |device| match &goal.device {
        Some(name) => device.name == *name,
        None => device.up,
    })
}

/// Adds what should be changed about devices, processors and routes.
pub(crate) fn advise(host: &HostFacts, goal: &Goal, items: &mut Vec<Item>) {
    for device in concerned(host, goal) {
        link(device, goal, items);
        rings(device, goal, items);
        offloads(device, items);
        queues(device, goal, host.fq.known() == Some(&true), items);
        pause(device, items);
        interrupts(device, goal, items);
    }
    governor(host, goal, items);
    routes(host, goal, items);
}

fn link(device: &Device, goal: &Goal, items: &mut Vec<Item>) {
    let name = || device.name.clone();
    if device.full_duplex.known() == Some(&false) && device.speed_mbps.known().is_some() {
        let reason =
            "half duplex collides under load; most often one side negotiates and the other was set by hand";
        let target = Target::Link { device: name() };
        items.push(item(
            target,
            Some("half duplex".into()),
            "full duplex",
            State::Look,
            reason,
            "IEEE 802.3 clause 28",
        ));
    }
    if let Some(speed) = device.speed_mbps.known().map(|mbps| BitRate(mbps.saturating_mul(1_000_000)))
        && speed < goal.rate
    {
        let reason = "the device is slower than the rate asked for: nothing on this host makes up for that";
        let target = Target::Link { device: name() };
        let advised = format!("{} or more", goal.rate);
        items.push(item(target, Some(speed.to_string()), &advised, State::Look, reason, "the driver"));
    }
    if device.mtu < JUMBO && goal.rate >= FAST {
        let reason = "a sixth of the packets, so less work for the same rate; only if every host and switch of the path and \
                      of this network takes them";
        let target = Target::Mtu { device: name() };
        let now = Some(device.mtu.to_string());
        items.push(item(target, now, &JUMBO.to_string(), State::Look, reason, "fasterdata.es.net, MTU"));
    }
}

fn rings(device: &Device, goal: &Goal, items: &mut Vec<Item>) {
    let Reading::Known(rings) = device.rings else { return };
    if goal.rate < RINGS {
        return;
    }
    for (ring, now, most) in [("rx", rings.rx, rings.rx_max), ("tx", rings.tx, rings.tx_max)] {
        if most == 0 {
            continue;
        }
        let state = if now < most { State::Change } else { State::Fine };
        let reason = "a short ring drops what comes while its processor is busy elsewhere";
        let target = Target::Ring { device: device.name.clone(), ring };
        let mut item = item(target, Some(now.to_string()), &most.to_string(), state, reason, FASTERDATA);
        // A received packet's room is a page or half of one.
        item.memory_bytes = (ring == "rx").then_some(u64::from(most) * 4096);
        items.push(item);
    }
}

fn offloads(device: &Device, items: &mut Vec<Item>) {
    let Reading::Known(offloads) = device.offloads else { return };
    // Checksums first: without the sender's the kernel refuses super-packets.
    let wanted = [
        ("rx", offloads.rx_checksum, "the processor sums up each packet"),
        ("tx", offloads.tx_checksum, "the processor sums up each packet, and super-packets are impossible"),
        ("tso", offloads.tso, "one segment at a time goes down the stack"),
        ("gso", offloads.gso, "one segment at a time goes down the stack"),
        ("gro", offloads.gro, "one segment at a time comes up the stack, and each is acknowledged"),
    ];
    for (feature, _, without) in wanted.into_iter().filter(|(_, on, _)| !on) {
        let reason = format!("without it {without}");
        let target = Target::Offload { device: device.name.clone(), feature };
        items.push(item(target, Some("off".into()), "on", State::Change, &reason, "ethtool(8)"));
    }
    if offloads.lro {
        let reason = "packets joined by the device cannot be forwarded or captured as they were; gro does it without that";
        let target = Target::Offload { device: device.name.clone(), feature: "lro" };
        items.push(item(target, Some("on".into()), "off", State::Look, reason, FASTERDATA));
    }
}

fn queues(device: &Device, goal: &Goal, has_fq: bool, items: &mut Vec<Item>) {
    let name = || device.name.clone();
    let queue = device.qdisc.as_deref().unwrap_or_default();
    let uses_length = matches!(queue, "pfifo_fast" | "pfifo" | "bfifo" | "mq");
    if uses_length && device.tx_queue_len < TX_QUEUE && goal.rate >= RINGS {
        let reason = "a burst of segments overflows it";
        let now = Some(device.tx_queue_len.to_string());
        let target = Target::TxQueue { device: name() };
        items.push(item(target, now, &TX_QUEUE.to_string(), State::Change, reason, "ip-link(8)"));
    }
    // With several hardware queues `mq` has an fq below each, if that is the default.
    if has_fq && is_default(queue) {
        let reason = "fq paces each connection; the default takes effect for devices that come up later only";
        let target = Target::Qdisc { device: name() };
        items.push(item(target, Some(queue.into()), "fq", State::Look, reason, "tc-fq(8)"));
    }
}

/// Those that the kernel gives where nobody says.
fn is_default(queue: &str) -> bool {
    matches!(queue, "pfifo_fast" | "fq_codel")
}

fn pause(device: &Device, items: &mut Vec<Item>) {
    let Reading::Known(pause) = device.pause else { return };
    if pause.rx {
        return;
    }
    let reason = "a switch that is full cannot say so and drops instead; ESnet advises flow control between host and first switch";
    let now = Some(format!("rx {} tx {}", on(pause.rx), on(pause.tx)));
    let target = Target::Pause { device: device.name.clone() };
    items.push(item(target, now, "rx on tx on", State::Look, reason, "fasterdata.es.net, flow control"));
}

fn on(yes: bool) -> &'static str {
    if yes { "on" } else { "off" }
}

fn interrupts(device: &Device, goal: &Goal, items: &mut Vec<Item>) {
    let (Reading::Known(node), Reading::Known(lines)) = (&device.numa_node, &device.interrupts) else {
        return;
    };
    if goal.rate < FAST || lines.is_empty() {
        return;
    }
    let now =
        lines.iter().map(|line| format!("{}: {}", line.number, line.cpus)).collect::<Vec<_>>().join(", ");
    let reason = "interrupts and programs on another node fetch each packet across it";
    let target = Target::Interrupts { device: device.name.clone() };
    let advised = format!("processors of node {node}");
    items.push(item(
        target,
        Some(now),
        &advised,
        State::Look,
        reason,
        "fasterdata.es.net, interrupt binding",
    ));
}

fn governor(host: &HostFacts, goal: &Goal, items: &mut Vec<Item>) {
    let Reading::Known(governors) = &host.governors else { return };
    if goal.rate < RINGS || governors.iter().all(|name| name == "performance") {
        return;
    }
    let reason = "a processor that slows down between bursts makes one core's share of the work its limit";
    let now = Some(governors.join(", "));
    items.push(item(
        Target::Governor,
        now,
        "performance",
        State::Change,
        reason,
        "fasterdata.es.net, CPU governor",
    ));
}

fn routes(host: &HostFacts, goal: &Goal, items: &mut Vec<Item>) {
    let bdp = model::bdp(goal.rate, goal.rtt);
    let Reading::Known(routes) = &host.routes else { return };
    let concerned = routes.iter().filter(|route| goal.device.is_none() || route.device == goal.device);
    for route in concerned {
        let mut look = |metric: &str, reason: String| {
            let now = route.metrics.get(metric).map(u64::to_string);
            let target = Target::Route { to: route.to.clone(), metric: metric.into() };
            items.push(item(target, now, "none", State::Look, &reason, "ip-route(8)"));
        };
        if route.metrics.get("window").is_some_and(|window| Bytes(*window) < bdp) {
            look(
                "window",
                format!("connections of this route offer no larger window, and the path holds {bdp}"),
            );
        }
        if route.metrics.contains_key("cwnd") && route.locked.iter().any(|name| name == "cwnd") {
            look("cwnd", "a locked congestion window never grows above it".into());
        }
        if route.metrics.contains_key("ssthresh") {
            look("ssthresh", "connections of this route leave slow start there".into());
        }
    }
}

fn item(
    target: Target,
    now: Option<String>,
    advised: &str,
    state: State,
    reason: &str,
    source: &'static str,
) -> Item {
    Item { target, now, advised: advised.into(), state, reason: reason.into(), memory_bytes: None, source }
}
