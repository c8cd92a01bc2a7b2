//! The users of this machine.

use std::fs;

/// A user of this machine who has connected to the control socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LocalUser {
    /// The login name.
    pub name: String,
    /// Whether it is root, or the user who runs the agent.
    pub is_owner: bool,
}

impl LocalUser {
    /// The user with this id.
    pub fn of(uid: u32) -> Self {
        LocalUser { name: user_name(uid), is_owner: uid == 0 || uid == os::effective_ids().0 }
    }
}

/// The login name of a user id, by passwd(5).
pub(crate) fn user_name(uid: u32) -> String {
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _, id) = (fields.next()?, fields.next()?, fields.next()?);
        (id.parse() == Ok(uid)).then_some(name)
    });
    name.map_or(format!("uid-{uid}"), str::to_owned)
}
