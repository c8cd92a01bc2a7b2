//! The connections that live, each in a slot by which eBPF tells of it.

use std::collections::BTreeMap;

use crate::{Cookie, Followed};

/// Connections by cookie and by slot. Slots are used again, the one last freed first.
#[derive(Debug, Default)]
pub(crate) struct Live {
    by_cookie: BTreeMap<Cookie, u32>,
    slots: Vec<Option<Followed>>,
    free: Vec<u32>,
}

impl Live {
    /// Takes a new connection in, and returns its slot.
    pub(crate) fn insert(&mut self, followed: Followed) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.by_cookie.insert(followed.look.cookie, slot);
        self.slots[slot as usize] = Some(followed);
        slot
    }

    /// Gives a connection back, with the slot that it had.
    pub(crate) fn remove(&mut self, cookie: Cookie) -> Option<(u32, Followed)> {
        let slot = self.by_cookie.remove(&cookie)?;
        self.free.push(slot);
        Some((slot, self.slots[slot as usize].take()?))
    }

    /// The connection of this cookie.
    pub(crate) fn get(&self, cookie: Cookie) -> Option<&Followed> {
        self.slots[*self.by_cookie.get(&cookie)? as usize].as_ref()
    }

    /// The connection of this cookie.
    pub(crate) fn get_mut(&mut self, cookie: Cookie) -> Option<&mut Followed> {
        self.slots[*self.by_cookie.get(&cookie)? as usize].as_mut()
    }

    /// The connection in this slot.
    pub(crate) fn at_mut(&mut self, slot: u32) -> Option<&mut Followed> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    /// Slots that are or were used.
    pub(crate) fn slots(&self) -> u32 {
        self.slots.len() as u32
    }

    /// All, in the order of their cookies.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Followed> {
        self.by_cookie.values().filter_map(|slot| self.slots[*slot as usize].as_ref())
    }

    /// All, in the order of their slots.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Followed> {
        self.slots.iter_mut().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ends, Look, State, Tally, TcpInfo};

    fn followed(cookie: u64) -> Followed {
        let end = "10.0.0.1:1".parse().unwrap();
        let look = Look {
            cookie: Cookie(cookie),
            ends: Ends { local: end, peer: end },
            state: State::ESTABLISHED,
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
        Followed {
            place: String::new(),
            process: None,
            look,
            looked_ns: 0,
            first_ns: 0,
            closed_ns: None,
            rates_bps: None,
            tally: Tally::default(),
            clocks: None,
        }
    }

    #[test]
    fn a_slot_is_used_again() {
        let mut live = Live::default();
        assert_eq!([7, 5, 6].map(|cookie| live.insert(followed(cookie))), [0, 1, 2]);
        assert_eq!(live.remove(Cookie(5)).unwrap().0, 1);
        assert!(
            live.remove(Cookie(5)).is_none() && live.get(Cookie(5)).is_none() && live.at_mut(1).is_none()
        );
        assert_eq!((live.insert(followed(4)), live.slots()), (1, 3));
        assert_eq!(live.at_mut(1).unwrap().look.cookie, Cookie(4));
        let cookies: Vec<_> = live.iter().map(|followed| followed.look.cookie.0).collect();
        assert_eq!((cookies, live.iter_mut().count()), (vec![4, 6, 7], 3));
    }
}
