//! Limits the number of labs that tests run at the same time: labs share the machine's processors.

use std::sync::{Condvar, Mutex};

/// Maximum number of concurrent labs. Labs of modest rates wait more than they compute.
const MAX_LABS: u32 = 4;

static FREE: Mutex<u32> = Mutex::new(MAX_LABS);
static FREED: Condvar = Condvar::new();

/// A slot in which labs may run; dropping it frees the slot.
pub struct LabSlots(u32);

/// For a test whose lab may run beside a few other labs.
pub fn acquire_lab_slot() -> LabSlots {
    acquire(1)
}

/// For a test that needs all processors, or that compares the state of the whole machine (namespaces, eBPF
/// programs). Waits until no other test runs a lab.
pub fn acquire_all_lab_slots() -> LabSlots {
    acquire(MAX_LABS)
}

fn acquire(count: u32) -> LabSlots {
    // A failed test poisons the lock; the counter is valid nevertheless.
    let free = FREE.lock().unwrap_or_else(|e| e.into_inner());
    let mut free = FREED.wait_while(free, |free| *free < count).unwrap_or_else(|e| e.into_inner());
    *free -= count;
    LabSlots(count)
}

impl Drop for LabSlots {
    fn drop(&mut self) {
        *FREE.lock().unwrap_or_else(|e| e.into_inner()) += self.0;
        FREED.notify_all();
    }
}
