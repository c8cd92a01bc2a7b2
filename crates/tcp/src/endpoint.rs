//! One end of a TCP connection: sending half, receiving half, handshake.
//!
//! Pure: time is an argument (ns since the run's start), segments go in and come out. After each call that takes
//! `now`, poll [`Endpoint::transmit`] until it gives nothing, then ask [`Endpoint::next_timer`].

use crate::{
    CongestionControl, TcpSock,
    config::Config,
    info::{Event, Info},
    segment::Segment,
};

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
    cc: Box<dyn CongestionControl>,
    config: Config,
    state: State,
}

impl Endpoint {
    /// Begins a connection: a SYN is ready to be sent.
    pub fn connect(config: Config, cc: Box<dyn CongestionControl>, _now: u64) -> Endpoint {
        Endpoint { sk: TcpSock::default(), cc, config, state: State::SynSent }
    }

    /// Waits for a connection.
    pub fn listen(config: Config, cc: Box<dyn CongestionControl>) -> Endpoint {
        Endpoint { sk: TcpSock::default(), cc, config, state: State::Listen }
    }

    /// A segment arrives.
    pub fn on_segment(&mut self, _now: u64, _segment: Segment) {}

    /// The time that [`Self::next_timer`] gave has come.
    pub fn on_timer(&mut self, _now: u64) {}

    /// When the endpoint next wants to be called by itself.
    pub fn next_timer(&self) -> Option<u64> {
        None
    }

    /// The next segment to send now; poll until there is none.
    pub fn transmit(&mut self, _now: u64) -> Option<Segment> {
        None
    }

    /// The application writes; gives how many bytes the send buffer took.
    pub fn write(&mut self, _now: u64, _bytes: u64) -> u64 {
        0
    }

    /// How many bytes [`Self::write`] would take; 0 until the kernel would call the socket writable.
    pub fn writable(&self) -> u64 {
        0
    }

    /// The application reads at most so many bytes; gives how many there were.
    pub fn read(&mut self, _now: u64, _most: u64) -> u64 {
        0
    }

    /// How many bytes can be read.
    pub fn readable(&self) -> u64 {
        0
    }

    /// The application has written all: a FIN follows the data.
    pub fn close(&mut self, _now: u64) {}

    /// Where the connection stands.
    pub fn state(&self) -> State {
        self.state
    }

    /// What `tcp_info` would say.
    pub fn info(&self, _now: u64) -> Info {
        Info::default()
    }

    /// What happened since the last call, one by one. Kept only if [`Self::keep_events`] asked for it.
    pub fn next_event(&mut self) -> Option<Event> {
        None
    }

    /// Whether to keep events.
    pub fn keep_events(&mut self, _keep: bool) {}

    /// The controller.
    pub fn controller(&mut self) -> &mut dyn CongestionControl {
        &mut *self.cc
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }
}
