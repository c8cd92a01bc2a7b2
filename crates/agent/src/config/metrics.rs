//! The table of the push of metrics.

use std::{
    ops::RangeInclusive,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use toml::Spanned;
use units::Time;

use super::mistakes::Mistakes;
use crate::{Error, MetricsCredentials, MetricsPush, MetricsReceiver, PushProtocol};

/// The interval at which metrics are pushed, unless the file names one. Prometheus regards a series as ended
/// after 5 min.
const DEFAULT_PUSH_INTERVAL: Time = Time::from_secs(60);
/// The shortest and the longest of these intervals.
const PUSH_INTERVALS: RangeInclusive<Time> = Time::from_secs(1)..=Time::from_secs(86_400);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileMetrics {
    otlp: Option<Spanned<String>>,
    remote_write: Option<Spanned<String>>,
    token_file: Option<Spanned<PathBuf>>,
    user: Option<Spanned<String>>,
    password_file: Option<Spanned<PathBuf>>,
    every: Option<Spanned<String>>,
}

pub(super) fn metrics_push(
    file: &Spanned<FileMetrics>,
    base: &Path,
    read: &dyn Fn(&Path) -> Result<String, Error>,
    mistakes: &mut Mistakes,
) -> Option<MetricsPush> {
    let metrics = file.get_ref();
    let receiver = match (&metrics.otlp, &metrics.remote_write) {
        (Some(text), None) => metrics_receiver(PushProtocol::Otlp, text, mistakes),
        (None, Some(text)) => metrics_receiver(PushProtocol::RemoteWrite, text, mistakes),
        (Some(_), Some(second)) => {
            let help = "keep otlp or remote_write";
            mistakes.add_help(second.span(), "metrics are pushed to one receiver", help);
            None
        }
        (None, None) => {
            let help = "the keys are otlp and remote_write";
            mistakes.add_help(file.span(), "a push of metrics needs the address of a receiver", help);
            None
        }
    };
    let credentials = metrics_credentials(metrics, base, read, mistakes);
    let every = match &metrics.every {
        None => DEFAULT_PUSH_INTERVAL,
        Some(text) => {
            let every = mistakes.parse::<Time>(text)?;
            if !PUSH_INTERVALS.contains(&every) {
                let (shortest, longest) = PUSH_INTERVALS.into_inner();
                let message = format!("metrics are pushed at intervals of {shortest} to {longest}");
                mistakes.add_help(text.span(), message, "the default is every = \"1min\"");
            }
            every
        }
    };
    Some(MetricsPush { receiver: receiver?, credentials, every })
}

fn metrics_receiver(
    protocol: PushProtocol,
    text: &Spanned<String>,
    mistakes: &mut Mistakes,
) -> Option<MetricsReceiver> {
    let receiver = MetricsReceiver::new(protocol, text.get_ref());
    receiver.map_err(|error| mistakes.add(text.span(), error)).ok()
}

/// The credentials of a push; their file is read, because a push without them would fail.
fn metrics_credentials(
    file: &FileMetrics,
    base: &Path,
    read: &dyn Fn(&Path) -> Result<String, Error>,
    mistakes: &mut Mistakes,
) -> Option<MetricsCredentials> {
    let (credentials, at) = match (&file.token_file, &file.user, &file.password_file) {
        (None, None, None) => return None,
        (Some(token), None, None) => {
            (MetricsCredentials::Token { file: base.join(token.get_ref()) }, token.span())
        }
        (None, Some(user), Some(password)) => {
            let name = user.get_ref();
            // RFC 7617 section 2.
            if name.is_empty() || name.contains(|c: char| c == ':' || c.is_control()) {
                let text =
                    format!("{name:?} is not a user name: it is empty, or has a colon or control characters");
                mistakes.add(user.span(), text);
            }
            let file = base.join(password.get_ref());
            (MetricsCredentials::Password { user: name.clone(), file }, password.span())
        }
        (Some(token), _, _) => {
            let help = "keep token_file, or user and password_file";
            mistakes.add_help(token.span(), "a push has a token or a password, not both", help);
            return None;
        }
        (None, Some(only), None) => {
            mistakes.add(only.span(), "a user needs a password_file");
            return None;
        }
        (None, None, Some(only)) => {
            mistakes.add(only.span(), "a password_file needs a user");
            return None;
        }
    };
    let contents = read(credentials.file()).map_err(|error| error.to_string());
    if let Err(error) = contents.and_then(|contents| credentials.authorization(&contents)) {
        mistakes.add(at, error);
    }
    Some(credentials)
}
