//! Connections as flows: a flow is one direction of a connection, sampled at its sender, its receiver, or
//! both.

use std::{collections::HashMap, net::IpAddr};

use schema::FlowSample;
use watch::{SocketAddresses, TrackedConnection, Watcher, fill_receiver, fill_sender};

/// Sockets that are the two ends of a connection.
pub struct Pairs<'a> {
    by_ends: HashMap<(SocketAddresses, &'a str), &'a TrackedConnection>,
}

impl<'a> Pairs<'a> {
    /// The pairs among all watched open sockets.
    pub fn of(watcher: &'a Watcher) -> Self {
        let by_ends = watcher
            .connections()
            .filter(|connection| connection.closed_ns.is_none())
            .map(|connection| ((connection.sample.addresses, scope(connection)), connection))
            .collect();
        Pairs { by_ends }
    }

    /// The other end of a connection, if it is watched too.
    pub fn other_end(&self, connection: &TrackedConnection) -> Option<&'a TrackedConnection> {
        let found = self.by_ends.get(&(connection.sample.addresses.reversed(), scope(connection))).copied();
        // A socket may be connected to itself.
        found.filter(|other| other.sample.cookie != connection.sample.cookie)
    }
}

/// The namespace for loopback addresses, which are different connections in each namespace.
fn scope(connection: &TrackedConnection) -> &str {
    let loopback = |address: IpAddr| address.is_loopback();
    if loopback(connection.sample.addresses.local.ip()) { &connection.namespace } else { "" }
}

/// The name of the flow that a connection sends.
pub fn outgoing(connection: &TrackedConnection) -> String {
    named(connection, connection.sample.addresses)
}

/// The name of the flow that it receives.
pub fn incoming(connection: &TrackedConnection) -> String {
    named(connection, connection.sample.addresses.reversed())
}

fn named(connection: &TrackedConnection, ends: SocketAddresses) -> String {
    match scope(connection) {
        "" => format!("{}>{}", ends.local, ends.peer),
        scope => format!("{scope}:{}>{}", ends.local, ends.peer),
    }
}

/// Payload that was sent and acknowledged; a SYN counts as a byte.
pub fn acked(connection: &TrackedConnection) -> u64 {
    connection.sample.info.bytes_acked().unwrap_or(0).saturating_sub(1)
}

/// Payload that was received.
pub fn received(connection: &TrackedConnection) -> u64 {
    connection.sample.info.bytes_received().unwrap_or(0)
}

/// Fills a row with the sender's side of the flow that a connection sends, and the receiver's if that is
/// watched.
pub fn sent_row(connection: &TrackedConnection, other: Option<&TrackedConnection>, row: &mut FlowSample) {
    fill_sender(&connection.sample.info, connection.sample.memory.as_ref(), row);
    row.state = Some(connection.sample.state.0.into());
    row.goodput_bps = connection.rates_bps.map(|(sent, _)| sent.round() as i64);
    if let Some(other) = other {
        received_row(other, row);
    }
}

/// Fills a row with the receiver's side of the flow that a connection receives.
pub fn received_row(connection: &TrackedConnection, row: &mut FlowSample) {
    let unread = Some(connection.sample.rqueue_bytes);
    fill_receiver(&connection.sample.info, connection.sample.memory.as_ref(), unread, row);
    row.goodput_bps = connection.rates_bps.map(|(_, received)| received.round() as i64);
}
