//! iperf 2's messages, pure: bytes in, values out. All numbers are big-endian.
//!
//! - [`ClientHeader`]: the first bytes of a TCP connection, and the bytes after [`DatagramHeader`] in each
//!   datagram;
//! - [`DatagramHeader`]: number and time of a datagram;
//! - [`ServerReport`]: what a server sends at the end of a UDP test.
//!
//! Source: `include/payloads.h` and `src/Settings.cpp` of iperf 2.1.8, and captures of its traffic.

mod client_header;
mod datagram;
mod fuzzing;
mod server_report;

pub use client_header::{
    Amount, ClientHeader, HEADER_BYTES, MAX_AMOUNT_BYTES, MAX_HEADER_BYTES, TestMode, WireError,
    acknowledgement, header_length, is_iperf3_cookie,
};
pub use datagram::{DATAGRAM_HEADER_BYTES, DatagramHeader};
pub use fuzzing::fuzz;
pub use server_report::{REPORT_BYTES, ServerReport};

/// The big-endian number at a byte, if the bytes have it.
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Writes a number at a byte.
fn put(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}
