//! The HTTP interface of a point: the page of the mesh, JSON documents and metrics. All operations are read-only.
//!
//! Results come from the archive's file, everything else through the control socket, so that a request never delays the agent's loop
//! longer than a local user's request does. There is no authentication: the interface listens on loopback unless the configuration names
//! another address, and then refuses foreign host names (DNS rebinding).

mod documents;
mod metrics;
mod openapi;
mod routes;
mod server;

use std::{
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    extract::{Request, State},
    http::{StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use serde::Serialize;
use tokio::{sync::Semaphore, time::timeout};
use view::{PageContent, Theme, names_loopback, page_files, restrict_page};

pub use documents::{
    CalendarDocument, MeshDocument, MeshPair, MeshPoint, NamedChange, PairDocument, PairState,
    ResultsDocument,
};

use self::{
    documents::SCHEMA,
    routes::{Query, ROUTES, Route},
};
use crate::{Client, Error, Filter, Members, PostgresAddress, Status, StopHandle, archive::Archive};

/// Number of tests in a document, unless the request names another.
const DEFAULT_LIMIT: u32 = 1000;
/// Maximum number of tests in a document.
const MAX_LIMIT: i64 = 10_000;
/// How far a calendar reaches, unless the request names another time.
const DEFAULT_CALENDAR_S: i64 = 86_400;

/// Maximum number of requests that are processed at a time; others wait.
const MAX_REQUESTS: usize = 8;
/// Time until a request is answered, with an error at worst.
const WORK_TIMEOUT: Duration = Duration::from_secs(30);

/// The served point.
struct Site {
    /// The point's state directory.
    state: PathBuf,
    /// The common archive, whose results are shown instead of this point's.
    postgres: Option<PostgresAddress>,
    client: Client,
    is_local: bool,
    places: Arc<Semaphore>,
}

impl Site {
    fn archive(&self) -> Result<Archive, Error> {
        match &self.postgres {
            Some(address) => Archive::connect_for_reading(address),
            None => open_archive(&self.state),
        }
    }
}

/// Why a request has no result.
enum Refusal {
    /// The request is invalid.
    Invalid(String),
    /// The agent or its archive does not reply.
    Unavailable(Error),
    /// There are too many requests.
    Busy,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused(text) => Refusal::Invalid(text),
            error => Refusal::Unavailable(error),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, text) = match self {
            Refusal::Invalid(text) => (StatusCode::BAD_REQUEST, text),
            Refusal::Unavailable(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
            Refusal::Busy => (StatusCode::SERVICE_UNAVAILABLE, "too many requests; repeat it later".into()),
        };
        (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], format!("{text}\n")).into_response()
    }
}

/// Serves the interface of the point with this state directory, forever.
pub(crate) async fn serve(
    listener: tokio::net::TcpListener,
    state: &Path,
    postgres: Option<PostgresAddress>,
) -> Result<(), Error> {
    let failed = |cause| Error::system("serve HTTP", cause);
    let address: SocketAddr = listener.local_addr().map_err(failed)?;
    let site = Site {
        state: state.into(),
        postgres,
        client: Client::new(state),
        is_local: address.ip().is_loopback(),
        places: Arc::new(Semaphore::new(MAX_REQUESTS)),
    };
    server::serve(listener, router(Arc::new(site)), server::Limits::default()).await.map_err(failed)
}

/// Serves the interface of a running agent from another process until it is stopped, for agents in other network namespaces.
///
/// # Errors
/// If the server fails.
pub fn serve_interface(listener: TcpListener, state: &Path, stop: &StopHandle) -> Result<(), Error> {
    let failed = |cause| Error::system("serve HTTP", cause);
    listener.set_nonblocking(true).map_err(failed)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|cause| Error::system("start a runtime", cause))?;
    let served = runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).map_err(failed)?;
        tokio::select! {
            served = serve(listener, state, None) => served,
            () = stop.stopped() => Ok(()),
        }
    });
    runtime.shutdown_timeout(Duration::from_millis(100));
    served
}

/// The mesh, as the running agent with this state directory sees it.
///
/// # Errors
/// If the agent does not run, or its archive cannot be read.
pub fn known_mesh(state: &Path) -> Result<MeshDocument, Error> {
    let status = Client::new(state).status()?;
    mesh(state, &status, &open_archive(state)?)
}

fn mesh(state: &Path, status: &Status, archive: &Archive) -> Result<MeshDocument, Error> {
    let now_us = i64::try_from(os::realtime().as_micros()).unwrap_or(i64::MAX);
    Ok(MeshDocument::new(status, &Members::open(state)?, archive.pairs()?, now_us))
}

fn open_archive(state: &Path) -> Result<Archive, Error> {
    Archive::open_for_reading(&state.join("archive.sqlite"))
}

fn router(site: Arc<Site>) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        let handler = move |State(site): State<Arc<Site>>, request: Request| async move {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let work = async move {
                let place = Arc::clone(&site.places).acquire_owned().await;
                // Databases and the control socket block. The place is taken until the work ends, whether or not a client waits.
                tokio::task::spawn_blocking(move || {
                    let response = respond(&site, route, &query);
                    drop(place);
                    response
                })
                .await
            };
            match timeout(WORK_TIMEOUT, work).await {
                Ok(Ok(response)) => response.unwrap_or_else(Refusal::into_response),
                Ok(Err(_)) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
                Err(_) => Refusal::Busy.into_response(),
            }
        };
        router = router.route(route.path, get(handler));
    }
    router
        .merge(page_files(Theme::default(), PageContent::Mesh))
        .layer(middleware::from_fn_with_state(Arc::clone(&site), check_host))
        .with_state(site)
}

/// Refuses names that are not this server's, and adds the headers that restrict the page.
async fn check_host(State(site): State<Arc<Site>>, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let mut response = match host {
        Some(host) if !site.is_local || names_loopback(host) => next.run(request).await,
        _ => {
            let text = "this server does not have that name\n";
            (StatusCode::MISDIRECTED_REQUEST, text).into_response()
        }
    };
    restrict_page(response.headers_mut());
    response
}

fn respond(site: &Site, route: &Route, query: &str) -> Result<Response, Refusal> {
    let query = Query::parse(route, query).map_err(Refusal::Invalid)?;
    let now_us = i64::try_from(os::realtime().as_micros()).unwrap_or(i64::MAX);
    let limit = match query.number("limit") {
        None => DEFAULT_LIMIT,
        Some(limit) => {
            let limit =
                u32::try_from(limit).ok().filter(|limit| (1..=MAX_LIMIT).contains(&i64::from(*limit)));
            limit.ok_or_else(|| Refusal::Invalid(format!("limit must be 1 to {MAX_LIMIT}")))?
        }
    };
    let filter = Filter {
        from: query.text("from"),
        to: query.text("to"),
        kind: query.text("kind"),
        since_us: query.number("since_us"),
        limit,
    };
    match route.response {
        routes::Response::AnyJson => json(&openapi::document()),
        routes::Response::Text => {
            let status = site.client.status()?;
            let mesh = mesh(&site.state, &status, &site.archive()?)?;
            let text = metrics::text(&status, &mesh, open_archive(&site.state)?.size_bytes());
            Ok(([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response())
        }
        routes::Response::Status => json(&site.client.status()?),
        routes::Response::Mesh => json(&mesh(&site.state, &site.client.status()?, &site.archive()?)?),
        routes::Response::Results => {
            json(&ResultsDocument { schema: SCHEMA.into(), tests: site.archive()?.list(&filter)? })
        }
        routes::Response::Pair => {
            let archive = site.archive()?;
            let (Some(from), Some(to)) = (filter.from.clone(), filter.to.clone()) else {
                return Err(Refusal::Invalid("from and to are missing".into()));
            };
            let since_us = filter.since_us.unwrap_or(0);
            let changes = archive.changes(&from, &to, since_us)?;
            json(&PairDocument {
                schema: SCHEMA.into(),
                now_us,
                tests: archive.list(&filter)?,
                hours: archive.hours(&from, &to, since_us)?,
                changes: changes.into_iter().map(NamedChange::of).collect(),
                from,
                to,
            })
        }
        routes::Response::Calendar => {
            let seconds = query.number("seconds").unwrap_or(DEFAULT_CALENDAR_S);
            let seconds = u64::try_from(seconds)
                .map_err(|_| Refusal::Invalid("seconds must not be negative".into()))?;
            let point = query.text("point");
            if let Some(name) = &point
                && Members::open(&site.state)?.address(&name.as_str().into()).is_none()
            {
                return Err(Refusal::Invalid(format!("no point of the mesh has the name {name:?}")));
            }
            let calendar = site.client.calendar_of(point, Duration::from_secs(seconds));
            let calendar = calendar.map_err(Refusal::Unavailable)?;
            json(&CalendarDocument { schema: SCHEMA.into(), now_us, calendar })
        }
    }
}

fn json(document: &impl Serialize) -> Result<Response, Refusal> {
    let bytes = serde_json::to_vec(document);
    let bytes = bytes.map_err(|error| Refusal::Unavailable(Error::system("write JSON", error.into())))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], bytes).into_response())
}
