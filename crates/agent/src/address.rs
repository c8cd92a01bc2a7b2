//! Addresses of the form `HOST:PORT`.

/// Splits `HOST:PORT` and `[ADDRESS]:PORT`.
pub(crate) fn host_and_port(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let is_bare_v6 = host.contains(':') && !address.starts_with('[');
    if host.is_empty() || is_bare_v6 {
        return None;
    }
    Some((host, port.parse().ok().filter(|port| *port != 0)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_and_a_port() {
        assert_eq!(host_and_port("a.example:1"), Some(("a.example", 1)));
        assert_eq!(host_and_port("[2001:db8::1]:22"), Some(("2001:db8::1", 22)));
        for address in ["a", "a:", ":1", "a:0", "a:70000", "2001:db8::1", "[::1]"] {
            assert_eq!(host_and_port(address), None, "{address}");
        }
    }
}
