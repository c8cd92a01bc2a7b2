//! `ifconfig` and `ip link`: set ports up and down, and change their MTUs.

use super::{CommandResult, Links};

impl Links {
    /// Runs `ifconfig` or `ip link set [dev]` with these arguments: `s1-eth1 mtu 9000`, `s1-eth1 down`,
    /// `s1-eth1 up`, `s1-eth1`.
    pub(crate) fn ifconfig(&mut self, arguments: &[String]) -> Result<CommandResult, String> {
        let Some((device, remaining)) = arguments.split_first() else {
            return Ok(CommandResult { text: self.list(), ..CommandResult::default() });
        };
        let (index, side) = self.find_device(device)?;
        let end = &mut self.0[index].ends[side];
        let (mut down, mut new_mtu) = (end.down, end.mtu);
        let mut remaining = remaining.iter().map(String::as_str);
        let mut any = false;
        while let Some(argument) = remaining.next() {
            any = true;
            match argument {
                "up" => down = false,
                "down" => down = true,
                "mtu" => {
                    let text = remaining.next().ok_or("mtu needs a number of bytes")?;
                    let mtu = text.parse().ok().filter(|m| (68..=65_535).contains(m));
                    new_mtu = Some(mtu.ok_or_else(|| format!("{text:?} is not an MTU from 68 to 65535"))?);
                }
                other => return Err(format!("ifconfig {other} is not supported on an emulated port")),
            }
        }
        // Applied only now, so that a command with an unsupported argument changes nothing.
        (end.down, end.mtu) = (down, new_mtu);
        let text = match any {
            true => String::new(),
            false => format!("{device}  mtu {}", end.mtu.map_or("unlimited".into(), |m| m.to_string())),
        };
        Ok(CommandResult { text, ..self.done(index) })
    }
}

#[cfg(test)]
mod tests {
    use crate::standing::links::tests::{arguments, links};

    #[test]
    fn an_ifconfig_with_an_error_changes_nothing() {
        let mut links = links();
        let before = links.list();
        for line in ["s1-eth2 down mtu 67", "s1-eth2 mtu 9000 down promisc", "s1-eth2 mtu 9000 mtu"] {
            assert!(links.ifconfig(&arguments(line)).is_err(), "{line}");
            assert_eq!(links.list(), before, "{line}");
        }
        links.ifconfig(&arguments("s1-eth2 mtu 9000 down")).unwrap();
        assert_ne!(links.list(), before);
    }

    #[test]
    fn a_link_has_the_smaller_mtu_of_both_ends() {
        let mut links = links();
        links.ifconfig(&arguments("s1-eth2 mtu 9000")).unwrap();
        let done = links.ifconfig(&arguments("s2-eth1 mtu 1500")).unwrap();
        assert!(done.changed.iter().all(|(_, spec)| spec.mtu == Some(1500)));
        let done = links.ifconfig(&arguments("s2-eth1 mtu 9000")).unwrap();
        assert!(done.changed.iter().all(|(_, spec)| spec.mtu == Some(9000)));
        assert!(links.ifconfig(&arguments("s1-eth2 mtu many")).is_err());
        assert!(links.ifconfig(&arguments("s1-eth2 promisc")).unwrap_err().contains("promisc"));
    }
}
