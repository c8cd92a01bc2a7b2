//! A real-time stream as a test: the lead sends at a constant rate, and packets that arrive after their
//! deadline count as missed.

use std::time::Duration;

use iperf3::Token;
use measurement::stream::{StreamRecorder, StreamTest};
use schema::Cause;
use transfer::stream::{Direction, StreamClient, StreamOptions, run_stream};
use units::{BitRate, Time};

use super::{Endpoint, Figures, LeadJob, Measured, lead_job::error_text};

/// Delay between a packet's arrival and its play-out.
const DEADLINE: Time = Time::from_millis(500);
/// Maximum share of packets that may miss their deadline: VLBI correlators tolerate a few missing packets.
const TOLERATED_LOSS: f64 = 0.001;
/// The part of the slot for connections and results.
const END_ALLOWANCE: Duration = Duration::from_secs(1);

/// Sends the stream.
pub(super) fn stream(job: &LeadJob, endpoint: &Endpoint, rate: BitRate, time: Duration) -> Measured {
    let client = StreamClient {
        host: job.host.clone(),
        port: endpoint.port,
        ip: None,
        token: Some(Token::new(endpoint.secret.as_bytes())),
    };
    let options = StreamOptions {
        direction: Direction::ToServer,
        rate,
        duration: Time::from_duration(time.saturating_sub(END_ALLOWANCE).max(END_ALLOWANCE)),
        deadline: DEADLINE,
        repairs: false,
        payload_bytes: None,
        vdif: false,
    };
    let test = StreamTest {
        name: format!("stream-{}", job.host),
        title: super::figures::title(&job.id, &format!("stream of {rate} to {}", job.to)),
        from: job.from.clone(),
        to: job.to.clone(),
        rate,
        tolerate_loss: TOLERATED_LOSS,
    };
    let mut recorder = match StreamRecorder::new(Some(&job.runs_dir), test) {
        Ok(recorder) => recorder,
        Err(error) => return Measured::failed(error_text(&error)),
    };
    let mut unrecorded = None;
    let ran = run_stream(
        &client,
        &options,
        &job.stop,
        |_| {},
        |sample| {
            if let Err(error) = recorder.add(sample) {
                unrecorded.get_or_insert(error_text(&error));
            }
        },
    );
    let (parameters, error) = match ran {
        Ok((parameters, _)) => (parameters, unrecorded),
        Err(error) => {
            let recorded = recorder.finish_partial().ok().flatten();
            return recorded.map_or(Measured::failed(&error), |recorded| Measured {
                figures: Figures::of(&recorded.run).without_verdict(),
                record: recorded.path,
                error: Some(error.to_string()),
            });
        }
    };
    match recorder.finish(&parameters) {
        Ok(recorded) => {
            let run = &recorded.run;
            let missed =
                run.flows.iter().find_map(|flow| flow.stream).filter(|stream| !stream.is_sustainable);
            let missed = missed.map(|stream| {
                let share = (1.0 - stream.in_time_share) * 100.0;
                let causes = recorded.missed.causes().map_or(String::new(), |causes| format!(": {causes}"));
                format!(
                    "{share:.3} % of the packets missed their time, more than the tolerated 0.1 %{causes}"
                )
            });
            let mut figures = Figures::of(run);
            // The requested rate is not a limit of the path.
            if figures.verdict.as_deref() == Some(Cause::Pacing.name()) {
                (figures.verdict, figures.evidence) = (None, None);
            }
            Measured { figures, record: recorded.path, error: error.or(missed) }
        }
        Err(error) => Measured::failed(error_text(&error)),
    }
}
