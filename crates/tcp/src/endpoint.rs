//! One end of a TCP connection: sending half, receiving half, handshake.
//!
//! Pure: time is an argument (ns since the run's start), segments go in and come out. After each call that takes
//! `now`, poll [`Endpoint::transmit`] until it gives nothing, then ask [`Endpoint::next_timer`].
//!
//! The order of things is that of `tcp_rcv_established` (net/ipv4/tcp_input.c). Departures:
//! 1. TIME-WAIT does not end, and there are no keepalives.

use crate::behaviour::Behaviour;
use crate::transmit::{CLOCK_START_NS, Transmit};
use crate::{
    Accepted, AckAction, AckFields, CaEvent, Config, CongestionControl, Event, Flags, Receiver, Segment,
    TcpSock, timestamp_ms,
};
use std::{borrow::Borrow, collections::VecDeque};

/// Where a connection stands (`include/net/tcp_states.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Data flows.
    Established = 1,
    /// A SYN was sent.
    SynSent = 2,
    /// A SYN was received and answered.
    SynReceived = 3,
    /// The own FIN was sent.
    FinWait1 = 4,
    /// The own FIN was acknowledged.
    FinWait2 = 5,
    /// Both ends have ended.
    TimeWait = 6,
    /// No connection.
    Closed = 7,
    /// The peer's FIN was received.
    CloseWait = 8,
    /// The own FIN was sent after the peer's.
    LastAck = 9,
    /// A SYN is waited for.
    Listen = 10,
    /// Both FINs crossed.
    Closing = 11,
}

/// One end of a connection.
pub struct Endpoint {
    /// The kernel's socket.
    pub sk: TcpSock,
    pub(crate) cc: Box<dyn CongestionControl>,
    pub(crate) config: Config,
    pub(crate) behaviour: Behaviour,
    pub(crate) state: State,
    pub(crate) receiver: Receiver,
    pub(crate) tx: Transmit,
    /// What waits to be taken by [`Endpoint::transmit`].
    pub(crate) out: VecDeque<Segment>,
    /// Window scale that the own SYN announces.
    pub(crate) own_scale: u8,
    pub(crate) close_wanted: bool,
}

impl Endpoint {
    /// Begins a connection: a SYN is ready to be sent.
    pub fn connect(config: Config, cc: Box<dyn CongestionControl>, now: u64) -> Endpoint {
        let mut endpoint = Endpoint::new(config, cc, State::SynSent);
        endpoint.set_clock(now);
        endpoint.begin_connection();
        endpoint
    }

    /// Waits for a connection.
    pub fn listen(config: Config, cc: Box<dyn CongestionControl>) -> Endpoint {
        Endpoint::new(config, cc, State::Listen)
    }

    fn new(config: Config, cc: Box<dyn CongestionControl>, state: State) -> Endpoint {
        let mut sk = TcpSock::default();
        let receiver = Receiver::new(&config, &mut sk);
        let behaviour = Behaviour::of(&config);
        let tx = Transmit::new(&config);
        let mut endpoint = Endpoint {
            sk,
            cc,
            config,
            behaviour,
            state,
            receiver,
            tx,
            out: VecDeque::new(),
            own_scale: 0,
            close_wanted: false,
        };
        endpoint.init_sock();
        endpoint.set_state(state);
        endpoint
    }

    pub(crate) fn clock(&self) -> u64 {
        self.sk.tcp_clock_cache
    }

    /// A time of the endpoint's clock, ns, as its timestamps carry it, ms.
    #[inline]
    pub(crate) fn timestamp(&self, clock_ns: u64) -> u32 {
        let step = self.behaviour.timestamp_step_ms;
        let ms = timestamp_ms(clock_ns);
        match step {
            1 => ms,
            // Linux 2.4 at its 100 ticks: a constant is divided by without a division.
            10 => ms - ms % 10,
            _ => ms - ms % step,
        }
    }

    pub(crate) fn set_state(&mut self, state: State) {
        self.state = state;
        self.sk.skc_state = state as u8;
    }

    /// A segment arrives.
    #[inline(always)]
    pub fn on_segment(&mut self, now: u64, segment: impl Borrow<Segment>) {
        let segment = segment.borrow();
        self.set_clock(now);
        if self.state == State::Established && !segment.flags.any(Flags::RST.with(Flags::SYN)) {
            self.process(segment);
        } else {
            self.on_other_segment(segment);
        }
    }

    /// What is not everyday's.
    #[inline(never)]
    fn on_other_segment(&mut self, segment: &Segment) {
        if segment.flags.has(Flags::RST) {
            self.abort();
            return;
        }
        match self.state {
            State::Closed => {}
            State::Listen | State::SynSent => self.handshake(segment),
            _ if segment.flags.has(Flags::SYN) => self.repeated_syn(),
            State::SynReceived => {
                if segment.flags.has(Flags::ACK) && segment.ack == self.sk.snd_nxt {
                    self.accept_connection(segment);
                    self.process(segment);
                }
            }
            _ => self.process(segment),
        }
    }

    /// `tcp_rcv_established`, `tcp_rcv_state_process`.
    #[inline(never)]
    fn process(&mut self, segment: &Segment) {
        self.sk.rx_opt.rcv_tsval = segment.tsval;
        self.sk.rx_opt.rcv_tsecr = segment.tsecr;
        let clock = self.clock();
        // Of what lies outside the window, not even the acknowledgement counts (`tcp_validate_incoming`).
        if !self.receiver.expects(&self.sk, segment) {
            let refused = self.receiver.accept(&mut self.sk, clock, segment);
            return self.act(refused.ack);
        }
        if segment.flags.has(Flags::ACK) {
            self.ack(segment);
            self.after_ack();
        }
        let mut accepted = Accepted::default();
        self.receiver.take_expected(&mut self.sk, clock, segment, &mut accepted);
        if let Some(earlier) = accepted.earlier {
            self.emit_ack(*earlier);
        }
        if let Some(event) = accepted.event {
            self.tell_of_mark(event);
        }
        if accepted.fin {
            self.peer_has_ended();
        }
        self.push_pending();
        self.check_space();
        let action = self.receiver.ack_check(&mut self.sk, clock);
        self.act(action);
    }

    /// A mark came or ceased: for algorithms that need ECN. They may want an ACK for what came before.
    #[cold]
    fn tell_of_mark(&mut self, event: CaEvent) {
        if self.cc.flags() & crate::NEEDS_ECN == 0 {
            return;
        }
        let ece = self.sk.ecn_flags & 4 != 0;
        self.cc.cwnd_event(&mut self.sk, event);
        while let Some(rcv_nxt) = self.cc.take_ack_request() {
            let fields = self.receiver.older_ack_fields(&mut self.sk, rcv_nxt, ece);
            self.emit_ack(fields);
        }
    }

    fn act(&mut self, action: AckAction) {
        if action == AckAction::Now {
            let seq = self.acceptable_seq();
            self.emit_bare(seq);
        }
    }

    /// `tcp_acceptable_seq`.
    fn acceptable_seq(&self) -> u32 {
        let end = self.sk.snd_una.wrapping_add(self.sk.snd_wnd);
        if crate::segment::before(end, self.sk.snd_nxt) { end } else { self.sk.snd_nxt }
    }

    /// An ACK without data that is not the receiver's usual one.
    #[inline(never)]
    fn emit_ack(&mut self, fields: AckFields) {
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

    /// An ACK without data.
    pub(crate) fn emit_bare(&mut self, seq: u32) {
        let tsval = self.timestamp(self.clock());
        self.emit(Segment { seq, flags: Flags::ACK, tsval, ..Segment::default() });
    }

    /// A segment leaves: what the receiving half has to say goes with it.
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

    /// The time that [`Self::next_timer`] gave has come.
    pub fn on_timer(&mut self, now: u64) {
        self.set_clock(now);
        if matches!(self.state, State::Closed | State::Listen) {
            return;
        }
        self.transmit_timers();
        if !matches!(self.state, State::SynSent | State::SynReceived) {
            let clock = self.clock();
            let action = self.receiver.on_timer(&mut self.sk, clock);
            self.act(action);
        }
        self.check_space();
    }

    /// When the endpoint next wants to be called by itself.
    #[inline]
    pub fn next_timer(&self) -> Option<u64> {
        let next = self.transmit_timer().min(self.receiver.timer().unwrap_or(u64::MAX));
        (next < u64::MAX).then(|| next - CLOCK_START_NS)
    }

    /// The next segment to send now; poll until there is none.
    #[inline]
    pub fn transmit(&mut self, _now: u64) -> Option<Segment> {
        self.out.pop_front()
    }

    /// What [`Self::transmit`] will give, to be read where it lies: a processor waits for what was just written if that is
    /// moved in larger pieces.
    #[inline]
    pub fn next_segment(&self) -> Option<&Segment> {
        self.out.front()
    }

    /// The application writes; gives how many bytes the send buffer took.
    pub fn write(&mut self, now: u64, bytes: u64) -> u64 {
        self.set_clock(now);
        self.write_bytes(bytes)
    }

    /// How many bytes [`Self::write`] would take, or few more; 0 until the kernel would call the socket writable.
    #[inline]
    pub fn writable(&self) -> u64 {
        self.buffer_room()
    }

    /// The application reads at most so many bytes; gives how many there were.
    #[inline]
    pub fn read(&mut self, now: u64, most: u64) -> u64 {
        self.set_clock(now);
        let clock = self.clock();
        let (bytes, action) = self.receiver.read(&mut self.sk, clock, most);
        self.act(action);
        bytes
    }

    /// How many bytes can be read.
    #[inline]
    pub fn readable(&self) -> u64 {
        self.receiver.readable(&self.sk)
    }

    /// The application has written all: a FIN follows the data.
    pub fn close(&mut self, now: u64) {
        self.set_clock(now);
        match self.state {
            State::Established => self.set_state(State::FinWait1),
            State::CloseWait => self.set_state(State::LastAck),
            State::SynSent | State::SynReceived => {
                self.close_wanted = true;
                return;
            }
            _ => return,
        }
        self.queue_fin();
    }

    /// The own FIN may have been acknowledged.
    fn after_ack(&mut self) {
        let next = match self.state {
            State::FinWait1 => State::FinWait2,
            State::Closing => State::TimeWait,
            State::LastAck => State::Closed,
            _ => return,
        };
        if self.fin_acked() {
            self.set_state(next);
        }
    }

    #[cold]
    fn peer_has_ended(&mut self) {
        let next = match self.state {
            State::Established => State::CloseWait,
            State::FinWait1 => State::Closing,
            State::FinWait2 => State::TimeWait,
            state => state,
        };
        self.set_state(next);
    }

    /// Where the connection stands.
    #[inline]
    pub fn state(&self) -> State {
        self.state
    }

    /// What happened since the last call, one by one. Kept only if [`Self::keep_events`] asked for it.
    #[inline]
    pub fn next_event(&mut self) -> Option<Event> {
        self.tx.events.pop_front()
    }

    /// Whether to keep events.
    pub fn keep_events(&mut self, keep: bool) {
        self.tx.keep_events = keep;
    }

    /// The controller.
    pub fn controller(&mut self) -> &mut dyn CongestionControl {
        &mut *self.cc
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }
}
