//! Ctrl-C and the like end a run early and in order; a second one ends the program at once.

use std::sync::{Arc, atomic::AtomicBool};

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// A flag that the first SIGINT, SIGTERM or SIGHUP sets.
pub fn flag() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let exit_code = 128 + signal;
        // In this order: the exit is armed by the flag, which the second handler sets afterwards.
        signal_hook::flag::register_conditional_shutdown(signal, exit_code, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .context("cannot watch for signals")?;
    }
    Ok(stop)
}
