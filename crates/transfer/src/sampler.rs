//! Samples the connections of a session on a thread, because the thread that transfers the data also waits
//! for files.

use std::{
    net::TcpStream,
    os::fd::AsFd,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    thread::{self, Scope, ScopedJoinHandle},
    time::Duration,
};

use bulk::flow::{ReceiverCounts, SenderCounts};
use engine_common::bulk_row;
use iperf3::{SampleBuffer, flow_name};
use schema::FlowSample;
use units::{Instant, Time};

use crate::{
    EndEvidence, Error, Observer, Session,
    error::failed,
    evidence::{ActivityBuffer, Meter, micros},
};

/// Interval of the samples.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(20);
/// Number of samples of the connections for each sample of the threads, whose running time the kernel counts
/// in ticks.
const SAMPLES_PER_ACTIVITY: u64 = 5;
/// The counts of a connection are published at most this often.
pub(crate) const PUBLISH_INTERVAL: Duration = Duration::from_millis(5);

/// The counts of a connection in user space, which its thread publishes.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedCounts(Arc<Mutex<(SenderCounts, ReceiverCounts)>>);

impl SharedCounts {
    pub(crate) fn publish(&self, sender: SenderCounts, receiver: ReceiverCounts) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (sender, receiver);
    }

    pub(crate) fn get(&self) -> (SenderCounts, ReceiverCounts) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The connections to be sampled.
pub(crate) enum Sampled {
    Tcp(Vec<TcpStream>),
    Counts(SharedCounts),
}

impl Sampled {
    /// TCP connections, by duplicates of their descriptors: the kernel has their state.
    pub(crate) fn tcp<'a>(streams: impl IntoIterator<Item = &'a TcpStream>) -> Result<Self, Error> {
        let copies: std::io::Result<_> = streams.into_iter().map(TcpStream::try_clone).collect();
        Ok(Sampled::Tcp(copies.map_err(failed("duplicate a descriptor"))?))
    }

    /// A row of each connection.
    fn rows(&self, is_sender: bool, time: Duration) -> Vec<FlowSample> {
        let time_us = micros(time);
        let empty =
            |id: usize| FlowSample { time_us, flow: flow_name(id as u32 + 1), ..FlowSample::default() };
        match self {
            Sampled::Tcp(streams) => {
                let row = |(id, stream): (usize, &TcpStream)| {
                    let mut row = empty(id);
                    let read = match is_sender {
                        true => watch::read_sender(stream.as_fd(), &mut row),
                        false => watch::read_receiver(stream.as_fd(), &mut row),
                    };
                    read.ok().map(|_| row)
                };
                streams.iter().enumerate().filter_map(row).collect()
            }
            Sampled::Counts(counts) => {
                let (sender, receiver) = counts.get();
                let mut row = empty(0);
                if is_sender {
                    row = bulk_row(&row.flow, Instant::ZERO + Time::from_duration(time), &sender, &receiver);
                    // The receiver counts them.
                    row.bytes_received = None;
                } else {
                    row.bytes_received = i64::try_from(receiver.received_bytes).ok();
                    row.srtt_us = receiver.rtt.map(|(rtt, _)| rtt.as_micros() as i64);
                    row.rttvar_us = receiver.rtt.map(|(_, deviation)| deviation.as_micros() as i64);
                    row.min_rtt_us = receiver.min_rtt.map(|rtt| rtt.as_micros() as i64);
                }
                vec![row]
            }
        }
    }
}

/// The thread that samples a session; it ends when this is dropped.
pub(crate) struct Sampler<'scope> {
    session: Session,
    stop: Option<Sender<()>>,
    thread: ScopedJoinHandle<'scope, EndEvidence>,
}

impl<'scope> Sampler<'scope> {
    pub(crate) fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        session: Session,
        sampled: Sampled,
        meter: Arc<Meter>,
        observer: &'env dyn Observer,
    ) -> Result<Self, Error> {
        let (stop, stopped) = channel::<()>();
        let sampled_session = session.clone();
        let body = move || {
            let session = sampled_session;
            let (mut rows, mut activity) = (SampleBuffer::new(SAMPLE_INTERVAL), ActivityBuffer::new());
            let mut last: Vec<FlowSample> = Vec::new();
            let mut is_over = false;
            for number in 0.. {
                let mut new = sampled.rows(session.is_sender, meter.elapsed());
                new.iter_mut().for_each(|row| set_goodput(row, &last));
                rows.add(&new);
                observer.samples(&session, &new);
                last = new;
                if number % SAMPLES_PER_ACTIVITY == 0 {
                    activity.add(meter.sample());
                }
                if is_over {
                    break;
                }
                is_over = stopped.recv_timeout(SAMPLE_INTERVAL) != Err(RecvTimeoutError::Timeout);
            }
            let mut rows = rows.into_rows();
            // The last samples have the totals.
            rows.retain(|row| last.iter().all(|last| last.time_us != row.time_us));
            rows.append(&mut last);
            EndEvidence { rows, activity: activity.finish(meter.sample()) }
        };
        observer.connected(&session);
        let thread = thread::Builder::new().name("transfer sampler".into()).spawn_scoped(scope, body);
        let thread = thread.map_err(failed("start a thread"))?;
        Ok(Sampler { session, stop: Some(stop), thread })
    }

    /// Ends the thread. Returns the session and the measurements of this end.
    pub(crate) fn finish(mut self) -> (Session, EndEvidence) {
        self.stop = None;
        (self.session, self.thread.join().unwrap_or_default())
    }
}

/// Sets the goodput since the flow's last row.
fn set_goodput(row: &mut FlowSample, last: &[FlowSample]) {
    let Some(last) = last.iter().find(|last| last.flow == row.flow) else { return };
    let counted = |row: &FlowSample| row.bytes_received.or(row.bytes_acked).or(row.bytes_sent);
    let span_us = row.time_us - last.time_us;
    if let (Some(now), Some(before), true) = (counted(row), counted(last), span_us > 0) {
        row.goodput_bps = Some(((now - before).max(0) as f64 * 8e6 / span_us as f64) as i64);
    }
}
