//! A client's turn to run its test: it gets one when its streams are connected, and returns it when its data
//! phase is over. Set-ups therefore overlap. A client that opens no streams, or does not read its results,
//! does not occupy a turn.

use std::{
    io::{PipeWriter, Write},
    sync::{Condvar, Mutex, PoisonError},
    time::Duration,
};

/// The stage of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its streams are being connected.
    SettingUp,
    /// They are connected: it waits for its turn.
    Ready,
    /// It has its turn.
    Running,
    /// Its data phase is over.
    Over,
    /// It took too long while others waited.
    Revoked,
}

/// Shared by a session and the router.
#[derive(Debug)]
pub(super) struct Turn {
    stage: Mutex<Stage>,
    changed: Condvar,
    /// Wakes the router.
    wake: PipeWriter,
}

impl Turn {
    pub(super) fn new(wake: PipeWriter, stage: Stage) -> Self {
        Turn { stage: Mutex::new(stage), changed: Condvar::new(), wake }
    }

    pub(super) fn stage(&self) -> Stage {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the stage. [`Stage::Over`] and [`Stage::Revoked`] are final.
    pub(super) fn set(&self, to: Stage) {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*stage, Stage::Over | Stage::Revoked) {
            *stage = to;
        }
        self.changed.notify_all();
    }

    /// For the session: sets the stage and wakes the router.
    pub(super) fn announce(&self, stage: Stage) {
        self.set(stage);
        // A full pipe also wakes it.
        let _ = (&self.wake).write(&[0]);
    }

    /// For the session: waits up to `timeout` until the router has changed [`Stage::Ready`].
    pub(super) fn wait_while_ready(&self, timeout: Duration) -> Stage {
        let stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(stage, timeout, |stage| *stage == Stage::Ready);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}
