//! A PostgreSQL server in a temporary directory, for one test: it listens on a Unix socket, by request also
//! for TLS on loopback, and ends with the test.

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

/// The directory in which Debian installs the server's programs, by version.
const VERSIONS: &str = "/usr/lib/postgresql";
/// The user that runs the server if root runs the test: the server refuses to run as root.
const USER: &str = "postgres";
/// Longer than the server needs to start on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(90);

/// A server and its directory.
#[derive(Debug)]
pub struct Cluster {
    root: tempfile::TempDir,
    programs: PathBuf,
    server: Option<Child>,
    /// The port of TLS on 127.0.0.1; without it the server listens on a Unix socket only.
    tls_port: Option<u16>,
}

/// The directory of the newest server's programs.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir(VERSIONS).ok()?.flatten();
    let versions = versions.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let newest = versions.filter(|version| *version >= 15).max()?;
    let programs = Path::new(VERSIONS).join(newest.to_string()).join("bin");
    programs.join("initdb").exists().then_some(programs)
}

fn is_root() -> bool {
    fs::read_to_string("/proc/self/status").is_ok_and(|status| status.contains("\nUid:\t0\t0\t"))
}

impl Cluster {
    /// Creates a cluster without starting it; `None` if no server is installed.
    ///
    /// # Panics
    /// If it cannot be created.
    pub fn create() -> Option<Cluster> {
        let programs = programs()?;
        let root = tempfile::tempdir().expect("a temporary directory");
        if is_root() {
            let owned = Command::new("chown").arg(USER).arg(root.path()).status();
            assert!(owned.expect("chown runs").success(), "there is no user {USER}");
        }
        let cluster = Cluster { root, programs, server: None, tls_port: None };
        let arguments =
            ["--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--username", USER];
        let made = cluster
            .command("initdb")
            .arg("--pgdata")
            .arg(cluster.data())
            .args(arguments)
            .stdout(Stdio::null())
            .output()
            .expect("initdb runs");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Some(cluster)
    }

    fn data(&self) -> PathBuf {
        self.root.path().join("data")
    }

    /// A program of the server, as the user that may run it.
    fn command(&self, program: &str) -> Command {
        let program = self.programs.join(program);
        let mut command = if is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command.current_dir(self.root.path()).stdin(Stdio::null());
        command
    }

    /// Serves TLS as well, on a port of 127.0.0.1, which is returned: any database to any client, but
    /// `template1` only to clients with a certificate of the authority. All texts are PEM. TCP without TLS is
    /// refused.
    ///
    /// # Panics
    /// If files cannot be written.
    pub fn serve_tls(&mut self, certificate: &str, key: &str, authority: &str) -> u16 {
        let access = "local all all trust\nhostssl template1 all 127.0.0.1/32 trust clientcert=verify-ca\n\
                      hostssl all all 127.0.0.1/32 trust\n";
        let files = [
            ("server.crt", certificate),
            ("server.key", key),
            ("root.crt", authority),
            ("pg_hba.conf", access),
        ];
        for (name, text) in files {
            let path = self.data().join(name);
            fs::write(&path, text).expect("a file of the server");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its permissions");
            if is_root() {
                let owned = Command::new("chown").arg(USER).arg(&path).status();
                assert!(owned.expect("chown runs").success(), "there is no user {USER}");
            }
        }
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.expect("a free port").port();
        self.tls_port = Some(port);
        port
    }

    /// The options of the server's network.
    fn network(&self) -> Vec<String> {
        match self.tls_port {
            None => vec!["listen_addresses=".into()],
            Some(port) => {
                let tls = ["ssl=on", "ssl_ca_file=root.crt", "listen_addresses=127.0.0.1"];
                tls.into_iter().map(Into::into).chain([format!("port={port}")]).collect()
            }
        }
    }

    /// Starts the server and waits until it accepts connections.
    ///
    /// # Panics
    /// If it does not accept connections in time.
    pub fn start(&mut self) {
        let begin = Instant::now();
        loop {
            let log = fs::File::options().create(true).append(true).open(self.root.path().join("log"));
            let server = self
                .command("postgres")
                .arg("-D")
                .arg(self.data())
                .arg("-k")
                .arg(self.root.path())
                .args(["-c", "shared_buffers=16MB"])
                .args(self.network().iter().flat_map(|option| ["-c", option]))
                .stdout(Stdio::null())
                .stderr(log.expect("a log file"))
                .spawn();
            let mut server = server.expect("postgres runs");
            // After a crash, processes of the previous server may still end.
            while server.try_wait().expect("a child").is_none() {
                let mut ready = self.command("pg_isready");
                ready.arg("-h").arg(self.root.path()).arg("-q");
                if let Some(port) = self.tls_port {
                    ready.args(["-p", &port.to_string()]);
                }
                let ready = ready.status();
                if ready.is_ok_and(|status| status.success()) {
                    self.server = Some(server);
                    return;
                }
                sleep(Duration::from_millis(100));
                assert!(begin.elapsed() < TIMEOUT, "the server does not start");
            }
            let log = || fs::read_to_string(self.root.path().join("log")).unwrap_or_default();
            assert!(begin.elapsed() < TIMEOUT, "the server does not start: {}", log());
            sleep(Duration::from_millis(200));
        }
    }

    /// Ends the server without a checkpoint, as a crash does.
    ///
    /// # Panics
    /// If it does not end.
    pub fn stop(&mut self) {
        let Some(mut server) = self.server.take() else { return };
        let quit = Command::new("kill").args(["-QUIT", &server.id().to_string()]).status();
        assert!(quit.expect("kill runs").success());
        server.wait().expect("the server ends");
    }

    /// The connection string of a client.
    pub fn address(&self) -> String {
        format!("host={} user={USER} dbname=postgres", self.root.path().display())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return self.stop();
        }
        if let Some(server) = &self.server {
            let _ = Command::new("kill").args(["-QUIT", &server.id().to_string()]).status();
        }
    }
}
