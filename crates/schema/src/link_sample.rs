//! One row of `links.parquet`: one direction of a link at one instant.

use crate::{LinkDirection, table::table};

table! {
    /// One direction of a link at one instant. Counters start at the run's start.
    pub struct LinkSample {
        keys {
            /// Time since the run's start, in microseconds.
            time_us: i64,
            /// The link's name, as in `s1-s2`.
            link: String,
            /// Which direction of the link.
            direction: LinkDirection,
        }
        metrics {
            rate_bps = "wire rate that left the queue since the last sample, overhead included",
            queue_bytes = "bytes in the queue now, overhead included",
            max_queue_bytes = "maximum number of bytes in the queue since the last sample",
            sent_packets = "packets (segments) that left the queue",
            sent_bytes = "bytes that left the queue, overhead included",
            dropped_queue_packets = "packets dropped because the queue was full",
            dropped_loss_packets = "packets lost by the link's loss model",
            dropped_aqm_packets = "packets that the queue's discipline dropped by its own decision",
            marked_packets = "packets that the queue marked: congestion experienced",
        }
    }
}
