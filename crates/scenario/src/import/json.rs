//! JSON values with their paths, so that an error can name `hosts[2].opts.hostname`.

use std::fmt;

use serde_json::{Map, Value};

/// Why a file cannot be imported, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ImportError {
    /// The path in the JSON, as in `hosts[2].opts.hostname`; empty for the file as a whole.
    pub path: String,
    /// The problem.
    pub message: String,
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => write!(f, "{}", self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

/// Parses JSON; the error has line and column.
pub fn parse(text: &str) -> Result<Value, ImportError> {
    serde_json::from_str(text.trim_start_matches('\u{feff}'))
        .map_err(|e| ImportError { path: String::new(), message: format!("this is not JSON: {e}") })
}

/// A value and its path.
#[derive(Debug, Clone)]
pub struct JsonNode<'a> {
    value: &'a Value,
    path: String,
}

impl<'a> JsonNode<'a> {
    /// The whole document.
    pub fn root(value: &'a Value) -> Self {
        JsonNode { value, path: String::new() }
    }

    /// An error at this path.
    pub fn error(&self, message: impl Into<String>) -> ImportError {
        ImportError { path: self.path.clone(), message: message.into() }
    }

    /// The object; an error if it is not one.
    pub fn object(&self) -> Result<&'a Map<String, Value>, ImportError> {
        self.value
            .as_object()
            .ok_or_else(|| self.error(format!("an object is expected, not {}", self.kind())))
    }

    /// The items of the list; an error if it is not one.
    pub fn list(&self) -> Result<Vec<JsonNode<'a>>, ImportError> {
        let items = self.value.as_array();
        let items = items.ok_or_else(|| self.error(format!("a list is expected, not {}", self.kind())))?;
        let node = |(i, value)| JsonNode { value, path: format!("{}[{i}]", self.path) };
        Ok(items.iter().enumerate().map(node).collect())
    }

    /// True if it is an object.
    pub fn is_object(&self) -> bool {
        self.value.is_object()
    }

    /// A key of the object; null counts as missing.
    pub fn field(&self, key: &str) -> Result<Option<JsonNode<'a>>, ImportError> {
        let value = self.object()?.get(key).filter(|v| !v.is_null());
        let dot = if self.path.is_empty() { "" } else { "." };
        Ok(value.map(|value| JsonNode { value, path: format!("{}{dot}{key}", self.path) }))
    }

    /// A required key of the object.
    pub fn required(&self, key: &str) -> Result<JsonNode<'a>, ImportError> {
        self.field(key)?.ok_or_else(|| self.error(format!("\"{key}\" is missing")))
    }

    /// The string; an error if it is not one.
    pub fn text(&self) -> Result<&'a str, ImportError> {
        self.value.as_str().ok_or_else(|| self.error(format!("a string is expected, not {}", self.kind())))
    }

    /// A string or a number, as trimmed text.
    pub fn scalar(&self) -> Result<String, ImportError> {
        match self.value {
            Value::String(text) => Ok(text.trim().to_owned()),
            Value::Number(number) => Ok(number.to_string()),
            _ => Err(self.error(format!("a string or a number is expected, not {}", self.kind()))),
        }
    }

    /// A number, or a string with a number; `None` for an empty string.
    pub fn number(&self) -> Result<Option<f64>, ImportError> {
        let text = self.scalar()?;
        if text.is_empty() {
            return Ok(None);
        }
        let number = text.parse().ok().filter(|n: &f64| n.is_finite());
        number.map(Some).ok_or_else(|| self.error(format!("{text:?} is not a number")))
    }

    /// The string at a key; `None` if it is missing or empty.
    pub fn some_text(&self, key: &str) -> Result<Option<String>, ImportError> {
        let Some(at) = self.field(key)? else { return Ok(None) };
        Ok(Some(at.text()?.trim().to_owned()).filter(|text| !text.is_empty()))
    }

    /// The number at a key; `None` if it is missing or an empty string.
    pub fn some_number(&self, key: &str) -> Result<Option<f64>, ImportError> {
        self.field(key)?.map_or(Ok(None), |at| at.number())
    }

    fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        }
    }
}
