//! The devices through which watched connections send: their drops since their first use.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    time::{Duration, Instant},
};

use os::{TransmitQueue, TxCounters};
use verdict::SendingDevice;
use watch::Watcher;

use crate::test::sending_device;

/// A namespace and an address in it.
pub(super) type Sender = (String, IpAddr);

/// The devices of senders' addresses.
#[derive(Debug, Default)]
pub(super) struct Devices(BTreeMap<Sender, Device>);

#[derive(Debug)]
struct Device {
    queue: Option<TransmitQueue>,
    /// The counters when the device was first used, and the latest.
    before: Option<TxCounters>,
    now: Option<TxCounters>,
    read: Instant,
}

impl Devices {
    /// Adds a sender's device, if it is new.
    pub(super) fn add(&mut self, watcher: &Watcher, sender: &Sender) {
        if !self.0.contains_key(sender) {
            let before = counters(watcher, sender);
            let device = Device { queue: queue(watcher, sender), before, now: before, read: Instant::now() };
            self.0.insert(sender.clone(), device);
        }
    }

    /// Reads the counters of a sender's device again if they are older than `max_age`.
    pub(super) fn refresh(&mut self, watcher: &Watcher, sender: &Sender, max_age: Duration) {
        if let Some(device) = self.0.get_mut(sender).filter(|device| device.read.elapsed() >= max_age) {
            // A closed namespace has no device: the latest values remain.
            device.now = counters(watcher, sender).or(device.now);
            device.read = Instant::now();
        }
    }

    /// The device of a flow. A device does not count by flow, so its drops are divided in proportion to
    /// retransmissions: those of the flow and those of all flows of the sender.
    pub(super) fn of_flow(&self, sender: &Sender, mss: u64, retransmitted: u64, all: u64) -> SendingDevice {
        let Some(device) = self.0.get(sender) else { return SendingDevice::default() };
        let counted = device.now.zip(device.before).map(|(now, before)| now.since(before));
        let dropped = counted.map_or(0, |counted| counted.segments_dropped(mss));
        let share = dropped.saturating_mul(retransmitted) / all.max(1);
        SendingDevice {
            retransmitted_segs: Some(retransmitted),
            ..sending_device(device.queue.clone(), share)
        }
    }
}

fn counters(watcher: &Watcher, (namespace, address): &Sender) -> Option<TxCounters> {
    watcher.namespace(namespace)?.run(|| Ok(tune::read_tx_counters(*address))).ok()?
}

fn queue(watcher: &Watcher, (namespace, address): &Sender) -> Option<TransmitQueue> {
    watcher.namespace(namespace)?.run(|| Ok(tune::read_transmit_queue(*address))).ok()?
}
