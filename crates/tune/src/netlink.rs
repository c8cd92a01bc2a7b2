//! Devices and routes of this thread's network namespace, read by rtnetlink.

use std::{collections::BTreeMap, io, net::IpAddr};

use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    address::{AddressAttribute, AddressMessage},
    link::{LinkAttribute, LinkFlags, LinkMessage},
    route::{RouteAddress, RouteAttribute, RouteMessage, RouteMetric},
};
use os::netlink::RouteSocket;

use crate::facts::{Device, Route};

/// Names of metrics by their number (linux/rtnetlink.h, RTAX_*), for the bits of RTAX_LOCK.
const METRICS: [(u32, &str); 12] = [
    (2, "mtu"),
    (3, "window"),
    (4, "rtt"),
    (5, "rttvar"),
    (6, "ssthresh"),
    (7, "cwnd"),
    (8, "advmss"),
    (9, "reordering"),
    (11, "initcwnd"),
    (13, "rto_min"),
    (14, "initrwnd"),
    (15, "quickack"),
];

/// All devices without the loopback device, with the facts that rtnetlink provides.
pub(crate) fn devices() -> io::Result<Vec<Device>> {
    let mut found = Vec::new();
    dump(RouteNetlinkMessage::GetLink(LinkMessage::default()), |message| {
        if let RouteNetlinkMessage::NewLink(link) = message
            && !link.header.flags.contains(LinkFlags::Loopback)
        {
            found.push(device(&link));
        }
    })?;
    Ok(found)
}

fn device(link: &LinkMessage) -> Device {
    let mut device = Device {
        index: link.header.index,
        up: link.header.flags.contains(LinkFlags::Up),
        ..Device::default()
    };
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::IfName(name) => device.name = name.clone(),
            LinkAttribute::Mtu(mtu) => device.mtu = *mtu,
            LinkAttribute::TxQueueLen(packets) => device.tx_queue_len = *packets,
            LinkAttribute::Qdisc(name) => device.qdisc = Some(name.clone()),
            _ => {}
        }
    }
    device
}

/// Interface index of the device that has an address.
pub(crate) fn device_with_address(address: IpAddr) -> io::Result<Option<u32>> {
    let mut found = None;
    dump(RouteNetlinkMessage::GetAddress(AddressMessage::default()), |message| {
        if let RouteNetlinkMessage::NewAddress(message) = message
            && message.attributes.iter().any(|attribute| match attribute {
                AddressAttribute::Address(own) | AddressAttribute::Local(own) => *own == address,
                _ => false,
            })
        {
            found = Some(message.header.index);
        }
    })?;
    Ok(found)
}

/// Interface index of the device through which packets to `to` leave; an error of the kernel without a route.
/// The source address that the route selects can be that of another device.
pub(crate) fn device_towards(to: IpAddr) -> io::Result<Option<u32>> {
    let (family, prefix_length, destination) = match to {
        IpAddr::V4(to) => (AddressFamily::Inet, 32, RouteAddress::Inet(to)),
        IpAddr::V6(to) => (AddressFamily::Inet6, 128, RouteAddress::Inet6(to)),
    };
    let mut request = RouteMessage::default();
    request.header.address_family = family;
    request.header.destination_prefix_length = prefix_length;
    request.attributes = vec![RouteAttribute::Destination(destination)];
    let reply = RouteSocket::open()?.get(RouteNetlinkMessage::GetRoute(request))?;
    let Some(RouteNetlinkMessage::NewRoute(route)) = reply else { return Ok(None) };
    Ok(route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Oif(index) => Some(*index),
        _ => None,
    }))
}

/// IPv4 and IPv6 routes that have metrics. `names` maps interface indices to names.
pub(crate) fn routes(names: &BTreeMap<u32, String>) -> io::Result<Vec<Route>> {
    let mut found = Vec::new();
    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        let mut request = RouteMessage::default();
        request.header.address_family = family;
        dump(RouteNetlinkMessage::GetRoute(request), |message| {
            if let RouteNetlinkMessage::NewRoute(message) = message {
                found.extend(route_with_metrics(&message, family, names));
            }
        })?;
    }
    Ok(found)
}

/// The route of a message, if it has metrics and is of this family. A kernel without IPv6 replies to a
/// request for its routes with those of all families (rtnetlink_rcv_msg).
fn route_with_metrics(
    message: &RouteMessage,
    family: AddressFamily,
    names: &BTreeMap<u32, String>,
) -> Option<Route> {
    let route = route(message, names);
    (message.header.address_family == family && !route.metrics.is_empty()).then_some(route)
}

fn route(message: &RouteMessage, names: &BTreeMap<u32, String>) -> Route {
    let mut route = Route { to: "default".into(), ..Route::default() };
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(RouteAddress::Inet(to)) => {
                route.to = format!("{to}/{}", message.header.destination_prefix_length);
            }
            RouteAttribute::Destination(RouteAddress::Inet6(to)) => {
                route.to = format!("{to}/{}", message.header.destination_prefix_length);
            }
            RouteAttribute::Oif(index) => route.device = names.get(index).cloned(),
            RouteAttribute::Metrics(metrics) => {
                metrics.iter().for_each(|metric| add_metric(metric, &mut route))
            }
            _ => {}
        }
    }
    route
}

fn add_metric(metric: &RouteMetric, route: &mut Route) {
    let (name, value) = match metric {
        RouteMetric::Lock(bits) => {
            let locked = METRICS.iter().filter(|(number, _)| bits & (1 << number) != 0);
            route.locked = locked.map(|(_, name)| name.to_string()).collect();
            return;
        }
        RouteMetric::Mtu(value) => ("mtu", value),
        RouteMetric::Window(value) => ("window", value),
        RouteMetric::Rtt(value) => ("rtt", value),
        RouteMetric::RttVar(value) => ("rttvar", value),
        RouteMetric::SsThresh(value) => ("ssthresh", value),
        RouteMetric::Cwnd(value) => ("cwnd", value),
        RouteMetric::Advmss(value) => ("advmss", value),
        RouteMetric::Reordering(value) => ("reordering", value),
        RouteMetric::InitCwnd(value) => ("initcwnd", value),
        RouteMetric::RtoMin(value) => ("rto_min", value),
        RouteMetric::InitRwnd(value) => ("initrwnd", value),
        RouteMetric::QuickAck(value) => ("quickack", value),
        _ => return,
    };
    route.metrics.insert(name.into(), u64::from(*value));
}

/// Sends a dump request, and calls `handle` with each message of the reply.
fn dump(request: RouteNetlinkMessage, handle: impl FnMut(RouteNetlinkMessage)) -> io::Result<()> {
    RouteSocket::open()?.dump(request, handle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_of_another_family_than_requested_are_not_counted_twice() {
        let mut message = RouteMessage::default();
        message.header.address_family = AddressFamily::Inet;
        message.attributes = vec![RouteAttribute::Metrics(vec![RouteMetric::InitCwnd(20)])];
        let found = |family| route_with_metrics(&message, family, &BTreeMap::new());
        assert_eq!(found(AddressFamily::Inet).unwrap().metrics["initcwnd"], 20);
        assert_eq!(found(AddressFamily::Inet6), None);
    }
}
