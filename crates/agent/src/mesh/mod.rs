//! Membership of the mesh: its authority, the points' certificates, invitations, and the list of members.

mod authority;
mod identity;
mod invitation;
mod members;
mod point_name;

pub use authority::Authority;
pub use identity::Identity;
pub(crate) use identity::{CertificateOwner, digest_of, key_digest, server_name};
pub use invitation::Invitation;
pub use members::{Member, Members};
pub use point_name::check_name;
