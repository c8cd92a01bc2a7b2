//! Bulk transports beside TCP, without I/O: datagrams and the time go in, datagrams and timers come out.
//!
//! - [`udt`]: UDT 4, reliable streams and messages over UDP with its own rate control.
//! - [`tsunami`]: Tsunami, files over UDP at a target rate, controlled over TCP.

mod ranges;
pub mod tsunami;
pub mod udt;
