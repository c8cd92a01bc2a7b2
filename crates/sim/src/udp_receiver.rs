//! The receiver of a UDP flow: puts fragments together and counts what is whole.

use std::collections::VecDeque;

use datagrams::Received;
use units::Time;

use crate::{fragments::Fragments, udp::Datagram};

/// So many datagrams may be incomplete at once.
const INCOMPLETE: usize = 64;

/// What has come.
#[derive(Debug, Default)]
pub(crate) struct Receiver {
    /// Of whole datagrams.
    pub(crate) counts: Received,
    /// Numbers of datagrams of which a part has come, and how many fragments.
    incomplete: VecDeque<(u64, u16)>,
}

impl Receiver {
    /// A datagram or some of its fragments.
    pub(crate) fn take(&mut self, datagram: &Datagram, now: Time) {
        if datagram.fragments.is_whole() || self.completes(datagram) {
            // Virtual time ends long before 2^63 ns.
            self.counts.take(datagram.number, datagram.payload, datagram.sent.0 as i64, now.0 as i64);
        }
    }

    /// Whether these fragments were the last that missed.
    fn completes(&mut self, datagram: &Datagram) -> bool {
        let Fragments { here, made, .. } = datagram.fragments;
        let Some(index) = self.incomplete.iter().position(|(number, _)| *number == datagram.number) else {
            if self.incomplete.len() == INCOMPLETE {
                self.incomplete.pop_front();
            }
            self.incomplete.push_back((datagram.number, here));
            return false;
        };
        self.incomplete[index].1 += here;
        if self.incomplete[index].1 < made {
            return false;
        }
        self.incomplete.remove(index);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
