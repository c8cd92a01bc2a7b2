//! Alerts by webhook, command and mail when the cause that limits a pair changes (not when a figure does). Alertmanager gets the present causes
//! instead ([`alertmanager`](crate::alertmanager)).
//!
//! An alert is sent at least once: a change remains marked in the archive until all receivers have it, or for a day. It is not sent
//! again to receivers that have accepted it.

use std::{
    io::{self, BufReader, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    process::{Command, Stdio},
    str::FromStr,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use rustls::{ClientConfig, ClientConnection, StreamOwned, crypto::ring, pki_types::ServerName};
use serde::Serialize;
use serde_json::json;

use crate::{
    alertmanager::Alertmanager,
    archive::{AlertReceiver, CauseChange},
    cause,
    texts::plain,
    trust,
};

/// Timeout of an HTTP request and of a command.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);
/// Interval at which the end of a command is checked.
const COMMAND_POLL: Duration = Duration::from_millis(20);
/// The longest sentence of an alert, bytes: it is the subject of a mail.
const MAX_TEXT_BYTES: usize = 500;
/// The longest remedy in a mail, bytes: a line of a mail has at most 998 (RFC 5322 section 2.1.1).
const MAX_REMEDY_BYTES: usize = 900;
/// Largest part of a webhook's response that is read, bytes.
const MAX_RESPONSE_BYTES: u64 = 4096;
/// Sends mail; part of every mail server's package.
const SENDMAIL: &str = "/usr/sbin/sendmail";

/// The receivers of alerts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alerts {
    /// Receives the JSON document by POST.
    pub webhook: Option<Webhook>,
    /// Program and arguments; receives the JSON document on standard input.
    pub command: Option<Vec<String>>,
    /// Address that sendmail sends to.
    pub mail: Option<String>,
    /// Gets the present causes, not only their changes.
    pub alertmanager: Option<Alertmanager>,
}

/// The outcome of an attempt to send an alert.
#[derive(Debug)]
pub(crate) struct Sent {
    /// The receivers that have accepted it, now or before.
    pub accepted: Vec<AlertReceiver>,
    /// Why the others have not; `None` if all have.
    pub error: Option<String>,
}

/// The address of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    is_https: bool,
    host: String,
    port: u16,
    path: String,
}

impl FromStr for Webhook {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = || {
            format!(
                "{text:?} is not the address of a webhook; the form is http://HOST[:PORT]/PATH or https://..."
            )
        };
        if text.contains(|c: char| c.is_whitespace() || c.is_control() || !c.is_ascii()) {
            return Err(invalid());
        }
        let (scheme, rest) = text.split_once("://").ok_or_else(invalid)?;
        let is_https = match scheme {
            "http" => false,
            "https" => true,
            _ => return Err(invalid()),
        };
        let (authority, path) = match rest.find('/') {
            Some(at) => (&rest[..at], rest[at..].to_string()),
            None => (rest, "/".to_string()),
        };
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port.parse().map_err(|_| invalid())?),
            _ => (authority, if is_https { 443 } else { 80 }),
        };
        let is_bare_v6 = host.contains(':') && !host.starts_with('[');
        if host.is_empty() || host.contains(['@', '?', '#']) || is_bare_v6 {
            return Err(invalid());
        }
        Ok(Webhook { is_https, host: host.into(), port, path })
    }
}

impl Webhook {
    /// The same server with another path.
    pub(crate) fn with_path(self, path: String) -> Webhook {
        Webhook { path, ..self }
    }

    /// The path, with the query.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The name or address of the server.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }
}

/// The content of an alert.
#[derive(Debug, Clone)]
pub(crate) struct Alert {
    /// The point that sends it.
    pub point: String,
    /// The change.
    pub change: CauseChange,
    /// The cause before the change.
    pub previous: Option<String>,
    /// Goodput of the pair's last test, bit/s.
    pub goodput_bps: Option<f64>,
    /// The change that would remove the cause.
    pub remedy: Option<String>,
}

/// A time in microseconds since 1970, as in `2027-01-15T08:00:00Z` (RFC 3339).
pub(crate) fn utc(time_us: i64) -> String {
    let time = jiff::Timestamp::from_microsecond(time_us).unwrap_or_default();
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

impl Alert {
    fn words(&self, cause: &str) -> String {
        cause::in_words(cause, &self.change.from, &self.change.to)
    }

    fn since(&self) -> String {
        utc(self.change.since_us)
    }

    /// The alert as a sentence.
    pub fn text(&self) -> String {
        let CauseChange { from, to, cause, .. } = &self.change;
        let before =
            self.previous.as_ref().map_or(String::new(), |cause| format!(", was {}", self.words(cause)));
        plain(
            &format!("{from} to {to}: {} since {}{before}", self.words(cause), self.since()),
            MAX_TEXT_BYTES,
        )
    }

    /// The document that webhooks and commands get.
    pub fn document(&self) -> impl Serialize {
        let CauseChange { from, to, kind, since_us, cause, test } = &self.change;
        json!({
            "schema": "longfat.alert/1",
            "text": self.text(),
            "point": self.point,
            "from": from,
            "to": to,
            "kind": kind,
            "cause": cause,
            "cause_text": self.words(cause),
            "previous": self.previous,
            "previous_text": self.previous.as_ref().map(|cause| self.words(cause)),
            "since": self.since(),
            "since_us": since_us,
            "test": test,
            "goodput_bps": self.goodput_bps,
            "remedy": self.remedy,
        })
    }

    /// Sends the alert to the receivers that have not accepted it yet.
    pub fn send(&self, alerts: &Alerts, accepted: Vec<AlertReceiver>) -> Sent {
        let document = match serde_json::to_vec(&self.document()) {
            Ok(document) => document,
            Err(error) => return Sent { accepted, error: Some(error.to_string()) },
        };
        let mut sent = Sent { accepted, error: None };
        for receiver in AlertReceiver::ALL {
            if sent.accepted.contains(&receiver) {
                continue;
            }
            match self.send_to(receiver, alerts, &document) {
                None => {}
                Some((_, Ok(()))) => sent.accepted.push(receiver),
                Some((name, Err(error))) => {
                    let before = sent.error.map_or(String::new(), |error| format!("{error}; "));
                    sent.error = Some(format!("{before}{name}: {error}"));
                }
            }
        }
        sent
    }

    /// Sends the alert to a receiver, if there is one; returns its name too.
    fn send_to(
        &self,
        receiver: AlertReceiver,
        alerts: &Alerts,
        document: &[u8],
    ) -> Option<(String, io::Result<()>)> {
        match receiver {
            AlertReceiver::Webhook => {
                let webhook = alerts.webhook.as_ref()?;
                Some((format!("webhook at {}", webhook.host), post(webhook, document, TIMEOUT)))
            }
            AlertReceiver::Command => {
                let (program, arguments) = alerts.command.as_ref()?.split_first()?;
                let ran = run(Command::new(program).args(arguments), document.to_vec(), TIMEOUT);
                Some((program.clone(), ran))
            }
            AlertReceiver::Mail => {
                let mail = self.mail(alerts.mail.as_ref()?);
                let ran = run(Command::new(SENDMAIL).args(["-i", "-t"]), mail.into_bytes(), TIMEOUT);
                Some((SENDMAIL.into(), ran))
            }
        }
    }

    /// The alert as a mail.
    fn mail(&self, to: &str) -> String {
        let text = self.text();
        let remedy = self
            .remedy
            .as_ref()
            .map_or(String::new(), |remedy| format!("\n\nTo fix it: {}", plain(remedy, MAX_REMEDY_BYTES)));
        format!(
            "To: {to}\nSubject: longfat: {text}\nAuto-Submitted: auto-generated\n\n{text}{remedy}\n\nThe point {} has found this; the test is {}.\n",
            self.point,
            plain(&self.change.test, MAX_TEXT_BYTES)
        )
    }
}

/// Runs a program with this standard input.
fn run(command: &mut Command, input: Vec<u8>, time: Duration) -> io::Result<()> {
    let begin = Instant::now();
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program may succeed without reading its input. It must not block the alerts: a pipe may hold one page only.
        let write = move || stdin.write_all(&input);
        if let Err(error) = thread::Builder::new().name("alert input".into()).spawn(write) {
            child.kill()?;
            child.wait()?;
            return Err(error);
        }
    }
    loop {
        if let Some(status) = child.try_wait()? {
            let error = || io::Error::other(format!("it ended with {status}"));
            return if status.success() { Ok(()) } else { Err(error()) };
        }
        if begin.elapsed() > time {
            child.kill()?;
            child.wait()?;
            return Err(io::ErrorKind::TimedOut.into());
        }
        thread::sleep(COMMAND_POLL);
    }
}

/// A connection with one deadline for all its reads and writes: a peer that sends single bytes cannot extend it.
struct UntilDeadline {
    stream: TcpStream,
    deadline: Instant,
}

impl UntilDeadline {
    /// The time until the deadline; an error after it.
    fn remaining(deadline: Instant) -> io::Result<Duration> {
        let remaining = deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(remaining) }
    }
}

impl Read for UntilDeadline {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(Self::remaining(self.deadline)?))?;
        self.stream.read(buffer)
    }
}

impl Write for UntilDeadline {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(Self::remaining(self.deadline)?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Sends a document by HTTP/1.1.
pub(crate) fn post(webhook: &Webhook, document: &[u8], time: Duration) -> io::Result<()> {
    let deadline = Instant::now() + time;
    let Webhook { is_https, host, port, path } = webhook;
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (name, *port).to_socket_addrs()? {
        let stream = match TcpStream::connect_timeout(&address, UntilDeadline::remaining(deadline)?) {
            Ok(stream) => UntilDeadline { stream, deadline },
            Err(error) => {
                last = error;
                continue;
            }
        };
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUser-Agent: longfat/{}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            env!("CARGO_PKG_VERSION"),
            document.len()
        );
        let request = [head.as_bytes(), document].concat();
        if !is_https {
            return exchange(stream, &request);
        }
        let server = ServerName::try_from(name.to_string()).map_err(io::Error::other)?;
        let connection = ClientConnection::new(trusted()?, server).map_err(io::Error::other)?;
        return exchange(StreamOwned::new(connection, stream), &request);
    }
    Err(last)
}

fn exchange(mut stream: impl Read + Write, request: &[u8]) -> io::Result<()> {
    stream.write_all(request)?;
    stream.flush()?;
    let mut line = String::new();
    let mut response = BufReader::new(stream.take(MAX_RESPONSE_BYTES));
    io::BufRead::read_line(&mut response, &mut line)?;
    // HTTP/1.1 200 OK (RFC 9112 section 4)
    match line.split_ascii_whitespace().nth(1).and_then(|code| code.parse::<u16>().ok()) {
        Some(200..=299) => Ok(()),
        Some(code) => Err(io::Error::other(format!("HTTP status {code}"))),
        None => Err(io::Error::new(io::ErrorKind::InvalidData, "no HTTP response")),
    }
}

/// TLS with the certificates that this machine trusts.
fn trusted() -> io::Result<Arc<ClientConfig>> {
    let roots = trust::store(&trust::certificates(trust::SYSTEM.as_ref())?);
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(io::Error::other)?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn alert() -> Alert {
        Alert {
            point: "a".into(),
            change: CauseChange {
                from: "a".into(),
                to: "d".into(),
                kind: "throughput".into(),
                since_us: 1_800_000_000_000_000,
                cause: "receive_window".into(),
                test: "a/7".into(),
            },
            previous: Some("path_rate".into()),
            goodput_bps: Some(1e7),
            remedy: Some("on d: sysctl -w net.ipv4.tcp_rmem=\"4096 131072 4194304\"".into()),
        }
    }

    #[test]
    fn the_text_names_the_cause_its_start_and_the_previous_cause() {
        assert_eq!(
            alert().text(),
            "a to d: receive buffer of d since 2027-01-15T08:00:00Z, was rate of the path"
        );
    }

    #[test]
    fn names_cannot_add_headers_to_a_mail() {
        let mut alert = alert();
        alert.change.to = "d\r\nBcc: victim@example.org".into();
        alert.change.cause = format!("x\n\n{}", "y".repeat(10_000));
        let text = alert.text();
        assert!(!text.contains(char::is_control) && text.len() <= MAX_TEXT_BYTES, "{text}");
        alert.change.test = "b/1\nBcc: x".into();
        alert.remedy = Some(format!("y\nBcc: x {}", "z".repeat(10_000)));
        let mail = alert.mail("noc@example.org");
        assert!(mail.lines().all(|line| !line.starts_with("Bcc") && line.len() < 998), "{mail}");
        assert!(mail.contains("\nTo fix it: y Bcc: x z"), "{mail}");
    }

    #[test]
    fn receivers_that_stall_or_reply_slowly_time_out() {
        let time = Duration::from_millis(300);
        let mut sleeping = Command::new("/bin/sh");
        sleeping.args(["-c", "exec sleep 60"]);
        let error = run(&mut sleeping, vec![b'x'; 1 << 20], time).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let webhook: Webhook = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let trickle = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // Until the client closes.
            while stream.write_all(b"x").is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        });
        let error = post(&webhook, b"{}", time).unwrap_err();
        assert!(matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock), "{error}");
        trickle.join().unwrap();
    }

    #[test]
    fn webhook_addresses_are_parsed() {
        let parse = |text: &str| text.parse::<Webhook>().map(|w| (w.is_https, w.host, w.port, w.path));
        let expected = |https, host: &str, port, path: &str| Ok((https, host.into(), port, path.into()));
        assert_eq!(parse("http://localhost:9093/a?b=c"), expected(false, "localhost", 9093, "/a?b=c"));
        assert_eq!(parse("https://hooks.example"), expected(true, "hooks.example", 443, "/"));
        assert_eq!(parse("http://[::1]/x"), expected(false, "[::1]", 80, "/x"));
        assert_eq!(parse("http://[::1]:8/x"), expected(false, "[::1]", 8, "/x"));
        for text in
            ["", "example", "ftp://a/", "http://", "http://a b/", "http://a:x/", "http://u@h/", "http://::1/"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_webhook_receives_the_document_and_an_http_error_is_reported() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let webhook: Webhook = format!("http://{}/hook", listener.local_addr().unwrap()).parse().unwrap();
        let alerts = Alerts { webhook: Some(webhook), command: None, mail: None, alertmanager: None };
        let server = thread::spawn(move || {
            ["204 No Content", "500 Internal Server Error"].map(|status| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = Vec::new();
                let mut buffer = [0; 4096];
                while !request.ends_with(b"}") {
                    let read = stream.read(&mut buffer).unwrap();
                    request.extend_from_slice(&buffer[..read]);
                }
                write!(stream, "HTTP/1.1 {status}\r\n\r\n").unwrap();
                String::from_utf8(request).unwrap()
            })
        });
        let sent = alert().send(&alerts, Vec::new());
        assert_eq!((sent.accepted.as_slice(), sent.error), ([AlertReceiver::Webhook].as_slice(), None));
        let refused = alert().send(&alerts, Vec::new());
        assert_eq!(refused.accepted, []);
        let error = refused.error.unwrap();
        assert!(error.contains("HTTP status 500"), "{error}");
        let [request, _] = server.join().unwrap();
        assert!(request.starts_with("POST /hook HTTP/1.1\r\n"), "{request}");
        let document: serde_json::Value =
            serde_json::from_str(request.split("\r\n\r\n").nth(1).unwrap()).unwrap();
        assert_eq!(document["cause"], "receive_window");
        assert_eq!(document["previous_text"], "rate of the path");
        assert_eq!(document["text"], alert().text());
        assert_eq!(document["remedy"], alert().remedy.unwrap());
    }

    #[test]
    fn a_command_receives_the_document_and_its_failure_is_reported() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("alert");
        let command = |line: &str| Alerts {
            webhook: None,
            command: Some(vec![
                "/bin/sh".into(),
                "-c".into(),
                line.into(),
                "sh".into(),
                file.display().to_string(),
            ]),
            mail: None,
            alertmanager: None,
        };
        let sent = alert().send(&command("cat > \"$1\""), Vec::new());
        assert_eq!((sent.accepted.as_slice(), sent.error), ([AlertReceiver::Command].as_slice(), None));
        let document: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        assert_eq!(document["test"], "a/7");
        let failed = alert().send(&command("exit 3"), Vec::new()).error.unwrap();
        assert!(failed.contains("exit status: 3"), "{failed}");
        // The alert is not sent again to receivers that have accepted it, whether or not the others have.
        let webhook = "http://127.0.0.1:1/".parse().ok();
        let alerts = Alerts { webhook, ..command("exit 3") };
        let again = alert().send(&alerts, vec![AlertReceiver::Command]);
        assert_eq!(again.accepted, [AlertReceiver::Command]);
        assert!(again.error.unwrap().starts_with("webhook at 127.0.0.1:"));
    }
}
