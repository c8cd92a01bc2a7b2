//! Parameters of a congestion control: the `const volatile` integers and bools of its C file.
//!
//! A parameter `p` beside a `const volatile` integer `p_scale` is a fixed-point number: the user's value is
//! multiplied by the scale and rounded. Other parameters take whole numbers only. The C type defines the
//! range.

use std::collections::BTreeMap;
use std::fmt;

/// A value as in a scenario file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ParameterValue {
    /// A whole number.
    Integer(i64),
    /// A decimal number: only for parameters with a scale.
    Decimal(f64),
    /// `true` or `false`.
    Bool(bool),
}

impl fmt::Display for ParameterValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParameterValue::Integer(value) => value.fmt(f),
            ParameterValue::Decimal(value) => value.fmt(f),
            ParameterValue::Bool(value) => value.fmt(f),
        }
    }
}

/// Values by parameter name.
pub type ParameterValues = BTreeMap<String, ParameterValue>;

/// The C type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterType {
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
    pub ty: ParameterType,
    /// Value of the C variable that represents 1, if the parameter is a fixed-point number.
    pub scale: Option<i64>,
    /// The default value, as the C variable holds it.
    pub default_raw: i64,
    /// Line of the definition, from 1.
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
        /// The given name.
        name: String,
        /// All parameters, or "none".
        known: String,
    },
    /// A decimal number for a parameter that takes whole numbers.
    #[error("{name} = {value}: {name} takes whole numbers only")]
    NotWhole {
        /// The parameter.
        name: String,
        /// The given value.
        value: ParameterValue,
    },
    /// A number for a bool, or vice versa.
    #[error("{name} = {value}: {name} is {expected}")]
    WrongType {
        /// The parameter.
        name: String,
        /// The given value.
        value: ParameterValue,
        /// "true or false" or "a number".
        expected: &'static str,
    },
    /// The C variable cannot hold it.
    #[error("{name} = {value}: must be from {min} to {max}")]
    OutOfRange {
        /// The parameter.
        name: String,
        /// The given value.
        value: ParameterValue,
        /// Minimum.
        min: ParameterValue,
        /// Maximum.
        max: ParameterValue,
    },
}

impl Parameter {
    /// Converts a value to that of the C variable.
    ///
    /// # Errors
    /// If the value has the wrong type, is not whole or is out of range.
    pub fn encode(&self, value: ParameterValue) -> Result<i64, ParameterError> {
        let name = || self.name.clone();
        let raw: i128 = match (self.ty, value) {
            (ParameterType::Bool, ParameterValue::Bool(value)) => return Ok(i64::from(value)),
            (ParameterType::Bool, ParameterValue::Integer(value @ (0 | 1))) => return Ok(value),
            (ParameterType::Bool, _) => {
                return Err(ParameterError::WrongType { name: name(), value, expected: "true or false" });
            }
            (_, ParameterValue::Bool(_)) => {
                return Err(ParameterError::WrongType { name: name(), value, expected: "a number" });
            }
            (_, ParameterValue::Integer(whole)) => i128::from(whole) * i128::from(self.scale.unwrap_or(1)),
            (_, ParameterValue::Decimal(number)) => match self.scale {
                Some(scale) => (number * scale as f64).round() as i128,
                None if number.fract() == 0.0 => number as i128,
                None => return Err(ParameterError::NotWhole { name: name(), value }),
            },
        };
        let (min, max) = self.range();
        if raw < min || raw > max || matches!(value, ParameterValue::Decimal(number) if !number.is_finite()) {
            let (min, max) = (self.decode_wide(min), self.decode_wide(max));
            return Err(ParameterError::OutOfRange { name: name(), value, min, max });
        }
        Ok(raw as i64)
    }

    /// Converts a value of the C variable to that of a scenario file.
    pub fn decode(&self, raw: i64) -> ParameterValue {
        match self.ty {
            ParameterType::Bool => ParameterValue::Bool(raw != 0),
            ParameterType::Integer { bytes: 8, signed: false } => self.decode_wide(i128::from(raw as u64)),
            ParameterType::Integer { .. } => self.decode_wide(i128::from(raw)),
        }
    }

    /// The default value.
    pub fn default(&self) -> ParameterValue {
        self.decode(self.default_raw)
    }

    /// The bytes of the C variable, in this machine's byte order.
    pub fn bytes(&self, raw: i64) -> Vec<u8> {
        let size = match self.ty {
            ParameterType::Bool => 1,
            ParameterType::Integer { bytes, .. } => usize::from(bytes),
        };
        let all = raw.to_ne_bytes();
        if cfg!(target_endian = "little") { all[..size].to_vec() } else { all[8 - size..].to_vec() }
    }

    /// Minimum and maximum of the C variable.
    fn range(&self) -> (i128, i128) {
        match self.ty {
            ParameterType::Bool => (0, 1),
            ParameterType::Integer { bytes, signed: true } => {
                (-(1 << (8 * bytes - 1)), (1 << (8 * bytes - 1)) - 1)
            }
            ParameterType::Integer { bytes, signed: false } => (0, (1 << (8 * u32::from(bytes))) - 1),
        }
    }

    fn decode_wide(&self, raw: i128) -> ParameterValue {
        match self.scale {
            Some(scale) if scale != 0 && raw % i128::from(scale) != 0 => {
                ParameterValue::Decimal(raw as f64 / scale as f64)
            }
            Some(scale) if scale != 0 => ParameterValue::Integer((raw / i128::from(scale)) as i64),
            _ => i64::try_from(raw).map_or(ParameterValue::Decimal(raw as f64), ParameterValue::Integer),
        }
    }
}

/// Converts values to those of the C variables, by parameter.
///
/// # Errors
/// For unknown names and invalid values.
pub fn encode<'a>(
    algorithm: &str,
    parameters: &'a [Parameter],
    values: &ParameterValues,
) -> Result<Vec<(&'a Parameter, i64)>, ParameterError> {
    let encode = |(name, value): (&String, &ParameterValue)| {
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
