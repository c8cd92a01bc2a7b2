//! Completion with TAB at the prompt.

use lab::standing::{NodeKind, Status};

use super::{commands::program_directories, help::COMMANDS};

/// Options of programs that are used in labs.
const OPTIONS: [(&str, &str); 4] = [
    (
        "iperf3",
        "-1 -4 -6 -A -b -C -c -D -i -J -k -l -M -N -n -O -P -p -R -s -t -u -V -w -Z --bidir --cport --logfile \
         --pacing-timer",
    ),
    ("ping", "-4 -6 -c -D -f -I -i -M -n -q -R -s -t -W -w"),
    ("ss", "-a -e -i -l -m -n -o -p -t -u"),
    ("traceroute", "-4 -6 -I -m -n -q -T -U -w"),
];
const KINDS: &str = "netem tbf htb red codel fq_codel pfifo bfifo";
const LINK_KEYS: &str = "rate delay jitter loss queue burst mtu";

/// All names and keywords that can be completed for a lab.
pub struct Words {
    nodes: Vec<String>,
    hosts: Vec<String>,
    links: Vec<String>,
    ports: Vec<String>,
    programs: Vec<String>,
}

/// The completions at the cursor.
#[derive(Debug, PartialEq, Eq)]
pub enum Suggestions {
    /// One of these words, which begins at `start` in the line.
    Words { start: usize, words: Vec<String> },
    /// A file's name.
    Files,
}

impl Words {
    /// The words of a lab with this status, and the programs of this machine.
    pub fn of(status: &Status) -> Self {
        let nodes_of_kind = |kind: Option<NodeKind>| {
            let nodes = status.nodes.iter().filter(|n| kind.is_none_or(|k| n.kind == k));
            nodes.map(|n| n.name.clone()).collect::<Vec<_>>()
        };
        let mut links: Vec<String> = status.links.iter().map(|l| l.name.clone()).collect();
        links.dedup();
        let mut programs: Vec<String> = program_directories()
            .filter_map(|directory| std::fs::read_dir(directory).ok())
            .flat_map(|entries| entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()))
            .collect();
        programs.sort();
        programs.dedup();
        Words {
            nodes: nodes_of_kind(None),
            hosts: nodes_of_kind(Some(NodeKind::Host)),
            links,
            ports: status.links.iter().map(|l| l.from_port.clone()).collect(),
            programs,
        }
    }

    /// Completions after `line`, the text before the cursor.
    pub fn suggest(&self, line: &str) -> Suggestions {
        let start = line.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        let (before, word) = line.split_at(start);
        let before: Vec<&str> = before.split_whitespace().collect();
        let Some(mut words) = self.at(&before, word) else { return Suggestions::Files };
        words.retain(|w| w.starts_with(word));
        words.sort();
        words.dedup();
        Suggestions::Words { start, words }
    }

    /// All words that can follow; `None` for a file's name.
    fn at(&self, before: &[&str], word: &str) -> Option<Vec<String>> {
        let list = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<String>>();
        let and = |mut words: Vec<String>, more: &[String]| {
            words.extend_from_slice(more);
            words
        };
        Some(match before {
            [] => and(COMMANDS.iter().map(|c| (*c).to_owned()).collect(), &self.nodes),
            ["time", rest @ ..] => return self.at(rest, word),
            ["sudo"] => list("tc ifconfig"),
            ["sudo", rest @ ..] => return self.at(rest, word),
            ["source", ..] => return None,
            ["sh"] => self.programs.clone(),
            ["sh", ..] => return None,
            ["iperf", ..] if word.starts_with('-') => options_of("iperf3"),
            ["iperf" | "iperfudp" | "xterm", ..] => self.hosts.clone(),
            ["link"] => self.links.clone(),
            ["link", _] => list(&format!("up down forward backward {LINK_KEYS}")),
            ["link", ..] => list(LINK_KEYS),
            ["pcap"] => and(and(vec!["stop".into()], &self.nodes), &self.links),
            ["pcap", ..] => return None,
            [.., "dev"] => self.ports.clone(),
            ["tc"] => list("-s qdisc class filter"),
            ["tc", "-s"] => list("qdisc class filter"),
            ["tc", "qdisc" | "class" | "filter"] | ["tc", "-s", _] => list("add change replace del show"),
            ["tc", .., "root"] => list(&format!("handle {KINDS}")),
            ["tc", ..] => list(&format!("dev root parent handle classid default {KINDS} {TC_WORDS}")),
            ["ifconfig"] => self.ports.clone(),
            ["ifconfig", ..] => list("mtu up down"),
            ["ip"] => list("link"),
            ["ip", "link"] => list("set"),
            ["ip", ..] => list("dev mtu up down"),
            [node, program @ ..] if self.nodes.iter().any(|n| n == node) => {
                return self.on_node(program, word);
            }
            _ => Vec::new(),
        })
    }

    /// Completions after `HOST PROGRAM ...`: options of well-known programs, names of nodes, or files.
    fn on_node(&self, program: &[&str], word: &str) -> Option<Vec<String>> {
        match program {
            [] => Some(self.programs.clone()),
            ["tc" | "ifconfig" | "ip", ..] => self.at(program, word),
            [name, ..] if word.starts_with('-') => Some(options_of(name)),
            _ if !word.is_empty() && !self.nodes.iter().any(|n| n.starts_with(word)) => None,
            _ => Some(self.nodes.clone()),
        }
    }
}

const TC_WORDS: &str = "delay loss limit rate burst latency ceil ecn target interval flows quantum min max avpkt \
                        probability bandwidth duplicate corrupt reorder distribution police drop";

fn options_of(program: &str) -> Vec<String> {
    let found = OPTIONS.iter().find(|(name, _)| *name == program);
    found.map(|(_, options)| options.split_whitespace().map(str::to_owned).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> Words {
        let list = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<String>>();
        Words {
            nodes: list("h1 h2 s1"),
            hosts: list("h1 h2"),
            links: list("h1-s1 s1-h2"),
            ports: list("h1-eth0 s1-eth1 s1-eth2 h2-eth0"),
            programs: list("ping ps sysctl"),
        }
    }

    fn suggested(line: &str) -> String {
        match words().suggest(line) {
            Suggestions::Words { words, .. } => words.join(" "),
            Suggestions::Files => "(files)".into(),
        }
    }

    #[test]
    fn commands_names_options_and_files_are_completed() {
        for (line, expected) in [
            ("pinga", "pingall pingallfull"),
            ("h", "h1 h2 help"),
            ("h1 pi", "ping"),
            ("h1 ping h", "h1 h2"),
            ("h1 ping -W", "-W"),
            ("h1 cat /etc/ho", "(files)"),
            ("iperf h1 h", "h1 h2"),
            ("iperf h1 h2 --b", "--bidir"),
            ("xterm s", ""),
            ("link s", "s1-h2"),
            ("link s1-h2 d", "delay down"),
            ("tc qd", "qdisc"),
            ("sudo tc qdisc add dev s", "s1-eth1 s1-eth2"),
            ("tc qdisc add dev s1-eth1 root n", "netem"),
            ("s1 tc qdisc add dev s1-eth1 root netem del", "delay"),
            ("time pingallf", "pingallfull"),
            ("source ", "(files)"),
            ("nosuch ", ""),
        ] {
            assert_eq!(suggested(line), expected, "{line}");
        }
        assert!(matches!(words().suggest("h1 ping h"), Suggestions::Words { start: 8, .. }));
    }
}
