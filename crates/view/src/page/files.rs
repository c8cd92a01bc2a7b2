//! The built page: its files, and the headers that restrict it. The server of `longfat view` and that of a
//! measurement point serve it.

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::documents::Vocabulary;
use crate::Theme;

const INDEX: &str = include_str!("../../page/index.html");
const SCRIPT: &[u8] = include_bytes!("../../page/app.js");
const STYLE: &[u8] = include_bytes!("../../page/app.css");
const WORKER: &[u8] = include_bytes!("../../page/worker.js");
/// The simulator for browsers, if the program was built with it (`LONGFAT_PLAYGROUND_WASM`).
pub(super) const PLAYGROUND: Option<&[u8]> = include!(concat!(env!("OUT_DIR"), "/playground.rs"));

/// The Content-Security-Policy: the page may load its own files and responses of this server. The argument is
/// added to the sources of scripts.
macro_rules! content_policy {
    ($scripts:literal) => {
        concat!(
            "default-src 'none'; script-src 'self'",
            $scripts,
            "; worker-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; \
             form-action 'none'; frame-ancestors 'none'"
        )
    };
}

const CONTENT_POLICY: &str = match PLAYGROUND {
    None => content_policy!(""),
    // Its worker compiles WebAssembly.
    Some(_) => content_policy!(" 'wasm-unsafe-eval'"),
};

/// The content of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageContent {
    /// The records of a directory.
    Records,
    /// A mesh of measurement points.
    Mesh,
}

/// Routes of the page's files, and of the vocabulary: names, explanations and colours of causes.
pub fn page_files<S: Clone + Send + Sync + 'static>(theme: Theme, content: PageContent) -> Router<S> {
    files(theme, content, || Vocabulary::new(false, Vec::new()))
}

/// As [`page_files`], with another vocabulary.
pub(super) fn files<S: Clone + Send + Sync + 'static>(
    theme: Theme,
    content: PageContent,
    vocabulary: impl Fn() -> Vocabulary + Clone + Send + Sync + 'static,
) -> Router<S> {
    Router::new()
        .route("/", get(move || async move { index(theme, content) }))
        .route("/app.js", get(|| async { file("text/javascript; charset=utf-8", SCRIPT) }))
        .route("/worker.js", get(|| async { file("text/javascript; charset=utf-8", WORKER) }))
        .route("/app.css", get(|| async { file("text/css; charset=utf-8", STYLE) }))
        .route("/api/vocabulary", get(move || async move { super::response::json(&vocabulary()) }))
}

/// Adds the headers that restrict what the page may load, and who may embed it.
pub fn restrict_page(headers: &mut HeaderMap) {
    for (name, value) in [
        ("content-security-policy", CONTENT_POLICY),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cache-control", "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// The page, with the theme that applies until the reader chooses one.
fn index(theme: Theme, content: PageContent) -> Response {
    let content = match content {
        PageContent::Records => "",
        PageContent::Mesh => "data-content=\"mesh\" ",
    };
    let page = INDEX.replacen("<html ", &format!("<html data-default-theme=\"{theme}\" {content}"), 1);
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], page).into_response()
}

pub(super) fn file(kind: &'static str, bytes: &'static [u8]) -> Response {
    ([(header::CONTENT_TYPE, kind)], Body::from(bytes)).into_response()
}
