//! Limits of queues: `25MB` or `100p`.

use net::QueueLimit;
use units::{Bytes, ParseError};

use crate::read::Reader;

/// The limit of a queue, which must be above zero.
pub(crate) fn read_queue(key: &str, reader: &mut Reader) -> Option<QueueLimit> {
    let queue = reader.parsed(key, parse_queue)?;
    if matches!(queue, QueueLimit::Bytes(Bytes(0)) | QueueLimit::Packets(0)) {
        reader.report(key, format!("\"{key}\" cannot be zero"), "write for example \"25MB\" or \"100p\"");
    }
    Some(queue)
}

/// Parses `25MB` or `100p`.
pub(crate) fn parse_queue(text: &str) -> Result<QueueLimit, ParseError> {
    let number = ["packets", "packet", "p"].iter().find_map(|unit| text.trim().strip_suffix(unit));
    match number.map(|n| n.trim().replace('_', "")) {
        Some(n) if n.bytes().all(|b| b.is_ascii_digit()) => match n.parse() {
            Ok(packets) => Ok(QueueLimit::Packets(packets)),
            Err(_) if n.is_empty() => {
                Err(ParseError::NotANumber { input: text.into(), example: "100p or 25MB" })
            }
            Err(_) => Err(ParseError::TooLarge {
                input: text.into(),
                what: "queue",
                limit: "18446744073709551615p",
            }),
        },
        Some(_) => Err(ParseError::NotANumber { input: text.into(), example: "100p or 25MB" }),
        None => text.parse().map(QueueLimit::Bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues() {
        for (text, queue) in [
            ("100p", QueueLimit::Packets(100)),
            ("1_000 packets", QueueLimit::Packets(1000)),
            ("0p", QueueLimit::Packets(0)),
            ("25MB", QueueLimit::Bytes(Bytes(25_000_000))),
            ("25 MiB", QueueLimit::Bytes(Bytes(26_214_400))),
        ] {
            assert_eq!(parse_queue(text), Ok(queue), "{text}");
        }
        for bad in ["p", "", "-1p", "1.5p", "100", "25M", "99999999999999999999p", "é", "xp"] {
            assert!(parse_queue(bad).is_err(), "{bad}");
        }
    }
}
