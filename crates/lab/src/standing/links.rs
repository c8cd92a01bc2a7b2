//! The links of a standing lab: their present parameters, and the pending changes of the scenario.
//!
//! Pure: arguments in, text and changed pipes out. The commands that change links: `link_command.rs`
//! (`link`), `tc_command.rs` (`tc`) and `ifconfig_command.rs` (`ifconfig` and `ip link`).

mod ifconfig_command;
mod link_command;
mod tc_command;

use net::{Direction, PipeCounters, PipeId, PipeSpec};
use scenario::Scenario;
use units::Instant;

use super::{tc::Qdisc, tc_compose::compose, tc_kinds::Police};

/// All links, and the pending changes of the scenario, the next one last.
pub(crate) struct Links(Vec<Link>, Vec<TimedChange>);

/// A change of a link at a time since the lab came up.
struct TimedChange {
    at: Instant,
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
        // A link's MTU is that of its ports on switches and routers; a host's device has its own MTU. Between
        // two hosts the link's MTU applies to both ends.
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

    /// Adopts the scenario's changes that the emulator has made until `now`, a time since the lab came up.
    /// They replace parameters and qdiscs; ports that are down, MTUs of hosts and policers remain. Returns
    /// the pipes that therefore differ from the scenario's.
    pub(crate) fn take_changes(&mut self, now: Instant) -> Vec<(PipeId, PipeSpec)> {
        let mut changed = Vec::new();
        while let Some(TimedChange { link: index, directions, .. }) = self.1.pop_if(|change| change.at <= now)
        {
            let link = &mut self.0[index];
            for (end, spec) in link.ends.iter_mut().zip(directions) {
                let mtu = end.replace_parameters(spec);
                if end.has_link_mtu {
                    end.mtu = mtu;
                }
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
        let lines = |link: &Link| [0, 1].map(|side| format!("{}  {}", link.name, link.describe(side)));
        self.0.iter().flat_map(lines).collect::<Vec<_>>().join("\n")
    }

    fn find_device(&self, device: &str) -> Result<(usize, usize), String> {
        let ends = self.0.iter().enumerate().flat_map(|(i, l)| [(i, 0, &l.ends[0]), (i, 1, &l.ends[1])]);
        let found = ends.clone().find(|(_, _, end)| end.device == device);
        found.map(|(link, side, _)| (link, side)).ok_or_else(|| {
            let known: Vec<&str> = ends.map(|(_, _, end)| end.device.as_str()).collect();
            format!("no device {device}; devices are {}", known.join(", "))
        })
    }

    /// The result of a command on a link: both pipes, since an MTU or `down` of one end affects both
    /// directions.
    fn done(&self, index: usize) -> CommandResult {
        let link = &self.0[index];
        let pipe = |direction| PipeId { link: index as u32, direction };
        CommandResult {
            text: format!("{}\n{}", link.describe(0), link.describe(1)),
            changed: vec![
                (pipe(Direction::Forward), link.spec(0)),
                (pipe(Direction::Backward), link.spec(1)),
            ],
        }
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

    /// The devices and the parameters of the direction from end `side`.
    fn describe(&self, side: usize) -> String {
        let (from, to) = (&self.ends[side], &self.ends[1 - side]);
        format!("{} -> {}  {}", from.device, to.device, describe(&self.spec(side)))
    }
}

impl End {
    /// Replaces the parameters by those of the scenario or of `link`, and removes the qdiscs. Returns the MTU
    /// of `spec`, which may not be that of this end.
    fn replace_parameters(&mut self, mut spec: PipeSpec) -> Option<u32> {
        let mtu = spec.mtu.take();
        self.plain = spec;
        self.qdiscs.clear();
        self.since = PipeCounters::default();
        mtu
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
    use net::Rate;
    use units::{BitRate, Time};

    use super::*;

    pub(super) fn links() -> Links {
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

    pub(super) fn tc(links: &mut Links, line: &str) -> Result<CommandResult, String> {
        links.tc(&arguments(line), &[PipeCounters::default(); 6])
    }

    pub(super) fn arguments(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn devices_are_named_as_in_mininet() {
        let links = links();
        let devices: Vec<&str> = links.0.iter().flat_map(|l| &l.ends).map(|e| e.device.as_str()).collect();
        assert_eq!(devices, ["h1-eth0", "s1-eth1", "s1-eth2", "s2-eth1", "s2-eth2", "h2-eth0"]);
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
        assert!(
            links.take_changes(Instant::from_secs(3)).is_empty(),
            "the emulator has made the change itself"
        );
        assert!(links.state(0, 1).contains("40 ms"), "{}", links.state(0, 1));
        let mut links = Links::new(&scenario);
        assert!(links.take_changes(Instant::from_millis(2_999)).is_empty());
        tc(&mut links, "qdisc add dev h2-eth0 root netem delay 7ms").unwrap();
        links.ifconfig(&arguments("h1-eth0 down")).unwrap();
        let changed = links.take_changes(Instant::from_secs(3));
        assert_eq!(
            changed.iter().map(|(_, spec)| spec.delay).collect::<Vec<_>>(),
            [Time::from_millis(40); 2]
        );
        assert!(changed.iter().all(|(_, spec)| spec.down), "the port stays down");
        assert!(links.state(0, 1).contains("40 ms"), "{}", links.state(0, 1));
        assert!(links.take_changes(Instant::from_secs(4)).is_empty());
        // A command changes the link's current parameters.
        let done = links.link(&arguments("h1-h2 forward loss 1%")).unwrap();
        assert_eq!(done.changed[0].1.delay, Time::from_millis(40));
        let changed = links.take_changes(Instant::from_secs(60));
        assert_eq!(changed[0].1.rate, Rate::Constant(BitRate(1_000_000)));
        assert_eq!(changed[1].1.rate, Rate::Unlimited);
    }
}
