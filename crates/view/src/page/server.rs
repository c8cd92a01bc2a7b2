//! The HTTP server of the page: its files and the API. HTTP/1.1 by axum; records are read on blocking
//! threads.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use record::RunsLocation;
use serde::de::DeserializeOwned;

use super::documents::{OpenRequest, SeriesRequest, Vocabulary};
use super::files::{PLAYGROUND, PageContent, file, files, restrict_page};
use super::guard::{Access, Browsers, Guard};
use super::response::{json, message};
use super::store::{Refusal, Store};
use crate::Theme;

/// Maximum size of a request's body.
const MAX_BODY_BYTES: usize = 64 * 1024;
/// Interval at which the stop flag is polled.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Sends the browser to the page once it has its cookie. A redirect would not work: if the browser came from
/// a link on another site, it would not send the cookie. The script keeps the view that the address names
/// after `#`.
const WELCOME: &str = "<!doctype html><script src=\"/welcome.js\"></script><link rel=\"icon\" href=\"data:,\"><title>longfat</title>";
const WELCOME_SCRIPT: &str = "location.replace('/' + location.hash);\n";

/// The served records, the address, and the settings of the page.
#[derive(Debug, Clone)]
pub struct PageOptions {
    /// The records; nothing outside their directory or object store is served.
    pub runs: RunsLocation,
    /// The address to listen on.
    pub bind: IpAddr,
    /// The port; 0: any free port.
    pub port: u16,
    /// The runs to open first, as `scenario/id`; if empty, the list of runs.
    pub requested: Vec<String>,
    /// This machine's name for other hosts, if they can connect.
    pub hostname: Option<String>,
    /// The number of browsers that may open the address.
    pub browsers: Browsers,
    /// The sources of published figures: the id of a figure, and the citation.
    pub sources: Vec<(String, String)>,
    /// The colours of the page until the reader chooses others.
    pub theme: Theme,
}

/// Why the page cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The server cannot listen on the address.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address and port.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The system provides no random numbers.
    #[error("cannot create a token: {0}")]
    Token(std::io::Error),
    /// The server did not start.
    #[error("cannot serve the page: {0}")]
    Serve(std::io::Error),
}

/// A page whose server listens but does not respond yet.
pub struct Page {
    listener: TcpListener,
    address: SocketAddr,
    site: Arc<Site>,
    name: String,
}

struct Site {
    guard: Guard,
    store: Store,
    sources: Vec<(String, String)>,
    theme: Theme,
}

impl Page {
    /// Listens on the address and creates the token.
    ///
    /// # Errors
    /// If the address cannot be used, or the system provides no random numbers.
    pub fn new(options: PageOptions) -> Result<Self, PageError> {
        let requested = SocketAddr::new(options.bind, options.port);
        let fail = |source| PageError::Listen { address: requested, source };
        let listener = TcpListener::bind(requested).map_err(fail)?;
        listener.set_nonblocking(true).map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        let name = match (&options.hostname, address.ip().is_unspecified()) {
            (Some(name), true) => format!("{name}:{}", address.port()),
            (None, true) => format!("localhost:{}", address.port()),
            (_, false) => address.to_string(),
        };
        let guard = Guard::new(address.ip(), address.port(), options.hostname, options.browsers)
            .map_err(PageError::Token)?;
        let store = Store::new(options.runs, options.requested);
        let site = Arc::new(Site { guard, store, sources: options.sources, theme: options.theme });
        Ok(Page { listener, address, site, name })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL to print, with the token: for one browser or for several.
    pub fn url(&self) -> String {
        format!("http://{}/?token={}", self.name, self.site.guard.token())
    }

    /// A URL that is valid once, for the command line of a browser, which other users can read.
    pub fn one_time_url(&self) -> String {
        format!("http://{}/?token={}", self.name, self.site.guard.one_time_token())
    }

    /// Serves until `stop` is set. Requests in progress are then aborted.
    ///
    /// # Errors
    /// If the server fails.
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
                tokio::time::sleep(STOP_POLL_INTERVAL).await;
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
    let sources = Arc::clone(&site);
    let vocabulary = move || Vocabulary::new(PLAYGROUND.is_some(), sources.sources.clone());
    Router::new()
        .merge(files(site.theme, PageContent::Records, vocabulary))
        .route(
            "/welcome.js",
            get(|| async { file("text/javascript; charset=utf-8", WELCOME_SCRIPT.as_bytes()) }),
        )
        .route(
            "/playground.wasm",
            get(|| async {
                match PLAYGROUND {
                    Some(module) => file("application/wasm", module),
                    None => message(StatusCode::NOT_FOUND, "this program was built without the playground"),
                }
            }),
        )
        .route("/api/runs", get(|State(site)| respond(site, |site| Ok(json(&site.store.list()?)))))
        .route("/api/sweeps", get(|State(site)| respond(site, |site| Ok(json(&site.store.sweeps()?)))))
        .route("/api/published", get(|State(site)| respond(site, |site| Ok(json(&site.store.published()?)))))
        .route("/api/open", post(|State(site), body| respond(site, |site| open(site, body))))
        .route("/api/series", post(|State(site), body| respond(site, |site| series(site, body))))
        .fallback(|| async { message(StatusCode::NOT_FOUND, "there is no such page") })
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(middleware::from_fn_with_state(Arc::clone(&site), check_access))
        .with_state(site)
}

/// Refuses requests without access, and adds the headers that restrict the page.
async fn check_access(State(site): State<Arc<Site>>, request: Request, next: Next) -> Response {
    let token = token(request.uri());
    let mut response = match site.guard.check(request.headers(), token.as_deref()) {
        Ok(Access::Granted) if token.is_some() => file("text/html; charset=utf-8", WELCOME.as_bytes()),
        Ok(Access::Granted) => next.run(request).await,
        Ok(Access::Exchange(cookie)) => {
            let mut response = file("text/html; charset=utf-8", WELCOME.as_bytes());
            if let Ok(cookie) = HeaderValue::from_str(&cookie) {
                response.headers_mut().insert(header::SET_COOKIE, cookie);
            }
            response
        }
        Err(denied) => message(denied.status, denied.why),
    };
    restrict_page(response.headers_mut());
    response
}

/// The token in the page's URL.
fn token(uri: &Uri) -> Option<String> {
    let query = uri.query().filter(|_| uri.path() == "/")?;
    query.split('&').find_map(|pair| pair.strip_prefix("token=")).map(str::to_owned)
}

/// Runs `handler` on a blocking thread.
async fn respond(
    site: Arc<Site>,
    handler: impl FnOnce(&Site) -> Result<Response, Refusal> + Send + 'static,
) -> Response {
    match tokio::task::spawn_blocking(move || handler(&site)).await {
        Ok(Ok(response)) => response,
        Ok(Err(refusal)) => {
            let status = match refusal {
                Refusal::NoRun(_) => StatusCode::NOT_FOUND,
                Refusal::Bad(_) => StatusCode::BAD_REQUEST,
                Refusal::Record(_) => StatusCode::INTERNAL_SERVER_ERROR,
            };
            message(status, &refusal.to_string())
        }
        Err(_) => message(StatusCode::INTERNAL_SERVER_ERROR, "the request failed"),
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
    serde_json::from_slice(body).map_err(|e| Refusal::Bad(format!("the request cannot be read: {e}")))
}
