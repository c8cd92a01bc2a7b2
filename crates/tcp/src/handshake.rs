//! How a connection begins (RFC 9293 section 3.5; net/ipv4/tcp_{input,output,minisocks}.c), and how it is given up.
//!
//! Departures:
//! 1. The answering end is a whole socket from the SYN on; there are no request sockets, cookies or simultaneous opens.

use crate::{Agreed, Endpoint, Event, Flags, InitialWindow, NEEDS_ECN, Segment, State, SynOptions};

/// TCP_ECN_OK.
const ECN_OK: u8 = 1;

/// `TCP_RTO_MIN`, ms.
const RTO_MIN_MS: u32 = 200;

impl Endpoint {
    /// `tcp_init_sock`.
    pub(crate) fn init_sock(&mut self) {
        let config = &self.config;
        let sk = &mut self.sk;
        sk.icsk_rto = self.behaviour.first_timeout_s * config.hz;
        sk.icsk_rto_min = config.ms_to_jiffies(config.rto_min_ms.unwrap_or(RTO_MIN_MS));
        sk.reordering = config.reordering;
        sk.snd_cwnd_clamp = config.cwnd_clamp.unwrap_or(u32::MAX);
        if let Some(ssthresh) = config.ssthresh {
            sk.snd_ssthresh = ssthresh;
        }
        sk.sk_max_pacing_rate = config.max_pacing_rate.unwrap_or(u64::MAX);
        sk.sk_pacing_rate = sk.sk_max_pacing_rate;
        // SK_PACING_NEEDED.
        sk.sk_pacing_status = u32::from(config.fq || config.max_pacing_rate.is_some());
        sk.sk_gso_max_segs = config.gso_max_segs.max(1);
        // sk_setup_caps.
        sk.sk_gso_max_size = config.gso_max_size.saturating_sub(config.max_tcp_header() + 1);
        sk.notsent_lowat = config.notsent_lowat;
        let asked = config.sndbuf.map(|bytes| bytes.min(config.wmem_max).saturating_mul(2).max(4608));
        sk.sk_sndbuf = asked.unwrap_or(config.wmem[1]).min(i32::MAX as u32) as i32;
        sk.advmss = config.advmss();
        sk.mss_cache = u32::from(sk.advmss);
        sk.snd_nxt = config.initial_seq;
        sk.snd_una = config.initial_seq;
        sk.write_seq = config.initial_seq;
        sk.rack.reo_wnd_steps = 1;
        sk.icsk_pmtu_cookie = config.mtu;
    }

    /// `tcp_connect`.
    pub(crate) fn begin_connection(&mut self) {
        self.choose_window(u32::from(self.sk.advmss), self.config.window_scaling);
        self.send_syn();
    }

    fn choose_window(&mut self, mss: u32, scaling: bool) {
        let first = InitialWindow::select(&self.config, mss, scaling);
        self.sk.rcv_wnd = first.rcv_wnd;
        self.sk.rcv_ssthresh = first.rcv_wnd;
        self.sk.window_clamp = first.window_clamp;
        self.own_scale = if scaling { first.scale } else { 0 };
    }

    /// A SYN or SYN-ACK leaves, the first time or again.
    pub(crate) fn emit_syn(&mut self) {
        let answer = self.state == State::SynReceived;
        let (config, sk) = (&self.config, &self.sk);
        let wants_ecn = config.ecn == 1 || self.cc.flags() & NEEDS_ECN != 0;
        let mut flags = Flags::SYN;
        if answer {
            flags = flags.with(Flags::ACK);
            if sk.ecn_flags & ECN_OK != 0 {
                flags = flags.with(Flags::ECE);
            }
        } else if wants_ecn {
            flags = flags.with(Flags::ECE).with(Flags::CWR);
        }
        let scaled = if answer { self.tx.window_scale != u8::MAX } else { config.window_scaling };
        let options = SynOptions {
            mss: config.advmss(),
            window_scale: scaled.then_some(self.own_scale),
            sack_ok: if answer { self.tx.sack } else { config.sack },
            timestamps: if answer { self.tx.timestamps } else { config.timestamps },
        };
        let segment = Segment {
            seq: sk.snd_una,
            ack: if answer { sk.rcv_nxt } else { 0 },
            tsval: self.timestamp(sk.tcp_clock_cache),
            tsecr: if answer { sk.rx_opt.rcv_tsval } else { 0 },
            window: sk.rcv_wnd.min(u32::from(u16::MAX)) as u16,
            flags,
            syn: Some(Box::new(options)),
            ..Segment::default()
        };
        self.sk.segs_out += 1;
        self.out.push_back(segment);
    }

    /// A segment comes while listening, or after the SYN was sent.
    pub(crate) fn handshake(&mut self, segment: &Segment) {
        let Some(options) = segment.syn.as_deref() else { return };
        if !segment.flags.has(Flags::SYN) {
            return;
        }
        let is_answer = self.state == State::SynSent;
        if is_answer && !(segment.flags.has(Flags::ACK) && segment.ack == self.sk.snd_nxt) {
            return;
        }
        self.sk.segs_in += 1;
        self.agree(segment, options);
        if is_answer {
            self.syn_acked();
            self.finish(segment, segment.window.into());
            self.emit_bare(self.sk.snd_nxt);
            self.close_if_wanted();
        } else {
            let mss = u32::from(self.sk.advmss);
            let scaling = self.tx.window_scale != u8::MAX;
            self.choose_window(mss, scaling);
            self.set_state(State::SynReceived);
            self.send_syn();
        }
    }

    /// What both ends can do (`tcp_parse_options`, `tcp_sync_mss`).
    fn agree(&mut self, segment: &Segment, peer: &SynOptions) {
        let config = &self.config;
        self.tx.sack = config.sack && peer.sack_ok;
        self.tx.timestamps = config.timestamps && peer.timestamps;
        let scaled = config.window_scaling && peer.window_scale.is_some();
        // No scaling is u8::MAX until the handshake is over.
        self.tx.window_scale = if scaled { peer.window_scale.unwrap_or(0).min(14) } else { u8::MAX };
        if !scaled {
            self.own_scale = 0;
            self.sk.window_clamp = self.sk.window_clamp.min(u32::from(u16::MAX));
        }
        let options = 12 * u16::from(self.tx.timestamps);
        let answering = self.state == State::Listen;
        let wants_ecn = config.ecn == 1 || self.cc.flags() & NEEDS_ECN != 0;
        let offered = segment.flags.has(Flags::ECE) && segment.flags.has(Flags::CWR) == answering;
        if offered && (wants_ecn || answering && config.ecn == 2) {
            self.sk.ecn_flags = ECN_OK;
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
        let (timestamps, sack) = (u16::from(self.tx.timestamps), u16::from(self.tx.sack));
        let scale = u16::from(peer.window_scale.unwrap_or(0) & 15);
        // saw_tstamp and tstamp_ok, wscale_ok, sack_ok, snd_wscale.
        sk.rx_opt.bits = (timestamps * 3) | (u16::from(scaled) << 3) | (sack << 4) | (scale << 8);
    }

    /// The answer to the SYN-ACK has come.
    pub(crate) fn accept_connection(&mut self, segment: &Segment) {
        let scale = if self.tx.window_scale == u8::MAX { 0 } else { self.tx.window_scale };
        self.sk.rx_opt.rcv_tsecr = segment.tsecr;
        self.syn_acked();
        self.finish(segment, u32::from(segment.window) << scale);
        self.close_if_wanted();
    }

    /// `tcp_finish_connect`, `tcp_init_transfer`.
    fn finish(&mut self, segment: &Segment, window: u32) {
        if self.tx.window_scale == u8::MAX {
            self.tx.window_scale = 0;
        }
        self.sk.snd_wnd = window;
        self.sk.max_window = window;
        self.begin_mtu_search();
        self.sk.snd_wl1 = segment.seq;
        self.sk.lsndtime = self.jiffies();
        let agreed = Agreed {
            window_scale: self.own_scale,
            sack: self.tx.sack,
            timestamps: self.tx.timestamps,
            ts_recent: segment.tsval,
        };
        self.sk.rx_opt.bits |= u16::from(self.own_scale & 15) << 12;
        let clock = self.clock();
        self.receiver.establish(&mut self.sk, clock, agreed);
        self.set_state(State::Established);
        let again = self.sk.total_retrans > 1;
        self.sk.snd_cwnd = if again { 1 } else { self.initial_cwnd() };
        self.sk.snd_cwnd_stamp = self.jiffies();
        self.sk.prior_ssthresh = 0;
        self.update_pacing_rate();
        self.cc.init(&mut self.sk);
        // icsk_ca_initialized.
        self.sk.icsk_ca_bits |= 1 << 5;
        if self.config.sndbuf.is_none() {
            self.sndbuf_expand();
        }
        if self.tx.keep_events {
            let at = self.clock() - crate::transmit::CLOCK_START_NS;
            self.tx.events.push_back(Event::Established { at });
        }
    }

    fn close_if_wanted(&mut self) {
        if self.close_wanted {
            self.set_state(State::FinWait1);
            self.queue_fin();
        }
    }

    /// A SYN comes again: the answer to it was lost.
    pub(crate) fn repeated_syn(&mut self) {
        if self.state == State::SynReceived {
            self.emit_syn();
        } else {
            self.emit_bare(self.sk.snd_nxt);
        }
    }

    /// The connection is given up.
    pub(crate) fn abort(&mut self) {
        self.set_state(State::Closed);
        self.give_up_timers();
    }
}
