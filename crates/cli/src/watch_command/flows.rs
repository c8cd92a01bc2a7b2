//! Connections as flows: a flow is one direction of a connection, seen at its sender, its receiver, or both where both are ours.

use std::{collections::HashMap, net::IpAddr};

use schema::FlowSample;
use watch::{Ends, Followed, Watcher, fill_receiver, fill_sender};

/// Which connections are two ends of the same.
pub struct Pairs<'a> {
    by_ends: HashMap<(Ends, &'a str), &'a Followed>,
}

impl<'a> Pairs<'a> {
    /// Of all that is followed and alive.
    pub fn of(watcher: &'a Watcher) -> Self {
        let by_ends = watcher
            .connections()
            .filter(|connection| connection.closed_ns.is_none())
            .map(|connection| ((connection.look.ends, scope(connection)), connection))
            .collect();
        Pairs { by_ends }
    }

    /// The other end of a connection, where that is followed too.
    pub fn other_end(&self, connection: &Followed) -> Option<&'a Followed> {
        let found = self.by_ends.get(&(connection.look.ends.reversed(), scope(connection))).copied();
        // A socket may be connected with itself.
        found.filter(|other| other.look.cookie != connection.look.cookie)
    }
}

/// Addresses of a loopback device mean another connection in each namespace.
fn scope(connection: &Followed) -> &str {
    let loopback = |address: IpAddr| address.is_loopback();
    if loopback(connection.look.ends.local.ip()) { &connection.place } else { "" }
}

/// The name of the flow that a connection sends.
pub fn outgoing(connection: &Followed) -> String {
    named(connection, connection.look.ends)
}

/// The name of the flow that it receives.
pub fn incoming(connection: &Followed) -> String {
    named(connection, connection.look.ends.reversed())
}

fn named(connection: &Followed, ends: Ends) -> String {
    match scope(connection) {
        "" => format!("{}>{}", ends.local, ends.peer),
        place => format!("{place}:{}>{}", ends.local, ends.peer),
    }
}

/// Payload that was sent and acknowledged; a SYN counts as a byte.
pub fn acked(connection: &Followed) -> u64 {
    connection.look.info.bytes_acked().unwrap_or(0).saturating_sub(1)
}

/// Payload that was received.
pub fn received(connection: &Followed) -> u64 {
    connection.look.info.bytes_received().unwrap_or(0)
}

/// Fills a row with the sender's side of the flow that a connection sends, and with the other end's where there is one.
pub fn sent_row(connection: &Followed, other: Option<&Followed>, row: &mut FlowSample) {
    fill_sender(&connection.look.info, connection.look.memory.as_ref(), row);
    row.state = Some(connection.look.state.0.into());
    row.goodput_bps = connection.rates_bps.map(|(sent, _)| sent.round() as i64);
    if let Some(other) = other {
        received_row(other, row);
    }
}

/// Fills a row with the receiver's side of the flow that a connection receives.
pub fn received_row(connection: &Followed, row: &mut FlowSample) {
    let unread = Some(connection.look.rqueue_bytes);
    fill_receiver(&connection.look.info, connection.look.memory.as_ref(), unread, row);
    row.goodput_bps = connection.rates_bps.map(|(_, received)| received.round() as i64);
}
