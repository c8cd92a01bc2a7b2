//! The documents that pScheduler passes to the methods.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Value};

use crate::{Error, duration::IsoDuration};

/// A type of test and its parameters.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct TestSpecification {
    /// The type, as in `throughput`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The parameters, in the form of that type.
    pub spec: Map<String, Value>,
}

/// The input of `participant-data`.
#[derive(Debug, Deserialize)]
pub(crate) struct ParticipantInput {
    /// The number of the participant.
    pub participant: usize,
    /// The test.
    pub test: TestSpecification,
}

/// The time of a run.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct Schedule {
    /// Start of the run.
    #[serde(deserialize_with = "timestamp")]
    pub start: Timestamp,
    /// Length of the run, including the times to start and to end the test.
    pub duration: IsoDuration,
}

fn timestamp<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
}

/// The input of `run`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct RunInput {
    /// The time of the run.
    pub schedule: Schedule,
    /// The test.
    pub test: TestSpecification,
    /// The number of this participant.
    pub participant: usize,
    /// The data of all participants.
    pub participant_data: Vec<Value>,
}

/// The input of `merged-results`.
#[derive(Debug, Deserialize)]
pub(crate) struct MergeInput {
    /// The test.
    pub test: TestSpecification,
    /// The result of each participant; null for a participant without one.
    pub results: Vec<Value>,
}

/// Reads a document.
pub(crate) fn read<T: for<'de> Deserialize<'de>>(method: &str, input: &str) -> Result<T, Error> {
    serde_json::from_str(input).map_err(|error| Error::Input(format!("the input of {method}: {error}")))
}
