//! The interface of both ends of a flow.

use units::Instant;

/// One end of a flow: datagrams, control bytes and the time go in, datagrams, control bytes and timers come
/// out.
pub trait End {
    /// Processes a datagram of the peer.
    fn handle_datagram(&mut self, now: Instant, bytes: &[u8]);
    /// Bytes of the control connection have arrived.
    fn handle_control(&mut self, now: Instant, bytes: &[u8]);
    /// When [`End::handle_timeout`] is due.
    fn next_timeout(&self) -> Instant;
    /// Runs the timers that are due.
    fn handle_timeout(&mut self, now: Instant);
    /// Appends the next datagram for the peer to `out`; false if none is to be sent now.
    fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool;
    /// Takes the bytes to be sent on the control connection.
    fn take_control(&mut self) -> Vec<u8>;
    /// Why the flow failed, if it did.
    fn failure(&self) -> Option<String>;
}
