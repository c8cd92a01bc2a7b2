//! The directory of the mesh: what each point announces about itself, and how points are found.
//!
//! Announcements are part of the list of members, which the authority sends to all points, so that each point can search the whole directory.

mod announcement;
mod lookup;
mod perfsonar;

pub use announcement::{Allowance, Announcement, Coordinates, Place};
pub(crate) use announcement::{MAX_NETWORKS, check_network, check_text};
pub use lookup::{DirectoryDocument, DirectoryPoint, Lookup, LookupTexts, NearestHop};
pub use perfsonar::perfsonar_hosts;
