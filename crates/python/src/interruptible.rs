//! Runs work that Ctrl-C can end, without the interpreter lock.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc::{RecvTimeoutError, channel},
    },
    time::Duration,
};

use pyo3::prelude::*;

use crate::errors::failed;

/// Interval at which Ctrl-C is checked during work.
pub(crate) const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Executes `work` in a thread. The exception of a signal sets `stop`, at which `work` ends early. Only in
/// Python's main thread can a signal raise an exception.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    stop: &AtomicBool,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    let (sender, receiver) = channel();
    let receiver = Mutex::new(receiver);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // The receiver has been dropped if the caller was interrupted.
            let _ = sender.send(work());
        });
        loop {
            let received = py.detach(|| {
                let receiver = receiver.lock().map_err(|_| RecvTimeoutError::Disconnected)?;
                receiver.recv_timeout(SIGNAL_CHECK_INTERVAL)
            });
            match received {
                Ok(done) => return Ok(done),
                Err(RecvTimeoutError::Disconnected) => return Err(failed(py, "the run's thread has ended")),
                Err(RecvTimeoutError::Timeout) => {
                    py.check_signals().inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
                }
            }
        }
    })
}
