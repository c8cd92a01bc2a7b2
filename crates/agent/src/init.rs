//! Creates a mesh, or joins one: writes the files of a new point.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use crate::{Authority, Error, Identity, Invitation, JoinRequest, Members, files, join, template};

/// The name of the configuration in a point's directory.
pub const CONFIG_FILE: &str = "agent.toml";

/// Writes configuration and limits, and creates a mesh with this point as its authority. Returns the path of
/// the configuration.
///
/// # Errors
/// If a file cannot be written, or exists already.
pub fn create_mesh(
    directory: &Path,
    name: &str,
    listen: SocketAddr,
    address: &str,
) -> Result<PathBuf, Error> {
    check_absent(directory)?;
    let state = directory.join("state");
    files::create_directory(&state)?;
    Authority::create(&state, name)?;
    Members::of_one(name.into(), address).write(&state)?;
    write_files(directory, name, listen, address)
}

/// Joins a mesh: redeems the invitation, and writes configuration and limits. Returns the path of the
/// configuration.
///
/// # Errors
/// If the authority cannot be reached or refuses, or a file cannot be written or exists already.
pub fn join_mesh(directory: &Path, invitation: &Invitation, request: &JoinRequest) -> Result<PathBuf, Error> {
    check_absent(directory)?;
    let state = directory.join("state");
    files::create_directory(&state)?;
    let members = join(invitation, request, &state)?;
    let address = members.address(&invitation.name.as_str().into()).unwrap_or_default().to_owned();
    write_files(directory, &invitation.name, request.listen, &address)
}

fn check_absent(directory: &Path) -> Result<(), Error> {
    let config = directory.join(CONFIG_FILE);
    if config.exists() || Identity::exists(&directory.join("state")) {
        return Err(Error::Refused(format!(
            "{} already contains the files of a point; name another directory with --dir",
            directory.display()
        )));
    }
    Ok(())
}

fn write_files(directory: &Path, name: &str, listen: SocketAddr, address: &str) -> Result<PathBuf, Error> {
    let (config, limits) = (directory.join(CONFIG_FILE), directory.join("limits.toml"));
    if !limits.exists() {
        files::create(&limits, template::limits().as_bytes())?;
    }
    files::create(&config, template::config(name, &listen.to_string(), address).as_bytes())?;
    Ok(config)
}
