//! The state that the sender and the rest of an endpoint share: the kernel's socket, its congestion control,
//! the settings, the receiver, and the segments ready to leave.

use crate::{
    AckFields, CaEvent, CaState, Config, CongestionControl, EndpointEvent, Flags, Operation, Receiver,
    Segment, TcpSock,
    behaviour::{Behaviour, Windows},
    segment::before,
    timestamp_ms,
};
use std::collections::VecDeque;

/// The clock of an endpoint starts at this value, ns: algorithms take a time of 0 as "never".
pub(crate) const CLOCK_START_NS: u64 = 1_000_000_000_000;

/// `TCP_RTO_MIN`, ms.
const RTO_MIN_MS: u32 = 200;

/// State of a TCP connection (`include/net/tcp_states.h`, RFC 9293 section 3.3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum TcpState {
    /// The handshake is complete.
    Established = 1,
    /// A SYN was sent.
    SynSent = 2,
    /// A SYN was received and a SYN-ACK sent.
    SynReceived = 3,
    /// This end sent its FIN.
    FinWait1 = 4,
    /// The peer acknowledged the FIN of this end.
    FinWait2 = 5,
    /// Both ends sent and acknowledged a FIN.
    TimeWait = 6,
    /// No connection.
    Closed = 7,
    /// The peer's FIN was received.
    CloseWait = 8,
    /// This end sent its FIN after the peer's.
    LastAck = 9,
    /// Waits for a SYN.
    Listen = 10,
    /// Both FINs crossed.
    Closing = 11,
}

/// One end of a connection without its sender.
pub(crate) struct Connection {
    pub(crate) sk: TcpSock,
    pub(crate) cc: Box<dyn CongestionControl>,
    pub(crate) config: Config,
    pub(crate) behaviour: Behaviour,
    pub(crate) state: TcpState,
    pub(crate) receiver: Receiver,
    /// Segments that leave with the next calls of `Endpoint::transmit`.
    pub(crate) out: VecDeque<Segment>,
    /// Both ends negotiated selective acknowledgements.
    pub(crate) sack: bool,
    /// Both ends negotiated timestamps.
    pub(crate) timestamps: bool,
    /// Shift of the peer's window.
    pub(crate) window_scale: u8,
    /// Window scale that this end announces in its SYN.
    pub(crate) own_scale: u8,
    pub(crate) jiffy_us: u64,
    /// Number of the current jiffy and its start, us.
    pub(crate) tick: (u64, u64),
    pub(crate) events: VecDeque<EndpointEvent>,
    pub(crate) keep_events: bool,
}

impl Connection {
    pub(crate) fn new(config: Config, cc: Box<dyn CongestionControl>, state: TcpState) -> Connection {
        let mut sk = TcpSock::default();
        let mut conn = Connection {
            receiver: Receiver::new(&config, &mut sk),
            sk,
            cc,
            behaviour: Behaviour::of(&config),
            jiffy_us: config.jiffy_us(),
            config,
            state,
            out: VecDeque::new(),
            sack: false,
            timestamps: false,
            window_scale: 0,
            own_scale: 0,
            tick: (0, 0),
            events: VecDeque::new(),
            keep_events: false,
        };
        conn.init_sock();
        conn.set_state(state);
        conn
    }

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
        let requested = config.sndbuf.map(|bytes| bytes.min(config.wmem_max).saturating_mul(2).max(4608));
        sk.sk_sndbuf = requested.unwrap_or(config.wmem[1]).min(i32::MAX as u32) as i32;
        sk.advmss = config.advmss();
        sk.mss_cache = u32::from(sk.advmss);
        sk.snd_nxt = config.initial_seq;
        sk.snd_una = config.initial_seq;
        sk.write_seq = config.initial_seq;
        sk.rack.reo_wnd_steps = 1;
        sk.icsk_pmtu_cookie = config.mtu;
    }

    pub(crate) fn set_state(&mut self, state: TcpState) {
        self.state = state;
        self.sk.skc_state = state as u8;
    }

    // ---- The clock ----------------------------------------------------------------------------------------

    /// Sets the clock to `now`, ns since the start of the run.
    #[inline]
    pub(crate) fn set_clock(&mut self, now: u64) {
        self.sk.tcp_clock_cache = now + CLOCK_START_NS;
        self.sk.tcp_mstamp = self.sk.tcp_clock_cache / 1000;
        // The jiffy is read several times per packet and changes once in many packets, so the division is
        // saved.
        if self.sk.tcp_mstamp.wrapping_sub(self.tick.1) >= self.jiffy_us {
            let tick = self.sk.tcp_mstamp / self.jiffy_us;
            self.tick = (tick, tick * self.jiffy_us);
        }
    }

    pub(crate) fn clock(&self) -> u64 {
        self.sk.tcp_clock_cache
    }

    /// The current jiffy.
    #[inline]
    pub(crate) fn jiffies(&self) -> u32 {
        self.tick.0 as u32
    }

    /// `usecs_to_jiffies`.
    #[inline]
    pub(crate) fn us_to_jiffies(&self, us: u64) -> u32 {
        us.div_ceil(self.jiffy_us).min(u64::from(u32::MAX)) as u32
    }

    #[inline]
    pub(crate) fn jiffies_to_us(&self, jiffies: u32) -> u64 {
        u64::from(jiffies) * self.jiffy_us
    }

    #[inline]
    pub(crate) fn now32(&self) -> u32 {
        self.sk.tcp_mstamp as u32
    }

    /// Time since `at`, a time kept in 32 bits, us (`tcp_stamp_us_delta`).
    #[inline]
    pub(crate) fn age_us(&self, at: u32) -> u32 {
        (self.now32().wrapping_sub(at) as i32).max(0) as u32
    }

    /// Extends a time kept in 32 bits to 64 bits, us.
    #[inline]
    pub(crate) fn full_us(&self, at: u32) -> u64 {
        let ago = i64::from(self.now32().wrapping_sub(at) as i32);
        self.sk.tcp_mstamp.wrapping_add_signed(-ago)
    }

    /// Converts a time of the endpoint's clock, ns, to the value of its timestamp option, ms.
    #[inline]
    pub(crate) fn timestamp(&self, clock_ns: u64) -> u32 {
        let step = self.behaviour.timestamp_step_ms;
        let ms = timestamp_ms(clock_ns);
        match step {
            1 => ms,
            // Linux 2.4 with HZ 100. The constant lets the compiler replace the division.
            10 => ms - ms % 10,
            _ => ms - ms % step,
        }
    }

    // ---- The socket and its congestion control ------------------------------------------------------------

    #[inline]
    pub(crate) fn has(&self, operation: Operation) -> bool {
        self.cc.has(operation)
    }

    pub(crate) fn ca_event(&mut self, event: CaEvent) {
        self.cc.cwnd_event(&mut self.sk, event);
    }

    /// `tcp_set_ca_state`.
    pub(crate) fn set_ca_state(&mut self, state: CaState) {
        let old = self.sk.ca_state();
        self.cc.set_state(&mut self.sk, state);
        self.sk.set_ca_state(state);
        if old != state {
            let (cwnd, ssthresh) = (self.sk.snd_cwnd, self.sk.snd_ssthresh);
            self.record(|at| EndpointEvent::CaState { at, old, state, cwnd, ssthresh });
        }
    }

    /// Records an event that happens now.
    pub(crate) fn record(&mut self, event: impl FnOnce(u64) -> EndpointEvent) {
        if self.keep_events {
            let at = self.sk.tcp_clock_cache - CLOCK_START_NS;
            self.events.push_back(event(at));
        }
    }

    /// `tcp_init_cwnd`.
    pub(crate) fn initial_cwnd(&self) -> u32 {
        let default = match self.behaviour.windows {
            Windows::Large => crate::INITIAL_CWND,
            Windows::Small => self.sk.small_initial_cwnd(),
        };
        self.config.initcwnd.unwrap_or(default).min(self.sk.snd_cwnd_clamp)
    }

    /// `tcp_wnd_end`.
    #[inline]
    pub(crate) fn window_end(&self) -> u32 {
        self.sk.snd_una.wrapping_add(self.sk.snd_wnd)
    }

    /// `tcp_min_rtt`, us.
    #[inline]
    pub(crate) fn min_rtt_us(&self) -> u32 {
        self.sk.rtt_min.s[0].v
    }

    /// `tcp_rto_min_us`.
    pub(crate) fn rto_min_us(&self) -> u32 {
        self.jiffies_to_us(self.sk.icsk_rto_min) as u32
    }

    /// `tcp_left_out`.
    pub(crate) fn left_out(&self) -> u32 {
        self.sk.sacked_out + self.sk.lost_out
    }

    /// `tcp_is_rack`.
    pub(crate) fn is_rack(&self) -> bool {
        self.sack && self.config.recovery & 1 != 0
    }

    // ---- Segments that leave ------------------------------------------------------------------------------

    /// `tcp_acceptable_seq`.
    pub(crate) fn acceptable_seq(&self) -> u32 {
        let end = self.window_end();
        if before(end, self.sk.snd_nxt) { end } else { self.sk.snd_nxt }
    }

    /// Sends an ACK without data whose fields are not the receiver's current ones.
    #[inline(never)]
    pub(crate) fn emit_ack(&mut self, fields: AckFields) {
        let mut flags = Flags::ACK;
        if fields.ece {
            flags = flags.with(Flags::ECE);
        }
        self.sk.segs_out += 1;
        self.out.push_back(Segment {
            seq: self.acceptable_seq(),
            ack: fields.ack,
            window: fields.window,
            flags,
            tsval: self.timestamp(self.clock()),
            tsecr: fields.tsecr,
            sack: fields.sack.map(Box::new),
            ..Segment::default()
        });
    }

    /// Sends an ACK without data.
    pub(crate) fn emit_bare(&mut self, seq: u32) {
        let tsval = self.timestamp(self.clock());
        self.emit(Segment { seq, flags: Flags::ACK, tsval, ..Segment::default() });
    }

    /// Sends a segment, with the receiver's acknowledgement in it.
    #[inline(always)]
    pub(crate) fn emit(&mut self, mut segment: Segment) {
        let fields = self.receiver.ack_fields(&mut self.sk);
        segment.ack = fields.ack;
        segment.window = fields.window;
        segment.tsecr = fields.tsecr;
        segment.sack = fields.sack.map(Box::new);
        if fields.ece {
            segment.flags = segment.flags.with(Flags::ECE);
        }
        self.sk.segs_out += segment.segs();
        self.receiver.ack_sent(&mut self.sk);
        if segment.len > 0 {
            let clock = self.clock();
            self.receiver.data_sent(&mut self.sk, clock);
        }
        self.out.push_back(segment);
    }
}
