//! Names of axes for readers: `flows.bulk.send_buffer` with values in KiB is "Send buffer (KiB)".

use crate::chart_value::ChartValue;
use crate::number::significant;

/// Names of keys that are not plain words.
const KEYS: [(&str, &str); 8] = [
    ("cc", "Congestion control"),
    ("mtu", "MTU"),
    ("mss", "MSS"),
    ("rtt", "Round-trip time"),
    ("cwnd", "Congestion window"),
    ("packet", "Datagram size"),
    ("tx_queue", "Transmit queue of the card"),
    ("steady_goodput", "Steady goodput"),
];
/// Units of scenario files, and the same units as they are written on axes.
const UNITS: [(&str, &str); 6] = [
    ("p", "packets"),
    ("bit", "b/s"),
    ("kbit", "kb/s"),
    ("mbit", "Mb/s"),
    ("gbit", "Gb/s"),
    ("tbit", "Tb/s"),
];

/// The name of a field or metric: its last key in words.
pub(crate) fn title(path: &str) -> String {
    if path.ends_with('"') {
        // A sysctl keeps its name.
        return path.trim_end_matches('"').rsplit('"').next().unwrap_or(path).to_owned();
    }
    let key = path.rsplit('.').next().unwrap_or(path);
    if let Some((_, name)) = KEYS.iter().find(|(known, _)| *known == key) {
        return (*name).to_owned();
    }
    let words = key.split('_').map(|word| if word == "rtt" { "RTT" } else { word });
    let mut text = words.collect::<Vec<_>>().join(" ");
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    text
}

/// A name with its unit, if it has one.
pub(crate) fn with_unit(name: &str, unit: &str) -> String {
    if unit.is_empty() { name.to_owned() } else { format!("{name} ({unit})") }
}

/// The name of the horizontal axis with the unit of all its values, and the values without this unit. Values
/// in several units keep their units.
pub(crate) fn across(path: &str, mut values: Vec<ChartValue>) -> (String, Vec<ChartValue>) {
    let unit = match values.first() {
        Some(first) => split(&first.text).1.to_owned(),
        None => String::new(),
    };
    if unit.is_empty() || values.iter().any(|value| value.number.is_none() || split(&value.text).1 != unit) {
        return (title(path), values);
    }
    values.iter_mut().for_each(|value| value.text = split(&value.text).0.to_owned());
    let shown = UNITS.iter().find(|(known, _)| *known == unit).map_or(unit.as_str(), |(_, shown)| shown);
    (format!("{} ({shown})", title(path)), values)
}

/// The number `at`, in the unit of the values of the axis: `knee at 17.8 MiB`.
pub(crate) fn value_like(values: &[ChartValue], at: f64) -> String {
    let scaled = |value: &ChartValue| {
        let (text, unit) = split(&value.text);
        let factor = value.number? / text.parse::<f64>().ok().filter(|shown| *shown > 0.0)?;
        Some((at / factor, unit.to_owned()))
    };
    // The value nearest to it has the best unit.
    let distance = |value: &&ChartValue| value.number.map_or(f64::INFINITY, |number| (number - at).abs());
    let nearest = values.iter().min_by(|a, b| distance(a).total_cmp(&distance(b))).and_then(scaled);
    let (number, unit) = nearest.unwrap_or((at, String::new()));
    let shown = UNITS.iter().find(|(known, _)| *known == unit).map_or(unit.as_str(), |(_, shown)| shown);
    let number = if number >= 100.0 { format!("{number:.0}") } else { significant(number, 3) };
    format!("{number} {shown}").trim_end().to_owned()
}

/// A value's number and unit.
fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (text[..end].trim(), text[end..].trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(texts: &[&str]) -> Vec<ChartValue> {
        texts.iter().map(|text| ChartValue { text: (*text).into(), number: Some(1.0) }).collect()
    }

    #[test]
    fn titles_are_words() {
        for (path, name) in [
            ("flows.bulk.send_buffer", "Send buffer"),
            ("flows.bulk.cc", "Congestion control"),
            ("flows.bulk.min_rtt", "Min RTT"),
            ("links.s1-s2.forward.queue", "Queue"),
            ("hosts.*.sysctl.\"net.ipv4.tcp_rmem\"", "net.ipv4.tcp_rmem"),
            ("", ""),
        ] {
            assert_eq!(title(path), name);
        }
    }

    #[test]
    fn a_common_unit_is_in_the_name_and_not_in_the_tick_labels() {
        let (name, ticks) = across("links.a-b.forward.rate", values(&["10gbit", "2.5gbit"]));
        assert_eq!((name.as_str(), ticks[1].text.as_str()), ("Rate (Gb/s)", "2.5"));
        let (name, ticks) = across("flows.bulk.send_buffer", values(&["64KiB", "1MiB"]));
        assert_eq!((name.as_str(), ticks[0].text.as_str()), ("Send buffer", "64KiB"));
        assert_eq!(across("flows.bulk.streams", values(&["1", "2"])).0, "Streams");
        let sizes = |number| vec![ChartValue { text: "4KiB".into(), number: Some(number) }];
        assert_eq!(value_like(&sizes(4096.0), 3686.4), "3.60 KiB");
        assert_eq!(value_like(&values(&["none"]), 7.0), "7.00");
        assert_eq!(across("flows.bulk.loss", values(&["0.1%", "1%"])).0, "Loss (%)");
    }
}
