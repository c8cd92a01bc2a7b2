//! Looks at every flow at a fixed interval, and ends flows when their time has come.

use std::{
    os::fd::AsFd,
    sync::{Arc, atomic::Ordering, mpsc::Sender},
    time::Duration,
};

use scenario::rows::{datagram_row, micros};
use schema::{Event, EventKind, FlowSample};
use units::Time;

use crate::{
    clock::RunTime,
    driver::Shared,
    flow::{Flow, State},
    flow_udp::DatagramCounts,
    processors::move_to,
    stalls::Stalls,
    sys,
};

/// Real-time priority of the sampler, below the driver's.
const PRIORITY: i32 = 10;

/// A stop is seen within this time, however long the interval.
const NAP: Duration = Duration::from_millis(20);

/// What one look found.
#[derive(Default)]
pub(crate) struct Look {
    pub(crate) flows: Vec<FlowSample>,
    pub(crate) events: Vec<Event>,
}

/// Looks at flows until all have ended.
pub(crate) struct Sampler {
    pub(crate) flows: Vec<Arc<Flow>>,
    pub(crate) interval: Time,
    pub(crate) duration: Time,
    pub(crate) time: RunTime,
    pub(crate) cpus: Option<Vec<usize>>,
}

/// What the sampler remembers of a flow between two looks.
#[derive(Default)]
struct Memory {
    last: FlowSample,
    received: u64,
    seen: bool,
    started: bool,
    over: bool,
}

impl Memory {
    /// The rate at which bytes were received since the last look, if there was one.
    fn goodput_bps(&self, now_us: i64, received: u64) -> Option<i64> {
        let span = now_us - self.last.time_us;
        let bits = received.saturating_sub(self.received) as f64 * 8.0;
        (self.seen && span > 1).then(|| (bits / (span as f64 * 1e-6)) as i64)
    }

    /// Whether the last row is so recent that the next waits for another look: after a look that was late, and where the run's
    /// time went back by a stall. Rates over next to no time would say nothing.
    fn is_fresh(&self, now: Time, interval: Time) -> bool {
        self.seen && micros(now) < self.last.time_us + micros(interval) / 2
    }

    /// The time of a row that is taken now: rows are in order of time.
    fn row_time(&self, now: Time) -> i64 {
        if self.seen { micros(now).max(self.last.time_us + 1) } else { micros(now) }
    }
}

impl Sampler {
    /// Runs until every flow is over or `stop` says so; returns when samples are missing.
    pub(crate) fn run(self, shared: &Shared, stop: impl Fn() -> bool, looks: &Sender<Look>) -> Stalls {
        // Without real-time priority samples come later on a busy machine; their time stamps stay true.
        let _ = sys::set_real_time(PRIORITY);
        move_to(self.cpus.as_deref());
        sys::set_timer_slack();
        shared.sampler_ready.set();
        shared.running.wait_until_set(&stop);
        let mut memories: Vec<Memory> = self.flows.iter().map(|_| Memory::default()).collect();
        let mut stalls = Stalls::default();
        let mut tick = 1;
        while !memories.iter().all(|m| m.over) {
            let due = self.sleep_until(Time(tick * self.interval.0), &memories, &stop);
            stalls.sampled(due, self.time.now(), self.interval);
            let cut_short = stop();
            let mut look = Look::default();
            for (flow, memory) in self.flows.iter().zip(&mut memories) {
                self.look_at(flow, memory, cut_short, &mut look);
            }
            if looks.send(look).is_err() {
                break;
            }
            tick = (self.time.now().0 / self.interval.0 + 1).max(tick + 1);
        }
        self.flows.iter().for_each(|f| f.stop.set());
        stalls.finished()
    }

    /// Sleeps until the next look, the end of a flow or a stop, whichever comes first; returns which of the first two it was.
    fn sleep_until(&self, tick: Time, memories: &[Memory], stop: &impl Fn() -> bool) -> Time {
        let going = self.flows.iter().zip(memories).filter(|(_, memory)| !memory.over);
        let due = going.map(|(flow, _)| self.end_of(flow)).fold(tick, Time::min);
        loop {
            let left = due.0.saturating_sub(self.time.now().0);
            if left == 0 || stop() {
                break;
            }
            std::thread::sleep(Duration::from_nanos(left).min(NAP));
        }
        due
    }

    /// When a flow is to end at the latest.
    fn end_of(&self, flow: &Flow) -> Time {
        flow.spec.stop.unwrap_or(self.duration).min(self.duration)
    }

    fn look_at(&self, flow: &Flow, memory: &mut Memory, cut_short: bool, look: &mut Look) {
        if memory.over {
            return;
        }
        let now = self.time.now();
        let name = &flow.spec.name;
        let event = |at: Time, kind, value| Event { time_us: micros(at), subject: name.clone(), kind, value };
        let mut state = flow.state();
        if let Some(started) = state.started
            && !memory.started
        {
            memory.started = true;
            look.events.push(event(started, EventKind::Start, 0));
        }
        take_echoes(name, &mut state, look);
        let due = self.end_of(flow);
        let finished = flow.is_done();
        let is_over = finished || now >= due || cut_short;
        if memory.is_fresh(now, self.interval) && !is_over {
            return;
        }
        if let (Some(sender), Some(receiver)) = (&state.sender, &state.receiver) {
            let mut row = FlowSample { flow: name.clone(), ..FlowSample::default() };
            let read = watch::read_sender(sender.as_fd(), &mut row)
                .and_then(|_| watch::read_receiver(receiver.as_fd(), &mut row));
            if read.is_ok() {
                row.time_us = memory.row_time(self.time.now());
                let received = flow.received.load(Ordering::Relaxed);
                row.goodput_bps = memory.goodput_bps(row.time_us, received);
                if memory.seen {
                    watch::notice(&memory.last, &row, &mut look.events);
                }
                memory.received = received;
                memory.seen = true;
                memory.last = row.clone();
                look.flows.push(row);
            }
        }
        if let Some(counts) = &state.datagrams {
            look.flows.push(self.look_at_datagrams(flow, counts, memory));
        }
        if is_over {
            memory.over = true;
            let ended = if finished { state.ended.unwrap_or(now) } else { now };
            state.ended = Some(ended);
            (state.sender, state.receiver) = (None, None);
            drop(state);
            look.events.push(event(ended, EventKind::Stop, 0));
            flow.stop.set();
        }
    }

    /// A row of what a udp flow's ends have counted; the flow's bytes are those of the last row.
    fn look_at_datagrams(&self, flow: &Flow, counts: &DatagramCounts, memory: &mut Memory) -> FlowSample {
        let mut statistics = counts.tally.lock();
        let now = self.time.now();
        let sent = &counts.sent;
        let sent = (sent.datagrams.load(Ordering::Relaxed), sent.bytes.load(Ordering::Relaxed));
        let mut row = datagram_row(&flow.spec.name, now, sent, &mut statistics.counts);
        row.time_us = memory.row_time(now);
        let received = statistics.counts.bytes;
        drop(statistics);
        flow.received.store(received, Ordering::Relaxed);
        row.goodput_bps = memory.goodput_bps(row.time_us, received);
        (memory.received, memory.seen) = (received, true);
        memory.last = row.clone();
        row
    }
}

/// Moves the echoes that a flow has collected into rows and events.
pub(crate) fn take_echoes(flow: &str, state: &mut State, look: &mut Look) {
    for (at, echo) in state.echoes.drain(..) {
        let time_us = micros(at);
        match echo.rtt {
            Some(rtt) => look.flows.push(FlowSample {
                time_us,
                flow: flow.into(),
                srtt_us: i64::try_from(rtt.as_micros()).ok(),
                ..FlowSample::default()
            }),
            None => look.events.push(Event {
                time_us,
                subject: flow.into(),
                kind: EventKind::PingLost,
                value: i64::from(echo.sequence),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_order_though_the_time_goes_back() {
        let ms = Time::from_millis;
        let first = Memory::default();
        assert!(!first.is_fresh(ms(10), ms(10)));
        assert_eq!((first.row_time(ms(0)), first.goodput_bps(0, 5)), (0, None));
        // A look at 110 ms, of which the emulator then says that 5 had stood still.
        let last = FlowSample { time_us: 110_000, ..FlowSample::default() };
        let memory = Memory { last, received: 1_000_000, seen: true, ..Memory::default() };
        assert!(memory.is_fresh(ms(105), ms(10)) && memory.is_fresh(ms(114), ms(10)));
        assert!(!memory.is_fresh(ms(115), ms(10)));
        assert_eq!(memory.goodput_bps(115_000, 1_625_000), Some(1_000_000_000));
        // The end waits for nothing: what arrived counts, but gives no rate.
        assert_eq!(memory.row_time(ms(105)), 110_001);
        assert_eq!(memory.goodput_bps(110_001, 1_625_000), None);
    }
}
