//! Mistakes in limits files.

/// A mistake in a limits file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not TOML, or an unknown key, or a value of the wrong type. The message has line and column.
    #[error("{0}")]
    Syntax(String),
    /// A value that is not a quantity.
    #[error("{location}: {key}: {message}")]
    Value {
        /// The class or the link.
        location: String,
        /// The key.
        key: &'static str,
        /// The mistake.
        message: String,
    },
    /// A name of a class that does not exist.
    #[error("{location} names the class {class}, which does not exist")]
    UnknownClass {
        /// The key in the limits file.
        location: String,
        /// The name.
        class: String,
    },
    /// Classes whose parents form a cycle.
    #[error("class {class} is its own ancestor")]
    Cycle {
        /// One of them.
        class: String,
    },
    /// No class, or more than one, without a parent.
    #[error("exactly one class must have no parent; these have none: {names}")]
    Roots {
        /// Their names.
        names: String,
    },
    /// A class that allows more than its parent.
    #[error(
        "class {class}: {key} = {value} allows more than {key} = {above} of its ancestor {ancestor}; a class may only narrow its parent's limits"
    )]
    Widens {
        /// The class.
        class: String,
        /// The limit.
        key: &'static str,
        /// Its value.
        value: String,
        /// The ancestor that allows less.
        ancestor: String,
        /// The ancestor's value.
        above: String,
    },
    /// A network that cannot be read.
    #[error("{location}: {error}")]
    Net {
        /// The key in the limits file.
        location: String,
        /// The mistake.
        error: crate::NetError,
    },
    /// A network that is assigned twice.
    #[error("the network {net} is assigned to two classes")]
    DuplicateNet {
        /// The network.
        net: crate::Net,
    },
    /// A line of a bwctl limits file.
    #[error("line {line}: {message}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// The mistake.
        message: String,
    },
}
