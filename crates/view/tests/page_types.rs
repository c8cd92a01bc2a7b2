//! Compares the page's types (`web/src/api.ts`) with the server's documents: every field and its type.

use crate::page_site;
use std::collections::BTreeMap;

use page_site::Site;
use serde_json::{Value, json};

/// The fields of each `export interface` of a TypeScript file, and their types as written.
fn interfaces(source: &str) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    let mut open: Option<(String, BTreeMap<String, String>)> = None;
    for line in source.lines() {
        if let Some(rest) = line.strip_prefix("export interface ") {
            open = Some((rest.trim_end_matches(" {").to_owned(), BTreeMap::new()));
        } else if line == "}" {
            found.extend(open.take());
        } else if let (Some((_, fields)), Some((name, kind))) = (&mut open, line.trim().split_once(": ")) {
            fields.insert(name.to_owned(), kind.trim_end_matches(';').to_owned());
        }
    }
    found
}

/// How a value differs from type `kind`; `None` where it conforms.
fn mistake(
    value: &Value,
    kind: &str,
    known: &BTreeMap<String, BTreeMap<String, String>>,
    path: &str,
) -> Option<String> {
    if let Some(kind) = kind.strip_suffix(" | null") {
        return if value.is_null() { None } else { mistake(value, kind, known, path) };
    }
    if let Some(kind) = kind.strip_suffix("[]") {
        let items = value.as_array()?.iter().enumerate();
        return items.filter_map(|(i, item)| mistake(item, kind, known, &format!("{path}[{i}]"))).next();
    }
    let fits = match kind {
        "string" | "Cause" | "PublishedVerdict" => value.is_string(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        _ if kind.starts_with("Record<") => value.is_object(),
        _ if kind.starts_with('[') => value.is_array(),
        name => {
            let Some(fields) = known.get(name) else { return Some(format!("{path}: no interface {name}")) };
            let Some(object) = value.as_object() else { return Some(format!("{path} is no {name}")) };
            let unknown = object
                .keys()
                .find(|key| !fields.contains_key(*key) && !fields.contains_key(&format!("{key}?")));
            if let Some(key) = unknown {
                return Some(format!("{path}: {name} has no {key}"));
            }
            return fields.iter().find_map(|(field, kind)| {
                let optional = field.strip_suffix('?');
                match object.get(optional.unwrap_or(field)) {
                    Some(value) => mistake(value, kind, known, &format!("{path}.{field}")),
                    None if optional.is_some() => None,
                    None => Some(format!("{path}: {name}.{field} is not sent")),
                }
            });
        }
    };
    (!fits).then(|| format!("{path} is {value}, not {kind}"))
}

#[test]
fn the_types_of_the_page_match_the_documents_of_the_server() {
    let source = include_str!("../../../web/src/api.ts");
    let known = interfaces(source);
    let site = Site::start();
    let key = site.key();
    let series = json!({
        "run": key, "from_s": 0, "to_s": 30, "columns": 100, "measures": ["goodput", "cwnd"], "link_measures": ["queue"],
        "trace": ["sent"], "causes": true, "events": true,
    });
    let head = site.series(&series).head;
    for (kind, document) in [
        ("RunList", site.get("/api/runs")),
        ("RunDetail[]", site.post("/api/open", &json!({ "runs": [key] }))),
        ("Vocabulary", site.get("/api/vocabulary")),
        ("SweepDocument[]", site.get("/api/sweeps")),
        ("PublishedRow[]", site.get("/api/published")),
        ("SeriesHead", head),
    ] {
        assert_ne!(document, json!([]), "{kind}: the list is empty");
        assert_eq!(mistake(&document, kind, &known, kind), None);
    }
    // The check itself finds missing fields, unknown fields and wrong types.
    let wrong = json!([{ "scenario": "s", "result": {}, "runs": [] }]);
    assert!(mistake(&wrong, "PublishedRow[]", &known, "x").unwrap().contains("is not sent"));
    assert!(mistake(&json!({ "t": "1" }), "Mark", &known, "x").is_some());
    for (union, names) in [
        ("Cause", schema::Cause::ALL.map(|cause| cause.name()).to_vec()),
        (
            "PublishedVerdict",
            vec![
                "within",
                "differs",
                "contradicted",
                "no_figure",
                "missed",
                "unreliable",
                "untrusted",
                "not_run",
            ],
        ),
    ] {
        let text = source.split(&format!("export type {union} =")).nth(1).unwrap().split(';').next().unwrap();
        let mut found: Vec<&str> =
            text.split('|').map(|name| name.trim().trim_matches('\'')).filter(|n| !n.is_empty()).collect();
        found.sort_unstable();
        let mut names = names;
        names.sort_unstable();
        assert_eq!(found, names, "{union}");
    }
}
