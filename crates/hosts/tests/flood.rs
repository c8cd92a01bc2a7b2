//! A server that sends messages without a pause.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use hosts::{Address, HostLocation, HostLocations, RunOptions, run};
use iperf3::{
    Error, Server, ServerOptions,
    service::{Service, ServiceClient},
    wire::Cookie,
};
use serde_json::{Value, json};
use testing::iperf3_server::QuietServer;

use crate::common::{Silent, scenario};

/// How long the server sends, unless the client closes the connection.
const FLOOD: Duration = Duration::from_secs(40);
const TIMEOUT: Duration = Duration::from_secs(60);
/// Requests for the clock before the flows.
const CLOCK_REQUESTS: usize = 8;

/// Replies to the requests before the flows, then sends rows.
#[derive(Debug, Clone, Default)]
struct Flood {
    has_begun: Arc<AtomicBool>,
    /// The client has read for all of [`FLOOD`].
    is_exhausted: Arc<AtomicBool>,
}

impl Service for Flood {
    fn name(&self) -> &str {
        "flood"
    }

    fn accepts(&self, cookie: &Cookie) -> bool {
        cookie.as_str().starts_with("longfat-hosts-1-")
    }

    fn checks_token(&self) -> bool {
        true
    }

    fn uses_datagrams(&self) -> bool {
        false
    }

    fn serve(&self, client: ServiceClient<'_>, stop: &AtomicBool) -> Result<(), Error> {
        let mut channel = client.into_channel(stop)?;
        let mut clock_requests = 0;
        while clock_requests < CLOCK_REQUESTS {
            let request: Value = channel.receive("request", TIMEOUT)?;
            if request["request"] == "clock" {
                clock_requests += 1;
                channel.send(&json!({ "reply": "clock", "realtime_ns": 0 }))?;
            } else {
                channel.send(&json!({
                    "reply": "host", "version": "0", "name": "h2", "kernel": "6.1.0", "settings": {},
                    "allows_tune": false, "sends_to_others": false,
                }))?;
            }
        }
        self.has_begun.store(true, Ordering::Release);
        let begin = Instant::now();
        // Reading a message takes longer than sending it.
        let times: Vec<u32> = (0..1000).collect();
        let samples = json!({ "time_us": times, "flow": vec!["bulk"; times.len()], "columns": [] });
        let rows = json!({ "reply": "rows", "number": 0, "samples": samples });
        while begin.elapsed() < FLOOD {
            channel.send(&rows)?;
        }
        self.is_exhausted.store(true, Ordering::Release);
        Ok(())
    }
}

#[test]
fn a_run_can_be_ended_while_a_server_sends_without_a_pause() {
    let flood = Flood::default();
    let options = ServerOptions { bind: Some([127, 0, 0, 1].into()), port: 0, ..ServerOptions::default() };
    let server = Server::bind(options).unwrap().with_service(Box::new(flood.clone()));
    let (stop_server, stop_run) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| server.run(&stop_server, &QuietServer::default()));
        scope.spawn(|| {
            let begin = Instant::now();
            while !flood.has_begun.load(Ordering::Acquire) && begin.elapsed() < TIMEOUT {
                std::thread::sleep(Duration::from_millis(10));
            }
            std::thread::sleep(Duration::from_millis(500));
            stop_run.store(true, Ordering::Release);
        });
        let at = HostLocation::At(Address { host: "127.0.0.1".into(), port: server.address().port() });
        let locations = HostLocations::new([("h2".into(), at)]);
        let options = RunOptions {
            locations: &locations,
            token: None,
            allows_tune: false,
            reconnect: None,
            stop: &stop_run,
        };
        // Whether something was measured before does not matter.
        let _ = run(&scenario("h1", "h2"), &options, &mut Silent);
        stop_server.store(true, Ordering::Release);
    });
    assert!(flood.has_begun.load(Ordering::Acquire));
    assert!(!flood.is_exhausted.load(Ordering::Acquire), "the run read until the server ended");
}
