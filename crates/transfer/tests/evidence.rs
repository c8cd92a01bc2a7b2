//! The measurements of both ends of a transfer, and their way across the control connection.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use transfer::{
    EndEvidence, Error, FileReport, Observer, RateChoice, Receiver, ReceiverOptions, SenderOptions, Session,
    Transport, send,
};
use units::BitRate;

use crate::{
    loopback::{Running, TRANSPORTS, file},
    quic::relay,
};

/// Keeps the measurements of both ends of a session.
#[derive(Default)]
struct Measured(Mutex<Vec<MeasuredSession>>);

/// A session, the measurements of this end and of the other one, and whether it is complete.
type MeasuredSession = (Session, EndEvidence, Option<EndEvidence>, bool);

impl Observer for Measured {
    fn begin(&self, _name: &str, _bytes: u64, _resumed: u64) {}
    fn progress(&self, _bytes: u64) {}
    fn end(&self, _report: &FileReport) {}
    fn note(&self, text: &str) {
        panic!("{text}");
    }
    fn measured(
        &self,
        session: &Session,
        own: EndEvidence,
        peer: Option<EndEvidence>,
        error: Option<&Error>,
    ) {
        self.0.lock().unwrap().push((session.clone(), own, peer, error.is_none()));
    }
}

#[test]
fn both_ends_have_the_evidence_of_both() {
    const BYTES: usize = 3_000_000;
    let source = tempfile::tempdir().unwrap();
    let path = file(source.path(), "f", BYTES);
    for (transport, streams) in TRANSPORTS {
        let directory = tempfile::tempdir().unwrap();
        let receiver = Receiver::bind(ReceiverOptions {
            listen: "127.0.0.1:0".parse().unwrap(),
            directory: directory.path().to_path_buf(),
            token: None,
            max_senders: 1,
        })
        .unwrap();
        let options = SenderOptions {
            receiver: receiver.address().unwrap(),
            other_addresses: Vec::new(),
            directory: String::new(),
            transport,
            rate: RateChoice::Fixed(BitRate(40_000_000)),
            mss: 1500,
            streams,
            congestion: None,
            token: None,
            connect_timeout: Duration::from_secs(5),
        };
        let (at_sender, at_receiver) = (Measured::default(), Measured::default());
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| receiver.run(&at_receiver, &stop, || false).unwrap());
            send(std::slice::from_ref(&path), &options, &at_sender, &AtomicBool::new(false)).unwrap();
            while at_receiver.0.lock().unwrap().is_empty() {
                thread::sleep(Duration::from_millis(5));
            }
            stop.store(true, Ordering::Release);
        });
        let (session, own, peer, is_complete) = at_sender.0.into_inner().unwrap().remove(0);
        let (theirs, received, sent, _) = at_receiver.0.into_inner().unwrap().remove(0);
        assert!(is_complete && session.is_sender && !theirs.is_sender, "{transport:?}");
        assert_eq!((session.streams, session.transport), (streams, transport));
        let peer = peer.unwrap();
        assert_eq!(peer.activity.last(), received.activity.last(), "{transport:?}");
        assert_eq!(sent.unwrap().activity.last(), own.activity.last(), "{transport:?}");
        let flows = |evidence: &EndEvidence| {
            let mut flows: Vec<String> = evidence.rows.iter().map(|row| row.flow.clone()).collect();
            flows.sort();
            flows.dedup();
            flows
        };
        let expected: Vec<String> = (1..=streams).map(|id| format!("stream-{id}")).collect();
        assert_eq!((flows(&own), flows(&peer)), (expected.clone(), expected.clone()), "{transport:?}");
        let last = |evidence: &EndEvidence, value: fn(&schema::FlowSample) -> Option<i64>| {
            let last = |flow: &String| {
                let own = evidence.rows.iter().rev().find(|row| row.flow == *flow)?;
                value(own)
            };
            expected.iter().filter_map(last).sum::<i64>()
        };
        let received_bytes = last(&peer, |row| row.bytes_received);
        assert!(
            (BYTES as i64..BYTES as i64 + 200_000).contains(&received_bytes),
            "{transport:?} {received_bytes}"
        );
        let sent_bytes = last(&own, |row| row.bytes_acked.or(row.bytes_sent));
        assert!(sent_bytes >= BYTES as i64, "{transport:?} {sent_bytes}");
        let mss = own.rows.iter().filter_map(|row| row.snd_mss_bytes).max().unwrap();
        assert!((500..70_000).contains(&mss), "{transport:?} {mss}");
        if transport != Transport::Tsunami {
            // The receiver of UDT and SABUL measures it.
            let measuring = if matches!(transport, Transport::Udt | Transport::Sabul) { &peer } else { &own };
            assert!(measuring.rows.iter().any(|row| row.srtt_us > Some(0)), "{transport:?}");
        }
        // 3 MB at 40 Mb/s: the sender waits for the network, then for the confirmation.
        let activity = own.activity.last().unwrap();
        assert!(activity.time_us > 500_000 && activity.reply_wait_us > 0, "{transport:?} {activity:?}");
        assert!(activity.file_wait_us < activity.time_us, "{transport:?} {activity:?}");
    }
}

/// Keeps the receiver's measurements and the messages for the user.
#[derive(Default)]
struct Noted(Mutex<(Vec<Option<EndEvidence>>, Vec<String>)>);

impl Observer for Noted {
    fn begin(&self, _name: &str, _bytes: u64, _resumed: u64) {}
    fn progress(&self, _bytes: u64) {}
    fn end(&self, _report: &FileReport) {}
    fn note(&self, text: &str) {
        self.0.lock().unwrap().1.push(text.to_string());
    }
    fn measured(&self, _: &Session, _: EndEvidence, peer: Option<EndEvidence>, _: Option<&Error>) {
        self.0.lock().unwrap().0.push(peer);
    }
}

#[test]
fn a_receiver_whose_evidence_is_missing_is_no_older_version() {
    let source = tempfile::tempdir().unwrap();
    let path = file(source.path(), "f", 1000);
    let running = Running::start(None);
    let is_over = AtomicBool::new(false);
    let through = relay(running.address, move |message| {
        let json: serde_json::Value = serde_json::from_str(&message).unwrap();
        if json["type"] == "end" {
            is_over.store(true, Ordering::Release);
        }
        match json["type"] == "evidence" && is_over.load(Ordering::Acquire) {
            true => r#"{"type":"failed","why":"its memory"}"#.into(),
            false => message,
        }
    });
    let options = SenderOptions { receiver: through, streams: 2, ..running.options(Transport::Tcp) };
    let noted = Noted::default();
    send(std::slice::from_ref(&path), &options, &noted, &AtomicBool::new(false)).unwrap();
    let (peers, notes) = noted.0.into_inner().unwrap();
    assert_eq!(peers, [Some(EndEvidence::default())]);
    assert!(notes.iter().any(|note| note.contains("its memory")), "{notes:?}");
}

/// An end of an older version neither requests nor sends evidence.
#[test]
fn an_end_of_an_older_version_does_not_measure() {
    let source = tempfile::tempdir().unwrap();
    let path = file(source.path(), "f", 100_000);
    for kind in ["start", "ready"] {
        let running = Running::start(None);
        let names = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&names);
        let through = relay(running.address, move |message| {
            let mut json: serde_json::Value = serde_json::from_str(&message).unwrap();
            seen.lock().unwrap().push(json["type"].as_str().unwrap().to_string());
            if json["type"] == kind {
                json.as_object_mut().unwrap().remove("evidence");
                json.as_object_mut().unwrap().remove("requested_bps");
            }
            // It does not number the connections either.
            json.as_object_mut().unwrap().remove("numbers_streams");
            json.to_string()
        });
        // The relay changes frames, so the data must have a separate connection.
        let options = SenderOptions { receiver: through, streams: 2, ..running.options(Transport::Tcp) };
        let measured = Measured::default();
        let sent = send(std::slice::from_ref(&path), &options, &measured, &AtomicBool::new(false));
        sent.unwrap();
        let (_, own, peer, is_complete) = measured.0.into_inner().unwrap().remove(0);
        assert!(is_complete && !own.rows.is_empty(), "{kind}");
        assert_eq!(peer, None, "{kind}");
        let names = names.lock().unwrap();
        if kind == "start" {
            assert!(!names.contains(&"evidence".to_string()), "{names:?}");
        }
    }
}
