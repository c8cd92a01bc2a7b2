//! The table of the HTTP interface.

use std::{net::SocketAddr, str::FromStr};

use serde::Deserialize;
use toml::Spanned;

use super::mistakes::Mistakes;

/// The HTTP interface of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpInterface {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Who may read.
    pub read: ReadAccess,
}

impl HttpInterface {
    /// Whether other hosts that reach the address may read without a token.
    pub fn is_open_to_others(&self) -> bool {
        self.read == ReadAccess::Open && !self.listen.ip().is_loopback()
    }
}

/// Who may read results, calendars, the directory and metrics by HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadAccess {
    /// Whoever reaches the address.
    #[default]
    Open,
    /// Programs whose token has the scope `read`.
    Token,
}

impl FromStr for ReadAccess {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "open" => Ok(ReadAccess::Open),
            "token" => Ok(ReadAccess::Token),
            _ => Err(format!("{text:?} is neither \"open\" nor \"token\"")),
        }
    }
}

/// The table as the file has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileHttp {
    listen: Spanned<String>,
    read: Option<Spanned<String>>,
}

/// The interface of the table; `None` if the table has mistakes.
pub(super) fn http_interface(file: &FileHttp, mistakes: &mut Mistakes) -> Option<HttpInterface> {
    let read = file.read.as_ref().map_or(Some(ReadAccess::default()), |text| mistakes.parse(text));
    let listen = file.listen.get_ref().parse::<SocketAddr>();
    let text = format!("{:?} is not an address and port to listen on", file.listen.get_ref());
    let help = "the form is ADDRESS:PORT, as in 127.0.0.1:4863";
    let listen = listen.map_err(|_| mistakes.add_help(file.listen.span(), text, help)).ok();
    Some(HttpInterface { listen: listen?, read: read? })
}
