//! The tables of roles.

use limits::Limits;
use reservation::PointName;
use serde::Deserialize;
use toml::Spanned;

use super::mistakes::Mistakes;
use crate::{Members, Role, Roles, Scope, mesh::check_name, tokens};

/// A role as the file has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileRole {
    name: Spanned<String>,
    may: Vec<Spanned<String>>,
    limits: Option<Spanned<String>>,
    #[serde(default)]
    users: Vec<Spanned<String>>,
    #[serde(default)]
    points: Vec<Spanned<String>>,
}

/// The roles of the file. Classes and points are checked if they are known.
pub(super) fn read_roles(
    files: &[FileRole],
    own: &PointName,
    members: Option<&Members>,
    limits: Option<&Limits>,
    mistakes: &mut Mistakes,
) -> Roles {
    let mut roles = Roles::default();
    for file in files {
        let name = file.name.get_ref();
        if check_name(name).is_err() {
            let help = "1 to 32 characters of a-z, 0-9 and \"-\", not beginning or ending with \"-\"";
            mistakes.add_help(file.name.span(), format!("{name:?} is not a valid name of a role"), help);
        }
        let scopes = file.may.iter().filter_map(|scope| mistakes.parse::<Scope>(scope)).collect();
        let class = file.limits.as_ref();
        if let (Some(class), Some(limits)) = (class, limits)
            && !limits.has_class(class.get_ref())
        {
            let text = format!("the limits have no class {:?}", class.get_ref());
            mistakes.add_help(class.span(), text, "its table is [classes.NAME] in the limits file");
        }
        let class = class.map(|class| class.get_ref().clone());
        if !roles.add(Role { name: name.clone(), scopes, class }) {
            mistakes.add(file.name.span(), format!("two roles have the name {name:?}"));
        }
        let is_known = |point: &PointName| members.is_none_or(|members| members.address(point).is_some());
        for user in &file.users {
            if let Err((text, help)) = check_user(user.get_ref(), own, is_known) {
                mistakes.add_help(user.span(), text, help);
            } else if !roles.give_to_user(user.get_ref(), name) {
                mistakes.add(user.span(), format!("{} has two roles", user.get_ref()));
            }
        }
        for point in &file.points {
            let (at, point) = (point.span(), PointName(point.get_ref().clone()));
            if point == *own || !is_known(&point) {
                mistakes.add(at, format!("{point} is not another point of the mesh"));
            } else if !roles.give_to_point(&point, name) {
                mistakes.add(at, format!("{point} has two roles"));
            }
        }
    }
    roles
}

/// Checks a user of a role; the error has the mistake and the help.
fn check_user(
    user: &str,
    own: &PointName,
    is_known: impl Fn(&PointName) -> bool,
) -> Result<(), (String, String)> {
    let parts = user.rsplit_once('@').filter(|(login, _)| !login.is_empty());
    let Some((login, point)) = parts else {
        let help = "the form is NAME@POINT, as in alice@b; all users of another point: points = [\"b\"]";
        return Err((format!("{user:?} is not a user"), help.into()));
    };
    let point = PointName(point.into());
    if point != *own && !is_known(&point) {
        let help = "a user is NAME@POINT";
        return Err((format!("{point} is not a point of the mesh"), help.into()));
    }
    if point == *own && tokens::is_program(login) {
        let help = "longfat agent token create NAME --role ROLE";
        return Err(("a token of this point gets its role when it is created".into(), help.into()));
    }
    Ok(())
}
