//! The data that the server of a throughput test sends to its client before the run: the port, and the secret
//! that the client must know.

use serde::{Deserialize, Serialize};

use crate::Error;

/// Bytes of a run's secret.
const SECRET_BYTES: usize = 16;

/// The data of the participant that runs the server of a throughput test.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ServerData {
    /// The TCP and UDP port of the server.
    pub port: u16,
    /// The secret of this run. pScheduler shows members that begin with an underscore to the participants
    /// only.
    #[serde(rename = "_secret")]
    pub secret: String,
}

impl ServerData {
    /// The data of a new run, with a new secret.
    pub fn new(port: u16) -> Result<Self, Error> {
        let secret = os::random_hex(SECRET_BYTES).map_err(|error| Error::System {
            what: "cannot draw a random number",
            cause: error.to_string(),
        })?;
        Ok(ServerData { port, secret })
    }
}
