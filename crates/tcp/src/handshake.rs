//! The handshake of a connection (RFC 9293 section 3.5; net/ipv4/tcp_{input,output,minisocks}.c).
//!
//! Differences from the kernel:
//! 1. The listening end is a complete socket from the SYN on; there are no request sockets, cookies or
//!    simultaneous opens.

use crate::{
    Endpoint, EndpointEvent, Flags, InitialWindow, NEEDS_ECN, NegotiatedOptions, Segment, SynOptions,
    TcpState, connection::Connection, sock::ecn_flags,
};

/// `TCP_TIMEOUT_FALLBACK`, s.
const TIMEOUT_FALLBACK_S: u32 = 3;

impl Connection {
    /// Sends or retransmits a SYN or SYN-ACK.
    pub(crate) fn emit_syn(&mut self) {
        let is_syn_ack = self.state == TcpState::SynReceived;
        let (config, sk) = (&self.config, &self.sk);
        let wants_ecn = config.ecn == 1 || self.cc.flags() & NEEDS_ECN != 0;
        let mut flags = Flags::SYN;
        if is_syn_ack {
            flags = flags.with(Flags::ACK);
            if sk.ecn_flags & ecn_flags::OK != 0 {
                flags = flags.with(Flags::ECE);
            }
        } else if wants_ecn {
            flags = flags.with(Flags::ECE).with(Flags::CWR);
        }
        let scaled = if is_syn_ack { self.window_scale != u8::MAX } else { config.window_scaling };
        let options = SynOptions {
            mss: config.advmss(),
            window_scale: scaled.then_some(self.own_scale),
            sack_ok: if is_syn_ack { self.sack } else { config.sack },
            timestamps: if is_syn_ack { self.timestamps } else { config.timestamps },
        };
        let segment = Segment {
            seq: sk.snd_una,
            ack: if is_syn_ack { sk.rcv_nxt } else { 0 },
            tsval: self.timestamp(sk.tcp_clock_cache),
            tsecr: if is_syn_ack { sk.rx_opt.rcv_tsval } else { 0 },
            window: sk.rcv_wnd.min(u32::from(u16::MAX)) as u16,
            flags,
            syn: Some(Box::new(options)),
            ..Segment::default()
        };
        self.sk.segs_out += 1;
        self.out.push_back(segment);
    }

    /// The end of `tcp_init_metrics`: a SYN was retransmitted and there are no timestamps, so the handshake
    /// gave no round-trip time (RFC 6298 section 5.7).
    #[cold]
    fn fall_back_without_rtt(&mut self) {
        let fallback_us = 1_000_000 * TIMEOUT_FALLBACK_S;
        let sk = &mut self.sk;
        (sk.rttvar_us, sk.mdev_us, sk.mdev_max_us) = (fallback_us, fallback_us, fallback_us);
        sk.icsk_rto = TIMEOUT_FALLBACK_S * self.config.hz;
    }

    fn choose_window(&mut self, mss: u32, scaling: bool) {
        let first = InitialWindow::select(&self.config, mss, scaling);
        self.sk.rcv_wnd = first.rcv_wnd;
        self.sk.rcv_ssthresh = first.rcv_wnd;
        self.sk.window_clamp = first.window_clamp;
        self.own_scale = if scaling { first.scale } else { 0 };
    }

    /// Negotiates the options that both ends support (`tcp_parse_options`, `tcp_sync_mss`).
    fn negotiate(&mut self, segment: &Segment, peer: &SynOptions) {
        let config = &self.config;
        self.sack = config.sack && peer.sack_ok;
        self.timestamps = config.timestamps && peer.timestamps;
        let scaled = config.window_scaling && peer.window_scale.is_some();
        // u8::MAX means "no window scaling" until the handshake is complete.
        self.window_scale = if scaled { peer.window_scale.unwrap_or(0).min(14) } else { u8::MAX };
        if !scaled {
            self.own_scale = 0;
            self.sk.window_clamp = self.sk.window_clamp.min(u32::from(u16::MAX));
        }
        let options = 12 * u16::from(self.timestamps);
        let is_listening = self.state == TcpState::Listen;
        let wants_ecn = config.ecn == 1 || self.cc.flags() & NEEDS_ECN != 0;
        let offered = segment.flags.has(Flags::ECE) && segment.flags.has(Flags::CWR) == is_listening;
        if offered && (wants_ecn || is_listening && config.ecn == 2) {
            self.sk.ecn_flags = ecn_flags::OK;
        }
        let sk = &mut self.sk;
        sk.rx_opt.mss_clamp = peer.mss.min(config.advmss());
        sk.mss_cache = u32::from(sk.rx_opt.mss_clamp - options);
        sk.tcp_header_len = 20 + options;
        sk.advmss = config.advmss() - options;
        sk.rcv_nxt = segment.seq.wrapping_add(1);
        sk.copied_seq = sk.rcv_nxt;
        sk.rx_opt.rcv_tsval = segment.tsval;
        sk.rx_opt.rcv_tsecr = segment.tsecr;
        let (timestamps, sack) = (u16::from(self.timestamps), u16::from(self.sack));
        let scale = u16::from(peer.window_scale.unwrap_or(0) & 15);
        // saw_tstamp and tstamp_ok, wscale_ok, sack_ok, snd_wscale.
        sk.rx_opt.bits = (timestamps * 3) | (u16::from(scaled) << 3) | (sack << 4) | (scale << 8);
    }
}

impl Endpoint {
    /// `tcp_connect`.
    pub(crate) fn begin_connection(&mut self) {
        self.conn.choose_window(u32::from(self.conn.sk.advmss), self.conn.config.window_scaling);
        self.sender.send_syn(&mut self.conn);
    }

    /// Processes a segment in state `Listen` or `SynSent`.
    pub(crate) fn handshake(&mut self, segment: &Segment) {
        let Some(options) = segment.syn.as_deref() else { return };
        if !segment.flags.has(Flags::SYN) {
            return;
        }
        let is_syn_ack = self.conn.state == TcpState::SynSent;
        if is_syn_ack && !(segment.flags.has(Flags::ACK) && segment.ack == self.conn.sk.snd_nxt) {
            return;
        }
        self.conn.sk.segs_in += 1;
        self.conn.negotiate(segment, options);
        if is_syn_ack {
            self.sender.syn_acked(&mut self.conn);
            self.finish(segment, segment.window.into());
            self.conn.emit_bare(self.conn.sk.snd_nxt);
            self.close_if_wanted();
        } else {
            let mss = u32::from(self.conn.sk.advmss);
            let scaling = self.conn.window_scale != u8::MAX;
            self.conn.choose_window(mss, scaling);
            self.conn.set_state(TcpState::SynReceived);
            self.sender.send_syn(&mut self.conn);
        }
    }

    /// Processes the ACK of the SYN-ACK.
    pub(crate) fn accept_connection(&mut self, segment: &Segment) {
        let scale = if self.conn.window_scale == u8::MAX { 0 } else { self.conn.window_scale };
        self.conn.sk.rx_opt.rcv_tsecr = segment.tsecr;
        self.sender.syn_acked(&mut self.conn);
        self.finish(segment, u32::from(segment.window) << scale);
        self.close_if_wanted();
    }

    /// `tcp_finish_connect`, `tcp_init_transfer`.
    fn finish(&mut self, segment: &Segment, window: u32) {
        let conn = &mut self.conn;
        if conn.window_scale == u8::MAX {
            conn.window_scale = 0;
        }
        conn.sk.snd_wnd = window;
        conn.sk.max_window = window;
        self.sender.begin_mtu_search(conn);
        conn.sk.snd_wl1 = segment.seq;
        conn.sk.lsndtime = conn.jiffies();
        conn.sk.rcv_tstamp = conn.jiffies();
        let negotiated = NegotiatedOptions {
            window_scale: conn.own_scale,
            sack: conn.sack,
            timestamps: conn.timestamps,
            ts_recent: segment.tsval,
        };
        conn.sk.rx_opt.bits |= u16::from(conn.own_scale & 15) << 12;
        let clock = conn.clock();
        conn.receiver.establish(&mut conn.sk, clock, negotiated);
        conn.set_state(TcpState::Established);
        let syn_retransmitted = conn.sk.total_retrans > 1;
        conn.sk.snd_cwnd = if syn_retransmitted { 1 } else { conn.initial_cwnd() };
        conn.sk.snd_cwnd_stamp = conn.jiffies();
        conn.sk.prior_ssthresh = 0;
        if conn.sk.srtt_us == 0 {
            conn.fall_back_without_rtt();
        }
        conn.update_pacing_rate();
        conn.cc.init(&mut conn.sk);
        // icsk_ca_initialized.
        conn.sk.icsk_ca_bits |= 1 << 5;
        if conn.config.sndbuf.is_none() {
            conn.sndbuf_expand();
        }
        conn.record(|at| EndpointEvent::Established { at });
    }

    fn close_if_wanted(&mut self) {
        if self.close_wanted {
            self.conn.set_state(TcpState::FinWait1);
            self.sender.queue_fin(&mut self.conn);
        }
    }

    /// The peer repeats its SYN because the SYN-ACK was lost.
    pub(crate) fn repeated_syn(&mut self) {
        if self.conn.state == TcpState::SynReceived {
            self.conn.emit_syn();
        } else {
            self.conn.emit_bare(self.conn.sk.snd_nxt);
        }
    }
}
