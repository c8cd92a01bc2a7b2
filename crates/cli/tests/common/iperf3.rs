//! What the tests of `longfat test` and `longfat serve` share: programs that are killed when they go, ports, iperf3.

use std::{
    net::TcpListener,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

/// How long a test waits for a program to end. Only a program that hangs needs that long, however busy the machine.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(240);

/// A program that runs; it is killed if it still does when this goes.
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

    /// Asks it to end.
    pub fn interrupt(&self) {
        let killed = Command::new("kill").args(["-INT", &self.id().to_string()]).status().unwrap();
        assert!(killed.success());
    }

    /// Asks it to end by SIGTERM; true where it does within `timeout`. Its output is not read meanwhile.
    pub fn ends_when_terminated(&mut self, timeout: Duration) -> bool {
        let killed = Command::new("kill").args(["-TERM", &self.id().to_string()]).status().unwrap();
        assert!(killed.success());
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

    /// What it printed, when it has ended.
    pub fn output(mut self) -> Output {
        let begin = Instant::now();
        let mut child = self.0.take().unwrap();
        // Output is small here: nobody blocks for want of a reader.
        while child.try_wait().unwrap().is_none() {
            if begin.elapsed() > PROGRAM_TIMEOUT {
                let _ = child.kill();
                panic!("it never ended: {:?}", child.wait_with_output());
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

/// A port that nobody has.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Waits until somebody listens at `port`, without connecting to it.
pub fn wait_for_listener(port: u16) {
    let listens = || {
        let tables =
            ["/proc/net/tcp", "/proc/net/tcp6"].map(|t| std::fs::read_to_string(t).unwrap_or_default());
        tables.iter().flat_map(|table| table.lines()).any(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.len() > 3 && words[1].ends_with(&format!(":{port:04X}")) && words[3] == "0A"
        })
    };
    assert!(super::eventually(listens), "nobody listens at {port}");
}

/// False, and a word about it, where there is no iperf3.
pub fn has_iperf3() -> bool {
    let found = Command::new("iperf3").arg("--version").output().is_ok();
    if !found {
        testing::skip(testing::Missing::Tool, "iperf3 is not installed");
    }
    found
}

/// The JSON document on standard output.
pub fn document(what: &str, output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{what}: {e}: {output:?}"))
}
