//! The observer of an iperf3 server in a test.

use std::{
    net::SocketAddr,
    sync::{Mutex, PoisonError},
};

use iperf3::{
    Observer, ServerObserver,
    report::{Report, ServerOutput},
};

/// Prints nothing and keeps the server's messages.
#[derive(Debug, Default)]
pub struct QuietServer {
    notes: Mutex<Vec<String>>,
}

impl QuietServer {
    /// The messages for the operator.
    pub fn into_notes(self) -> Vec<String> {
        self.notes.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ServerObserver for QuietServer {
    fn note(&self, text: &str) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(text.into());
    }

    fn begin(&self, _: SocketAddr) -> Box<dyn Observer + '_> {
        Box::new(QuietTest)
    }

    fn end(&self, _: SocketAddr, _: &Report, _: Option<&iperf3::Error>) {}

    fn output(&self, report: &Report) -> ServerOutput {
        ServerOutput::Json(iperf3::document::to_json(report))
    }
}

struct QuietTest;

impl Observer for QuietTest {}
