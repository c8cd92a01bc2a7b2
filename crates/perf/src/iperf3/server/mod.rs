//! The server: one port, many clients. [`router`] takes connections in and tells by their cookie whose they are; [`admission`]
//! reads and checks what a client asks for; a client whose turn has not come waits in the router; [`session`] does one client's
//! test on a thread of its own, once it has its [`turn`].

mod admission;
mod datagrams;
mod greeting;
mod options;
mod router;
mod sampling;
mod session;
mod turn;

pub use options::{ServerObserver, ServerOptions};
pub use router::Server;
