//! Which end starts each flow of a scenario, and with which request.

use std::collections::BTreeMap;

use engine_common::echo_timeout;
use iperf3::reverse::LISTEN;
use scenario::{Address, Cc, FlowKind, FlowSpec, HostLocation, Scenario};

use crate::{
    Error,
    host_locations::HostLocations,
    message::{FlowRequest, Traffic},
    server_session::ServerSession,
};

/// A server: longfat's with a session, or iperf3's.
pub(crate) enum Server<'a> {
    Longfat(Box<ServerSession<'a>>),
    Iperf3,
}

/// The program that starts a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Starter {
    /// This program.
    Here,
    /// The server at this host.
    Host(String),
}

/// A flow that can be started.
#[derive(Debug)]
pub(crate) struct PlannedFlow {
    pub starter: Starter,
    pub request: FlowRequest,
}

/// Checks a scenario and the locations of its hosts, which are in addition to those that the scenario states.
///
/// # Errors
/// If a host has no location, or a flow cannot be run.
pub fn check(scenario: &Scenario, locations: &HostLocations) -> Result<(), Error> {
    let locations = &locations.or_of(scenario);
    let bad = |text: String| Err(Error::BadInput(text));
    if let Some(unknown) = locations.hosts().find(|name| scenario.host(name).is_none()) {
        let names: Vec<&str> = scenario.hosts.iter().map(|host| host.name.as_str()).collect();
        return bad(format!("the scenario has no host \"{unknown}\"; its hosts are {}", names.join(", ")));
    }
    let ends = || scenario.flows.iter().flat_map(|flow| [&flow.from, &flow.to]);
    let mut on_this_host: Vec<&String> =
        ends().filter(|host| *locations.of(host) == HostLocation::Here).collect();
    on_this_host.sort_unstable();
    on_this_host.dedup();
    if let [first, second, ..] = on_this_host.as_slice() {
        return bad(format!(
            "hosts {first} and {second} would both be this machine; state where one of them is, as in --at {second}=node2.example.org"
        ));
    }
    check_flows(scenario)
}

/// Checks that real hosts can run the flows of a scenario, wherever they are.
///
/// # Errors
/// A flow cannot be run.
pub fn check_flows(scenario: &Scenario) -> Result<(), Error> {
    for flow in &scenario.flows {
        let not_here = match &flow.kind {
            FlowKind::Xcp(_) => Some("real hosts have no XCP"),
            FlowKind::Stream(_) => Some("real-time streams are not supported"),
            FlowKind::Udt(_) | FlowKind::Tsunami(_) => Some(
                "flows of udt and tsunami are not supported (longfat send and receive transfer files by them)",
            ),
            FlowKind::Quic(_) => {
                Some("flows of quic are not supported (longfat send and receive transfer files by it)")
            }
            FlowKind::Udp(udp) if udp.bursts.is_some() => Some("datagrams in bursts are not supported"),
            FlowKind::Tcp(tcp) if matches!(tcp.cc, Some(Cc::File { .. } | Cc::Own { .. })) => Some(
                "a congestion control with parameters or in a file is not supported; register it on the host (longfat cc load) and use its \
                 name",
            ),
            FlowKind::Tcp(tcp) if tcp.read_rate.is_some() || tcp.reader_stops.is_some() => {
                Some("a receiver that reads slowly or stops is not supported")
            }
            _ => None,
        };
        if let Some(why) = not_here {
            let message = format!("flow {}: engine hosts cannot run it: {why}", flow.name);
            return Err(Error::BadInput(message));
        }
    }
    Ok(())
}

/// The requests for all flows, in the scenario's order.
pub(crate) fn plan(
    scenario: &Scenario,
    locations: &HostLocations,
    servers: &BTreeMap<String, Server<'_>>,
) -> Result<Vec<PlannedFlow>, Error> {
    let flows: Vec<PlannedFlow> = scenario
        .flows
        .iter()
        .map(|flow| planned(scenario, flow, locations, servers))
        .collect::<Result<_, _>>()?;
    for (name, server) in servers {
        if let (Server::Iperf3, Some((first, second))) = (server, simultaneous(scenario, name)) {
            return Err(Error::BadInput(format!(
                "flows {first} and {second} need host {name} at the same time, which has an iperf3 server: it serves one test at a time; \
                 run longfat serve there"
            )));
        }
    }
    Ok(flows)
}

/// Two flows of a host that overlap in time; echo requests need no server.
fn simultaneous<'s>(scenario: &'s Scenario, host: &str) -> Option<(&'s str, &'s str)> {
    let is_its =
        |flow: &&FlowSpec| (flow.from == host || flow.to == host) && !matches!(flow.kind, FlowKind::Ping(_));
    let mut flows: Vec<&FlowSpec> = scenario.flows.iter().filter(is_its).collect();
    flows.sort_by_key(|flow| flow.start);
    let end = |flow: &FlowSpec| flow.stop.unwrap_or(scenario.end());
    let pair = flows.windows(2).find(|pair| pair[1].start < end(pair[0]))?;
    Some((&pair[0].name, &pair[1].name))
}

fn planned(
    scenario: &Scenario,
    flow: &FlowSpec,
    locations: &HostLocations,
    servers: &BTreeMap<String, Server<'_>>,
) -> Result<PlannedFlow, Error> {
    let refused = |text: String| Err(Error::NotPermitted(format!("flow {}: {text}", flow.name)));
    let is_ping = matches!(flow.kind, FlowKind::Ping(_));
    let session = |host: &str| match servers.get(host) {
        Some(Server::Longfat(session)) => Some(session.as_ref()),
        Some(Server::Iperf3) | None => None,
    };
    let mut request = FlowRequest {
        name: flow.name.clone(),
        to: String::new(),
        port: 0,
        session: None,
        reverse: false,
        bind: None,
        duration_us: micros(flow.stop.unwrap_or(scenario.end()).saturating_since(flow.start).as_nanos()),
        sample_us: micros(scenario.sample.as_nanos()).max(1),
        traffic: traffic(scenario, flow),
    };
    // The host at which the flow is started, and the host to which it connects.
    let (starter, own, other) = match (locations.of(&flow.from), locations.of(&flow.to)) {
        (HostLocation::Here, HostLocation::Here) => return refused("both ends are this machine".into()),
        (HostLocation::Here, HostLocation::At(_)) => (Starter::Here, &flow.from, &flow.to),
        (HostLocation::At(_), HostLocation::Here) if !is_ping => {
            request.reverse = true;
            (Starter::Here, &flow.to, &flow.from)
        }
        (HostLocation::At(_), to) => {
            let Some(sender) = session(&flow.from) else {
                return refused(format!(
                    "host {} has an iperf3 server, which cannot send to another host or send echo requests; run longfat \
                     serve there",
                    flow.from
                ));
            };
            if connects_to_client(to) {
                return refused(format!(
                    "host {} is a server that connects to this machine ({LISTEN}); host {} cannot reach it",
                    flow.to, flow.from
                ));
            }
            if *to != HostLocation::Here && !sender.description.sends_to_others {
                return refused(format!(
                    "the server of host {} sends data only to its client; start the servers with the same --token FILE, and use \
                     that token here",
                    flow.from
                ));
            }
            if *to == HostLocation::Here {
                request.to = sender.own_address()?.to_string();
            }
            (Starter::Host(flow.from.clone()), &flow.from, &flow.to)
        }
    };
    request.bind = locations.data_address(own);
    if let HostLocation::At(Address { host, port }) = locations.of(other) {
        // An echo request needs an address, not a connection that the server opens.
        let to_address = is_ping && connects_to_client(locations.of(other));
        let server =
            if to_address { session(other).map(ServerSession::server_address).transpose()? } else { None };
        let address = locations.data_address(other).or(server);
        request.to = address.map_or_else(|| host.clone(), |ip| ip.to_string());
        request.port = *port;
        request.session = session(other).map(|session| session.cookie().as_str().into());
    }
    if let (Some(Server::Iperf3), Traffic::Tcp { send_buffer, receive_buffer, .. }) =
        (servers.get(other), &request.traffic)
    {
        let other_buffer = if request.reverse { send_buffer } else { receive_buffer };
        if other_buffer.is_some() && send_buffer != receive_buffer {
            return refused(format!(
                "host {other} has an iperf3 server, which accepts only one size for the buffers of both ends; run longfat serve \
                 there, or set send_buffer and receive_buffer to the same size"
            ));
        }
    }
    Ok(PlannedFlow { starter, request })
}

/// Whether the server there opens all connections.
fn connects_to_client(location: &HostLocation) -> bool {
    matches!(location, HostLocation::At(address) if address.host == LISTEN)
}

fn micros(ns: u64) -> u64 {
    ns / 1000
}

fn traffic(scenario: &Scenario, flow: &FlowSpec) -> Traffic {
    match &flow.kind {
        FlowKind::Tcp(tcp) => Traffic::Tcp {
            congestion_control: tcp.cc.as_ref().map(|cc| cc.name().to_string()),
            size: tcp.size,
            mss: tcp.mss,
            send_buffer: tcp.send_buffer,
            receive_buffer: tcp.receive_buffer,
            pacing: tcp.pacing,
            write_rate: tcp.write_rate,
            write_size: tcp.write_size,
        },
        FlowKind::Udp(udp) => Traffic::Udp { rate: udp.rate, payload: udp.packet, size: udp.size },
        FlowKind::Ping(ping) => Traffic::Ping {
            interval_us: micros(ping.interval.as_nanos()),
            count: ping.count,
            payload: ping.payload,
            timeout_us: micros(echo_timeout(scenario).as_nanos()),
        },
        // Refused by `check`.
        FlowKind::Xcp(_)
        | FlowKind::Udt(_)
        | FlowKind::Tsunami(_)
        | FlowKind::Stream(_)
        | FlowKind::Quic(_) => Traffic::Udp { rate: units::BitRate(0), payload: None, size: None },
    }
}
