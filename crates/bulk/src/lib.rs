//! Bulk transports other than TCP, without I/O: datagrams and the time go in, datagrams and timers come out.
//!
//! - [`udt`]: UDT 4, reliable streams and messages over UDP with its own rate control.
//! - [`tsunami`]: Tsunami, files over UDP at a target rate, controlled over TCP.
//! - [`stream`]: real-time streams at a constant rate, which are played with a fixed delay.
//! - `quic`: parts of QUIC connections around quinn's state machine (not for WebAssembly).
//! - [`flow`]: flows of all these protocols from memory to memory, for measurements.

pub mod flow;
mod pacing;
#[cfg(not(target_arch = "wasm32"))]
pub mod quic;
mod ranges;
pub mod stream;
pub mod tsunami;
pub mod udt;
