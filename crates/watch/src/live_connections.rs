//! The live connections. Each has a slot number, by which eBPF reports its samples.

use std::collections::BTreeMap;

use crate::{SocketCookie, TrackedConnection};

/// Connections by cookie and by slot. Freed slots are reused, the last freed first.
#[derive(Debug, Default)]
pub(crate) struct LiveConnections {
    by_cookie: BTreeMap<SocketCookie, u32>,
    slots: Vec<Option<TrackedConnection>>,
    free_slots: Vec<u32>,
}

impl LiveConnections {
    /// Adds a connection, and returns its slot.
    pub(crate) fn insert(&mut self, connection: TrackedConnection) -> u32 {
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.by_cookie.insert(connection.sample.cookie, slot);
        self.slots[slot as usize] = Some(connection);
        slot
    }

    /// Removes a connection and frees its slot; returns both.
    pub(crate) fn remove(&mut self, cookie: SocketCookie) -> Option<(u32, TrackedConnection)> {
        let slot = self.by_cookie.remove(&cookie)?;
        self.free_slots.push(slot);
        Some((slot, self.slots[slot as usize].take()?))
    }

    /// The connection with this cookie.
    pub(crate) fn get(&self, cookie: SocketCookie) -> Option<&TrackedConnection> {
        self.slots[*self.by_cookie.get(&cookie)? as usize].as_ref()
    }

    /// The connection with this cookie.
    pub(crate) fn get_mut(&mut self, cookie: SocketCookie) -> Option<&mut TrackedConnection> {
        self.slots[*self.by_cookie.get(&cookie)? as usize].as_mut()
    }

    /// The connection in this slot.
    pub(crate) fn in_slot_mut(&mut self, slot: u32) -> Option<&mut TrackedConnection> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    /// Number of slots that are or were in use.
    pub(crate) fn slot_count(&self) -> u32 {
        self.slots.len() as u32
    }

    /// All connections, ordered by cookie.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &TrackedConnection> {
        self.by_cookie.values().filter_map(|slot| self.slots[*slot as usize].as_ref())
    }

    /// All connections, ordered by slot.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut TrackedConnection> {
        self.slots.iter_mut().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConnectionCounters, SocketAddresses, SocketSample, SocketState, TcpInfo};

    fn connection(cookie: u64) -> TrackedConnection {
        let address = "10.0.0.1:1".parse().unwrap();
        let sample = SocketSample {
            cookie: SocketCookie(cookie),
            addresses: SocketAddresses { local: address, peer: address },
            state: SocketState::ESTABLISHED,
            uid: 0,
            inode: 0,
            rqueue_bytes: 0,
            wqueue_bytes: 0,
            tos: None,
            congestion: None,
            congestion_info: None,
            memory: None,
            info: TcpInfo::from_bytes(&[]),
        };
        TrackedConnection {
            namespace: String::new(),
            process: None,
            sample,
            sampled_ns: 0,
            first_seen_ns: 0,
            closed_ns: None,
            rates_bps: None,
            counters: ConnectionCounters::default(),
            clocks: None,
            limits: None,
        }
    }

    #[test]
    fn a_freed_slot_is_reused() {
        let mut live = LiveConnections::default();
        assert_eq!([7, 5, 6].map(|cookie| live.insert(connection(cookie))), [0, 1, 2]);
        assert_eq!(live.remove(SocketCookie(5)).unwrap().0, 1);
        assert!(
            live.remove(SocketCookie(5)).is_none()
                && live.get(SocketCookie(5)).is_none()
                && live.in_slot_mut(1).is_none()
        );
        assert_eq!((live.insert(connection(4)), live.slot_count()), (1, 3));
        assert_eq!(live.in_slot_mut(1).unwrap().sample.cookie, SocketCookie(4));
        let cookies: Vec<_> = live.iter().map(|connection| connection.sample.cookie.0).collect();
        assert_eq!((cookies, live.iter_mut().count()), (vec![4, 6, 7], 3));
    }
}
