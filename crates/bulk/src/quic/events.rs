//! Exchanges events between quinn's endpoint and a connection of it.

use std::time::Instant;

use quinn_proto::{Connection, ConnectionHandle, Endpoint};

/// Runs the connection's timers that have expired, and passes its events to the endpoint.
pub fn run_timers_and_events(
    endpoint: &mut Endpoint,
    handle: ConnectionHandle,
    connection: &mut Connection,
    now: Instant,
) {
    if connection.poll_timeout().is_some_and(|due| due <= now) {
        connection.handle_timeout(now);
    }
    while let Some(event) = connection.poll_endpoint_events() {
        if let Some(reply) = endpoint.handle_event(handle, event) {
            connection.handle_event(reply);
        }
    }
}
