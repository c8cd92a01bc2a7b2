//! Probing a path: the sockets and clocks of the crate `probe`, whose methods say what to send and read what was seen.
//!
//! - [`Session`]: trains to a `longfat serve`, which tells when each packet arrived;
//! - [`hops`] and [`mtu`]: need no peer;
//! - `server`: its other end, behind the cookie that [`wire::COOKIE_PREFIX`] begins.

mod client;
mod error;
mod flight;
mod path_mtu;
pub(crate) mod server;
mod unanswered;
pub mod wire;

pub use client::{Session, SessionOptions};
pub use error::Error;
pub use path_mtu::route_mtu;
pub(crate) use path_mtu::{forbid_fragments, mtu_of};
pub use unanswered::{hops, mtu, resolve};
