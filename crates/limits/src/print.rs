//! Limits as TOML.

use std::fmt::{self, Write};

use crate::Limits;

/// A key, in quotes if it needs them.
fn key(name: &str) -> String {
    let is_bare = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    if !name.is_empty() && name.chars().all(is_bare) {
        name.into()
    } else {
        toml::Value::from(name).to_string()
    }
}

fn text(value: impl ToString) -> String {
    toml::Value::from(value.to_string()).to_string()
}

impl fmt::Display for Limits {
    /// A file that reads back as the same limits; classes after their parents.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<(usize, &String)> =
            self.classes.keys().map(|name| (self.chain(name).count(), name)).collect();
        names.sort();
        let mut file = String::new();
        for (_, name) in names {
            let class = &self.classes[name];
            writeln!(file, "[classes.{}]", key(name))?;
            let lines = [
                ("parent", class.parent.as_ref().map(text)),
                ("max_rate", class.max_rate.map(text)),
                ("max_duration", class.max_duration.map(text)),
                ("max_horizon", class.max_horizon.map(text)),
                ("max_pending", class.max_pending.map(|number| number.to_string())),
                ("max_time_error", class.max_time_error.map(text)),
                ("max_priority", class.max_priority.map(|number| number.to_string())),
                ("allow_open", class.allow_open.map(|allow| allow.to_string())),
                ("allow_tcp", class.allow_tcp.map(|allow| allow.to_string())),
                ("allow_udp", class.allow_udp.map(|allow| allow.to_string())),
            ];
            for (key, value) in lines {
                if let Some(value) = value {
                    writeln!(file, "{key} = {value}")?;
                }
            }
            writeln!(file)?;
        }
        if let Some(default) = &self.default {
            writeln!(file, "[assign]\ndefault = {}\n", text(default))?;
        }
        let tables = [
            ("nets", self.nets.iter().map(|(net, class)| (net.to_string(), class)).collect::<Vec<_>>()),
            ("users", self.users.iter().map(|(user, class)| (user.clone(), class)).collect()),
        ];
        for (table, entries) in tables {
            if entries.is_empty() {
                continue;
            }
            writeln!(file, "[assign.{table}]")?;
            for (name, class) in entries {
                writeln!(file, "{} = {}", key(&name), text(class))?;
            }
            writeln!(file)?;
        }
        for link in &self.links {
            let nets: Vec<String> = link.nets.iter().map(text).collect();
            writeln!(file, "[[links]]\nname = {}\nnets = [{}]", text(&link.name), nets.join(", "))?;
            writeln!(file, "rate = {}\ndaily_bytes = {}\n", text(link.rate), text(link.daily_bytes))?;
        }
        out.write_str(file.trim_end())?;
        out.write_char('\n')
    }
}
