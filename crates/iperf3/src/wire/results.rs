//! The results that both ends exchange after the data.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    number::{count, maybe_number, maybe_real, maybe_whole, number, real, whole},
    samples::Samples,
};

/// One end's results.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Processor time over wall time, per cent.
    #[serde(deserialize_with = "real", serialize_with = "number")]
    pub cpu_util_total: f64,
    /// User time.
    #[serde(deserialize_with = "real", serialize_with = "number")]
    pub cpu_util_user: f64,
    /// System time.
    #[serde(deserialize_with = "real", serialize_with = "number")]
    pub cpu_util_system: f64,
    /// 1 if the sender's kernel counts retransmissions, 0 if it does not, -1 at a receiver.
    #[serde(deserialize_with = "whole")]
    pub sender_has_retransmits: i64,
    /// Congestion control of this end's sockets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion_used: Option<String>,
    /// The server's output, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_output_text: Option<String>,
    /// The server's output, if it is JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_output_json: Option<Value>,
    /// The streams.
    pub streams: Vec<StreamResult>,
    /// longfat only: samples of this end's sockets, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longfat_samples: Option<Samples>,
    /// longfat only: information about the server's host, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longfat_host: Option<Value>,
    /// longfat only: the fraction of the data phase in which the busiest stream's thread ran, or waited for a
    /// processor.
    #[serde(default, deserialize_with = "maybe_real", skip_serializing_if = "Option::is_none")]
    pub longfat_busy: Option<f64>,
}

/// One end's results of a stream.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamResult {
    /// 1, 3, 4, 5, ...
    #[serde(deserialize_with = "count")]
    pub id: u64,
    /// Payload sent or received, without the omitted beginning.
    #[serde(deserialize_with = "count")]
    pub bytes: u64,
    /// Segments retransmitted; -1 if unknown.
    #[serde(deserialize_with = "whole")]
    pub retransmits: i64,
    /// RFC 3550 jitter, seconds.
    #[serde(deserialize_with = "real", serialize_with = "number")]
    pub jitter: f64,
    /// Datagrams lost.
    #[serde(deserialize_with = "whole")]
    pub errors: i64,
    /// Of these, in the omitted beginning.
    #[serde(default, deserialize_with = "maybe_whole", skip_serializing_if = "Option::is_none")]
    pub omitted_errors: Option<i64>,
    /// Datagrams sent, or the highest number received.
    #[serde(deserialize_with = "whole")]
    pub packets: i64,
    /// Of these, in the omitted beginning.
    #[serde(default, deserialize_with = "maybe_whole", skip_serializing_if = "Option::is_none")]
    pub omitted_packets: Option<i64>,
    /// Start, seconds (0); since iperf 3.2.
    #[serde(
        default,
        deserialize_with = "maybe_real",
        serialize_with = "maybe_number",
        skip_serializing_if = "Option::is_none"
    )]
    pub start_time: Option<f64>,
    /// End, seconds.
    #[serde(
        default,
        deserialize_with = "maybe_real",
        serialize_with = "maybe_number",
        skip_serializing_if = "Option::is_none"
    )]
    pub end_time: Option<f64>,
}

impl Results {
    /// The results of stream `id`.
    pub fn stream(&self, id: u32) -> Option<&StreamResult> {
        self.streams.iter().find(|stream| stream.id == u64::from(id))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire;

    /// A message of iperf 3.12's server.
    const REAL: &str = r#"{"cpu_util_total":14.6,"cpu_util_user":0.3,"cpu_util_system":14.2,"sender_has_retransmits":-1,
        "congestion_used":"cubic","streams":[{"id":1,"bytes":1e+15,"retransmits":18446744073709551615,"jitter":null,"errors":0,
        "omitted_errors":0,"packets":0,"omitted_packets":0,"start_time":0,"end_time":1.000104}],"new key":{}}"#;

    #[test]
    fn a_real_message_is_read() {
        let results: Results = wire::decode(REAL.as_bytes()).unwrap();
        let stream = results.stream(1).unwrap();
        assert_eq!(
            (stream.bytes, stream.jitter, stream.end_time),
            (1_000_000_000_000_000, 0.0, Some(1.000104))
        );
        assert_eq!(stream.retransmits, -1);
        assert_eq!(results.stream(3), None);
    }

    #[test]
    fn a_missing_required_key_is_an_error() {
        for key in ["cpu_util_total", "sender_has_retransmits", "streams", "id", "bytes", "jitter", "packets"]
        {
            let without = REAL.replace(&format!("\"{key}\""), "\"other\"");
            assert!(wire::decode::<Results>(without.as_bytes()).is_err(), "{key}");
        }
        for key in ["congestion_used", "omitted_errors", "start_time", "end_time"] {
            let without = REAL.replace(&format!("\"{key}\""), "\"other\"");
            assert!(wire::decode::<Results>(without.as_bytes()).is_ok(), "{key}");
        }
        assert!(wire::decode::<Results>(REAL.replace("\"bytes\":1e+15", "\"bytes\":-4").as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn results_round_trip(bytes in 0u64..1 << 53, jitter in 0u32..1 << 20, errors in -5i64..1000, end in 0u32..86_400) {
            // Fractions that are exact in binary and decimal.
            let (jitter, end) = (f64::from(jitter) / 1024.0, f64::from(end) / 4.0);
            let stream = StreamResult { id: 3, bytes, jitter, errors, end_time: Some(end), ..StreamResult::default() };
            let results = Results { streams: vec![stream], ..Results::default() };
            let message = wire::encode(&results).unwrap();
            prop_assert_eq!(wire::decode::<Results>(&message[4..]).unwrap(), results);
        }

        #[test]
        fn any_bytes_cause_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = wire::decode::<Results>(&bytes);
        }
    }
}
