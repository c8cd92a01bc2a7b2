//! The settings of a live connection that can be changed, as text and as values.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use units::{BitRate, Bytes};

/// The largest buffer that can be requested: setsockopt(2) takes an `int`, and the kernel doubles it.
const MAX_REQUESTED_BYTES: u64 = (i32::MAX / 2) as u64;

/// A setting of a connection and its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// Congestion control, by the kernel's name (TCP_CONGESTION, tcp(7)).
    Cc(String),
    /// Maximum pacing rate, bytes per second; `None` is unlimited (SO_MAX_PACING_RATE, socket(7)).
    Pacing(Option<u64>),
    /// Send buffer (SO_SNDBUF, socket(7)).
    Sndbuf(Buffer),
    /// Receive buffer (SO_RCVBUF, socket(7)).
    Rcvbuf(Buffer),
    /// Maximum congestion window, segments; `None` is unlimited (TCP_BPF_SNDCWND_CLAMP,
    /// include/uapi/linux/bpf.h).
    CwndClamp(Option<u32>),
}

/// A socket buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buffer {
    /// The kernel's size in bytes, twice what a program requests; `None` leaves the size as it is.
    pub bytes: Option<u32>,
    /// Whether the size is fixed. If not, the kernel adjusts it to the path.
    pub is_fixed: bool,
    /// Limit of the advertised window, bytes (TCP_WINDOW_CLAMP, tcp(7)); receive buffers only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_clamp: Option<u32>,
}

/// The kinds of settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingKey {
    /// [`Setting::Cc`].
    Cc,
    /// [`Setting::Pacing`].
    Pacing,
    /// [`Setting::Sndbuf`].
    Sndbuf,
    /// [`Setting::Rcvbuf`].
    Rcvbuf,
    /// [`Setting::CwndClamp`].
    CwndClamp,
}

const KEYS: [SettingKey; 5] =
    [SettingKey::Cc, SettingKey::Pacing, SettingKey::Sndbuf, SettingKey::Rcvbuf, SettingKey::CwndClamp];

impl SettingKey {
    /// The name that users type.
    pub fn name(self) -> &'static str {
        match self {
            SettingKey::Cc => "cc",
            SettingKey::Pacing => "pacing",
            SettingKey::Sndbuf => "sndbuf",
            SettingKey::Rcvbuf => "rcvbuf",
            SettingKey::CwndClamp => "cwnd_clamp",
        }
    }
}

impl Setting {
    /// Which setting this is.
    pub fn key(&self) -> SettingKey {
        match self {
            Setting::Cc(_) => SettingKey::Cc,
            Setting::Pacing(_) => SettingKey::Pacing,
            Setting::Sndbuf(_) => SettingKey::Sndbuf,
            Setting::Rcvbuf(_) => SettingKey::Rcvbuf,
            Setting::CwndClamp(_) => SettingKey::CwndClamp,
        }
    }
}

impl FromStr for Setting {
    type Err = String;

    /// Parses `KEY=VALUE`, for example `cc=bbr`, `pacing=100mbit`, `pacing=off`, `sndbuf=4MiB`,
    /// `rcvbuf=auto`, `cwnd_clamp=100`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) =
            text.split_once('=').ok_or_else(|| format!("{text:?} is not KEY=VALUE, as in cc=bbr"))?;
        let key = KEYS.into_iter().find(|key| key.name() == name).ok_or_else(|| {
            let known: Vec<&str> = KEYS.iter().map(|key| key.name()).collect();
            format!("{name:?} is not a setting of a connection; known: {}", known.join(", "))
        })?;
        match key {
            SettingKey::Cc if !value.is_empty() && value.len() < 16 => Ok(Setting::Cc(value.into())),
            SettingKey::Cc => Err(format!("{value:?} is not a name of a congestion control")),
            SettingKey::Pacing => pacing_rate(value).map(Setting::Pacing),
            SettingKey::Sndbuf => buffer(value).map(Setting::Sndbuf),
            SettingKey::Rcvbuf => buffer(value).map(Setting::Rcvbuf),
            SettingKey::CwndClamp => cwnd_clamp(value).map(Setting::CwndClamp),
        }
        .map_err(|error| format!("{name}: {error}"))
    }
}

fn pacing_rate(text: &str) -> Result<Option<u64>, String> {
    if text == "off" {
        return Ok(None);
    }
    let rate: BitRate = text.parse().map_err(|error| format!("{error}"))?;
    match rate.0 / 8 {
        0 => Err("less than a byte per second; pacing=off removes the limit".into()),
        bytes => Ok(Some(bytes)),
    }
}

fn buffer(text: &str) -> Result<Buffer, String> {
    if text == "auto" {
        return Ok(Buffer { bytes: None, is_fixed: false, window_clamp: None });
    }
    let requested: Bytes = text.parse().map_err(|error| format!("{error}"))?;
    if requested.0 == 0 || requested.0 > MAX_REQUESTED_BYTES {
        return Err(format!("must be between 1 byte and {}, or auto", Bytes(MAX_REQUESTED_BYTES)));
    }
    Ok(Buffer { bytes: Some(2 * requested.0 as u32), is_fixed: true, window_clamp: None })
}

fn cwnd_clamp(text: &str) -> Result<Option<u32>, String> {
    if text == "off" {
        return Ok(None);
    }
    let segments = text.parse().ok().filter(|segments| (1..i32::MAX as u32).contains(segments));
    segments.map(Some).ok_or_else(|| format!("{text:?} is not a number of segments, or off"))
}

/// The value as shown to users. Buffers have the kernel's size.
impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::Cc(name) => f.write_str(name),
            Setting::Pacing(None) | Setting::CwndClamp(None) => f.write_str("unlimited"),
            Setting::Pacing(Some(bytes)) => write!(f, "{}", BitRate(bytes.saturating_mul(8))),
            Setting::Sndbuf(buffer) | Setting::Rcvbuf(buffer) => write!(f, "{buffer}"),
            Setting::CwndClamp(Some(segments)) => write!(f, "{segments} segments"),
        }
    }
}

impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.bytes, self.is_fixed) {
            (None, false) => f.write_str("auto"),
            (None, true) => f.write_str("fixed"),
            (Some(bytes), false) => write!(f, "{} (auto)", Bytes(bytes.into())),
            (Some(bytes), true) => write!(f, "{} (fixed)", Bytes(bytes.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_parsed_and_shown() {
        let shown = |text: &str| text.parse::<Setting>().unwrap().to_string();
        assert_eq!(shown("cc=cubic"), "cubic");
        assert_eq!(shown("pacing=100mbit"), "100 Mb/s");
        assert_eq!(shown("pacing=off"), "unlimited");
        assert_eq!(shown("sndbuf=4MiB"), "8 MiB (fixed)");
        assert_eq!(shown("rcvbuf=auto"), "auto");
        assert_eq!(shown("cwnd_clamp=12"), "12 segments");
    }

    #[test]
    fn mistakes_are_named() {
        let error = |text: &str| text.parse::<Setting>().unwrap_err();
        assert_eq!(
            error("mss=1"),
            r#""mss" is not a setting of a connection; known: cc, pacing, sndbuf, rcvbuf, cwnd_clamp"#
        );
        assert_eq!(error("cc"), r#""cc" is not KEY=VALUE, as in cc=bbr"#);
        assert!(error("pacing=7").starts_with("pacing: "), "a rate needs a unit");
        assert_eq!(error("pacing=1b/s"), "pacing: less than a byte per second; pacing=off removes the limit");
        assert!(error("sndbuf=2GiB").contains("or auto"));
        assert_eq!(error("cwnd_clamp=0"), r#"cwnd_clamp: "0" is not a number of segments, or off"#);
        assert!(error("cc=").contains("not a name"));
    }
}
