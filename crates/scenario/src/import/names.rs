//! Converts names to valid ones: letters, digits, `_` and `-`, and short enough for a device's name.

/// A valid name similar to `wanted`, at most `max` characters long and not in `taken`.
pub fn allowed_name(requested: &str, max: usize, taken: &[String]) -> String {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let plain: String = requested.chars().map(|c| if is_valid(c) { c } else { '_' }).collect();
    let plain = plain.trim_start_matches('-');
    let plain = if plain.is_empty() { "node" } else { plain };
    let short = &plain[..plain.len().min(max)];
    if !taken.iter().any(|t| t == short) && short != "names" {
        return short.to_owned();
    }
    let with = |n: usize| {
        let number = n.to_string();
        format!("{}{number}", &plain[..plain.len().min(max.saturating_sub(number.len()))])
    };
    (2..).map(with).find(|name| !taken.contains(name)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_valid_short_and_unique() {
        let taken = ["h1".to_owned(), "a_very_lon".to_owned()];
        for (requested, name) in [
            ("h2", "h2"),
            ("h1", "h12"),
            ("my host", "my_host"),
            ("a very long name", "a_very_lo2"),
            ("-x", "x"),
            ("--", "node"),
            ("zürich", "z_rich"),
            ("names", "names2"),
        ] {
            assert_eq!(allowed_name(requested, 10, &taken), name);
        }
    }
}
