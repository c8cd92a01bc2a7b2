//! The files of a point, and its process.

use std::{
    io::Read,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    path::Path,
    sync::Arc,
};

use agent::{
    Authority, Config, Invitation, JoinRequest, Members, NoObserver, ReloadHandle, StopHandle, Tokens,
};
use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};
use units::Time;

use super::{Directory, SCHEMA, failure};
use crate::{exit::Exit, output};

/// All addresses of this machine, IPv4 and IPv6.
const ANY: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), agent::DEFAULT_PORT);

/// Options of `agent init`.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// Name of the point, unique in the mesh
    #[arg(long)]
    name: String,
    /// Address at which other points reach this one: HOST or HOST:PORT
    #[arg(long, value_name = "HOST[:PORT]")]
    address: String,
    /// Address and port on which it listens for other points
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = ANY)]
    listen: SocketAddr,
    #[command(flatten)]
    directory: Directory,
}

/// Options of `agent invite`.
#[derive(Debug, Args)]
pub struct InviteArgs {
    /// Name of the new point
    name: String,
    /// Lifetime of the token
    #[arg(long, value_name = "TIME", default_value = "24h")]
    valid: Time,
    #[command(flatten)]
    directory: Directory,
}

/// Options of `agent join`.
#[derive(Debug, Args)]
pub struct JoinArgs {
    /// The token, or - to read it from standard input
    token: String,
    /// Address at which other points reach this one: HOST or HOST:PORT [default: the address from which it
    /// joins]
    #[arg(long, value_name = "HOST[:PORT]")]
    address: Option<String>,
    /// Address and port on which it listens for other points
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = ANY)]
    listen: SocketAddr,
    #[command(flatten)]
    directory: Directory,
}

/// Adds the port to an address without one.
fn with_port(address: &str, listen: SocketAddr) -> String {
    match address.parse::<IpAddr>() {
        Ok(IpAddr::V6(_)) => format!("[{address}]:{}", listen.port()),
        Ok(IpAddr::V4(_)) => format!("{address}:{}", listen.port()),
        Err(_) if !address.contains(':') => format!("{address}:{}", listen.port()),
        Err(_) => address.into(),
    }
}

/// Creates a mesh.
pub fn init(args: &InitArgs, json: bool) -> anyhow::Result<()> {
    let address = with_port(&args.address, args.listen);
    let config =
        agent::create_mesh(&args.directory.dir, &args.name, args.listen, &address).map_err(failure)?;
    if json {
        return output::json(&json!({ "schema": SCHEMA, "point": args.name, "config": config }));
    }
    output::text(&format!(
        "{} is the configuration of the point {}, which has created a mesh.\nStart it: longfat agent run{dir}. Invite others: \
         longfat agent invite NAME{dir}",
        config.display(),
        args.name,
        dir = args.directory.as_arguments()
    ))
}

/// Prints a token.
pub fn invite(args: &InviteArgs, json: bool) -> anyhow::Result<()> {
    let config = args.directory.config()?;
    let authority = Authority::open(&config.state).ok_or_else(|| {
        Exit::BadInput(format!(
            "{} is not the authority of its mesh; invite at the point that created it",
            config.name
        ))
    })?;
    let valid = args.valid.to_duration();
    let invitation = authority.invite(&config.state, &args.name, &config.address, valid).map_err(failure)?;
    if json {
        return output::json(&json!({
            "schema": SCHEMA, "point": args.name, "valid_s": valid.as_secs(), "token": invitation.to_string(),
        }));
    }
    output::note(&format!(
        "The point {} joins with: longfat agent join TOKEN. The token is secret, valid once, and for {}.",
        args.name, args.valid
    ));
    output::text(&invitation.to_string())
}

/// Joins a mesh.
pub fn join(args: &JoinArgs, json: bool) -> anyhow::Result<()> {
    let mut token = args.token.clone();
    if token == "-" {
        token.clear();
        // Longer than any token.
        let read = std::io::stdin().take(1 << 16).read_to_string(&mut token);
        read.context("cannot read the token from standard input")?;
    }
    let invitation: Invitation = token.trim().parse().map_err(failure)?;
    let address = args.address.as_deref().map(|address| with_port(address, args.listen));
    let request = JoinRequest { listen: args.listen, address };
    let config = agent::join_mesh(&args.directory.dir, &invitation, &request).map_err(failure)?;
    if json {
        return output::json(&json!({ "schema": SCHEMA, "point": invitation.name, "config": config }));
    }
    let read = Config::read(&config).map_err(failure)?;
    output::text(&format!(
        "{} is the configuration of the point {}, a member of the mesh of {}.\nOthers reach it at {}. Start it: longfat \
         agent run{}",
        config.display(),
        invitation.name,
        invitation.authority,
        read.address,
        args.directory.as_arguments()
    ))
}

/// Checks the configuration.
pub fn check(args: &Directory, json: bool) -> anyhow::Result<()> {
    let config = args.config()?;
    // A point without a list has not joined a mesh yet.
    let members = Members::open(&config.state)
        .unwrap_or_else(|_| Members::of_one(config.name.clone(), &config.address));
    let tests = config.tasks(&members).len();
    let tokens = Tokens::open(&config.state).map_err(failure)?;
    let without_role: Vec<(&str, &str)> = tokens
        .entries()
        .iter()
        .filter_map(|(name, token)| Some((name.as_str(), token.role.as_deref()?)))
        .filter(|(_, role)| config.roles.get(role).is_none())
        .collect();
    let others: Vec<&str> = members
        .members
        .iter()
        .map(|member| member.name.0.as_str())
        .filter(|name| *name != config.name.0)
        .collect();
    let open_to_others = config.http.filter(agent::HttpInterface::is_open_to_others);
    if json {
        let to_each = config.tests_to_each.iter();
        let to_each: Vec<Value> =
            to_each.map(|test| json!({ "test": test.name.0, "points": others })).collect();
        return output::json(&json!({
            "schema": SCHEMA, "point": config.name, "config": args.config_file(), "tests": tests,
            "to_each_point": to_each,
            "tokens_with_unknown_role": without_role.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
            "http_is_open_to_others": open_to_others.is_some(),
        }));
    }
    let count = match tests {
        0 => "no recurring tests".into(),
        1 => "one recurring test".into(),
        many => format!("{many} recurring tests"),
    };
    let now = match others.len() {
        0 => "none now".into(),
        count => format!("now {count}: {}", others.join(", ")),
    };
    let to_each = config
        .tests_to_each
        .iter()
        .map(|test| format!("\nthe test {} is to each other point of the mesh, {now}", test.name));
    let to_each: String = to_each.collect();
    let unknown_roles: String = without_role
        .iter()
        .map(|(name, role)| format!("\nthe token {name} permits nothing: its role {role} is not in the file"))
        .collect();
    let warning = open_to_others.map_or(String::new(), |http| {
        format!(
            "\nwarning: hosts that reach {} can read results, calendars and metrics without a token; to prevent this, write read = \"token\" in \
             [http], or listen on 127.0.0.1",
            http.listen
        )
    });
    output::text(&format!(
        "{}: no mistakes; point {}, {count}{to_each}{unknown_roles}{warning}",
        args.config_file().display(),
        config.name
    ))
}

/// Reads the configuration again, for a running point. A broken file changes nothing.
fn read_again(file: &Path, reload: &ReloadHandle) {
    match Config::read(file) {
        Ok(config) => {
            reload.reload(config);
            let name = file.display();
            output::note(&format!("longfat: {name} was read again, for its tests, limits and [metrics]"));
        }
        Err(error) => {
            output::note(&format!("longfat: the tests, limits and [metrics] stay as they are: {error}"));
        }
    }
}

/// Runs the point until a signal. SIGHUP lets it read its tests, limits, roles and push of metrics again.
pub fn run(args: &Directory) -> anyhow::Result<()> {
    let config = args.config()?;
    let (stop, reload) = (StopHandle::default(), ReloadHandle::default());
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot install signal handlers")?;
    let (handle, reload_handle, file) = (stop.clone(), reload.clone(), args.config_file());
    let body = move || {
        let mut is_stopping = false;
        for signal in signals.forever() {
            if signal == SIGHUP && !is_stopping {
                read_again(&file, &reload_handle);
                continue;
            }
            if is_stopping {
                std::process::exit(128 + signal);
            }
            is_stopping = true;
            handle.stop();
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(body).context("cannot start a thread")?;
    let name = config.name.clone();
    let on_ready = |address| output::note(&format!("longfat: the point {name} listens on {address}"));
    agent::run_reloadable(config, Arc::new(NoObserver), &stop, &reload, on_ready).map_err(failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_without_a_port_get_the_one_on_which_the_point_listens() {
        for (address, expected) in [
            ("a.example", "a.example:4862"),
            ("a.example:1", "a.example:1"),
            ("192.0.2.1", "192.0.2.1:4862"),
            ("2001:db8::1", "[2001:db8::1]:4862"),
            ("[2001:db8::1]:7", "[2001:db8::1]:7"),
        ] {
            assert_eq!(with_port(address, ANY), expected);
        }
    }
}
