//! What a point announces: its place, networks, capabilities and load, and what it allows to whom.

use limits::{Limits, Net};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Error, test::Kind};

/// Longest name of a place or a network, bytes.
const MAX_NAME_BYTES: usize = 100;
/// Maximum number of networks.
pub(crate) const MAX_NETWORKS: usize = 32;
/// Maximum number of capabilities.
const MAX_CAPABILITIES: usize = 16;
/// Maximum number of allowances; further ones are not announced.
const MAX_ALLOWANCES: usize = 16;
/// The load is announced in steps, so that the list of members changes rarely.
const BUSY_STEPS: f64 = 10.0;
/// The capability of UDP tests at a rate.
pub(crate) const UDP: &str = "udp";

/// A position on the Earth (WGS 84).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Coordinates {
    /// Latitude, degrees; north is positive.
    pub latitude_deg: f64,
    /// Longitude, degrees; east is positive.
    pub longitude_deg: f64,
}

impl Coordinates {
    /// Checked coordinates.
    ///
    /// # Errors
    /// The value that is out of range.
    pub fn new(latitude_deg: f64, longitude_deg: f64) -> Result<Self, String> {
        if !(-90.0..=90.0).contains(&latitude_deg) {
            return Err(format!("the latitude {latitude_deg} is not between -90 and 90 degrees"));
        }
        if !(-180.0..=180.0).contains(&longitude_deg) {
            return Err(format!("the longitude {longitude_deg} is not between -180 and 180 degrees"));
        }
        Ok(Coordinates { latitude_deg, longitude_deg })
    }

    /// Distance on the surface, km: the haversine formula with the mean radius of the Earth, 6371 km (error
    /// below 0.6 %).
    pub fn distance_km(self, other: Coordinates) -> f64 {
        const RADIUS_KM: f64 = 6371.0;
        let [latitude, other_latitude] = [self, other].map(|at| at.latitude_deg.to_radians());
        let half = |from: f64, to: f64| ((to - from) / 2.0).sin().powi(2);
        let longitudes = half(self.longitude_deg.to_radians(), other.longitude_deg.to_radians());
        let haversine = half(latitude, other_latitude) + latitude.cos() * other_latitude.cos() * longitudes;
        2.0 * RADIUS_KM * haversine.sqrt().min(1.0).asin()
    }
}

/// Where a point is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// The place in words.
    #[serde(default)]
    pub name: Option<String>,
    /// Its position.
    #[serde(default)]
    pub coordinates: Option<Coordinates>,
    /// Its networks: prefixes, or names of networks.
    #[serde(default)]
    pub networks: Vec<String>,
}

/// What a point allows to whom.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Allowance {
    /// `default` (all members that no other entry names), `net PREFIX`, or `user NAME@POINT`.
    pub to: String,
    /// Longest test, microseconds; `null`: not limited.
    pub max_duration_us: Option<u64>,
    /// Largest rate, bit/s; `null`: not limited.
    pub max_rate_bps: Option<u64>,
    /// Whether tests by TCP are allowed.
    pub tcp: bool,
    /// Whether tests by UDP are allowed.
    pub udp: bool,
}

/// The entry of a point in the directory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Announcement {
    /// Where it is.
    #[serde(default)]
    pub place: Place,
    /// The kinds of tests that it allows to some users, and `udp` for tests at a rate.
    #[serde(default)]
    pub capabilities: Vec<String>,
    /// What it allows to whom.
    #[serde(default)]
    pub allows: Vec<Allowance>,
    /// Share of the next day in which no exclusive test may run, rounded to tenths.
    #[serde(default)]
    pub busy_share: f64,
}

impl Announcement {
    /// The announcement of a point with this configuration.
    pub(crate) fn new(place: Place, limits: &Limits, busy_share: f64) -> Self {
        let allows = limits.assignments().map(|(to, class)| Allowance {
            to,
            max_duration_us: class.max_duration.map(|time| time.as_micros()),
            max_rate_bps: class.max_rate.map(|rate| rate.0),
            tcp: class.allow_tcp.unwrap_or(true),
            udp: class.allow_udp.unwrap_or(false),
        });
        let allows: Vec<Allowance> = allows.take(MAX_ALLOWANCES).collect();
        let (tcp, udp) = (allows.iter().any(|some| some.tcp), allows.iter().any(|some| some.udp));
        let is_allowed = |kind: &Kind| match kind {
            Kind::Throughput | Kind::Diagnose | Kind::Transfer => tcp,
            Kind::Latency | Kind::Trace => !allows.is_empty(),
            Kind::Probe | Kind::Stream => udp,
        };
        let kinds = Kind::ALL.into_iter().filter(is_allowed).map(|kind| kind.name().to_owned());
        Announcement {
            place,
            capabilities: kinds.chain(udp.then(|| UDP.to_owned())).collect(),
            allows,
            busy_share: (busy_share * BUSY_STEPS).round() / BUSY_STEPS,
        }
    }

    /// Checks what another point has sent.
    ///
    /// # Errors
    /// The maximum that it exceeds.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let refused = |text: &str| Err(Error::Refused(format!("the announcement has {text}")));
        let Announcement { place, capabilities, allows, busy_share } = self;
        if place.networks.len() > MAX_NETWORKS
            || capabilities.len() > MAX_CAPABILITIES
            || allows.len() > MAX_ALLOWANCES
        {
            return refused("too many entries");
        }
        let texts = place.name.iter().chain(&place.networks).chain(capabilities);
        let mut texts = texts.chain(allows.iter().map(|some| &some.to));
        if let Some(Err(text)) = texts.find_map(|text| Some(check_text(text)).filter(Result::is_err)) {
            return refused(&format!("a text that {text}"));
        }
        if let Some(at) = place.coordinates
            && let Err(text) = Coordinates::new(at.latitude_deg, at.longitude_deg)
        {
            return refused(&format!("coordinates out of range: {text}"));
        }
        if !(0.0..=1.0).contains(busy_share) {
            return refused("a load that is not a share");
        }
        Ok(())
    }
}

/// Checks the name of a place or a network; the error completes a sentence.
pub(crate) fn check_text(text: &str) -> Result<(), String> {
    match text {
        "" => Err("is empty".into()),
        _ if text.len() > MAX_NAME_BYTES => Err(format!("is longer than {MAX_NAME_BYTES} bytes")),
        _ if text.contains(char::is_control) => Err("contains control characters".into()),
        _ => Ok(()),
    }
}

/// Checks a network: a prefix, or a name.
pub(crate) fn check_network(text: &str) -> Result<(), String> {
    check_text(text).map_err(|error| format!("the network {error}"))?;
    if text.contains('/') || text.parse::<std::net::IpAddr>().is_ok() {
        text.parse::<Net>().map_err(|error| error.to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_along_great_circles() {
        let at = |latitude, longitude| Coordinates::new(latitude, longitude).unwrap();
        let (kashima, onsala) = (at(35.9537, 140.6599), at(57.3958, 11.9264));
        // On the ellipsoid WGS 84, by Vincenty's formula: 8605.2 km.
        let km = kashima.distance_km(onsala);
        assert!((km / 8605.2 - 1.0).abs() < 0.006, "{km}");
        assert_eq!(kashima.distance_km(kashima), 0.0);
        // Across the antimeridian, and to the antipode.
        let km = at(0.0, 179.5).distance_km(at(0.0, -179.5));
        assert!((km - 111.2).abs() < 0.1, "{km}");
        let km = at(90.0, 0.0).distance_km(at(-90.0, 77.0));
        assert!((km - 20_015.0).abs() < 1.0, "{km}");
        for (latitude, longitude) in [(90.1, 0.0), (0.0, -181.0), (f64::NAN, 0.0)] {
            assert!(Coordinates::new(latitude, longitude).is_err());
        }
    }

    #[test]
    fn capabilities_and_allowances_follow_from_the_limits() {
        let limits: Limits =
            "[classes.mesh]\nmax_duration = \"60s\"\n[classes.more]\nparent = \"mesh\"\nallow_tcp = false\n\
             [assign]\ndefault = \"mesh\"\n[assign.users]\n\"alice@b\" = \"more\"\n"
                .parse()
                .unwrap();
        let announcement = Announcement::new(Place::default(), &limits, 0.449);
        assert_eq!(announcement.capabilities, ["throughput", "latency", "diagnose", "trace", "transfer"]);
        assert_eq!(announcement.busy_share, 0.4);
        let whom: Vec<(&str, bool, Option<u64>)> = announcement
            .allows
            .iter()
            .map(|some| (some.to.as_str(), some.tcp, some.max_duration_us))
            .collect();
        assert_eq!(whom, [("default", true, Some(60_000_000)), ("user alice@b", false, Some(60_000_000))]);
        announcement.check().unwrap();
        let udp: Limits = "[classes.a]\nallow_udp = true\n[assign]\ndefault = \"a\"\n".parse().unwrap();
        let udp = Announcement::new(Place::default(), &udp, 0.0);
        assert_eq!(
            udp.capabilities,
            ["throughput", "latency", "diagnose", "probe", "trace", "stream", "transfer", "udp"]
        );
        let nobody: Limits = "[classes.a]\n[assign]\n".parse().unwrap();
        assert!(Announcement::new(Place::default(), &nobody, 0.0).capabilities.is_empty());
    }

    #[test]
    fn announcements_of_others_are_checked() {
        let with = |place: Place| Announcement { place, ..Announcement::default() };
        let far = Coordinates { latitude_deg: 91.0, longitude_deg: 0.0 };
        for wrong in [
            with(Place { name: Some("x".repeat(101)), ..Place::default() }),
            with(Place { name: Some("a\u{1b}[2J".into()), ..Place::default() }),
            with(Place { coordinates: Some(far), ..Place::default() }),
            with(Place { networks: vec!["n".into(); 33], ..Place::default() }),
            Announcement { busy_share: 1.5, ..Announcement::default() },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
        assert!(check_network("192.0.2.0/24").is_ok() && check_network("JGN II").is_ok());
        assert!(check_network("192.0.2.1/24").is_err() && check_network("ten/8").is_err());
    }
}
