//! UDT 4, without I/O: draft-gg-udt-03 and libudt 4.11, with which it interoperates.
//!
//! A [`Connection`] carries a byte stream or messages both ways. Clients begin with
//! [`Connection::connect`]; a server's [`Listener`] replies to requests with cookies and accepts connections.
//! A [`RateControl`] decides how fast an end sends.
//!
//! ```
//! use bulk::udt::{Arrival, Config, Connection, Daimd, Listener};
//! use units::Instant;
//!
//! let now = Instant::ZERO;
//! let listener = Listener::new(Config::default(), [7; 32]);
//! let mut client = Connection::connect(now, Config::default(), [0; 4], Box::new(Daimd::new(1)));
//! client.handle_timeout(now);
//! let mut request = Vec::new();
//! assert!(client.poll_transmit(now, &mut request));
//! // The reply has a cookie, and as many bytes as the request.
//! let Arrival::Reply(reply) = listener.handle_datagram(now, b"client", &request) else { panic!() };
//! assert_eq!(reply.len(), request.len());
//! client.handle_datagram(now, &reply);
//! client.handle_timeout(now);
//! request.clear();
//! assert!(client.poll_transmit(now, &mut request));
//! let Arrival::Request(incoming) = listener.handle_datagram(now, b"client", &request) else { panic!() };
//! let server = listener.accept(now, &incoming, 2, [0; 4], Box::new(Daimd::new(2)));
//! assert!(server.is_established());
//! ```

mod arrivals;
mod config;
mod connection;
mod listener;
mod rate_choice;
mod rate_control;
mod receive_half;
mod sabul;
mod send_half;
mod sequence;
pub mod wire;

pub use config::{Config, SocketType};
pub use connection::{CloseReason, Connection, Statistics};
pub use listener::{Arrival, Incoming, Listener, ip_words};
pub use rate_choice::RateChoice;
pub use rate_control::{Daimd, FixedRate, PathState, RateControl, SYN};
pub use sabul::Sabul;
