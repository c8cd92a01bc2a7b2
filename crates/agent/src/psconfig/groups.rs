//! The pairs of addresses of a group.

use std::collections::BTreeMap;

use serde::Deserialize;

/// An address of the file.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Address {
    pub address: String,
    pub host: Option<String>,
    #[serde(default)]
    pub labels: BTreeMap<String, Address>,
    #[serde(default)]
    pub disabled: bool,
}

/// Selects an address.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Selector {
    name: Option<String>,
    label: Option<String>,
    #[serde(default)]
    disabled: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Exclude {
    local_address: Selector,
    target_addresses: Vec<Selector>,
}

/// Which addresses test each other.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Group {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    addresses: Vec<Selector>,
    #[serde(default)]
    a_addresses: Vec<Selector>,
    #[serde(default)]
    b_addresses: Vec<Selector>,
    #[serde(default)]
    unidirectional: bool,
    default_address_label: Option<String>,
    excludes_self: Option<String>,
    #[serde(default)]
    excludes: Vec<Exclude>,
}

/// A selected address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Selected<'a> {
    /// Its name in the file.
    pub name: &'a str,
    /// The address itself.
    pub address: &'a str,
    host: &'a str,
}

impl Group {
    /// The ordered pairs; notes name what is skipped.
    pub fn pairs<'a>(
        &'a self,
        addresses: &'a BTreeMap<String, Address>,
        notes: &mut Vec<String>,
    ) -> Vec<(Selected<'a>, Selected<'a>)> {
        let mut select = |selectors: &'a [Selector]| -> Vec<Selected<'a>> {
            selectors.iter().filter_map(|selector| self.select(selector, addresses, notes)).collect()
        };
        let all = match self.kind.as_str() {
            "mesh" => {
                let ends = select(&self.addresses);
                product(&ends, &ends)
            }
            "disjoint" => {
                let (a, b) = (select(&self.a_addresses), select(&self.b_addresses));
                let mut pairs = product(&a, &b);
                if !self.unidirectional {
                    pairs.extend(product(&b, &a));
                }
                pairs
            }
            other => {
                notes.push(format!("groups of the type {other:?} have no pairs"));
                Vec::new()
            }
        };
        all.into_iter().filter(|(from, to)| !self.is_excluded(from, to)).collect()
    }

    fn select<'a>(
        &'a self,
        selector: &'a Selector,
        addresses: &'a BTreeMap<String, Address>,
        notes: &mut Vec<String>,
    ) -> Option<Selected<'a>> {
        let Some(name) = &selector.name else {
            notes.push("address classes are not supported".into());
            return None;
        };
        let Some(known) = addresses.get(name) else {
            notes.push(format!("the address {name:?} does not exist"));
            return None;
        };
        if selector.disabled || known.disabled {
            return None;
        }
        let label = selector.label.as_ref().or(self.default_address_label.as_ref());
        let chosen = match label {
            None => known,
            Some(label) => match known.labels.get(label) {
                Some(labelled) if !labelled.disabled => labelled,
                // As pSConfig does: an address without the label does not take part.
                _ => return None,
            },
        };
        let host = known.host.as_deref().unwrap_or(name);
        Some(Selected { name, address: &chosen.address, host })
    }

    fn is_excluded(&self, from: &Selected<'_>, to: &Selected<'_>) -> bool {
        let is_same = match self.excludes_self.as_deref() {
            Some("disabled") => false,
            Some("address") => from.address == to.address,
            _ => from.host == to.host || from.address == to.address,
        };
        let is = |selector: &Selector, end: &Selected<'_>| selector.name.as_deref() == Some(end.name);
        is_same
            || self.excludes.iter().any(|exclude| {
                is(&exclude.local_address, from)
                    && exclude.target_addresses.iter().any(|target| is(target, to))
            })
    }
}

fn product<'a>(a: &[Selected<'a>], b: &[Selected<'a>]) -> Vec<(Selected<'a>, Selected<'a>)> {
    a.iter().flat_map(|from| b.iter().map(move |to| (from.clone(), to.clone()))).collect()
}
