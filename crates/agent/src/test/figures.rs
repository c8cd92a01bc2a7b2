//! The figures of a test that the archive keeps, and how they are found in a record.

use std::{
    fs,
    path::{Path, PathBuf},
};

use schema::{FlowKind, FlowSummary, RunSummary, Summary};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cause;

/// Separates the evidence from the change that would remove the limit, in [`Figures::evidence`].
const TO_FIX_IT: &str = "; to fix it: ";

/// The figures of a test.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// Goodput of all streams, bit/s.
    pub goodput_bps: Option<f64>,
    /// Share of lost packets, 0 to 1; of TCP, of retransmitted segments.
    pub loss_share: Option<f64>,
    /// Smallest round-trip time, microseconds.
    pub min_rtt_us: Option<f64>,
    /// Median round-trip time, microseconds; of TCP, the mean.
    pub typical_rtt_us: Option<f64>,
    /// Of a probe, the capacity of the narrowest link, bit/s of IP; `null` if the result is inconclusive.
    pub capacity_bps: Option<f64>,
    /// Of a probe, the bandwidth that other traffic leaves, bit/s of IP; `null` if the result is
    /// inconclusive.
    pub available_bps: Option<f64>,
    /// Of a trace, the path MTU, bytes of IP; `null` if the search for it is incomplete. No larger packets
    /// than 9000 bytes are tried.
    pub mtu_bytes: Option<u64>,
    /// Of a trace, the number of hops to the other end; `null` if the other end did not reply.
    pub hops: Option<u64>,
    /// What limited TCP: a cause of the record, or the kind of a diagnosis.
    pub verdict: Option<String>,
    /// The evidence in words; the change that would remove the limit follows `; to fix it: `.
    pub evidence: Option<String>,
}

impl Figures {
    /// The figures of a record's run.
    pub(crate) fn of(run: &RunSummary) -> Figures {
        let data =
            |flow: &&FlowSummary| matches!(flow.kind, FlowKind::Tcp | FlowKind::Udp | FlowKind::Stream);
        let sum = |values: &mut dyn Iterator<Item = Option<f64>>| {
            values.flatten().fold(None, |sum: Option<f64>, value| Some(sum.unwrap_or(0.0) + value))
        };
        let flows = || run.flows.iter().filter(data);
        let first = flows().next().or(run.flows.first());
        let count = |of: fn(&FlowSummary) -> Option<u64>| {
            sum(&mut run.flows.iter().map(of).map(|n| n.map(|n| n as f64)))
        };
        let share = |lost: Option<f64>, sent: Option<f64>| {
            let (lost, sent) = (lost?, sent?);
            (sent > 0.0).then(|| lost / sent)
        };
        // A stream without repairs retransmits nothing, but may lose packets.
        let missed = first.filter(|flow| flow.kind == FlowKind::Stream).and_then(|flow| flow.loss_share);
        let loss = missed
            .or_else(|| share(count(|flow| flow.retransmitted_segs), count(|flow| flow.sent_segs)))
            .or_else(|| first.and_then(|flow| flow.loss_share))
            .or_else(|| share(count(|flow| flow.pings_lost), count(|flow| flow.pings_sent)));
        let verdict = first.and_then(|flow| flow.verdict).map(|cause| cause.name().to_owned());
        let evidence = first.and_then(|flow| flow.evidence.first().cloned());
        let remedy = first.and_then(|flow| flow.remedy.as_deref());
        Figures {
            goodput_bps: sum(&mut flows().map(|flow| flow.goodput_bps)),
            loss_share: loss,
            min_rtt_us: run.flows.iter().filter_map(|flow| flow.min_rtt_us).reduce(f64::min),
            typical_rtt_us: first.and_then(|flow| flow.median_rtt_us.or(flow.mean_rtt_us)),
            evidence: with_remedy(evidence, verdict.as_deref(), remedy),
            verdict,
            ..Figures::default()
        }
    }
}

impl Figures {
    /// The figures of a failed test, or of one that is part of another test: its verdict is not the result.
    pub(crate) fn without_verdict(self) -> Figures {
        Figures { verdict: None, evidence: None, ..self }
    }

    /// The evidence without the change that would remove the limit.
    pub fn finding(&self) -> Option<&str> {
        let evidence = self.evidence.as_deref()?;
        Some(evidence.split_once(TO_FIX_IT).map_or(evidence, |(finding, _)| finding))
    }

    /// The change that would remove the limit, as in `on d: sysctl -w ...`.
    pub fn remedy(&self) -> Option<&str> {
        Some(self.evidence.as_deref()?.split_once(TO_FIX_IT)?.1)
    }
}

/// The evidence together with the change that would remove the limit: one text, because archives and points
/// of earlier versions have no column for the change. The rate of the path is no limit that could be removed.
pub(super) fn with_remedy(
    evidence: Option<String>,
    verdict: Option<&str>,
    remedy: Option<&str>,
) -> Option<String> {
    let verdict = verdict.filter(|cause| !cause::is_good(cause));
    let (Some(verdict), Some(remedy)) = (verdict, remedy) else { return evidence };
    let evidence = evidence.unwrap_or_else(|| format!("the cause is {}", verdict.replace('_', " ")));
    Some(format!("{evidence}{TO_FIX_IT}{remedy}"))
}

/// The title that marks a record as that of a reservation.
pub(super) fn title(id: &str, text: &str) -> String {
    format!("{id}: {text}")
}

/// The records of a reservation whose agent was killed during the test or right after it.
#[derive(Debug)]
pub(crate) struct FoundRecord {
    /// The directory of the test's record.
    pub path: PathBuf,
    /// Its run.
    pub run: RunSummary,
    /// The other records: a diagnosis has several.
    pub others: Vec<PathBuf>,
}

/// Finds the records of a reservation. Records that were not written since `started_s` (seconds since 1970)
/// are not read.
pub(crate) fn find_record(runs_dir: &Path, id: &str, started_s: u64) -> Option<FoundRecord> {
    let since =
        std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(started_s.saturating_sub(1));
    let directories = |path: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> =
            entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
        paths.sort();
        paths
    };
    let mut found = Vec::new();
    for record in directories(runs_dir).iter().flat_map(|scenario| directories(scenario)) {
        let path = record.join("summary.json");
        let is_recent =
            fs::metadata(&path).and_then(|about| about.modified()).is_ok_and(|time| time >= since);
        if !is_recent {
            continue;
        }
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let Ok(summary) = serde_json::from_str::<Summary>(&text) else { continue };
        // Records of watched connections append a word to the title.
        let title = summary.title.strip_prefix("watch: ").unwrap_or(&summary.title);
        let is_its = title.strip_prefix(id).is_some_and(|rest| rest.starts_with(':'));
        if let (true, Some(run)) = (is_its, summary.runs.into_iter().next()) {
            found.push((record, run));
        }
    }
    // Complete records first, and the bursts of a diagnosis last. Its first other test has one connection.
    found.sort_by_key(|(_, run)| (run.part_of.is_some(), run.partial));
    let mut found = found.into_iter();
    let (path, run) = found.next()?;
    Some(FoundRecord { path, run, others: found.map(|(path, _)| path).collect() })
}

#[cfg(test)]
mod tests {
    use schema::{EngineName, SUMMARY_SCHEMA};

    use super::*;

    #[test]
    fn the_remedy_is_kept_with_the_evidence_of_a_limit() {
        let kept = |evidence: Option<&str>, verdict, remedy| Figures {
            evidence: with_remedy(evidence.map(str::to_owned), verdict, remedy),
            ..Figures::default()
        };
        let remedy = Some("on d: sysctl -w net.ipv4.tcp_rmem=\"4096 131072 4194304\"");
        let figures = kept(Some("the window was full"), Some("receive_window"), remedy);
        assert_eq!((figures.finding(), figures.remedy()), (Some("the window was full"), remedy));
        let figures = kept(None, Some("receive_window"), remedy);
        assert_eq!((figures.finding(), figures.remedy()), (Some("the cause is receive window"), remedy));
        for (verdict, remedy) in [(Some("path_rate"), remedy), (None, remedy), (Some("loss"), None)] {
            let figures = kept(Some("x"), verdict, remedy);
            assert_eq!((figures.finding(), figures.remedy()), (Some("x"), None), "{verdict:?}");
        }
        assert_eq!((Figures::default().finding(), Figures::default().remedy()), (None, None));
    }

    #[test]
    fn the_loss_of_a_stream_is_the_share_of_packets_that_missed_their_time() {
        let loss_of = |kind: FlowKind| {
            let flow = FlowSummary {
                kind,
                sent_segs: Some(1000),
                retransmitted_segs: Some(10),
                loss_share: Some(0.03),
                ..FlowSummary::default()
            };
            let begun = RunSummary::begun(EngineName::Test, "2026-01-01T00:00:00Z".into());
            Figures::of(&RunSummary { flows: vec![flow], ..begun }).loss_share
        };
        assert_eq!((loss_of(FlowKind::Stream), loss_of(FlowKind::Tcp)), (Some(0.03), Some(0.01)));
    }

    #[test]
    fn the_record_of_a_diagnosis_is_that_of_its_tcp_test() {
        let runs = tempfile::tempdir().unwrap();
        let write = |name: &str, title: &str, part_of: Option<&str>, partial: bool| {
            let directory = runs.path().join("test-b").join(name);
            fs::create_dir_all(&directory).unwrap();
            let run = RunSummary {
                part_of: part_of.map(str::to_owned),
                partial,
                ..RunSummary::begun(EngineName::Test, "2026-01-01T00:00:00Z".into())
            };
            let summary = Summary {
                schema: SUMMARY_SCHEMA.into(),
                scenario: "test-b".into(),
                title: title.into(),
                host: schema::HostInfo { kernel: "6.12".into(), cpus: 1 },
                runs: vec![run],
                published: Vec::new(),
            };
            fs::write(directory.join("summary.json"), serde_json::to_vec(&summary).unwrap()).unwrap();
        };
        write("1-burst", "a/7: UDP to b", Some("diagnosis"), false);
        write("2-other", "a/70: TCP to b", None, false);
        assert_eq!(find_record(runs.path(), "a/7", 0).unwrap().path.file_name().unwrap(), "1-burst");
        write("3-tcp", "a/7: TCP to b", None, false);
        write("4-burst", "a/7: UDP to b", Some("diagnosis"), false);
        write(".5-parallel.partial", "a/7: TCP to b", None, true);
        let found = find_record(runs.path(), "a/7", 0).unwrap();
        assert_eq!(found.path.file_name().unwrap(), "3-tcp");
        super::super::remove_others(&found.others, Some(&found.path));
        let left = fs::read_dir(runs.path().join("test-b")).unwrap().count();
        assert_eq!((found.others.len(), left), (3, 2));
    }
}
