//! A client's turn: it gets one when its streams are there, and gives it back when its data is over. So set-ups overlap, and
//! neither a client that opens no streams nor one that does not read its results takes a turn.

use std::{
    io::{PipeWriter, Write},
    sync::{Condvar, Mutex, PoisonError},
    time::Duration,
};

/// How far a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its streams are being connected.
    SettingUp,
    /// They are there: it waits for its turn.
    Ready,
    /// It has its turn.
    Running,
    /// Its data is over.
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

    /// Router: the session goes on; session: see [`Stage`]. Nothing follows [`Stage::Over`] and [`Stage::Revoked`].
    pub(super) fn set(&self, to: Stage) {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*stage, Stage::Over | Stage::Revoked) {
            *stage = to;
        }
        self.changed.notify_all();
    }

    /// Session: sets the stage and wakes the router.
    pub(super) fn announce(&self, stage: Stage) {
        self.set(stage);
        // A full pipe wakes it as well.
        let _ = (&self.wake).write(&[0]);
    }

    /// Session: waits until the router has changed [`Stage::Ready`], but no longer than `timeout`.
    pub(super) fn wait_while_ready(&self, timeout: Duration) -> Stage {
        let stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(stage, timeout, |stage| *stage == Stage::Ready);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}
