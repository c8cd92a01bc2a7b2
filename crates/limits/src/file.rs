//! The limits file of a point, TOML.

use std::{collections::BTreeMap, fmt::Display, str::FromStr};

use serde::Deserialize;

use crate::{Class, Error, Limits, Link, Net};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    classes: BTreeMap<String, FileClass>,
    #[serde(default)]
    assign: FileAssign,
    #[serde(default)]
    links: Vec<FileLink>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileClass {
    parent: Option<String>,
    max_rate: Option<String>,
    max_duration: Option<String>,
    max_horizon: Option<String>,
    max_pending: Option<u64>,
    max_time_error: Option<String>,
    max_priority: Option<i32>,
    allow_open: Option<bool>,
    allow_tcp: Option<bool>,
    allow_udp: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileAssign {
    default: Option<String>,
    #[serde(default)]
    nets: BTreeMap<String, String>,
    #[serde(default)]
    users: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileLink {
    name: String,
    nets: Vec<String>,
    rate: String,
    daily_bytes: String,
}

fn quantity<T: FromStr<Err: Display>>(location: &str, key: &'static str, text: &str) -> Result<T, Error> {
    text.parse().map_err(|error: T::Err| Error::Value {
        location: location.into(),
        key,
        message: error.to_string(),
    })
}

fn optional<T: FromStr<Err: Display>>(
    location: &str,
    key: &'static str,
    text: Option<&String>,
) -> Result<Option<T>, Error> {
    text.map(|text| quantity(location, key, text)).transpose()
}

fn net(location: String, text: &str) -> Result<Net, Error> {
    text.parse().map_err(|error| Error::Net { location, error })
}

impl FromStr for Limits {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let file: File =
            toml::from_str(text).map_err(|error| Error::Syntax(error.to_string().trim_end().into()))?;
        let mut limits =
            Limits { default: file.assign.default, users: file.assign.users, ..Limits::default() };
        for (name, class) in file.classes {
            let location = format!("class {name}");
            let read = Class {
                max_rate: optional(&location, "max_rate", class.max_rate.as_ref())?,
                max_duration: optional(&location, "max_duration", class.max_duration.as_ref())?,
                max_horizon: optional(&location, "max_horizon", class.max_horizon.as_ref())?,
                max_pending: class.max_pending,
                max_time_error: optional(&location, "max_time_error", class.max_time_error.as_ref())?,
                max_priority: class.max_priority,
                allow_open: class.allow_open,
                allow_tcp: class.allow_tcp,
                allow_udp: class.allow_udp,
                parent: class.parent,
            };
            limits.classes.insert(name, read);
        }
        for (text, class) in file.assign.nets {
            let net = net("assign.nets".into(), &text)?;
            if limits.nets.insert(net, class).is_some() {
                return Err(Error::DuplicateNet { net });
            }
        }
        for link in file.links {
            let location = format!("link {}", link.name);
            let nets = link.nets.iter().map(|text| net(location.clone(), text));
            limits.links.push(Link {
                nets: nets.collect::<Result<_, _>>()?,
                rate: quantity(&location, "rate", &link.rate)?,
                daily_bytes: quantity(&location, "daily_bytes", &link.daily_bytes)?,
                name: link.name,
            });
        }
        limits.validate()?;
        Ok(limits)
    }
}
