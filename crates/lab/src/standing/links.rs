//! The links of a standing lab and what people do to them while it runs: `link`, `tc`, `ifconfig` and `ip link`.
//!
//! Pure: words in, text and changed pipes out.

use net::{Direction, PipeId, PipeSpec};
use scenario::{Scenario, change_direction};

use super::tc::{self, Action, Place, Qdisc, Tc};

/// All links.
pub(crate) struct Links(Vec<Link>);

/// What a command did.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Done {
    /// For people.
    pub(crate) text: String,
    /// Pipes that are different now.
    pub(crate) changed: Vec<(PipeId, PipeSpec)>,
}

struct Link {
    name: String,
    ends: [End; 2],
    down: bool,
}

/// One end of a link and the direction that it sends in.
struct End {
    node: String,
    /// As in Mininet: hosts and routers count from eth0, switches from eth1.
    device: String,
    mtu: Option<u32>,
    down: bool,
    /// What the scenario, or `link`, says.
    plain: PipeSpec,
    qdiscs: Vec<Qdisc>,
}

impl Links {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let mut used: Vec<(String, usize)> = Vec::new();
        let is_host = |node: &String| scenario.host(node).is_some();
        // A link's MTU is that of its ports on switches and routers; a host's device has its own. Only between hosts it
        // is the link's alone.
        let mut end = |node: &String, spec: &PipeSpec, has_port: bool| {
            let first = usize::from(scenario.switches.contains(node));
            let number = match used.iter_mut().find(|(name, _)| name == node) {
                Some((_, number)) => {
                    *number += 1;
                    *number
                }
                None => {
                    used.push((node.clone(), first));
                    first
                }
            };
            let device = format!("{node}-eth{number}");
            let mut plain = spec.clone();
            let mtu = plain.mtu.take().filter(|_| !has_port || !is_host(node));
            End { node: node.clone(), device, mtu, down: false, plain, qdiscs: Vec::new() }
        };
        let link = |link: &scenario::Link| Link {
            name: link.name.clone(),
            ends: {
                let has_port = !link.ends.iter().all(is_host);
                [(0, &link.forward), (1, &link.backward)].map(|(i, spec)| end(&link.ends[i], spec, has_port))
            },
            down: false,
        };
        Links(scenario.links.iter().map(link).collect())
    }

    /// What a direction of the link `index` does; side 0 sends forward.
    pub(crate) fn state(&self, index: usize, side: usize) -> String {
        describe(&self.0[index].spec(side))
    }

    /// One line for each direction of each link: device and what it does.
    pub(crate) fn list(&self) -> String {
        let mut lines = Vec::new();
        for link in &self.0 {
            for (i, end) in link.ends.iter().enumerate() {
                let other = &link.ends[1 - i];
                let state = describe(&link.spec(i));
                lines.push(format!("{}  {} -> {}  {state}", link.name, end.device, other.device));
            }
        }
        lines.join("\n")
    }

    /// `link s1-s2 down`, `link s1 s2 up`, `link s1-s2 [forward|backward] delay 50ms loss 1%`.
    pub(crate) fn link(&mut self, words: &[String]) -> Result<Done, String> {
        let (index, rest) = self.find_link(words)?;
        let link = &mut self.0[index];
        let (sides, rest): (&[usize], _) = match rest.first().map(String::as_str) {
            Some("forward") => (&[0], &rest[1..]),
            Some("backward") => (&[1], &rest[1..]),
            _ => (&[0, 1], rest),
        };
        match rest.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [] => {}
            ["up"] => link.down = false,
            ["down"] => link.down = true,
            ref pairs if pairs.len() % 2 == 0 => {
                let pairs: Vec<(&str, &str)> = pairs.chunks(2).map(|p| (p[0], p[1])).collect();
                let mut changed = Vec::new();
                for side in sides {
                    let end = &link.ends[*side];
                    let mut whole = end.plain.clone();
                    whole.mtu = end.mtu;
                    changed.push(change_direction(&whole, &pairs)?);
                }
                for (side, mut spec) in sides.iter().zip(changed) {
                    let end = &mut link.ends[*side];
                    end.mtu = spec.mtu.take();
                    end.plain = spec;
                    end.qdiscs.clear();
                }
            }
            _ => return Err("write for example: link s1-s2 down, or link s1-s2 delay 50ms loss 1%".into()),
        }
        Ok(self.done(index))
    }

    /// The words after `tc`.
    pub(crate) fn tc(&mut self, words: &[String]) -> Result<Done, String> {
        match tc::parse(words)? {
            Tc::Show { device } => self.show(device.as_deref()),
            Tc::Change { device, action, place, handle, kind } => {
                let (index, side) = self.find_device(&device)?;
                let end = &mut self.0[index].ends[side];
                let mut qdiscs = end.qdiscs.clone();
                change_qdiscs(&mut qdiscs, action, place, handle, kind)?;
                end.qdiscs = qdiscs;
                if end.qdiscs.is_empty() {
                    // As in Mininet: without its root qdisc a port does nothing to packets.
                    let overhead = end.plain.overhead;
                    end.plain = PipeSpec { overhead, ..PipeSpec::default() };
                }
                Ok(Done { text: String::new(), ..self.done(index) })
            }
        }
    }

    /// `s1-eth1 mtu 9000`, `s1-eth1 down`, `s1-eth1 up`, `s1-eth1`: the words after `ifconfig` or `ip link set [dev]`.
    pub(crate) fn ifconfig(&mut self, words: &[String]) -> Result<Done, String> {
        let Some((device, rest)) = words.split_first() else {
            return Ok(Done { text: self.list(), ..Done::default() });
        };
        let (index, side) = self.find_device(device)?;
        let end = &mut self.0[index].ends[side];
        let mut rest = rest.iter().map(String::as_str);
        let mut any = false;
        while let Some(word) = rest.next() {
            any = true;
            match word {
                "up" => end.down = false,
                "down" => end.down = true,
                "mtu" => {
                    let text = rest.next().ok_or("mtu needs a number of bytes")?;
                    let mtu = text.parse().ok().filter(|m| (68..=65_535).contains(m));
                    end.mtu = Some(mtu.ok_or_else(|| format!("{text:?} is no MTU from 68 to 65535"))?);
                }
                other => return Err(format!("ifconfig {other} is not understood on an emulated port")),
            }
        }
        let text = match any {
            true => String::new(),
            false => format!("{device}  mtu {}", end.mtu.map_or("unlimited".into(), |m| m.to_string())),
        };
        Ok(Done { text, ..self.done(index) })
    }

    /// The link called so, or between these two, and the words after it.
    pub(crate) fn find_link<'w>(&self, words: &'w [String]) -> Result<(usize, &'w [String]), String> {
        let named = |name: &str| self.0.iter().position(|l| l.name == name);
        let between = |a: &str, b: &str| {
            self.0.iter().position(|l| {
                let [x, y] = [l.ends[0].node.as_str(), l.ends[1].node.as_str()];
                (x, y) == (a, b) || (x, y) == (b, a)
            })
        };
        let first = words.first().ok_or("which link?")?;
        if let Some(index) = named(first).or_else(|| first.split_once('-').and_then(|(a, b)| between(a, b))) {
            return Ok((index, &words[1..]));
        }
        if let Some(index) = words.get(1).and_then(|second| between(first, second)) {
            return Ok((index, &words[2..]));
        }
        let known: Vec<&str> = self.0.iter().map(|l| l.name.as_str()).collect();
        Err(format!("there is no link {first}; there are {}", known.join(", ")))
    }

    fn find_device(&self, device: &str) -> Result<(usize, usize), String> {
        let ends = self.0.iter().enumerate().flat_map(|(i, l)| [(i, 0, &l.ends[0]), (i, 1, &l.ends[1])]);
        let found = ends.clone().find(|(_, _, end)| end.device == device);
        found.map(|(link, side, _)| (link, side)).ok_or_else(|| {
            let known: Vec<&str> = ends.map(|(_, _, end)| end.device.as_str()).collect();
            format!("there is no device {device}; there are {}", known.join(", "))
        })
    }

    fn show(&self, device: Option<&str>) -> Result<Done, String> {
        let mut lines = Vec::new();
        if let Some(device) = device {
            self.find_device(device)?;
        }
        for end in self.0.iter().flat_map(|l| &l.ends).filter(|e| device.is_none_or(|d| d == e.device)) {
            match end.qdiscs.is_empty() {
                true => {
                    lines.push(format!("qdisc longfat 0: dev {} root {}", end.device, describe(&end.plain)))
                }
                false => lines.extend(end.qdiscs.iter().map(|q| {
                    // As tc prints them: the device after the handle.
                    let text = q.to_string();
                    text.replacen(": ", &format!(": dev {} ", end.device), 1)
                })),
            }
        }
        Ok(Done { text: lines.join("\n"), ..Done::default() })
    }

    /// What a command has made of a link: both pipes, since an MTU or `down` of one end is felt in both directions.
    fn done(&self, index: usize) -> Done {
        let link = &self.0[index];
        let pipe = |side| PipeId {
            link: index as u32,
            direction: if side == 0 { Direction::Forward } else { Direction::Backward },
        };
        let changed: Vec<(PipeId, PipeSpec)> = (0..2).map(|side| (pipe(side), link.spec(side))).collect();
        let line = |side: usize| {
            format!(
                "{} -> {}  {}",
                link.ends[side].device,
                link.ends[1 - side].device,
                describe(&changed[side].1)
            )
        };
        Done { text: format!("{}\n{}", line(0), line(1)), changed }
    }
}

impl Link {
    /// The pipe from end `side` to the other.
    fn spec(&self, side: usize) -> PipeSpec {
        let end = &self.ends[side];
        let mut spec = tc::compose(&end.qdiscs, &end.plain);
        // A port takes in no packet that is larger than its own MTU either (is_skb_forwardable in dev.c).
        spec.mtu = self.ends.iter().filter_map(|e| e.mtu).min();
        spec.down = self.down || self.ends.iter().any(|e| e.down);
        spec
    }
}

/// Adds, changes or takes away a qdisc as tc does.
fn change_qdiscs(
    qdiscs: &mut Vec<Qdisc>,
    action: Action,
    place: Place,
    handle: Option<u32>,
    kind: Option<tc::QdiscKind>,
) -> Result<(), String> {
    let parent = match place {
        Place::Root => None,
        Place::Under(parent) => {
            if !qdiscs.iter().any(|q| q.handle == parent) {
                return Err(format!("there is no qdisc {parent:x}: above"));
            }
            Some(parent)
        }
    };
    let there = qdiscs.iter().position(|q| q.parent == parent);
    match (action, there) {
        (Action::Add, Some(_)) => {
            return Err("there is a qdisc already (Exclusivity flag on, cannot modify)".into());
        }
        (Action::Change | Action::Delete, None) => {
            return Err("there is no such qdisc (cannot find specified qdisc on specified device)".into());
        }
        (Action::Delete, Some(_)) => delete_below(qdiscs, parent),
        (Action::Change, Some(at)) => {
            let kind = kind.ok_or("which qdisc?")?;
            if std::mem::discriminant(&qdiscs[at].kind) != std::mem::discriminant(&kind) {
                return Err("change cannot make one qdisc another; use replace".into());
            }
            qdiscs[at].kind = kind;
        }
        (Action::Add | Action::Replace, _) => {
            delete_below(qdiscs, parent);
            let free = (0x8001..).find(|h| qdiscs.iter().all(|q| q.handle != *h)).unwrap_or(0x8001);
            let handle = handle.unwrap_or(free);
            if qdiscs.iter().any(|q| q.handle == handle) {
                return Err(format!("there is a qdisc {handle:x}: already"));
            }
            qdiscs.push(Qdisc { handle, parent, kind: kind.ok_or("which qdisc?")? });
        }
    }
    Ok(())
}

/// Takes the qdisc under `parent` away, and all under it.
fn delete_below(qdiscs: &mut Vec<Qdisc>, parent: Option<u32>) {
    while let Some(at) = qdiscs.iter().position(|q| q.parent == parent) {
        let gone = qdiscs.remove(at);
        delete_below(qdiscs, Some(gone.handle));
    }
}

/// A direction in the words of the scenario file.
fn describe(spec: &PipeSpec) -> String {
    if *spec == (PipeSpec { overhead: spec.overhead, ..PipeSpec::default() }) {
        return "ideal".into();
    }
    scenario::describe_direction(spec)
}

#[cfg(test)]
mod tests {
    use net::{QueueLimit, Rate};
    use units::{BitRate, Bytes, Time};

    use super::*;

    fn links() -> Links {
        let text = r#"
            duration = "1s"
            hosts.h1.address = "10.0.0.1/8"
            hosts.h2.address = "10.0.0.2/8"
            switches.names = ["s1", "s2"]
            links = [{ ends = ["h1", "s1"] }, { ends = ["s1", "s2"], forward = { rate = "1gbit", delay = "5ms" } }, { ends = ["s2", "h2"] }]
            flows = [{ name = "f", from = "h1", to = "h2" }]
        "#;
        Links::new(&scenario::ScenarioFile::parse("x.toml", text).unwrap().resolve(None, &[]).unwrap())
    }

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn devices_are_named_as_in_mininet() {
        let links = links();
        let devices: Vec<&str> = links.0.iter().flat_map(|l| &l.ends).map(|e| e.device.as_str()).collect();
        assert_eq!(devices, ["h1-eth0", "s1-eth1", "s1-eth2", "s2-eth1", "s2-eth2", "h2-eth0"]);
    }

    #[test]
    fn tc_builds_the_lab_on_a_port() {
        let mut links = links();
        links.tc(&words("qdisc add dev s2-eth1 root handle 1: netem delay 20ms")).unwrap();
        let line = "qdisc add dev s2-eth1 parent 1: handle 2: tbf rate 10gbit burst 5000000 limit 25000000";
        let done = links.tc(&words(line)).unwrap();
        let (pipe, spec) = &done.changed[1];
        assert_eq!((pipe.link, pipe.direction), (1, Direction::Backward));
        assert_eq!((spec.delay, spec.queue), (Time::from_millis(20), QueueLimit::Bytes(Bytes(25_000_000))));
        assert_eq!(done.changed[0].1.delay, Time::from_millis(5), "the other direction stays");
        let shown = links.tc(&words("qdisc show dev s2-eth1")).unwrap().text;
        assert_eq!(shown.lines().count(), 2);
        assert!(shown.starts_with("qdisc netem 1: dev s2-eth1 root limit 1000 delay 20ms"), "{shown}");
        assert!(links.tc(&words(line)).unwrap_err().contains("already"));
        links.tc(&words("qdisc change dev s2-eth1 root handle 1: netem loss 1%")).unwrap();
        let done = links.tc(&words("qdisc del dev s2-eth1 root")).unwrap();
        assert_eq!(done.changed[1].1, PipeSpec::default());
        assert!(links.tc(&words("qdisc del dev s2-eth1 root")).is_err());
        assert!(
            links.tc(&words("qdisc add dev s9-eth1 root netem delay 1ms")).unwrap_err().contains("s1-eth1")
        );
    }

    #[test]
    fn the_smaller_mtu_of_both_ends_counts() {
        let mut links = links();
        links.ifconfig(&words("s1-eth2 mtu 9000")).unwrap();
        let done = links.ifconfig(&words("s2-eth1 mtu 1500")).unwrap();
        assert!(done.changed.iter().all(|(_, spec)| spec.mtu == Some(1500)));
        let done = links.ifconfig(&words("s2-eth1 mtu 9000")).unwrap();
        assert!(done.changed.iter().all(|(_, spec)| spec.mtu == Some(9000)));
        assert!(links.ifconfig(&words("s1-eth2 mtu many")).is_err());
        assert!(links.ifconfig(&words("s1-eth2 promisc")).unwrap_err().contains("promisc"));
    }

    #[test]
    fn links_change_by_name_or_ends() {
        let mut links = links();
        let down = links.link(&words("s1 s2 down")).unwrap();
        assert!(down.changed.iter().all(|(_, spec)| spec.down));
        let up = links.link(&words("s2-s1 up")).unwrap();
        assert!(up.changed.iter().all(|(_, spec)| !spec.down));
        let slow = links.link(&words("s1-s2 forward delay 50ms rate 10mbit")).unwrap();
        let spec = &slow.changed[0].1;
        assert_eq!((spec.delay, &spec.rate), (Time::from_millis(50), &Rate::Constant(BitRate(10_000_000))));
        assert_eq!(slow.changed[1].1.delay, Time::ZERO);
        for (line, named) in [
            ("s1-s9 down", "h1-s1"),
            ("s1-s2 dealy 5ms", "delay"),
            ("s1-s2 delay", "for example"),
            ("s1-s2 delay quick", "quick"),
            ("", "which"),
        ] {
            let error = links.link(&words(line)).unwrap_err();
            assert!(error.contains(named), "{line}: {error}");
        }
    }
}
