//! Texts of `longfat scenario`.

use std::path::Path;

use experiment::{
    FileSummary,
    built_in::{BuiltIn, Collection},
};

/// The built-in scenarios by collection, a line each.
pub fn list(titled: &[(&BuiltIn, String)]) -> String {
    let width = titled.iter().map(|(one, _)| one.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for collection in Collection::ALL {
        text.push_str(&format!("{}\n", collection.name().to_uppercase()));
        for (one, title) in titled.iter().filter(|(one, _)| one.collection == collection) {
            text.push_str(&format!("  {:width$}  {title}\n", one.name));
        }
        text.push('\n');
    }
    text + "run one: longfat run NAME --engine sim; print it: longfat scenario show NAME\n"
}

/// `lab8.toml: ok: 2 hosts, 2 switches, 3 links, 1 flow, 2 variants (default, tuned), 20 s`.
pub fn valid(path: &Path, summary: &FileSummary) -> String {
    let FileSummary { hosts, switches, routers, links, flows, points, published, .. } = summary;
    let mut parts = vec![counted(*hosts, "host")];
    let optional = [(*switches, "switch"), (*routers, "router")];
    parts.extend(optional.iter().filter(|(n, _)| *n > 0).map(|(n, word)| counted(*n, word)));
    parts.extend([counted(*links, "link"), counted(*flows, "flow")]);
    if !summary.variants.is_empty() {
        let names = summary.variants.join(", ");
        parts.push(format!("{} ({names})", counted(summary.variants.len(), "variant")));
    }
    if *points > 1 {
        parts.push(counted(*points, "sweep point"));
    }
    if *published > 0 {
        parts.push(counted(*published, "published figure"));
    }
    match flows {
        0 => parts.push("cannot be run without flows; for longfat lab up".into()),
        _ => parts.push(format!("{} s", summary.duration_s)),
    }
    format!("{}: ok: {}", path.display(), parts.join(", "))
}

/// The last line if files are invalid.
pub fn invalid(invalid: usize, files: usize) -> String {
    match (invalid, files) {
        (1, 1) => "the scenario file has mistakes".into(),
        (1, _) => format!("1 of {files} scenario files has mistakes"),
        _ => format!("{invalid} of {files} scenario files have mistakes"),
    }
}

fn counted(count: usize, word: &str) -> String {
    let plural = if word.ends_with("ch") { "es" } else { "s" };
    format!("{count} {word}{}", if count == 1 { "" } else { plural })
}
