//! A flow's congestion control as a scenario names it. This crate has no list of algorithms and parameters.

use std::{collections::BTreeMap, fmt, sync::Arc};

/// The parameters that a scenario sets, by name.
pub type CcValues = BTreeMap<String, CcValue>;

/// A congestion control.
#[derive(Debug, Clone, PartialEq)]
pub enum Cc {
    /// `cc = "cubic"`: the kernel's algorithm if it has one of this name, else the program's.
    Named(String),
    /// `cc = { name = "griddt", a = 7 }`: the program's algorithm, with these parameters.
    Own {
        /// Its name.
        name: String,
        /// Its parameters.
        set: CcValues,
    },
    /// `cc = { file = "my.bpf.c", set = { beta = 819 } }`: a user's C file.
    File {
        /// The path as written in the scenario.
        path: String,
        /// The file's text.
        text: Arc<str>,
        /// The algorithm, if the file has several.
        name: Option<String>,
        /// Its parameters.
        set: CcValues,
    },
}

/// The value of a parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CcValue {
    /// A whole number.
    Integer(i64),
    /// A number with a decimal point.
    Decimal(f64),
    /// `true` or `false`.
    Boolean(bool),
}

impl Cc {
    /// Its name, or for a file without a name the file's stem.
    pub fn name(&self) -> &str {
        match self {
            Cc::Named(name) | Cc::Own { name, .. } | Cc::File { name: Some(name), .. } => name,
            Cc::File { path, .. } => {
                let file = path.rsplit('/').next().unwrap_or(path);
                let stem = file.strip_suffix(".c").unwrap_or(file);
                stem.strip_suffix(".bpf").unwrap_or(stem)
            }
        }
    }

    /// The parameters that are set.
    pub fn set(&self) -> &CcValues {
        static NONE: CcValues = BTreeMap::new();
        match self {
            Cc::Named(_) => &NONE,
            Cc::Own { set, .. } | Cc::File { set, .. } => set,
        }
    }
}

impl fmt::Display for CcValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CcValue::Integer(number) => write!(f, "{number}"),
            // With a decimal point, so that it parses as a decimal.
            CcValue::Decimal(number) => write!(f, "{number:?}"),
            CcValue::Boolean(yes) => write!(f, "{yes}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_file_is_its_stem_or_its_algorithm() {
        let file = |path: &str, name: Option<&str>| Cc::File {
            path: path.into(),
            text: "".into(),
            name: name.map(Into::into),
            set: CcValues::new(),
        };
        for (path, name) in [("my.bpf.c", "my"), ("a/b.c", "b"), ("odd", "odd"), ("x.bpf.o", "x.bpf.o")] {
            assert_eq!(file(path, None).name(), name);
        }
        assert_eq!(file("my.bpf.c", Some("second")).name(), "second");
    }

    #[test]
    fn a_decimal_has_a_decimal_point() {
        assert_eq!(CcValue::Decimal(1.0).to_string(), "1.0");
        assert_eq!(CcValue::Integer(-3).to_string(), "-3");
    }
}
