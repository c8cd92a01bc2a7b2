//! Requests of HTTP/1.1 to receivers of alerts and metrics: one POST for each connection, with one deadline
//! for all its steps.

use std::{
    fmt,
    io::{self, BufRead, BufReader, ErrorKind, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    str::FromStr,
    sync::Arc,
    time::{Duration, Instant},
};

use rustls::{ClientConfig, ClientConnection, StreamOwned, crypto::ring, pki_types::ServerName};

use crate::{texts::plain, trust};

/// Largest part of a response that is read, bytes.
const MAX_RESPONSE_BYTES: u64 = 4096;
/// The longest reason of a response that is reported, bytes.
const MAX_REASON_BYTES: usize = 300;

/// The address of a receiver: a webhook, an Alertmanager, or a receiver of metrics.
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

/// A request by POST.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PostRequest<'a> {
    /// Names and values of the header fields that depend on the content.
    pub headers: &'a [(&'a str, &'a str)],
    /// The content.
    pub body: &'a [u8],
}

/// The parts of a response that senders use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PostResponse {
    /// The status code.
    pub status: u16,
    /// How long the server asks to wait before the request is repeated; `None` if the status is a success.
    pub retry_after: Option<Duration>,
    /// First line of the content if the status is an error and the server sends its reason; otherwise empty.
    pub reason: String,
}

impl PostResponse {
    /// Whether the server has accepted the request.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

impl fmt::Display for PostResponse {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.reason.is_empty() { "" } else { ": " };
        write!(out, "HTTP status {}{separator}{}", self.status, self.reason)
    }
}

/// A connection with one deadline for all its reads and writes: a peer that sends single bytes cannot extend
/// it.
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

/// Sends a JSON document.
pub(crate) fn post_json(webhook: &Webhook, document: &[u8], time: Duration) -> io::Result<()> {
    let request = PostRequest { headers: &[("Content-Type", "application/json")], body: document };
    require_success(&post(webhook, request, time)?)
}

/// An error unless the server has accepted the request.
pub(crate) fn require_success(response: &PostResponse) -> io::Result<()> {
    if response.is_success() { Ok(()) } else { Err(io::Error::other(response.to_string())) }
}

/// Sends a request by HTTP/1.1.
pub(crate) fn post(webhook: &Webhook, request: PostRequest, time: Duration) -> io::Result<PostResponse> {
    let deadline = Instant::now() + time;
    let Webhook { is_https, host, port, path } = webhook;
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in (name, *port).to_socket_addrs()? {
        let stream = match TcpStream::connect_timeout(&address, UntilDeadline::remaining(deadline)?) {
            Ok(stream) => UntilDeadline { stream, deadline },
            Err(error) => {
                last = error;
                continue;
            }
        };
        let fields: String =
            request.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUser-Agent: longfat/{}\r\n{fields}Content-Length: {}\r\n\
             Connection: close\r\n\r\n",
            env!("CARGO_PKG_VERSION"),
            request.body.len()
        );
        let bytes = [head.as_bytes(), request.body].concat();
        if !is_https {
            return exchange(stream, &bytes);
        }
        let server = ServerName::try_from(name.to_string()).map_err(io::Error::other)?;
        let connection = ClientConnection::new(trusted()?, server).map_err(io::Error::other)?;
        return exchange(StreamOwned::new(connection, stream), &bytes);
    }
    Err(last)
}

fn exchange(mut stream: impl Read + Write, request: &[u8]) -> io::Result<PostResponse> {
    let sent = stream.write_all(request).and_then(|()| stream.flush());
    let mut response = BufReader::new(stream.take(MAX_RESPONSE_BYTES));
    let mut line = String::new();
    let read = response.read_line(&mut line);
    // HTTP/1.1 200 OK (RFC 9112 section 4). A server may refuse a request, and close the connection, before
    // it has read all of it: its status is then more useful than the error of the write.
    let Some(status) = line.split_ascii_whitespace().nth(1).and_then(|code| code.parse::<u16>().ok()) else {
        sent?;
        read?;
        return Err(io::Error::new(ErrorKind::InvalidData, "no HTTP response"));
    };
    let mut found = PostResponse { status, retry_after: None, reason: String::new() };
    if !found.is_success() {
        read_details(&mut response, &mut found);
    }
    Ok(found)
}

/// Reads the header and the content of an error as far as the server sends them: the status is valid without
/// them.
fn read_details(response: &mut impl BufRead, found: &mut PostResponse) {
    let mut length = 0;
    loop {
        let mut line = String::new();
        match response.read_line(&mut line) {
            Ok(read) if read > 0 => {}
            _ => return,
        }
        let Some((name, value)) = line.split_once(':') else { break };
        if name.eq_ignore_ascii_case("Retry-After") {
            found.retry_after = retry_after(value.trim(), os::realtime());
        } else if name.eq_ignore_ascii_case("Content-Length") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    // After an error, the content until there.
    let mut content = Vec::new();
    let _ = response.take(length).read_to_end(&mut content);
    let content = String::from_utf8_lossy(&content);
    let reason = content.trim_start().lines().next().unwrap_or_default();
    found.reason = plain(reason.trim_end(), MAX_REASON_BYTES);
}

/// The delay of `Retry-After`: seconds, or a date (RFC 9110 section 10.2.3); `now` is the time since 1970.
fn retry_after(value: &str, now: Duration) -> Option<Duration> {
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(value).ok()?;
    // A date that has passed, also one before 1970.
    let date = Duration::from_secs(u64::try_from(date.as_second()).unwrap_or(0));
    Some(date.saturating_sub(now))
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
    use std::{net::TcpListener, thread};

    use testing::http::read_request;

    use super::*;

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
    fn a_server_that_replies_slowly_times_out() {
        let time = Duration::from_millis(300);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let webhook: Webhook = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let trickle = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // Until the client closes.
            while stream.write_all(b"x").is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        });
        let error = post_json(&webhook, b"{}", time).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock), "{error}");
        trickle.join().unwrap();
    }

    #[test]
    fn requests_have_their_headers_and_errors_their_reason() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let webhook: Webhook = format!("http://{}/x", listener.local_addr().unwrap()).parse().unwrap();
        let server = thread::spawn(move || {
            [
                "200 OK\r\nRetry-After: 3\r\nContent-Length: 2\r\n\r\nok",
                "429 Too Many Requests\r\nretry-after: 7\r\ncontent-length: 19\r\n\r\nslow\tdown\r\nthen more",
                // The content is shorter than its length.
                "400 Bad Request\r\nContent-Length: 100\r\n\r\nout of order",
                "500 Internal Server Error\r\n",
            ]
            .map(|response| {
                let (stream, _) = listener.accept().unwrap();
                let request = read_request(&stream).unwrap();
                write!(&stream, "HTTP/1.1 {response}").unwrap();
                request
            })
        });
        let request =
            PostRequest { headers: &[("Content-Encoding", "snappy"), ("A", "b c")], body: b"\x00\xff" };
        let responses = [(); 4].map(|()| post(&webhook, request, Duration::from_secs(60)).unwrap());
        let response = |status, seconds: Option<u64>, reason: &str| PostResponse {
            status,
            retry_after: seconds.map(Duration::from_secs),
            reason: reason.into(),
        };
        let expected = [
            response(200, None, ""),
            response(429, Some(7), "slow down"),
            response(400, None, "out of order"),
            response(500, None, ""),
        ];
        assert_eq!(responses, expected);
        let texts =
            responses.each_ref().map(|response| require_success(response).map_err(|error| error.to_string()));
        let failed = |text: &str| Err(text.to_owned());
        let expected = [
            Ok(()),
            failed("HTTP status 429: slow down"),
            failed("HTTP status 400: out of order"),
            failed("HTTP status 500"),
        ];
        assert_eq!(texts, expected);
        for (head, body) in server.join().unwrap() {
            assert!(head.starts_with("POST /x HTTP/1.1\r\nHost: 127.0.0.1:"), "{head}");
            let agent = format!("\r\nUser-Agent: longfat/{}\r\n", env!("CARGO_PKG_VERSION"));
            assert!(head.contains(&agent), "{head}");
            assert!(
                head.contains("\r\nContent-Encoding: snappy\r\nA: b c\r\nContent-Length: 2\r\n"),
                "{head}"
            );
            assert_eq!(body, b"\x00\xff");
        }
    }

    #[test]
    fn delays_are_seconds_or_dates() {
        // Sun, 06 Nov 1994 08:49:37 GMT
        let date = Duration::from_secs(784_111_777);
        let delay = |value: &str, before: u64| retry_after(value, date - Duration::from_secs(before));
        assert_eq!(delay("120", 0), Some(Duration::from_secs(120)));
        assert_eq!(delay("0", 0), Some(Duration::ZERO));
        assert_eq!(delay("Sun, 06 Nov 1994 08:49:37 GMT", 90), Some(Duration::from_secs(90)));
        assert_eq!(delay("Sun, 06 Nov 1994 08:49:07 GMT", 0), Some(Duration::ZERO));
        for value in ["", "soon", "-1", "1.5", "Sun, 06 Nov"] {
            assert_eq!(delay(value, 0), None, "{value}");
        }
    }
}
