//! Helpers of the tests of `longfat test` and `longfat serve`: programs that are killed on drop, ports,
//! iperf3.

use std::{
    net::TcpListener,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

/// Timeout for the end of a program. It is long enough for a busy machine; only a program that
/// hangs exceeds it.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(240);

/// A running program; killed on drop if it has not ended.
pub struct Running(Option<Child>);

impl Running {
    pub fn start(command: &mut Command) -> Self {
        let mut command = super::with_default_signals(command);
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Running(Some(child))
    }

    pub fn id(&self) -> u32 {
        self.0.as_ref().unwrap().id()
    }

    /// Sends SIGINT.
    pub fn interrupt(&self) {
        let status = Command::new("kill").args(["-INT", &self.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Sends SIGTERM; true if the program ends within `timeout`. Nothing reads its output meanwhile.
    pub fn ends_when_terminated(&mut self, timeout: Duration) -> bool {
        let status = Command::new("kill").args(["-TERM", &self.id().to_string()]).status().unwrap();
        assert!(status.success());
        self.ends_within(timeout)
    }

    /// Whether the program ends within `timeout`. Nothing reads its output meanwhile.
    pub fn ends_within(&mut self, timeout: Duration) -> bool {
        let begin = Instant::now();
        let child = self.0.as_mut().unwrap();
        while child.try_wait().unwrap().is_none() {
            if begin.elapsed() > timeout {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }

    /// Waits until the program ends, and returns its output.
    pub fn output(mut self) -> Output {
        let begin = Instant::now();
        let mut child = self.0.take().unwrap();
        // The output fits into the pipes, so the program does not block although nothing reads them yet.
        while child.try_wait().unwrap().is_none() {
            if begin.elapsed() > PROGRAM_TIMEOUT {
                let _ = child.kill();
                panic!("the program does not end: {:?}", child.wait_with_output());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        child.wait_with_output().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A TCP port that is currently free.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Waits until a socket listens on `port`, without connecting to it.
pub fn wait_for_listener(port: u16) {
    let listens = || {
        let tables =
            ["/proc/net/tcp", "/proc/net/tcp6"].map(|t| std::fs::read_to_string(t).unwrap_or_default());
        tables.iter().flat_map(|table| table.lines()).any(|line| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            // State 0A is TCP_LISTEN.
            columns.len() > 3 && columns[1].ends_with(&format!(":{port:04X}")) && columns[3] == "0A"
        })
    };
    assert!(super::eventually(listens), "no socket listens on port {port}");
}

/// Whether iperf3 is installed; if not, reports the test as skipped.
pub fn has_iperf3() -> bool {
    let found = Command::new("iperf3").arg("--version").output().is_ok();
    if !found {
        testing::skip(testing::Missing::Tool, "iperf3 is not installed");
    }
    found
}

/// Parses the JSON document on standard output.
pub fn document(what: &str, output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{what}: {e}: {output:?}"))
}
