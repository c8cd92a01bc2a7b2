//! The filter language that selects connections: `port 5201`, `peer 10.0.0.0/8 and process iperf3`.
//!
//! ```text
//! disjunction = conjunction { "or" conjunction }
//! conjunction = factor { ["and"] factor }
//! factor      = "not" factor | "(" disjunction ")" | term
//! term        = "port" N | "local" ("port" N | PREFIX) | "peer" ("port" N | PREFIX) | "address" PREFIX
//!             | "process" NAME | "pid" N | "user" UID | "state" NAME | "cc" NAME | "namespace" NAME
//! ```

use std::net::IpAddr;

use crate::{Process, SocketSample, SocketState, socket_sample::unmapped};

/// Maximum nesting of `not` and parentheses, which bounds the recursion of the parser; users write one or two
/// levels.
const MAX_NESTING: usize = 64;
/// Length of ::ffff:0:0/96, the prefix of IPv4-mapped IPv6 addresses (RFC 4291 section 2.5.5.2), bits.
const MAPPED_PREFIX_BITS: u8 = 96;

/// A syntax error in a filter, with its position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}\n  {text}\n  {}{}", " ".repeat(.text[..*.offset].chars().count()), "^".repeat((*.width).max(1)))]
pub struct FilterError {
    /// The problem.
    pub message: String,
    /// The whole filter.
    pub text: String,
    /// Byte offset of the wrong word.
    pub offset: usize,
    /// Length of the word in characters; 0 at the end of the filter.
    pub width: usize,
}

/// A parsed filter: selects connections.
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
    State(SocketState),
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
    /// Parses a filter; an empty one matches every connection.
    ///
    /// # Errors
    /// If a word is unknown, a value is missing or malformed, or parentheses do not match. The error points
    /// at the word.
    pub fn parse(text: &str) -> Result<Filter, FilterError> {
        let words = words(text);
        let mut parser = Parser { text, words: &words, depth: 0 };
        if words.is_empty() {
            return Ok(Filter(Node::All(Vec::new())));
        }
        let node = parser.disjunction()?;
        match parser.words.first() {
            None => Ok(Filter(node)),
            Some(_) => Err(parser.error("this ) has no matching (".into())),
        }
    }

    /// Whether the filter depends on the process that owns a connection.
    pub fn needs_process(&self) -> bool {
        self.0.needs_process()
    }

    /// Whether the filter matches a connection of the namespace called `namespace`. An unknown process
    /// (`None`) matches no `process` or `pid` term.
    pub fn matches(&self, sample: &SocketSample, process: Option<&Process>, namespace: &str) -> bool {
        self.0.matches(sample, process, namespace)
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

    fn matches(&self, sample: &SocketSample, process: Option<&Process>, namespace: &str) -> bool {
        let (local, peer) = (sample.addresses.local, sample.addresses.peer);
        match self {
            Node::All(nodes) => nodes.iter().all(|node| node.matches(sample, process, namespace)),
            Node::Any(nodes) => nodes.iter().any(|node| node.matches(sample, process, namespace)),
            Node::Not(node) => !node.matches(sample, process, namespace),
            Node::Port(side, port) => side.any(local.port() == *port, peer.port() == *port),
            Node::Address(side, prefix) => {
                side.any(prefix.contains(unmapped(local.ip())), prefix.contains(unmapped(peer.ip())))
            }
            Node::Process(name) => process.is_some_and(|process| process.name == *name),
            Node::Pid(pid) => process.is_some_and(|process| process.pid == *pid),
            Node::User(uid) => sample.uid == *uid,
            Node::State(state) => sample.state == *state,
            Node::Congestion(name) => sample.congestion.as_deref() == Some(name),
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
        let same_prefix = |ours: u128, theirs: u128, bits: u32| {
            let shift = bits - u32::from(self.length);
            ours.checked_shr(shift).unwrap_or(0) == theirs.checked_shr(shift).unwrap_or(0)
        };
        match (self.address, address) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                same_prefix(ours.to_bits().into(), theirs.to_bits().into(), 32)
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => same_prefix(ours.to_bits(), theirs.to_bits(), 128),
            _ => false,
        }
    }
}

/// Splits into words, each with its byte offset; a parenthesis is a word.
fn words(text: &str) -> Vec<(usize, &str)> {
    let mut words = Vec::new();
    let mut start = None;
    for (offset, c) in text.char_indices().chain([(text.len(), ' ')]) {
        if c.is_whitespace() || matches!(c, '(' | ')') {
            if let Some(start) = start.take() {
                words.push((start, &text[start..offset]));
            }
            if !c.is_whitespace() {
                words.push((offset, &text[offset..offset + 1]));
            }
        } else {
            start.get_or_insert(offset);
        }
    }
    words
}

struct Parser<'a> {
    text: &'a str,
    words: &'a [(usize, &'a str)],
    depth: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.first().map(|(_, word)| *word)
    }

    /// An error that points at the next word, or at the end.
    fn error(&self, message: String) -> FilterError {
        let (offset, width) = match self.words.first() {
            Some((offset, word)) => (*offset, word.chars().count()),
            None => (self.text.len(), 0),
        };
        FilterError { message, text: self.text.into(), offset, width }
    }

    fn disjunction(&mut self) -> Result<Node, FilterError> {
        let mut nodes = vec![self.conjunction()?];
        while self.peek() == Some("or") {
            self.words = &self.words[1..];
            nodes.push(self.conjunction()?);
        }
        Ok(unwrap_single(nodes, Node::Any))
    }

    fn conjunction(&mut self) -> Result<Node, FilterError> {
        let mut nodes = vec![self.factor()?];
        loop {
            match self.peek() {
                None | Some("or" | ")") => return Ok(unwrap_single(nodes, Node::All)),
                Some("and") => self.words = &self.words[1..],
                Some(_) => {}
            }
            nodes.push(self.factor()?);
        }
    }

    fn factor(&mut self) -> Result<Node, FilterError> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return Err(self.error(format!("nested more than {MAX_NESTING} deep")));
        }
        let node = match self.peek() {
            Some("not") => {
                self.words = &self.words[1..];
                Node::Not(Box::new(self.factor()?))
            }
            Some("(") => {
                self.words = &self.words[1..];
                let node = self.disjunction()?;
                if self.peek() != Some(")") {
                    return Err(self.error("a ) is missing here".into()));
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
            "port, local, peer, address, process, pid, user, state, cc, namespace, not or a parenthesis";
        let Some(word) = self.peek() else {
            return Err(self.error(format!("a term is missing here: {KNOWN}")));
        };
        let side = match word {
            "local" => Side::Local,
            "peer" => Side::Peer,
            "port" | "address" | "process" | "pid" | "user" | "state" | "cc" | "namespace" => Side::Either,
            _ => return Err(self.error(format!("{word:?} is not one of {KNOWN}"))),
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
                let names = SocketState::names().collect::<Vec<_>>().join(", ");
                let found = self.peek().and_then(SocketState::from_name);
                let Some(state) = found else {
                    return Err(self.error(format!("a state is expected: {names}")));
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
            None | Some("and" | "or" | "not" | "(" | ")") => Err(self.error(format!("{what} is expected"))),
            Some(word) => {
                self.words = &self.words[1..];
                Ok(word)
            }
        }
    }

    fn number<T: std::str::FromStr>(&mut self, what: &str) -> Result<T, FilterError> {
        let error = self.error(format!("{what} is expected"));
        self.value(what)?.parse().map_err(|_| error)
    }

    fn prefix(&mut self) -> Result<Prefix, FilterError> {
        let error = self.error("an address is expected, or a prefix such as 10.0.0.0/8".into());
        let word = self.value("an address")?;
        let (address, length) = word.split_once('/').map_or((word, None), |(a, l)| (a, Some(l)));
        let Ok(address) = address.parse::<IpAddr>() else { return Err(error) };
        let max_length = if address.is_ipv4() { 32 } else { 128 };
        let length = match length.map(str::parse) {
            None => max_length,
            Some(Ok(length)) if length <= max_length => length,
            Some(_) => return Err(error),
        };
        // Samples have the IPv4 address of a dual-stack socket, which `ss` prints as ::ffff:10.0.0.1.
        match (unmapped(address), length) {
            (IpAddr::V4(v4), MAPPED_PREFIX_BITS..) if address.is_ipv6() => {
                Ok(Prefix { address: v4.into(), length: length - MAPPED_PREFIX_BITS })
            }
            _ => Ok(Prefix { address, length }),
        }
    }
}

fn unwrap_single(mut nodes: Vec<Node>, combine: impl Fn(Vec<Node>) -> Node) -> Node {
    if nodes.len() == 1 { nodes.remove(0) } else { combine(nodes) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{SocketAddresses, SocketCookie, TcpInfo};

    fn sample() -> SocketSample {
        SocketSample {
            cookie: SocketCookie(1),
            addresses: SocketAddresses {
                local: "10.1.2.3:40000".parse().unwrap(),
                peer: "192.168.0.9:5201".parse().unwrap(),
            },
            state: SocketState::ESTABLISHED,
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
        Filter::parse(text).unwrap_or_else(|e| panic!("{e}")).matches(&sample(), Some(&process), "h1")
    }

    #[test]
    fn every_term_matches_and_rejects_connections() {
        for (matching, rejecting) in [
            ("", "not port 5201"),
            ("port 5201", "port 80"),
            ("port 40000", "peer port 40000"),
            ("local port 40000", "local port 5201"),
            ("local 10.0.0.0/8", "peer 10.0.0.0/8"),
            ("peer 192.168.0.9", "peer 192.168.0.8"),
            ("address 0.0.0.0/0", "address ::/0"),
            ("peer ::ffff:192.168.0.9", "peer ::ffff:192.168.0.8"),
            ("peer ::ffff:192.168.0.0/120", "local ::ffff:192.168.0.0/120"),
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
            assert!(matches(matching), "{matching}");
            assert!(!matches(rejecting), "{rejecting}");
        }
    }

    #[test]
    fn an_unknown_process_does_not_match() {
        let filter = Filter::parse("process iperf3").unwrap();
        assert!(!filter.matches(&sample(), None, "h1") && filter.needs_process());
        assert!(!Filter::parse("port 1 or cc x").unwrap().needs_process());
    }

    #[test]
    fn errors_point_at_the_wrong_word() {
        let message = |text: &str| Filter::parse(text).unwrap_err().to_string();
        assert_eq!(
            message("port 5201 and prot 80"),
            "\"prot\" is not one of port, local, peer, address, process, pid, user, state, cc, namespace, not or a parenthesis\n  \
             port 5201 and prot 80\n                ^^^^"
        );
        assert_eq!(
            message("port 99999"),
            "a port number, 0 to 65535 is expected\n  port 99999\n       ^^^^^"
        );
        assert_eq!(message("(port 1"), "a ) is missing here\n  (port 1\n         ^");
        assert!(message("peer 10.0.0.0/33").contains("^^^^^^^^^^^"));
        for text in ["port", "port 1 and", ")", "port 1 )", "not", "state up", "peer and", &"(".repeat(200)] {
            assert!(Filter::parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_text_causes_no_panic(text in ".{0,80}", terms in "((not|and|or|port|peer|\\(|\\)|1|::/0|é) ?){0,12}") {
            for text in [text, terms] {
                if let Err(error) = Filter::parse(&text) {
                    prop_assert!(error.offset <= text.len() && !error.to_string().is_empty());
                }
            }
        }
    }
}
