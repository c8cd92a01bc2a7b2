//! A test that runs at this point.

use std::sync::{Arc, atomic::AtomicBool, mpsc::Sender};

use units::Instant;

use crate::test::{Endpoint, TransferReport};

/// A test that runs here.
pub(super) struct TestRun {
    /// Distinguishes it from an earlier run of the same reservation.
    pub number: u64,
    /// Set to end it.
    pub stop: Arc<AtomicBool>,
    pub part: TestPart,
}

/// The role of this point in a test.
pub(super) enum TestPart {
    /// This point leads the test: it measures.
    Lead {
        /// Receives the address of the other end's server; `None` once it is known.
        endpoint: Option<Sender<Endpoint>>,
        /// When to repeat the request, steady clock.
        request_at: Instant,
        /// The application's report of its transfer.
        report: Option<TransferReport>,
    },
    /// This point is the peer of the test: it runs the server.
    Peer {
        /// Address of this point's server.
        endpoint: Option<Endpoint>,
        /// The result that the lead has reported.
        result: Option<Result<(), String>>,
    },
}
