//! The agent as a process.

use std::{net::SocketAddr, sync::Arc};

use tokio::{net::TcpListener, sync::mpsc};

use crate::{
    CalendarFile, Config, Error, HttpInterface, Identity, Members, ReloadHandle, StepObserver, StopHandle,
    clock_steps, control_server, event_loop::EventLoop, files, network,
};

/// Maximum number of events that wait for the loop.
const INBOX: usize = 256;

/// Runs the agent until it is stopped. `on_ready` is called with the address for other points when it
/// listens.
///
/// # Errors
/// If the agent cannot start, or its storage fails.
pub fn run(
    config: Config,
    observer: Arc<dyn StepObserver>,
    stop: &StopHandle,
    on_ready: impl FnOnce(SocketAddr),
) -> Result<(), Error> {
    run_reloadable(config, observer, stop, &ReloadHandle::default(), on_ready)
}

/// As [`run`]; `reload` gives the agent new tests, limits, roles and a push of metrics while it runs.
///
/// # Errors
/// If the agent cannot start, or its storage fails.
pub fn run_reloadable(
    config: Config,
    observer: Arc<dyn StepObserver>,
    stop: &StopHandle,
    reload: &ReloadHandle,
    on_ready: impl FnOnce(SocketAddr),
) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|cause| Error::system("start a runtime", cause))?;
    let ended = runtime.block_on(serve(config, observer, stop, reload, on_ready));
    // A resolver that does not reply must not delay the end.
    runtime.shutdown_background();
    ended
}

async fn serve(
    config: Config,
    observer: Arc<dyn StepObserver>,
    stop: &StopHandle,
    reload: &ReloadHandle,
    on_ready: impl FnOnce(SocketAddr),
) -> Result<(), Error> {
    // Connections of points and HTTP clients, databases and tests need descriptors. If the limit cannot be
    // raised, the maximum of each still applies.
    let _ = os::raise_file_limit();
    let identity = Identity::open(&config.state)?;
    let owner = identity.name()?;
    if owner != config.name {
        let directory = config.state.join("tls");
        return Err(Error::Refused(format!(
            "the certificate in {} is of the point {owner}, but the configuration is of {}",
            directory.display(),
            config.name
        )));
    }
    let members = Members::open(&config.state)?;
    files::create_directory(&config.state.join("runs"))?;
    // The calendar is opened first: its lock prevents a second agent from using the other files.
    let calendar = config.state.join("calendar.sqlite");
    let (file, point) = CalendarFile::open(&calendar, config.name.clone(), config.settings.clone())?;
    let control = control_server::bind(&config.state, control_server::mode(&config.roles, &config.name))?;
    let (listen, http, state) = (config.listen, config.http, config.state.clone());
    let (postgres, servers) = (config.postgres.clone(), config.servers.clone());
    let failed = |cause| Error::system(format!("listen on {listen}"), cause);
    let listener = TcpListener::bind(listen).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let (inbox, mut inbound) = mpsc::channel(INBOX);
    let network = network::Network::new(&identity, &members, inbox.clone())?;
    let mut agent =
        EventLoop::open(config, file, point, members, Arc::clone(&network), inbox.clone(), observer)?;
    let roles = agent.roles();
    tokio::spawn(clock_steps::report_steps(inbox.clone()));
    tokio::spawn(control_server::listen(control, inbox));
    let http = match http {
        Some(HttpInterface { listen, read }) => {
            let listener = TcpListener::bind(listen).await;
            let failed = |cause| Error::system(format!("serve HTTP on {listen}"), cause);
            Some((listener.map_err(failed)?, read))
        }
        None => None,
    };
    let serve_http = async {
        match http {
            Some((listener, read)) => {
                crate::http::serve(listener, owner, &state, read, postgres, servers, roles).await
            }
            None => std::future::pending().await,
        }
    };
    on_ready(address);
    tokio::select! {
        ended = agent.run(&mut inbound, stop, reload) => ended,
        () = network::listen(network, listener) => Ok(()),
        served = serve_http => served,
    }
}
