//! Congestion controls with the interface of crate `tcp`, behind quinn's trait.
//!
//! quinn requires controllers that other threads may use, but a native congestion control must stay on one
//! thread. The connection's thread therefore keeps the controllers in a thread-local table, and quinn
//! receives their indices.

use std::{any::Any, cell::RefCell, collections::BTreeMap, rc::Rc, sync::Arc, time::Instant};

use quinn_proto::{
    RttEstimator,
    congestion::{Controller, ControllerFactory, ControllerMetrics},
};
use tcp::{CongestionControl, CongestionDriver, INITIAL_CWND};
use units::Time;

/// The minimum congestion window, packets (RFC 9002, section 7.2).
const MIN_WINDOW_PACKETS: u64 = 2;

thread_local! {
    static TABLE: RefCell<Table> = RefCell::default();
}

/// Creates the congestion control of a connection with this number, which is unique on the thread; `None` if
/// there is none for it.
type Create = dyn FnMut(u64) -> Option<Box<dyn CongestionControl>>;

/// The congestion controls of this thread.
#[derive(Default)]
struct Table {
    next: u64,
    factories: BTreeMap<u64, Box<Create>>,
    connections: BTreeMap<u64, Connection>,
    /// The newest connection of each factory.
    newest: BTreeMap<u64, u64>,
}

/// The congestion control of a connection.
struct Connection {
    driver: CongestionDriver<dyn CongestionControl>,
    /// At the last acknowledgement, there was nothing more to send.
    is_app_limited: bool,
}

impl Table {
    fn next_id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// Accesses the table; `None` while the thread ends.
fn with_table<T>(access: impl FnOnce(&mut Table) -> T) -> Option<T> {
    TABLE.try_with(|table| access(&mut table.borrow_mut())).ok()
}

/// The congestion control of connections of this thread.
#[derive(Debug)]
pub struct Congestion {
    factory: Arc<FactoryId>,
    /// Connections with it must stay on this thread.
    _not_send: std::marker::PhantomData<Rc<()>>,
}

/// A factory in the table.
#[derive(Debug)]
struct FactoryId(u64);

/// The state of a connection in its congestion control.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CongestionState {
    /// Packets sent, and neither acknowledged nor lost.
    pub in_flight_packets: u64,
    /// Mean deviation of the round-trip time.
    pub rtt_deviation: Time,
    /// At the last acknowledgement, there was nothing more to send: the application or flow control limited
    /// the connection.
    pub is_app_limited: bool,
}

impl Congestion {
    /// Congestion controls from a function, which receives a number that is unique on the thread for each
    /// connection.
    pub fn new(create: impl FnMut(u64) -> Option<Box<dyn CongestionControl>> + 'static) -> Self {
        let id = with_table(|table| {
            let id = table.next_id();
            table.factories.insert(id, Box::new(create));
            id
        });
        Congestion { factory: Arc::new(FactoryId(id.unwrap_or(0))), _not_send: std::marker::PhantomData }
    }

    /// The state of the newest connection.
    pub fn state(&self) -> CongestionState {
        let state = |table: &mut Table| {
            let connection = table.connections.get(table.newest.get(&self.factory.0)?)?;
            let sk = connection.driver.sk();
            Some(CongestionState {
                in_flight_packets: u64::from(sk.packets_in_flight()),
                // As in `tcp_get_info`: `mdev_us` is four times the deviation.
                rtt_deviation: Time::from_micros(u64::from(sk.mdev_us >> 2)),
                is_app_limited: connection.is_app_limited,
            })
        };
        with_table(state).flatten().unwrap_or_default()
    }

    /// The factory for quinn's configuration.
    pub fn factory(&self) -> Arc<dyn ControllerFactory + Send + Sync> {
        Arc::new(Factory(Arc::clone(&self.factory)))
    }
}

impl Drop for FactoryId {
    fn drop(&mut self) {
        // Dropped after the access to the table: it may drop congestion controls, which access the table too.
        let factory = with_table(|table| {
            table.newest.remove(&self.0);
            table.factories.remove(&self.0)
        });
        drop(factory);
    }
}

struct Factory(Arc<FactoryId>);

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Handle::new(Arc::clone(&self.0), now, current_mtu))
    }
}

/// A controller in the table.
struct Handle {
    id: u64,
    factory: Arc<FactoryId>,
    start: Instant,
    packet_bytes: u16,
}

impl Handle {
    fn new(factory: Arc<FactoryId>, start: Instant, packet_bytes: u16) -> Self {
        let id = with_table(|table| {
            let id = table.next_id();
            let create = table.factories.get_mut(&factory.0);
            if let Some(controller) = create.and_then(|create| create(id)) {
                let driver = CongestionDriver::new(controller, u32::from(packet_bytes));
                table.connections.insert(id, Connection { driver, is_app_limited: false });
                table.newest.insert(factory.0, id);
            }
            id
        });
        Handle { id: id.unwrap_or(0), factory, start, packet_bytes }
    }

    fn us(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.start).as_micros() as u64
    }

    fn with<T>(&self, access: impl FnOnce(&mut CongestionDriver<dyn CongestionControl>) -> T) -> Option<T> {
        with_table(|table| table.connections.get_mut(&self.id).map(|c| access(&mut c.driver))).flatten()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let connection = with_table(|table| table.connections.remove(&self.id));
        drop(connection);
    }
}

impl Controller for Handle {
    fn on_sent(&mut self, now: Instant, bytes: u64, _last_packet_number: u64) {
        let now_us = self.us(now);
        self.with(|driver| driver.sent(now_us, bytes));
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, _app_limited: bool, _rtt: &RttEstimator) {
        let (now_us, sent_us) = (self.us(now), self.us(sent));
        self.with(|driver| driver.acknowledged(now_us, sent_us, bytes));
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, _largest: Option<u64>) {
        let now_us = self.us(now);
        with_table(|table| {
            let Some(connection) = table.connections.get_mut(&self.id) else { return };
            connection.driver.end_acknowledgement(now_us, in_flight, app_limited);
            connection.is_app_limited = app_limited;
        });
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent: bool, lost_bytes: u64) {
        let (now_us, sent_us) = (self.us(now), self.us(sent));
        self.with(|driver| driver.lost(now_us, sent_us, lost_bytes, is_persistent));
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.packet_bytes = new_mtu;
        self.with(|driver| driver.set_packet_bytes(u32::from(new_mtu)));
    }

    fn window(&self) -> u64 {
        let minimum = MIN_WINDOW_PACKETS * u64::from(self.packet_bytes);
        self.with(|driver| driver.window_bytes()).unwrap_or(minimum).max(minimum)
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window();
        metrics.ssthresh = self.with(|driver| driver.ssthresh_bytes()).flatten();
        let rate = self.with(|driver| driver.pacing_rate()).flatten();
        metrics.pacing_rate = rate.map(|bytes| bytes.saturating_mul(8));
        metrics
    }

    /// A new path begins with a new controller.
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Handle::new(Arc::clone(&self.factory), self.start, self.packet_bytes))
    }

    fn initial_window(&self) -> u64 {
        u64::from(INITIAL_CWND) * u64::from(self.packet_bytes)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests have a clock and threads")]
mod tests {
    use std::time::Duration;

    use cc::{ParameterValues, Source, native::Library};

    use super::*;

    fn load(source: &Source) -> Congestion {
        let library = Library::open(source, &ParameterValues::new()).unwrap();
        Congestion::new(move |_| Some(Box::new(library.controller(None).unwrap())))
    }

    /// Sends `count` whole windows with an RTT of 20 ms, all of which are acknowledged. Returns the time.
    fn run_rounds(handle: &mut Handle, mut now: Instant, count: usize) -> Instant {
        for _ in 0..count {
            let packets = handle.window() / 1200;
            (0..packets).for_each(|number| handle.on_sent(now, 1200, number));
            let sent_us = handle.us(now);
            now += Duration::from_millis(20);
            let now_us = handle.us(now);
            // The estimator of `on_ack` cannot be made outside of quinn.
            (0..packets).for_each(|_| {
                handle.with(|driver| driver.acknowledged(now_us, sent_us, 1200)).unwrap();
            });
            handle.on_end_acks(now, 0, false, None);
        }
        now
    }

    #[test]
    fn every_algorithm_grows_its_window_and_reduces_it_after_losses() {
        for algorithm in cc::Algorithm::all() {
            let congestion = load(&Source::BuiltIn(algorithm));
            let start = Instant::now();
            let mut handle = Handle::new(Arc::clone(&congestion.factory), start, 1200);
            let begin = handle.window();
            let now = run_rounds(&mut handle, start, 5);
            let grown = handle.window();
            assert!(grown > begin, "{}: {begin} {grown}", algorithm.name);
            handle.on_congestion_event(now, now, true, grown);
            assert!((2400..grown).contains(&handle.window()), "{}: {}", algorithm.name, handle.window());
        }
        let is_empty = with_table(|table| table.connections.is_empty() && table.factories.is_empty());
        assert_eq!(is_empty, Some(true), "ended connections leave nothing");
    }

    #[test]
    fn on_another_thread_the_window_is_the_smallest() {
        let congestion = load(&Source::built_in("cubic").unwrap());
        let factory = congestion.factory();
        let window = std::thread::spawn(move || factory.build(Instant::now(), 1200).window());
        assert_eq!(window.join().unwrap(), 2400);
    }
}
