//! The server of the page: three files, and answers to the page's questions. HTTP/1.1 by axum; reading records is done beside,
//! on threads that may wait for the disk.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::documents::{OpenRequest, SeriesRequest, Vocabulary};
use super::guard::{CONTENT_POLICY, Guard, Leave};
use super::store::{Refusal, Store};

/// A question's size at the most.
const BODY_MAX_BYTES: usize = 64 * 1024;
/// How soon the end is noticed.
const LOOK: Duration = Duration::from_millis(50);

const INDEX: &[u8] = include_bytes!("../../page/index.html");
const SCRIPT: &[u8] = include_bytes!("../../page/app.js");
const STYLE: &[u8] = include_bytes!("../../page/app.css");
/// Where a browser goes that has just got its cookie. A redirect would not send it where another site's link led here.
const WELCOME: &str = "<!doctype html><meta http-equiv=\"refresh\" content=\"0;url=/\"><link rel=\"icon\" href=\"data:,\"><title>longfat</title>";

/// What to serve, and where.
#[derive(Debug, Clone)]
pub struct PageOptions {
    /// The records; nothing outside is served.
    pub runs_dir: PathBuf,
    /// The address to listen on.
    pub bind: IpAddr,
    /// The port; 0 takes any.
    pub port: u16,
    /// The runs to open first, as `scenario/id`; the list where there are none.
    pub asked: Vec<String>,
    /// What others call this machine, where they may ask.
    pub hostname: Option<String>,
}

/// Why the page cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address and port.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The system gives no random numbers.
    #[error("cannot make a token: {0}")]
    Token(getrandom::Error),
    /// The server did not start.
    #[error("cannot serve the page: {0}")]
    Serve(std::io::Error),
}

/// A page that listens and is not served yet.
pub struct Page {
    listener: TcpListener,
    address: SocketAddr,
    site: Arc<Site>,
    name: String,
}

struct Site {
    guard: Guard,
    store: Store,
}

impl Page {
    /// Listens, and makes the token.
    pub fn new(options: PageOptions) -> Result<Self, PageError> {
        let wanted = SocketAddr::new(options.bind, options.port);
        let fail = |source| PageError::Listen { address: wanted, source };
        let listener = TcpListener::bind(wanted).map_err(fail)?;
        listener.set_nonblocking(true).map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        let name = match (&options.hostname, address.ip().is_unspecified()) {
            (Some(name), true) => format!("{name}:{}", address.port()),
            (None, true) => format!("localhost:{}", address.port()),
            (_, false) => address.to_string(),
        };
        let guard = Guard::new(address.ip(), address.port(), options.hostname).map_err(PageError::Token)?;
        let store = Store::new(&options.runs_dir, options.asked);
        Ok(Page { listener, address, site: Arc::new(Site { guard, store }), name })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address for one browser, with the token.
    pub fn url(&self) -> String {
        format!("http://{}/?token={}", self.name, self.site.guard.token())
    }

    /// Serves until `stop` is set. What is being answered then is left.
    pub fn serve(self, stop: &AtomicBool) -> Result<(), PageError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_io()
            .enable_time()
            .build()
            .map_err(PageError::Serve)?;
        let served = runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(self.listener)?;
            let serving = tokio::spawn(async { axum::serve(listener, router(self.site)).await });
            while !stop.load(Ordering::Relaxed) && !serving.is_finished() {
                tokio::time::sleep(LOOK).await;
            }
            match serving.is_finished() {
                true => serving.await.map_err(std::io::Error::other)?,
                false => Ok(()),
            }
        });
        runtime.shutdown_background();
        served.map_err(PageError::Serve)
    }
}

fn router(site: Arc<Site>) -> Router {
    Router::new()
        .route("/", get(|| async { file("text/html; charset=utf-8", INDEX) }))
        .route("/app.js", get(|| async { file("text/javascript; charset=utf-8", SCRIPT) }))
        .route("/app.css", get(|| async { file("text/css; charset=utf-8", STYLE) }))
        .route("/api/vocabulary", get(|| async { json(&Vocabulary::new()) }))
        .route("/api/runs", get(|State(site)| ask(site, |site| Ok(json(&site.store.list()?)))))
        .route("/api/sweeps", get(|State(site)| ask(site, |site| Ok(json(&site.store.sweeps()?)))))
        .route("/api/published", get(|State(site)| ask(site, |site| Ok(json(&site.store.published()?)))))
        .route("/api/open", post(|State(site), body| ask(site, |site| open(site, body))))
        .route("/api/series", post(|State(site), body| ask(site, |site| series(site, body))))
        .fallback(|| async { told(StatusCode::NOT_FOUND, "there is no such page") })
        .layer(DefaultBodyLimit::max(BODY_MAX_BYTES))
        .layer(middleware::from_fn_with_state(Arc::clone(&site), admit))
        .with_state(site)
}

/// Lets in who may come, and tells the browser what the page may do.
async fn admit(State(site): State<Arc<Site>>, request: Request, next: Next) -> Response {
    let token = token(request.uri());
    let mut response = match site.guard.check(request.headers(), token.as_deref()) {
        Ok(Leave::Granted) if token.is_some() => file("text/html; charset=utf-8", WELCOME.as_bytes()),
        Ok(Leave::Granted) => next.run(request).await,
        Ok(Leave::Exchange(cookie)) => {
            let mut response = file("text/html; charset=utf-8", WELCOME.as_bytes());
            if let Ok(cookie) = HeaderValue::from_str(&cookie) {
                response.headers_mut().insert(header::SET_COOKIE, cookie);
            }
            response
        }
        Err(denied) => told(denied.status, denied.why),
    };
    let headers = response.headers_mut();
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
    response
}

/// The token in the address of the page itself.
fn token(uri: &Uri) -> Option<String> {
    let query = uri.query().filter(|_| uri.path() == "/")?;
    query.split('&').find_map(|pair| pair.strip_prefix("token=")).map(str::to_owned)
}

/// Answers on a thread that may wait.
async fn ask(
    site: Arc<Site>,
    answer: impl FnOnce(&Site) -> Result<Response, Refusal> + Send + 'static,
) -> Response {
    match tokio::task::spawn_blocking(move || answer(&site)).await {
        Ok(Ok(response)) => response,
        Ok(Err(refusal)) => {
            let status = match refusal {
                Refusal::NoRun(_) => StatusCode::NOT_FOUND,
                Refusal::Bad(_) => StatusCode::BAD_REQUEST,
                Refusal::Record(_) => StatusCode::INTERNAL_SERVER_ERROR,
            };
            told(status, &refusal.to_string())
        }
        Err(_) => told(StatusCode::INTERNAL_SERVER_ERROR, "the answer failed"),
    }
}

fn open(site: &Site, body: Bytes) -> Result<Response, Refusal> {
    let request: OpenRequest = parse(&body)?;
    Ok(json(&site.store.details(&request.runs)?))
}

fn series(site: &Site, body: Bytes) -> Result<Response, Refusal> {
    let request: SeriesRequest = parse(&body)?;
    let bytes = site.store.series(&request)?;
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], bytes).into_response())
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|e| Refusal::Bad(format!("the question cannot be read: {e}")))
}

fn json<T: Serialize>(document: &T) -> Response {
    match serde_json::to_vec(document) {
        Ok(bytes) => ([(header::CONTENT_TYPE, "application/json")], bytes).into_response(),
        Err(e) => told(StatusCode::INTERNAL_SERVER_ERROR, &e.to_string()),
    }
}

fn file(kind: &'static str, bytes: &'static [u8]) -> Response {
    ([(header::CONTENT_TYPE, kind)], Body::from(bytes)).into_response()
}

fn told(status: StatusCode, what: &str) -> Response {
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], format!("{what}\n")).into_response()
}
