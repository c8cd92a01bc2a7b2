//! Membership of the mesh: its authority, the points' certificates, invitations, and the list of members with
//! what each announces.

mod announcement;
mod authority;
mod identity;
mod invitation;
mod members;
mod point_name;

pub use announcement::{Allowance, Announcement, Coordinates, Place};
pub(crate) use announcement::{MAX_NETWORKS, UDP, check_network, check_text};
pub use authority::Authority;
pub use identity::Identity;
pub(crate) use identity::{CertificateOwner, digest_of, key_digest, server_name};
pub use invitation::Invitation;
pub use members::{Member, Members};
pub use point_name::check_name;
