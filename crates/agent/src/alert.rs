//! Alerts by webhook, command and mail when the cause that limits a pair changes (not when a figure does).
//! Alertmanager gets the present causes instead ([`alertmanager`](crate::alertmanager)).
//!
//! An alert is sent at least once: a change remains marked in the archive until all receivers have it, or for
//! a day. It is not repeated to receivers that have accepted it.

use std::{
    io::{self, Write},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde::Serialize;
use serde_json::json;

use crate::{
    alertmanager::{Alertmanager, TIMEOUT},
    archive::{AlertReceiver, CauseChange},
    cause,
    http_client::{Webhook, post_json},
    texts::{plain, utc},
};

/// Interval at which the end of a command is checked.
const COMMAND_POLL: Duration = Duration::from_millis(20);
/// The longest sentence of an alert, bytes: it is the subject of a mail.
const MAX_TEXT_BYTES: usize = 500;
/// The longest remedy in a mail, bytes: a line of a mail has at most 998 (RFC 5322 section 2.1.1).
const MAX_REMEDY_BYTES: usize = 900;
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
                Some((format!("webhook at {}", webhook.host()), post_json(webhook, document, TIMEOUT)))
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
        // A program may succeed without reading its input. It must not block the alerts: a pipe may hold one
        // page only.
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

#[cfg(test)]
mod tests {
    use std::{io::Read, net::TcpListener};

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
    fn a_command_that_stalls_times_out() {
        let mut sleeping = Command::new("/bin/sh");
        sleeping.args(["-c", "exec sleep 60"]);
        let error = run(&mut sleeping, vec![b'x'; 1 << 20], Duration::from_millis(300)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
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
