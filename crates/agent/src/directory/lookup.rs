//! Looks up points in the directory: by place, network, capability, distance, and by the hops of a path.
//! Pure.

use std::{cmp::Ordering, net::IpAddr};

use limits::Net;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Allowance, Announcement, Coordinates, Error, Member, Members, address::host_and_port, mesh::UDP,
    test::Kind,
};

/// Minimum number of bits that an address must have in common with a hop to count as close, for IPv4 and
/// IPv6: registries allocate blocks of at most these prefix lengths.
const MIN_COMMON_BITS: [u8; 2] = [16, 32];
/// Maximum number of hops in a look-up.
const MAX_HOPS: usize = 64;

/// Which points are looked up, and by what they are sorted. The default: all, by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lookup {
    /// Part of the place in words, or of the name.
    pub place: Option<String>,
    /// Sorted by the distance from there.
    pub near: Option<Coordinates>,
    /// A network that they have, by name, address or prefix.
    pub network: Option<String>,
    /// A kind of test, or `udp`.
    pub capability: Option<String>,
    /// Sorted by how close they are to these hops of a path.
    pub hops: Vec<IpAddr>,
}

/// A look-up as users write it.
#[derive(Debug, Clone, Default)]
pub struct LookupTexts {
    /// Part of the place.
    pub place: Option<String>,
    /// `LATITUDE,LONGITUDE`, or the name of a point.
    pub near: Option<String>,
    /// A network, an address or a prefix.
    pub network: Option<String>,
    /// A kind of test, or `udp`.
    pub capability: Option<String>,
    /// Addresses, separated by commas.
    pub hops: Option<String>,
}

/// A point in the directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DirectoryPoint {
    /// Its name.
    pub name: String,
    /// Where it listens, `HOST:PORT`; of a host of a lookup service, its address without a port.
    pub address: String,
    /// Its place in words.
    pub place: Option<String>,
    /// Its position.
    pub coordinates: Option<Coordinates>,
    /// Its networks: prefixes, or names.
    pub networks: Vec<String>,
    /// The kinds of tests that it allows to some users, and `udp` for tests at a rate.
    pub capabilities: Vec<String>,
    /// What it allows to whom.
    pub allows: Vec<Allowance>,
    /// Share of the next day in which no exclusive test may run, in tenths; `null` if it has not announced
    /// itself.
    pub busy_share: Option<f64>,
    /// Distance from the position of the look-up, km.
    pub distance_km: Option<f64>,
    /// The hop of the look-up that is closest to it.
    pub nearest_hop: Option<NearestHop>,
}

/// The hop of a path that is closest to a point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NearestHop {
    /// Its number in the look-up, from 1.
    pub number: usize,
    /// Its address.
    pub address: String,
    /// The number of leading bits that the hop has in common with the point: the length of an announced
    /// prefix that contains it, or bits in common with the point's address.
    pub common_bits: u8,
}

/// Points of the directory.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DirectoryDocument {
    /// `longfat.mesh/1`.
    pub schema: String,
    /// The points: the closest first, if the look-up names a position or hops; else by name.
    pub points: Vec<DirectoryPoint>,
}

impl Lookup {
    /// Parses a look-up; points are those of the directory.
    ///
    /// # Errors
    /// The text that is not valid.
    pub fn parse(texts: LookupTexts, members: &Members) -> Result<Lookup, Error> {
        let known = Kind::ALL.map(Kind::name).into_iter().chain([UDP]).collect::<Vec<_>>();
        if let Some(wanted) = &texts.capability
            && !known.contains(&wanted.as_str())
        {
            let known = known.join(", ");
            return Err(Error::Refused(format!("{wanted:?} is not a capability; there are {known}")));
        }
        let near = texts.near.map(|text| position(&text, members)).transpose()?;
        let hops = texts.hops.as_deref().unwrap_or_default();
        let hops = hops.split(',').map(str::trim).filter(|text| !text.is_empty()).map(|text| {
            text.parse::<IpAddr>()
                .map_err(|_| Error::Refused(format!("the hop {text:?} is not an IP address")))
        });
        let hops = hops.collect::<Result<Vec<IpAddr>, Error>>()?;
        if hops.len() > MAX_HOPS {
            return Err(Error::Refused(format!("a look-up has at most {MAX_HOPS} hops")));
        }
        Ok(Lookup { place: texts.place, near, network: texts.network, capability: texts.capability, hops })
    }

    /// The points of a mesh that match.
    pub fn find(&self, members: &Members) -> Vec<DirectoryPoint> {
        let fitting = members.members.iter().filter(|member| self.fits(member));
        let mut points: Vec<DirectoryPoint> = fitting.map(|member| self.point(member)).collect();
        points.sort_by(|a, b| by_hop(a, b).then_with(|| by_distance(a, b)).then_with(|| a.name.cmp(&b.name)));
        points
    }

    fn fits(&self, member: &Member) -> bool {
        let default = Announcement::default();
        let announcement = member.announcement.as_ref().unwrap_or(&default);
        let place = &announcement.place;
        let has_text = |text: &String| {
            let text = text.to_lowercase();
            let its = place.name.as_ref().map(|name| name.to_lowercase()).unwrap_or_default();
            its.contains(&text) || member.name.0.contains(&text)
        };
        let has_capability = |wanted: &String| announcement.capabilities.contains(wanted);
        self.place.as_ref().is_none_or(has_text)
            && self.capability.as_ref().is_none_or(has_capability)
            && self.network.as_ref().is_none_or(|wanted| has_network(wanted, member, &place.networks))
    }

    fn point(&self, member: &Member) -> DirectoryPoint {
        let announced = member.announcement.clone();
        let busy_share = announced.as_ref().map(|announcement| announcement.busy_share);
        let Announcement { place, capabilities, allows, .. } = announced.unwrap_or_default();
        let distance_km = self.near.zip(place.coordinates).map(|(near, at)| near.distance_km(at));
        DirectoryPoint {
            name: member.name.0.clone(),
            address: member.address.clone(),
            nearest_hop: self.nearest_hop(member, &place.networks),
            place: place.name,
            coordinates: place.coordinates,
            networks: place.networks,
            capabilities,
            allows,
            busy_share,
            distance_km,
        }
    }

    /// The hop with the most leading bits in common; the first of several equal ones.
    fn nearest_hop(&self, member: &Member, networks: &[String]) -> Option<NearestHop> {
        let nets: Vec<Net> = networks.iter().filter_map(|network| network.parse().ok()).collect();
        let own = ip_of(member);
        let bits = |hop: IpAddr| {
            let net = nets.iter().filter(|net| net.contains(hop)).map(|net| net.length).max();
            let address = own.and_then(|own| common_bits(own, hop));
            net.max(address)
        };
        let close = self.hops.iter().enumerate().filter_map(|(index, hop)| Some((index, hop, bits(*hop)?)));
        let (index, hop, common_bits) =
            close.min_by_key(|(index, _, bits)| (std::cmp::Reverse(*bits), *index))?;
        Some(NearestHop { number: index + 1, address: hop.to_string(), common_bits })
    }
}

/// Points with a close hop first: those with more common bits, then in the order of the path.
fn by_hop(a: &DirectoryPoint, b: &DirectoryPoint) -> Ordering {
    let key = |point: &DirectoryPoint| {
        let hop = point.nearest_hop.as_ref();
        hop.map_or((1, 0, 0), |hop| (0, u8::MAX - hop.common_bits, hop.number))
    };
    key(a).cmp(&key(b))
}

fn by_distance(a: &DirectoryPoint, b: &DirectoryPoint) -> Ordering {
    let km = |point: &DirectoryPoint| point.distance_km.unwrap_or(f64::INFINITY);
    km(a).total_cmp(&km(b))
}

/// `LATITUDE,LONGITUDE`, or the position of a point.
fn position(text: &str, members: &Members) -> Result<Coordinates, Error> {
    if let Some((latitude, longitude)) = text.split_once(',') {
        let number = |text: &str| {
            let refused = |_| Error::Refused(format!("{text:?} is not a number of degrees"));
            text.trim().parse::<f64>().map_err(refused)
        };
        return Coordinates::new(number(latitude)?, number(longitude)?).map_err(Error::Refused);
    }
    let point = members.members.iter().find(|member| member.name.0 == text);
    let point = point.ok_or_else(|| {
        Error::Refused(format!("{text:?} is neither a point of the mesh nor LATITUDE,LONGITUDE"))
    })?;
    let coordinates = point.announcement.as_ref().and_then(|announcement| announcement.place.coordinates);
    coordinates.ok_or_else(|| Error::Refused(format!("the point {text} has announced no coordinates")))
}

/// Whether a point has a network: one of this name, or one that contains this address or prefix or is part of
/// it.
fn has_network(wanted: &str, member: &Member, networks: &[String]) -> bool {
    let Ok(wanted_net) = wanted.parse::<Net>() else {
        return networks.iter().any(|name| name.eq_ignore_ascii_case(wanted));
    };
    let nets = networks.iter().filter_map(|network| network.parse::<Net>().ok());
    ip_of(member).is_some_and(|own| wanted_net.contains(own))
        || nets.into_iter().any(|net| net.overlaps(&wanted_net))
}

/// The address of a point, unless it is a host name.
fn ip_of(member: &Member) -> Option<IpAddr> {
    let address = member.address.as_str();
    host_and_port(address).map_or(address, |(host, _)| host).parse().ok()
}

/// The number of leading bits that two addresses have in common, if it is at least that of
/// [`MIN_COMMON_BITS`].
fn common_bits(a: IpAddr, b: IpAddr) -> Option<u8> {
    let (bits, least) = match (a.to_canonical(), b.to_canonical()) {
        (IpAddr::V4(a), IpAddr::V4(b)) => ((u32::from(a) ^ u32::from(b)).leading_zeros(), MIN_COMMON_BITS[0]),
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            ((u128::from(a) ^ u128::from(b)).leading_zeros(), MIN_COMMON_BITS[1])
        }
        _ => return None,
    };
    u8::try_from(bits).ok().filter(|bits| *bits >= least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Place;

    /// Four points: two have announced a place, one only its limits, and one nothing.
    fn directory() -> Members {
        let mut members = Members::of_one("kashima".into(), "192.0.2.10:4862");
        for (name, address) in [
            ("onsala", "[2001:db8:1::5]:4862"),
            ("relay", "relay.example:4862"),
            ("silent", "198.51.100.7:4862"),
        ] {
            members.set(name.into(), address);
        }
        let announce =
            |place: Option<(&str, f64, f64)>, networks: &[&str], capabilities: &[&str]| Announcement {
                place: Place {
                    name: place.map(|(name, ..)| name.into()),
                    coordinates: place
                        .map(|(_, latitude, longitude)| Coordinates::new(latitude, longitude).unwrap()),
                    networks: networks.iter().map(|network| (*network).into()).collect(),
                },
                capabilities: capabilities.iter().map(|name| (*name).into()).collect(),
                ..Announcement::default()
            };
        let kashima = Some(("Kashima, Japan", 35.95, 140.66));
        let onsala = Some(("Onsala, Sweden", 57.4, 11.93));
        for (name, announcement) in [
            ("kashima", announce(kashima, &["JGN", "203.0.113.0/24"], &["throughput", "udp"])),
            ("onsala", announce(onsala, &["NORDUnet", "2001:db8:1::/48"], &["throughput"])),
            ("relay", announce(None, &["203.0.0.0/16"], &["latency"])),
        ] {
            members.announce(&name.into(), announcement).unwrap();
        }
        members
    }

    fn names(texts: LookupTexts) -> Vec<String> {
        let members = directory();
        let found = Lookup::parse(texts, &members).unwrap().find(&members);
        found.into_iter().map(|point| point.name).collect()
    }

    #[test]
    fn points_are_found_by_place_network_and_capability() {
        let by = |change: &dyn Fn(&mut LookupTexts)| {
            let mut texts = LookupTexts::default();
            change(&mut texts);
            names(texts)
        };
        assert_eq!(by(&|_| ()), ["kashima", "onsala", "relay", "silent"]);
        assert_eq!(by(&|texts| texts.place = Some("japan".into())), ["kashima"]);
        assert_eq!(by(&|texts| texts.place = Some("Onsala".into())), ["onsala"]);
        assert_eq!(by(&|texts| texts.capability = Some("throughput".into())), ["kashima", "onsala"]);
        assert_eq!(by(&|texts| texts.network = Some("jgn".into())), ["kashima"]);
        // An address in an announced prefix, a prefix that contains announced ones, and one with a point's
        // own address.
        assert_eq!(by(&|texts| texts.network = Some("203.0.113.77".into())), ["kashima", "relay"]);
        assert_eq!(by(&|texts| texts.network = Some("203.0.112.0/22".into())), ["kashima", "relay"]);
        assert_eq!(by(&|texts| texts.network = Some("198.51.100.0/24".into())), ["silent"]);
        assert_eq!(by(&|texts| texts.network = Some("2001:db8::/32".into())), ["onsala"]);
        assert!(by(&|texts| texts.network = Some("0.0.0.0/32".into())).is_empty());
    }

    #[test]
    fn points_are_sorted_by_distance() {
        let near = |text: &str| names(LookupTexts { near: Some(text.into()), ..LookupTexts::default() });
        // Washington; points without coordinates are last, by name.
        assert_eq!(near("38.9,-77.04"), ["onsala", "kashima", "relay", "silent"]);
        assert_eq!(near("kashima"), ["kashima", "onsala", "relay", "silent"]);
        let members = directory();
        for (text, part) in [
            ("91,0", "latitude"),
            ("x,0", "not a number"),
            ("relay", "has announced no coordinates"),
            ("nowhere", "neither a point of the mesh nor"),
        ] {
            let texts = LookupTexts { near: Some(text.into()), ..LookupTexts::default() };
            let error = Lookup::parse(texts, &members).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn points_are_sorted_by_the_hops_of_a_path() {
        let members = directory();
        let find = |hops: &str| {
            let texts = LookupTexts { hops: Some(hops.into()), ..LookupTexts::default() };
            Lookup::parse(texts, &members).unwrap().find(&members)
        };
        // Hop 2 is in networks of kashima and relay, hop 3 has 24 bits in common with the address of silent.
        let found = find("10.0.0.1, 203.0.113.9,198.51.100.1");
        let hops: Vec<(&str, Option<(usize, u8)>)> = found
            .iter()
            .map(|point| {
                let hop = point.nearest_hop.as_ref();
                (point.name.as_str(), hop.map(|hop| (hop.number, hop.common_bits)))
            })
            .collect();
        assert_eq!(
            hops,
            [
                ("silent", Some((3, 29))),
                ("kashima", Some((2, 24))),
                ("relay", Some((2, 16))),
                ("onsala", None)
            ]
        );
        assert_eq!(find("2001:db8:1:ffff::1")[0].name, "onsala");
        // Addresses with few bits in common are unrelated.
        assert!(find("198.1.1.1").iter().all(|point| point.nearest_hop.is_none()));
        assert_eq!(found[0].nearest_hop.as_ref().unwrap().address, "198.51.100.1");
        let texts = LookupTexts { hops: Some("a.example".into()), ..LookupTexts::default() };
        assert!(Lookup::parse(texts, &members).unwrap_err().to_string().contains("not an IP address"));
        let texts = LookupTexts { capability: Some("magic".into()), ..LookupTexts::default() };
        let error = Lookup::parse(texts, &members).unwrap_err().to_string();
        assert!(
            error.contains("there are throughput, latency, diagnose, probe, trace, stream, transfer, udp"),
            "{error}"
        );
    }
}
