//! The links of a standing lab and the commands that change them: `link`, `tc`, `ifconfig` and `ip link`.
//!
//! Pure: arguments in, text and changed pipes out.

use net::{Direction, PipeId, PipeSpec};
use scenario::{Scenario, change_direction};

use super::tc::{self, Qdisc, QdiscAction, QdiscPosition, TcCommand};

/// All links.
pub(crate) struct Links(Vec<Link>);

/// Result of a command.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct CommandResult {
    /// Output for the user.
    pub(crate) text: String,
    /// Changed pipes.
    pub(crate) changed: Vec<(PipeId, PipeSpec)>,
}

struct Link {
    name: String,
    ends: [End; 2],
    down: bool,
}

/// One end of a link and the direction from it.
struct End {
    node: String,
    /// Named as in Mininet: hosts and routers count from eth0, switches from eth1.
    device: String,
    mtu: Option<u32>,
    down: bool,
    /// Parameters set by the scenario or by `link`.
    plain: PipeSpec,
    qdiscs: Vec<Qdisc>,
}

impl Links {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let mut used: Vec<(String, usize)> = Vec::new();
        let is_host = |node: &String| scenario.host(node).is_some();
        // A link's MTU is that of its ports on switches and routers; a host's device has its own MTU. Between two hosts the
        // link's MTU applies to both ends.
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

    /// The parameters of a direction of link `index`, as text; side 0 sends forward.
    pub(crate) fn state(&self, index: usize, side: usize) -> String {
        describe(&self.0[index].spec(side))
    }

    /// The port at end `side` of link `index`.
    pub(crate) fn port(&self, index: usize, side: usize) -> &str {
        &self.0[index].ends[side].device
    }

    /// One line for each direction of each link: devices and parameters.
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
    pub(crate) fn link(&mut self, words: &[String]) -> Result<CommandResult, String> {
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

    /// Runs `tc` with these arguments.
    pub(crate) fn tc(&mut self, words: &[String]) -> Result<CommandResult, String> {
        match tc::parse(words)? {
            TcCommand::Show { device } => self.show(device.as_deref()),
            TcCommand::Change { device, action, position, handle, kind } => {
                let (index, side) = self.find_device(&device)?;
                let end = &mut self.0[index].ends[side];
                let mut qdiscs = end.qdiscs.clone();
                change_qdiscs(&mut qdiscs, action, position, handle, kind)?;
                end.qdiscs = qdiscs;
                if end.qdiscs.is_empty() {
                    // As in Mininet, a port without a root qdisc is ideal.
                    let overhead = end.plain.overhead;
                    end.plain = PipeSpec { overhead, ..PipeSpec::default() };
                }
                Ok(CommandResult { text: String::new(), ..self.done(index) })
            }
        }
    }

    /// Runs `ifconfig` or `ip link set [dev]` with these arguments: `s1-eth1 mtu 9000`, `s1-eth1 down`, `s1-eth1 up`, `s1-eth1`.
    pub(crate) fn ifconfig(&mut self, words: &[String]) -> Result<CommandResult, String> {
        let Some((device, rest)) = words.split_first() else {
            return Ok(CommandResult { text: self.list(), ..CommandResult::default() });
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
                    end.mtu = Some(mtu.ok_or_else(|| format!("{text:?} is not an MTU from 68 to 65535"))?);
                }
                other => return Err(format!("ifconfig {other} is not supported on an emulated port")),
            }
        }
        let text = match any {
            true => String::new(),
            false => format!("{device}  mtu {}", end.mtu.map_or("unlimited".into(), |m| m.to_string())),
        };
        Ok(CommandResult { text, ..self.done(index) })
    }

    /// Finds the link with the name `words[0]`, or between the nodes `words[0]` and `words[1]`; returns it with the remaining
    /// words.
    pub(crate) fn find_link<'w>(&self, words: &'w [String]) -> Result<(usize, &'w [String]), String> {
        let named = |name: &str| self.0.iter().position(|l| l.name == name);
        let between = |a: &str, b: &str| {
            self.0.iter().position(|l| {
                let [x, y] = [l.ends[0].node.as_str(), l.ends[1].node.as_str()];
                (x, y) == (a, b) || (x, y) == (b, a)
            })
        };
        let first = words.first().ok_or("no link given")?;
        if let Some(index) = named(first).or_else(|| first.split_once('-').and_then(|(a, b)| between(a, b))) {
            return Ok((index, &words[1..]));
        }
        if let Some(index) = words.get(1).and_then(|second| between(first, second)) {
            return Ok((index, &words[2..]));
        }
        let known: Vec<&str> = self.0.iter().map(|l| l.name.as_str()).collect();
        Err(format!("no link {first}; links are {}", known.join(", ")))
    }

    fn find_device(&self, device: &str) -> Result<(usize, usize), String> {
        let ends = self.0.iter().enumerate().flat_map(|(i, l)| [(i, 0, &l.ends[0]), (i, 1, &l.ends[1])]);
        let found = ends.clone().find(|(_, _, end)| end.device == device);
        found.map(|(link, side, _)| (link, side)).ok_or_else(|| {
            let known: Vec<&str> = ends.map(|(_, _, end)| end.device.as_str()).collect();
            format!("no device {device}; devices are {}", known.join(", "))
        })
    }

    fn show(&self, device: Option<&str>) -> Result<CommandResult, String> {
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
                    // As tc does, with the device after the handle.
                    let text = q.to_string();
                    text.replacen(": ", &format!(": dev {} ", end.device), 1)
                })),
            }
        }
        Ok(CommandResult { text: lines.join("\n"), ..CommandResult::default() })
    }

    /// The result of a command on a link: both pipes, since an MTU or `down` of one end affects both directions.
    fn done(&self, index: usize) -> CommandResult {
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
        CommandResult { text: format!("{}\n{}", line(0), line(1)), changed }
    }
}

impl Link {
    /// The pipe from end `side` to the other.
    fn spec(&self, side: usize) -> PipeSpec {
        let end = &self.ends[side];
        let mut spec = tc::compose(&end.qdiscs, &end.plain);
        // A port does not accept packets larger than its own MTU either (is_skb_forwardable in dev.c).
        spec.mtu = self.ends.iter().filter_map(|e| e.mtu).min();
        spec.down = self.down || self.ends.iter().any(|e| e.down);
        spec
    }
}

/// Adds, changes or removes a qdisc as tc does.
fn change_qdiscs(
    qdiscs: &mut Vec<Qdisc>,
    action: QdiscAction,
    position: QdiscPosition,
    handle: Option<u32>,
    kind: Option<tc::QdiscKind>,
) -> Result<(), String> {
    let parent = match position {
        QdiscPosition::Root => None,
        QdiscPosition::Under(parent) => {
            if !qdiscs.iter().any(|q| q.handle == parent) {
                return Err(format!("no parent qdisc {parent:x}:"));
            }
            Some(parent)
        }
    };
    let there = qdiscs.iter().position(|q| q.parent == parent);
    match (action, there) {
        (QdiscAction::Add, Some(_)) => {
            return Err("a qdisc exists already (Exclusivity flag on, cannot modify)".into());
        }
        (QdiscAction::Change | QdiscAction::Delete, None) => {
            return Err("no such qdisc (cannot find specified qdisc on specified device)".into());
        }
        (QdiscAction::Delete, Some(_)) => delete_below(qdiscs, parent),
        (QdiscAction::Change, Some(at)) => {
            let kind = kind.ok_or("no qdisc given")?;
            if std::mem::discriminant(&qdiscs[at].kind) != std::mem::discriminant(&kind) {
                return Err("change cannot change the kind of a qdisc; use replace".into());
            }
            qdiscs[at].kind = kind;
        }
        (QdiscAction::Add | QdiscAction::Replace, _) => {
            delete_below(qdiscs, parent);
            let free = (0x8001..).find(|h| qdiscs.iter().all(|q| q.handle != *h)).unwrap_or(0x8001);
            let handle = handle.unwrap_or(free);
            if qdiscs.iter().any(|q| q.handle == handle) {
                return Err(format!("qdisc {handle:x}: exists already"));
            }
            qdiscs.push(Qdisc { handle, parent, kind: kind.ok_or("no qdisc given")? });
        }
    }
    Ok(())
}

/// Removes the qdisc under `parent`, and all its descendants.
fn delete_below(qdiscs: &mut Vec<Qdisc>, parent: Option<u32>) {
    while let Some(at) = qdiscs.iter().position(|q| q.parent == parent) {
        let gone = qdiscs.remove(at);
        delete_below(qdiscs, Some(gone.handle));
    }
}

/// The parameters of a direction, in the syntax of the scenario file.
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
    fn tc_commands_change_the_direction_of_a_port() {
        let mut links = links();
        links.tc(&words("qdisc add dev s2-eth1 root handle 1: netem delay 20ms")).unwrap();
        let line = "qdisc add dev s2-eth1 parent 1: handle 2: tbf rate 10gbit burst 5000000 limit 25000000";
        let done = links.tc(&words(line)).unwrap();
        let (pipe, spec) = &done.changed[1];
        assert_eq!((pipe.link, pipe.direction), (1, Direction::Backward));
        assert_eq!((spec.delay, spec.queue), (Time::from_millis(20), QueueLimit::Bytes(Bytes(25_000_000))));
        assert_eq!(done.changed[0].1.delay, Time::from_millis(5), "the other direction is unchanged");
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
    fn a_link_has_the_smaller_mtu_of_both_ends() {
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
            ("", "no link given"),
        ] {
            let error = links.link(&words(line)).unwrap_err();
            assert!(error.contains(named), "{line}: {error}");
        }
    }
}
