//! Ids of records: time, engine, variant and repeat.

/// The id of a new run, as in `20261121T031500Z-lab-tuned-r2`: sorts by time and is safe as a file name.
///
/// `now_utc` is the compact UTC time `20261121T031500Z`. The first repeat has no `-r1`.
/// [`crate::Writer::create`] makes the id unique: it appends `-2` and so on where the id is taken.
pub fn new_id(now_utc: &str, engine: &str, variant: Option<&str>, repeat: u32) -> String {
    let mut id = format!("{}-{}", file_name(now_utc), file_name(engine));
    if let Some(variant) = variant {
        id.push('-');
        id.push_str(&file_name(variant));
    }
    if repeat > 1 {
        id.push_str(&format!("-r{repeat}"));
    }
    id
}

/// `text` with everything that is not a letter, digit, `-`, `_` or inner `.` replaced, at most 80 bytes.
pub(crate) fn file_name(text: &str) -> String {
    let mut name: String = text
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' })
        .take(80)
        .collect();
    if name.starts_with('.') {
        name.replace_range(..1, "_");
    }
    if name.is_empty() { "unnamed".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_time_engine_variant_and_repeat() {
        assert_eq!(new_id("20261121T031500Z", "lab", Some("tuned"), 1), "20261121T031500Z-lab-tuned");
        assert_eq!(new_id("20261121T031500Z", "model", None, 3), "20261121T031500Z-model-r3");
    }

    #[test]
    fn names_cannot_leave_their_directory_or_begin_with_a_dot() {
        assert_eq!(file_name("../../etc/passwd"), "_._.._etc_passwd");
        assert!(!file_name("../x").starts_with('.'));
        assert!(!file_name("a/b c\u{e9}").contains(['/', ' ']));
        assert_eq!(file_name(""), "unnamed");
        assert_eq!(file_name(&"x".repeat(500)).len(), 80);
    }
}
