//! A limit on simultaneous connections, in total and per address.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

/// The connections in use.
#[derive(Debug, Clone)]
pub(super) struct Slots {
    used: Arc<Mutex<BTreeMap<IpAddr, usize>>>,
    max: usize,
    max_per_address: usize,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    used: Arc<Mutex<BTreeMap<IpAddr, usize>>>,
    address: IpAddr,
}

impl Slots {
    pub(super) fn new(max: usize, max_per_address: usize) -> Self {
        Slots { used: Arc::default(), max, max_per_address }
    }

    /// Takes a slot; `None` if all are in use.
    pub(super) fn take(&self, address: IpAddr) -> Option<Slot> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = used.values().sum();
        let own = used.get(&address).copied().unwrap_or(0);
        if all >= self.max || own >= self.max_per_address {
            return None;
        }
        used.insert(address, own + 1);
        Some(Slot { used: self.used.clone(), address })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        match used.get_mut(&self.address) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(used.remove(&self.address)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_cannot_take_all_slots() {
        let slots = Slots::new(3, 2);
        let [one, other] = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse::<IpAddr>().unwrap());
        let taken = [slots.take(one), slots.take(one)];
        assert!(taken.iter().all(Option::is_some) && slots.take(one).is_none());
        let last = slots.take(other);
        assert!(last.is_some() && slots.take(other).is_none(), "all are in use");
        drop(taken);
        assert!(slots.take(one).is_some());
    }
}
