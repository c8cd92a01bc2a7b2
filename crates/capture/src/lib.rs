//! Converts captures and logs of other programs to rows of the record, and writes captures. Pure: bytes in,
//! rows or bytes out.
//!
//! - [`Packets`]: the packets of a pcap or pcapng file of any byte order, also of a truncated file;
//! - [`Dissector`]: their TCP connections: sequence numbers, round-trip times, data in flight,
//!   retransmissions, windows;
//! - [`ss`]: the log of `ss -tin` in a loop;
//! - [`pcapng_writer`]: the blocks of a pcapng file, for the captures of the lab.
//!
//! ```
//! use capture::{Dissector, Packets};
//!
//! // The bytes of a capture, such as `std::fs::read("capture.pcap")` returns.
//! let file = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/capture/connection"));
//! let mut dissector = Dissector::new(10_000); // a row of each flow every 10 ms
//! for packet in Packets::new(file)? {
//!     dissector.add(&packet);
//! }
//! let dissection = dissector.finish();
//! let flow = &dissection.flows[0];
//! assert_eq!(flow.name, "10.0.0.1:40000-10.0.0.2:5201");
//! // One of the flow's three data segments is a retransmission.
//! let last = dissection.rows.iter().rfind(|row| row.flow == flow.name).unwrap();
//! assert_eq!((last.data_segs_out_segs, last.total_retrans_segs), (Some(3), Some(1)));
//! # Ok::<(), capture::Error>(())
//! ```

mod byte_order;
mod connection;
mod dissector;
mod error;
mod link;
mod packet;
mod packets;
mod pcap;
mod pcapng;
pub mod pcapng_writer;
mod recent_packets;
mod segment;
mod sender;
mod sender_side_rtt;
pub mod ss;

pub use dissector::{CapturedFlow, Dissection, Dissector};
pub use error::Error;
pub use packet::Packet;
pub use packets::Packets;

/// Dissects any bytes as a capture, for fuzzing.
#[doc(hidden)]
pub fn fuzz(bytes: &[u8]) {
    let Ok(packets) = Packets::new(bytes) else { return };
    let mut dissector = Dissector::new(10_000);
    for packet in packets {
        dissector.add(&packet);
    }
    let dissection = dissector.finish();
    assert!(dissection.rows.iter().all(|row| row.time_us >= 0));
}
