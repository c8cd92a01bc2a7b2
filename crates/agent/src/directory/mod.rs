//! The directory of the mesh: finds points by their announcements.
//!
//! Announcements are part of the list of members, which the authority sends to all points, so that each point
//! can search the whole directory.

mod lookup;
mod perfsonar;

pub use lookup::{DirectoryDocument, DirectoryPoint, Lookup, LookupTexts, NearestHop};
pub use perfsonar::perfsonar_hosts;
