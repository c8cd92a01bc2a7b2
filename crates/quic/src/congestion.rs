//! Congestion controls of crate `cc` behind quinn's trait.
//!
//! quinn requires controllers that other threads may use, but a native congestion control must stay on one thread. The
//! connection's thread therefore keeps the controllers in a thread-local table, and quinn gets their indices.

use std::{any::Any, cell::RefCell, collections::BTreeMap, rc::Rc, sync::Arc, time::Instant};

use cc::{
    ParameterValues, Source,
    native::{Controller as NativeController, Library},
};
use quinn_proto::{
    RttEstimator,
    congestion::{Controller, ControllerFactory, ControllerMetrics},
};
use tcp::{CongestionDriver, INITIAL_CWND};

use crate::Error;

/// The minimum congestion window, packets (RFC 9002, section 7.2).
const MIN_WINDOW_PACKETS: u64 = 2;

thread_local! {
    static TABLE: RefCell<Table> = RefCell::default();
}

/// The congestion controls of this thread.
#[derive(Default)]
struct Table {
    next: u64,
    libraries: BTreeMap<u64, Library>,
    drivers: BTreeMap<u64, CongestionDriver<NativeController>>,
    /// The newest driver of each library.
    newest: BTreeMap<u64, u64>,
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

/// A loaded congestion control for the connections of this thread.
#[derive(Debug)]
pub(crate) struct Congestion {
    library: Arc<LoadedLibrary>,
    /// Connections with it must stay on this thread.
    _not_send: std::marker::PhantomData<Rc<()>>,
}

/// A library in the table.
#[derive(Debug)]
struct LoadedLibrary(u64);

impl Congestion {
    /// Loads a congestion control, with the default values of its parameters.
    pub(crate) fn load(source: &Source) -> Result<Self, Error> {
        let library = Library::open(source, &ParameterValues::new())?;
        // The main congestion control exists from now on.
        library.controller(None)?;
        let id = with_table(|table| {
            let id = table.next_id();
            table.libraries.insert(id, library);
            id
        });
        Ok(Congestion {
            library: Arc::new(LoadedLibrary(id.unwrap_or(0))),
            _not_send: std::marker::PhantomData,
        })
    }

    /// Packets in flight of the newest connection.
    pub(crate) fn in_flight_packets(&self) -> u64 {
        let driver = |table: &mut Table| {
            let id = table.newest.get(&self.library.0)?;
            Some(u64::from(table.drivers.get(id)?.sk().packets_in_flight()))
        };
        with_table(driver).flatten().unwrap_or(0)
    }

    /// The factory for quinn's configuration.
    pub(crate) fn factory(&self) -> Arc<dyn ControllerFactory + Send + Sync> {
        Arc::new(Factory(Arc::clone(&self.library)))
    }
}

impl Drop for LoadedLibrary {
    fn drop(&mut self) {
        with_table(|table| {
            table.newest.remove(&self.0);
            table.libraries.remove(&self.0)
        });
    }
}

struct Factory(Arc<LoadedLibrary>);

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Handle::new(Arc::clone(&self.0), now, current_mtu))
    }
}

/// A controller in the table.
struct Handle {
    id: u64,
    library: Arc<LoadedLibrary>,
    start: Instant,
    packet_bytes: u16,
}

impl Handle {
    fn new(library: Arc<LoadedLibrary>, start: Instant, packet_bytes: u16) -> Self {
        let id = with_table(|table| {
            let id = table.next_id();
            let controller =
                table.libraries.get(&library.0).and_then(|library| library.controller(None).ok());
            if let Some(mut controller) = controller {
                controller.set_seed(id);
                table.drivers.insert(id, CongestionDriver::new(controller, u32::from(packet_bytes)));
                table.newest.insert(library.0, id);
            }
            id
        });
        Handle { id: id.unwrap_or(0), library, start, packet_bytes }
    }

    fn us(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.start).as_micros() as u64
    }

    fn with<T>(&self, access: impl FnOnce(&mut CongestionDriver<NativeController>) -> T) -> Option<T> {
        with_table(|table| table.drivers.get_mut(&self.id).map(access)).flatten()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        with_table(|table| table.drivers.remove(&self.id));
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
        self.with(|driver| driver.end_acknowledgement(now_us, in_flight, app_limited));
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
        Box::new(Handle::new(Arc::clone(&self.library), self.start, self.packet_bytes))
    }

    fn initial_window(&self) -> u64 {
        u64::from(INITIAL_CWND) * u64::from(self.packet_bytes)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

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
            let congestion = Congestion::load(&Source::BuiltIn(algorithm)).unwrap();
            let start = Instant::now();
            let mut handle = Handle::new(Arc::clone(&congestion.library), start, 1200);
            let begin = handle.window();
            let now = run_rounds(&mut handle, start, 5);
            let grown = handle.window();
            assert!(grown > begin, "{}: {begin} {grown}", algorithm.name);
            handle.on_congestion_event(now, now, true, grown);
            assert!((2400..grown).contains(&handle.window()), "{}: {}", algorithm.name, handle.window());
        }
        let is_empty = with_table(|table| table.drivers.is_empty() && table.libraries.is_empty());
        assert_eq!(is_empty, Some(true), "ended connections leave nothing");
    }

    #[test]
    fn another_thread_gets_the_smallest_window() {
        let congestion = Congestion::load(&Source::built_in("cubic").unwrap()).unwrap();
        let factory = congestion.factory();
        let window = std::thread::spawn(move || factory.build(Instant::now(), 1200).window());
        assert_eq!(window.join().unwrap(), 2400);
    }
}
