//! A test that this point leads, and how it ended.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool, mpsc::Receiver},
};

use super::{Endpoint, Figures, TestOptions, TestParameters};

/// A test that this point leads.
#[derive(Debug)]
pub(crate) struct LeadJob {
    /// The reservation.
    pub id: String,
    /// The name of this point.
    pub from: String,
    /// The other point.
    pub to: String,
    /// Its host.
    pub host: String,
    /// The protocol of a latency test.
    pub latency_protocol: stamp::Protocol,
    /// The ports of both agents, whose connections are not the application's.
    pub mesh_ports: Vec<u16>,
    /// The parameters of the test.
    pub parameters: TestParameters,
    /// The options of a throughput test.
    pub options: TestOptions,
    /// Directory of records.
    pub runs_dir: PathBuf,
    /// Receives the address of the other end's server.
    pub endpoint: Receiver<Endpoint>,
    /// Set to end the test.
    pub stop: Arc<AtomicBool>,
}

/// How a test ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct Measured {
    /// The figures so far.
    pub figures: Figures,
    /// The record.
    pub record: Option<PathBuf>,
    /// The reason why the test failed.
    pub error: Option<String>,
}

impl Measured {
    pub(super) fn failed(error: impl ToString) -> Self {
        Measured { error: Some(error.to_string()), ..Measured::default() }
    }
}

/// An error with its causes.
pub(super) fn error_text(error: &measurement::Error) -> String {
    measurement::error::chain(error)
}
