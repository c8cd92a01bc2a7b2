//! The renewal of a server's listening socket: sessions request it and the router executes it.

use std::{
    io::{PipeWriter, Write},
    sync::{Condvar, Mutex, PoisonError},
    time::Duration,
};

use traffic::Error as SystemError;

use crate::Error;

/// Shared by sessions and the router; a session waits here until the router has renewed the listening socket.
#[derive(Debug)]
pub(crate) struct Renewal {
    state: Mutex<RenewalState>,
    changed: Condvar,
    /// Wakes the router.
    wake: PipeWriter,
}

#[derive(Debug, Default)]
struct RenewalState {
    requested: u64,
    done: u64,
    failure: Option<String>,
}

impl Renewal {
    pub(crate) fn new(wake: PipeWriter) -> Self {
        Renewal { state: Mutex::default(), changed: Condvar::new(), wake }
    }

    /// For a session: requests a renewal, and waits for it up to `timeout`.
    pub(crate) fn request(&self, timeout: Duration) -> Result<(), Error> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.requested += 1;
        let own = state.requested;
        // A full pipe also wakes it.
        let _ = (&self.wake).write(&[0]);
        let waited = self.changed.wait_timeout_while(state, timeout, |state| state.done < own);
        let (state, result) = waited.unwrap_or_else(PoisonError::into_inner);
        match &state.failure {
            Some(reason) => Err(Error::Rejected(reason.clone())),
            None if result.timed_out() => {
                Err(Error::Timeout { what: "new listening socket", after: timeout })
            }
            None => Ok(()),
        }
    }

    /// For the router: renews the socket if a session requests it.
    pub(crate) fn renew_if_requested(&self, renew: impl FnOnce() -> Result<(), SystemError>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.done < state.requested {
            state.failure = renew().err().map(|error| error.to_string());
            state.done = state.requested;
            self.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renewal_without_a_router_ends_with_a_timeout() {
        let (_reader, writer) = std::io::pipe().unwrap();
        let renewal = Renewal::new(writer);
        assert!(matches!(renewal.request(Duration::from_millis(10)), Err(Error::Timeout { .. })));
        renewal.renew_if_requested(|| Ok(()));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| renewal.request(Duration::from_secs(10)));
            while !waits.is_finished() {
                renewal.renew_if_requested(|| Ok(()));
            }
            assert!(waits.join().unwrap().is_ok());
        });
    }
}
