//! Configuration of an endpoint: sysctls, socket options, device, route metrics. The defaults are Linux's.

/// Size of a bulk sender's writes unless the application states otherwise, bytes: that of the lab's sender.
pub const DEFAULT_WRITE_BYTES: u32 = 64 << 10;

/// The kernel whose behaviour the endpoint has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Linux 2.4.20 (2002), as `behaviour.rs` describes it.
    Linux24,
    /// Linux 6 and 5: `kernel` is the version, from 5.0 on. Versions differ in the share of the receive
    /// buffer that is offered as window (6.6), and in details of recovery.
    Linux6 {
        /// Major and minor version.
        kernel: (u8, u8),
    },
}

impl Profile {
    /// The profile of a kernel version; none for versions before 5.0 other than 2.4, whose TCP differs from
    /// both profiles.
    pub fn of_kernel(major: u8, minor: u8) -> Option<Profile> {
        match (major, minor) {
            (2, 4) => Some(Profile::Linux24),
            (5.., _) => Some(Profile::Linux6 { kernel: (major, minor) }),
            _ => None,
        }
    }

    /// Whether the kernel is this version or newer.
    pub fn at_least(self, major: u8, minor: u8) -> bool {
        match self {
            Profile::Linux24 => (2, 4) >= (major, minor),
            Profile::Linux6 { kernel } => kernel >= (major, minor),
        }
    }
}

/// Memory layout of packets that a device receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PacketMemory {
    /// A TAP device: a frame that fits into a page is in one piece, a longer one in separate pages after a
    /// small head.
    #[default]
    Tap,
    /// A veth device: headers in a small head, data in the page fragments of the sender's TCP.
    Veth,
    /// Each packet in a buffer as large as the frame, never joined with others: a driver and TCP of Linux
    /// 2.4.
    FrameSized,
}

/// Configuration of the endpoints of one host. Fields are named after sysctls and socket options.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The kernel.
    pub profile: Profile,
    /// Timer ticks per second (`CONFIG_HZ`).
    pub hz: u32,
    /// Maximum size of a packet, IP header included, bytes.
    pub mtu: u32,
    /// Bytes of the IP header: 20 or 40.
    pub ip_header: u32,
    /// TCP_MAXSEG, bytes.
    pub user_mss: Option<u16>,
    /// `net.ipv4.tcp_rmem`, bytes.
    pub rmem: [u32; 3],
    /// `net.ipv4.tcp_wmem`, bytes.
    pub wmem: [u32; 3],
    /// `net.core.rmem_max`, bytes.
    pub rmem_max: u32,
    /// `net.core.wmem_max`, bytes.
    pub wmem_max: u32,
    /// SO_RCVBUF as the application requests it (the kernel doubles it and stops autotuning).
    pub rcvbuf: Option<u32>,
    /// SO_SNDBUF as the application requests it (the kernel doubles it and stops autotuning).
    pub sndbuf: Option<u32>,
    /// `tcp_moderate_rcvbuf`.
    pub moderate_rcvbuf: bool,
    /// `tcp_rcvbuf_low_rtt` (6.19 and newer): the receive buffer grows more slowly if the receiver's
    /// round-trip time is less, us. 0 in older kernels: never.
    pub rcvbuf_low_rtt_us: u32,
    /// `tcp_adv_win_scale` (before 6.6).
    pub adv_win_scale: i8,
    /// `tcp_app_win`.
    pub app_win: u8,
    /// `tcp_window_scaling`.
    pub window_scaling: bool,
    /// `tcp_timestamps`.
    pub timestamps: bool,
    /// `tcp_sack`.
    pub sack: bool,
    /// `tcp_dsack`.
    pub dsack: bool,
    /// `tcp_ecn`: 0 never, 1 request and accept, 2 accept.
    pub ecn: u8,
    /// `tcp_recovery`: bit 0 RACK, bit 1 static window, bit 2 no duplicate-ACK threshold.
    pub recovery: u8,
    /// `tcp_early_retrans`: 3 or 4 allow tail loss probes.
    pub early_retrans: u8,
    /// `tcp_frto`.
    pub frto: u8,
    /// `tcp_reordering`, packets.
    pub reordering: u32,
    /// `tcp_max_reordering`, packets.
    pub max_reordering: u32,
    /// `tcp_slow_start_after_idle`.
    pub slow_start_after_idle: bool,
    /// `tcp_min_rtt_wlen`, seconds.
    pub min_rtt_wlen_s: u32,
    /// `tcp_pacing_ss_ratio`, percent.
    pub pacing_ss_ratio: u32,
    /// `tcp_pacing_ca_ratio`, percent.
    pub pacing_ca_ratio: u32,
    /// `tcp_min_tso_segs`.
    pub min_tso_segs: u32,
    /// `tcp_tso_win_divisor`.
    pub tso_win_divisor: u32,
    /// `tcp_tso_rtt_log` (5.18 and newer).
    pub tso_rtt_log: u32,
    /// `tcp_limit_output_bytes`.
    pub limit_output_bytes: u32,
    /// `tcp_notsent_lowat`, bytes.
    pub notsent_lowat: u32,
    /// `tcp_comp_sack_delay_ns`.
    pub comp_sack_delay_ns: u64,
    /// `tcp_comp_sack_rtt_percent` (6.19 and newer): the share of the round-trip time for which ACKs are held
    /// back while data is missing, percent. Older kernels have 5, not configurable.
    pub comp_sack_rtt_percent: u32,
    /// `tcp_comp_sack_slack_ns`.
    pub comp_sack_slack_ns: u64,
    /// `tcp_comp_sack_nr`.
    pub comp_sack_nr: u8,
    /// `tcp_mtu_probing`: 1 searches for a smaller MTU after timeouts (black-hole detection), 2 probes for
    /// the MTU from the start.
    pub mtu_probing: u8,
    /// `tcp_base_mss`, bytes: start of the search for the MTU.
    pub base_mss: u32,
    /// `tcp_mtu_probe_floor`, bytes: the smallest MSS that the search reaches after timeouts.
    pub mtu_probe_floor: u32,
    /// `tcp_probe_threshold`, bytes: the search ends when the remaining interval is this small.
    pub probe_threshold: u32,
    /// `tcp_probe_interval`, seconds from the end of one search to the next.
    pub probe_interval_s: u32,
    /// `tcp_min_snd_mss`, bytes with options.
    pub min_snd_mss: u32,
    /// `tcp_retries1`.
    pub retries1: u8,
    /// `tcp_retries2`.
    pub retries2: u8,
    /// `tcp_syn_retries`.
    pub syn_retries: u8,
    /// TCP_NODELAY.
    pub nodelay: bool,
    /// SO_MAX_PACING_RATE, bytes/s.
    pub max_pacing_rate: Option<u64>,
    /// The sender's device has a pacing queue (fq), to which TCP leaves pacing. Here TCP's own timer paces.
    pub fq: bool,
    /// A full transmit queue of the host's device reduces the congestion window. Without it the queue only
    /// delays data, as with `WAD_IFQ` of web100; no unpatched Linux does this.
    pub local_congestion: bool,
    /// Maximum segments of a super-packet; 1 without segmentation offload.
    pub gso_max_segs: u16,
    /// Maximum bytes of a super-packet, headers included.
    pub gso_max_size: u32,
    /// `MAX_TCP_HEADER`, bytes, which depends on the kernel's configuration: see [`Config::max_tcp_header`].
    pub max_tcp_header: Option<u32>,
    /// `initcwnd` of the route, packets.
    pub initcwnd: Option<u32>,
    /// `initrwnd` of the route, segments.
    pub initrwnd: Option<u32>,
    /// `ssthresh` of the route, packets.
    pub ssthresh: Option<u32>,
    /// `rto_min` of the route, ms.
    pub rto_min_ms: Option<u32>,
    /// `cwnd` of the route, locked: maximum congestion window, packets.
    pub cwnd_clamp: Option<u32>,
    /// Memory layout of packets that the device receives.
    pub packet_memory: PacketMemory,
    /// The first sequence number.
    pub initial_seq: u32,
}

impl Default for Config {
    /// Linux 6.18 with HZ 250 on Ethernet, and buffers as the kernel sets them on a machine of 8 GB and more.
    fn default() -> Config {
        Config {
            profile: Profile::Linux6 { kernel: (6, 18) },
            hz: 250,
            mtu: 1500,
            ip_header: 20,
            user_mss: None,
            rmem: [4096, 131_072, 6_291_456],
            wmem: [4096, 16_384, 4_194_304],
            rmem_max: 212_992,
            wmem_max: 212_992,
            rcvbuf: None,
            sndbuf: None,
            moderate_rcvbuf: true,
            rcvbuf_low_rtt_us: 0,
            adv_win_scale: 1,
            app_win: 31,
            window_scaling: true,
            timestamps: true,
            sack: true,
            dsack: true,
            ecn: 2,
            recovery: 1,
            early_retrans: 3,
            frto: 2,
            reordering: 3,
            max_reordering: 300,
            slow_start_after_idle: true,
            min_rtt_wlen_s: 300,
            pacing_ss_ratio: 200,
            pacing_ca_ratio: 120,
            min_tso_segs: 2,
            tso_win_divisor: 3,
            tso_rtt_log: 9,
            limit_output_bytes: 1_048_576,
            notsent_lowat: u32::MAX,
            comp_sack_delay_ns: 1_000_000,
            comp_sack_rtt_percent: 5,
            comp_sack_slack_ns: 100_000,
            comp_sack_nr: 44,
            mtu_probing: 0,
            base_mss: 1024,
            mtu_probe_floor: 48,
            probe_threshold: 8,
            probe_interval_s: 600,
            min_snd_mss: 48,
            retries1: 3,
            retries2: 15,
            syn_retries: 6,
            nodelay: false,
            max_pacing_rate: None,
            fq: false,
            local_congestion: true,
            gso_max_segs: u16::MAX,
            gso_max_size: 65_536,
            max_tcp_header: None,
            initcwnd: None,
            initrwnd: None,
            ssthresh: None,
            rto_min_ms: None,
            cwnd_clamp: None,
            packet_memory: PacketMemory::default(),
            initial_seq: 1,
        }
    }
}

impl Config {
    /// Linux 2.4 with HZ 100 on Ethernet, with its initial sysctls. SO_SNDBUF and SO_RCVBUF reach twice 64
    /// KiB.
    ///
    /// Source: net/ipv4/tcp.c (`tcp_init`, a machine of 128 MB and more), net/ipv4/sysctl_net_ipv4.c,
    /// net/core/sock.c of Linux 2.4.20. Features that it lacks are off.
    pub fn linux24() -> Config {
        Config {
            profile: Profile::Linux24,
            hz: 100,
            rmem: [4096, 87_380, 174_760],
            wmem: [4096, 16_384, 131_072],
            rmem_max: 65_535,
            wmem_max: 65_535,
            moderate_rcvbuf: false,
            adv_win_scale: 2,
            ecn: 0,
            recovery: 0,
            early_retrans: 0,
            frto: 0,
            max_reordering: 127,
            min_tso_segs: 1,
            gso_max_segs: 1,
            comp_sack_nr: 0,
            syn_retries: 5,
            packet_memory: PacketMemory::FrameSized,
            ..Config::default()
        }
    }

    /// A Linux version with its own default buffers; `None` for series that an endpoint cannot simulate.
    ///
    /// Source: net/ipv4/tcp.c (`tcp_init`, a machine of 8 GB and more) and net/core/sock.c. Up to 32 MiB to
    /// receive since 6.16; sockets may request 4 MiB since 6.17. The values for 6.18 were read on it, the
    /// older ones in the source of 6.12.
    pub fn of_kernel(major: u8, minor: u8) -> Option<Config> {
        let profile = Profile::of_kernel(major, minor)?;
        if profile == Profile::Linux24 {
            return Some(Config::linux24());
        }
        let mut config = Config { profile, ..Config::default() };
        if profile.at_least(6, 16) {
            config.rmem[2] = 32 << 20;
        }
        if profile.at_least(6, 17) {
            (config.rmem_max, config.wmem_max) = (4 << 20, 4 << 20);
        }
        // 416dd649f3aa, "tcp: reduce tcp_comp_sack_slack_ns default value to 10 usec", ecfea98b7d0d.
        if profile.at_least(6, 19) {
            (config.comp_sack_rtt_percent, config.comp_sack_slack_ns) = (33, 10_000);
            config.rcvbuf_low_rtt_us = 1000;
        }
        Some(config)
    }

    /// One jiffy, us.
    pub fn jiffy_us(&self) -> u64 {
        1_000_000 / u64::from(self.hz.max(1))
    }

    /// `MAX_TCP_HEADER`, bytes (include/net/tcp.h). It depends on the kernel's configuration, not its
    /// version: 320 with wireless networks and tunnels, as in distributions (Debian's 6.1); 256 with wireless
    /// networks only, as in guests from 6.12 on; 192 without both, as in some kernels for virtual machines.
    /// If it is not set, the version selects that of the guests, whose kernels `longfat kernel build` makes;
    /// for Linux 2.4, 256.
    pub fn max_tcp_header(&self) -> u32 {
        let is_short = self.profile == Profile::Linux24 || self.profile.at_least(6, 12);
        self.max_tcp_header.unwrap_or(if is_short { 256 } else { 320 })
    }

    /// Converts milliseconds to jiffies, rounded up (`msecs_to_jiffies`).
    pub fn ms_to_jiffies(&self, ms: u32) -> u32 {
        (u64::from(ms) * u64::from(self.hz)).div_ceil(1000) as u32
    }

    /// Bytes of TCP header on a segment without SACK blocks.
    pub fn tcp_header(&self, timestamps: bool) -> u32 {
        20 + 12 * u32::from(timestamps)
    }

    /// The MSS to announce (`tcp_advertise_mss`): without options.
    pub fn advmss(&self) -> u16 {
        let by_mtu = self.mtu.saturating_sub(self.ip_header + 20).clamp(88, 65_495) as u16;
        self.user_mss.map_or(by_mtu, |user| user.max(88).min(by_mtu))
    }
}
