//! Errors, and the causes of failed requests.

use std::error::Error as StdError;

use object_store::client::{HttpError, HttpErrorKind};

/// Why an object store cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is wrong.
    #[error("{address} is not the address of an object store: {reason}")]
    Address {
        /// The address.
        address: String,
        /// The mistake.
        reason: String,
    },
    /// A setting in the environment is missing or wrong.
    #[error("cannot use {address}: {reason}")]
    Settings {
        /// The address.
        address: String,
        /// The variable, and what to do.
        reason: String,
    },
    /// There is no directory for the cache.
    #[error("cannot use {address}: there is no directory for its cache: set XDG_CACHE_HOME or HOME")]
    NoCache {
        /// The address.
        address: String,
    },
}

/// Error codes of S3 for invalid credentials or missing permissions.
const DENIALS: [&str; 7] = [
    "AccessDenied",
    "ExpiredToken",
    "Forbidden",
    "InvalidAccessKeyId",
    "InvalidToken",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
];

/// Why a request failed, and what to do.
pub(crate) fn reason(error: &object_store::Error, bucket: &str, endpoint: &str) -> String {
    use object_store::Error as Failed;
    let text = chain(error);
    let code = code(&text);
    let is_denied = matches!(error, Failed::Unauthenticated { .. } | Failed::PermissionDenied { .. });
    if is_denied || code.is_some_and(|code| DENIALS.contains(&code)) {
        return format!(
            "{endpoint} denied access{}: check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN and AWS_REGION, and what \
             they permit in bucket {bucket}",
            code.map_or(String::new(), |code| format!(" ({code})"))
        );
    }
    if code == Some("NoSuchBucket") {
        return format!("there is no bucket {bucket} at {endpoint}");
    }
    match (http_kind(error), code) {
        (Some(HttpErrorKind::Connect), _) => {
            format!("cannot connect to {endpoint}: {} (AWS_ENDPOINT_URL)", last(error))
        }
        (Some(HttpErrorKind::Timeout), _) => format!("{endpoint} does not reply: {}", last(error)),
        (Some(_), _) => format!("the connection with {endpoint} failed: {}", last(error)),
        (None, Some(code)) => format!("{endpoint} replied {code}"),
        (None, None) => text,
    }
}

/// The messages of an error and its causes, without those that the previous message contains.
fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(one) = cause {
        let own = one.to_string();
        if !text.contains(&own) {
            text = format!("{text}: {own}");
        }
        cause = one.source();
    }
    text
}

/// The message of the last cause.
fn last(error: &dyn StdError) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}

fn http_kind(error: &(dyn StdError + 'static)) -> Option<HttpErrorKind> {
    let mut cause = Some(error);
    while let Some(one) = cause {
        if let Some(http) = one.downcast_ref::<HttpError>() {
            return Some(http.kind());
        }
        cause = one.source();
    }
    None
}

/// The code in an S3 error document.
fn code(text: &str) -> Option<&str> {
    let (_, after) = text.split_once("<Code>")?;
    Some(after.split_once("</Code>")?.0)
}
