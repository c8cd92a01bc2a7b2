//! A server in this process, and a scenario with two hosts.

use std::sync::atomic::{AtomicBool, Ordering};

use hosts::{HostService, Observer};
use iperf3::{Server, ServerOptions};
use scenario::{Scenario, ScenarioFile};
use schema::FlowSample;
use testing::iperf3_server::QuietServer;
use units::Time;

/// An observer of a run that discards everything.
pub struct Silent;

impl Observer for Silent {
    fn note(&mut self, _: &str) {}

    fn rows(&mut self, _: Time, _: &[FlowSample]) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(())
    }
}

/// Runs `test` with the port of a server at 127.0.0.1 without a token.
pub fn with_server<T>(test: impl FnOnce(u16) -> T) -> T {
    let options = ServerOptions { bind: Some([127, 0, 0, 1].into()), port: 0, ..ServerOptions::default() };
    let server = Server::bind(options).unwrap().with_service(Box::new(HostService::default()));
    let (port, stop) = (server.address().port(), AtomicBool::new(false));
    /// Stops the server, even if the test fails.
    struct StopOnDrop<'a>(&'a AtomicBool);
    impl Drop for StopOnDrop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }
    std::thread::scope(|scope| {
        let _stopped = StopOnDrop(&stop);
        scope.spawn(|| server.run(&stop, &QuietServer::default()));
        test(port)
    })
}

/// A flow of ten minutes between hosts `h1` and `h2`.
pub fn scenario(from: &str, to: &str) -> Scenario {
    let text = format!(
        r#"
        title = "Test"
        duration = "600s"
        sample = "100ms"
        [hosts.h1]
        address = "10.0.0.1/24"
        [hosts.h2]
        address = "10.0.0.2/24"
        [[links]]
        ends = ["h1", "h2"]
        [[flows]]
        name = "bulk"
        from = "{from}"
        to = "{to}"
        "#
    );
    ScenarioFile::parse("test", &text).unwrap().resolve(None, &[]).unwrap()
}
