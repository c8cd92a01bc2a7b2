//! The kernel's socket as a congestion control sees it.
//!
//! Exact mirrors of the structs in `crates/cc/shim/vmlinux.h`; a test of crate `cc` compares every offset
//! with the compiler's. The nested structs `sock_common`, `sock`, `inet_sock` and `inet_connection_sock` are
//! one flat struct here. The names are the kernel's; a bitfield has a method of its name.
//!
//! Window, round-trip time and similar state exist only here, so that a controller in C can change them.

/// One sample of a windowed minimum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct MinMaxSample {
    /// When it was taken.
    pub t: u32,
    /// The value.
    pub v: u32,
}

/// A windowed minimum (`include/linux/win_minmax.h`); `s[0].v` is the current minimum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct MinMax {
    /// Best, second and third best.
    pub s: [MinMaxSample; 3],
}

/// `struct tcp_rack`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Rack {
    /// When the latest delivered packet was sent, us.
    pub mstamp: u64,
    /// Its round-trip time, us.
    pub rtt_us: u32,
    /// Its last sequence number, plus one.
    pub end_seq: u32,
    /// `delivered` at the last widening of the window.
    pub last_delivered: u32,
    /// The reordering window, in quarters of the minimum round-trip time.
    pub reo_wnd_steps: u8,
    /// Bitfields from `reo_wnd_persist` on.
    pub bits: u8,
}

/// `struct tcp_options_received`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[repr(C)]
pub struct RxOptions {
    /// Timestamp of the last segment.
    pub rcv_tsval: u32,
    /// The timestamp that the last segment echoed.
    pub rcv_tsecr: u32,
    /// Bitfields from `saw_tstamp` on.
    pub bits: u16,
    /// SACK blocks to send.
    pub num_sacks: u8,
    /// MSS requested by the application, bytes.
    pub user_mss: u16,
    /// Maximum MSS, bytes.
    pub mss_clamp: u16,
}

/// `rcv_rtt_est` of `struct tcp_sock`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ReceiverRtt {
    /// 8 times the round-trip time, us.
    pub rtt_us: u32,
    /// Sequence number that ends the measurement.
    pub seq: u32,
    /// When it began, us.
    pub time: u64,
}

/// `struct tcp_sock`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[repr(C)]
pub struct TcpSock {
    /// Peer's IPv4 address, network byte order.
    pub skc_daddr: u32,
    /// Own IPv4 address, network byte order.
    pub skc_rcv_saddr: u32,
    /// Peer's port, network byte order.
    pub skc_dport: u16,
    /// Own port.
    pub skc_num: u16,
    /// Address family.
    pub skc_family: u16,
    /// `TCP_ESTABLISHED` and so on.
    pub skc_state: u8,
    /// Bitfields from `skc_reuse` on.
    pub skc_reuse_bits: u8,
    /// Directions that are shut down.
    pub sk_shutdown: u8,
    /// Maximum duration of one super-packet at the pacing rate, as a shift: 2^-n s.
    pub sk_pacing_shift: u8,
    /// IPPROTO_TCP.
    pub sk_protocol: u16,
    /// Maximum segments of a super-packet.
    pub sk_gso_max_segs: u16,
    /// Maximum bytes of a super-packet.
    pub sk_gso_max_size: u32,
    /// `SK_PACING_*`: 0 none, 1 needed (by the internal timer), 2 by fq.
    pub sk_pacing_status: u32,
    /// Pacing rate, bytes/s; `u64::MAX`: none.
    pub sk_pacing_rate: u64,
    /// Maximum of `sk_pacing_rate`, bytes/s.
    pub sk_max_pacing_rate: u64,
    /// Receive buffer, bytes.
    pub sk_rcvbuf: i32,
    /// Send buffer, bytes.
    pub sk_sndbuf: i32,
    /// Bytes of memory in the send queue.
    pub sk_wmem_queued: i32,
    /// Bytes of memory reserved.
    pub sk_forward_alloc: i32,
    /// Priority.
    pub sk_priority: u32,
    /// Mark.
    pub sk_mark: u32,
    /// Bytes of memory in the device's queue.
    pub sk_wmem_alloc: i32,
    /// Flow hash.
    pub sk_txhash: u32,
    /// Features of the device.
    pub sk_route_caps: u64,
    /// Own IPv4 address to send from.
    pub inet_saddr: u32,
    /// Own port, network byte order.
    pub inet_sport: u16,
    /// Type of service.
    pub tos: u8,
    /// Retransmission timeout, jiffies.
    pub icsk_rto: u32,
    /// Minimum retransmission timeout, jiffies.
    pub icsk_rto_min: u32,
    /// Maximum delay of an ACK, jiffies.
    pub icsk_delack_max: u32,
    /// Path MTU, bytes.
    pub icsk_pmtu_cookie: u32,
    /// The kernel's pointer to the operations; unused here.
    pub icsk_ca_ops: u64,
    /// Bitfields from `icsk_ca_state` on.
    pub icsk_ca_bits: u8,
    /// Consecutive timeouts.
    pub icsk_retransmits: u8,
    /// The timer that runs.
    pub icsk_pending: u8,
    /// Exponent of the timer's backoff.
    pub icsk_backoff: u8,
    /// Maximum SYN retransmissions.
    pub icsk_syn_retries: u8,
    /// Window probes unanswered.
    pub icsk_probes_out: u8,
    /// Bytes of IP options.
    pub icsk_ext_hdr_len: u16,
    /// `ICSK_ACK_*` flags of a delayed ACK.
    pub icsk_ack_pending: u8,
    /// Remaining ACKs that are sent at once (quick mode).
    pub icsk_ack_quick: u8,
    /// Whether the session is interactive.
    pub icsk_ack_pingpong: u8,
    /// Attempts to send the ACK.
    pub icsk_ack_retry: u8,
    /// Bitfields from `ato` on.
    pub icsk_ack_bits: u32,
    /// When data was last received, jiffies.
    pub icsk_ack_lrcvtime: u32,
    /// Size of the last received segment, bytes.
    pub icsk_ack_last_seg_size: u16,
    /// The peer's MSS as estimated, bytes.
    pub icsk_ack_rcv_mss: u16,
    /// TCP_USER_TIMEOUT, ms.
    pub icsk_user_timeout: u32,
    /// The congestion control's own 104 bytes.
    pub icsk_ca_priv: [u64; 13],
    /// The time, ns.
    pub tcp_clock_cache: u64,
    /// The time, us.
    pub tcp_mstamp: u64,
    /// Departure time of the last packet sent, ns.
    pub tcp_wstamp_ns: u64,
    /// Congestion window, packets.
    pub snd_cwnd: u32,
    /// ACKed packets counted towards the next increase.
    pub snd_cwnd_cnt: u32,
    /// Slow-start threshold, packets; 0x7fffffff: none yet.
    pub snd_ssthresh: u32,
    /// Maximum of `snd_cwnd`, packets.
    pub snd_cwnd_clamp: u32,
    /// Window that the application used, packets.
    pub snd_cwnd_used: u32,
    /// When the window was last full, jiffies.
    pub snd_cwnd_stamp: u32,
    /// Window before the reduction, packets.
    pub prior_cwnd: u32,
    /// Slow-start threshold before the reduction, packets.
    pub prior_ssthresh: u32,
    /// Packets delivered in this recovery.
    pub prr_delivered: u32,
    /// Packets sent in this recovery.
    pub prr_out: u32,
    /// Packets sent and not cumulatively acknowledged.
    pub packets_out: u32,
    /// Unacknowledged packets that are selectively acknowledged.
    pub sacked_out: u32,
    /// Unacknowledged packets that are marked lost.
    pub lost_out: u32,
    /// Unacknowledged packets that are retransmitted.
    pub retrans_out: u32,
    /// Maximum packets in flight in the last window.
    pub max_packets_out: u32,
    /// Sequence number that ends the window of `max_packets_out`.
    pub cwnd_usage_seq: u32,
    /// Bitfields from `repair` on.
    pub bits: u8,
    /// `TCP_ECN_*`.
    pub ecn_flags: u8,
    /// Bitfields from `nonagle` on.
    pub nonagle_bits: u8,
    /// The limited-by clock that runs.
    pub chrono_type: u8,
    /// First unacknowledged sequence number.
    pub snd_una: u32,
    /// Next sequence number to send.
    pub snd_nxt: u32,
    /// End of the data that the application has written.
    pub write_seq: u32,
    /// `snd_nxt` at the start of the recovery.
    pub high_seq: u32,
    /// Next sequence number to receive.
    pub rcv_nxt: u32,
    /// Up to where the application has read.
    pub copied_seq: u32,
    /// Sequence number of the last window update.
    pub snd_wl1: u32,
    /// The peer's window, bytes.
    pub snd_wnd: u32,
    /// Largest window that the peer offered, bytes.
    pub max_window: u32,
    /// Own window, bytes.
    pub rcv_wnd: u32,
    /// Current limit of the advertised window, bytes.
    pub rcv_ssthresh: u32,
    /// Upper limit of the advertised window, bytes.
    pub window_clamp: u32,
    /// Bytes of data in a full segment.
    pub mss_cache: u32,
    /// MSS announced, bytes.
    pub advmss: u16,
    /// Segments of the super-packets sent.
    pub gso_segs: u16,
    /// Bytes of TCP header.
    pub tcp_header_len: u16,
    /// 8 times the smoothed round-trip time, us.
    pub srtt_us: u32,
    /// 4 times the mean deviation, us.
    pub mdev_us: u32,
    /// Largest `mdev_us` in this round trip, us.
    pub mdev_max_us: u32,
    /// 4 times the deviation for the timeout, us.
    pub rttvar_us: u32,
    /// Sequence number that ends the round trip of `mdev_max_us`.
    pub rtt_seq: u32,
    /// Minimum round-trip time, us.
    pub rtt_min: MinMax,
    /// Packets delivered, retransmitted ones included.
    pub delivered: u32,
    /// Packets delivered with a CE mark.
    pub delivered_ce: u32,
    /// Packets marked lost since the start.
    pub lost: u32,
    /// `delivered` + in flight when the application last had nothing to send; 0: not limited.
    pub app_limited: u32,
    /// Start of sending of the current rate sample's window, us.
    pub first_tx_mstamp: u64,
    /// When `delivered` last grew, us.
    pub delivered_mstamp: u64,
    /// Packets of the best rate sample.
    pub rate_delivered: u32,
    /// Its interval, us.
    pub rate_interval_us: u32,
    /// Bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// Bytes acknowledged.
    pub bytes_acked: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Bytes retransmitted.
    pub bytes_retrans: u64,
    /// Segments sent.
    pub segs_out: u32,
    /// Segments received.
    pub segs_in: u32,
    /// Segments with data sent.
    pub data_segs_out: u32,
    /// Segments with data received.
    pub data_segs_in: u32,
    /// Segments retransmitted.
    pub total_retrans: u32,
    /// How far packets were seen to be out of order.
    pub reordering: u32,
    /// Reorderings seen.
    pub reord_seen: u32,
    /// Duplicates that the peer reported.
    pub dsack_dups: u32,
    /// `snd_una` when the reduction began; 0: nothing to undo.
    pub undo_marker: u32,
    /// Retransmissions that have not proved unnecessary.
    pub undo_retrans: i32,
    /// When the first retransmission was sent.
    pub retrans_stamp: u32,
    /// `snd_nxt` at the loss probe.
    pub tlp_high_seq: u32,
    /// Timeouts.
    pub total_rto: u16,
    /// Recoveries from timeouts.
    pub total_rto_recoveries: u16,
    /// When the last timeout recovery began, ms.
    pub rto_stamp: u32,
    /// Time spent in timeout recovery, ms.
    pub total_rto_time: u32,
    /// When data was last sent, jiffies.
    pub lsndtime: u32,
    /// When an ACK was last received, jiffies.
    pub rcv_tstamp: u32,
    /// The socket is unwritable from this many unsent bytes on.
    pub notsent_lowat: u32,
    /// Times that the flow hash was changed.
    pub plb_rehash: u32,
    /// The receiver's own estimate of the round-trip time.
    pub rcv_rtt_est: ReceiverRtt,
    /// State of RACK.
    pub rack: Rack,
    /// TCP options that were negotiated or received.
    pub rx_opt: RxOptions,
}

/// `TCP_INFINITE_SSTHRESH` (`include/net/tcp.h`): no loss so far.
pub const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// `TCP_INIT_CWND` (`include/net/tcp.h`; RFC 6928), packets.
pub const INITIAL_CWND: u32 = 10;

/// Flags of [`TcpSock::ecn_flags`] (`TCP_ECN_*`, include/net/tcp.h).
pub(crate) mod ecn_flags {
    /// Both ends negotiated ECN.
    pub(crate) const OK: u8 = 1;
    /// The next new data carries CWR.
    pub(crate) const QUEUE_CWR: u8 = 2;
    /// ACKs carry ECE until a CWR arrives.
    pub(crate) const DEMAND_CWR: u8 = 4;
    /// A packet with ECT or CE has arrived.
    pub(crate) const SEEN: u8 = 8;
}

impl Default for TcpSock {
    /// An established socket as initialized by `tcp_init_sock`, with an MSS of 1448 bytes and HZ 250.
    fn default() -> TcpSock {
        let mut sk = TcpSock::zeroed();
        sk.skc_family = 2;
        sk.skc_state = 1;
        sk.sk_protocol = 6;
        sk.sk_pacing_shift = 10;
        sk.sk_pacing_rate = u64::MAX;
        sk.sk_max_pacing_rate = u64::MAX;
        sk.sk_gso_max_segs = 65535;
        sk.sk_gso_max_size = 65536;
        sk.icsk_rto = 250;
        sk.icsk_rto_min = 50;
        sk.mdev_us = 1_000_000;
        sk.rtt_min.s[0].v = u32::MAX;
        sk.snd_cwnd = INITIAL_CWND;
        sk.snd_ssthresh = INFINITE_SSTHRESH;
        sk.snd_cwnd_clamp = u32::MAX;
        sk.mss_cache = 1448;
        sk.advmss = 1460;
        sk.rx_opt.mss_clamp = 1460;
        sk.tcp_header_len = 32;
        sk.reordering = 3;
        sk.app_limited = u32::MAX;
        sk
    }
}

impl TcpSock {
    fn zeroed() -> TcpSock {
        TcpSock {
            skc_daddr: 0,
            skc_rcv_saddr: 0,
            skc_dport: 0,
            skc_num: 0,
            skc_family: 0,
            skc_state: 0,
            skc_reuse_bits: 0,
            sk_shutdown: 0,
            sk_pacing_shift: 0,
            sk_protocol: 0,
            sk_gso_max_segs: 0,
            sk_gso_max_size: 0,
            sk_pacing_status: 0,
            sk_pacing_rate: 0,
            sk_max_pacing_rate: 0,
            sk_rcvbuf: 0,
            sk_sndbuf: 0,
            sk_wmem_queued: 0,
            sk_forward_alloc: 0,
            sk_priority: 0,
            sk_mark: 0,
            sk_wmem_alloc: 0,
            sk_txhash: 0,
            sk_route_caps: 0,
            inet_saddr: 0,
            inet_sport: 0,
            tos: 0,
            icsk_rto: 0,
            icsk_rto_min: 0,
            icsk_delack_max: 0,
            icsk_pmtu_cookie: 0,
            icsk_ca_ops: 0,
            icsk_ca_bits: 0,
            icsk_retransmits: 0,
            icsk_pending: 0,
            icsk_backoff: 0,
            icsk_syn_retries: 0,
            icsk_probes_out: 0,
            icsk_ext_hdr_len: 0,
            icsk_ack_pending: 0,
            icsk_ack_quick: 0,
            icsk_ack_pingpong: 0,
            icsk_ack_retry: 0,
            icsk_ack_bits: 0,
            icsk_ack_lrcvtime: 0,
            icsk_ack_last_seg_size: 0,
            icsk_ack_rcv_mss: 0,
            icsk_user_timeout: 0,
            icsk_ca_priv: [0; 13],
            tcp_clock_cache: 0,
            tcp_mstamp: 0,
            tcp_wstamp_ns: 0,
            snd_cwnd: 0,
            snd_cwnd_cnt: 0,
            snd_ssthresh: 0,
            snd_cwnd_clamp: 0,
            snd_cwnd_used: 0,
            snd_cwnd_stamp: 0,
            prior_cwnd: 0,
            prior_ssthresh: 0,
            prr_delivered: 0,
            prr_out: 0,
            packets_out: 0,
            sacked_out: 0,
            lost_out: 0,
            retrans_out: 0,
            max_packets_out: 0,
            cwnd_usage_seq: 0,
            bits: 0,
            ecn_flags: 0,
            nonagle_bits: 0,
            chrono_type: 0,
            snd_una: 0,
            snd_nxt: 0,
            write_seq: 0,
            high_seq: 0,
            rcv_nxt: 0,
            copied_seq: 0,
            snd_wl1: 0,
            snd_wnd: 0,
            max_window: 0,
            rcv_wnd: 0,
            rcv_ssthresh: 0,
            window_clamp: 0,
            mss_cache: 0,
            advmss: 0,
            gso_segs: 0,
            tcp_header_len: 0,
            srtt_us: 0,
            mdev_us: 0,
            mdev_max_us: 0,
            rttvar_us: 0,
            rtt_seq: 0,
            rtt_min: MinMax::default(),
            delivered: 0,
            delivered_ce: 0,
            lost: 0,
            app_limited: 0,
            first_tx_mstamp: 0,
            delivered_mstamp: 0,
            rate_delivered: 0,
            rate_interval_us: 0,
            bytes_sent: 0,
            bytes_acked: 0,
            bytes_received: 0,
            bytes_retrans: 0,
            segs_out: 0,
            segs_in: 0,
            data_segs_out: 0,
            data_segs_in: 0,
            total_retrans: 0,
            reordering: 0,
            reord_seen: 0,
            dsack_dups: 0,
            undo_marker: 0,
            undo_retrans: 0,
            retrans_stamp: 0,
            tlp_high_seq: 0,
            total_rto: 0,
            total_rto_recoveries: 0,
            rto_stamp: 0,
            total_rto_time: 0,
            lsndtime: 0,
            rcv_tstamp: 0,
            notsent_lowat: 0,
            plb_rehash: 0,
            rcv_rtt_est: ReceiverRtt::default(),
            rack: Rack::default(),
            rx_opt: RxOptions::default(),
        }
    }

    /// `icsk_ca_state`.
    pub fn ca_state(&self) -> crate::CaState {
        crate::CaState::from(self.icsk_ca_bits & 0x1f)
    }

    /// Sets `icsk_ca_state`.
    pub fn set_ca_state(&mut self, state: crate::CaState) {
        self.icsk_ca_bits = self.icsk_ca_bits & !0x1f | state as u8;
    }

    /// `is_cwnd_limited`: the congestion window, not the application, limited the sender in the last window.
    pub fn is_cwnd_limited(&self) -> bool {
        self.bits & 1 << 3 != 0
    }

    /// Sets `is_cwnd_limited`.
    pub fn set_is_cwnd_limited(&mut self, limited: bool) {
        self.bits = self.bits & !(1 << 3) | u8::from(limited) << 3;
    }

    /// Sets `rate_app_limited`.
    pub fn set_rate_app_limited(&mut self, limited: bool) {
        self.nonagle_bits = self.nonagle_bits & !(1 << 4) | u8::from(limited) << 4;
    }

    /// Below the slow-start threshold.
    pub fn in_slow_start(&self) -> bool {
        self.snd_cwnd < self.snd_ssthresh
    }

    /// Packets in the network: sent and neither acknowledged nor marked lost, plus retransmissions.
    pub fn packets_in_flight(&self) -> u32 {
        self.packets_out.wrapping_sub(self.sacked_out + self.lost_out).wrapping_add(self.retrans_out)
    }
}
