//! The server: one port, many clients. [`router`] accepts connections and assigns them to tests by their
//! cookie; [`admission`] reads and checks a client's parameters; the router queues clients; when a
//! client has its [`turn`], [`session`] runs its test on a dedicated thread.

mod admission;
mod listener;
mod options;
mod router;
mod sampling;
mod session;
mod turn;
mod udp_listener;

pub use options::{ServerObserver, ServerOptions};
pub use router::Server;
