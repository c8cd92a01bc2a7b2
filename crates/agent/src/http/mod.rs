//! The HTTP interface of a point: the page of the mesh, JSON documents, metrics, and reservations for
//! programs.
//!
//! Results come from the archive's file, everything else through the control socket, so that a request never
//! delays the agent's loop longer than a local user's request does. Reading needs a token only if the
//! configuration says so ([`ReadAccess`]). The interface listens on loopback unless the configuration names
//! another address, and then refuses foreign host names (DNS rebinding). Changes need a token
//! ([`authorize`]), which is checked before the document of the request is read. If its scopes refuse a
//! change, the audit log has the refusal.

mod documents;
mod mesh;
mod openapi;
mod routes;
mod server;

use std::{
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    sync::Arc,
    thread::sleep,
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::to_bytes,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use reservation::PointName;
use serde::{Serialize, de::DeserializeOwned};
use tokio::{sync::Semaphore, time::timeout};
use view::{PageContent, Theme, names_loopback, page_files, restrict_page};

pub use documents::{
    AcknowledgeRequest, AlertsDocument, CalendarDocument, Cancellation, MeshDocument, MeshPair, MeshPoint,
    MuteRequest, NamedChange, PairDocument, PairState, ReservationsDocument, ResultsDocument, TransferResult,
};
pub use mesh::known_mesh;
pub(crate) use mesh::mesh_document;

use self::routes::{Body, Query, ROUTES, Route};
use crate::{
    Client, DirectoryDocument, Error, Explained, Filter, Identity, Lookup, LookupTexts, Members,
    NewReservation, PairName, PostgresAddress, ReadAccess, ServerService, StopHandle, Tokens, TransferReport,
    archive::Archive,
    audit,
    control::SCHEMA,
    metrics::{self, MetricsSnapshot},
    planning::{PlanRequest, make_plan},
    roles::SharedRoles,
    tokens,
};

/// Number of tests in a document, unless the request names another.
const DEFAULT_LIMIT: u32 = 1000;
/// Maximum number of tests in a document.
const MAX_LIMIT: i64 = 10_000;
/// How far a calendar reaches, unless the request names another time.
const DEFAULT_CALENDAR_S: i64 = 86_400;

/// Maximum number of requests that are processed at a time; others wait.
const MAX_REQUESTS: usize = 8;
/// Timeout of a request; the response is then an error.
const WORK_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout of the document of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest document of a request, bytes.
const MAX_BODY_BYTES: usize = 16 * 1024;
/// Timeout of a report that waits for the figures of its transfer, and its poll interval.
const RESULT_TIMEOUT: Duration = Duration::from_secs(8);
const RESULT_POLL: Duration = Duration::from_millis(100);

/// The served point.
struct Site {
    /// The point.
    own: PointName,
    /// The point's state directory.
    state: PathBuf,
    /// Who may read.
    read: ReadAccess,
    /// The common archive, whose results are shown instead of this point's.
    postgres: Option<PostgresAddress>,
    /// The servers outside the mesh to which transfers are planned.
    servers: Vec<ServerService>,
    /// The roles of tokens.
    roles: SharedRoles,
    client: Client,
    is_local: bool,
    request_permits: Arc<Semaphore>,
}

impl Site {
    fn archive(&self) -> Result<Archive, Error> {
        Archive::shown(&self.state, self.postgres.as_ref())
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
    /// The token is missing, unknown or expired.
    Unauthorized,
    /// The token, or its role, lacks a scope.
    Forbidden(String),
    /// The document of the request is too long.
    TooLong,
    /// The document of the request did not arrive.
    Late,
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
        let is_unauthorized = matches!(self, Refusal::Unauthorized);
        let (status, text) = match self {
            Refusal::Unauthorized => {
                let text =
                    "a valid token is needed: Authorization: Bearer TOKEN (longfat agent token create)";
                (StatusCode::UNAUTHORIZED, text.into())
            }
            Refusal::Forbidden(text) => (StatusCode::FORBIDDEN, text),
            Refusal::TooLong => {
                let text = format!("the document is longer than {MAX_BODY_BYTES} bytes");
                (StatusCode::PAYLOAD_TOO_LARGE, text)
            }
            Refusal::Late => (StatusCode::REQUEST_TIMEOUT, "the document did not arrive in time".into()),
            Refusal::Invalid(text) => (StatusCode::BAD_REQUEST, text),
            Refusal::Unavailable(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
            Refusal::Busy => (StatusCode::SERVICE_UNAVAILABLE, "too many requests; repeat it later".into()),
        };
        let plain = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
        let text = (status, plain, format!("{text}\n")).into_response();
        if is_unauthorized { ([(header::WWW_AUTHENTICATE, "Bearer")], text).into_response() } else { text }
    }
}

/// Serves the interface of the point with this state directory, forever.
pub(crate) async fn serve(
    listener: tokio::net::TcpListener,
    own: PointName,
    state: &Path,
    read: ReadAccess,
    postgres: Option<PostgresAddress>,
    servers: Vec<ServerService>,
    roles: SharedRoles,
) -> Result<(), Error> {
    let failed = |cause| Error::system("serve HTTP", cause);
    let address: SocketAddr = listener.local_addr().map_err(failed)?;
    let site = Site {
        own,
        state: state.into(),
        read,
        postgres,
        servers,
        roles,
        client: Client::new(state),
        is_local: address.ip().is_loopback(),
        request_permits: Arc::new(Semaphore::new(MAX_REQUESTS)),
    };
    server::serve(listener, router(Arc::new(site)), server::Limits::default()).await.map_err(failed)
}

/// Serves the interface of a running agent from another process until it is stopped, for agents in other
/// network namespaces. It does not know the agent's roles, so tokens with a role are refused.
///
/// # Errors
/// If the server fails.
pub fn serve_interface(listener: TcpListener, state: &Path, stop: &StopHandle) -> Result<(), Error> {
    let failed = |cause| Error::system("serve HTTP", cause);
    let own = Identity::open(state)?.name()?;
    listener.set_nonblocking(true).map_err(failed)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|cause| Error::system("start a runtime", cause))?;
    let served = runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).map_err(failed)?;
        tokio::select! {
            served = serve(listener, own, state, ReadAccess::Open, None, Vec::new(), SharedRoles::default()) => served,
            () = stop.stopped() => Ok(()),
        }
    });
    runtime.shutdown_timeout(Duration::from_millis(100));
    served
}

fn router(site: Arc<Site>) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        let handler = move |State(site): State<Arc<Site>>, request: Request| async move {
            handle(site, route, request).await.unwrap_or_else(Refusal::into_response)
        };
        let method = if route.body.is_some() { post(handler) } else { get(handler) };
        router = router.route(route.path, method);
    }
    router
        .merge(page_files(Theme::default(), PageContent::Mesh))
        .layer(middleware::from_fn_with_state(Arc::clone(&site), check_host))
        .with_state(site)
}

async fn handle(site: Arc<Site>, route: &'static Route, request: Request) -> Result<Response, Refusal> {
    let query = request.uri().query().unwrap_or_default().to_owned();
    let change = match route.body {
        None if site.read == ReadAccess::Open => None,
        None => authorize(&site, route, request.headers()).map(|_| None)?,
        Some(body) => {
            let token = authorize(&site, route, request.headers())?;
            let document = timeout(BODY_TIMEOUT, to_bytes(request.into_body(), MAX_BODY_BYTES)).await;
            let document = document.map_err(|_| Refusal::Late)?.map_err(|_| Refusal::TooLong)?;
            Some((body, token, document))
        }
    };
    let work = async move {
        let permit = Arc::clone(&site.request_permits).acquire_owned().await;
        // Databases and the control socket block. The permit is held until the work ends, whether or not a
        // client waits.
        tokio::task::spawn_blocking(move || {
            let response = match change {
                None => respond(&site, route, &query),
                Some((body, token, document)) => apply(&site, body, &token, &document),
            };
            drop(permit);
            response
        })
        .await
    };
    match timeout(WORK_TIMEOUT, work).await {
        Ok(Ok(response)) => response,
        Ok(Err(_)) => Ok(StatusCode::INTERNAL_SERVER_ERROR.into_response()),
        Err(_) => Err(Refusal::Busy),
    }
}

/// The name of the token in a request's header, if it has one of the scopes that the route needs. Pages of
/// other sites cannot send this header: no response permits it (CORS).
fn authorize(site: &Site, route: &Route, headers: &HeaderMap) -> Result<String, Refusal> {
    let header = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = header.and_then(|value| value.split_once(' '));
    let token =
        token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, token)| token.trim());
    let token = token.ok_or(Refusal::Unauthorized)?;
    let tokens = Tokens::open(&site.state)?;
    let now_s = os::realtime().as_secs();
    let (name, entry) = tokens.authenticate(token, now_s).ok_or(Refusal::Unauthorized)?;
    let grant = site.roles.get().grant_of_token(entry);
    let Err(reason) = grant.check(route.scopes()) else { return Ok(name.into()) };
    if let Some(body) = route.body {
        let user = format!("{}@{}", tokens::user_of(name), site.own);
        // The document has not been read: the entry lacks its contents.
        let (details, refused) = (serde_json::json!({}), Err(reason.clone()));
        audit::append_request(&site.state, &user, grant.role(), body.action(), details, refused)?;
    }
    Err(Refusal::Forbidden(reason))
}

/// Applies a change that a program requests.
fn apply(site: &Site, body: Body, token: &str, document: &[u8]) -> Result<Response, Refusal> {
    let client = site.client.for_token(token);
    let reservation = match body {
        Body::Reservation => client.reserve(parsed::<NewReservation>(document)?)?,
        Body::Cancellation => {
            let Cancellation { id, reason } = parsed(document)?;
            client.cancel(&id, &reason)?
        }
        Body::Acknowledge => {
            let AcknowledgeRequest { from, to, since_us, text } = parsed(document)?;
            let alerts = client.acknowledge(PairName { from, to }, since_us, &text)?;
            return json(&AlertsDocument { schema: SCHEMA.into(), alerts });
        }
        Body::Mute => {
            let MuteRequest { from, to, seconds, text } = parsed(document)?;
            let alerts = client.mute(PairName { from, to }, Duration::from_secs(seconds), &text)?;
            return json(&AlertsDocument { schema: SCHEMA.into(), alerts });
        }
        Body::Report => {
            let TransferResult { id, bytes, duration_us, error } = parsed(document)?;
            let reported = client.report(&id, &TransferReport { bytes, duration_us, error })?;
            result_of(&client, reported)?
        }
    };
    json(&ReservationsDocument { schema: SCHEMA.into(), reservations: vec![reservation] })
}

fn parsed<T: DeserializeOwned>(document: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(document).map_err(|error| Refusal::Invalid(format!("the document: {error}")))
}

/// Waits until a transfer that was reported has ended: its record is written first.
fn result_of(client: &Client, reported: Explained) -> Result<Explained, Refusal> {
    let begin = Instant::now();
    let mut known = reported;
    while !known.is_over() && begin.elapsed() < RESULT_TIMEOUT {
        sleep(RESULT_POLL);
        known = client.why(&known.id)?.into_iter().next().unwrap_or(known);
    }
    Ok(known)
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
            let snapshot = MetricsSnapshot::read(&site.state, site.postgres.as_ref())?;
            let text = metrics::text(&snapshot.metrics());
            Ok(([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response())
        }
        routes::Response::Status => json(&site.client.status()?),
        routes::Response::Mesh => {
            json(&mesh_document(&site.state, &site.client.status()?, &site.archive()?)?)
        }
        routes::Response::Directory => {
            let members = Members::open(&site.state)?;
            let text = |name: &str| query.text(name);
            let texts = LookupTexts {
                place: text("place"),
                near: text("near"),
                network: text("network"),
                capability: text("capability"),
                hops: text("hops"),
            };
            let points = Lookup::parse(texts, &members)?.find(&members);
            json(&DirectoryDocument { schema: SCHEMA.into(), points })
        }
        routes::Response::Results => {
            json(&ResultsDocument { schema: SCHEMA.into(), tests: site.archive()?.list(&filter)? })
        }
        routes::Response::Pair => {
            let archive = site.archive()?;
            let (Some(from), Some(to)) = (filter.from.clone(), filter.to.clone()) else {
                return Err(Refusal::Invalid("from and to are missing".into()));
            };
            let since_us = filter.since_us.unwrap_or(0);
            // Only changes found by the kind of tests that determines the cause: other kinds have other names
            // for causes.
            let cause = archive.pair(&from, &to)?.and_then(|pair| pair.cause);
            let (changes, remedy) = match cause {
                Some(cause) => (archive.changes(&from, &to, &cause.kind, since_us)?, archive.remedy(&cause)?),
                None => (Vec::new(), None),
            };
            json(&PairDocument {
                schema: SCHEMA.into(),
                now_us,
                tests: archive.list(&filter)?,
                hours: archive.hours(&from, &to, since_us)?,
                changes: changes.into_iter().map(NamedChange::of).collect(),
                remedy,
                from,
                to,
            })
        }
        routes::Response::Alerts => {
            json(&AlertsDocument { schema: SCHEMA.into(), alerts: site.client.alerts()? })
        }
        routes::Response::Plan => {
            let number = |name: &str| {
                let value = query.number(name).and_then(|value| u64::try_from(value).ok());
                value.ok_or_else(|| Refusal::Invalid(format!("{name} must not be negative")))
            };
            let request = PlanRequest {
                from: query.text("from").unwrap_or_default(),
                to: query.text("to").unwrap_or_default(),
                bytes: number("bytes")?,
                deadline_us: number("deadline_us")?,
            };
            json(&make_plan(&site.state, &site.servers, &site.client, &site.archive()?, &request)?)
        }
        routes::Response::Reservations => {
            let reservations = site.client.why(&query.text("id").unwrap_or_default())?;
            json(&ReservationsDocument { schema: SCHEMA.into(), reservations })
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
