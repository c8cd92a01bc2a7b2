//! Where metrics are pushed, and how the agent authenticates itself there.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use units::Time;

use crate::{
    Error, files,
    http_client::{PostRequest, PostResponse, Webhook, post},
};

/// The protocol of a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PushProtocol {
    /// OTLP over HTTP with JSON.
    Otlp,
    /// Prometheus remote write 1.0.
    RemoteWrite,
}

/// The address to which metrics are pushed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsReceiver {
    protocol: PushProtocol,
    address: Webhook,
}

impl MetricsReceiver {
    /// Parses the address of a receiver of this protocol.
    ///
    /// # Errors
    /// If it is not a complete address.
    pub fn new(protocol: PushProtocol, text: &str) -> Result<MetricsReceiver, String> {
        let (name, example) = match protocol {
            PushProtocol::Otlp => ("an OTLP receiver", "http://localhost:4318/v1/metrics"),
            PushProtocol::RemoteWrite => {
                ("a receiver of Prometheus remote write", "http://localhost:9090/api/v1/write")
            }
        };
        let invalid = || {
            format!(
                "{text:?} is not the address of {name}; the form is http://HOST[:PORT]/PATH or https://..., as in {example}"
            )
        };
        let address = text.parse::<Webhook>().map_err(|_| invalid())?;
        // Without a path, the address is that of all interfaces of the server.
        if address.path() == "/" || address.path().contains('#') {
            return Err(invalid());
        }
        Ok(MetricsReceiver { protocol, address })
    }

    /// The protocol.
    pub(super) fn protocol(&self) -> PushProtocol {
        self.protocol
    }

    /// The name or address of the server.
    pub(super) fn host(&self) -> &str {
        self.address.host()
    }
}

/// How the agent authenticates itself to the receiver. Files are read for each request, so that a secret can
/// be replaced while the agent runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetricsCredentials {
    /// A bearer token (RFC 6750).
    Token {
        /// The file with the token.
        file: PathBuf,
    },
    /// A password (RFC 7617, "Basic").
    Password {
        /// The name of the user.
        user: String,
        /// The file with the password.
        file: PathBuf,
    },
}

impl MetricsCredentials {
    /// The file with the secret.
    pub(crate) fn file(&self) -> &Path {
        match self {
            MetricsCredentials::Token { file } | MetricsCredentials::Password { file, .. } => file,
        }
    }

    /// Value of the header `Authorization`, from the contents of the file. Errors do not contain the secret.
    pub(crate) fn authorization(&self, contents: &str) -> Result<String, String> {
        let invalid = |what: &str| Err(format!("{} does not have {what}", self.file().display()));
        match self {
            MetricsCredentials::Token { .. } => {
                let token = contents.trim();
                if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                    return invalid("a token: one word of printable ASCII characters");
                }
                Ok(format!("Bearer {token}"))
            }
            MetricsCredentials::Password { user, .. } => {
                let password = contents.trim_end_matches(['\r', '\n']);
                if password.is_empty() || password.contains(char::is_control) {
                    return invalid("a password: one line without control characters");
                }
                Ok(format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))))
            }
        }
    }

    fn read(&self) -> io::Result<String> {
        let contents =
            files::read(self.file()).map_err(|error: Error| io::Error::other(error.to_string()))?;
        self.authorization(&contents).map_err(io::Error::other)
    }
}

/// Where and how often metrics are pushed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsPush {
    /// The receiver.
    pub receiver: MetricsReceiver,
    /// How the agent authenticates itself there.
    pub credentials: Option<MetricsCredentials>,
    /// The interval.
    pub every: Time,
}

impl MetricsPush {
    /// Sends a request with these headers to the receiver.
    pub(super) fn post(
        &self,
        headers: &[(&str, &str)],
        body: &[u8],
        time: Duration,
    ) -> io::Result<PostResponse> {
        let authorization = self.credentials.as_ref().map(MetricsCredentials::read).transpose()?;
        let mut headers = headers.to_vec();
        if let Some(value) = &authorization {
            headers.push(("Authorization", value.as_str()));
        }
        post(&self.receiver.address, PostRequest { headers: &headers, body }, time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_a_receiver() {
        for text in [
            "http://localhost:4318/v1/metrics",
            "http://[::1]:9090/api/v1/otlp/v1/metrics",
            "https://otlp.example/v1/metrics?tenant=x",
        ] {
            let receiver = MetricsReceiver::new(PushProtocol::Otlp, text).unwrap();
            assert_eq!(receiver.address, text.parse::<Webhook>().unwrap());
        }
        for text in ["", "collector:4318", "http://collector:4318", "http://c:4318/", "http://c/v1#x"] {
            let error = MetricsReceiver::new(PushProtocol::Otlp, text).unwrap_err();
            let expected = format!("{text:?} is not the address of an OTLP receiver;");
            assert!(error.starts_with(&expected), "{error}");
            let error = MetricsReceiver::new(PushProtocol::RemoteWrite, text).unwrap_err();
            assert!(error.ends_with("as in http://localhost:9090/api/v1/write"), "{error}");
        }
    }

    #[test]
    fn secrets_become_headers() {
        let file = PathBuf::from("/x/secret");
        let token = MetricsCredentials::Token { file: file.clone() };
        assert_eq!(token.authorization("abc.DEF=\n"), Ok("Bearer abc.DEF=".into()));
        for contents in ["", "\n", "two words", "a\r\nX: y", "é"] {
            let error = token.authorization(contents).unwrap_err();
            assert_eq!(error, "/x/secret does not have a token: one word of printable ASCII characters");
        }
        // RFC 7617 section 2.
        let password = MetricsCredentials::Password { user: "Aladdin".into(), file };
        let expected = "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==";
        assert_eq!(password.authorization("open sesame\r\n"), Ok(expected.into()));
        for contents in ["", "\n", "a\nb"] {
            let error = password.authorization(contents).unwrap_err();
            assert_eq!(error, "/x/secret does not have a password: one line without control characters");
        }
    }
}
