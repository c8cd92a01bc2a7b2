//! Flows from memory to memory, without I/O: both ends of a measurement, for the simulator and the lab.
//!
//! A [`Sender`] and a [`Receiver`] exchange datagrams. Tsunami's also exchange bytes of a control connection,
//! which the receiver's host opens; UDT and QUIC need none. The data is zeros, and the receiver discards it.
//!
//! Pass each arrival to [`End::handle_datagram`] or [`End::handle_control`], and call
//! [`End::handle_timeout`] at [`End::next_timeout`]. After each of these calls, send what
//! [`End::poll_transmit`] and [`End::take_control`] return.
//!
//! ```
//! use bulk::{flow::{End, Plan, Protocol, Receiver, Sender}, udt::RateChoice};
//! use units::{Instant, Time};
//!
//! let protocol = Protocol::Udt { rate: RateChoice::Automatic, receive_packets: None };
//! let plan = Plan { protocol, bytes: Some(1_000_000), mtu: 1500, ip_header: 20, seed: 1 };
//! let (mut sender, mut receiver) = (Sender::new(&plan, Instant::ZERO), Receiver::new(&plan, 9000));
//! let (mut now, mut datagram) = (Instant::ZERO, Vec::new());
//! while !receiver.counts().is_complete {
//!     now += Time::from_micros(100);
//!     sender.handle_timeout(now);
//!     receiver.handle_timeout(now);
//!     while sender.poll_transmit(now, &mut datagram) {
//!         receiver.handle_datagram(now, &datagram);
//!         datagram.clear();
//!     }
//!     while receiver.poll_transmit(now, &mut datagram) {
//!         sender.handle_datagram(now, &datagram);
//!         datagram.clear();
//!     }
//! }
//! assert_eq!(receiver.counts().received_bytes, 1_000_000);
//! ```

mod counts;
mod end;
mod plan;
#[cfg(not(target_arch = "wasm32"))]
mod quic;
mod stream;
mod tsunami;
mod udt;

pub use self::{
    counts::{ReceiverCounts, SenderCounts},
    end::End,
    plan::{Plan, Protocol, QUIC_WINDOW_BYTES},
    stream::{full_stream_payload, full_vdif_payload},
    tsunami::full_block_bytes,
};

use tcp::CongestionControl;
use units::Instant;

#[cfg(not(target_arch = "wasm32"))]
use self::quic::{QuicReceiver, QuicSender};
use self::{
    stream::{StreamReceiver, StreamSender},
    tsunami::{TsunamiReceiver, TsunamiSender},
    udt::{UdtReceiver, UdtSender},
};

/// The sending end.
pub struct Sender(SenderProtocol);

enum SenderProtocol {
    Udt(Box<UdtSender>),
    Tsunami(Box<TsunamiSender>),
    Stream(Box<StreamSender>),
    #[cfg(not(target_arch = "wasm32"))]
    Quic(Box<QuicSender>),
}

/// The receiving end.
pub struct Receiver(ReceiverProtocol);

enum ReceiverProtocol {
    Udt(Box<UdtReceiver>),
    Tsunami(Box<TsunamiReceiver>),
    Stream(Box<StreamReceiver>),
    #[cfg(not(target_arch = "wasm32"))]
    Quic(Box<QuicReceiver>),
}

impl Sender {
    /// A sender that starts now. With QUIC, its congestion control is quinn's CUBIC, and the data in flight
    /// is not counted.
    pub fn new(plan: &Plan, now: Instant) -> Self {
        Sender::with_congestion_control(plan, None, now)
    }

    /// A sender that starts now. Protocols without [one](Plan::has_congestion_control) ignore the
    /// `controller`, which must be set to [`tcp::DRIVER_HZ`].
    pub fn with_congestion_control(
        plan: &Plan,
        #[cfg_attr(target_arch = "wasm32", expect(unused_variables))] controller: Option<
            Box<dyn CongestionControl>,
        >,
        now: Instant,
    ) -> Self {
        Sender(match plan.protocol {
            #[cfg(not(target_arch = "wasm32"))]
            Protocol::Quic { receive_window } => {
                SenderProtocol::Quic(Box::new(QuicSender::new(plan, receive_window, controller, now)))
            }
            Protocol::Udt { rate, .. } => SenderProtocol::Udt(Box::new(UdtSender::new(plan, rate, now))),
            Protocol::Tsunami(parameters) => {
                SenderProtocol::Tsunami(Box::new(TsunamiSender::new(plan, &parameters)))
            }
            Protocol::Stream(parameters) => SenderProtocol::Stream(Box::new(StreamSender::new(parameters))),
        })
    }

    /// Begins a real-time stream without waiting for its receiver's start message. Other protocols ignore
    /// this.
    pub fn begin_stream(&mut self, now: Instant) {
        if let SenderProtocol::Stream(sender) = &mut self.0 {
            sender.begin(now);
        }
    }

    /// Counts so far.
    pub fn counts(&self) -> SenderCounts {
        match &self.0 {
            SenderProtocol::Udt(sender) => sender.counts(),
            SenderProtocol::Tsunami(sender) => sender.counts(),
            SenderProtocol::Stream(sender) => sender.counts(),
            #[cfg(not(target_arch = "wasm32"))]
            SenderProtocol::Quic(sender) => sender.counts(),
        }
    }

    fn end(&self) -> &dyn End {
        match &self.0 {
            SenderProtocol::Udt(end) => &**end,
            SenderProtocol::Tsunami(end) => &**end,
            SenderProtocol::Stream(end) => &**end,
            #[cfg(not(target_arch = "wasm32"))]
            SenderProtocol::Quic(end) => &**end,
        }
    }

    fn end_mut(&mut self) -> &mut dyn End {
        match &mut self.0 {
            SenderProtocol::Udt(end) => &mut **end,
            SenderProtocol::Tsunami(end) => &mut **end,
            SenderProtocol::Stream(end) => &mut **end,
            #[cfg(not(target_arch = "wasm32"))]
            SenderProtocol::Quic(end) => &mut **end,
        }
    }
}

impl Receiver {
    /// A receiver that waits for its sender, or requests data: `port` is its UDP port.
    pub fn new(plan: &Plan, port: u16) -> Self {
        Receiver(match plan.protocol {
            Protocol::Udt { receive_packets, .. } => {
                ReceiverProtocol::Udt(Box::new(UdtReceiver::new(plan, receive_packets)))
            }
            Protocol::Tsunami(parameters) => {
                ReceiverProtocol::Tsunami(Box::new(TsunamiReceiver::new(&parameters, port)))
            }
            Protocol::Stream(parameters) => {
                ReceiverProtocol::Stream(Box::new(StreamReceiver::new(parameters)))
            }
            #[cfg(not(target_arch = "wasm32"))]
            Protocol::Quic { receive_window } => {
                ReceiverProtocol::Quic(Box::new(QuicReceiver::new(plan, receive_window)))
            }
        })
    }

    /// Counts so far.
    pub fn counts(&self) -> ReceiverCounts {
        match &self.0 {
            ReceiverProtocol::Udt(receiver) => receiver.counts(),
            ReceiverProtocol::Tsunami(receiver) => receiver.counts(),
            ReceiverProtocol::Stream(receiver) => receiver.counts(),
            #[cfg(not(target_arch = "wasm32"))]
            ReceiverProtocol::Quic(receiver) => receiver.counts(),
        }
    }

    fn end(&self) -> &dyn End {
        match &self.0 {
            ReceiverProtocol::Udt(end) => &**end,
            ReceiverProtocol::Tsunami(end) => &**end,
            ReceiverProtocol::Stream(end) => &**end,
            #[cfg(not(target_arch = "wasm32"))]
            ReceiverProtocol::Quic(end) => &**end,
        }
    }

    fn end_mut(&mut self) -> &mut dyn End {
        match &mut self.0 {
            ReceiverProtocol::Udt(end) => &mut **end,
            ReceiverProtocol::Tsunami(end) => &mut **end,
            ReceiverProtocol::Stream(end) => &mut **end,
            #[cfg(not(target_arch = "wasm32"))]
            ReceiverProtocol::Quic(end) => &mut **end,
        }
    }
}

macro_rules! delegate_end {
    ($type:ident) => {
        impl End for $type {
            fn handle_datagram(&mut self, now: Instant, bytes: &[u8]) {
                self.end_mut().handle_datagram(now, bytes);
            }
            fn handle_control(&mut self, now: Instant, bytes: &[u8]) {
                self.end_mut().handle_control(now, bytes);
            }
            fn next_timeout(&self) -> Instant {
                self.end().next_timeout()
            }
            fn handle_timeout(&mut self, now: Instant) {
                self.end_mut().handle_timeout(now);
            }
            fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
                self.end_mut().poll_transmit(now, out)
            }
            fn take_control(&mut self) -> Vec<u8> {
                self.end_mut().take_control()
            }
            fn failure(&self) -> Option<String> {
                self.end().failure()
            }
        }
    };
}

delegate_end!(Sender);
delegate_end!(Receiver);
