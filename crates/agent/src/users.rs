//! The users of this machine.

use std::fs;

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
