//! Signals: the first SIGINT, SIGTERM or SIGHUP ends a run early and cleanly, a second one ends the program
//! immediately.

use std::sync::{Arc, atomic::AtomicBool};

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// A flag that the first SIGINT, SIGTERM or SIGHUP sets. Signals that were ignored at start (nohup,
/// background jobs) stay ignored.
pub fn flag() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let ignored = ignored_signals();
    for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|s| ignored & (1 << (s - 1)) == 0) {
        let exit_code = 128 + signal;
        // The order matters: the first handler exits if the flag is set, the second sets the flag.
        signal_hook::flag::register_conditional_shutdown(signal, exit_code, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .context("cannot install signal handlers")?;
    }
    Ok(stop)
}

/// The ignored signals of this process as a mask (SigIgn in /proc/self/status, proc(5)); 0 if it cannot be
/// read.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
