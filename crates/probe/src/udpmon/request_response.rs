//! Request-response latency by packet size: the sum of all links' times per byte.
//!
//! Each link receives a packet completely before it forwards it, so that the time to a reply grows with the
//! size by the sum of the links' times per byte. As in pathchar, only the fastest round trip of each size
//! counts, since no queue delayed it. The far host's own time from the request's arrival to the reply is
//! subtracted.
//!
//! Requests with the smallest replies give the forward direction. Requests with replies of their own size
//! give both directions together. The difference is the backward direction.

use serde::Serialize;
use units::Time;

use super::plan::UdpmonPlan;
use crate::{
    line_fit::{LineFit, LinePoint},
    result::{Interval, ProbeLimits, Validity},
    statistics::{median, minimum, quantile},
    train::Train,
};

/// The error of a minimum: the distance of this quantile from it.
const NEAR_MINIMUM: f64 = 0.1;
/// Share of the timestamps' resolution that remains as the error of a minimum over many round trips.
const REMAINING_RESOLUTION: f64 = 0.05;
/// Minimum time between two requests of a train.
const MIN_GAP: Time = Time::from_millis(1);
/// Minimum time between two requests, as a multiple of the bottleneck's time for the largest packet, so that
/// requests do not queue.
const GAP_FACTOR: f64 = 4.0;
/// Minimum share of requests with a reply.
const MIN_REPLIES: f64 = 0.5;

/// The size of the replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplySize {
    /// As large as the request.
    Request,
    /// The smallest size that carries a reply.
    Smallest,
}

/// Requests of one size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestTrain {
    /// The requests.
    pub train: Train,
    /// The replies.
    pub replies: ReplySize,
}

/// The round trips of one size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LatencyPoint {
    /// Size of the requests, bytes of IP.
    pub packet_bytes: u32,
    /// Size of the replies.
    pub replies: ReplySize,
    /// Number of requests sent.
    pub sent: usize,
    /// Number of replies received.
    pub received: usize,
    /// Time to the reply: minimum, microseconds.
    pub min_us: f64,
    /// Standard error of the minimum, microseconds.
    pub error_us: f64,
    /// Median, microseconds.
    pub median_us: f64,
    /// 95th percentile, microseconds.
    pub p95_us: f64,
}

/// The line through the latencies of one kind of replies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LatencyFit {
    /// Slope: time per byte, ns.
    pub per_byte_ns: Interval,
    /// Intercept: latency of a packet without bytes, microseconds.
    pub intercept_us: Interval,
}

/// The result of the requests.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RequestResponseResult {
    /// Latency by size, for each kind of replies.
    pub points: Vec<LatencyPoint>,
    /// Requests with replies of their size: both directions.
    pub round_trip: Option<LatencyFit>,
    /// Requests with the smallest replies: the forward direction; its intercept is that of the round trip
    /// with the smallest reply.
    pub forward: Option<LatencyFit>,
    /// The time per byte of the backward direction, ns.
    pub backward_per_byte_ns: Option<Interval>,
    /// Whether the result is reliable.
    pub validity: Validity,
}

/// Sends requests of each size.
#[derive(Debug, Clone)]
pub struct RequestResponse {
    sizes: Vec<u32>,
    requests: usize,
    rounds: usize,
    gap: Time,
    resolution_ns: f64,
    /// Round trips, ns, by kind of reply and size.
    round_trips: [Vec<Vec<f64>>; 2],
    sent: [Vec<usize>; 2],
    done: usize,
}

/// The kinds of replies, in their order within a round.
const REPLIES: [ReplySize; 2] = [ReplySize::Smallest, ReplySize::Request];

impl RequestResponse {
    /// Measures the requests of `plan`. `largest_packet_us` is the bottleneck's time for the largest packet,
    /// if it is known.
    pub fn new(plan: &UdpmonPlan, limits: ProbeLimits, largest_packet_us: Option<f64>) -> Self {
        let sizes = plan.request_sizes();
        let undisturbed =
            Time::from_nanos((largest_packet_us.unwrap_or(0.0).max(0.0) * GAP_FACTOR * 1e3) as u64);
        RequestResponse {
            requests: plan.requests,
            rounds: plan.rounds,
            gap: MIN_GAP.max(undisturbed),
            resolution_ns: limits.resolution_ns,
            round_trips: [vec![Vec::new(); sizes.len()], vec![Vec::new(); sizes.len()]],
            sent: [vec![0; sizes.len()], vec![0; sizes.len()]],
            done: 0,
            sizes,
        }
    }

    fn position(&self) -> (usize, usize) {
        (self.done / self.sizes.len() % REPLIES.len(), self.done % self.sizes.len())
    }

    /// The requests to send next; `None` at the end.
    pub fn next_train(&self) -> Option<RequestTrain> {
        if self.done >= self.sizes.len() * REPLIES.len() * self.rounds || self.requests == 0 {
            return None;
        }
        let (kind, size) = self.position();
        Some(RequestTrain {
            train: Train::spaced(self.sizes[size], self.requests, self.gap.as_nanos()),
            replies: REPLIES[kind],
        })
    }

    /// Adds the round trips of the requests of [`Self::next_train`], ns, without the far host's own time;
    /// `None` for a request without reply.
    pub fn add_round_trips(&mut self, round_trips_ns: &[Option<f64>]) {
        let (kind, size) = self.position();
        self.sent[kind][size] += round_trips_ns.len();
        self.round_trips[kind][size].extend(round_trips_ns.iter().flatten());
        self.done += 1;
    }

    /// Describes the present step in one line.
    pub fn progress(&self) -> String {
        let (kind, size) = self.position();
        let replies = match REPLIES[kind] {
            ReplySize::Request => "replies of the same size",
            ReplySize::Smallest => "small replies",
        };
        let round = self.done / (self.sizes.len() * REPLIES.len()) + 1;
        format!("round {round} of {}: requests of {} bytes, {replies}", self.rounds, self.sizes[size])
    }

    fn points(&self, kind: usize) -> Vec<LatencyPoint> {
        let all = self.sizes.iter().zip(&self.round_trips[kind]).zip(&self.sent[kind]);
        let point = |((bytes, trips), sent): ((&u32, &Vec<f64>), &usize)| {
            let min = minimum(trips.iter().copied())?;
            let error_ns = (quantile(trips, NEAR_MINIMUM)? - min)
                .max(REMAINING_RESOLUTION * self.resolution_ns)
                .max(1.0);
            Some(LatencyPoint {
                packet_bytes: *bytes,
                replies: REPLIES[kind],
                sent: *sent,
                received: trips.len(),
                min_us: min / 1e3,
                error_us: error_ns / 1e3,
                median_us: median(trips)? / 1e3,
                p95_us: quantile(trips, 0.95)? / 1e3,
            })
        };
        all.filter_map(point).collect()
    }

    /// The result so far.
    pub fn result(&self) -> RequestResponseResult {
        let [small, full] = [0, 1].map(|kind| self.points(kind));
        let [forward, round_trip] = [&small, &full].map(|points| line(points));
        let backward_per_byte_ns = forward.zip(round_trip).map(|(forward, both)| {
            let (forward, both) = (forward.per_byte_ns, both.per_byte_ns);
            let value = both.value - forward.value;
            // The errors of the two lines are independent.
            let error = (both.high - both.value).hypot(forward.high - forward.value);
            Interval { low: value - error, value, high: value + error }
        });
        let sent: usize = self.sent.iter().flatten().sum();
        let received: usize = self.round_trips.iter().flatten().map(Vec::len).sum();
        let mut warnings = Vec::new();
        if received == 0 {
            warnings.push("no request had a reply".to_string());
        } else if (received as f64) < MIN_REPLIES * sent as f64 {
            warnings.push(format!("only {received} of {sent} requests had a reply"));
        }
        if received > 0 && (forward.is_none() || round_trip.is_none()) {
            warnings.push("replies to requests of fewer than three sizes arrived".into());
        }
        RequestResponseResult {
            points: small.into_iter().chain(full).collect(),
            round_trip,
            forward,
            backward_per_byte_ns,
            validity: Validity::new(warnings, || {
                format!("the fastest of {received} round trips of {} sizes", self.sizes.len())
            }),
        }
    }
}

fn line(points: &[LatencyPoint]) -> Option<LatencyFit> {
    let all: Vec<LinePoint> = points
        .iter()
        .map(|point| LinePoint { x: f64::from(point.packet_bytes), y: point.min_us, error: point.error_us })
        .collect();
    let fit = LineFit::of(&all)?;
    Some(LatencyFit { per_byte_ns: fit.slope.scaled(1e3), intercept_us: fit.intercept })
}

#[cfg(test)]
mod tests {
    use datagrams::Draws;
    use proptest::prelude::*;

    use super::*;

    fn plan() -> UdpmonPlan {
        UdpmonPlan {
            sizes: vec![250, 500, 1000, 1500],
            spacings: None,
            packets: 100,
            rounds: 3,
            requests: 20,
            smallest_request: 52,
        }
    }

    const LIMITS: ProbeLimits =
        ProbeLimits { max_bytes_per_second: 1_000_000, mtu: 1500, resolution_ns: 1000.0 };

    /// 80 ns per byte forward, 8 ns backward, 10 ms of delay, and queues of 50 us on average.
    #[test]
    fn the_two_directions_are_separated() {
        let mut draws = Draws::new(1, 1);
        let mut requests = RequestResponse::new(&plan(), LIMITS, Some(121.0));
        while let Some(next) = requests.next_train() {
            let bytes = f64::from(next.train.bytes);
            let reply = if next.replies == ReplySize::Request { bytes } else { 52.0 };
            let trips: Vec<Option<f64>> = (0..next.train.offsets_ns.len())
                .map(|number| {
                    let queue = draws.exponential(Time::from_micros(50)).as_nanos() as f64;
                    (number > 0).then_some(10e6 + 80.0 * bytes + 8.0 * reply + queue)
                })
                .collect();
            requests.add_round_trips(&trips);
        }
        let result = requests.result();
        let holds = |found: Interval, value: f64| found.low <= value && value <= found.high;
        let forward = result.forward.unwrap();
        assert!((forward.per_byte_ns.value - 80.0).abs() < 4.0, "{result:?}");
        assert!(holds(forward.per_byte_ns, 80.0) && holds(forward.intercept_us, 10_000.416), "{result:?}");
        assert!(holds(result.backward_per_byte_ns.unwrap(), 8.0), "{result:?}");
        assert!((result.round_trip.unwrap().per_byte_ns.value - 88.0).abs() < 4.0, "{result:?}");
        assert_eq!((result.points[0].sent, result.points[0].received), (60, 57));
        assert!(result.validity.valid, "{result:?}");
    }

    #[test]
    fn requests_do_not_queue_behind_each_other() {
        let next = RequestResponse::new(&plan(), LIMITS, Some(1200.0)).next_train().unwrap();
        assert_eq!(next.train.offsets_ns[1], 4_800_000);
        let next = RequestResponse::new(&plan(), LIMITS, None).next_train().unwrap();
        assert_eq!(next.train.offsets_ns[1], 1_000_000);
    }

    #[test]
    fn without_replies_there_is_no_result() {
        let mut requests = RequestResponse::new(&plan(), LIMITS, None);
        while let Some(next) = requests.next_train() {
            requests.add_round_trips(&vec![None; next.train.offsets_ns.len()]);
        }
        let result = requests.result();
        assert_eq!((result.round_trip, result.validity.valid), (None, false));
        assert_eq!(result.validity.reasons, ["no request had a reply"]);
    }

    proptest! {
        /// Arbitrary round trips are evaluated.
        #[test]
        fn arbitrary_round_trips_do_not_panic(all in prop::collection::vec(any::<Option<f64>>(), 1..200)) {
            let mut requests = RequestResponse::new(&plan(), LIMITS, None);
            for chunk in all.chunks(7) {
                if requests.next_train().is_some() {
                    requests.add_round_trips(chunk);
                }
            }
            let result = requests.result();
            prop_assert!(result.points.len() <= 10);
        }
    }
}
