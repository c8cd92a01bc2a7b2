//! The lead's role in a test: it runs the client and writes the record.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering, mpsc::RecvTimeoutError},
    time::{Duration, Instant},
};

use iperf3::{
    ClientOptions, Token,
    report::{Amount, Interval, Protocol, TestSpec},
};
use measurement::{
    delay::{DelayPackets, DelayTest},
    path::{DiagnosisRequest, MeasuredPath, Peer, Progress, TestSeries},
    unattended,
};
use stamp::{Key, SenderOptions};
use units::Time;

use super::{
    Endpoint, Figures, Kind, LeadJob, Measured, figures,
    lead_job::error_text,
    path_probe::probe_path,
    stream::stream,
    trace::trace,
    transfer::{read_run, transfer},
};

/// Minimum duration of a test whose start took a part of its slot.
const MIN_TEST: Duration = Duration::from_millis(500);
/// Interval at which the lead checks for a stop while it waits for the peer's server.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// Timeout of each step of a test before and after its data.
const PHASE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time between two packets of a latency test.
const LATENCY_INTERVAL: Time = Time::from_millis(20);
/// UDP payload of a latency test's packets, bytes.
const LATENCY_PAYLOAD: usize = 128;
/// Timeout of the last reply of a latency test.
const LATENCY_TIMEOUT: Duration = Duration::from_secs(1);
/// The time that OWAMP needs in addition to sending its packets: both ends prepare, and the server's records
/// are fetched.
const OWAMP_OVERHEAD: Duration = Duration::from_secs(3);
/// The time that a diagnosis needs in addition to its TCP test.
const DIAGNOSIS_OVERHEAD: Time = Time::from_secs(35);

/// Runs the test.
pub(crate) fn measure(job: &LeadJob) -> Measured {
    let begin = Instant::now();
    let endpoint = loop {
        match job.endpoint.recv_timeout(STOP_CHECK_INTERVAL) {
            Ok(endpoint) => break endpoint,
            Err(RecvTimeoutError::Disconnected) => return Measured::failed("the agent has ended"),
            Err(RecvTimeoutError::Timeout) if job.stop.load(Ordering::Acquire) => {
                return Measured::failed(format!("{} did not open a port for the test", job.to));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    };
    // The slot has begun: the time that the start took is missing from the test.
    let remaining = job.parameters.duration.to_duration().saturating_sub(begin.elapsed()).max(MIN_TEST);
    match job.parameters.kind {
        Kind::Throughput => throughput(job, &endpoint, remaining),
        Kind::Latency => latency(job, &endpoint, remaining),
        Kind::Diagnose => diagnose(job, &endpoint),
        Kind::Probe => match job.parameters.rate {
            Some(rate) => probe_path(job, &endpoint, rate, remaining),
            None => Measured::failed("a probe needs a rate"),
        },
        Kind::Trace => trace(job, remaining),
        Kind::Stream => match job.parameters.rate {
            Some(rate) => stream(job, &endpoint, rate, remaining),
            None => Measured::failed("a stream needs a rate"),
        },
        Kind::Transfer => transfer(job, remaining),
    }
}

fn throughput(job: &LeadJob, endpoint: &Endpoint, time: Duration) -> Measured {
    let protocol = if job.parameters.rate.is_some() { Protocol::Udp } else { Protocol::Tcp };
    let options = &job.options;
    let omit = options.omit.to_duration();
    let spec = TestSpec {
        // Limits and the calendar have the rate of all streams together.
        rate: job.parameters.rate.map(|rate| options.rate_of_stream(rate)),
        streams: options.parallel,
        congestion: options.congestion.clone(),
        omit,
        title: Some(job.id.clone()),
        // The slot includes the omitted start.
        ..TestSpec::new(protocol, Amount::Time(time.saturating_sub(omit).max(MIN_TEST)))
    };
    let options = ClientOptions {
        port: endpoint.port,
        token: endpoint.secret().map(Token::new),
        connect_timeout: PHASE_TIMEOUT,
        queue_timeout: PHASE_TIMEOUT,
        phase_timeout: PHASE_TIMEOUT,
        idle_timeout: Some(PHASE_TIMEOUT),
        fit_block: protocol == Protocol::Udp,
        ..ClientOptions::new(&job.host, spec)
    };
    let tested = unattended::run_test(&options, Some(&job.runs_dir), &job.stop);
    let error = tested.error.map(|error| error.to_string());
    match tested.recorded {
        Ok(Some(recorded)) => Measured {
            figures: Figures::of(&recorded.run),
            error: error
                .or_else(|| recorded.path.is_none().then(|| "the record could not be written".into())),
            record: recorded.path,
        },
        Ok(None) => Measured::failed(error.unwrap_or_else(|| "no data flowed".into())),
        Err(unrecorded) => Measured::failed(error.unwrap_or_else(|| error_text(&unrecorded))),
    }
}

fn latency(job: &LeadJob, endpoint: &Endpoint, time: Duration) -> Measured {
    let to = match measurement::path::echoes::address(&job.host) {
        Ok(address) => (address, endpoint.port).into(),
        Err(error) => return Measured::failed(error),
    };
    // The timeout of the last reply is part of the slot.
    let overhead = match job.latency_protocol {
        stamp::Protocol::Owamp => OWAMP_OVERHEAD,
        stamp::Protocol::Stamp | stamp::Protocol::Twamp => Duration::ZERO,
    };
    let sending = time.saturating_sub(LATENCY_TIMEOUT + overhead).max(MIN_TEST);
    let options = SenderOptions {
        protocol: job.latency_protocol,
        to,
        count: u32::try_from(sending.as_nanos() / u128::from(LATENCY_INTERVAL.as_nanos()))
            .unwrap_or(u32::MAX)
            .max(1),
        interval: LATENCY_INTERVAL,
        spacing: stamp::Spacing::Fixed,
        payload: LATENCY_PAYLOAD,
        key: endpoint.secret().map(Key::new),
        session: 0,
        timeout: LATENCY_TIMEOUT,
    };
    let packets = match stamp::measure_packets(&options, &job.stop, &mut |_| {}) {
        Ok(packets) => packets,
        Err(error) => return Measured::failed(error),
    };
    let test = DelayTest {
        name: format!("test-{}", job.host),
        title: figures::title(&job.id, &format!("latency to {}", job.to)),
        from: job.from.clone(),
        to: job.to.clone(),
    };
    let lost: Vec<i64> = packets.lost.values().copied().collect();
    match measurement::delay::record(
        &job.runs_dir,
        &test,
        DelayPackets { trips: &packets.trips, lost: &lost },
    ) {
        Ok(recorded) => {
            let error = packets.trips.is_empty().then(|| format!("no packet returned from {}", job.to));
            // TWAMP and OWAMP count the losses of each direction.
            let evidence = packets.result.each_direction.map(|[forward, backward]| {
                let (to, sent) = (&job.to, [forward.sent, backward.sent]);
                let lost = [forward.lost, backward.lost];
                format!("{} of {} packets to {to} lost, {} of {} from it", lost[0], sent[0], lost[1], sent[1])
            });
            let figures = Figures { evidence, ..Figures::of(&recorded.run) };
            Measured { figures, record: Some(recorded.path), error }
        }
        Err(error) => Measured::failed(error_text(&error)),
    }
}

fn diagnose(job: &LeadJob, endpoint: &Endpoint) -> Measured {
    let mut progress = LoggingProgress;
    let tests = TestSeries {
        peer: Peer {
            host: job.host.clone(),
            port: endpoint.port,
            credentials: None,
            token: Some(Token::new(endpoint.secret.as_bytes())),
        },
        runs_dir: &job.runs_dir,
        stop: Arc::clone(&job.stop),
        progress: &mut progress,
        title: Some(job.id.clone()),
        records: Vec::new(),
        main_record: None,
    };
    let mut path = match MeasuredPath::new(tests) {
        Ok(path) => path,
        Err(error) => return Measured::failed(error),
    };
    let found = {
        let request = DiagnosisRequest {
            rate: None,
            max_rate: None,
            datagrams: true,
            probes: false,
            time: job.parameters.duration.saturating_sub(DIAGNOSIS_OVERHEAD),
            congestion: None,
        };
        let plan = measurement::path::plan(&request, &mut path);
        measurement::path::diagnose(plan, &mut path)
    };
    // The archive has one record of a test. The bursts of datagrams and the parallel connections are in no
    // row, so that nothing would remove them later.
    let record = path.tests.main_record.take();
    remove_others(&path.tests.records, record.as_deref());
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            let run = record.as_deref().and_then(read_run);
            let figures = run.map(|run| Figures::of(&run).without_verdict()).unwrap_or_default();
            return Measured { figures, record, error: Some(error.to_string()) };
        }
    };
    let flow = found.observed.flow.as_ref();
    let limit = found.ranking.limits.first().filter(|_| !found.ranking.healthy);
    let verdict = match limit {
        Some(limit) => serde_json::to_value(limit.kind).ok().and_then(|kind| Some(kind.as_str()?.to_owned())),
        None => Some("healthy".into()),
    };
    let evidence = limit.and_then(|limit| limit.evidence.first().cloned());
    let remedy = limit.and_then(|limit| limit.change.as_deref());
    let figures = Figures {
        goodput_bps: flow.and_then(|flow| flow.goodput_bps),
        loss_share: flow
            .and_then(|flow| Some(flow.retransmitted_segs? as f64 / flow.sent_segs?.max(1) as f64)),
        min_rtt_us: Some(found.observed.rtt.as_micros_f64()),
        typical_rtt_us: flow.and_then(|flow| flow.mean_rtt_us),
        evidence: figures::with_remedy(evidence, verdict.as_deref(), remedy),
        verdict,
        ..Figures::default()
    };
    Measured { figures, record, error: None }
}

/// Removes all records but one.
pub(crate) fn remove_others(records: &[PathBuf], kept: Option<&Path>) {
    for record in records.iter().filter(|record| Some(record.as_path()) != kept) {
        if let Err(error) = fs::remove_dir_all(record) {
            tracing::warn!("cannot remove the record {}: {error}", record.display());
        }
    }
}

/// Logs the progress of a diagnosis.
struct LoggingProgress;

impl Progress for LoggingProgress {
    fn note(&mut self, text: &str) {
        tracing::debug!("{text}");
    }

    fn interval(&mut self, _: &Interval) {}
}
