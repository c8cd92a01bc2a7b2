//! Ends a flow from outside: a flag, and a shutdown of the sockets that block.

use std::{
    net::Shutdown,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use socket2::Socket;

/// Tells a flow's threads to end, and wakes those that block in a socket call.
#[derive(Debug, Default)]
pub struct Stop {
    set: AtomicBool,
    sockets: Mutex<Vec<Socket>>,
}

impl Stop {
    /// True once [`Stop::set`] was called.
    pub fn is_set(&self) -> bool {
        self.set.load(Ordering::Acquire)
    }

    /// Ends the flow. Calling it again does nothing.
    pub fn set(&self) {
        self.set.store(true, Ordering::Release);
        let mut sockets = self.sockets.lock().unwrap_or_else(|e| e.into_inner());
        for socket in sockets.drain(..) {
            // When its last owner closes it, what it still holds goes at once. Else the kernel would try for minutes to send it
            // to a network that is gone, and count it against the memory of the next run's TCP (tcp_mem).
            let _ = socket.set_linger(Some(Duration::ZERO));
            // A socket that is closed or not connected any more has nobody left to wake.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Has `socket` (a duplicate) shut down by [`Stop::set`], or at once if that was called before.
    pub(crate) fn watch(&self, socket: Socket) {
        self.sockets.lock().unwrap_or_else(|e| e.into_inner()).push(socket);
        if self.is_set() {
            self.set();
        }
    }
}
