//! Samples every flow at a fixed interval, and ends flows at their stop times.

use std::{
    os::fd::AsFd,
    sync::{Arc, atomic::Ordering, mpsc::Sender},
    time::Duration,
};

use bulk::flow::SenderCounts;
use engine_common::{bulk_events, bulk_row, datagram_row, micros, time_us};
use schema::{Event, EventKind, FlowSample};
use units::{Instant, Time};

use crate::{
    clock::RunTime,
    driver::Shared,
    flow::{Flow, FlowState},
    flow_bulk::BulkCounts,
    flow_udp::DatagramCounts,
    processors::move_to,
    stalls::Stalls,
    sys,
};

/// Real-time priority of the sampler, below the driver's.
const PRIORITY: i32 = 10;

/// Maximum sleep, so that a stop is detected in time even if the interval is long.
const MAX_SLEEP: Duration = Duration::from_millis(20);

/// The rows of one sampling round.
#[derive(Default)]
pub(crate) struct SampleBatch {
    pub(crate) flows: Vec<FlowSample>,
    pub(crate) events: Vec<Event>,
}

/// Samples flows until all have ended.
pub(crate) struct Sampler {
    pub(crate) flows: Vec<Arc<Flow>>,
    pub(crate) interval: Time,
    pub(crate) end: Instant,
    pub(crate) time: RunTime,
    pub(crate) cpus: Option<Vec<usize>>,
}

/// State of a flow between two samples.
#[derive(Default)]
struct SampledFlow {
    last: FlowSample,
    received: u64,
    /// The sender's counts at the last sample of a udt, tsunami, stream or quic flow.
    counts: SenderCounts,
    /// Whether `last` and `received` hold a sample.
    has_sample: bool,
    has_started: bool,
    has_ended: bool,
}

impl SampledFlow {
    /// The rate at which bytes were received since the last sample, if there was one.
    fn goodput_bps(&self, now_us: i64, received: u64) -> Option<i64> {
        let span = now_us - self.last.time_us;
        let bits = received.saturating_sub(self.received) as f64 * 8.0;
        (self.has_sample && span > 1).then(|| (bits / (span as f64 * 1e-6)) as i64)
    }

    /// Whether it is too early for another row, because the last sample was late or because a stall set the
    /// run's clock back. Rates over such a short time would be meaningless.
    fn is_too_recent(&self, now: Instant, interval: Time) -> bool {
        self.has_sample && time_us(now) < self.last.time_us + micros(interval) / 2
    }

    /// The time of a row taken now, adjusted so that rows are in order of time.
    fn row_time(&self, now: Instant) -> i64 {
        if self.has_sample { time_us(now).max(self.last.time_us + 1) } else { time_us(now) }
    }
}

impl Sampler {
    /// Runs until every flow has ended or `stop` returns true; returns the periods in which samples are
    /// missing.
    pub(crate) fn run(
        self,
        shared: &Shared,
        stop: impl Fn() -> bool,
        samples: &Sender<SampleBatch>,
    ) -> Stalls {
        // Without real-time priority samples are later on a busy machine; their timestamps stay exact.
        let _ = sys::set_real_time(PRIORITY);
        move_to(self.cpus.as_deref());
        os::reduce_timer_slack();
        shared.sampler_ready.set();
        shared.running.wait_until_set(&stop);
        let mut states: Vec<SampledFlow> = self.flows.iter().map(|_| SampledFlow::default()).collect();
        let mut stalls = Stalls::default();
        let mut tick = Instant::ZERO + self.interval;
        while !states.iter().all(|state| state.has_ended) {
            let due = self.sleep_until(tick, &states, &stop);
            stalls.sampled(due, self.time.now(), self.interval);
            let is_stopped = stop();
            let mut batch = SampleBatch::default();
            for (flow, sampled) in self.flows.iter().zip(&mut states) {
                self.sample_flow(flow, sampled, is_stopped, &mut batch);
            }
            if samples.send(batch).is_err() {
                break;
            }
            tick = self.time.now().next_tick(self.interval).max(tick + self.interval);
        }
        self.flows.iter().for_each(|f| f.stop.set());
        stalls.finished()
    }

    /// Sleeps until the next tick, the end of a flow or a stop; returns the earlier time of the first two.
    fn sleep_until(&self, tick: Instant, states: &[SampledFlow], stop: &impl Fn() -> bool) -> Instant {
        let running = self.flows.iter().zip(states).filter(|(_, state)| !state.has_ended);
        let due = running.map(|(flow, _)| self.end_of(flow)).fold(tick, Instant::min);
        loop {
            let remaining = due.saturating_since(self.time.now()).as_nanos();
            if remaining == 0 || stop() {
                break;
            }
            std::thread::sleep(Duration::from_nanos(remaining).min(MAX_SLEEP));
        }
        due
    }

    /// When the flow ends at the latest: its stop time or the end of the run.
    fn end_of(&self, flow: &Flow) -> Instant {
        flow.spec.stop.unwrap_or(self.end).min(self.end)
    }

    fn sample_flow(&self, flow: &Flow, sampled: &mut SampledFlow, is_stopped: bool, batch: &mut SampleBatch) {
        if sampled.has_ended {
            return;
        }
        let now = self.time.now();
        let name = &flow.spec.name;
        let event =
            |at: Instant, kind, value| Event { time_us: time_us(at), subject: name.clone(), kind, value };
        let mut state = flow.state();
        if let Some(started) = state.started
            && !sampled.has_started
        {
            sampled.has_started = true;
            batch.events.push(event(started, EventKind::Start, 0));
        }
        take_echoes(name, &mut state, batch);
        let due = self.end_of(flow);
        let finished = flow.is_done();
        let has_ended = finished || now >= due || is_stopped;
        if sampled.is_too_recent(now, self.interval) && !has_ended {
            return;
        }
        if let (Some(sender), Some(receiver)) = (&state.sender, &state.receiver) {
            let mut row = FlowSample { flow: name.clone(), ..FlowSample::default() };
            let read = watch::read_sender(sender.as_fd(), &mut row)
                .and_then(|_| watch::read_receiver(receiver.as_fd(), &mut row));
            if read.is_ok() {
                row.time_us = sampled.row_time(self.time.now());
                let received = flow.received.load(Ordering::Relaxed);
                row.goodput_bps = sampled.goodput_bps(row.time_us, received);
                if sampled.has_sample {
                    watch::detect_events(&sampled.last, &row, &mut batch.events);
                }
                sampled.received = received;
                sampled.has_sample = true;
                sampled.last = row.clone();
                batch.flows.push(row);
            }
        }
        if let Some(counts) = &state.datagrams {
            batch.flows.push(self.sample_datagrams(flow, counts, sampled));
        }
        if let Some(counts) = &state.bulk {
            self.sample_bulk(flow, counts, &state, sampled, batch);
        }
        if has_ended {
            sampled.has_ended = true;
            let ended = if finished { state.ended.unwrap_or(now) } else { now };
            state.ended = Some(ended);
            (state.sender, state.receiver, state.control) = (None, None, None);
            drop(state);
            batch.events.push(event(ended, EventKind::Stop, 0));
            flow.stop.set();
        }
    }

    /// A row of the counters of a udp flow's ends; also sets the flow's received bytes to those of the row.
    fn sample_datagrams(
        &self,
        flow: &Flow,
        counts: &DatagramCounts,
        sampled: &mut SampledFlow,
    ) -> FlowSample {
        let mut statistics = counts.tally.lock();
        let now = self.time.now();
        let sent = &counts.sent;
        let sent = (sent.datagrams.load(Ordering::Relaxed), sent.bytes.load(Ordering::Relaxed));
        let mut row = datagram_row(&flow.spec.name, now, sent, &mut statistics.counts);
        row.time_us = sampled.row_time(now);
        let received = statistics.counts.bytes;
        drop(statistics);
        flow.received.store(received, Ordering::Relaxed);
        row.goodput_bps = sampled.goodput_bps(row.time_us, received);
        (sampled.received, sampled.has_sample) = (received, true);
        sampled.last = row.clone();
        row
    }

    /// Adds a row and events from the counts of both ends of a udt, tsunami, stream or quic flow. Adds none
    /// before data can be sent.
    fn sample_bulk(
        &self,
        flow: &Flow,
        counts: &BulkCounts,
        state: &FlowState,
        sampled: &mut SampledFlow,
        batch: &mut SampleBatch,
    ) {
        let (sender, receiver) = counts.get();
        if !sender.is_connected {
            return;
        }
        let now = self.time.now();
        let name = &flow.spec.name;
        let mut row = bulk_row(name, now, &sender, &receiver);
        row.time_us = sampled.row_time(now);
        flow.received.store(receiver.received_bytes, Ordering::Relaxed);
        row.goodput_bps = sampled.goodput_bps(row.time_us, receiver.received_bytes);
        let mut control = FlowSample::default();
        if let Some(socket) = &state.control
            && watch::read_sender(socket.as_fd(), &mut control).is_ok()
        {
            (row.srtt_us, row.rttvar_us, row.min_rtt_us) =
                (control.srtt_us, control.rttvar_us, control.min_rtt_us);
        }
        batch.events.extend(bulk_events(name, now, &sampled.counts, &sender));
        sampled.counts = sender;
        (sampled.received, sampled.has_sample) = (receiver.received_bytes, true);
        sampled.last = row.clone();
        batch.flows.push(row);
    }
}

/// Turns the echoes that a flow has collected into rows and events.
pub(crate) fn take_echoes(flow: &str, state: &mut FlowState, batch: &mut SampleBatch) {
    for (at, echo) in state.echoes.drain(..) {
        let time_us = time_us(at);
        match echo.rtt {
            Some(rtt) => batch.flows.push(FlowSample {
                time_us,
                flow: flow.into(),
                srtt_us: i64::try_from(rtt.as_micros()).ok(),
                ..FlowSample::default()
            }),
            None => batch.events.push(Event {
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
    fn rows_stay_in_order_when_a_stall_decreases_the_time() {
        let (ms, interval) = (Instant::from_millis, Time::from_millis(10));
        let first = SampledFlow::default();
        assert!(!first.is_too_recent(ms(10), interval));
        assert_eq!((first.row_time(ms(0)), first.goodput_bps(0, 5)), (0, None));
        // A sample at 110 ms, 5 ms of which the emulator later reports as a stall.
        let last = FlowSample { time_us: 110_000, ..FlowSample::default() };
        let flow = SampledFlow { last, received: 1_000_000, has_sample: true, ..SampledFlow::default() };
        assert!(flow.is_too_recent(ms(105), interval) && flow.is_too_recent(ms(114), interval));
        assert!(!flow.is_too_recent(ms(115), interval));
        assert_eq!(flow.goodput_bps(115_000, 1_625_000), Some(1_000_000_000));
        // The last row of a flow is always taken: its bytes count, but it has no rate.
        assert_eq!(flow.row_time(ms(105)), 110_001);
        assert_eq!(flow.goodput_bps(110_001, 1_625_000), None);
    }
}
