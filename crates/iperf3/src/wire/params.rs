//! The parameters that the client sends to the server, and their conversion from and to a [`TestSpec`]. Each
//! number has iperf3's range (`iperf.h`).

use std::time::Duration;

use serde::{Deserialize, Serialize};
use units::{BitRate, Bytes};

use super::number::{count, flag, maybe_number, maybe_real, maybe_whole, number, real};
use crate::spec::{Amount, Direction, Protocol, TCP_BLOCK, TestSpec, UDP_BLOCK, UDP_BLOCK_DEFAULT};

/// Streams each way (MAX_STREAMS).
pub const STREAMS_MAX: u64 = 128;
/// Seconds; iperf3 has whole seconds only.
const TIME_MIN_S: f64 = 0.001;
/// Seconds (MAX_TIME).
const TIME_MAX_S: f64 = 86_400.0;
/// Seconds (MAX_OMIT_TIME).
const OMIT_MAX_S: f64 = 600.0;
/// Bytes (MAX_TCP_BUFFER).
const WINDOW_MAX: u64 = 512 << 20;
/// Bytes of one write (MAX_BLOCKSIZE).
const TCP_BLOCK_MAX: u64 = 1 << 20;
/// Blocks back to back (MAX_BURST).
const BURST_MAX: u64 = 1000;
/// Bytes (MAX_MSS).
const MSS_MAX: u64 = 32_767;
/// The largest number of a processor (iperf3's range of -A).
const CPU_MAX: u64 = 1024;
/// Characters of a text.
const TEXT_MAX: usize = 1024;
/// Default duration (DURATION), seconds.
const TIME_S: f64 = 10.0;
/// Default rate of a UDP stream (UDP_RATE), bit/s.
const UDP_RATE: u64 = 1 << 20;
/// Default report interval, which the message does not contain.
const INTERVAL: Duration = Duration::from_secs(1);

/// The message, key by key. Zero, false and absent are the same.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(non_snake_case, reason = "iperf3's keys")]
pub struct Params {
    #[serde(deserialize_with = "flag", skip_serializing_if = "is_false")]
    pub(crate) tcp: bool,
    #[serde(deserialize_with = "flag", skip_serializing_if = "is_false")]
    pub(crate) udp: bool,
    #[serde(deserialize_with = "flag", skip_serializing_if = "is_false")]
    pub(crate) sctp: bool,
    /// Sent as whole seconds: peers that parse an integer reject a fraction.
    #[serde(deserialize_with = "real", serialize_with = "number")]
    pub(crate) omit: f64,
    /// Sent as whole seconds. 0 without an amount (iperf3's `-t 0`): until the client ends the test.
    #[serde(
        deserialize_with = "maybe_real",
        serialize_with = "maybe_number",
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) time: Option<f64>,
    #[serde(deserialize_with = "count")]
    pub(crate) num: u64,
    #[serde(deserialize_with = "count")]
    pub(crate) blockcount: u64,
    #[serde(deserialize_with = "count", skip_serializing_if = "is_none")]
    pub(crate) MSS: u64,
    #[serde(deserialize_with = "flag", skip_serializing_if = "is_false")]
    pub(crate) nodelay: bool,
    #[serde(deserialize_with = "count")]
    pub(crate) parallel: u64,
    #[serde(deserialize_with = "flag", skip_serializing_if = "is_false")]
    pub(crate) reverse: bool,
    #[serde(deserialize_with = "flag", skip_serializing_if = "is_false")]
    pub(crate) bidirectional: bool,
    #[serde(deserialize_with = "count", skip_serializing_if = "is_none")]
    pub(crate) window: u64,
    #[serde(deserialize_with = "count")]
    pub(crate) len: u64,
    #[serde(deserialize_with = "count", skip_serializing_if = "is_none")]
    pub(crate) bandwidth: u64,
    #[serde(deserialize_with = "count", skip_serializing_if = "is_none")]
    pub(crate) fqrate: u64,
    #[serde(deserialize_with = "count")]
    pub(crate) pacing_timer: u64,
    #[serde(deserialize_with = "count", skip_serializing_if = "is_none")]
    pub(crate) burst: u64,
    #[serde(deserialize_with = "count", skip_serializing_if = "is_none")]
    pub(crate) TOS: u64,
    #[serde(deserialize_with = "count", skip_serializing_if = "is_none")]
    pub(crate) flowlabel: u64,
    /// Number of a processor, from 0; absent means none.
    #[serde(deserialize_with = "maybe_whole", skip_serializing_if = "Option::is_none")]
    pub(crate) server_affinity: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) extra_data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) congestion: Option<String>,
    #[serde(deserialize_with = "count", skip_serializing_if = "is_none")]
    pub(crate) get_server_output: u64,
    #[serde(deserialize_with = "count", skip_serializing_if = "is_none")]
    pub(crate) udp_counters_64bit: u64,
    #[serde(deserialize_with = "count", skip_serializing_if = "is_none")]
    pub(crate) zerocopy: u64,
    #[serde(deserialize_with = "count", skip_serializing_if = "is_none")]
    pub(crate) dont_fragment: u64,
    #[serde(deserialize_with = "count", skip_serializing_if = "is_none")]
    pub(crate) repeating_payload: u64,
    #[serde(deserialize_with = "count", skip_serializing_if = "is_none")]
    pub(crate) skip_rx_copy: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) authtoken: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_version: Option<String>,
    /// longfat only: the client requests samples of the server's sockets with its results, at this interval,
    /// microseconds.
    #[serde(deserialize_with = "count", skip_serializing_if = "is_none")]
    pub(crate) longfat_sample_us: u64,
    /// longfat only: the client requests information about the server's host: settings and devices.
    #[serde(deserialize_with = "count", skip_serializing_if = "is_none")]
    pub(crate) longfat_host: u64,
    /// longfat only, in sealed parameters: the client's time, seconds since 1970.
    #[serde(deserialize_with = "count", skip_serializing_if = "is_none")]
    pub(crate) longfat_time_s: u64,
    /// longfat only: the client understands [`QueueNotice`](super::QueueNotice).
    #[serde(deserialize_with = "count", skip_serializing_if = "is_none")]
    pub(crate) longfat_queue: u64,
    /// longfat only: `time` if it is not a whole number of seconds, microseconds.
    #[serde(deserialize_with = "count", skip_serializing_if = "is_none")]
    pub(crate) longfat_duration_us: u64,
    /// longfat only: `omit` if it is not a whole number of seconds, microseconds.
    #[serde(deserialize_with = "count", skip_serializing_if = "is_none")]
    pub(crate) longfat_omit_us: u64,
    /// longfat only: SO_SNDBUF of sending sockets, bytes.
    #[serde(deserialize_with = "count", skip_serializing_if = "is_none")]
    pub(crate) longfat_send_buffer: u64,
    /// longfat only: SO_RCVBUF of receiving sockets, bytes.
    #[serde(deserialize_with = "count", skip_serializing_if = "is_none")]
    pub(crate) longfat_receive_buffer: u64,
    /// longfat only: the cookie of a running service's client to which this test belongs, so that it needs no
    /// turn in the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) longfat_session: Option<String>,
    /// Set if a client has sealed the parameters, and the server has no token.
    #[serde(skip_serializing)]
    pub(crate) longfat_sealed: Option<String>,
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_none(value: &u64) -> bool {
    *value == 0
}

/// Why parameters are rejected.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{what} is {value}, which is outside {range}")]
pub struct Refusal {
    /// The parameter.
    pub what: &'static str,
    /// Its value.
    pub value: String,
    /// The allowed values.
    pub range: String,
}

impl Params {
    /// The message that requests `spec`.
    pub fn of(spec: &TestSpec) -> Params {
        let some = |yes: bool| u64::from(yes);
        let time = match spec.amount {
            Amount::Time(time) => Some(time),
            Amount::Bytes(_) | Amount::Blocks(_) => None,
        };
        Params {
            tcp: spec.protocol == Protocol::Tcp,
            udp: spec.protocol == Protocol::Udp,
            // iperf3's server reads an integer and discards the fraction.
            omit: spec.omit.as_secs() as f64,
            longfat_omit_us: fraction_us(spec.omit),
            // The client ends the test; the server's own limit must not come first.
            time: time.map(|time| time.as_secs_f64().ceil()),
            longfat_duration_us: time.map_or(0, fraction_us),
            num: if let Amount::Bytes(bytes) = spec.amount { bytes.0 } else { 0 },
            blockcount: if let Amount::Blocks(blocks) = spec.amount { blocks } else { 0 },
            MSS: spec.mss.map_or(0, u64::from),
            nodelay: spec.nodelay,
            parallel: u64::from(spec.streams),
            reverse: spec.direction == Direction::Reverse,
            bidirectional: spec.direction == Direction::Both,
            window: spec.window.map_or(0, |bytes| bytes.0),
            longfat_send_buffer: spec.send_buffer.map_or(0, |bytes| bytes.0),
            longfat_receive_buffer: spec.receive_buffer.map_or(0, |bytes| bytes.0),
            len: spec.block.0,
            bandwidth: spec.rate.map_or(0, |rate| rate.0),
            fqrate: spec.fq_rate.map_or(0, |rate| rate.0),
            // Old servers pace by this timer, microseconds (DEFAULT_PACING_TIMER).
            pacing_timer: 1000,
            burst: u64::from(spec.burst),
            TOS: u64::from(spec.tos),
            flowlabel: spec.flow_label.map_or(0, u64::from),
            server_affinity: spec.server_affinity.map(i64::from),
            repeating_payload: some(spec.repeating_payload),
            title: spec.title.clone(),
            extra_data: spec.extra_data.clone(),
            congestion: spec.congestion.clone(),
            get_server_output: some(spec.get_server_output),
            udp_counters_64bit: some(spec.udp_counters_64bit),
            zerocopy: some(spec.zerocopy),
            dont_fragment: some(spec.dont_fragment),
            skip_rx_copy: some(spec.skip_rx_copy),
            ..Params::default()
        }
    }

    /// The requested test.
    ///
    /// # Errors
    /// If a parameter is outside its range.
    pub fn spec(&self) -> Result<TestSpec, Refusal> {
        if self.sctp {
            return Err(refusal("the protocol", "SCTP", "TCP and UDP"));
        }
        let protocol = if self.udp { Protocol::Udp } else { Protocol::Tcp };
        let block = match (protocol, self.len) {
            (Protocol::Tcp, 0) => TCP_BLOCK,
            (Protocol::Tcp, len) => within("len", len, 1..=TCP_BLOCK_MAX)?,
            (Protocol::Udp, 0) => UDP_BLOCK_DEFAULT,
            (Protocol::Udp, len) => within("len", len, UDP_BLOCK)?,
        };
        let amount = match (self.num, self.blockcount) {
            (0, 0) => {
                let time = match self.time {
                    None => TIME_S,
                    Some(0.0) => TIME_MAX_S,
                    Some(time) => time,
                };
                let time = exact_s(self.longfat_duration_us, time);
                Amount::Time(seconds("time", time, TIME_MIN_S..=TIME_MAX_S)?)
            }
            (0, blocks) => Amount::Blocks(blocks),
            (bytes, _) => Amount::Bytes(Bytes(bytes)),
        };
        let rate = match (protocol, self.bandwidth) {
            (_, 0) => None,
            (_, rate) => Some(BitRate(rate)),
        };
        let number = |value: u64, what, max: u64| {
            within(what, value, 0..=max).map(|n| u32::try_from(n).unwrap_or(u32::MAX))
        };
        let some = |n: u32| (n > 0).then_some(n);
        Ok(TestSpec {
            protocol,
            direction: match (self.bidirectional, self.reverse) {
                (true, _) => Direction::Both,
                (false, true) => Direction::Reverse,
                (false, false) => Direction::Forward,
            },
            streams: number(self.parallel.max(1), "parallel", STREAMS_MAX)?,
            amount,
            omit: seconds("omit", exact_s(self.longfat_omit_us, self.omit), 0.0..=OMIT_MAX_S)?,
            block: Bytes(block),
            interval: INTERVAL,
            rate,
            burst: number(self.burst, "burst", BURST_MAX)?,
            fq_rate: (self.fqrate > 0).then_some(BitRate(self.fqrate)),
            window: buffer("window", self.window)?,
            send_buffer: buffer("longfat_send_buffer", self.longfat_send_buffer)?,
            receive_buffer: buffer("longfat_receive_buffer", self.longfat_receive_buffer)?,
            mss: some(number(self.MSS, "MSS", MSS_MAX)?),
            nodelay: self.nodelay,
            congestion: text("congestion", self.congestion.as_ref())?,
            tos: number(self.TOS, "TOS", 255)? as u8,
            flow_label: some(number(self.flowlabel, "flowlabel", 0xf_ffff)?),
            server_affinity: match self.server_affinity {
                // Some clients send -1 for none.
                None | Some(-1) => None,
                Some(cpu) => {
                    Some(number(u64::try_from(cpu).unwrap_or(u64::MAX), "server_affinity", CPU_MAX)?)
                }
            },
            repeating_payload: self.repeating_payload > 0,
            zerocopy: self.zerocopy > 0,
            skip_rx_copy: self.skip_rx_copy > 0,
            dont_fragment: self.dont_fragment > 0,
            udp_counters_64bit: self.udp_counters_64bit > 0,
            max_lateness: None,
            file: None,
            get_server_output: self.get_server_output > 0,
            title: text("title", self.title.as_ref())?,
            extra_data: text("extra_data", self.extra_data.as_ref())?,
        })
    }
}

/// The size of socket buffers, 0 for the default.
fn buffer(what: &'static str, bytes: u64) -> Result<Option<Bytes>, Refusal> {
    let bytes = within(what, bytes, 0..=WINDOW_MAX)?;
    Ok((bytes > 0).then_some(Bytes(bytes)))
}

/// `time` in microseconds if it is not a whole number of seconds, otherwise 0.
fn fraction_us(time: Duration) -> u64 {
    if time.subsec_nanos() == 0 { 0 } else { u64::try_from(time.as_micros()).unwrap_or(u64::MAX) }
}

/// The exact value in seconds, if longfat sent it.
fn exact_s(us: u64, rounded_s: f64) -> f64 {
    if us == 0 { rounded_s } else { us as f64 * 1e-6 }
}

/// The default rate of UDP.
pub fn default_udp_rate() -> BitRate {
    BitRate(UDP_RATE)
}

fn refusal(what: &'static str, value: impl ToString, range: impl ToString) -> Refusal {
    Refusal { what, value: value.to_string(), range: range.to_string() }
}

fn within(what: &'static str, value: u64, range: std::ops::RangeInclusive<u64>) -> Result<u64, Refusal> {
    match range.contains(&value) {
        true => Ok(value),
        false => Err(refusal(what, value, format!("{} to {}", range.start(), range.end()))),
    }
}

fn seconds(
    what: &'static str,
    value: f64,
    range: std::ops::RangeInclusive<f64>,
) -> Result<Duration, Refusal> {
    match range.contains(&value) {
        true => Ok(Duration::from_secs_f64(value)),
        false => Err(refusal(what, value, format!("{} to {} seconds", range.start(), range.end()))),
    }
}

fn text(what: &'static str, value: Option<&String>) -> Result<Option<String>, Refusal> {
    match value {
        Some(long) if long.len() > TEXT_MAX => {
            Err(refusal(what, format!("{} bytes long", long.len()), format!("{TEXT_MAX} bytes")))
        }
        other => Ok(other.filter(|text| !text.is_empty()).cloned()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire;

    /// The message of iperf 3.12's client with `-P 2 -w 256K -R -C reno -b 10M/4 -S 0x10 -N`.
    const REAL: &str = r#"{"tcp":true,"omit":0,"time":3,"num":0,"blockcount":0,"nodelay":true,"parallel":2,"reverse":true,
        "window":262144,"len":131072,"bandwidth":10000000,"pacing_timer":1000,"burst":4,"TOS":16,"congestion":"reno",
        "client_version":"3.12"}"#;

    #[test]
    fn a_real_message_is_read() {
        let spec = wire::decode::<Params>(REAL.as_bytes()).unwrap().spec().unwrap();
        assert_eq!((spec.protocol, spec.direction, spec.streams), (Protocol::Tcp, Direction::Reverse, 2));
        assert_eq!(spec.amount, Amount::Time(Duration::from_secs(3)));
        assert_eq!((spec.window, spec.block), (Some(Bytes(262_144)), Bytes(131_072)));
        assert_eq!((spec.rate, spec.burst, spec.tos), (Some(BitRate(10_000_000)), 4, 16));
        assert_eq!((spec.nodelay, spec.congestion.as_deref()), (true, Some("reno")));
    }

    #[test]
    fn missing_keys_have_iperf3s_defaults() {
        let spec = Params::default().spec().unwrap();
        assert_eq!((spec.protocol, spec.direction, spec.streams), (Protocol::Tcp, Direction::Forward, 1));
        assert_eq!(spec.amount, Amount::Time(Duration::from_secs(10)));
        assert_eq!((spec.block, spec.rate), (Bytes(131_072), None));
    }

    /// The message of iperf 3.12's client with `-t 0`, whose server sets no limit then.
    #[test]
    fn a_time_of_zero_lasts_until_the_client_ends_the_test() {
        let text = r#"{"tcp":true,"omit":0,"time":0,"num":0,"blockcount":0,"parallel":1,"len":131072,"pacing_timer":1000,
            "client_version":"3.12"}"#;
        let amount = |text: &str| wire::decode::<Params>(text.as_bytes()).unwrap().spec().unwrap().amount;
        assert_eq!(amount(text), Amount::Time(Duration::from_secs(86_400)));
        assert_eq!(amount(&text.replace("\"num\":0", "\"num\":5")), Amount::Bytes(Bytes(5)));
        assert_eq!(amount("{}"), Amount::Time(Duration::from_secs(10)));
    }

    #[test]
    fn each_number_has_a_range() {
        for bad in [
            r#"{"parallel":129}"#,
            r#"{"time":86401}"#,
            r#"{"time":-1}"#,
            r#"{"time":1e-9}"#,
            r#"{"omit":601}"#,
            r#"{"window":536870913}"#,
            r#"{"len":1048577}"#,
            r#"{"udp":true,"len":15}"#,
            r#"{"MSS":32768}"#,
            r#"{"burst":1001}"#,
            r#"{"TOS":256}"#,
            r#"{"sctp":true}"#,
        ] {
            let refused = wire::decode::<Params>(bad.as_bytes()).unwrap().spec();
            assert!(refused.is_err(), "{bad}: {refused:?}");
        }
        assert!(wire::decode::<Params>(br#"{"parallel":-1}"#).is_err());
        assert!(wire::decode::<Params>(br#"{"parallel":"2"}"#).is_err());
        assert!(wire::decode::<Params>(b"7").is_err());
    }

    /// Peers that parse integers (riperf3: `i32`) reject `1.0`.
    #[test]
    fn all_numbers_that_are_sent_are_integers() {
        let ms = Duration::from_millis;
        for (time, omit) in [(ms(1000), ms(0)), (ms(200), ms(500)), (ms(86_400_000), ms(600_000))] {
            let spec = TestSpec { amount: Amount::Time(time), omit, ..Params::default().spec().unwrap() };
            let message = wire::encode(&Params::of(&spec)).unwrap();
            let document: serde_json::Value = wire::decode(&message[4..]).unwrap();
            for (key, value) in document.as_object().unwrap() {
                assert!(!value.is_f64(), "{key}: {value}");
            }
            assert_eq!(document["time"], time.as_secs_f64().ceil() as u64);
            assert_eq!(wire::decode::<Params>(&message[4..]).unwrap().spec().unwrap(), spec);
        }
    }

    /// The message of riperf3 0.8.0's client with `-u -b 5M -P 4 -R -t 1`.
    #[test]
    fn a_message_of_riperf3_is_read() {
        let text = r#"{"bandwidth":5000000,"client_version":"riperf3 0.8.0","len":32741,"omit":0,"pacing_timer":1000,"parallel":4,
            "reverse":true,"time":1,"udp":true}"#;
        let spec = wire::decode::<Params>(text.as_bytes()).unwrap().spec().unwrap();
        assert_eq!((spec.protocol, spec.direction, spec.streams), (Protocol::Udp, Direction::Reverse, 4));
        assert_eq!(
            (spec.rate, spec.amount),
            (Some(BitRate(5_000_000)), Amount::Time(Duration::from_secs(1)))
        );
    }

    proptest! {
        #[test]
        fn a_spec_round_trips(
            streams in 1u32..=128, direction in 0usize..3, amount in 0..3, size in 1u64..1 << 50, rate in 0u64..1 << 40,
            window in 0u64..=WINDOW_MAX, mss in 0u32..=32_767, flags in 0u32..128, tos: u8,
        ) {
            let spec = TestSpec {
                direction: [Direction::Forward, Direction::Reverse, Direction::Both][direction],
                streams,
                amount: match amount {
                    0 => Amount::Bytes(Bytes(size)),
                    1 => Amount::Blocks(size),
                    _ => Amount::Time(Duration::from_millis(1 + size % 86_000_000)),
                },
                rate: (rate > 0).then_some(BitRate(rate)),
                window: (window > 0).then_some(Bytes(window)),
                mss: (mss > 0).then_some(mss),
                nodelay: flags & 1 > 0,
                zerocopy: flags & 2 > 0,
                skip_rx_copy: flags & 4 > 0,
                get_server_output: flags & 8 > 0,
                congestion: (flags & 16 > 0).then(|| "bbr".into()),
                tos,
                ..Params::default().spec().unwrap()
            };
            let message = wire::encode(&Params::of(&spec)).unwrap();
            let back = wire::decode::<Params>(&message[4..]).unwrap().spec().unwrap();
            prop_assert_eq!(back, spec);
        }

        #[test]
        fn any_bytes_cause_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = wire::decode::<Params>(&bytes).map(|params| params.spec());
        }

        #[test]
        fn arbitrary_values_of_keys_cause_no_panic(key in "[a-zA-Z_]{1,12}|time|omit|num|len|parallel", value in -1e300f64..1e300) {
            let text = serde_json::json!({ key: value }).to_string();
            let _ = wire::decode::<Params>(text.as_bytes()).map(|params| params.spec());
        }
    }
}
