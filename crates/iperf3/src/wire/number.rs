//! Numbers and flags as cJSON writes and reads them: whole numbers may be written as `1e+15`, not-a-number as
//! `null`, and a flag as a number.

use std::fmt;

use serde::{
    Deserializer, Serializer,
    de::{self, Visitor},
};

/// Any JSON number, flag or null.
struct Any;

impl Visitor<'_> for Any {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_bool<E>(self, value: bool) -> Result<f64, E> {
        Ok(f64::from(u8::from(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<f64, E> {
        Ok(value as f64)
    }

    fn visit_u64<E>(self, value: u64) -> Result<f64, E> {
        Ok(value as f64)
    }

    fn visit_f64<E>(self, value: f64) -> Result<f64, E> {
        Ok(value)
    }

    fn visit_unit<E>(self) -> Result<f64, E> {
        Ok(0.0)
    }
}

/// A number; `null` is zero.
pub(super) fn real<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    from.deserialize_any(Any)
}

/// Doubles are exact integers up to this value.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// Writes a whole number without a fraction, as cJSON does: `1`, not `1.0`, which peers that parse an integer
/// refuse.
pub(super) fn number<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
    match value.fract() == 0.0 && value.abs() <= EXACT_MAX {
        true => to.serialize_i64(*value as i64),
        false => to.serialize_f64(*value),
    }
}

/// Like [`number`], for a number that may be missing.
pub(super) fn maybe_number<S: Serializer>(value: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => number(value, to),
        None => to.serialize_none(),
    }
}

/// A number that may be missing or `null`.
pub(super) fn maybe_real<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    real(from).map(Some)
}

/// A whole number; fractions are truncated as in C. Exact to 2^53, as in iperf3, whose JSON numbers are
/// doubles. In some places iperf3 writes -1 as an unsigned number: 2^64.
pub(super) fn whole<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    let value = real(from)?;
    match value {
        _ if value.abs() <= 9.0e18 => Ok(value as i64),
        MINUS_ONE => Ok(-1),
        _ => Err(de::Error::custom(format!("{value} is out of range"))),
    }
}

/// -1 as an unsigned number of 64 bits, as a double.
const MINUS_ONE: f64 = 18_446_744_073_709_551_616.0;

/// A whole number that may be missing.
pub(super) fn maybe_whole<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
    whole(from).map(Some)
}

/// A whole number that is not negative.
pub(super) fn count<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let value = whole(from)?;
    u64::try_from(value).map_err(|_| de::Error::custom(format!("{value} is negative")))
}

/// `true`, or a number that is not zero.
pub(super) fn flag<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    Ok(real(from)? != 0.0)
}
