//! The data that participants exchange before a run: the server's port, and the secret that its client must know.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{Error, documents::ParticipantInput, throughput};

/// The version of this data.
const SCHEMA: u32 = 1;
/// Bytes of a run's secret.
const SECRET_BYTES: usize = 16;

/// The data of the participant that runs the server of a throughput test.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ServerData {
    /// Its TCP and UDP port.
    pub port: u16,
    /// The secret of this run. pScheduler shows members that begin with an underscore to the participants only.
    #[serde(rename = "_secret")]
    pub secret: String,
}

/// The data of a participant.
pub(crate) fn data(input: &ParticipantInput, port: u16) -> Result<Value, Error> {
    let mut data = json!({ "schema": SCHEMA });
    if input.test.kind != throughput::NAME || input.participant != throughput::SERVER {
        return Ok(data);
    }
    let secret = os::random_hex(SECRET_BYTES)
        .map_err(|error| Error::System { what: "cannot draw a random number", cause: error.to_string() })?;
    let server = serde_json::to_value(ServerData { port, secret });
    let server =
        server.map_err(|error| Error::System { what: "cannot write JSON", cause: error.to_string() })?;
    if let (Some(data), Value::Object(server)) = (data.as_object_mut(), server) {
        data.extend(server);
    }
    Ok(data)
}
