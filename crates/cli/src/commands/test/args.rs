//! The options of `longfat test`: iperf3's, with iperf3's names, and longfat's; checked and converted to a
//! client's options.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use iperf3::{
    ClientOptions, Credentials, Padding, Token,
    document::RateUnit,
    report::{Amount, Direction, Protocol, TestSpec},
    wire,
};
use units::{BitRate, Bytes};

use super::unattended::UnattendedArgs;
use crate::{
    config_file::Config,
    exit::Exit,
    ip_version::IpVersionArgs,
    iperf3_values::{self, Bitrate, Until},
};

/// iperf3's port.
const DEFAULT_PORT: u16 = 5201;
/// Default duration of a test (as in iperf3).
const DEFAULT_TIME: Duration = Duration::from_secs(10);
/// Default maximum duration of `-t auto`.
const DEFAULT_MAX_TIME: Duration = Duration::from_secs(120);

/// Options of `test`.
#[derive(Debug, Args)]
pub struct TestArgs {
    /// The other end: a name or an address where `longfat serve` or `iperf3 -s` runs; `listen` if only that
    /// end can open connections (`longfat serve --reverse-connect` there)
    host: String,
    /// The server's port [default: 5201, or 5001 with --iperf2]
    #[arg(short, long)]
    port: Option<u16>,
    /// Test with a server of iperf 2: `iperf -s`, or `longfat serve --iperf2`
    #[arg(long, conflicts_with_all = ["omit", "latency", "get_server_output", "token", "username", "file", "queue_timeout", "udp_counters_64bit"])]
    pub iperf2: bool,

    /// Duration of the test, in seconds or as in 500ms; `auto`: until goodput is known within 2 %
    #[arg(short, long, value_name = "TIME|auto", value_parser = iperf3_values::until, help_heading = "What to send")]
    time: Option<Until>,
    /// Maximum duration of `-t auto`
    #[arg(long, value_name = "TIME", value_parser = iperf3_values::time, help_heading = "What to send")]
    max_time: Option<Duration>,
    /// Number of bytes to send instead of -t (K, M, G are powers of 1024; or as in 10MB)
    #[arg(short = 'n', long, value_name = "BYTES", value_parser = iperf3_values::bytes, conflicts_with_all = ["time", "blockcount"], help_heading = "What to send")]
    bytes: Option<Bytes>,
    /// Number of blocks to send instead of -t
    #[arg(short = 'k', long, value_name = "BLOCKS", value_parser = iperf3_values::count, conflicts_with = "time", help_heading = "What to send")]
    blockcount: Option<u64>,
    /// Omit the first part from all figures, in seconds or as in 500ms
    #[arg(short = 'O', long, value_name = "TIME", value_parser = iperf3_values::time, help_heading = "What to send")]
    omit: Option<Duration>,
    /// Bytes per write or datagram
    #[arg(short, long, value_name = "BYTES", value_parser = iperf3_values::bytes, help_heading = "What to send")]
    length: Option<Bytes>,
    /// Payload rate per stream, as in 100M or 100mbit, 0 for no limit; /N sends bursts of N blocks
    #[arg(short = 'b', long, value_name = "RATE[/N]", value_parser = iperf3_values::bitrate, help_heading = "What to send")]
    bitrate: Option<Bitrate>,

    /// Send UDP datagrams, at 1 Mb/s unless -b is given
    #[arg(short, long, conflicts_with_all = ["set_mss", "no_delay", "congestion", "zerocopy", "skip_rx_copy", "repeating_payload"], help_heading = "What to send")]
    udp: bool,
    /// With -u: send as fast as possible (same as -b 0)
    #[arg(long, requires = "udp", conflicts_with = "bitrate", help_heading = "What to send")]
    max: bool,
    /// Use 64-bit sequence numbers in datagrams
    #[arg(long, requires = "udp", help_heading = "What to send")]
    udp_counters_64bit: bool,
    /// Set the don't-fragment bit of datagrams (IPv4)
    #[arg(long, requires = "udp", help_heading = "What to send")]
    dont_fragment: bool,

    /// Number of parallel streams, 1 to 128
    #[arg(short = 'P', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=128), help_heading = "Streams")]
    parallel: u32,
    /// The server sends
    #[arg(short = 'R', long, help_heading = "Streams")]
    reverse: bool,
    /// Both ends send, on separate streams
    #[arg(long, conflicts_with = "reverse", help_heading = "Streams")]
    bidir: bool,
    /// Socket buffer size of both ends, as requested of the kernel, which doubles it
    #[arg(short = 'w', long, value_name = "BYTES", value_parser = iperf3_values::bytes, help_heading = "Streams")]
    window: Option<Bytes>,
    /// Maximum segment size (TCP_MAXSEG)
    #[arg(short = 'M', long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(88..=32_767), help_heading = "Streams")]
    set_mss: Option<u32>,
    /// Disable Nagle's algorithm (TCP_NODELAY)
    #[arg(short = 'N', long, help_heading = "Streams")]
    no_delay: bool,
    /// The sender's congestion control: one of the kernel's or of longfat's (see `longfat cc list`)
    #[arg(short = 'C', long, value_name = "NAME", help_heading = "Streams")]
    congestion: Option<String>,
    /// Maximum pacing rate of each stream (SO_MAX_PACING_RATE)
    #[arg(long, value_name = "RATE", value_parser = iperf3_values::rate, help_heading = "Streams")]
    fq_rate: Option<BitRate>,
    /// Send without copying (sendfile)
    #[arg(short = 'Z', long, help_heading = "Streams")]
    zerocopy: bool,
    /// Discard received data without copying it (MSG_TRUNC)
    #[arg(long, help_heading = "Streams")]
    skip_rx_copy: bool,
    /// Type of service: decimal, octal (0...) or hexadecimal (0x...)
    #[arg(short = 'S', long, value_name = "N", value_parser = iperf3_values::tos, help_heading = "Streams")]
    tos: Option<u8>,
    /// Type of service as the name or number of a DSCP
    #[arg(long, value_name = "DSCP", value_parser = iperf3_values::dscp, conflicts_with = "tos", help_heading = "Streams")]
    dscp: Option<u8>,
    /// The IPv6 flow label, decimal or hexadecimal (0x...)
    #[arg(short = 'L', long, value_name = "N", value_parser = iperf3_values::flow_label, help_heading = "Streams")]
    flowlabel: Option<u32>,
    /// Send repeating digits instead of random bytes
    #[arg(long, help_heading = "Streams")]
    repeating_payload: bool,
    /// CPU affinity of the streams here, and after a comma at the server
    #[arg(short = 'A', long, value_name = "CPU[,CPU]", value_parser = iperf3_values::affinity, help_heading = "Streams")]
    affinity: Option<(usize, Option<u32>)>,
    /// Send this file once; with -R, write received data to it (TCP)
    #[arg(short = 'F', long, value_name = "FILE", conflicts_with_all = ["udp", "bidir", "repeating_payload", "skip_rx_copy"], help_heading = "What to send")]
    file: Option<PathBuf>,
    /// Ignored: datagrams and blocks are always sent at their exact times
    #[arg(long, hide = true, value_name = "N")]
    pacing_timer: Option<String>,
    /// CPUs for the streams here, assigned in turn, as in 2,3
    #[arg(
        long,
        value_name = "CPU,CPU...",
        value_delimiter = ',',
        conflicts_with = "affinity",
        help_heading = "Streams"
    )]
    pin: Vec<usize>,

    #[command(flatten, next_help_heading = "Connection")]
    ip_version: IpVersionArgs,
    /// Local address, or address%device
    #[arg(short = 'B', long, value_name = "ADDRESS", value_parser = iperf3_values::bind, help_heading = "Connection")]
    bind: Option<(IpAddr, Option<String>)>,
    /// Local device
    #[arg(long, value_name = "DEVICE", help_heading = "Connection")]
    bind_dev: Option<String>,
    /// Local port
    #[arg(long, value_name = "PORT", help_heading = "Connection")]
    cport: Option<u16>,
    /// Connection timeout, in milliseconds or as in 2s
    #[arg(long, value_name = "MS", value_parser = iperf3_values::milliseconds, default_value = "10000", help_heading = "Connection")]
    connect_timeout: Duration,
    /// Maximum time to wait in the server's queue
    #[arg(long, value_name = "TIME", value_parser = iperf3_values::time, default_value = "600", help_heading = "Connection")]
    queue_timeout: Duration,
    /// Timeout without any received data, in milliseconds or as in 2s
    #[arg(long, value_name = "MS", value_parser = iperf3_values::milliseconds, default_value = "120000", help_heading = "Connection")]
    rcv_timeout: Duration,
    /// Timeout without acknowledgement of sent data, in milliseconds or as in 2s
    #[arg(long, value_name = "MS", value_parser = iperf3_values::milliseconds, help_heading = "Connection")]
    snd_timeout: Option<Duration>,
    #[command(flatten)]
    identity: Identity,

    /// Measure the round-trip time of small datagrams before and during the test (needs a longfat server)
    #[arg(long, conflicts_with = "udp", help_heading = "Reports")]
    latency: bool,
    /// Report interval, in seconds or as in 10ms; 0 for none
    #[arg(short, long, value_name = "TIME", value_parser = iperf3_values::interval, default_value = "1", help_heading = "Reports")]
    interval: Duration,
    /// Unit of rates: k, m, g, t for bits, K, M, G, T for bytes
    #[arg(short, long, value_name = "UNIT", help_heading = "Reports")]
    pub format: Option<RateUnit>,
    /// Print the server's report too
    #[arg(long, help_heading = "Reports")]
    get_server_output: bool,
    /// Prefix of each line
    #[arg(short = 'T', long, value_name = "TEXT", help_heading = "Reports")]
    title: Option<String>,
    /// Text to include in the JSON
    #[arg(long, value_name = "TEXT", help_heading = "Reports")]
    extra_data: Option<String>,
    /// Print more details
    #[arg(short = 'V', long, help_heading = "Reports")]
    pub verbose: bool,
    #[command(flatten)]
    pub unattended: UnattendedArgs,
    /// Print iperf3's JSON
    #[arg(short = 'J', long, conflicts_with = "json_stream", help_heading = "Reports")]
    pub iperf3_json: bool,
    /// Print iperf3's JSON stream, one event per line
    #[arg(long, help_heading = "Reports")]
    pub json_stream: bool,
    /// Write no record
    #[arg(long, help_heading = "Reports")]
    pub no_record: bool,
    /// Sample interval of the sockets, for the record
    #[arg(long, value_name = "TIME", value_parser = iperf3_values::interval, default_value = "10ms", help_heading = "Reports")]
    pub sample: Duration,
}

/// Authentication, for servers that require it.
#[derive(Debug, Default, Args)]
pub struct Identity {
    /// File with the shared secret of a `longfat serve --token` [default: the one that `longfat config` has
    /// for the host]
    #[arg(long, value_name = "FILE", conflicts_with = "username", help_heading = "Connection")]
    token: Option<PathBuf>,
    /// User name at the server; the password is taken from IPERF3_PASSWORD
    #[arg(long, value_name = "NAME", requires = "rsa_public_key_path", help_heading = "Connection")]
    username: Option<String>,
    /// The server's public key (PEM)
    #[arg(long, value_name = "FILE", requires = "username", help_heading = "Connection")]
    rsa_public_key_path: Option<PathBuf>,
    /// Use the PKCS#1 padding of iperf3 before 3.17
    #[arg(long, help_heading = "Connection")]
    use_pkcs1_padding: bool,
}

impl Identity {
    /// Reads the token's file: the given one, or the one that the configuration has for `host`.
    pub fn token(&self, host: &str) -> anyhow::Result<Option<Token>> {
        self.token_file(host)?.as_deref().map(token).transpose()
    }

    /// Whether the client authenticates at `host`.
    pub fn is_given(&self, host: &str) -> anyhow::Result<bool> {
        Ok(self.username.is_some() || self.token_file(host)?.is_some())
    }

    fn token_file(&self, host: &str) -> anyhow::Result<Option<PathBuf>> {
        match (&self.token, &self.username) {
            (None, None) => Ok(Config::read()?.token_of(host)),
            (given, _) => Ok(given.clone()),
        }
    }

    /// The user name and the password.
    pub fn credentials(&self) -> anyhow::Result<Option<Credentials>> {
        let (Some(user), Some(key)) = (&self.username, &self.rsa_public_key_path) else { return Ok(None) };
        let password = std::env::var("IPERF3_PASSWORD")
            .map_err(|_| Exit::BadInput("the password of --username must be in IPERF3_PASSWORD".into()))?;
        let padding = if self.use_pkcs1_padding { Padding::Pkcs1 } else { Padding::Oaep };
        let credentials = Credentials::new(user, &password, key, padding);
        Ok(Some(credentials.map_err(|error| Exit::BadInput(error.to_string()))?))
    }
}

/// Reads a token from a file.
pub fn token(path: &Path) -> anyhow::Result<Token> {
    Ok(Token::read(path).map_err(|error| Exit::BadInput(error.to_string()))?)
}

impl TestArgs {
    /// Whether the test ends when the goodput is known.
    pub fn is_auto(&self) -> bool {
        self.time == Some(Until::Known)
    }

    /// The requested congestion control.
    pub fn congestion(&self) -> Option<&str> {
        self.congestion.as_deref()
    }

    /// The options of the client.
    pub fn options(&self) -> anyhow::Result<ClientOptions> {
        let spec = self.spec()?;
        let (bind, device) = match &self.bind {
            Some((address, device)) => (Some(*address), device.clone().or_else(|| self.bind_dev.clone())),
            None => (None, self.bind_dev.clone()),
        };
        Ok(ClientOptions {
            port: self.port.unwrap_or(if self.iperf2 { iperf2::DEFAULT_PORT } else { DEFAULT_PORT }),
            ip: self.ip_version.required(),
            bind,
            device,
            client_port: self.cport,
            connect_timeout: self.connect_timeout,
            queue_timeout: self.queue_timeout,
            idle_timeout: Some(self.rcv_timeout),
            latency: self.latency,
            credentials: self.identity.credentials()?,
            token: if self.iperf2 { None } else { self.identity.token(&self.host)? },
            send_timeout: self.snd_timeout,
            pin: self.affinity.map_or(self.pin.clone(), |(here, _)| vec![here]),
            fit_block: self.udp && self.length.is_none(),
            ..ClientOptions::new(&self.host, spec)
        })
    }

    fn spec(&self) -> anyhow::Result<TestSpec> {
        if self.bytes == Some(Bytes(0)) || self.blockcount == Some(0) {
            return Err(Exit::BadInput("the amount of a test (-n, -k) must be above zero".into()).into());
        }
        let amount = match (self.bytes, self.blockcount, self.time) {
            (Some(bytes), ..) => Amount::Bytes(bytes),
            (_, Some(blocks), _) => Amount::Blocks(blocks),
            (_, _, Some(Until::Known)) => Amount::Time(self.max_time.unwrap_or(DEFAULT_MAX_TIME)),
            (_, _, Some(Until::Time(time))) => Amount::Time(time),
            (_, _, None) => Amount::Time(DEFAULT_TIME),
        };
        if self.max_time.is_some() && !self.is_auto() {
            return Err(Exit::BadInput("--max-time needs -t auto".into()).into());
        }
        let protocol = if self.udp { Protocol::Udp } else { Protocol::Tcp };
        let default_rate = (self.udp && !self.max).then(wire::default_udp_rate);
        let (rate, burst) = self.bitrate.map_or((default_rate, 0), |Bitrate { rate, burst }| (rate, burst));
        let spec = TestSpec {
            protocol,
            direction: match (self.bidir, self.reverse) {
                (true, _) => Direction::Both,
                (_, true) => Direction::Reverse,
                _ => Direction::Forward,
            },
            streams: self.parallel,
            amount,
            omit: self.omit.unwrap_or_default(),
            block: self.length.unwrap_or(wire::default_block(protocol, None)),
            interval: self.interval,
            rate,
            burst,
            fq_rate: self.fq_rate,
            send_buffer: None,
            receive_buffer: None,
            window: self.window,
            mss: self.set_mss,
            nodelay: self.no_delay,
            congestion: self.congestion.clone(),
            tos: self.tos.or(self.dscp.map(|dscp| dscp << 2)).unwrap_or(0),
            flow_label: self.flowlabel,
            repeating_payload: self.repeating_payload,
            server_affinity: self.affinity.and_then(|(_, there)| there),
            zerocopy: self.zerocopy,
            skip_rx_copy: self.skip_rx_copy,
            dont_fragment: self.dont_fragment,
            udp_counters_64bit: self.udp_counters_64bit,
            max_lateness: None,
            file: self.file.clone(),
            get_server_output: self.get_server_output,
            title: self.title.clone(),
            extra_data: self.extra_data.clone(),
        };
        if let (Some(file), false) = (&self.file, self.reverse) {
            let unreadable = |error| Exit::BadInput(format!("cannot open {}: {error}", file.display()));
            std::fs::File::open(file).map_err(unreadable)?;
        }
        // Values that a server would refuse are refused here, before connecting.
        wire::Params::of(&spec).spec().map_err(|refusal| Exit::BadInput(refusal.to_string()))?;
        Ok(spec)
    }
}
