//! An object store for one test: moto's S3 server, which checks signatures and permissions. It has one empty
//! bucket, and is killed at the end of the test.

use std::{
    fs::File,
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

/// Name of the only bucket.
pub const BUCKET: &str = "runs";
/// Timeout of the server's start, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(90);
/// Number of requests that the server accepts without authentication: they create the user, its policy, its
/// access key, and the bucket.
const SETUP_REQUESTS: u32 = 4;
const POLICY: &str =
    r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"*"}]}"#;

/// A server, and the access key of a user with all permissions.
#[derive(Debug)]
pub struct S3Server {
    server: Child,
    address: String,
    key: (String, String),
    _log: tempfile::TempDir,
}

/// The server's program, in the virtual environment of the Python package's tests.
fn program() -> Option<PathBuf> {
    let this = std::env::current_exe().ok()?;
    let target = this.ancestors().find(|path| path.join("python/venv/lists").exists())?;
    Some(target.join("python/venv/bin/moto_server")).filter(|program| program.exists())
}

impl S3Server {
    /// Starts a server; `None` if moto is not installed.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start() -> Option<S3Server> {
        let program = program()?;
        let log = tempfile::tempdir().expect("a temporary directory");
        let path = log.path().join("log");
        let server = Command::new(program)
            .args(["-H", "127.0.0.1", "-p", "0"])
            .env("INITIAL_NO_AUTH_ACTION_COUNT", SETUP_REQUESTS.to_string())
            .stdin(Stdio::null())
            .stdout(File::create(&path).expect("a log"))
            .stderr(File::options().append(true).open(&path).expect("a log"))
            .spawn()
            .expect("the server starts");
        let mut server = S3Server { server, address: String::new(), key: Default::default(), _log: log };
        server.address = server.wait(&path);
        server.iam("Action=CreateUser&UserName=writer");
        let policy = POLICY.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
        server.iam(&format!("Action=PutUserPolicy&UserName=writer&PolicyName=all&PolicyDocument={policy}"));
        let key = server.iam("Action=CreateAccessKey&UserName=writer");
        let field = |name: &str| {
            let after = key.split_once(&format!("<{name}>")).expect("an access key").1;
            after.split_once("</").expect("an access key").0.to_owned()
        };
        server.key = (field("AccessKeyId"), field("SecretAccessKey"));
        server.request("PUT", &format!("/{BUCKET}"), "s3", "");
        Some(server)
    }

    /// Waits until the server listens, and returns its address.
    fn wait(&mut self, log: &Path) -> String {
        let begin = Instant::now();
        loop {
            let text = std::fs::read_to_string(log).unwrap_or_default();
            let address = text.split_once("http://").and_then(|(_, after)| after.split_whitespace().next());
            if let Some(address) = address {
                return address.to_owned();
            }
            assert!(self.server.try_wait().expect("a child").is_none(), "the server has ended: {text}");
            assert!(begin.elapsed() < TIMEOUT, "the server does not start: {text}");
            sleep(Duration::from_millis(100));
        }
    }

    fn iam(&self, action: &str) -> String {
        self.request("POST", "/", "iam", &format!("{action}&Version=2010-05-08"))
    }

    /// Sends one of the first requests, whose signature the server does not check.
    fn request(&self, method: &str, path: &str, service: &str, body: &str) -> String {
        let mut connection = TcpStream::connect(&self.address).expect("the server listens");
        write!(
            connection,
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nAuthorization: AWS4-HMAC-SHA256 \
             Credential=setup/20260101/us-east-1/{service}/aws4_request, SignedHeaders=host, Signature=0\r\n\r\n{body}",
            self.address,
            body.len()
        )
        .expect("a request");
        let mut reply = String::new();
        connection.read_to_string(&mut reply).expect("a reply");
        assert!(reply.starts_with("HTTP/1.1 200"), "{method} {path} {body}: {reply}");
        reply
    }

    /// The environment of programs that use the server.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_ACCESS_KEY_ID", self.key.0.clone()),
            ("AWS_SECRET_ACCESS_KEY", self.key.1.clone()),
            ("AWS_ENDPOINT_URL", format!("http://{}", self.address)),
            ("AWS_ALLOW_HTTP", "true".into()),
            ("AWS_REGION", "us-east-1".into()),
        ]
    }

    /// Suspends the server's process (SIGSTOP): the kernel still accepts connections, but the server does not
    /// reply.
    ///
    /// # Panics
    /// If it has ended.
    pub fn suspend(&self) {
        let stopped = Command::new("kill").args(["-STOP", &self.server.id().to_string()]).status();
        assert!(stopped.expect("kill runs").success());
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
