//! `[[sweeps]]`: fields and their values. Several sweeps are run in every combination, the last sweep
//! changing fastest; sweeps with the same `zip` advance together.

use crate::{
    amount::Amount,
    error::Problems,
    read::{Keys, Reader},
    set::{layer_of, split_path},
    tree::{Node, Span, Table, Value, parse_value},
};

pub(crate) const SWEEP: Keys = Keys {
    what: "a sweep",
    known: &["field", "values", "from", "to", "step", "factor", "zip"],
    nested: None,
};

/// Maximum number of points of the sweeps; catches a mistyped step.
pub const MAX_POINTS: usize = 1000;

/// A field that is swept.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    /// The path as written, as in `links.s1-s2.forward.queue`.
    pub field: String,
    /// The path's span.
    span: Span,
    keys: Vec<String>,
    pub values: Vec<Node>,
    /// Axes of the same name advance together.
    zip: Option<String>,
}

impl Axis {
    /// The layer that sets the field to one of the values.
    pub fn layer(&self, value: &Node) -> Table {
        layer_of(self.keys.clone(), self.span, value.clone())
    }
}

/// A point: the index of each axis's value.
pub(crate) type PointIndices = Vec<usize>;

/// Decodes the sweeps of a file.
pub(crate) fn decode_sweeps(root: &Table, problems: &mut Problems) -> Vec<Axis> {
    let Some(node) = root.get("sweeps") else { return Vec::new() };
    let Some(items) = node.list() else {
        let message = format!("\"sweeps\" is a list of tables, not {}", node.kind());
        problems.add_help(node.span, message, "write [[sweeps]] above each swept field");
        return Vec::new();
    };
    let mut axes: Vec<Axis> = Vec::new();
    for item in items {
        let Some(axis) = decode_axis(item, problems) else { continue };
        if axes.iter().any(|other| other.keys == axis.keys) {
            problems.add(axis.span, format!("\"{}\" is swept twice", axis.field));
        }
        let partner = axes.iter().find(|other| other.zip.is_some() && other.zip == axis.zip);
        if let Some(partner) = partner.filter(|p| p.values.len() != axis.values.len()) {
            let message = format!(
                "{} values, but {} for \"{}\" with the same \"zip\"",
                axis.values.len(),
                partner.values.len(),
                partner.field
            );
            problems.add_help(item.span, message, "give both the same number of values, or another \"zip\"");
        }
        axes.push(axis);
    }
    let points: usize =
        groups(&axes).iter().map(|group| axes[group[0]].values.len()).fold(1, usize::saturating_mul);
    if points > MAX_POINTS {
        let message = format!("the combinations of the sweeps have {points} points");
        problems.add_help(node.span, message, format!("write at most {MAX_POINTS}, or several files"));
        return Vec::new();
    }
    axes
}

fn decode_axis(node: &Node, problems: &mut Problems) -> Option<Axis> {
    let mut reader = Reader::new(node, &SWEEP, problems)?;
    let field = reader.required_text("field", "\"links.s1-s2.forward.queue\"")?;
    let span = reader.node("field")?.span;
    let Some(keys) = split_path(&field) else {
        let help = "write for example flows.bulk.cc, links.s1-s2.forward.loss or hosts.*.mtu";
        reader.report("field", "this is not the path of a setting", help);
        return None;
    };
    let zip = reader.text("zip");
    let values = match reader.node("values") {
        Some(values) => listed(values, &mut reader)?,
        None => ranged(&mut reader)?,
    };
    Some(Axis { field, span, keys, values, zip })
}

/// Decodes `values = [...]`.
fn listed(values: &Node, reader: &mut Reader) -> Option<Vec<Node>> {
    for key in ["from", "to", "step", "factor"] {
        if reader.node(key).is_some() {
            reader.report(
                key,
                format!("\"{key}\" conflicts with \"values\""),
                "write either the values or a range",
            );
            return None;
        }
    }
    match values.list() {
        None => {
            let message = format!("\"values\" is a list, not {}", values.kind());
            reader.report("values", message, "write for example values = [\"100p\", \"1000p\"]");
            None
        }
        Some([]) => {
            reader.report(
                "values",
                "\"values\" is empty",
                "write for example values = [\"100p\", \"1000p\"]",
            );
            None
        }
        Some(items) => Some(items.to_vec()),
    }
}

/// Decodes `from`, `to`, and `step` or `factor`.
fn ranged(reader: &mut Reader) -> Option<Vec<Node>> {
    let from = amount("from", "\"10p\"", reader)?;
    let to = amount("to", "\"1000p\"", reader)?;
    if !from.is_like(to) || to.value < from.value {
        reader.report(
            "to",
            "\"to\" must be at least \"from\" and in the same unit",
            "write both in the same unit",
        );
        return None;
    }
    let values = match (reader.node("step").is_some(), reader.node("factor").is_some()) {
        (true, false) => {
            let step = amount("step", "\"10p\"", reader)?;
            if !(step.is_like(from) && step.value > 0.0) {
                reader.report(
                    "step",
                    "\"step\" must be above zero and in the same unit",
                    "write it in the unit of \"from\"",
                );
                return None;
            }
            steps(from, to, step.value)
        }
        (false, true) => {
            let factor = reader.number("factor", 1.001..=1e6)?;
            if from.value <= 0.0 {
                reader.report(
                    "from",
                    "\"factor\" needs a \"from\" above zero",
                    "write a \"from\" above zero, or \"step\" instead of \"factor\"",
                );
                return None;
            }
            factors(from, to, factor)
        }
        _ => {
            let help = "write for example step = \"10p\" or factor = 2";
            reader.report("from", "a range has either \"step\" or \"factor\"", help);
            return None;
        }
    };
    let Some(values) = values else {
        let help = format!("write at most {MAX_POINTS}, by a larger \"step\" or \"factor\"");
        reader.report("from", format!("more than {MAX_POINTS} values in this range"), help);
        return None;
    };
    let span = reader.node("from")?.span;
    let node =
        |value: Amount| Node { value: parse_value(&value.text(), span.source, span.start).value, span };
    Some(values.into_iter().map(node).collect())
}

fn amount(key: &str, example: &str, reader: &mut Reader) -> Option<Amount> {
    let node = reader.required(key, example)?;
    let found = value_text(node).as_deref().and_then(Amount::parse);
    if found.is_none() {
        reader.report(
            key,
            format!("\"{key}\" is not a number with a unit"),
            format!("write for example {key} = {example}"),
        );
    }
    found
}

/// `from`, `from + step`, ... up to `to`; `None` if these are too many.
fn steps(from: Amount, to: Amount, step: f64) -> Option<Vec<Amount>> {
    // A step without an exact binary representation must not lose the last value.
    let count = ((to.value - from.value) / step + 1e-9).floor();
    (count < MAX_POINTS as f64)
        .then(|| (0..=count as u64).map(|i| from.with(from.value + i as f64 * step)).collect())
}

/// `from`, `from * factor`, ... up to `to`, without values that round to the previous one.
fn factors(from: Amount, to: Amount, factor: f64) -> Option<Vec<Amount>> {
    let mut all: Vec<Amount> = Vec::new();
    let mut value = from.value;
    while value <= to.value * (1.0 + 1e-9) {
        let next = from.with(value);
        if all.last() != Some(&next) {
            all.push(next);
        }
        if all.len() > MAX_POINTS {
            return None;
        }
        value *= factor;
    }
    Some(all)
}

/// A value as text for `--set`; `None` for dates.
pub(crate) fn value_text(node: &Node) -> Option<String> {
    Some(match &node.value {
        // A string that would parse as another type keeps its quotes.
        Value::Text(text) => match parse_value(text, 0, 0).value {
            Value::Text(same) if same == *text => text.clone(),
            _ => toml::Value::String(text.clone()).to_string(),
        },
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => format!("{number:?}"),
        Value::Boolean(yes) => yes.to_string(),
        Value::Table(table) => {
            let entries: Option<Vec<String>> = table
                .0
                .iter()
                .map(|e| Some(format!("{} = {}", toml::Value::String(e.key.clone()), quoted(&e.node)?)))
                .collect();
            format!("{{ {} }}", entries?.join(", "))
        }
        Value::List(items) => {
            let items: Option<Vec<String>> = items.iter().map(quoted).collect();
            format!("[{}]", items?.join(", "))
        }
        Value::Other(_) => return None,
    })
}

/// A value within another, where every string has quotes.
fn quoted(node: &Node) -> Option<String> {
    match &node.value {
        Value::Text(text) => Some(toml::Value::String(text.clone()).to_string()),
        _ => value_text(node),
    }
}

/// All combinations, of which the last group of axes changes fastest. One empty point without axes.
pub(crate) fn combinations(axes: &[Axis]) -> Vec<PointIndices> {
    let groups = groups(axes);
    let mut all: Vec<PointIndices> = vec![vec![0; axes.len()]];
    for group in &groups {
        let values = axes[group[0]].values.len();
        let with = |value: usize, point: &PointIndices| {
            let mut point = point.clone();
            group.iter().for_each(|axis| point[*axis] = value);
            point
        };
        all = all.iter().flat_map(|point| (0..values).map(move |value| with(value, point))).collect();
    }
    all
}

/// The groups of axes that advance together, as indices.
pub(crate) fn groups(axes: &[Axis]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (index, axis) in axes.iter().enumerate() {
        let is_zipped = |group: &&mut Vec<usize>| axis.zip.is_some() && axes[group[0]].zip == axis.zip;
        match groups.iter_mut().find(is_zipped) {
            Some(group) => group.push(index),
            None => groups.push(vec![index]),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::parse_document;

    fn axes(text: &str) -> Vec<Axis> {
        let mut problems = Problems::default();
        let axes = decode_sweeps(&parse_document(text, 0).unwrap(), &mut problems);
        assert!(problems.is_empty(), "{problems:?}");
        axes
    }

    fn values(text: &str) -> Vec<String> {
        axes(&format!("[[sweeps]]\nfield = \"a.b\"\n{text}"))[0].values.iter().flat_map(value_text).collect()
    }

    fn mistake(text: &str) -> String {
        let mut problems = Problems::default();
        decode_sweeps(&parse_document(text, 0).unwrap(), &mut problems);
        problems.first().unwrap_or_default()
    }

    #[test]
    fn ranges() {
        assert_eq!(values("from = '10p'\nto = '35p'\nstep = '10p'"), ["10p", "20p", "30p"]);
        assert_eq!(values("from = 0.1\nto = 0.3\nstep = 0.1"), ["0.1", "0.2", "0.3"]);
        assert_eq!(values("from = '1ms'\nto = '100ms'\nfactor = 10"), ["1ms", "10ms", "100ms"]);
        assert_eq!(values("from = '16KiB'\nto = '1MiB'\nfactor = 4"), ["16KiB", "64KiB", "256KiB", "1MiB"]);
        assert_eq!(values("from = 1\nto = 4\nfactor = 1.3"), ["1", "2", "3", "4"]);
        assert_eq!(values("from = '0.001%'\nto = '0.1%'\nfactor = 10"), ["0.001%", "0.01%", "0.1%"]);
    }

    #[test]
    fn values_keep_their_text() {
        let text = "values = ['20ms', 5, '5', true, 0.5, { name = 'griddt', set = { a = 7 } }]";
        let all = values(text);
        assert_eq!(
            all,
            ["20ms", "5", "\"5\"", "true", "0.5", r#"{ "name" = "griddt", "set" = { "a" = 7 } }"#]
        );
        for text in all {
            assert!(!matches!(parse_value(&text, 0, 0).value, Value::Other(_)), "{text}");
        }
    }

    #[test]
    fn the_last_sweep_changes_fastest_and_zipped_ones_together() {
        let one =
            |field: &str, rest: &str| format!("[[sweeps]]\nfield = '{field}'\nvalues = [1, 2]\n{rest}\n");
        let two = axes(&[one("a.b", ""), one("a.c", "")].concat());
        assert_eq!(combinations(&two), [[0, 0], [0, 1], [1, 0], [1, 1]]);
        let zipped = axes(&[one("a.b", "zip = 'z'"), one("a.c", ""), one("a.d", "zip = 'z'")].concat());
        assert_eq!(combinations(&zipped), [[0, 0, 0], [0, 1, 0], [1, 0, 1], [1, 1, 1]]);
        assert_eq!(combinations(&[]), [PointIndices::new()]);
    }

    #[test]
    fn mistakes() {
        let range = |rest: &str| mistake(&format!("[[sweeps]]\nfield = 'a.b'\n{rest}"));
        assert!(range("from = 0\nto = 1\nfactor = 2").starts_with("\"factor\" needs a \"from\" above zero"));
        assert!(range("from = 1\nto = 1000000\nstep = 1").starts_with("more than 1000 values"));
        assert!(range("from = 1\nto = 2\nstep = 0").starts_with("\"step\" must be above zero"));
        assert!(range("from = 1\nto = 2\nfactor = 1").starts_with("\"factor\" cannot be 1"));
        assert!(
            range("from = '1ms'\nto = '1MB'\nfactor = 2").starts_with("\"to\" must be at least \"from\"")
        );
        assert!(range("from = 1\nto = 2").starts_with("a range has either"));
        assert!(range("values = []").starts_with("\"values\" is empty"));
        assert!(range("values = [1]\nstep = 1").starts_with("\"step\" conflicts with \"values\""));
        assert!(range("").starts_with("a sweep needs \"from\""));
        let hundred = "values = [0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31]";
        let two = format!("[[sweeps]]\nfield = 'a.b'\n{hundred}\n[[sweeps]]\nfield = 'a.c'\n{hundred}\n");
        assert!(mistake(&two).starts_with("the combinations of the sweeps have 1024 points"));
        assert!(mistake("[[sweeps]]\nfield = 'a..b'\nvalues = [1]").starts_with("this is not the path"));
        let zip =
            "[[sweeps]]\nfield='a.b'\nvalues=[1]\nzip='z'\n[[sweeps]]\nfield='a.c'\nvalues=[1,2]\nzip='z'\n";
        assert!(mistake(zip).starts_with("2 values, but 1 for \"a.b\""));
    }
}
