//! The receiver of a UDP flow: puts fragments together and counts what is whole.

use datagrams::Received;
use units::Time;

use crate::{fragments::Reassembly, udp::Datagram};

/// What has come.
#[derive(Debug, Default)]
pub(crate) struct Receiver {
    /// Of whole datagrams.
    pub(crate) counts: Received,
    reassembly: Reassembly,
}

impl Receiver {
    /// A datagram or some of its fragments.
    pub(crate) fn take(&mut self, datagram: &Datagram, now: Time) {
        if self.reassembly.completes(datagram.number, &datagram.fragments) {
            // Virtual time ends long before 2^63 ns.
            self.counts.take(datagram.number, datagram.payload, datagram.sent.0 as i64, now.0 as i64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fragments::Fragments;

    #[test]
    fn fragments_are_put_together() {
        let datagram = |fragments| Datagram { number: 0, sent: Time(0), payload: 4000, fragments };
        let mut first = Fragments::of(4008, 1500, 20);
        let rest = first.split_off(1);
        let mut receiver = Receiver::default();
        receiver.take(&datagram(first), Time(10));
        assert_eq!(receiver.counts.received, 0);
        receiver.take(&datagram(rest), Time(20));
        assert_eq!((receiver.counts.received, receiver.counts.lost()), (1, 0));
        assert_eq!(receiver.counts.owd_ns, Some((20, 20)));
    }
}
