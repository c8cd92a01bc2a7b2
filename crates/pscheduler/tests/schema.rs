//! The schemas of pScheduler's documents, as far as these tests need them, and a check against them.
//!
//! They are written from the developer's guide and the tests' descriptions, in the subset of JSON Schema that
//! [`mistakes`] knows: `type`, `enum`, `required`, `properties`, `additionalProperties`, `items`, `minimum`,
//! `maximum`. A `format` of our own, `duration`, is that of pScheduler's durations.

use serde_json::{Value, json};

/// What `enumerate` prints.
pub fn enumeration() -> Value {
    json!({
        "type": "object",
        "required": ["name", "description", "version", "tests", "preference", "maintainer"],
        "additionalProperties": false,
        "properties": {
            "schema": cardinal(),
            "name": { "type": "string" },
            "description": { "type": "string" },
            "version": { "type": "string" },
            "tests": { "type": "array", "items": { "type": "string" } },
            "preference": { "type": "integer" },
            "maintainer": {
                "type": "object",
                "required": ["name"],
                "additionalProperties": false,
                "properties": {
                    "name": { "type": "string" }, "email": { "type": "string" }, "href": { "type": "string" },
                },
            },
        },
    })
}

/// What `run` prints.
pub fn participant_result() -> Value {
    json!({
        "type": "object",
        "required": ["succeeded", "diags", "error", "result"],
        "properties": {
            "schema": { "type": "integer", "enum": [1] },
            "succeeded": { "type": "boolean" },
            "diags": { "type": ["string", "null"] },
            "error": { "type": ["string", "null"] },
            "result": { "type": ["object", "null"] },
        },
    })
}

/// The result of a throughput test.
pub fn throughput_result() -> Value {
    let figures = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "throughput-bits": { "type": "number" },
            "throughput-bytes": { "type": "number" },
            "receiver-throughput-bits": { "type": "number" },
            "sent": { "type": ["integer", "null"] },
            "lost": { "type": ["integer", "null"] },
            "jitter": { "type": ["number", "null"] },
            "stream-id": { "type": ["string", "integer"] },
            "start": { "type": "number" },
            "end": { "type": "number" },
            "rtt": { "type": ["number", "null"] },
            "tcp-window-size": { "type": ["integer", "null"] },
            "retransmits": { "type": ["integer", "null"] },
            "omitted": { "type": "boolean" },
        },
    });
    let both = json!({
        "type": "object",
        "properties": { "streams": { "type": "array", "items": figures }, "summary": figures },
    });
    json!({
        "type": "object",
        "required": ["succeeded", "diags", "intervals", "summary"],
        "additionalProperties": false,
        "properties": {
            "schema": cardinal(),
            "succeeded": { "type": "boolean" },
            "error": { "type": "string" },
            "diags": { "type": "string" },
            "mss": { "type": "integer" },
            "mtu": { "type": "integer" },
            "tcp-window-size": { "type": "integer" },
            "requested-tcp-window-size": { "type": "integer" },
            "intervals": { "type": "array", "items": both },
            "summary": both,
        },
    })
}

/// The result of a test of round-trip times.
pub fn rtt_result() -> Value {
    let (count, duration) =
        (json!({ "type": "integer", "minimum": 0 }), json!({ "type": "string", "format": "duration" }));
    json!({
        "type": "object",
        "required": ["succeeded", "roundtrips", "loss"],
        "properties": {
            "schema": cardinal(),
            "succeeded": { "type": "boolean" },
            "error": { "type": "string" },
            "diags": { "type": "string" },
            "roundtrips": { "type": "array", "items": {
                "type": "object",
                "properties": {
                    "ip": { "type": "string" }, "length": cardinal(), "rtt": duration, "ttl": cardinal(), "seq": cardinal(),
                },
            } },
            "sent": cardinal(),
            "received": count, "lost": count, "reorders": count, "duplicates": count,
            "loss": { "type": "number", "minimum": 0, "maximum": 1 },
            "min": duration, "max": duration, "mean": duration, "stddev": duration,
        },
    })
}

fn cardinal() -> Value {
    json!({ "type": "integer", "minimum": 1 })
}

/// Where a document differs from a schema.
pub fn mistakes(document: &Value, schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(document, schema, "", &mut found);
    found
}

fn check(value: &Value, schema: &Value, at: &str, found: &mut Vec<String>) {
    let mut add = |text: String| found.push(format!("{at}: {text}"));
    let types = match &schema["type"] {
        Value::Array(types) => types.clone(),
        one => vec![one.clone()],
    };
    if !types.iter().any(|kind| is_of(value, kind.as_str().unwrap_or_default())) {
        return add(format!("{value} is none of {types:?}"));
    }
    if let Some(allowed) = schema["enum"].as_array().filter(|allowed| !allowed.contains(value)) {
        add(format!("{value} is none of {allowed:?}"));
    }
    if let (Some(number), Some(minimum)) = (value.as_f64(), schema["minimum"].as_f64())
        && number < minimum
    {
        add(format!("{number} is less than {minimum}"));
    }
    if let (Some(number), Some(maximum)) = (value.as_f64(), schema["maximum"].as_f64())
        && number > maximum
    {
        add(format!("{number} is more than {maximum}"));
    }
    if schema["format"] == "duration" && !is_duration(value.as_str().unwrap_or_default()) {
        add(format!("{value} is not a duration"));
    }
    let properties = schema["properties"].as_object();
    if let Some(object) = value.as_object() {
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !object.contains_key(name) {
                add(format!("{name} is missing"));
            }
        }
        for (name, member) in object {
            match properties.and_then(|properties| properties.get(name)) {
                Some(schema) => check(member, schema, &format!("{at}/{name}"), found),
                None if schema["additionalProperties"] == false => {
                    found.push(format!("{at}: {name} is unknown"))
                }
                None => {}
            }
        }
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        check(item, &schema["items"], &format!("{at}/{index}"), found);
    }
}

fn is_of(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => false,
    }
}

fn is_duration(text: &str) -> bool {
    let seconds = text.strip_prefix("PT").and_then(|text| text.strip_suffix('S'));
    seconds.is_some_and(|seconds| {
        seconds.chars().all(|c| c.is_ascii_digit() || c == '.') && seconds.parse::<f64>().is_ok()
    })
}

#[test]
fn the_check_finds_each_kind_of_mistake() {
    let valid = json!({ "schema": 1, "succeeded": true, "roundtrips": [{ "seq": 1, "rtt": "PT0.01S" }], "loss": 0.5 });
    assert_eq!(mistakes(&valid, &rtt_result()), Vec::<String>::new());
    for (member, wrong) in [
        ("succeeded", json!("yes")),
        ("loss", json!(1.5)),
        ("sent", json!(0)),
        ("roundtrips", json!([{ "seq": 0 }])),
        ("min", json!("10 ms")),
    ] {
        let mut invalid = valid.clone();
        invalid[member] = wrong;
        assert_eq!(mistakes(&invalid, &rtt_result()).len(), 1, "{member}");
    }
    assert_eq!(mistakes(&json!({ "succeeded": true }), &rtt_result()).len(), 2);
    let other = json!({ "succeeded": true, "diags": "", "intervals": [], "summary": { "streams": [{ "speed": 1 }] } });
    assert_eq!(mistakes(&other, &throughput_result()), ["/summary/streams/0: speed is unknown"]);
}
