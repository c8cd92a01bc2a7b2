//! The mesh, as a point sees it.

use std::path::Path;

use super::MeshDocument;
use crate::{Client, Error, Members, Status, archive::Archive};

/// The mesh, as the running agent with this state directory sees it.
///
/// # Errors
/// If the agent does not run, or its archive cannot be read.
pub fn known_mesh(state: &Path) -> Result<MeshDocument, Error> {
    let status = Client::new(state).status()?;
    mesh_document(state, &status, &Archive::of_point(state)?)
}

/// The mesh as the results in an archive show it.
pub(crate) fn mesh_document(state: &Path, status: &Status, archive: &Archive) -> Result<MeshDocument, Error> {
    let now_us = i64::try_from(os::realtime().as_micros()).unwrap_or(i64::MAX);
    // The acknowledgements and mutes of this point: each point sends its own alerts.
    let attention = Archive::of_point(state)?.attention()?;
    Ok(MeshDocument::new(status, &Members::open(state)?, archive.pairs()?, &attention, now_us))
}
