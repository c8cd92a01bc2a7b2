//! Settings that do not come from pScheduler.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
};

/// Settings that do not come from pScheduler.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The port of the server of a throughput test.
    pub port: u16,
    /// The directory of records; `None`: no records.
    pub runs_dir: Option<PathBuf>,
    /// Set to end a run.
    pub stop: Arc<AtomicBool>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { port: 5201, runs_dir: None, stop: Arc::default() }
    }
}
