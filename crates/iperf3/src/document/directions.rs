//! Groups of streams, one for each direction, which have separate sums.

use crate::report::{Direction, Protocol, Role, Start};

/// Streams on which the reporting end sends, or those on which it receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Group {
    /// This end sends.
    pub sender: bool,
    /// From server to client in a test of both directions: its sums have separate names.
    pub backward: bool,
}

/// The groups of a test, in iperf3's order: data of the client first.
pub(super) fn groups(start: &Start) -> Vec<Group> {
    let client = start.role == Role::Client;
    match start.spec.direction {
        Direction::Forward => vec![Group { sender: client, backward: false }],
        Direction::Reverse => vec![Group { sender: !client, backward: false }],
        Direction::Both => {
            vec![Group { sender: client, backward: false }, Group { sender: !client, backward: true }]
        }
    }
}

impl Group {
    /// The key of a sum: `sum`, or `sum_bidir_reverse`.
    pub(super) fn key(self, name: &str) -> String {
        format!("{name}{}", if self.backward { "_bidir_reverse" } else { "" })
    }

    /// The tag before the times in text, such as `[TX-C]`; empty in a test of one direction.
    pub(super) fn tag(self, start: &Start) -> String {
        if start.spec.direction != Direction::Both {
            return String::new();
        }
        let direction = if self.sender { "TX" } else { "RX" };
        let end = if start.role == Role::Client { "C" } else { "S" };
        format!("[{direction}-{end}]")
    }

    /// Whether iperf3 reports the retransmissions of these streams in an interval.
    pub(super) fn has_retransmits(self, start: &Start) -> bool {
        self.sender && start.spec.protocol == Protocol::Tcp
    }
}
