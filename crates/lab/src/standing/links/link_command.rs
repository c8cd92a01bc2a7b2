//! `link`: sets links up and down, and changes their parameters as a scenario does.

use scenario::change_direction;

use super::{CommandResult, Links};
use crate::standing::tc_compose::compose;

impl Links {
    /// `link s1-s2 down`, `link s1 s2 forward up`, `link s1-s2 [forward|backward] delay 50ms loss 1%`.
    pub(crate) fn link(&mut self, arguments: &[String]) -> Result<CommandResult, String> {
        let (index, remaining) = self.find_link(arguments)?;
        let link = &mut self.0[index];
        let (sides, remaining): (&[usize], _) = match remaining.first().map(String::as_str) {
            Some("forward") => (&[0], &remaining[1..]),
            Some("backward") => (&[1], &remaining[1..]),
            _ => (&[0, 1], remaining),
        };
        match remaining.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [] => {}
            [word @ ("up" | "down")] => {
                sides.iter().for_each(|side| link.ends[*side].plain.down = word == "down");
            }
            ref pairs if pairs.len() % 2 == 0 => {
                let pairs: Vec<(&str, &str)> = pairs.chunks(2).map(|p| (p[0], p[1])).collect();
                let mut changed = Vec::new();
                for side in sides {
                    let end = &link.ends[*side];
                    let mut whole = end.plain.clone();
                    whole.mtu = end.mtu;
                    let spec = change_direction(&whole, &pairs)?;
                    // Without qdiscs, and with the policer of the port at the other end.
                    compose(&[], &spec, link.ends[1 - *side].police.as_ref())?;
                    changed.push(spec);
                }
                for (side, spec) in sides.iter().zip(changed) {
                    let end = &mut link.ends[*side];
                    end.mtu = end.replace_parameters(spec);
                }
            }
            _ => return Err("write for example: link s1-s2 down, or link s1-s2 delay 50ms loss 1%".into()),
        }
        Ok(self.done(index))
    }

    /// Finds the link with the name `arguments[0]`, or between the nodes `arguments[0]` and `arguments[1]`;
    /// returns it with the remaining arguments.
    fn find_link<'w>(&self, arguments: &'w [String]) -> Result<(usize, &'w [String]), String> {
        let named = |name: &str| self.0.iter().position(|l| l.name == name);
        let between = |a: &str, b: &str| {
            self.0.iter().position(|l| {
                let [x, y] = [l.ends[0].node.as_str(), l.ends[1].node.as_str()];
                (x, y) == (a, b) || (x, y) == (b, a)
            })
        };
        let first = arguments.first().ok_or("no link given")?;
        if let Some(index) = named(first).or_else(|| first.split_once('-').and_then(|(a, b)| between(a, b))) {
            return Ok((index, &arguments[1..]));
        }
        if let Some(index) = arguments.get(1).and_then(|second| between(first, second)) {
            return Ok((index, &arguments[2..]));
        }
        let known: Vec<&str> = self.0.iter().map(|l| l.name.as_str()).collect();
        Err(format!("no link {first}; links are {}", known.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use net::Rate;
    use units::{BitRate, Time};

    use super::*;
    use crate::standing::links::tests::{arguments, links, tc};

    /// It was set down by the scenario, or by `link`.
    #[test]
    fn a_direction_stays_down_until_it_is_set_up() {
        let mut links = links();
        links.0[1].ends[0].plain.down = true;
        let down = |done: CommandResult| done.changed.iter().map(|(_, spec)| spec.down).collect::<Vec<_>>();
        let mut link = |line: &str| down(links.link(&arguments(line)).unwrap());
        assert_eq!(link("s1-s2"), [true, false]);
        assert_eq!(link("s1-s2 delay 2ms"), [true, false]);
        assert_eq!(link("s1-s2 backward down"), [true, true]);
        assert_eq!(link("s1-s2 forward up"), [false, true]);
        assert_eq!(link("s1-s2 forward down true"), [true, true]);
        assert_eq!(link("s1-s2 up"), [false, false]);
        assert_eq!(link("s1-s2 down"), [true, true]);
        tc(&mut links, "qdisc add dev s1-eth2 root netem delay 1ms").unwrap();
        let deleted = tc(&mut links, "qdisc del dev s1-eth2 root").unwrap();
        assert_eq!(down(deleted), [true, true], "qdiscs do not set a link up");
    }

    #[test]
    fn a_link_with_a_policer_gets_no_rate() {
        let mut links = links();
        tc(&mut links, "qdisc add dev s1-eth1 ingress").unwrap();
        tc(&mut links, "filter add dev s1-eth1 parent ffff: matchall police rate 1mbit burst 10k drop")
            .unwrap();
        let before = links.list();
        let error = links.link(&arguments("h1-s1 rate 1gbit")).unwrap_err();
        assert!(error.contains("police"), "{error}");
        assert_eq!(links.list(), before);
        let done = links.link(&arguments("h1-s1 delay 5ms")).unwrap();
        let spec = &done.changed[0].1;
        assert_eq!((&spec.rate, spec.delay), (&Rate::Constant(BitRate(1_000_000)), Time::from_millis(5)));
        let done = links.link(&arguments("h1-s1 backward rate 1gbit")).unwrap();
        assert_eq!(done.changed[1].1.rate, Rate::Constant(BitRate(1_000_000_000)));
    }

    #[test]
    fn links_change_by_name_or_ends() {
        let mut links = links();
        let down = links.link(&arguments("s1 s2 down")).unwrap();
        assert!(down.changed.iter().all(|(_, spec)| spec.down));
        let up = links.link(&arguments("s2-s1 up")).unwrap();
        assert!(up.changed.iter().all(|(_, spec)| !spec.down));
        let slow = links.link(&arguments("s1-s2 forward delay 50ms rate 10mbit")).unwrap();
        let spec = &slow.changed[0].1;
        assert_eq!((spec.delay, &spec.rate), (Time::from_millis(50), &Rate::Constant(BitRate(10_000_000))));
        assert_eq!(slow.changed[1].1.delay, Time::ZERO);
        for (line, named) in [
            ("s1-s9 down", "h1-s1"),
            ("s1-s2 dealy 5ms", "delay"),
            ("s1-s2 delay", "for example"),
            ("s1-s2 delay quick", "quick"),
            ("", "no link given"),
        ] {
            let error = links.link(&arguments(line)).unwrap_err();
            assert!(error.contains(named), "{line}: {error}");
        }
    }
}
