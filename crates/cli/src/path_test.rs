//! Tests of one path, one after another, each a run on record.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use measurement::test::{self, RecordedTest, Recording};
use perf::{
    iperf3::{self, ClientOptions, wire},
    report::{Amount, Direction, Protocol, Report, TestSpec},
};
use tune::HostFacts;
use units::{BitRate, Bytes};

use crate::{
    exit::Exit,
    test_args::Identity,
    test_teller::{Form, Teller},
};

/// Between two looks at the sockets.
const SAMPLE: Duration = Duration::from_millis(10);

/// Where datagrams are to come evenly, later ones are left out.
const MOST_LATE: Duration = Duration::from_micros(500);

/// The other end, and where records go.
pub struct Tests<'a> {
    /// A name or an address.
    pub host: &'a str,
    /// Where it listens.
    pub port: u16,
    /// Who asks.
    pub identity: &'a Identity,
    /// Where records are kept.
    pub runs_dir: &'a Path,
    /// Set when the user wants to end.
    pub stop: Arc<AtomicBool>,
    /// Records of all tests so far.
    pub records: Vec<PathBuf>,
}

/// A test.
pub struct PathTest {
    /// TCP or UDP.
    pub protocol: Protocol,
    /// Streams side by side.
    pub streams: u32,
    /// For how long.
    pub amount: Amount,
    /// Payload, where it is not as fast as it goes.
    pub rate: Option<BitRate>,
    /// Payload of a datagram.
    pub block: Option<Bytes>,
    /// Datagrams come evenly or not at all: a burst of late ones would overflow short queues, and be taken for loss.
    pub is_even: bool,
    /// The sender's congestion control.
    pub congestion: Option<String>,
}

/// What came of one.
pub struct Done {
    /// Both ends' counts.
    pub report: Report,
    /// The record, the summary and the samples.
    pub kept: RecordedTest,
    /// The other host.
    pub peer: Option<HostFacts>,
    /// How busy the sending thread was.
    pub busy: Option<f64>,
    /// And the receiving one.
    pub peer_busy: Option<f64>,
}

impl Tests<'_> {
    /// Runs a test; `None` where no data ever flowed and nothing failed.
    pub fn run(&mut self, test: &PathTest) -> anyhow::Result<Option<Done>> {
        let options = ClientOptions {
            port: self.port,
            ask_host: true,
            credentials: self.identity.credentials()?,
            token: self.identity.token()?,
            ..ClientOptions::new(self.host, spec(test))
        };
        let recording = Recording::new(self.runs_dir, &options);
        let mut teller = Teller::new(Form::Json, SAMPLE, false, Some(recording));
        let tested = iperf3::test(&options, &self.stop, &mut teller);
        let seen = teller.finish();
        let ends = test::Ends { busy: tested.busy, peer_busy: tested.peer_busy };
        let kept = test::complete_record(seen, tested.peer_samples, &options, &tested.report, ends)?;
        match tested.error {
            None => {}
            Some(iperf3::Error::Interrupted) => return Err(Exit::Interrupted.into()),
            Some(error) => {
                return Err(anyhow::Error::new(error).context(format!("the test with {} failed", self.host)));
            }
        }
        let Some(kept) = kept else { return Ok(None) };
        self.records.extend(kept.path.clone());
        // A peer of another version may tell what we do not understand.
        let peer = tested.peer_host.and_then(|host| serde_json::from_value(host).ok());
        Ok(Some(Done { report: tested.report, kept, peer, busy: tested.busy, peer_busy: tested.peer_busy }))
    }
}

fn spec(test: &PathTest) -> TestSpec {
    TestSpec {
        protocol: test.protocol,
        direction: Direction::Forward,
        streams: test.streams,
        amount: test.amount,
        omit: Duration::ZERO,
        block: test.block.unwrap_or(wire::default_block(test.protocol, None)),
        interval: Duration::from_secs(1),
        rate: test.rate,
        burst: 0,
        fq_rate: None,
        window: None,
        mss: None,
        nodelay: false,
        congestion: test.congestion.clone(),
        tos: 0,
        flow_label: None,
        zerocopy: false,
        skip_rx_copy: false,
        dont_fragment: test.protocol == Protocol::Udp,
        repeating_payload: false,
        server_affinity: None,
        udp_counters_64bit: true,
        file: None,
        most_late: test.is_even.then_some(MOST_LATE),
        get_server_output: false,
        title: None,
        extra_data: None,
    }
}
