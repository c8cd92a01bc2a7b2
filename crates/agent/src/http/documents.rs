//! The JSON documents of the HTTP interface; `web/src/mesh-api.ts` declares the same types, and a test
//! compares them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Coordinates, Members, TestRow,
    archive::{Acknowledgement, Attention, CauseChange, HourRow, PairFacts, TestCounts},
    cause,
    control::{AlertsReport, CalendarReport, Explained, MemberStatus, SCHEMA, Status},
};

/// The mesh as seen by this point.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct MeshDocument {
    /// `longfat.mesh/1`.
    pub schema: String,
    /// The name of this point.
    pub point: String,
    /// When the document was made, microseconds since 1970.
    pub now_us: i64,
    /// The points, by name.
    pub points: Vec<MeshPoint>,
    /// The pairs that have tests, worst first.
    pub pairs: Vec<MeshPair>,
}

/// A point of the mesh.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct MeshPoint {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: String,
    /// Whether a connection with it is open; `null` for this point. Connections without traffic are closed.
    pub is_connected: Option<bool>,
    /// Why the last connection could not be opened.
    pub failure: Option<String>,
    /// Its place in words.
    pub place: Option<String>,
    /// Its position; `null` if it has announced none.
    pub coordinates: Option<Coordinates>,
}

/// The state of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PairState {
    /// Its tests get no result.
    NoResult,
    /// Something limits TCP before the path does.
    Limited,
    /// TCP gets the rate of the path.
    Good,
    /// No test has found a cause yet.
    Unknown,
}

/// One direction between two points.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct MeshPair {
    /// The point that sends.
    pub from: String,
    /// The point that receives.
    pub to: String,
    /// Its state.
    pub state: PairState,
    /// The cause that limits it.
    pub cause: Option<String>,
    /// The cause in words, as in `receive buffer of d`.
    pub cause_text: Option<String>,
    /// Start of the first test that found this cause, microseconds since 1970.
    pub since_us: Option<i64>,
    /// The last test found this other cause; one more test decides.
    pub unconfirmed_text: Option<String>,
    /// Goodput of the last throughput test by TCP; without one, of the last diagnosis, bit/s.
    pub goodput_bps: Option<f64>,
    /// Best goodput of such a test, bit/s.
    pub best_goodput_bps: Option<f64>,
    /// Share of lost packets in the last latency test; without one, of retransmitted segments in the last
    /// throughput test.
    pub loss_share: Option<f64>,
    /// Smallest round-trip time of the last test, microseconds.
    pub min_rtt_us: Option<f64>,
    /// Typical round-trip time of the last latency test; without one, of the last throughput test,
    /// microseconds.
    pub typical_rtt_us: Option<f64>,
    /// Capacity of the narrowest link that the last probe found, bit/s of IP; `null` if it is inconclusive.
    pub capacity_bps: Option<f64>,
    /// Available bandwidth that the last probe found, bit/s of IP; `null` if it is inconclusive.
    pub available_bps: Option<f64>,
    /// Path MTU that the last trace found, bytes of IP.
    pub mtu_bytes: Option<u64>,
    /// Number of hops to the other end that the last trace found.
    pub hops: Option<u64>,
    /// Start of the test whose goodput is `goodput_bps`: the last throughput test by TCP with the options
    /// that decide on the pair; without one, the last diagnosis; microseconds since 1970.
    pub tested_us: Option<i64>,
    /// Start of the last throughput test by TCP with a result, whatever its options; without one, of the last
    /// diagnosis; microseconds since 1970.
    pub last_test_us: Option<i64>,
    /// The options of the test at `tested_us`, as in `parallel=4`; `null` if it had none. Tests with other
    /// options do not decide on the pair.
    pub options: Option<String>,
    /// Why its tests get no result.
    pub problem: Option<String>,
    /// A user has acknowledged this cause.
    pub acknowledgement: Option<Acknowledgement>,
    /// Its alerts are muted until then, microseconds since 1970.
    pub muted_until_us: Option<i64>,
    /// Number of tests.
    pub tests: TestCounts,
}

impl MeshPair {
    fn of(facts: PairFacts) -> MeshPair {
        let PairFacts {
            from,
            to,
            tests,
            best_goodput_bps,
            throughput,
            tested,
            latency,
            probe,
            trace,
            conclusion,
            cause: change,
        } = facts;
        let (cause, since_us) = match change {
            Some(change) => (Some(change.cause), Some(change.since_us)),
            None => (None, None),
        };
        let state = match cause.as_deref() {
            None => PairState::Unknown,
            Some(cause::NO_RESULT) => PairState::NoResult,
            Some(cause) if cause::is_good(cause) => PairState::Good,
            Some(_) => PairState::Limited,
        };
        let words = |cause: &String| cause::in_words(cause, &from, &to);
        let cause_text = cause.as_ref().map(words);
        // Throughput tests and diagnoses have different names for the same cause.
        let last_text = conclusion.as_ref().map(|conclusion| words(&conclusion.cause));
        let rtt = latency.as_ref().or(throughput.as_ref());
        MeshPair {
            state,
            unconfirmed_text: last_text.filter(|last| cause_text.as_ref() != Some(last)),
            cause_text,
            since_us,
            goodput_bps: throughput.as_ref().and_then(|newest| newest.goodput_bps),
            best_goodput_bps,
            loss_share: rtt.and_then(|newest| newest.loss_share),
            min_rtt_us: rtt.and_then(|newest| newest.min_rtt_us),
            typical_rtt_us: rtt.and_then(|newest| newest.typical_rtt_us),
            capacity_bps: probe.and_then(|probe| probe.capacity_bps),
            available_bps: probe.and_then(|probe| probe.available_bps),
            mtu_bytes: trace.and_then(|trace| trace.mtu_bytes),
            hops: trace.and_then(|trace| trace.hops),
            tested_us: throughput.as_ref().map(|newest| newest.start_us),
            last_test_us: tested.map(|tested| tested.start_us),
            options: throughput.as_ref().and_then(|newest| newest.options.clone()),
            problem: conclusion.filter(|_| state == PairState::NoResult).and_then(|last| last.reason),
            acknowledgement: None,
            muted_until_us: None,
            cause,
            tests,
            from,
            to,
        }
    }

    /// Adds the acknowledgements and mutes of users.
    fn add_attention(&mut self, attention: &Attention, now_us: i64) {
        let known = self.since_us.and_then(|since| attention.acknowledgement(&self.from, &self.to, since));
        self.acknowledgement = known.cloned();
        self.muted_until_us = attention.muted_until(&self.from, &self.to, now_us);
    }

    /// Position in the list: pairs with an acknowledged cause or muted alerts follow all others.
    fn rank(&self) -> (bool, bool, PairState) {
        let is_bad = matches!(self.state, PairState::NoResult | PairState::Limited);
        let is_known = self.acknowledgement.is_some() || self.muted_until_us.is_some();
        (!is_bad, is_bad && is_known, self.state)
    }

    /// Goodput of the last test as a share of the best goodput.
    fn share_of_best(&self) -> f64 {
        match (self.goodput_bps, self.best_goodput_bps) {
            (Some(now), Some(best)) if best > 0.0 => now / best,
            _ => 1.0,
        }
    }
}

/// All pairs, worst first: without a result, then limited by another cause than the path's rate; among those,
/// by how much of their best goodput is missing. Acknowledged and muted ones follow.
fn worst_first(facts: Vec<PairFacts>, attention: &Attention, now_us: i64) -> Vec<MeshPair> {
    let mut pairs: Vec<MeshPair> = facts.into_iter().map(MeshPair::of).collect();
    for pair in &mut pairs {
        pair.add_attention(attention, now_us);
    }
    pairs.sort_by(|a, b| {
        let by_share = a.share_of_best().total_cmp(&b.share_of_best());
        let by_name = || (&a.from, &a.to).cmp(&(&b.from, &b.to));
        a.rank().cmp(&b.rank()).then(by_share).then_with(by_name)
    });
    pairs
}

impl MeshDocument {
    /// Built from the state of the agent and its archive.
    pub(crate) fn new(
        status: &Status,
        members: &Members,
        facts: Vec<PairFacts>,
        attention: &Attention,
        now_us: i64,
    ) -> Self {
        let points = members.members.iter().map(|member| {
            let known: Option<&MemberStatus> =
                status.members.iter().find(|known| known.name == member.name.0);
            let place = member.announcement.as_ref().map(|announcement| &announcement.place);
            MeshPoint {
                place: place.and_then(|place| place.name.clone()),
                coordinates: place.and_then(|place| place.coordinates),
                name: member.name.0.clone(),
                address: member.address.clone(),
                is_connected: known.map(|known| known.connected),
                failure: known.and_then(|known| known.failure.clone()),
            }
        });
        MeshDocument {
            schema: SCHEMA.into(),
            point: status.name.clone(),
            now_us,
            points: points.collect(),
            pairs: worst_first(facts, attention, now_us),
        }
    }
}

/// A pair over time.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PairDocument {
    /// `longfat.mesh/1`.
    pub schema: String,
    /// The point that sends.
    pub from: String,
    /// The point that receives.
    pub to: String,
    /// When the document was made, microseconds since 1970.
    pub now_us: i64,
    /// Its tests, newest first.
    pub tests: Vec<TestRow>,
    /// Hourly averages of tests that are no longer kept one by one, oldest first.
    pub hours: Vec<HourRow>,
    /// Changes of the cause, oldest first; the first one may be before the requested time.
    pub changes: Vec<NamedChange>,
    /// The change that would remove the present cause, as the newest test that found it states it.
    pub remedy: Option<String>,
}

/// A change of a pair's cause, with its words.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct NamedChange {
    /// The change.
    #[serde(flatten)]
    pub change: CauseChange,
    /// The cause in words.
    pub cause_text: String,
}

impl NamedChange {
    pub(crate) fn of(change: CauseChange) -> NamedChange {
        let cause_text = cause::in_words(&change.cause, &change.from, &change.to);
        NamedChange { change, cause_text }
    }
}

/// Tests, newest first.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ResultsDocument {
    /// `longfat.mesh/1`.
    pub schema: String,
    /// The tests.
    pub tests: Vec<TestRow>,
}

/// Reservations and their results.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ReservationsDocument {
    /// `longfat.mesh/1`.
    pub schema: String,
    /// The reservations; one unless a recurring test was requested, newest first.
    pub reservations: Vec<Explained>,
}

/// A reservation that is to be cancelled.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cancellation {
    /// The reservation.
    pub id: String,
    /// The reason, shown to users of both points.
    #[serde(default)]
    pub reason: String,
}

/// The result of a transfer.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransferResult {
    /// The reservation.
    pub id: String,
    /// Payload that the other end has received, bytes; absent: the goodput is that of the TCP connections
    /// that were seen.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// Time that this took, microseconds; above 0.
    pub duration_us: u64,
    /// Why the transfer is incomplete; absent if it is complete.
    #[serde(default)]
    pub error: Option<String>,
}

/// Acknowledged causes and mutes.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AlertsDocument {
    /// `longfat.mesh/1`.
    pub schema: String,
    /// The decisions.
    #[serde(flatten)]
    pub alerts: AlertsReport,
}

/// A cause that is to be acknowledged.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AcknowledgeRequest {
    /// The point that sends.
    pub from: String,
    /// The point that receives.
    pub to: String,
    /// Start of the cause, as in the pair's `since_us`; absent: the present cause.
    #[serde(default)]
    pub since_us: Option<i64>,
    /// A note for other users.
    #[serde(default)]
    pub text: String,
}

/// Pairs whose alerts are to be muted.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MuteRequest {
    /// The point that sends, or `*`.
    pub from: String,
    /// The point that receives, or `*`.
    pub to: String,
    /// From now on, seconds; 0 ends a mute.
    pub seconds: u64,
    /// A note for other users.
    #[serde(default)]
    pub text: String,
}

/// The calendar of a point.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CalendarDocument {
    /// `longfat.mesh/1`.
    pub schema: String,
    /// When the document was made, microseconds since 1970.
    pub now_us: i64,
    /// The calendar.
    #[serde(flatten)]
    pub calendar: CalendarReport,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::{Conclusion, NewestProbe, NewestResult, NewestTrace, TestStart};

    fn facts(to: &str, cause: Option<&str>, goodput_bps: f64) -> PairFacts {
        let newest = NewestResult {
            kind: "throughput".into(),
            options: None,
            start_us: 9,
            goodput_bps: Some(goodput_bps),
            loss_share: None,
            min_rtt_us: None,
            typical_rtt_us: None,
        };
        PairFacts {
            from: "a".into(),
            to: to.into(),
            best_goodput_bps: Some(100.0),
            cause: cause.map(|cause| CauseChange {
                from: "a".into(),
                to: to.into(),
                kind: "throughput".into(),
                since_us: 5,
                cause: cause.into(),
                test: "a/5".into(),
            }),
            throughput: cause.map(|_| newest),
            conclusion: cause.map(|cause| Conclusion { start_us: 9, cause: cause.into(), reason: None }),
            ..PairFacts::default()
        }
    }

    #[test]
    fn pairs_are_sorted_by_state_and_then_by_missing_goodput() {
        let pairs = worst_first(
            vec![
                facts("good", Some("path_rate"), 20.0),
                facts("new", None, 100.0),
                facts("buffer", Some("receive_window"), 90.0),
                facts("worse", Some("loss"), 10.0),
                facts("dead", Some("no_result"), 100.0),
            ],
            &Attention::default(),
            0,
        );
        let names: Vec<&str> = pairs.iter().map(|pair| pair.to.as_str()).collect();
        assert_eq!(names, ["dead", "worse", "buffer", "good", "new"]);
        assert_eq!(pairs[2].cause_text.as_deref(), Some("receive buffer of buffer"));
        assert_eq!((pairs[2].since_us, pairs[2].unconfirmed_text.as_deref()), (Some(5), None));
        assert_eq!(pairs[4].state, PairState::Unknown);
        // Acknowledged pairs follow the others.
        let known = Acknowledgement {
            from: "a".into(),
            to: "dead".into(),
            since_us: 5,
            user: "alice@a".into(),
            text: String::new(),
            at_us: 6,
        };
        let attention = Attention { acknowledged: vec![known.clone()], mutes: Vec::new() };
        let all = || {
            vec![
                facts("dead", Some("no_result"), 1.0),
                facts("worse", Some("loss"), 10.0),
                facts("good", Some("path_rate"), 1.0),
            ]
        };
        let order = |attention: &Attention| -> Vec<String> {
            worst_first(all(), attention, 0).into_iter().map(|pair| pair.to).collect()
        };
        assert_eq!(order(&attention), ["worse", "dead", "good"]);
        let earlier =
            Attention { acknowledged: vec![Acknowledgement { since_us: 4, ..known }], mutes: Vec::new() };
        assert_eq!(order(&earlier), ["dead", "worse", "good"], "it was another cause");
    }

    #[test]
    fn a_pair_has_the_figures_of_its_last_probe_and_trace_and_the_start_of_its_last_test() {
        let pair = MeshPair::of(PairFacts {
            tested: Some(TestStart { kind: "throughput".into(), start_us: 12 }),
            probe: Some(NewestProbe { start_us: 10, capacity_bps: Some(1e9), available_bps: Some(8e8) }),
            trace: Some(NewestTrace { start_us: 11, mtu_bytes: Some(1500), hops: Some(7) }),
            ..facts("b", Some("path_rate"), 10.0)
        });
        assert_eq!((pair.capacity_bps, pair.available_bps), (Some(1e9), Some(8e8)));
        assert_eq!((pair.mtu_bytes, pair.hops), (Some(1500), Some(7)));
        assert_eq!((pair.tested_us, pair.last_test_us), (Some(9), Some(12)), "with other options");
        let without = MeshPair::of(facts("b", None, 10.0));
        assert_eq!((without.capacity_bps, without.available_bps), (None, None));
        assert_eq!((without.mtu_bytes, without.hops, without.last_test_us), (None, None, None));
    }

    #[test]
    fn a_first_test_with_another_cause_is_shown_as_unconfirmed() {
        let mut facts = facts("b", Some("path_rate"), 10.0);
        facts.conclusion = Some(Conclusion { start_us: 10, cause: "receive_window".into(), reason: None });
        let pair = MeshPair::of(facts);
        assert_eq!(pair.state, PairState::Good);
        assert_eq!(pair.unconfirmed_text.as_deref(), Some("receive buffer of b"));
        // The same cause under the name that diagnoses use.
        let mut facts = self::facts("b", Some("receive_window"), 10.0);
        facts.conclusion = Some(Conclusion { start_us: 10, cause: "receive_buffer".into(), reason: None });
        assert_eq!(MeshPair::of(facts).unconfirmed_text, None);
    }
}
