//! One end of a TCP connection: a [`Sender`], a [`crate::Receiver`] and the connection's states.
//!
//! The endpoint does no I/O. The current time is an argument, in ns since the start of the run. Segments are
//! passed in and polled. After each call with a `now` argument, poll [`Endpoint::transmit`] until it returns
//! `None`, then read [`Endpoint::next_timer`].
//!
//! The order of the steps is that of `tcp_rcv_established` (net/ipv4/tcp_input.c). Differences from the
//! kernel:
//! 1. TIME-WAIT does not end, and there are no keepalives.

use crate::connection::{CLOCK_START_NS, Connection};
use crate::{
    Accepted, AckAction, CaEvent, Config, CongestionControl, EndpointEvent, EndpointInfo, Flags, NEEDS_ECN,
    Segment, TcpSock, TcpState, sock::ecn_flags, transmit::Sender,
};
use std::borrow::Borrow;

/// One end of a connection.
pub struct Endpoint {
    pub(crate) conn: Connection,
    pub(crate) sender: Sender,
    /// The application closed the connection during the handshake.
    pub(crate) close_wanted: bool,
}

/// The function of the kernel that processes a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Processing {
    /// `tcp_rcv_established`.
    Established,
    /// `tcp_rcv_state_process`. It does not measure the receiver's round-trip time by timestamps. The ACK
    /// that completes the handshake echoes the same timestamp as the first data, which would otherwise give
    /// no sample either.
    OtherState,
}

impl Endpoint {
    /// Starts a connection: a SYN is ready to be sent.
    pub fn connect(config: Config, cc: Box<dyn CongestionControl>, now: u64) -> Endpoint {
        let mut endpoint = Endpoint::new(config, cc, TcpState::SynSent);
        endpoint.conn.set_clock(now);
        endpoint.begin_connection();
        endpoint
    }

    /// Waits for a connection.
    pub fn listen(config: Config, cc: Box<dyn CongestionControl>) -> Endpoint {
        Endpoint::new(config, cc, TcpState::Listen)
    }

    fn new(config: Config, cc: Box<dyn CongestionControl>, state: TcpState) -> Endpoint {
        Endpoint {
            sender: Sender::new(&config),
            conn: Connection::new(config, cc, state),
            close_wanted: false,
        }
    }

    /// Processes a segment that arrives.
    #[inline(always)]
    pub fn on_segment(&mut self, now: u64, segment: impl Borrow<Segment>) {
        let segment = segment.borrow();
        self.conn.set_clock(now);
        if self.conn.state == TcpState::Established && !segment.flags.any(Flags::RST.with(Flags::SYN)) {
            self.process(segment, Processing::Established);
        } else {
            self.on_slow_path_segment(segment);
        }
    }

    /// Slow path: a SYN, a RST, or a segment in a state other than `Established`.
    #[inline(never)]
    fn on_slow_path_segment(&mut self, segment: &Segment) {
        if segment.flags.has(Flags::RST) {
            self.sender.abort(&mut self.conn);
            return;
        }
        match self.conn.state {
            TcpState::Closed => {}
            TcpState::Listen | TcpState::SynSent => self.handshake(segment),
            _ if segment.flags.has(Flags::SYN) => self.repeated_syn(),
            TcpState::SynReceived => {
                if segment.flags.has(Flags::ACK) && segment.ack == self.conn.sk.snd_nxt {
                    self.accept_connection(segment);
                    self.process(segment, Processing::OtherState);
                }
            }
            _ => self.process(segment, Processing::OtherState),
        }
    }

    /// `tcp_rcv_established`, `tcp_rcv_state_process`.
    #[inline(never)]
    fn process(&mut self, segment: &Segment, processing: Processing) {
        let conn = &mut self.conn;
        conn.sk.rx_opt.rcv_tsval = segment.tsval;
        conn.sk.rx_opt.rcv_tsecr = segment.tsecr;
        let clock = conn.clock();
        // The ACK of a segment outside the window is ignored too (`tcp_validate_incoming`).
        if !conn.receiver.expects(&conn.sk, segment) {
            let refused = conn.receiver.accept(&mut conn.sk, clock, segment);
            return self.act(refused.ack);
        }
        conn.receiver.note_timestamp(segment);
        if segment.flags.has(Flags::ACK) {
            self.sender.ack(conn, segment);
            self.after_ack();
        }
        let conn = &mut self.conn;
        if processing == Processing::Established {
            conn.receiver.measure_rtt_by_timestamp(&mut conn.sk, clock, segment);
        }
        let mut accepted = Accepted::default();
        conn.receiver.take_expected(&mut conn.sk, clock, segment, &mut accepted);
        if let Some(earlier) = accepted.earlier {
            conn.emit_ack(*earlier);
        }
        if let Some(event) = accepted.event {
            self.report_mark(event);
        }
        if accepted.fin {
            self.peer_has_ended();
        }
        let conn = &mut self.conn;
        self.sender.push_pending(conn);
        self.sender.check_space(conn);
        let action = conn.receiver.ack_check(&mut conn.sk, clock);
        self.act(action);
    }

    /// Reports to an algorithm that needs ECN that CE marks begin or end. It may request an ACK for the data
    /// before.
    #[cold]
    fn report_mark(&mut self, event: CaEvent) {
        let conn = &mut self.conn;
        if conn.cc.flags() & NEEDS_ECN == 0 {
            return;
        }
        let ece = conn.sk.ecn_flags & ecn_flags::DEMAND_CWR != 0;
        conn.ca_event(event);
        while let Some(rcv_nxt) = conn.cc.take_ack_request() {
            let fields = conn.receiver.older_ack_fields(&mut conn.sk, rcv_nxt, ece);
            conn.emit_ack(fields);
        }
    }

    fn act(&mut self, action: AckAction) {
        if action == AckAction::Now {
            let seq = self.conn.acceptable_seq();
            self.conn.emit_bare(seq);
        }
    }

    /// Handles the timers that expired at the time returned by [`Self::next_timer`].
    pub fn on_timer(&mut self, now: u64) {
        self.conn.set_clock(now);
        if matches!(self.conn.state, TcpState::Closed | TcpState::Listen) {
            return;
        }
        self.sender.on_timer(&mut self.conn);
        if !matches!(self.conn.state, TcpState::SynSent | TcpState::SynReceived) {
            let clock = self.conn.clock();
            let action = self.conn.receiver.on_timer(&mut self.conn.sk, clock);
            self.act(action);
        }
        self.sender.check_space(&mut self.conn);
    }

    /// When to call [`Self::on_timer`], ns since the start of the run.
    #[inline]
    pub fn next_timer(&self) -> Option<u64> {
        let next = self.sender.next_timer().min(self.conn.receiver.timer().unwrap_or(u64::MAX));
        (next < u64::MAX).then(|| next - CLOCK_START_NS)
    }

    /// Returns the next segment to send now. Poll until it returns `None`.
    #[inline]
    pub fn transmit(&mut self, _now: u64) -> Option<Segment> {
        self.conn.out.pop_front()
    }

    /// Peeks at the segment that [`Self::transmit`] returns next. Reading fields in place avoids a
    /// store-forwarding stall: moving a segment that has just been written field by field stalls the
    /// processor.
    #[inline]
    pub fn next_segment(&self) -> Option<&Segment> {
        self.conn.out.front()
    }

    /// The application writes. Returns the number of bytes that the send buffer took; if these are fewer, the
    /// application is blocked until [`Self::can_write`].
    pub fn write(&mut self, now: u64, bytes: u64) -> u64 {
        self.conn.set_clock(now);
        self.sender.write_bytes(&mut self.conn, bytes)
    }

    /// Whether the application can write, and is not blocked in a write that the send buffer did not take in
    /// full.
    #[inline]
    pub fn can_write(&self) -> bool {
        self.sender.can_write(&self.conn)
    }

    /// The application reads at most `max_bytes`. Returns the number of bytes read.
    #[inline]
    pub fn read(&mut self, now: u64, max_bytes: u64) -> u64 {
        self.conn.set_clock(now);
        let clock = self.conn.clock();
        let (bytes, action) = self.conn.receiver.read(&mut self.conn.sk, clock, max_bytes);
        self.act(action);
        bytes
    }

    /// Number of bytes that can be read.
    #[inline]
    pub fn readable(&self) -> u64 {
        self.conn.receiver.readable(&self.conn.sk)
    }

    /// The application ends its stream: a FIN follows the data.
    pub fn close(&mut self, now: u64) {
        self.conn.set_clock(now);
        match self.conn.state {
            TcpState::Established => self.conn.set_state(TcpState::FinWait1),
            TcpState::CloseWait => self.conn.set_state(TcpState::LastAck),
            TcpState::SynSent | TcpState::SynReceived => {
                self.close_wanted = true;
                return;
            }
            _ => return,
        }
        self.sender.queue_fin(&mut self.conn);
    }

    /// Changes the state if the peer acknowledged the FIN.
    fn after_ack(&mut self) {
        let next = match self.conn.state {
            TcpState::FinWait1 => TcpState::FinWait2,
            TcpState::Closing => TcpState::TimeWait,
            TcpState::LastAck => TcpState::Closed,
            _ => return,
        };
        if self.sender.is_fin_acked(&self.conn) {
            self.conn.set_state(next);
        }
    }

    #[cold]
    fn peer_has_ended(&mut self) {
        let next = match self.conn.state {
            TcpState::Established => TcpState::CloseWait,
            TcpState::FinWait1 => TcpState::Closing,
            TcpState::FinWait2 => TcpState::TimeWait,
            state => state,
        };
        self.conn.set_state(next);
    }

    // ---- The path and the device below --------------------------------------------------------------------

    /// Sets the free space of the device's transmit queue, packets, and the share of this endpoint in the
    /// queue. Call it before every other call if there is such a queue.
    pub fn set_device_queue(&mut self, free_packets: u32, own_packets: u32, own_payload_bytes: u64) {
        self.sender.set_device_queue(&self.conn, free_packets, own_packets, own_payload_bytes);
    }

    /// Whether data waits for [`Self::on_device_sent`].
    #[inline]
    pub fn waits_for_device(&self) -> bool {
        self.sender.waits_for_device()
    }

    /// A packet of this endpoint has left the device's queue.
    pub fn on_device_sent(&mut self, now: u64) {
        self.conn.set_clock(now);
        self.sender.on_device_sent(&mut self.conn);
    }

    /// A router reports that the packet that begins at `seq` is larger than the `mtu` of its next link
    /// ("fragmentation needed", "packet too big"; `tcp_v4_err`, `tcp_v4_mtu_reduced`).
    pub fn on_packet_too_big(&mut self, now: u64, seq: u32, mtu: u32) {
        self.sender.on_packet_too_big(&mut self.conn, now, seq, mtu);
    }

    /// Sets the MTU of the route after a learned value has expired (`tcp_current_mss`).
    pub fn set_path_mtu(&mut self, now: u64, mtu: u32) {
        self.sender.set_path_mtu(&mut self.conn, now, mtu);
    }

    // ---- Observation --------------------------------------------------------------------------------------

    /// The kernel's socket.
    #[inline]
    pub fn sk(&self) -> &TcpSock {
        &self.conn.sk
    }

    /// State of the connection.
    #[inline]
    pub fn state(&self) -> TcpState {
        self.conn.state
    }

    /// Takes the next event. Events are recorded only after [`Self::keep_events`].
    #[inline]
    pub fn next_event(&mut self) -> Option<EndpointEvent> {
        self.conn.events.pop_front()
    }

    /// Turns the recording of events on or off.
    pub fn keep_events(&mut self, keep: bool) {
        self.conn.keep_events = keep;
    }

    /// The congestion control.
    pub fn controller(&mut self) -> &mut dyn CongestionControl {
        &mut *self.conn.cc
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.conn.config
    }

    /// A snapshot of the endpoint's `tcp_info` at `now`.
    pub fn info(&self, now: u64) -> EndpointInfo {
        EndpointInfo::new(&self.conn, &self.sender, now)
    }

    /// Checks that the socket's counters agree with the send queue; for tests.
    ///
    /// # Errors
    ///
    /// The counter that disagrees.
    #[doc(hidden)]
    pub fn verify(&self) -> Result<(), String> {
        self.sender.verify(&self.conn)
    }
}
