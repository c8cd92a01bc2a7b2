//! Recurring tests of the configuration. They may have several other ends: a list of names, or each other
//! point of the mesh.

use std::{fmt, ops::Range};

use limits::TestRequest;
use reservation::{PointName, Recurrence, Spec, Task, TaskName};
use serde::{
    Deserialize, Deserializer,
    de::{self, SeqAccess, Visitor},
};
use toml::Spanned;
use units::{BitRate, Instant, Time};

use super::mistakes::Mistakes;
use crate::{
    Member, Members,
    archive::EACH,
    test::{Kind, OptionMistake, OtherEnd, ServerService, TestDescription, TestOptions},
};

/// The shortest time between two occurrences of a recurring test.
const MIN_EVERY: Time = Time::from_secs(1);
/// The user for whom recurring tests are reserved.
const RECURRING_USER: &str = "recurring";

/// The other ends of a recurring test in the configuration.
#[derive(Debug)]
pub(super) enum OtherEnds {
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
fn name_to(test: &str, end: &str) -> TaskName {
    TaskName(format!("{test}-{end}"))
}

/// The test to each other point of the mesh. `test` has no other end.
pub(super) fn to_each_point(test: &Task, own: &PointName, members: &Members) -> Vec<Task> {
    let others = members.members.iter().filter(|member| member.name != *own);
    let to = |end: &PointName| Task {
        name: name_to(&test.name.0, &end.0),
        spec: Spec { peer: Some(end.clone()), ..test.spec.clone() },
        ..test.clone()
    };
    others.map(|member| to(&member.name)).collect()
}

/// A recurring test in the configuration.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileTest {
    pub name: Spanned<String>,
    pub to: Spanned<OtherEnds>,
    kind: Spanned<String>,
    duration: Option<Spanned<String>>,
    rate: Option<Spanned<String>>,
    congestion: Option<Spanned<String>>,
    parallel: Option<Spanned<u32>>,
    omit: Option<Spanned<String>>,
    every: Spanned<String>,
    offset: Option<Spanned<String>>,
    slip: Option<Spanned<String>>,
    #[serde(default)]
    random_start: bool,
    #[serde(default)]
    priority: i32,
}

/// The recurring tests of a table of the file: one for each other end that it names; for each other point of
/// the mesh, one without an end. Empty if the table has mistakes.
pub(super) fn tasks(
    own: &PointName,
    test: &FileTest,
    members: Option<&Members>,
    servers: &[ServerService],
    mistakes: &mut Mistakes,
) -> Vec<Task> {
    let before = mistakes.count();
    let ends = other_ends(own, test, members, servers, mistakes);
    let Some((task, description)) = task(own, test, mistakes).filter(|_| mistakes.count() == before) else {
        return Vec::new();
    };
    let has_many = matches!(test.to.get_ref(), OtherEnds::Listed(_));
    let with_end = |(name, end): (&str, OtherEnd)| {
        let (peer, server) = end.into_parts();
        Task {
            name: if has_many { name_to(&task.name.0, name) } else { task.name.clone() },
            spec: Spec { peer, test: description.test(&server), ..task.spec.clone() },
            ..task.clone()
        }
    };
    match test.to.get_ref() {
        OtherEnds::EachPoint => vec![task],
        OtherEnds::One(_) | OtherEnds::Listed(_) => ends.into_iter().map(with_end).collect(),
    }
}

/// The named other ends of a recurring test that can be used.
fn other_ends<'a>(
    own: &PointName,
    test: &'a FileTest,
    members: Option<&Members>,
    servers: &[ServerService],
    mistakes: &mut Mistakes,
) -> Vec<(&'a str, OtherEnd)> {
    let names = match test.to.get_ref() {
        OtherEnds::EachPoint => Vec::new(),
        OtherEnds::One(name) => vec![(name.as_str(), test.to.span())],
        OtherEnds::Listed(names) => {
            if names.is_empty() {
                mistakes.add(test.to.span(), "the list of other ends is empty");
            }
            names.iter().map(|name| (name.get_ref().as_str(), name.span())).collect()
        }
    };
    let kind = test.kind.get_ref().parse::<Kind>().ok();
    let mut ends: Vec<(&str, OtherEnd)> = Vec::new();
    for (name, span) in names {
        if ends.iter().any(|(known, _)| *known == name) {
            mistakes.add(span, format!("{name} is named twice"));
        } else if let Some(end) = other_end(own, name, span, kind, members, servers, mistakes) {
            ends.push((name, end));
        }
    }
    ends
}

/// The other end of this name.
fn other_end(
    own: &PointName,
    name: &str,
    span: Range<usize>,
    kind: Option<Kind>,
    members: Option<&Members>,
    servers: &[ServerService],
    mistakes: &mut Mistakes,
) -> Option<OtherEnd> {
    let to = PointName(name.into());
    let server = kind.map_or(Ok(None), |kind| OtherEnd::of_server(servers, own, own, name, kind));
    let server = server.map_err(|text| mistakes.add(span.clone(), text)).ok()?;
    if server.is_some() {
        return server;
    }
    if to == *own {
        mistakes.add(span, "the other end is this point itself");
        return None;
    }
    if name == EACH {
        let help = "write to = \"*\" instead of the list";
        mistakes.add_help(span, "a list names each other end", help);
        return None;
    }
    if let Some(members) = members
        && members.address(&to).is_none()
    {
        let names: Vec<&str> = members
            .members
            .iter()
            .filter(|Member { name, .. }| name != own)
            .map(|member| member.name.0.as_str())
            .collect();
        let known = if names.is_empty() { "none yet".into() } else { names.join(", ") };
        let help = format!("other points: {known}");
        mistakes.add_help(span, format!("no point of the mesh has the name {name:?}"), help);
        return None;
    }
    Some(OtherEnd::Point(to))
}

/// A recurring test of the file without its other end, and its description.
fn task(own: &PointName, test: &FileTest, mistakes: &mut Mistakes) -> Option<(Task, TestDescription)> {
    let kind = mistakes.parse::<Kind>(&test.kind);
    let duration = test.duration.as_ref().map(|text| mistakes.parse::<Time>(text));
    let rate = test.rate.as_ref().map(|text| mistakes.parse::<BitRate>(text));
    let every = mistakes.parse::<Time>(&test.every);
    let slip = test.slip.as_ref().map(|text| mistakes.parse::<Time>(text));
    let offset = test.offset.as_ref().map(|text| mistakes.parse::<Time>(text));
    if let (Some(text), Some(Some(offset)), Some(every)) = (&test.offset, offset, every)
        && offset >= every
    {
        mistakes.add(text.span(), format!("the offset must be shorter than every = {every}"));
    }
    if every.is_some_and(|every| every < MIN_EVERY) {
        mistakes.add(test.every.span(), format!("the shortest interval of recurring tests is {MIN_EVERY}"));
    }
    let omit = test.omit.as_ref().map(|text| mistakes.parse::<Time>(text));
    let options = TestOptions {
        congestion: test.congestion.as_ref().map(|name| name.get_ref().clone()),
        parallel: test.parallel.as_ref().map_or(1, |streams| *streams.get_ref()),
        omit: omit.unwrap_or(Some(Time::ZERO))?,
    };
    let description = TestDescription {
        kind: kind?,
        duration: duration.unwrap_or(Some(kind?.default_duration()))?,
        rate: rate.unwrap_or(None),
        options,
    };
    let parameters = description.parameters();
    if let Err(text) = parameters.check() {
        mistakes.add(test.kind.span(), text);
    }
    if let Err(OptionMistake { option, text }) = description.options.check(&parameters) {
        let spans = [
            ("congestion", test.congestion.as_ref().map(Spanned::span)),
            ("parallel", test.parallel.as_ref().map(Spanned::span)),
            ("omit", test.omit.as_ref().map(Spanned::span)),
        ];
        let span = spans.into_iter().find(|(name, _)| *name == option).and_then(|(_, span)| span);
        mistakes.add(span.unwrap_or(test.kind.span()), text);
    }
    let every = every?;
    let slip = slip.unwrap_or(Some(every / 2))?;
    let task = Task {
        name: test.name.get_ref().as_str().into(),
        lead: own.clone(),
        spec: Spec {
            peer: None,
            user: Some(format!("{RECURRING_USER}@{own}")),
            test: description.test(""),
            class: parameters.class(),
            priority: test.priority,
            duration: parameters.duration,
            earliest: Instant::ZERO,
            latest: Instant::ZERO,
        },
        // Counted from the epoch: occurrences keep their numbers across restarts, and an hourly test starts
        // at the full hour.
        recurrence: Recurrence {
            first: Instant::ZERO + offset.unwrap_or(Some(Time::ZERO))?,
            every,
            slip,
            random_start: test.random_start,
            until: None,
            max_runs: None,
        },
    };
    Some((task, description))
}

/// The request of a recurring test, as the limits see it.
pub(super) fn test_request(own: &PointName, task: &Task) -> TestRequest {
    TestRequest {
        user: Some(format!("{RECURRING_USER}@{own}")),
        address: None,
        other_end: None,
        is_with_server: false,
        transport: task.spec.test.transport,
        rate: task.spec.test.rate,
        duration: task.spec.duration,
        starts_in: Time::ZERO,
        time_error: Time::ZERO,
        // The point's own tests may displace any tests at this point.
        priority: None,
    }
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
