//! Reads keys of a JSON object; errors contain the path of the key. Negative counts, which iperf3 writes for
//! unknown values, are absent; integers may be written as doubles, as older versions do from 2^31 on.

use std::time::Duration;

use serde_json::{Map, Value};

use super::Error;

/// An object and its path in the document.
#[derive(Debug, Clone)]
pub(super) struct Object<'a> {
    path: String,
    map: &'a Map<String, Value>,
}

impl<'a> Object<'a> {
    /// The document itself.
    pub(super) fn top(value: &'a Value) -> Result<Self, Error> {
        Self::at(String::new(), value)
    }

    pub(super) fn at(path: String, value: &'a Value) -> Result<Self, Error> {
        match value {
            Value::Object(map) => Ok(Object { path, map }),
            _ => Err(Error::shape(if path.is_empty() { "the document" } else { &path }, "not an object")),
        }
    }

    /// The path of a key of this object.
    pub(super) fn path(&self, key: &str) -> String {
        if self.path.is_empty() { key.into() } else { format!("{}.{key}", self.path) }
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.map.contains_key(key)
    }

    /// An unchanged value; `null` is absent.
    pub(super) fn value(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn object(&self, key: &str) -> Result<Option<Object<'a>>, Error> {
        self.value(key).map(|value| Object::at(self.path(key), value)).transpose()
    }

    /// The objects of a list; empty without a list.
    pub(super) fn objects(&self, key: &str) -> Result<Vec<Object<'a>>, Error> {
        let Some(value) = self.value(key) else { return Ok(Vec::new()) };
        let list = value.as_array().ok_or_else(|| self.error(key, "not a list"))?;
        list.iter().enumerate().map(|(i, one)| Object::at(format!("{}[{i}]", self.path(key)), one)).collect()
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<String>, Error> {
        let Some(value) = self.value(key) else { return Ok(None) };
        value.as_str().map(|text| Some(text.into())).ok_or_else(|| self.error(key, "not a string"))
    }

    pub(super) fn real(&self, key: &str) -> Result<Option<f64>, Error> {
        let Some(value) = self.value(key) else { return Ok(None) };
        value.as_f64().map(Some).ok_or_else(|| self.error(key, "not a number"))
    }

    /// A required number.
    pub(super) fn required(&self, key: &str) -> Result<f64, Error> {
        self.real(key)?.ok_or_else(|| self.error(key, "missing"))
    }

    /// A count; absent if negative, also as an unsigned number of 64 bits.
    pub(super) fn count(&self, key: &str) -> Result<Option<u64>, Error> {
        let count = match self.value(key).and_then(Value::as_u64) {
            Some(count) => Some(count),
            // `as` saturates at the largest u64.
            None => self.real(key)?.filter(|number| *number >= 0.0).map(|number| number.round() as u64),
        };
        Ok(count.filter(|count| i64::try_from(*count).is_ok()))
    }

    /// A count that fits its type; absent if negative.
    pub(super) fn fitting_count<T: TryFrom<u64>>(&self, key: &str) -> Result<Option<T>, Error> {
        let Some(count) = self.count(key)? else { return Ok(None) };
        T::try_from(count).map(Some).map_err(|_| self.error(key, "too large"))
    }

    /// A count that may be negative.
    pub(super) fn signed(&self, key: &str) -> Result<Option<i64>, Error> {
        if let Some(count) = self.value(key).and_then(Value::as_i64) {
            return Ok(Some(count));
        }
        Ok(self.real(key)?.map(|number| number.round() as i64))
    }

    /// True, false, 1 or 0.
    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, Error> {
        match self.value(key) {
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            _ => Ok(self.real(key)?.map(|number| number != 0.0)),
        }
    }

    /// Seconds.
    pub(super) fn duration(&self, key: &str) -> Result<Option<Duration>, Error> {
        let Some(seconds) = self.real(key)? else { return Ok(None) };
        Duration::try_from_secs_f64(seconds).map(Some).map_err(|_| self.error(key, "not a valid duration"))
    }

    pub(super) fn error(&self, key: &str, reason: &str) -> Error {
        Error::shape(self.path(key), reason)
    }
}
