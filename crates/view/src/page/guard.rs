//! Access control of the page: only browsers that opened it with a token, under one of this server's own
//! names.
//!
//! 1. `Host` must be an address or `localhost`. Other names that resolve to this machine (DNS rebinding) are
//!    refused.
//! 2. `Origin` and `Sec-Fetch-Site`, which browsers send and pages cannot forge, must not name another site.
//! 3. A token is exchanged for a cookie (HttpOnly, SameSite=Strict) that no script can read and that is not
//!    sent from other sites. The one-time token is valid once: it may be an argument of the command that
//!    starts the browser, which other users of the machine can read. The shared token (`--share-token`) is
//!    valid for any number of browsers until the server ends, and is only ever printed.

use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::{HeaderMap, StatusCode, header};

/// Random bytes in tokens and cookies.
const SECRET_BYTES: usize = 24;

/// The secrets, and the names under which the server is reachable.
pub(crate) struct Guard {
    token: String,
    token_used: AtomicBool,
    shared_token: Option<String>,
    session: String,
    cookie: String,
    is_local: bool,
    hostname: Option<String>,
}

/// The number of browsers that may open the printed address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Browsers {
    /// Only the first browser.
    One,
    /// Any number, until the server ends.
    Several,
}

/// An accepted request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// The request has the cookie.
    Granted,
    /// The request has the token: the response must set this cookie.
    Exchange(String),
}

/// Why a request is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Denied {
    pub(crate) status: StatusCode,
    pub(crate) why: &'static str,
}

const WRONG_HOST: Denied =
    Denied { status: StatusCode::MISDIRECTED_REQUEST, why: "this server does not have that name" };
const WRONG_ORIGIN: Denied =
    Denied { status: StatusCode::FORBIDDEN, why: "requests from other sites are refused" };
const NO_COOKIE: Denied = Denied {
    status: StatusCode::FORBIDDEN,
    why: "open the address that `longfat view` printed; it is valid once, for one browser. For several browsers, start \
          `longfat view --share-token`",
};
const NO_SHARED_COOKIE: Denied = Denied {
    status: StatusCode::FORBIDDEN,
    why: "open the whole address that `longfat view` printed, with its token",
};

impl Guard {
    /// New secrets for a server at `bind` and `port`. `hostname` is this machine's name for other hosts,
    /// where they have access.
    pub(crate) fn new(
        bind: IpAddr,
        port: u16,
        hostname: Option<String>,
        browsers: Browsers,
    ) -> io::Result<Self> {
        let shared_token = match browsers {
            Browsers::One => None,
            Browsers::Several => Some(secret()?),
        };
        Ok(Guard {
            token: secret()?,
            token_used: AtomicBool::new(false),
            shared_token,
            session: secret()?,
            // All ports of a host share cookies, so the name has the port.
            cookie: format!("longfat-{port}"),
            is_local: bind.is_loopback(),
            hostname,
        })
    }

    /// The token that is valid once.
    pub(crate) fn one_time_token(&self) -> &str {
        &self.token
    }

    /// The token for the printed address: the shared one if there is one.
    pub(crate) fn token(&self) -> &str {
        self.shared_token.as_ref().unwrap_or(&self.token)
    }

    /// Checks a request. `token` is the one in its address, if it is for the page itself.
    ///
    /// # Errors
    /// If the request is refused: the status and the reason.
    pub(crate) fn check(&self, headers: &HeaderMap, token: Option<&str>) -> Result<Access, Denied> {
        let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("\u{0}"));
        let host = text(header::HOST).filter(|host| self.is_own(host)).ok_or(WRONG_HOST)?;
        if text(header::ORIGIN).is_some_and(|origin| origin.strip_prefix("http://") != Some(host)) {
            return Err(WRONG_ORIGIN);
        }
        let site = headers.get("sec-fetch-site").map(|value| value.as_bytes());
        // A link on another site may lead to the page with the token; such a request has no cookie.
        if token.is_none() && site.is_some_and(|site| !matches!(site, b"same-origin" | b"none")) {
            return Err(WRONG_ORIGIN);
        }
        if self.has_cookie(headers) {
            return Ok(Access::Granted);
        }
        if token.is_some_and(|token| self.is_valid(token)) {
            let cookie = &self.cookie;
            return Ok(Access::Exchange(format!(
                "{cookie}={}; Path=/; HttpOnly; SameSite=Strict",
                self.session
            )));
        }
        Err(if self.shared_token.is_some() { NO_SHARED_COOKIE } else { NO_COOKIE })
    }

    /// Whether a token may be exchanged for a cookie; uses up the one-time token.
    fn is_valid(&self, token: &str) -> bool {
        let is_shared = self.shared_token.as_ref().is_some_and(|shared| is_equal(token, shared));
        is_shared || is_equal(token, &self.token) && !self.token_used.swap(true, Ordering::SeqCst)
    }

    fn has_cookie(&self, headers: &HeaderMap) -> bool {
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.any(|(name, value)| name == self.cookie && is_equal(value, &self.session))
    }

    /// Whether a `Host` header names this machine.
    fn is_own(&self, host: &str) -> bool {
        let Some(name) = host_name(host) else { return false };
        match name.parse::<IpAddr>() {
            Ok(address) => address.is_loopback() || !self.is_local,
            Err(_) => {
                name.eq_ignore_ascii_case("localhost")
                    || !self.is_local
                        && self.hostname.as_deref().is_some_and(|own| name.eq_ignore_ascii_case(own))
            }
        }
    }
}

/// Whether a `Host` header names a server on loopback: an address or `localhost`.
pub fn names_loopback(host: &str) -> bool {
    host_name(host).is_some_and(|name| match name.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => name.eq_ignore_ascii_case("localhost"),
    })
}

/// The name or address in a `Host` header, without the port.
fn host_name(host: &str) -> Option<&str> {
    match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, port)) => (port.is_empty() || is_port(port)).then_some(address),
        None => match host.rsplit_once(':') {
            Some((name, port)) => port.bytes().all(|b| b.is_ascii_digit()).then_some(name),
            None => Some(host),
        },
    }
}

fn is_port(text: &str) -> bool {
    text.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
}

/// Compares in constant time, so that the duration reveals nothing about a guess.
fn is_equal(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

fn secret() -> io::Result<String> {
    os::random_hex(SECRET_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn guard(bind: &str) -> Guard {
        Guard::new(bind.parse().unwrap(), 7000, Some("dtn1".into()), Browsers::One).unwrap()
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn pair(guard: &Guard) -> String {
        format!("{}={}", guard.cookie, guard.session)
    }

    #[test]
    fn the_token_is_valid_once_and_becomes_a_cookie() {
        let guard = guard("127.0.0.1");
        let plain = headers(&[("host", "127.0.0.1:7000")]);
        assert_eq!(guard.check(&plain, None), Err(NO_COOKIE));
        assert_eq!(guard.check(&plain, Some("0123")), Err(NO_COOKIE));
        let Ok(Access::Exchange(cookie)) = guard.check(&plain, Some(guard.token())) else {
            panic!("refused")
        };
        assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{cookie}");
        assert_eq!(guard.check(&plain, Some(guard.token())), Err(NO_COOKIE), "a second time");
        let with =
            |value: &str| guard.check(&headers(&[("host", "localhost:7000"), ("cookie", value)]), None);
        assert_eq!(with(&pair(&guard)), Ok(Access::Granted));
        assert_eq!(with(&format!("other=1; {}", pair(&guard))), Ok(Access::Granted));
        assert_eq!(with("longfat-7000=00"), Err(NO_COOKIE));
    }

    #[test]
    fn a_shared_token_is_valid_for_several_browsers_and_only_with_the_other_checks() {
        let guard =
            Guard::new("127.0.0.1".parse().unwrap(), 7000, Some("dtn1".into()), Browsers::Several).unwrap();
        let check = |pairs: &[(&'static str, &str)], token: &str| guard.check(&headers(pairs), Some(token));
        let own = ("host", "127.0.0.1:7000");
        for _ in 0..3 {
            assert!(matches!(check(&[own], guard.token()), Ok(Access::Exchange(_))));
        }
        assert_ne!(guard.token(), guard.one_time_token());
        assert!(matches!(check(&[own], guard.one_time_token()), Ok(Access::Exchange(_))));
        assert_eq!(check(&[own], guard.one_time_token()), Err(NO_SHARED_COOKIE), "a second time");
        assert_eq!(check(&[("host", "evil.example:7000")], guard.token()), Err(WRONG_HOST));
        assert_eq!(check(&[own, ("origin", "http://evil.example")], guard.token()), Err(WRONG_ORIGIN));
        assert_eq!(guard.check(&headers(&[own]), None), Err(NO_SHARED_COOKIE));
    }

    #[test]
    fn other_host_names_and_sites_are_refused_even_with_the_cookie() {
        let guard = guard("127.0.0.1");
        let cookie = pair(&guard);
        let check = |pairs: &[(&'static str, &str)]| {
            let mut all = pairs.to_vec();
            all.push(("cookie", &cookie));
            guard.check(&headers(&all), None)
        };
        for host in
            ["evil.example:7000", "dtn1:7000", "10.0.0.1:7000", "127.0.0.1.evil.example", "[::1]x", ""]
        {
            assert_eq!(check(&[("host", host)]), Err(WRONG_HOST), "{host}");
        }
        assert_eq!(check(&[]), Err(WRONG_HOST));
        for host in ["127.0.0.1:7000", "[::1]:7000", "localhost", "LOCALHOST:9"] {
            assert_eq!(check(&[("host", host)]), Ok(Access::Granted), "{host}");
        }
        let own = ("host", "localhost:7000");
        for origin in ["http://evil.example", "null", "https://localhost:7000", "http://localhost:8000"] {
            assert_eq!(check(&[own, ("origin", origin)]), Err(WRONG_ORIGIN), "{origin}");
        }
        assert_eq!(check(&[own, ("origin", "http://localhost:7000")]), Ok(Access::Granted));
        assert_eq!(check(&[own, ("sec-fetch-site", "cross-site")]), Err(WRONG_ORIGIN));
        assert_eq!(check(&[own, ("sec-fetch-site", "same-site")]), Err(WRONG_ORIGIN));
        assert_eq!(check(&[own, ("sec-fetch-site", "same-origin")]), Ok(Access::Granted));
    }

    #[test]
    fn a_server_for_other_hosts_accepts_addresses_and_its_own_name() {
        let guard = guard("0.0.0.0");
        let cookie = pair(&guard);
        let check = |host: &str| guard.check(&headers(&[("host", host), ("cookie", &cookie)]), None);
        assert_eq!(check("10.0.0.1:7000"), Ok(Access::Granted));
        assert_eq!(check("DTN1:7000"), Ok(Access::Granted));
        assert_eq!(check("evil.example:7000"), Err(WRONG_HOST));
    }

    proptest! {
        #[test]
        fn arbitrary_headers_are_refused(host in "[ -~]{0,40}", cookie in "[ -~]{0,80}", token in "[ -~]{0,50}") {
            let guard = guard("127.0.0.1");
            let found = guard.check(&headers(&[("host", &host), ("cookie", &cookie)]), Some(&token));
            prop_assert!(found.is_err());
        }
    }
}
