//! Parameters of a congestion control: the `const volatile` integers and bools of its C file.
//!
//! A parameter `p` beside a `const volatile` integer `p_scale` is a fixed-point number: the value that a user writes
//! is multiplied by the scale and rounded. Others take whole numbers only. The C type is the range.

use std::collections::BTreeMap;
use std::fmt;

/// A value as a scenario writes it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A whole number.
    Integer(i64),
    /// A number with a fraction: only for parameters with a scale.
    Decimal(f64),
    /// `true` or `false`.
    Bool(bool),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Integer(value) => value.fmt(f),
            Value::Decimal(value) => value.fmt(f),
            Value::Bool(value) => value.fmt(f),
        }
    }
}

/// Values by parameter.
pub type Values = BTreeMap<String, Value>;

/// The C type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// `bool`.
    Bool,
    /// An integer.
    Integer {
        /// Its size: 1, 2, 4 or 8.
        bytes: u8,
        /// Whether it can be negative.
        signed: bool,
    },
}

/// A parameter of a congestion control.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// The C variable's name.
    pub name: String,
    /// The comment line above it; empty if there is none.
    pub doc: String,
    /// Its C type.
    pub ty: Type,
    /// What stands for 1, if it is a fixed-point number.
    pub scale: Option<i64>,
    /// The value in the file, as the C variable holds it.
    pub default_raw: i64,
    /// The line of its definition, from 1.
    pub line: u32,
}

/// Why a value does not fit a parameter.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ParameterError {
    /// There is no such parameter.
    #[error("{algorithm} has no parameter {name}; it has {known}")]
    Unknown {
        /// The algorithm.
        algorithm: String,
        /// The name that was given.
        name: String,
        /// All parameters, or "none".
        known: String,
    },
    /// A fraction for a whole number.
    #[error("{name} = {value}: {name} takes whole numbers only")]
    NotWhole {
        /// The parameter.
        name: String,
        /// What was given.
        value: Value,
    },
    /// A number for a bool, or the other way.
    #[error("{name} = {value}: {name} is {expected}")]
    WrongType {
        /// The parameter.
        name: String,
        /// What was given.
        value: Value,
        /// "true or false" or "a number".
        expected: &'static str,
    },
    /// The C variable cannot hold it.
    #[error("{name} = {value}: must be from {least} to {most}")]
    OutOfRange {
        /// The parameter.
        name: String,
        /// What was given.
        value: Value,
        /// Least value.
        least: Value,
        /// Greatest value.
        most: Value,
    },
}

impl Parameter {
    /// The value that the C variable gets.
    pub fn encode(&self, value: Value) -> Result<i64, ParameterError> {
        let name = || self.name.clone();
        let raw: i128 = match (self.ty, value) {
            (Type::Bool, Value::Bool(value)) => return Ok(i64::from(value)),
            (Type::Bool, Value::Integer(value @ (0 | 1))) => return Ok(value),
            (Type::Bool, _) => {
                return Err(ParameterError::WrongType { name: name(), value, expected: "true or false" });
            }
            (_, Value::Bool(_)) => {
                return Err(ParameterError::WrongType { name: name(), value, expected: "a number" });
            }
            (_, Value::Integer(whole)) => i128::from(whole) * i128::from(self.scale.unwrap_or(1)),
            (_, Value::Decimal(number)) => match self.scale {
                Some(scale) => (number * scale as f64).round() as i128,
                None if number.fract() == 0.0 => number as i128,
                None => return Err(ParameterError::NotWhole { name: name(), value }),
            },
        };
        let (least, most) = self.range();
        if raw < least || raw > most || matches!(value, Value::Decimal(number) if !number.is_finite()) {
            let (least, most) = (self.decode_wide(least), self.decode_wide(most));
            return Err(ParameterError::OutOfRange { name: name(), value, least, most });
        }
        Ok(raw as i64)
    }

    /// What a user would write for a value of the C variable.
    pub fn decode(&self, raw: i64) -> Value {
        match self.ty {
            Type::Bool => Value::Bool(raw != 0),
            Type::Integer { bytes: 8, signed: false } => self.decode_wide(i128::from(raw as u64)),
            Type::Integer { .. } => self.decode_wide(i128::from(raw)),
        }
    }

    /// The value in the file.
    pub fn default(&self) -> Value {
        self.decode(self.default_raw)
    }

    /// The bytes of the C variable, in this machine's order.
    pub fn bytes(&self, raw: i64) -> Vec<u8> {
        let size = match self.ty {
            Type::Bool => 1,
            Type::Integer { bytes, .. } => usize::from(bytes),
        };
        let all = raw.to_ne_bytes();
        if cfg!(target_endian = "little") { all[..size].to_vec() } else { all[8 - size..].to_vec() }
    }

    /// Least and greatest value of the C variable.
    fn range(&self) -> (i128, i128) {
        match self.ty {
            Type::Bool => (0, 1),
            Type::Integer { bytes, signed: true } => (-(1 << (8 * bytes - 1)), (1 << (8 * bytes - 1)) - 1),
            Type::Integer { bytes, signed: false } => (0, (1 << (8 * u32::from(bytes))) - 1),
        }
    }

    fn decode_wide(&self, raw: i128) -> Value {
        match self.scale {
            Some(scale) if scale != 0 && raw % i128::from(scale) != 0 => {
                Value::Decimal(raw as f64 / scale as f64)
            }
            Some(scale) if scale != 0 => Value::Integer((raw / i128::from(scale)) as i64),
            _ => i64::try_from(raw).map_or(Value::Decimal(raw as f64), Value::Integer),
        }
    }
}

/// The values as the C variables hold them, by parameter; unknown names and bad values are errors.
pub fn encode<'a>(
    algorithm: &str,
    parameters: &'a [Parameter],
    values: &Values,
) -> Result<Vec<(&'a Parameter, i64)>, ParameterError> {
    let encode = |(name, value): (&String, &Value)| {
        let parameter = parameters
            .iter()
            .find(|p| p.name == *name)
            .ok_or_else(|| unknown(algorithm, name, parameters))?;
        Ok((parameter, parameter.encode(*value)?))
    };
    values.iter().map(encode).collect()
}

fn unknown(algorithm: &str, name: &str, parameters: &[Parameter]) -> ParameterError {
    let names: Vec<&str> = parameters.iter().map(|p| p.name.as_str()).collect();
    let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    ParameterError::Unknown { algorithm: algorithm.to_owned(), name: name.to_owned(), known }
}
