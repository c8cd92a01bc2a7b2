//! The server: one port, many clients. [`router`] takes connections in and tells by their cookie whose they are; a client
//! whose turn has not come waits there; [`session`] does one client's test on a thread of its own.

mod datagrams;
mod greeting;
mod options;
mod router;
mod sampling;
mod session;

pub use options::{ServerObserver, ServerOptions};
pub use router::Server;
