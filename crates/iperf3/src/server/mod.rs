//! The server: one port, many clients. [`router`] accepts connections and assigns them to tests by their
//! cookie; [`admission`] reads and checks a client's parameters; the router queues clients; when a
//! client has its [`turn`], [`session`] runs its test on a dedicated thread.

mod admission;
mod arrival;
mod greeting;
mod listener;
mod options;
mod router;
mod sampling;
mod session;
mod turn;
mod udp_listener;

pub(crate) use arrival::Arrival;
pub(crate) use greeting::{Greeting, Progress};
pub(crate) use listener::{Renewal, bound, listen_on};
pub use options::{ServerObserver, ServerOptions};
pub use router::Server;
