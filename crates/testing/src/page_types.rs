//! Compares the types of the page (TypeScript) with the documents of a server: every field and its type.

use std::collections::BTreeMap;

use serde_json::Value;

/// The fields of each `export interface` of a TypeScript file, and their types as written.
pub fn interfaces(source: &str) -> BTreeMap<String, BTreeMap<String, String>> {
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

/// Describes how a value differs from the type `kind`; `None` if it conforms.
pub fn mistake(
    value: &Value,
    kind: &str,
    known: &BTreeMap<String, BTreeMap<String, String>>,
    path: &str,
) -> Option<String> {
    if let Some(kind) = kind.strip_suffix(" | null") {
        return if value.is_null() { None } else { mistake(value, kind, known, path) };
    }
    if let Some(kind) = kind.strip_suffix("[]") {
        let Some(items) = value.as_array() else { return Some(format!("{path} is {value}, not a list")) };
        return items
            .iter()
            .enumerate()
            .filter_map(|(i, item)| mistake(item, kind, known, &format!("{path}[{i}]")))
            .next();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_should_be_a_list_is_reported() {
        let known = interfaces("export interface Page {\n  runs: number[];\n}\n");
        let of = |document: &str| mistake(&serde_json::from_str(document).unwrap(), "Page", &known, "page");
        assert_eq!(of(r#"{"runs":[1,2]}"#), None);
        assert_eq!(of(r#"{"runs":[1,"2"]}"#), Some("page.runs[1] is \"2\", not number".into()));
        assert_eq!(of(r#"{"runs":3}"#), Some("page.runs is 3, not a list".into()));
    }
}
