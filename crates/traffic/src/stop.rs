//! Stops a flow from outside: a flag, and a shutdown of the sockets on which threads block.

use std::{
    net::Shutdown,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use socket2::Socket;

/// Makes a flow's threads end, and wakes those that block in a socket call.
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
            // Discards unsent data when its last owner closes it. Otherwise the kernel would try for minutes
            // to send it to a network that no longer exists, and charge it to the memory of the next run's
            // TCP (tcp_mem).
            let _ = socket.set_linger(Some(Duration::ZERO));
            // A socket that is closed or no longer connected blocks no thread.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Registers `socket` (a duplicate): [`Stop::set`] shuts it down, immediately if it was called before.
    pub(crate) fn watch(&self, socket: Socket) {
        self.sockets.lock().unwrap_or_else(|e| e.into_inner()).push(socket);
        if self.is_set() {
            self.set();
        }
    }
}
