//! The links of a standing lab and the commands that change them: `link`, `tc`, `ifconfig` and `ip link`.
//!
//! Pure: arguments in, text and changed pipes out.

use net::{Direction, PipeCounters, PipeId, PipeSpec};
use scenario::{Scenario, change_direction};
use units::Time;

use super::{
    tc::{self, Qdisc, QdiscAction, QdiscKind, QdiscPosition, TcCommand, TcObject},
    tc_change::{change_classes, change_qdiscs, counters_of},
    tc_compose::{compose, describe_class, format_rate, warning},
    tc_kinds::Police,
};

/// All links, and the pending changes of the scenario, the next one last.
pub(crate) struct Links(Vec<Link>, Vec<TimedChange>);

/// A change of a link at a time since the lab came up.
struct TimedChange {
    at: Time,
    link: usize,
    /// The parameters of both directions.
    directions: [PipeSpec; 2],
}

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
}

/// One end of a link and the direction from it.
struct End {
    node: String,
    /// Named as in Mininet: hosts and routers count from eth0, switches from eth1.
    device: String,
    mtu: Option<u32>,
    /// Whether the link's MTU applies to it, and not that of a host's device.
    has_link_mtu: bool,
    down: bool,
    /// Parameters set by the scenario or by `link`.
    plain: PipeSpec,
    qdiscs: Vec<Qdisc>,
    /// The counters of this direction when its root qdisc was added.
    since: PipeCounters,
    /// Whether there is an ingress qdisc, and its policer.
    has_ingress: bool,
    police: Option<Police>,
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
            let has_link_mtu = !has_port || !is_host(node);
            let mtu = plain.mtu.take().filter(|_| has_link_mtu);
            End {
                node: node.clone(),
                device,
                mtu,
                has_link_mtu,
                down: false,
                plain,
                qdiscs: Vec::new(),
                since: PipeCounters::default(),
                has_ingress: false,
                police: None,
            }
        };
        let link = |link: &scenario::Link| Link {
            name: link.name.clone(),
            ends: {
                let has_port = !link.ends.iter().all(is_host);
                [(0, &link.forward), (1, &link.backward)].map(|(i, spec)| end(&link.ends[i], spec, has_port))
            },
        };
        let links = scenario.links.iter().map(link).collect();
        let changes = scenario.links.iter().enumerate().flat_map(|(index, link)| {
            link.changes.iter().map(move |change| TimedChange {
                at: change.at,
                link: index,
                directions: [change.forward.clone(), change.backward.clone()],
            })
        });
        let mut changes: Vec<TimedChange> = changes.collect();
        changes.sort_by_key(|change| std::cmp::Reverse(change.at));
        Links(links, changes)
    }

    /// Adopts the scenario's changes that the emulator has made until `now`, a time since the lab came up. They replace
    /// parameters and qdiscs; ports that are down, MTUs of hosts and policers remain. Returns the pipes that therefore differ from
    /// the scenario's.
    pub(crate) fn take_changes(&mut self, now: Time) -> Vec<(PipeId, PipeSpec)> {
        let mut changed = Vec::new();
        while let Some(TimedChange { link: index, directions, .. }) = self.1.pop_if(|change| change.at <= now)
        {
            let link = &mut self.0[index];
            for (end, mut spec) in link.ends.iter_mut().zip(directions) {
                let mtu = spec.mtu.take();
                if end.has_link_mtu {
                    end.mtu = mtu;
                }
                end.plain = spec;
                end.qdiscs.clear();
                end.since = PipeCounters::default();
            }
            for side in [0, 1] {
                // A link with a rate has no policer.
                if link.try_spec(side).is_err() {
                    link.ends[1 - side].police = None;
                }
            }
            let has_more =
                |end: &End| end.down || end.police.is_some() || (!end.has_link_mtu && end.mtu.is_some());
            if link.ends.iter().any(has_more) {
                changed.extend(self.done(index).changed);
            }
        }
        changed
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
                for (side, mut spec) in sides.iter().zip(changed) {
                    let end = &mut link.ends[*side];
                    end.mtu = spec.mtu.take();
                    end.plain = spec;
                    end.qdiscs.clear();
                    end.since = PipeCounters::default();
                }
            }
            _ => return Err("write for example: link s1-s2 down, or link s1-s2 delay 50ms loss 1%".into()),
        }
        Ok(self.done(index))
    }

    /// Runs `tc` with these arguments. `counters` has an entry for each direction: the first link forward, then backward, and so on.
    pub(crate) fn tc(
        &mut self,
        arguments: &[String],
        counters: &[PipeCounters],
    ) -> Result<CommandResult, String> {
        match tc::parse(arguments)? {
            TcCommand::Show { device, object, with_counters } => {
                self.show(device.as_deref(), object, counters, with_counters)
            }
            TcCommand::Change { device, action, position: QdiscPosition::Ingress, .. } => {
                self.ingress(&device, action)
            }
            TcCommand::Change { device, action, position, handle, kind } => {
                let (index, side) = self.find_device(&device)?;
                let mut qdiscs = self.0[index].ends[side].qdiscs.clone();
                change_qdiscs(&mut qdiscs, action, position, handle, kind.clone())?;
                let is_new = position == QdiscPosition::Root
                    && matches!(action, QdiscAction::Add | QdiscAction::Replace);
                let done = self.set_qdiscs(index, side, qdiscs)?;
                if is_new {
                    self.0[index].ends[side].since =
                        counters.get(2 * index + side).copied().unwrap_or_default();
                }
                let spec = self.0[index].spec(side);
                let text = kind.and_then(|kind| warning(&kind, &spec)).unwrap_or_default().to_owned();
                Ok(CommandResult { text, ..done })
            }
            TcCommand::Class { device, action, class, parameters } => {
                let (index, side) = self.find_device(&device)?;
                let mut qdiscs = self.0[index].ends[side].qdiscs.clone();
                change_classes(&mut qdiscs, action, class, parameters)?;
                let done = self.set_qdiscs(index, side, qdiscs)?;
                Ok(CommandResult { text: String::new(), ..done })
            }
            TcCommand::Police { device, police } => {
                let (index, side) = self.find_device(&device)?;
                let link = &mut self.0[index];
                if !link.ends[side].has_ingress {
                    return Err(format!("no ingress qdisc; add it first: tc qdisc add dev {device} ingress"));
                }
                let before = std::mem::replace(&mut link.ends[side].police, police);
                if let Err(why) = link.try_spec(1 - side) {
                    link.ends[side].police = before;
                    return Err(why);
                }
                Ok(CommandResult { text: String::new(), ..self.done(index) })
            }
        }
    }

    /// Adds or removes the ingress qdisc of a port.
    fn ingress(&mut self, device: &str, action: QdiscAction) -> Result<CommandResult, String> {
        let (index, side) = self.find_device(device)?;
        let end = &mut self.0[index].ends[side];
        match (action, end.has_ingress) {
            (QdiscAction::Add, true) => {
                return Err(format!(
                    "File exists: {device} has an ingress qdisc already; tc filter add dev {device} parent ffff: adds a policer"
                ));
            }
            (QdiscAction::Delete, false) => return Err("no ingress qdisc".into()),
            (QdiscAction::Delete, true) => (end.has_ingress, end.police) = (false, None),
            _ => end.has_ingress = true,
        }
        Ok(CommandResult { text: String::new(), ..self.done(index) })
    }

    /// Sets a port's qdiscs, unless one link cannot have this combination.
    fn set_qdiscs(&mut self, index: usize, side: usize, qdiscs: Vec<Qdisc>) -> Result<CommandResult, String> {
        let link = &mut self.0[index];
        let before = std::mem::replace(&mut link.ends[side].qdiscs, qdiscs);
        if let Err(why) = link.try_spec(side) {
            link.ends[side].qdiscs = before;
            return Err(why);
        }
        let end = &mut link.ends[side];
        if end.qdiscs.is_empty() {
            // As in Mininet, a port without a root qdisc is ideal.
            let PipeSpec { overhead, down, .. } = end.plain;
            end.plain = PipeSpec { overhead, down, ..PipeSpec::default() };
        }
        Ok(self.done(index))
    }

    /// Runs `ifconfig` or `ip link set [dev]` with these arguments: `s1-eth1 mtu 9000`, `s1-eth1 down`, `s1-eth1 up`, `s1-eth1`.
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

    /// Finds the link with the name `arguments[0]`, or between the nodes `arguments[0]` and `arguments[1]`; returns it with the remaining
    /// arguments.
    pub(crate) fn find_link<'w>(&self, arguments: &'w [String]) -> Result<(usize, &'w [String]), String> {
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

    fn find_device(&self, device: &str) -> Result<(usize, usize), String> {
        let ends = self.0.iter().enumerate().flat_map(|(i, l)| [(i, 0, &l.ends[0]), (i, 1, &l.ends[1])]);
        let found = ends.clone().find(|(_, _, end)| end.device == device);
        found.map(|(link, side, _)| (link, side)).ok_or_else(|| {
            let known: Vec<&str> = ends.map(|(_, _, end)| end.device.as_str()).collect();
            format!("no device {device}; devices are {}", known.join(", "))
        })
    }

    fn show(
        &self,
        device: Option<&str>,
        object: TcObject,
        counters: &[PipeCounters],
        with_counters: bool,
    ) -> Result<CommandResult, String> {
        let mut lines = Vec::new();
        if let Some(device) = device {
            self.find_device(device)?;
        }
        let ends = self.0.iter().flat_map(|l| &l.ends).zip(counters);
        for (end, now) in ends.filter(|(e, _)| device.is_none_or(|d| d == e.device)) {
            match object {
                TcObject::Qdisc => end.show_qdiscs(with_counters.then_some(now), &mut lines),
                TcObject::Class => end.show_classes(&mut lines),
                TcObject::Filter => lines.extend(end.police.as_ref().map(|police| {
                    format!(
                        "filter dev {} parent ffff: protocol all matchall police rate {} burst {}b action drop",
                        end.device,
                        format_rate(police.rate),
                        police.burst.0
                    )
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
        // This cannot fail, because commands with an invalid combination were refused before.
        let mut spec = self.try_spec(side).unwrap_or_else(|_| self.ends[side].plain.clone());
        // A port does not accept packets larger than its own MTU either (is_skb_forwardable in dev.c).
        spec.mtu = self.ends.iter().filter_map(|e| e.mtu).min();
        spec.down |= self.ends.iter().any(|e| e.down);
        spec
    }

    fn try_spec(&self, side: usize) -> Result<PipeSpec, String> {
        let end = &self.ends[side];
        compose(&end.qdiscs, &end.plain, self.ends[1 - side].police.as_ref())
    }
}

impl End {
    fn show_qdiscs(&self, now: Option<&PipeCounters>, lines: &mut Vec<String>) {
        if self.qdiscs.is_empty() {
            lines.push(format!("qdisc longfat 0: dev {} root {}", self.device, describe(&self.plain)));
            lines.extend(now.map(|now| counters_of(None, now, &self.since)));
        }
        for qdisc in &self.qdiscs {
            // As tc does, with the device after the handle.
            lines.push(qdisc.to_string().replacen(": ", &format!(": dev {} ", self.device), 1));
            let kind = qdisc.parent.map(|_| &qdisc.kind);
            lines.extend(now.map(|now| counters_of(kind, now, &self.since)));
        }
        if self.has_ingress {
            lines.push(format!("qdisc ingress ffff: dev {} parent ffff:fff1", self.device));
        }
    }

    fn show_classes(&self, lines: &mut Vec<String>) {
        for qdisc in &self.qdiscs {
            if let QdiscKind::Htb(htb) = &qdisc.kind {
                lines.extend(htb.classes.iter().map(|class| describe_class(qdisc.handle, class)));
            }
        }
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

    fn tc(links: &mut Links, line: &str) -> Result<CommandResult, String> {
        links.tc(&arguments(line), &[PipeCounters::default(); 6])
    }

    fn arguments(line: &str) -> Vec<String> {
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
        tc(&mut links, "qdisc add dev s2-eth1 root handle 1: netem delay 20ms").unwrap();
        let line = "qdisc add dev s2-eth1 parent 1: handle 2: tbf rate 10gbit burst 5000000 limit 25000000";
        let done = tc(&mut links, line).unwrap();
        let (pipe, spec) = &done.changed[1];
        assert_eq!((pipe.link, pipe.direction), (1, Direction::Backward));
        assert_eq!((spec.delay, spec.queue), (Time::from_millis(20), QueueLimit::Bytes(Bytes(25_000_000))));
        assert_eq!(done.changed[0].1.delay, Time::from_millis(5), "the other direction is unchanged");
        let shown = tc(&mut links, "qdisc show dev s2-eth1").unwrap().text;
        assert_eq!(shown.lines().count(), 2);
        assert!(shown.starts_with("qdisc netem 1: dev s2-eth1 root limit 1000 delay 20ms"), "{shown}");
        assert!(tc(&mut links, line).unwrap_err().contains("already"));
        tc(&mut links, "qdisc change dev s2-eth1 root handle 1: netem loss 1%").unwrap();
        let done = tc(&mut links, "qdisc del dev s2-eth1 root").unwrap();
        assert_eq!(done.changed[1].1, PipeSpec::default());
        assert!(tc(&mut links, "qdisc del dev s2-eth1 root").is_err());
        assert!(
            tc(&mut links, "qdisc add dev s9-eth1 root netem delay 1ms").unwrap_err().contains("s1-eth1")
        );
    }

    #[test]
    fn changes_of_the_scenario_replace_what_commands_have_set() {
        let text = r#"
            duration = "9s"
            hosts.h1.address = "10.0.0.1/8"
            hosts.h2.address = "10.0.0.2/8"
            flows = [{ name = "f", from = "h1", to = "h2" }]
            [[links]]
            ends = ["h1", "h2"]
            both = { delay = "1ms" }
            [[links.changes]]
            at = "3s"
            both = { delay = "40ms" }
            [[links.changes]]
            at = "5s"
            forward = { rate = "1mbit" }
        "#;
        let scenario = scenario::ScenarioFile::parse("x.toml", text).unwrap().resolve(None, &[]).unwrap();
        let mut links = Links::new(&scenario);
        assert!(links.take_changes(Time::from_secs(3)).is_empty(), "the emulator has made the change itself");
        assert!(links.state(0, 1).contains("40 ms"), "{}", links.state(0, 1));
        let mut links = Links::new(&scenario);
        assert!(links.take_changes(Time::from_millis(2_999)).is_empty());
        tc(&mut links, "qdisc add dev h2-eth0 root netem delay 7ms").unwrap();
        links.ifconfig(&arguments("h1-eth0 down")).unwrap();
        let changed = links.take_changes(Time::from_secs(3));
        assert_eq!(
            changed.iter().map(|(_, spec)| spec.delay).collect::<Vec<_>>(),
            [Time::from_millis(40); 2]
        );
        assert!(changed.iter().all(|(_, spec)| spec.down), "the port stays down");
        assert!(links.state(0, 1).contains("40 ms"), "{}", links.state(0, 1));
        assert!(links.take_changes(Time::from_secs(4)).is_empty());
        // A command changes the link's current parameters.
        let done = links.link(&arguments("h1-h2 forward loss 1%")).unwrap();
        assert_eq!(done.changed[0].1.delay, Time::from_millis(40));
        let changed = links.take_changes(Time::from_secs(60));
        assert_eq!(changed[0].1.rate, Rate::Constant(BitRate(1_000_000)));
        assert_eq!(changed[1].1.rate, Rate::Unlimited);
    }

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
    fn shapers_queues_and_policers_compose() {
        let mut links = links();
        // As Mininet's TCLink does.
        for line in [
            "qdisc add dev s1-eth2 root handle 5: htb default 1",
            "class add dev s1-eth2 parent 5: classid 5:1 htb rate 10mbit burst 15k",
            "qdisc add dev s1-eth2 parent 5:1 handle 10: netem delay 7ms",
        ] {
            tc(&mut links, line).unwrap();
        }
        let done = tc(&mut links, "qdisc add dev s1-eth2 parent 10: handle 11: fq_codel").unwrap();
        let spec = &done.changed[0].1;
        assert_eq!((&spec.rate, spec.burst), (&Rate::Constant(BitRate(10_000_000)), Some(Bytes(15 * 1024))));
        assert_eq!((spec.delay, spec.queue), (Time::from_millis(7), QueueLimit::Packets(10_240)));
        assert!(matches!(spec.discipline, net::Discipline::FqCodel(_)));
        let shown = tc(&mut links, "class show dev s1-eth2").unwrap().text;
        assert_eq!(shown, "class htb 5:1 root rate 10Mbit ceil 10Mbit burst 15360b");
        let error = tc(&mut links, "qdisc change dev s1-eth2 parent 5:1 netem rate 1mbit").unwrap_err();
        assert!(error.contains("netem rate in addition to htb"), "{error}");
        assert!(tc(&mut links, "class del dev s1-eth2 classid 5:1").unwrap_err().contains("in use"));
        assert!(
            tc(&mut links, "qdisc add dev s1-eth2 parent 5:9 netem delay 1ms").unwrap_err().contains("5:9")
        );
        let error = tc(&mut links, "qdisc add dev s1-eth2 parent 11: handle 12: pfifo").unwrap_err();
        assert!(error.contains("fq_codel has no classes"), "{error}");
        // A refused command changes nothing.
        assert_eq!(links.0[1].spec(0), done.changed[0].1);

        tc(&mut links, "qdisc add dev s1-eth1 ingress").unwrap();
        let line = "filter add dev s1-eth1 parent ffff: protocol ip u32 match u32 0 0 police rate 1mbit burst 10k drop";
        let done = tc(&mut links, line).unwrap();
        let policed = &done.changed[0].1;
        assert_eq!((policed.queue, policed.burst), (QueueLimit::Packets(1), Some(Bytes(10_240))));
        assert_eq!(done.changed[1].1, PipeSpec::default(), "only received packets");
        assert!(tc(&mut links, "filter show dev s1-eth1 ingress").unwrap().text.contains("rate 1Mbit"));
        let error = tc(&mut links, &line.replace("s1-eth1", "s2-eth1")).unwrap_err();
        assert!(error.contains("ingress"), "{error}");
        tc(&mut links, "qdisc add dev s2-eth1 ingress").unwrap();
        let error = tc(&mut links, &line.replace("s1-eth1", "s2-eth1")).unwrap_err();
        assert!(error.contains("one rate"), "{error}");
        let done = tc(&mut links, "qdisc del dev s1-eth1 ingress").unwrap();
        assert_eq!(done.changed[0].1, PipeSpec::default());
    }

    #[test]
    fn two_rates_are_refused_and_ineffective_settings_are_reported() {
        let mut links = links();
        tc(&mut links, "qdisc add dev s2-eth1 root handle 1: netem delay 5ms limit 100000")
            .map(|done| {
                assert!(done.text.contains("netem limit is not emulated"), "{}", done.text);
            })
            .unwrap();
        tc(&mut links, "qdisc add dev s2-eth1 parent 1: handle 2: tbf rate 1mbit burst 10kb limit 10kb")
            .unwrap();
        for (line, named) in [
            ("qdisc change dev s2-eth1 root netem delay 5ms rate 2mbit", "netem rate in addition to tbf"),
            ("qdisc add dev s2-eth1 parent 2: handle 3: tbf rate 2mbit burst 10kb limit 10kb", "second rate"),
        ] {
            let error = tc(&mut links, line).unwrap_err();
            assert!(error.contains(named), "{line}: {error}");
        }
        let codel = tc(&mut links, "qdisc add dev s1-eth1 root codel").unwrap();
        assert!(codel.text.contains("no rate"), "{}", codel.text);
    }

    #[test]
    fn counters_begin_with_the_root_qdisc() {
        let mut links = links();
        let mut counters = [PipeCounters::default(); 6];
        counters[2] = PipeCounters { sent_packets: 5, sent_bytes: 500, dropped_loss: 1, ..counters[2] };
        links.tc(&arguments("qdisc add dev s1-eth2 root handle 1: netem loss 1%"), &counters).unwrap();
        let tbf = "qdisc add dev s1-eth2 parent 1: handle 2: tbf rate 1mbit burst 10kb limit 10kb";
        links.tc(&arguments(tbf), &counters).unwrap();
        counters[2] = PipeCounters {
            sent_packets: 8,
            sent_bytes: 900,
            dropped_loss: 3,
            dropped_queue: 4,
            queue_packets: 1,
            queue_bytes: 100,
            ..counters[2]
        };
        let shown = links.tc(&arguments("-s qdisc show dev s1-eth2"), &counters).unwrap().text;
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[1], " Sent 400 bytes 3 pkt (dropped 6, overlimits 4 requeues 0)");
        assert_eq!(lines[2], " backlog 100b 1p requeues 0");
        assert!(lines[4].contains("(dropped 4, overlimits 4"), "{shown}");
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
