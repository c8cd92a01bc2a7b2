//! Roles: named sets of scopes for users, for points of the mesh, and for programs with tokens.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use limits::AssignedRole;
use reservation::PointName;

use crate::{
    Scope, TokenEntry,
    tokens::{scope_names, user_of},
};

/// A named set of scopes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Role {
    /// Its name.
    pub name: String,
    /// What it permits.
    pub scopes: BTreeSet<Scope>,
    /// The class of the limits that its requests belong to; `None`: the one that they have without it.
    pub class: Option<String>,
}

impl Role {
    /// A role that is not in the configuration: it permits nothing.
    fn unknown(name: &str) -> Role {
        Role { name: name.into(), scopes: BTreeSet::new(), class: None }
    }

    fn assigned(&self) -> AssignedRole {
        AssignedRole {
            name: self.name.clone(),
            may_reserve: self.scopes.contains(&Scope::Reserve),
            scopes: scope_names(&self.scopes),
            class: self.class.clone(),
        }
    }
}

/// The roles of a point, and who has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roles {
    roles: BTreeMap<String, Role>,
    /// The role of each user, as in `alice@b`.
    users: BTreeMap<String, String>,
    /// The role of each point.
    points: BTreeMap<PointName, String>,
}

impl Roles {
    /// Adds a role; returns `false` if there is one of this name.
    pub(crate) fn add(&mut self, role: Role) -> bool {
        self.roles.insert(role.name.clone(), role).is_none()
    }

    /// Gives a role to a user; returns `false` if the user had one.
    pub(crate) fn give_to_user(&mut self, user: &str, role: &str) -> bool {
        self.users.insert(user.into(), role.into()).is_none()
    }

    /// Gives a role to a point; returns `false` if the point had one.
    pub(crate) fn give_to_point(&mut self, point: &PointName, role: &str) -> bool {
        self.points.insert(point.clone(), role.into()).is_none()
    }

    /// The role of this name.
    pub fn get(&self, name: &str) -> Option<&Role> {
        self.roles.get(name)
    }

    /// The names of all roles.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.roles.keys().map(String::as_str)
    }

    /// The role of a user.
    pub(crate) fn of_user(&self, user: &str) -> Option<&Role> {
        self.get(self.users.get(user)?)
    }

    /// Whether users of this point have roles.
    pub(crate) fn has_users_of(&self, point: &PointName) -> bool {
        self.users.keys().any(|user| user.rsplit_once('@').is_some_and(|(_, of)| of == point.0))
    }

    /// What a point may request of this one.
    pub(crate) fn grant_of_point(&self, point: &PointName) -> Grant {
        let role = self.points.get(point).and_then(|name| self.get(name));
        role.map_or(Grant::All, |role| Grant::Role(role.clone()))
    }

    /// What a token permits. A role that the configuration does not have permits nothing.
    pub(crate) fn grant_of_token(&self, token: &TokenEntry) -> Grant {
        match &token.role {
            Some(name) => Grant::Role(self.get(name).cloned().unwrap_or_else(|| Role::unknown(name))),
            None => Grant::Scopes(token.scopes.iter().copied().collect()),
        }
    }

    /// The roles of users, points and the tokens of the point `own`, for its limits.
    pub fn assigned(
        &self,
        own: &PointName,
        tokens: &BTreeMap<String, TokenEntry>,
    ) -> BTreeMap<String, AssignedRole> {
        let users = self.users.iter().map(|(user, role)| (user.clone(), role));
        let points = self.points.iter().map(|(point, role)| (format!("@{point}"), role));
        let with_role = tokens.iter().filter_map(|(name, entry)| Some((name, entry.role.as_ref()?)));
        let programs = with_role.map(|(name, role)| (format!("{}@{own}", user_of(name)), role));
        let assigned = |(to, role): (String, &String)| {
            let role = self.get(role).map_or_else(|| Role::unknown(role).assigned(), Role::assigned);
            (to, role)
        };
        users.chain(points).chain(programs).map(assigned).collect()
    }
}

/// What a requester may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Grant {
    /// Everything: the owner of the point, and points of the mesh, without a role.
    All,
    /// The scopes of a token.
    Scopes(BTreeSet<Scope>),
    /// Those of a role.
    Role(Role),
}

impl Grant {
    /// Whether it permits requests of this scope.
    pub fn permits(&self, scope: Scope) -> bool {
        match self {
            Grant::All => true,
            Grant::Scopes(scopes) => scopes.contains(&scope),
            Grant::Role(role) => role.scopes.contains(&scope),
        }
    }

    /// Checks that it permits one of these scopes; else the error names the role.
    pub fn check(&self, scopes: &[Scope]) -> Result<(), String> {
        if scopes.iter().any(|scope| self.permits(*scope)) {
            return Ok(());
        }
        let wanted: Vec<&str> = scopes.iter().map(|scope| scope.name()).collect();
        let wanted = wanted.join(" or ");
        Err(match self {
            Grant::Role(role) => {
                let (name, scopes) = (&role.name, scope_names(&role.scopes));
                format!("refused by role {name}: {wanted} is not among its scopes ({scopes})")
            }
            Grant::All | Grant::Scopes(_) => format!("the token lacks the scope {wanted}"),
        })
    }

    /// The name of the role.
    pub fn role(&self) -> Option<&str> {
        match self {
            Grant::Role(role) => Some(&role.name),
            Grant::All | Grant::Scopes(_) => None,
        }
    }
}

/// The present roles of a running agent, for its loop and its HTTP interface.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedRoles(Arc<Mutex<Arc<Roles>>>);

impl SharedRoles {
    pub fn get(&self) -> Arc<Roles> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn set(&self, roles: Roles) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(roles);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roles() -> Roles {
        let mut roles = Roles::default();
        let testers = [Scope::Read, Scope::Reserve];
        for (name, scopes) in [("readers", &testers[..1]), ("testers", &testers[..])] {
            let role = Role { name: name.into(), scopes: scopes.iter().copied().collect(), class: None };
            assert!(roles.add(role));
        }
        assert!(roles.give_to_user("alice@a", "readers"));
        assert!(roles.give_to_point(&"b".into(), "testers"));
        roles
    }

    #[test]
    fn a_role_permits_its_scopes_and_a_refusal_names_it() {
        let roles = roles();
        for role in ["readers", "testers"] {
            let role = roles.get(role).unwrap();
            let grant = Grant::Role(role.clone());
            for scope in Scope::ALL {
                assert_eq!(grant.permits(scope), role.scopes.contains(&scope), "{role:?} {scope}");
                assert_eq!(grant.check(&[scope]).is_ok(), role.scopes.contains(&scope), "{role:?} {scope}");
            }
        }
        let readers = Grant::Role(roles.of_user("alice@a").unwrap().clone());
        assert_eq!(
            readers.check(&[Scope::Reserve, Scope::Cancel]).unwrap_err(),
            "refused by role readers: reserve or cancel is not among its scopes (read)"
        );
        assert_eq!(roles.of_user("bob@a"), None);
        assert!(Scope::ALL.iter().all(|scope| Grant::All.permits(*scope)));
        let token = Grant::Scopes([Scope::Report].into());
        assert_eq!(token.check(&[Scope::Alerts]).unwrap_err(), "the token lacks the scope alerts");
    }

    #[test]
    fn points_without_a_role_may_do_everything() {
        let roles = roles();
        assert_eq!(roles.grant_of_point(&"b".into()).role(), Some("testers"));
        assert_eq!(roles.grant_of_point(&"c".into()), Grant::All);
        assert!(roles.has_users_of(&"a".into()) && !roles.has_users_of(&"b".into()));
    }
}
