//! The address of the common archive: a connection string of libpq, with its parameters for TLS.
//!
//! Differences from libpq:
//! 1. `sslmode=allow` is refused. `prefer` does not continue without TLS if the server offers TLS and the
//!    handshake fails.
//! 2. There are no default files: `sslrootcert`, `sslcert` and `sslkey` name them. Relative paths begin at
//!    the directory of agent.toml.
//! 3. `verify-full` compares the host with the alternative names of the certificate, not with its common
//!    name.

use std::{
    collections::BTreeMap,
    fmt::{self, Write},
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use tokio_postgres::config::{Host, SslMode};

use crate::percent_encoding::decode;

/// Timeout of a connection.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of a statement, and of the server's reply to it.
pub(super) const STATEMENT_TIMEOUT: Duration = Duration::from_secs(20);
/// The parameters that are evaluated here; tokio-postgres evaluates all others.
const TLS_PARAMETERS: [&str; 4] = ["sslmode", "sslrootcert", "sslcert", "sslkey"];

/// How the server is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verification {
    /// It is not verified: an attacker on the path could impersonate it.
    None,
    /// Its certificate is signed by a trusted authority.
    Authority,
    /// Its certificate is also valid for the name of the host.
    Host,
}

/// Where the certificates of trusted authorities are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Authorities {
    /// The system's certificates.
    System,
    /// A file (PEM).
    File(PathBuf),
}

/// The parameters of TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TlsParameters {
    /// How the server is verified.
    pub verification: Verification,
    /// Trusted authorities; `None` if the server is not verified.
    pub authorities: Option<Authorities>,
    /// Certificate and key of the client (PEM).
    pub client: Option<(PathBuf, PathBuf)>,
}

/// Where the common archive is.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresAddress {
    pub(super) config: tokio_postgres::Config,
    /// `None`: without TLS.
    pub(super) tls: Option<TlsParameters>,
}

impl FromStr for PostgresAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (remainder, found) = take_tls_parameters(text)?;
        let mut config = tokio_postgres::Config::from_str(&remainder).map_err(|error| {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
            format!("{error}{}", cause.unwrap_or_default())
        })?;
        if config.get_hosts().is_empty() {
            return Err("the host is missing, as in host=/run/postgresql dbname=longfat".into());
        }
        // PostgreSQL does not encrypt Unix sockets, and libpq ignores sslmode there.
        let is_remote = config.get_hosts().iter().any(|host| matches!(host, Host::Tcp(_)));
        let (mode, tls) = tls_parameters(&found)?;
        let tls = tls.filter(|_| is_remote);
        config.ssl_mode(if tls.is_some() { mode } else { SslMode::Disable });
        config.application_name("longfat-agent").connect_timeout(CONNECT_TIMEOUT);
        config.tcp_user_timeout(STATEMENT_TIMEOUT);
        Ok(PostgresAddress { config, tls })
    }
}

impl PostgresAddress {
    /// The address with files relative to this directory.
    pub(crate) fn relative_to(mut self, base: &Path) -> Self {
        if let Some(tls) = &mut self.tls {
            if let Some(Authorities::File(path)) = &mut tls.authorities {
                *path = base.join(&*path);
            }
            if let Some((certificate, key)) = &mut tls.client {
                (*certificate, *key) = (base.join(&*certificate), base.join(&*key));
            }
        }
        self
    }

    /// The files that TLS needs, except those of the system.
    pub(crate) fn files(&self) -> Vec<&Path> {
        let Some(tls) = &self.tls else { return Vec::new() };
        let authorities = match &tls.authorities {
            Some(Authorities::File(path)) => Some(path.as_path()),
            Some(Authorities::System) | None => None,
        };
        let client = tls.client.iter().flat_map(|(certificate, key)| [certificate.as_path(), key.as_path()]);
        authorities.into_iter().chain(client).collect()
    }
}

/// Shows the address without the password.
impl fmt::Display for PostgresAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = match self.config.get_hosts().first() {
            Some(Host::Tcp(name)) => name.clone(),
            Some(Host::Unix(path)) => path.display().to_string(),
            None => String::new(),
        };
        let database = self.config.get_dbname().or(self.config.get_user()).unwrap_or("the user's database");
        write!(out, "{database} of the PostgreSQL server {host}")
    }
}

impl fmt::Debug for PostgresAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "PostgresAddress({self})")
    }
}

type Parameters = BTreeMap<String, String>;

/// The mode of tokio-postgres, and the parameters of TLS.
fn tls_parameters(found: &Parameters) -> Result<(SslMode, Option<TlsParameters>), String> {
    let get = |name: &str| found.get(name).map(String::as_str).filter(|value| !value.is_empty());
    let authorities = get("sslrootcert").map(|file| match file {
        "system" => Authorities::System,
        file => Authorities::File(file.into()),
    });
    let is_system = authorities == Some(Authorities::System);
    let (mode, verification) = match get("sslmode") {
        None if is_system => (SslMode::Require, Verification::Host),
        Some("disable") => return Ok((SslMode::Disable, None)),
        None | Some("prefer") => (SslMode::Prefer, Verification::None),
        // With a root certificate, `require` verifies the authority, as in libpq.
        Some("require") if authorities.is_some() => (SslMode::Require, Verification::Authority),
        Some("require") => (SslMode::Require, Verification::None),
        Some("verify-ca") => (SslMode::Require, Verification::Authority),
        Some("verify-full") => (SslMode::Require, Verification::Host),
        Some(other) => {
            return Err(format!(
                "sslmode={other} is not supported; the modes are disable, prefer, require, verify-ca and verify-full"
            ));
        }
    };
    if is_system && verification != Verification::Host {
        return Err("sslrootcert=system needs sslmode=verify-full: these authorities issue a certificate to the owner of any name".into());
    }
    if verification != Verification::None && authorities.is_none() {
        return Err("the server cannot be verified without sslrootcert=FILE or sslrootcert=system".into());
    }
    let client = match (get("sslcert"), get("sslkey")) {
        (Some(certificate), Some(key)) => Some((certificate.into(), key.into())),
        (None, None) => None,
        _ => return Err("a client's certificate needs sslcert and sslkey".into()),
    };
    let authorities = authorities.filter(|_| verification != Verification::None);
    Ok((mode, Some(TlsParameters { verification, authorities, client })))
}

/// Removes the parameters of TLS from a connection string.
fn take_tls_parameters(text: &str) -> Result<(String, Parameters), String> {
    let is_url = ["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme));
    if is_url { take_from_url(text) } else { Ok(take_from_pairs(text)) }
}

fn take_from_url(text: &str) -> Result<(String, Parameters), String> {
    let Some((address, query)) = text.split_once('?') else { return Ok((text.into(), Parameters::new())) };
    let mut found = Parameters::new();
    let mut others = Vec::new();
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if TLS_PARAMETERS.contains(&name) {
            let value = decode(value).ok_or_else(|| format!("{name}: the percent-encoding is not valid"))?;
            found.insert(name.into(), value);
        } else {
            others.push(pair);
        }
    }
    let remainder =
        if others.is_empty() { address.into() } else { format!("{address}?{}", others.join("&")) };
    Ok((remainder, found))
}

/// `name = value name='a value'`; a backslash quotes the next character. A text of another form is
/// returned unchanged, so that tokio-postgres reports the mistake.
fn take_from_pairs(text: &str) -> (String, Parameters) {
    let (mut found, mut remainder) = (Parameters::new(), String::new());
    let mut letters = text.chars().peekable();
    loop {
        while letters.next_if(|letter| letter.is_whitespace()).is_some() {}
        if letters.peek().is_none() {
            return (remainder, found);
        }
        let mut name = String::new();
        while let Some(letter) = letters.next_if(|letter| !letter.is_whitespace() && *letter != '=') {
            name.push(letter);
        }
        while letters.next_if(|letter| letter.is_whitespace()).is_some() {}
        if letters.next_if_eq(&'=').is_none() {
            return (text.into(), Parameters::new());
        }
        while letters.next_if(|letter| letter.is_whitespace()).is_some() {}
        let is_quoted = letters.next_if_eq(&'\'').is_some();
        let mut value = String::new();
        loop {
            match letters.next_if(|letter| is_quoted || !letter.is_whitespace()) {
                Some('\'') if is_quoted => break,
                Some('\\') => value.extend(letters.next()),
                Some(letter) => value.push(letter),
                None if is_quoted => return (text.into(), Parameters::new()),
                None => break,
            }
        }
        if TLS_PARAMETERS.contains(&name.as_str()) {
            found.insert(name, value);
        } else {
            let value = value.replace('\\', "\\\\").replace('\'', "\\'");
            // Writing to a String cannot fail.
            let _ = write!(remainder, "{name}='{value}' ");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> PostgresAddress {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn addresses_are_checked_and_shown_without_the_password() {
        let address = parse("host=db.example user=u password='my \\'secret\\\\' dbname=mesh sslmode=disable");
        assert_eq!(address.to_string(), "mesh of the PostgreSQL server db.example");
        assert!(!format!("{address:?}").contains("secret"));
        assert_eq!(address.config.get_password(), Some(b"my 'secret\\".as_slice()));
        for (text, part) in [
            ("dbname=x", "host is missing"),
            ("host=a colour=red", "colour"),
            ("host", "unexpected"),
            ("host=a password='x", "unterminated"),
            ("host=a sslmode=allow", "sslmode=allow is not supported; the modes are disable, prefer"),
            ("host=a sslmode=verify-ca", "without sslrootcert"),
            ("host=a sslmode=require sslrootcert=system", "needs sslmode=verify-full"),
            ("host=a sslcert=x", "sslcert and sslkey"),
            ("postgresql://a/mesh?sslmode=%4", "percent-encoding"),
        ] {
            let error = text.parse::<PostgresAddress>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn tls_parameters_have_libpqs_meaning() {
        let file = |name: &str| Some(Authorities::File(name.into()));
        for (text, mode, verification, authorities) in [
            ("host=a", SslMode::Prefer, Verification::None, None),
            ("host=a sslmode=require", SslMode::Require, Verification::None, None),
            (
                "host=a sslmode=require sslrootcert=ca.pem",
                SslMode::Require,
                Verification::Authority,
                file("ca.pem"),
            ),
            (
                "sslmode = 'verify-ca' host=a sslrootcert='my ca'",
                SslMode::Require,
                Verification::Authority,
                file("my ca"),
            ),
            ("host=a sslrootcert=system", SslMode::Require, Verification::Host, Some(Authorities::System)),
            (
                "postgresql://u@a:5433/mesh?sslmode=verify-full&sslrootcert=%2Fetc%2Fca.pem&target_session_attrs=read-write",
                SslMode::Require,
                Verification::Host,
                file("/etc/ca.pem"),
            ),
        ] {
            let address = parse(text);
            let tls = address.tls.as_ref().unwrap();
            assert_eq!(
                (address.config.get_ssl_mode(), tls.verification, &tls.authorities),
                (mode, verification, &authorities)
            );
        }
        // Without TLS: by request, and on Unix sockets.
        for text in ["host=a sslmode=disable", "host=/run/postgresql sslmode=require", "host=/run/postgresql"]
        {
            let address = parse(text);
            assert_eq!((address.config.get_ssl_mode(), address.tls), (SslMode::Disable, None));
        }
        let address = parse("host=a sslmode=verify-ca sslrootcert=ca.pem sslcert=/x/c.pem sslkey=k.pem");
        let address = address.relative_to(Path::new("/etc/longfat"));
        let files: Vec<&str> = address.files().iter().filter_map(|path| path.to_str()).collect();
        assert_eq!(files, ["/etc/longfat/ca.pem", "/x/c.pem", "/etc/longfat/k.pem"]);
    }
}
