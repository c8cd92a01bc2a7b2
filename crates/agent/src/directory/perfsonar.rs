//! Hosts of a perfSONAR lookup service (sLS), from the JSON of its records (`/lookup/records`). Searches of
//! the directory find them in addition to the points of the mesh.
//!
//! A value of a record is a list of texts, or a text. Records refer to each other by their `uri`: a host to
//! its interfaces, a service to its host.

use std::{collections::BTreeMap, net::IpAddr};

use serde_json::{Map, Value};

use crate::{Announcement, Coordinates, Error, Member, Place, mesh::MAX_NETWORKS, test::Kind};

type Record = Map<String, Value>;

/// The services with which points can make latency tests.
const LATENCY_SERVICES: [&str; 2] = ["owamp", "twamp"];

/// The hosts of a lookup service.
///
/// # Errors
/// If the text is not a list of records.
pub fn perfsonar_hosts(text: &str) -> Result<Vec<Member>, Error> {
    let records: Vec<Record> = serde_json::from_str(text)
        .map_err(|error| Error::Refused(format!("not a list of records of a lookup service: {error}")))?;
    let of_type =
        |kind: &'static str| records.iter().filter(move |record| values(record, "type").contains(&kind));
    let mut addresses: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for interface in of_type("interface") {
        let own = values(interface, "interface-addresses");
        values(interface, "uri").iter().for_each(|uri| addresses.entry(uri).or_default().extend(&own));
    }
    let mut services: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for service in of_type("service") {
        let kinds = values(service, "service-type");
        values(service, "service-host")
            .iter()
            .for_each(|uri| services.entry(uri).or_default().extend(&kinds));
    }
    let hosts = of_type("host").filter_map(|record| host(record, &addresses, &services));
    Ok(hosts.collect())
}

/// The texts of a key.
fn values<'a>(record: &'a Record, key: &str) -> Vec<&'a str> {
    match record.get(key) {
        Some(Value::String(text)) => vec![text.as_str()],
        Some(Value::Array(texts)) => texts.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// A host as an entry of the directory; `None` if it has no name, or if a text is not allowed in
/// announcements.
fn host(
    record: &Record,
    addresses: &BTreeMap<&str, Vec<&str>>,
    services: &BTreeMap<&str, Vec<&str>>,
) -> Option<Member> {
    let first = |key: &str| values(record, key).into_iter().find(|text| !text.trim().is_empty());
    let names = values(record, "host-name");
    let is_ip = |text: &&str| text.parse::<IpAddr>().is_ok();
    let name = names.iter().copied().find(|text| !is_ip(text)).or_else(|| names.first().copied())?;
    let interfaces = values(record, "host-net-interfaces");
    let own = interfaces.iter().filter_map(|uri| addresses.get(uri)).flatten().chain(&names).copied();
    let mut ips: Vec<&str> = own.filter(is_ip).collect();
    ips.sort_unstable();
    ips.dedup();
    let place: Vec<&str> =
        ["location-sitename", "location-city", "location-country"].into_iter().filter_map(first).collect();
    let degrees = |key: &str| first(key)?.trim().parse::<f64>().ok();
    let coordinates = degrees("location-latitude").zip(degrees("location-longitude"));
    let domains = values(record, "group-domains");
    let networks = ips.iter().chain(&domains).take(MAX_NETWORKS).map(|text| (*text).to_owned());
    let uri = first("uri").unwrap_or_default();
    let serves_latency =
        services.get(uri).is_some_and(|kinds| kinds.iter().any(|kind| LATENCY_SERVICES.contains(kind)));
    let announcement = Announcement {
        place: Place {
            name: (!place.is_empty()).then(|| place.join(", ")),
            coordinates: coordinates
                .and_then(|(latitude, longitude)| Coordinates::new(latitude, longitude).ok()),
            networks: networks.collect(),
        },
        capabilities: serves_latency.then(|| Kind::Latency.name().to_owned()).into_iter().collect(),
        ..Announcement::default()
    };
    announcement.check().ok()?;
    let address = ips.first().copied().unwrap_or(name).to_owned();
    Some(Member { name: name.into(), address, key: None, announcement: Some(announcement) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Lookup, LookupTexts, Members};

    /// Records in the form of sLS; names and addresses are from the ranges for documentation.
    const RECORDS: &str = r#"[
      { "type": ["host"], "uri": "lookup/host/1", "host-name": ["192.0.2.30", "ps.example.jp"], "host-net-interfaces": ["lookup/interface/1"],
        "location-sitename": ["Example Observatory"], "location-city": ["Kashima"], "location-country": ["JP"],
        "location-latitude": ["35.95"], "location-longitude": ["140.66"], "group-domains": ["example.jp"], "expires": "2026-11-26T02:25:54.153Z" },
      { "type": ["interface"], "uri": "lookup/interface/1", "interface-addresses": ["192.0.2.30", "2001:db8:7::30"] },
      { "type": ["service"], "service-type": ["twamp"], "service-host": ["lookup/host/1"], "service-locator": ["tcp://192.0.2.30:862"] },
      { "type": ["host"], "uri": "lookup/host/2", "host-name": "198.51.100.9", "location-latitude": ["123"], "location-longitude": ["0"] },
      { "type": ["host"], "uri": "lookup/host/3", "host-name": [] },
      { "type": ["person"], "person-name": ["x"] }
    ]"#;

    #[test]
    fn hosts_are_found_with_the_points_of_the_mesh() {
        let hosts = perfsonar_hosts(RECORDS).unwrap();
        assert_eq!(hosts.len(), 2);
        assert_eq!((hosts[0].name.0.as_str(), hosts[0].address.as_str()), ("ps.example.jp", "192.0.2.30"));
        let place = &hosts[0].announcement.as_ref().unwrap().place;
        assert_eq!(place.name.as_deref(), Some("Example Observatory, Kashima, JP"));
        assert_eq!(place.networks, ["192.0.2.30", "2001:db8:7::30", "example.jp"]);
        assert_eq!(hosts[1].announcement.as_ref().unwrap().place.coordinates, None, "latitude out of range");
        let mut members = Members::of_one("a".into(), "203.0.113.1:4862");
        members.members.extend(hosts);
        let names = |texts: LookupTexts| -> Vec<String> {
            let found = Lookup::parse(texts, &members).unwrap().find(&members);
            found.into_iter().map(|point| point.name).collect()
        };
        assert_eq!(
            names(LookupTexts { capability: Some("latency".into()), ..LookupTexts::default() }),
            ["ps.example.jp"]
        );
        assert_eq!(
            names(LookupTexts { hops: Some("198.51.100.1".into()), ..LookupTexts::default() })[0],
            "198.51.100.9"
        );
        assert_eq!(
            names(LookupTexts { place: Some("kashima".into()), ..LookupTexts::default() }),
            ["ps.example.jp"]
        );
    }

    #[test]
    fn other_documents_are_refused() {
        for text in ["{}", "[1]", "", "[{}, \"x\"]"] {
            assert!(perfsonar_hosts(text).is_err(), "{text}");
        }
        assert!(perfsonar_hosts("[{}, {\"type\": \"host\"}]").unwrap().is_empty());
    }
}
