//! Changes single values of a link's direction, as `longfat lab` does in a running lab.

use std::collections::BTreeMap;

use net::PipeSpec;

use crate::{
    decode_direction::{decode_direction, overlay_direction},
    error::Problems,
    print_pipe::{Detail, inline},
    trace_file::{Files, no_files},
    tree::{Entry, Node, Span, Table, Value, parse_document, parse_value},
};

const NOWHERE: Span = Span { source: 0, start: 0, end: 0 };

/// `base` with new values for these keys of the scenario file. The value `none` removes a key.
///
/// ```
/// let slow = scenario::change_direction(&net::PipeSpec::default(), &[("delay", "50ms")]).unwrap();
/// assert_eq!(slow.delay, units::Time::from_millis(50));
/// assert!(scenario::change_direction(&slow, &[("dealy", "50ms")]).is_err());
/// ```
///
/// # Errors
/// The first mistake in a key or value, in one line.
pub fn change_direction(base: &PipeSpec, changes: &[(&str, &str)]) -> Result<PipeSpec, String> {
    let text = format!("direction = {}", inline(base, Detail::NonDefault));
    let mut tree = parse_document(&text, 0).map_err(|(why, _)| why)?;
    let node = tree.get_mut("direction").ok_or("no direction")?;
    let mut top = Table::default();
    for (key, value) in changes {
        if *value == "none" {
            node.table_mut().ok_or("no direction")?.remove(key);
        } else {
            let node = parse_value(value, 0, 0);
            top.overlay_entry(Entry { key: (*key).into(), key_span: NOWHERE, node });
        }
    }
    overlay_direction(node, Node { span: NOWHERE, value: Value::Table(top) });
    let mut problems = Problems::default();
    let changed = decode_direction(node, &Files::new(&no_files, BTreeMap::new()), &mut problems);
    match problems.first() {
        Some(problem) => Err(problem),
        None => Ok(changed),
    }
}

/// A direction as scenario file keys on one line.
pub fn describe_direction(direction: &PipeSpec) -> String {
    let text = inline(direction, Detail::NonDefault);
    text.trim_start_matches("{ ").trim_end_matches(" }").to_owned()
}
