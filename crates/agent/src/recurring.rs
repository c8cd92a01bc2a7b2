//! Recurring tests with several other ends: a list of names, or each other point of the mesh.

use std::fmt;

use reservation::{PointName, Spec, Task, TaskName};
use serde::{
    Deserialize, Deserializer,
    de::{self, SeqAccess, Visitor},
};
use toml::Spanned;

use crate::{Members, archive::EACH};

/// The other ends of a recurring test in the configuration.
#[derive(Debug)]
pub(crate) enum OtherEnds {
    /// One point or server.
    One(String),
    /// These points and servers.
    Listed(Vec<Spanned<String>>),
    /// Each other point of the mesh, as it is now and later.
    EachPoint,
}

impl<'de> Deserialize<'de> for OtherEnds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OtherEndsVisitor)
    }
}

struct OtherEndsVisitor;

impl<'de> Visitor<'de> for OtherEndsVisitor {
    type Value = OtherEnds;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name, a list of names, or \"*\" for each other point of the mesh")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<OtherEnds, E> {
        Ok(if name == EACH { OtherEnds::EachPoint } else { OtherEnds::One(name.into()) })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<OtherEnds, A::Error> {
        let mut listed = Vec::new();
        while let Some(name) = names.next_element()? {
            listed.push(name);
        }
        Ok(OtherEnds::Listed(listed))
    }
}

/// The name of a test to one of several other ends.
pub(crate) fn name_to(test: &str, end: &str) -> TaskName {
    TaskName(format!("{test}-{end}"))
}

/// The test to each other point of the mesh. `test` has no other end.
pub(crate) fn to_each_point(test: &Task, own: &PointName, members: &Members) -> Vec<Task> {
    let others = members.members.iter().filter(|member| member.name != *own);
    let to = |end: &PointName| Task {
        name: name_to(&test.name.0, &end.0),
        spec: Spec { peer: Some(end.clone()), ..test.spec.clone() },
        ..test.clone()
    };
    others.map(|member| to(&member.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Table {
        to: Spanned<OtherEnds>,
    }

    #[test]
    fn ends_are_a_name_a_list_or_each_point() {
        let to = |text: &str| toml::from_str::<Table>(text).map(|table| table.to.into_inner());
        assert!(matches!(to("to = \"b\""), Ok(OtherEnds::One(name)) if name == "b"));
        assert!(matches!(to("to = \"*\""), Ok(OtherEnds::EachPoint)));
        let Ok(OtherEnds::Listed(names)) = to("to = [\"b\", \"c\"]") else { panic!("no list") };
        // Mistakes are shown at the name.
        let names: Vec<_> = names.iter().map(|name| (name.get_ref().as_str(), name.span())).collect();
        assert_eq!(names, [("b", 6..9), ("c", 11..14)]);
        let error = to("to = 3").unwrap_err();
        assert!(error.message().contains("a name, a list of names, or \"*\""), "{error}");
    }
}
