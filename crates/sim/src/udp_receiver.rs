//! The receiver of a UDP flow: reassembles fragments and counts complete datagrams.

use datagrams::ReceiverCounters;
use units::Instant;

use crate::{fragments::Reassembly, packet::Datagram};

/// The receiver's counters, and datagrams in reassembly.
#[derive(Debug, Default)]
pub(crate) struct DatagramReceiver {
    /// Counts complete datagrams.
    pub(crate) counts: ReceiverCounters,
    reassembly: Reassembly,
}

impl DatagramReceiver {
    /// Receives a datagram or some of its fragments.
    pub(crate) fn take(&mut self, datagram: &Datagram, now: Instant) {
        if self.reassembly.completes(datagram.number, &datagram.fragments) {
            // Virtual time stays far below 2^63 ns.
            self.counts.record(
                datagram.number,
                datagram.payload,
                datagram.sent.as_nanos() as i64,
                now.as_nanos() as i64,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fragments::Fragments;

    #[test]
    fn reassembles_fragments() {
        let datagram = |fragments| Datagram { number: 0, sent: Instant::ZERO, payload: 4000, fragments };
        let mut first = Fragments::new(4008, 1500, 20);
        let others = first.split_off(1);
        let mut receiver = DatagramReceiver::default();
        receiver.take(&datagram(first), Instant::from_nanos(10));
        assert_eq!(receiver.counts.received, 0);
        receiver.take(&datagram(others), Instant::from_nanos(20));
        assert_eq!((receiver.counts.received, receiver.counts.lost()), (1, 0));
        assert_eq!(receiver.counts.owd_ns, Some((20, 20)));
    }
}
