//! Decodes flows of UDT, Tsunami and QUIC, and real-time streams.

use units::{BitRate, Bytes, Time};

use crate::{
    decode_cc::decode_cc,
    read::{Keys, Reader},
    trace_file::Files,
    types::{QuicSpec, StreamSpec, TsunamiSpec, UdtSpec},
};

pub(crate) const UDT: Keys = Keys {
    what: "a udt flow",
    known: &[
        "name",
        "from",
        "to",
        "kind",
        "start",
        "stop",
        "size",
        "control",
        "rate",
        "tolerate_loss",
        "receive_buffer",
    ],
    nested: None,
};
pub(crate) const TSUNAMI: Keys = Keys {
    what: "a tsunami flow",
    known: &["name", "from", "to", "kind", "start", "stop", "size", "rate", "block", "error_threshold"],
    nested: None,
};

pub(crate) const STREAM: Keys = Keys {
    what: "a stream flow",
    known: &[
        "name",
        "from",
        "to",
        "kind",
        "start",
        "stop",
        "rate",
        "packet",
        "size",
        "deadline",
        "repair",
        "tolerate_loss",
    ],
    nested: None,
};

pub(crate) const QUIC: Keys = Keys {
    what: "a quic flow",
    known: &["name", "from", "to", "kind", "start", "stop", "size", "cc", "receive_buffer"],
    nested: None,
};

/// Lowest rate: one packet in more than ten seconds would look like a broken connection.
const MIN_RATE: BitRate = BitRate(1_000);
/// Largest receive buffer of UDT: 2^22 packets of 1500 B, about the longest that sequence numbers allow.
const MAX_UDT_BUFFER: Bytes = Bytes(1500 << 22);
/// Smallest and largest flow-control window of QUIC: a few packets, and the largest 32-bit number.
const MIN_QUIC_BUFFER: Bytes = Bytes(4_000);
const MAX_QUIC_BUFFER: Bytes = Bytes(4_000_000_000);
/// The largest rate that Tsunami's parameters carry: 32 bits.
const MAX_TSUNAMI_RATE: BitRate = BitRate(u32::MAX as u64);
/// Largest block: an IPv4 datagram without the headers of IP, UDP and Tsunami.
const MAX_BLOCK: Bytes = Bytes(65_535 - 20 - 8 - 6);
/// Maximum number of blocks: a Tsunami server counts them with 32 bits.
const MAX_BLOCKS: u64 = u32::MAX as u64 - 1;
/// Largest payload of a stream's packet: an IPv4 datagram without the headers of IP, UDP and the stream.
const MAX_STREAM_PACKET: Bytes = Bytes(65_535 - 20 - 8 - 8);
/// Longest delay of a play-out: its packets wait in memory.
const MAX_DEADLINE: Time = Time::from_secs(60);
/// The smallest block that any MTU allows.
const MIN_DEFAULT_BLOCK: u64 = 500;
/// Tsunami counts error rates in units of 1/100,000.
const ERROR_UNITS: f64 = 100_000.0;

pub(crate) fn decode_udt(reader: &mut Reader) -> UdtSpec {
    let rate = rate(reader);
    let tolerate_loss = reader.share("tolerate_loss");
    if rate.is_some() && tolerate_loss.is_some() {
        let message = "a flow with a \"rate\" does not react to losses";
        reader.report("tolerate_loss", message, "remove one of the two");
    }
    let sabul = reader.choice("control", &[("udt", false), ("sabul", true)]).unwrap_or(false);
    for (key, is_used) in [("rate", rate.is_some()), ("tolerate_loss", tolerate_loss.is_some())] {
        if sabul && is_used {
            let message = format!("\"{key}\" belongs to UDT's rate control, not to SABUL's");
            reader.report(key, message, "remove it, or \"control\"");
        }
    }
    let receive_buffer = reader.size("receive_buffer");
    if let Some(buffer) = receive_buffer.filter(|buffer| *buffer > MAX_UDT_BUFFER) {
        reader.report(
            "receive_buffer",
            format!("UDT cannot have a buffer of {buffer}"),
            "write at most 6GB: sequence numbers have 31 bits",
        );
    }
    UdtSpec { size: reader.size("size"), rate, tolerate_loss, sabul, receive_buffer }
}

pub(crate) fn decode_tsunami(reader: &mut Reader) -> TsunamiSpec {
    let rate = rate(reader);
    if let Some(rate) = rate.filter(|rate| *rate > MAX_TSUNAMI_RATE) {
        reader.report("rate", format!("Tsunami cannot send at {rate}"), "write at most 4.29gbit");
    }
    let block = reader.size("block");
    if let Some(block) = block.filter(|block| *block > MAX_BLOCK) {
        let help = format!("write at most {}B", MAX_BLOCK.0);
        reader.report("block", format!("a datagram cannot carry a block of {block}"), help);
    }
    let size = reader.size("size");
    let smallest = block.map_or(MIN_DEFAULT_BLOCK, |block| block.0);
    if let Some(size) = size.filter(|size| size.0.div_ceil(smallest) > MAX_BLOCKS) {
        let block = Bytes(smallest);
        let message = format!("a size of {size} has more blocks of {block} than Tsunami can number");
        reader.report("size", message, "write a larger block or a smaller size");
    }
    let error_threshold = reader.share("error_threshold");
    if error_threshold.is_some_and(|share| share * ERROR_UNITS >= ERROR_UNITS) {
        reader.report(
            "error_threshold",
            "\"error_threshold\" must be below 100 %",
            "write for example \"7.5%\"",
        );
    }
    TsunamiSpec { size, rate, block, error_threshold }
}

pub(crate) fn decode_stream(reader: &mut Reader) -> StreamSpec {
    reader.required("rate", "\"512mbit\"");
    let packet = reader.size("packet");
    if let Some(packet) = packet.filter(|packet| *packet > MAX_STREAM_PACKET) {
        let help = format!("write at most {}B", MAX_STREAM_PACKET.0);
        reader.report("packet", format!("a datagram cannot carry {packet} of a stream"), help);
    }
    let deadline = reader.positive_time("deadline");
    if let Some(deadline) = deadline.filter(|deadline| *deadline > MAX_DEADLINE) {
        reader.report("deadline", format!("\"deadline\" cannot be {deadline}"), "write at most 60s");
    }
    StreamSpec {
        rate: rate(reader).unwrap_or_default(),
        packet,
        size: reader.size("size"),
        deadline: deadline.unwrap_or(StreamSpec::DEFAULT_DEADLINE),
        repair: reader.boolean("repair").unwrap_or(false),
        tolerate_loss: reader.share("tolerate_loss").unwrap_or(StreamSpec::DEFAULT_TOLERANCE),
    }
}

pub(crate) fn decode_quic(reader: &mut Reader, files: &Files) -> QuicSpec {
    let receive_buffer = reader.size("receive_buffer");
    if let Some(buffer) =
        receive_buffer.filter(|buffer| !(MIN_QUIC_BUFFER..=MAX_QUIC_BUFFER).contains(buffer))
    {
        let message = format!("QUIC's flow-control window cannot be {buffer}");
        reader.report("receive_buffer", message, "write 4kB to 4GB");
    }
    QuicSpec { size: reader.size("size"), cc: decode_cc(reader, files), receive_buffer }
}

fn rate(reader: &mut Reader) -> Option<BitRate> {
    let rate = reader.rate("rate")?;
    if rate < MIN_RATE {
        reader.report("rate", format!("\"rate\" cannot be {rate}"), "write at least 1kbit");
    }
    Some(rate)
}
