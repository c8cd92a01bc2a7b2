//! Looks at a stream for the record, at the interval asked for: rows of the record's own kind.
//!
//! A wake-up costs many times what a look does. So the thread of a TCP receiver or of a UDP stream looks between its own calls,
//! where a look is due. The thread that conducts the test looks at TCP senders and for receivers that sleep while something is
//! under way, and once in [`TICK`] at all that nobody looked at. While nothing happens, rows say again what the last look said:
//! where a sender had nothing outstanding and has sent nothing since, and where a receiver was not woken since and no segment
//! came out of order.

use std::{
    os::fd::AsFd,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use schema::FlowSample;

use crate::iperf3::{observer::flow_name, shared::Shared, stream::Stream, udp_stream::UdpStream};

/// How long nobody may look at a stream, and rows may wait to be told.
pub(crate) const TICK: Duration = Duration::from_millis(20);
/// The conductor leaves a stream's thread half an interval to look by itself, at most this, microseconds.
const GRACE_US: u64 = 2000;
/// A receiver's thread that made so many looks one after the other needs no help.
const KEEPS_UP: u32 = 16;
/// Who was stopped for longer, intervals, does not make up rows for that.
const MOST_REPEATED: i64 = 1000;
/// No look is due.
const NEVER: u64 = u64::MAX;

/// What is known of a stream for its rows, by its thread and the conductor. Times are microseconds since the data began.
#[derive(Debug)]
pub(crate) struct Looking {
    every_us: u64,
    is_udp: bool,
    due_us: AtomicU64,
    /// Something happens, or has happened since the last look.
    is_moving: AtomicBool,
    /// The conductor knows that it is needed.
    is_called: AtomicBool,
    /// Looks that the stream's thread made one after the other.
    own: AtomicU32,
    seen: Mutex<Seen>,
}

/// Rows that nobody has taken yet, and what the next ones are compared with.
#[derive(Debug, Default)]
struct Seen {
    last: Option<Last>,
    rows: Vec<FlowSample>,
}

#[derive(Debug)]
struct Last {
    row: FlowSample,
    arrived: i64,
    out_of_order: u32,
}

/// One look.
struct Look {
    row: FlowSample,
    /// Payload that had arrived.
    arrived: i64,
    /// More may happen without the stream's thread.
    is_under_way: bool,
    /// Segments that came out of order: a receiver's thread hears nothing of them.
    out_of_order: u32,
}

impl Looking {
    /// Looks each `every`; `None`: never. Of UDP all that a look tells is its thread's own doing.
    pub(crate) fn new(every: Option<Duration>, is_udp: bool) -> Self {
        let every_us = every.map_or(NEVER, |every| every.as_micros().max(1) as u64);
        Looking {
            every_us,
            is_udp,
            due_us: AtomicU64::new(every_us),
            is_moving: AtomicBool::new(false),
            is_called: AtomicBool::new(false),
            own: AtomicU32::new(0),
            seen: Mutex::default(),
        }
    }

    /// The stream's thread is about to send. It sees how it was at rest, but does not look later: just woken it would always see
    /// the send buffer at its emptiest.
    pub(crate) fn before_sending(&self, stream: &Stream, shared: &Shared) {
        if self.every_us == NEVER {
            return;
        }
        if !self.is_moving.load(Ordering::SeqCst) {
            self.look_if_due(stream, shared);
        }
        self.stir(shared);
    }

    /// It has sent something.
    pub(crate) fn after_sending(&self, shared: &Shared) {
        if self.every_us != NEVER {
            self.stir(shared);
        }
    }

    /// The stream's thread has received something, or sent a datagram.
    pub(crate) fn after(&self, stream: &Stream, shared: &Shared) {
        if self.every_us == NEVER {
            return;
        }
        if !self.look_if_due(stream, shared) || self.is_moving.load(Ordering::SeqCst) {
            self.stir(shared);
        }
    }

    /// The stream's thread does nothing more.
    pub(crate) fn is_left(&self) {
        self.own.store(0, Ordering::Relaxed);
    }

    fn look_if_due(&self, stream: &Stream, shared: &Shared) -> bool {
        let is_due = shared.now_us() >= self.due_us.load(Ordering::Relaxed);
        if is_due {
            self.look(stream, shared);
            self.own.fetch_add(1, Ordering::Relaxed);
        }
        is_due
    }

    /// Something happens. Where the thread does not look often enough by itself the conductor is called for the next look.
    fn stir(&self, shared: &Shared) {
        if !self.is_moving.load(Ordering::SeqCst) {
            self.is_moving.store(true, Ordering::SeqCst);
        }
        let is_called = self.is_called.load(Ordering::SeqCst);
        if !is_called && !self.keeps_up() && !self.is_called.swap(true, Ordering::SeqCst) {
            shared.wake_at(self.overdue_us());
        }
    }

    fn keeps_up(&self) -> bool {
        self.is_udp || self.own.load(Ordering::Relaxed) >= KEEPS_UP
    }

    /// When the conductor has to look; `None` as long as the thread does so or nothing happens.
    pub(crate) fn wanted_us(&self) -> Option<u64> {
        // First this, so that whoever stirs calls again or is seen.
        self.is_called.store(false, Ordering::SeqCst);
        if !self.is_moving.load(Ordering::SeqCst) || self.keeps_up() {
            return None;
        }
        self.is_called.store(true, Ordering::SeqCst);
        Some(self.overdue_us())
    }

    fn overdue_us(&self) -> u64 {
        self.due_us.load(Ordering::Relaxed).saturating_add((self.every_us / 2).min(GRACE_US))
    }

    /// The conductor looks where the thread has not in time. `all`: also where nothing seems to happen.
    pub(crate) fn help(&self, stream: &Stream, shared: &Shared, all: bool) {
        let is_wanted = || all || (self.is_moving.load(Ordering::Relaxed) && !self.keeps_up());
        if shared.now_us() >= self.overdue_us() && is_wanted() {
            self.own.store(0, Ordering::Relaxed);
            self.look(stream, shared);
        }
    }

    fn look(&self, stream: &Stream, shared: &Shared) {
        let mut seen = self.lock();
        let now_us = shared.now_us();
        if now_us < self.due_us.load(Ordering::Relaxed) {
            return;
        }
        // First this: what happens from now on is new.
        let rested = !self.is_moving.swap(false, Ordering::SeqCst);
        if let Some(look) = look_at(stream, now_us as i64, seen.last.as_ref()) {
            if look.is_under_way {
                self.is_moving.store(true, Ordering::SeqCst);
            }
            seen.take(look, rested, self.every_us as i64);
        }
        self.due_us.store((now_us / self.every_us + 1) * self.every_us, Ordering::Relaxed);
    }

    /// Rows that are still to be made are not older.
    pub(crate) fn due_us(&self) -> u64 {
        self.due_us.load(Ordering::Relaxed)
    }

    /// Hands on the rows that are older than `until_us`, in order of time.
    pub(crate) fn take_rows(&self, until_us: u64, into: &mut Vec<FlowSample>) {
        let rows = &mut self.lock().rows;
        let count = rows.partition_point(|row| (row.time_us as u64) < until_us);
        into.extend(rows.drain(..count));
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    /// Takes a look in; where nothing happened since the last one (`rested`), after as many rows like that one as are missing,
    /// one each `every_us`.
    fn take(&mut self, look: Look, rested: bool, every_us: i64) {
        let Look { mut row, arrived, out_of_order, .. } = look;
        if let Some(last) = &self.last {
            let (before, now) = (last.row.time_us / every_us, row.time_us / every_us);
            let mut last_us = last.row.time_us;
            if rested && last.out_of_order == out_of_order && now - before <= MOST_REPEATED {
                let like = FlowSample { goodput_bps: Some(0), owd_us: None, ..last.row.clone() };
                for time_us in (before + 1..now).map(|interval| interval * every_us) {
                    self.rows.push(FlowSample { time_us, ..like.clone() });
                    last_us = time_us;
                }
            }
            // Payload since the last row as a rate.
            let span_s = (row.time_us - last_us) as f64 * 1e-6;
            let bits = (arrived - last.arrived).max(0) as f64 * 8.0;
            row.goodput_bps = (span_s > 0.0).then(|| (bits / span_s) as i64);
        }
        self.rows.push(row.clone());
        self.last = Some(Last { row, arrived, out_of_order });
    }
}

/// Looks at a stream at `time_us`, after `last`; `None` where its kernel tells nothing about it.
fn look_at(stream: &Stream, time_us: i64, last: Option<&Last>) -> Option<Look> {
    let mut row = FlowSample { time_us, flow: flow_name(stream.id), ..FlowSample::default() };
    let socket = stream.socket.as_fd();
    if let Some(udp) = &stream.udp {
        datagrams(stream, udp, &mut row);
        let arrived = stream.bytes() as i64;
        return Some(Look { row, arrived, is_under_way: false, out_of_order: 0 });
    }
    if stream.sends {
        let info = watch::read_sender(socket, &mut row).ok()?;
        // A SYN counts as a byte that is acknowledged.
        let arrived = (row.bytes_acked? - 1).max(0);
        let is_under_way = info.unacked() != Some(0) || info.notsent_bytes() != Some(0);
        return Some(Look { row, arrived, is_under_way, out_of_order: 0 });
    }
    let info = watch::read_receiver(socket, &mut row).ok()?;
    let out_of_order = info.rcv_ooopack().unwrap_or(0);
    let is_under_way = last.is_some_and(|last| last.out_of_order != out_of_order);
    Some(Look { row, arrived: stream.bytes() as i64, is_under_way, out_of_order })
}

/// A UDP stream's counts.
fn datagrams(stream: &Stream, udp: &UdpStream, row: &mut FlowSample) {
    let count = |n: u64| i64::try_from(n).ok();
    if stream.sends {
        row.datagrams_sent = count(udp.datagrams(true).packets);
        return;
    }
    let micros = |ns: i64| ns / 1000;
    let mut statistics = udp.tally().lock();
    let counts = &mut statistics.counts;
    row.owd_us = counts.take_mean_owd_ns().map(micros);
    row.datagrams_received = count(counts.received);
    row.datagrams_lost = count(counts.lost());
    row.datagrams_reordered = count(counts.reordered);
    row.datagrams_duplicated = count(counts.duplicated);
    row.min_owd_us = counts.owd_ns.map(|(least, _)| micros(least));
    row.max_owd_us = counts.owd_ns.map(|(_, most)| micros(most));
    row.jitter_us = Some((counts.jitter_ns * 1e-3).round() as i64);
    row.bytes_received = count(counts.bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY_US: i64 = 1000;

    fn look(time_us: i64, arrived: i64, out_of_order: u32) -> Look {
        let row = FlowSample { time_us, owd_us: Some(arrived), ..FlowSample::default() };
        Look { row, arrived, is_under_way: false, out_of_order }
    }

    /// Time, goodput and delay of the rows after these looks.
    fn rows(looks: impl IntoIterator<Item = (Look, bool)>) -> Vec<(i64, Option<i64>, Option<i64>)> {
        let mut seen = Seen::default();
        for (look, rested) in looks {
            seen.take(look, rested, EVERY_US);
        }
        seen.rows.iter().map(|row| (row.time_us, row.goodput_bps, row.owd_us)).collect()
    }

    #[test]
    fn while_nothing_happens_rows_say_so() {
        let told = rows([(look(1100, 0, 0), true), (look(4500, 1000, 0), true)]);
        let quiet = |time_us| (time_us, Some(0), None);
        // 1000 bytes since the row at 3 ms.
        let last = (4500, Some(5_333_333), Some(1000));
        assert_eq!(told, [(1100, None, Some(0)), quiet(2000), quiet(3000), last]);
    }

    #[test]
    fn what_nobody_looked_at_is_left_out() {
        for (rested, out_of_order) in [(false, 0), (true, 1)] {
            let told = rows([(look(1100, 0, 0), true), (look(4500, 1000, out_of_order), rested)]);
            // 8000 bits in 3.4 ms.
            assert_eq!(told[1..], [(4500, Some(2_352_941), Some(1000))]);
        }
        let hours = 3_600_000_000;
        assert_eq!(rows([(look(1100, 0, 0), true), (look(hours, 0, 0), true)]).len(), 2);
    }
}
