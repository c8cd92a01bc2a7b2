//! Labs share the machine's processors: how many tests run one at a time.

use std::sync::{Condvar, Mutex};

/// Labs of modest rates that run at a time: they wait more than they compute.
const LABS: u32 = 4;

static FREE: Mutex<u32> = Mutex::new(LABS);
static FREED: Condvar = Condvar::new();

/// The right to run labs, until it is dropped.
pub struct Turn(u32);

/// For a test whose lab is content beside a few others.
pub fn a_lab_among_others() -> Turn {
    take(1)
}

/// For a test that needs the processors, or that compares what the whole machine has (its namespaces, its loaded programs).
/// It waits until no other test can run a lab, so such tests come one after another and rarely make the others wait.
pub fn the_only_lab() -> Turn {
    take(LABS)
}

fn take(turns: u32) -> Turn {
    // A test that failed says nothing of the others' turns.
    let free = FREE.lock().unwrap_or_else(|e| e.into_inner());
    let mut free = FREED.wait_while(free, |free| *free < turns).unwrap_or_else(|e| e.into_inner());
    *free -= turns;
    Turn(turns)
}

impl Drop for Turn {
    fn drop(&mut self) {
        *FREE.lock().unwrap_or_else(|e| e.into_inner()) += self.0;
        FREED.notify_all();
    }
}
