//! What other programs saw of TCP connections, as rows of the record. Pure: bytes in, rows out.
//!
//! - [`Packets`]: the packets of a pcap or pcapng file, from whichever machine and however cut;
//! - [`Dissector`]: their TCP connections, packet by packet: sequence, round-trip times, what is in flight, retransmissions,
//!   windows;
//! - [`ss`]: the log of `ss -tin` in a loop.

mod connection;
mod dissector;
mod distance;
mod error;
mod link;
mod packets;
mod pcap;
mod pcapng;
mod segment;
mod sender;
pub mod ss;

pub use dissector::{Dissected, Dissector, Flow};
pub use error::Error;
pub use packets::{Packet, Packets};

/// Takes any bytes as a capture, for fuzzing.
#[doc(hidden)]
pub fn fuzz(bytes: &[u8]) {
    let Ok(packets) = Packets::new(bytes) else { return };
    let mut dissector = Dissector::new(10_000);
    for packet in packets {
        dissector.add(&packet);
    }
    let dissected = dissector.finish();
    assert!(dissected.rows.iter().all(|row| row.time_us >= 0));
}
