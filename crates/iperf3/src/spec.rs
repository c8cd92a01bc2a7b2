//! The specification of a test, as plain data.

use std::{path::PathBuf, time::Duration};

use units::{BitRate, Bytes};

/// Bytes of one datagram's payload (MIN_UDP_BLOCKSIZE, MAX_UDP_BLOCKSIZE).
pub(crate) const UDP_BLOCK: std::ops::RangeInclusive<u64> = 16..=65_507;
/// Default of the bytes of one write (DEFAULT_TCP_BLKSIZE).
pub(crate) const TCP_BLOCK: u64 = 128 << 10;
/// Default of the bytes of one datagram's payload (DEFAULT_UDP_BLKSIZE).
pub(crate) const UDP_BLOCK_DEFAULT: u64 = 1460;

/// The transport protocol of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// One connection per stream.
    Tcp,
    /// Numbered datagrams.
    Udp,
}

/// The direction of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The client.
    Forward,
    /// The server (`-R`).
    Reverse,
    /// Both at once, on separate streams (`--bidir`).
    Both,
}

/// One of the two ends of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It requests the test.
    Client,
    /// It accepts the test.
    Server,
}

/// When a test ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// After this time, without that of `omit`.
    Time(Duration),
    /// After this number of bytes of all streams together.
    Bytes(Bytes),
    /// After this number of blocks (writes, or datagrams) of all streams together.
    Blocks(u64),
}

/// The specification of a test.
#[derive(Debug, Clone, PartialEq)]
pub struct TestSpec {
    /// The transport protocol of the data.
    pub protocol: Protocol,
    /// The direction of the data.
    pub direction: Direction,
    /// Streams in each direction, 1 to 128.
    pub streams: u32,
    /// When it ends.
    pub amount: Amount,
    /// The omitted beginning, which does not count.
    pub omit: Duration,
    /// Bytes of one write or datagram payload.
    pub block: Bytes,
    /// Report interval.
    pub interval: Duration,
    /// Payload bits per second of each stream; `None`: as fast as possible.
    pub rate: Option<BitRate>,
    /// With a rate: blocks that are sent back to back; 0 means 1.
    pub burst: u32,
    /// SO_MAX_PACING_RATE of each stream.
    pub fq_rate: Option<BitRate>,
    /// SO_SNDBUF and SO_RCVBUF at both ends.
    pub window: Option<Bytes>,
    /// SO_SNDBUF of sending sockets, instead of `window`. Only longfat accepts it from the other end.
    pub send_buffer: Option<Bytes>,
    /// SO_RCVBUF of receiving sockets, instead of `window`. Only longfat accepts it from the other end.
    pub receive_buffer: Option<Bytes>,
    /// TCP_MAXSEG.
    pub mss: Option<u32>,
    /// TCP_NODELAY.
    pub nodelay: bool,
    /// The sender's congestion control.
    pub congestion: Option<String>,
    /// IP_TOS or IPV6_TCLASS.
    pub tos: u8,
    /// IPv6 flow label.
    pub flow_label: Option<u32>,
    /// The sender sends without copying (sendfile(2)).
    pub zerocopy: bool,
    /// The receiver discards data without copying it (MSG_TRUNC).
    pub skip_rx_copy: bool,
    /// For TCP tests in one direction: the file that each stream of this end sends, or to which it writes
    /// received data. Not sent to the other end.
    pub file: Option<PathBuf>,
    /// Datagrams may not be fragmented.
    pub dont_fragment: bool,
    /// Send repeated digits instead of random bytes.
    pub repeating_payload: bool,
    /// The processor to which the server's streams are pinned.
    pub server_affinity: Option<u32>,
    /// Datagram numbers of 64 bits.
    pub udp_counters_64bit: bool,
    /// Maximum lateness of this end's datagrams; later ones are skipped. `None`: a burst catches up 100 ms at
    /// most. Not sent to the other end.
    pub max_lateness: Option<Duration>,
    /// The client requests the server's report.
    pub get_server_output: bool,
    /// Printed before each line of text, and in JSON.
    pub title: Option<String>,
    /// Copied to the JSON.
    pub extra_data: Option<String>,
}

impl TestSpec {
    /// One stream from the client as fast as possible, with reports every second and every option off: the
    /// base of a specification that sets some.
    pub fn new(protocol: Protocol, amount: Amount) -> Self {
        TestSpec {
            protocol,
            direction: Direction::Forward,
            streams: 1,
            amount,
            omit: Duration::ZERO,
            block: default_block(protocol, None),
            interval: Duration::from_secs(1),
            rate: None,
            burst: 0,
            fq_rate: None,
            window: None,
            send_buffer: None,
            receive_buffer: None,
            mss: None,
            nodelay: false,
            congestion: None,
            tos: 0,
            flow_label: None,
            zerocopy: false,
            skip_rx_copy: false,
            file: None,
            dont_fragment: false,
            repeating_payload: false,
            server_affinity: None,
            udp_counters_64bit: false,
            max_lateness: None,
            get_server_output: false,
            title: None,
            extra_data: None,
        }
    }
}

/// The default bytes of a write or datagram; UDP's fit the path, of which `mss` is the control connection's
/// MSS.
pub fn default_block(protocol: Protocol, mss: Option<u32>) -> Bytes {
    match protocol {
        Protocol::Tcp => Bytes(TCP_BLOCK),
        Protocol::Udp => {
            let fits = mss.map(u64::from).filter(|mss| UDP_BLOCK.contains(mss));
            Bytes(fits.unwrap_or(UDP_BLOCK_DEFAULT))
        }
    }
}
