//! The language that says which connections: `port 5201`, `peer 10.0.0.0/8 and process iperf3`.
//!
//! ```text
//! either = both { "or" both }
//! both   = one { ["and"] one }
//! one    = "not" one | "(" either ")" | term
//! term   = "port" N | "local" ("port" N | PREFIX) | "peer" ("port" N | PREFIX) | "address" PREFIX
//!        | "process" NAME | "pid" N | "user" UID | "state" NAME | "cc" NAME | "namespace" NAME
//! ```

use std::net::IpAddr;

use crate::{Look, Process, State, connection::plain};

/// Nested so deep at most; a person writes one or two.
const DEEPEST: usize = 64;

/// A filter that is not understood: what is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}\n  {text}\n  {}{}", " ".repeat(.text[..*.at].chars().count()), "^".repeat((*.width).max(1)))]
pub struct FilterError {
    /// What is wrong.
    pub message: String,
    /// The filter.
    pub text: String,
    /// The byte where the word begins.
    pub at: usize,
    /// The word's characters; 0 at the filter's end.
    pub width: usize,
}

/// Which connections are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter(Node);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    All(Vec<Node>),
    Any(Vec<Node>),
    Not(Box<Node>),
    Port(Side, u16),
    Address(Side, Prefix),
    Process(String),
    Pid(u32),
    User(u32),
    State(State),
    Congestion(String),
    Namespace(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Local,
    Peer,
    Either,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Prefix {
    address: IpAddr,
    length: u8,
}

impl Filter {
    /// Reads a filter; an empty one means every connection.
    ///
    /// # Errors
    /// What is wrong, at which word.
    pub fn parse(text: &str) -> Result<Filter, FilterError> {
        let words = words(text);
        let mut reader = Reader { text, words: &words, depth: 0 };
        if words.is_empty() {
            return Ok(Filter(Node::All(Vec::new())));
        }
        let node = reader.either()?;
        match reader.words.first() {
            None => Ok(Filter(node)),
            Some(_) => Err(reader.wrong("there is no ( before this".into())),
        }
    }

    /// Whether the filter asks for the process that owns a connection.
    pub fn needs_process(&self) -> bool {
        self.0.needs_process()
    }

    /// Whether a connection of the namespace called `namespace` is meant. A process that is not known is none.
    pub fn matches(&self, look: &Look, process: Option<&Process>, namespace: &str) -> bool {
        self.0.matches(look, process, namespace)
    }
}

impl Node {
    fn needs_process(&self) -> bool {
        match self {
            Node::All(nodes) | Node::Any(nodes) => nodes.iter().any(Node::needs_process),
            Node::Not(node) => node.needs_process(),
            Node::Process(_) | Node::Pid(_) => true,
            _ => false,
        }
    }

    fn matches(&self, look: &Look, process: Option<&Process>, namespace: &str) -> bool {
        let (local, peer) = (look.ends.local, look.ends.peer);
        match self {
            Node::All(nodes) => nodes.iter().all(|node| node.matches(look, process, namespace)),
            Node::Any(nodes) => nodes.iter().any(|node| node.matches(look, process, namespace)),
            Node::Not(node) => !node.matches(look, process, namespace),
            Node::Port(side, port) => side.any(local.port() == *port, peer.port() == *port),
            Node::Address(side, prefix) => {
                side.any(prefix.contains(plain(local.ip())), prefix.contains(plain(peer.ip())))
            }
            Node::Process(name) => process.is_some_and(|process| process.name == *name),
            Node::Pid(pid) => process.is_some_and(|process| process.pid == *pid),
            Node::User(uid) => look.uid == *uid,
            Node::State(state) => look.state == *state,
            Node::Congestion(name) => look.congestion.as_deref() == Some(name),
            Node::Namespace(name) => namespace == name,
        }
    }
}

impl Side {
    fn any(self, local: bool, peer: bool) -> bool {
        match self {
            Side::Local => local,
            Side::Peer => peer,
            Side::Either => local || peer,
        }
    }
}

impl Prefix {
    fn contains(self, address: IpAddr) -> bool {
        let same = |ours: u128, theirs: u128, bits: u32| {
            let shift = bits - u32::from(self.length);
            ours.checked_shr(shift).unwrap_or(0) == theirs.checked_shr(shift).unwrap_or(0)
        };
        match (self.address, address) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                same(ours.to_bits().into(), theirs.to_bits().into(), 32)
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => same(ours.to_bits(), theirs.to_bits(), 128),
            _ => false,
        }
    }
}

/// Words with the byte where each begins; brackets are words.
fn words(text: &str) -> Vec<(usize, &str)> {
    let mut words = Vec::new();
    let mut begun = None;
    for (at, c) in text.char_indices().chain([(text.len(), ' ')]) {
        if c.is_whitespace() || matches!(c, '(' | ')') {
            if let Some(from) = begun.take() {
                words.push((from, &text[from..at]));
            }
            if !c.is_whitespace() {
                words.push((at, &text[at..at + 1]));
            }
        } else {
            begun.get_or_insert(at);
        }
    }
    words
}

struct Reader<'a> {
    text: &'a str,
    words: &'a [(usize, &'a str)],
    depth: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.first().map(|(_, word)| *word)
    }

    /// An error at the next word, or at the end.
    fn wrong(&self, message: String) -> FilterError {
        let (at, width) = match self.words.first() {
            Some((at, word)) => (*at, word.chars().count()),
            None => (self.text.len(), 0),
        };
        FilterError { message, text: self.text.into(), at, width }
    }

    fn either(&mut self) -> Result<Node, FilterError> {
        let mut nodes = vec![self.both()?];
        while self.peek() == Some("or") {
            self.words = &self.words[1..];
            nodes.push(self.both()?);
        }
        Ok(one_or(nodes, Node::Any))
    }

    fn both(&mut self) -> Result<Node, FilterError> {
        let mut nodes = vec![self.one()?];
        loop {
            match self.peek() {
                None | Some("or" | ")") => return Ok(one_or(nodes, Node::All)),
                Some("and") => self.words = &self.words[1..],
                Some(_) => {}
            }
            nodes.push(self.one()?);
        }
    }

    fn one(&mut self) -> Result<Node, FilterError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.wrong(format!("nested more than {DEEPEST} deep")));
        }
        let node = match self.peek() {
            Some("not") => {
                self.words = &self.words[1..];
                Node::Not(Box::new(self.one()?))
            }
            Some("(") => {
                self.words = &self.words[1..];
                let node = self.either()?;
                if self.peek() != Some(")") {
                    return Err(self.wrong("a ) is missing here".into()));
                }
                self.words = &self.words[1..];
                node
            }
            _ => self.term()?,
        };
        self.depth -= 1;
        Ok(node)
    }

    fn term(&mut self) -> Result<Node, FilterError> {
        const KNOWN: &str =
            "port, local, peer, address, process, pid, user, state, cc, namespace, not or a bracket";
        let Some(word) = self.peek() else {
            return Err(self.wrong(format!("something is missing here: {KNOWN}")));
        };
        let side = match word {
            "local" => Side::Local,
            "peer" => Side::Peer,
            "port" | "address" | "process" | "pid" | "user" | "state" | "cc" | "namespace" => Side::Either,
            _ => return Err(self.wrong(format!("{word:?} is none of {KNOWN}"))),
        };
        self.words = &self.words[1..];
        Ok(match word {
            "port" => Node::Port(side, self.number("a port number, 0 to 65535")?),
            "local" | "peer" if self.peek() == Some("port") => {
                self.words = &self.words[1..];
                Node::Port(side, self.number("a port number, 0 to 65535")?)
            }
            "local" | "peer" | "address" => Node::Address(side, self.prefix()?),
            "process" => Node::Process(self.value("a program's name")?.into()),
            "pid" => Node::Pid(self.number("a process number")?),
            "user" => Node::User(self.number("a user's number")?),
            "state" => {
                let names = State::names().collect::<Vec<_>>().join(", ");
                let found = self.peek().and_then(State::from_name);
                let Some(state) = found else {
                    return Err(self.wrong(format!("a state is expected: {names}")));
                };
                self.words = &self.words[1..];
                Node::State(state)
            }
            "cc" => Node::Congestion(self.value("a congestion control's name")?.into()),
            _ => Node::Namespace(self.value("a namespace's name")?.into()),
        })
    }

    fn value(&mut self, what: &str) -> Result<&'a str, FilterError> {
        match self.peek() {
            None | Some("and" | "or" | "not" | "(" | ")") => Err(self.wrong(format!("{what} is expected"))),
            Some(word) => {
                self.words = &self.words[1..];
                Ok(word)
            }
        }
    }

    fn number<T: std::str::FromStr>(&mut self, what: &str) -> Result<T, FilterError> {
        let wrong = self.wrong(format!("{what} is expected"));
        self.value(what)?.parse().map_err(|_| wrong)
    }

    fn prefix(&mut self) -> Result<Prefix, FilterError> {
        let wrong = self.wrong("an address is expected, or a prefix as 10.0.0.0/8".into());
        let word = self.value("an address")?;
        let (address, length) = word.split_once('/').map_or((word, None), |(a, l)| (a, Some(l)));
        let Ok(address) = address.parse::<IpAddr>() else { return Err(wrong) };
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length = match length.map(str::parse) {
            None => most,
            Some(Ok(length)) if length <= most => length,
            Some(_) => return Err(wrong),
        };
        Ok(Prefix { address, length })
    }
}

fn one_or(mut nodes: Vec<Node>, several: impl Fn(Vec<Node>) -> Node) -> Node {
    if nodes.len() == 1 { nodes.remove(0) } else { several(nodes) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Cookie, Ends, TcpInfo};

    fn look() -> Look {
        Look {
            cookie: Cookie(1),
            ends: Ends {
                local: "10.1.2.3:40000".parse().unwrap(),
                peer: "192.168.0.9:5201".parse().unwrap(),
            },
            state: State::ESTABLISHED,
            uid: 1000,
            inode: 1,
            rqueue_bytes: 0,
            wqueue_bytes: 0,
            tos: None,
            congestion: Some("cubic".into()),
            congestion_info: None,
            memory: None,
            info: TcpInfo::from_bytes(&[]),
        }
    }

    #[track_caller]
    fn matches(text: &str) -> bool {
        let process = Process { pid: 77, name: "iperf3".into() };
        Filter::parse(text).unwrap_or_else(|e| panic!("{e}")).matches(&look(), Some(&process), "h1")
    }

    #[test]
    fn every_term_says_yes_and_no() {
        for (yes, no) in [
            ("", "not port 5201"),
            ("port 5201", "port 80"),
            ("port 40000", "peer port 40000"),
            ("local port 40000", "local port 5201"),
            ("local 10.0.0.0/8", "peer 10.0.0.0/8"),
            ("peer 192.168.0.9", "peer 192.168.0.8"),
            ("address 0.0.0.0/0", "address ::/0"),
            ("process iperf3", "process iperf"),
            ("pid 77", "pid 78"),
            ("user 1000", "user 0"),
            ("state established", "state close-wait"),
            ("cc cubic", "cc bbr"),
            ("namespace h1", "namespace h2"),
            ("port 5201 process iperf3", "port 5201 process x"),
            ("port 80 or (cc cubic and not pid 1)", "(port 80 or cc bbr) and pid 77"),
            ("port 80 and port 81 or port 5201", "port 80 and (port 81 or port 5201)"),
        ] {
            assert!(matches(yes), "{yes}");
            assert!(!matches(no), "{no}");
        }
    }

    #[test]
    fn an_unknown_process_is_none() {
        let filter = Filter::parse("process iperf3").unwrap();
        assert!(!filter.matches(&look(), None, "h1") && filter.needs_process());
        assert!(!Filter::parse("port 1 or cc x").unwrap().needs_process());
    }

    #[test]
    fn errors_point_at_the_word() {
        let told = |text: &str| Filter::parse(text).unwrap_err().to_string();
        assert_eq!(
            told("port 5201 and prot 80"),
            "\"prot\" is none of port, local, peer, address, process, pid, user, state, cc, namespace, not or a bracket\n  \
             port 5201 and prot 80\n                ^^^^"
        );
        assert_eq!(told("port 99999"), "a port number, 0 to 65535 is expected\n  port 99999\n       ^^^^^");
        assert_eq!(told("(port 1"), "a ) is missing here\n  (port 1\n         ^");
        assert!(told("peer 10.0.0.0/33").contains("^^^^^^^^^^^"));
        for text in ["port", "port 1 and", ")", "port 1 )", "not", "state up", "peer and", &"(".repeat(200)] {
            assert!(Filter::parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn garbage_is_no_panic(text in ".{0,80}", terms in "((not|and|or|port|peer|\\(|\\)|1|::/0|é) ?){0,12}") {
            for text in [text, terms] {
                if let Err(error) = Filter::parse(&text) {
                    prop_assert!(error.at <= text.len() && !error.to_string().is_empty());
                }
            }
        }
    }
}
