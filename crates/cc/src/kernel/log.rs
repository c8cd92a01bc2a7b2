//! Summary of the log of libbpf and the kernel's verifier for a rejected program: two lines instead of a
//! thousand.
//!
//! The verifier logs each processed instruction, preceded by its source line (`; tp->srtt_us = 5; @
//! my.bpf.c:14`), and finally the reason of the rejection. libbpf prints this log between two marks, and its
//! own reasons, such as a missing kernel function, as plain lines.

use std::{fmt, path::Path};

/// The reason for the rejection of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// The C function.
    pub program: Option<String>,
    /// Position in the source: `my.bpf.c:14`.
    pub position: Option<String>,
    /// The source line's text.
    pub line: Option<String>,
    /// The reason as logged by the verifier or libbpf.
    pub reason: String,
    /// The complete log.
    pub log: String,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(position) = &self.position {
            write!(f, "{position}: ")?;
        }
        if let Some(program) = &self.program {
            write!(f, "in {program}: ")?;
        }
        write!(f, "{}", self.reason)?;
        if let Some(remedy) = remedy(&self.reason) {
            write!(f, "; {remedy}")?;
        }
        match &self.line {
            Some(line) => write!(f, "\n    {line}"),
            None => Ok(()),
        }
    }
}

impl Rejection {
    /// Adds the path as given by the user and the text of the line. The kernel has only the file's name, and
    /// no text of a file that was compiled from standard input. If the log names no line, searches for the
    /// one that the reason is about.
    pub(super) fn at_source(mut self, path: &Path, text: &str) -> Self {
        if self.position.is_none()
            && let Some((file, line)) = path.file_name().zip(self.find_line(text))
        {
            self.position = Some(format!("{}:{line}", file.to_string_lossy()));
        }
        let Some((file, line)) = self.position.as_deref().and_then(|p| p.rsplit_once(':')) else {
            return self;
        };
        if path.file_name().is_some_and(|name| name == file) {
            let number: usize = line.parse().unwrap_or(0);
            let found = number.checked_sub(1).and_then(|n| text.lines().nth(n)).map(|l| l.trim().to_string());
            self.line = found.or(self.line);
            self.position = Some(format!("{}:{line}", path.display()));
        }
        self
    }

    /// The first line, from 1, with the member, function, variable or program that the reason is about.
    fn find_line(&self, text: &str) -> Option<usize> {
        let after = |mark: &str| self.reason.split_once(mark).map(|(_, rest)| first_word(rest));
        let has_member = |line: &str, name: &str| {
            line.split('.').skip(1).any(|rest| first_word(rest) == name && rest.contains('='))
        };
        let has_word = |line: &str, name: &str| words(line).any(|word| word == name);
        let line_of = |wanted: &dyn Fn(&str) -> bool| text.lines().position(wanted).map(|n| n + 1);
        if let Some(member) = after("has no member ").or_else(|| after("unsupported member ")) {
            return line_of(&|line| has_member(line, member));
        }
        if let Some(function) = after("has no function ") {
            return line_of(&|line| has_word(line, function));
        }
        if self.reason.contains("GPL compatible license") {
            return line_of(&|line| line.contains("\"license\""));
        }
        if let Some(variable) = self.reason.strip_prefix(INCOMPLETE) {
            let variable = first_word(variable);
            return line_of(&|line| has_word(line, "tcp_congestion_ops") && has_word(line, variable));
        }
        let program = self.program.as_deref()?;
        line_of(&|line| has_word(line, program))
    }

    /// Reads libbpf's log; `otherwise` is the reason if the log has none.
    pub fn read(log: &str, otherwise: &str) -> Self {
        let mut found = Rejection {
            program: None,
            position: None,
            line: None,
            reason: String::new(),
            log: log.trim_end().into(),
        };
        let Some((before, from)) = log.split_once("-- BEGIN PROG LOAD LOG --") else {
            found.reason = libbpf_reason(log).unwrap_or_else(|| otherwise.into());
            return found;
        };
        found.program = before.lines().last().and_then(quoted).map(str::to_string);
        let verifier = from.split("-- END PROG LOAD LOG --").next().unwrap_or(from);
        for line in verifier.lines().map(str::trim) {
            if let Some((text, position)) = line.strip_prefix(';').and_then(|l| l.rsplit_once("@ ")) {
                found.line = Some(text.trim().into());
                found.position = Some(position.into());
            } else if is_reason(line) {
                found.reason = line.into();
            }
        }
        if found.reason.is_empty() {
            found.reason = otherwise.into();
        }
        if let Some(missing) = core_failure(verifier) {
            found.reason = missing;
        }
        found
    }
}

/// Start of the reason if operations are missing; the variable's name follows.
pub(super) const INCOMPLETE: &str = "struct tcp_congestion_ops ";

/// The remedy for a reason of the verifier or libbpf.
fn remedy(reason: &str) -> Option<&'static str> {
    let remedies = [
        (
            "no write support to tcp_sock",
            "a congestion control may write snd_cwnd, snd_cwnd_cnt, snd_cwnd_stamp, snd_ssthresh, app_limited, ecn_flags, \
             icsk_ack.pending, sk_pacing_rate, sk_pacing_status and its own inet_csk_ca(sk)",
        ),
        ("only read is supported", "only members of the socket may be written"),
        ("GPL compatible license", "char _license[] SEC(\"license\") = \"GPL\" is needed"),
        ("cannot use helper bpf_setsockopt", "release may not change options; other operations may"),
        ("cannot use helper bpf_getsockopt", "release may not read options; other operations may"),
        ("cannot use helper", "the kernel does not offer this helper to congestion controls"),
        ("unsupported member get_info", "remove get_info: `ss -i` then shows no details of it"),
        (
            "has no member cwnd_event_tx_start",
            "write cwnd_event, which gets CA_EVENT_TX_START before Linux 7.2; with both, put the program of \
             cwnd_event_tx_start into SEC(\"?struct_ops\"), so that it is ignored here",
        ),
        ("has no member ", "remove the operation, or put its program into SEC(\"?struct_ops\")"),
        ("has no function bbr_", "`modprobe tcp_bbr` loads its module; the simulator has the function"),
        ("has no function dctcp_", "`modprobe tcp_dctcp` loads its module; the simulator has the function"),
        ("has no function cubictcp_", "the simulator has the function"),
        ("infinite loop detected", "give the loop a bound that the verifier can prove, or use bpf_for()"),
        (
            "invalid mem access 'scalar'",
            "in cong_control: it is called with (sk, ack, flag, rs) since Linux 6.10, with (sk, rs) before",
        ),
        (
            "invalid bpf_context access",
            "the kernel gives the operation fewer arguments: cong_control has (sk, rs) before Linux 6.10",
        ),
    ];
    remedies.iter().find(|(mark, _)| reason.contains(mark)).map(|(_, remedy)| *remedy)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

fn first_word(text: &str) -> &str {
    words(text).next().unwrap_or_default()
}

/// libbpf's last message that is not a repetition of another.
fn libbpf_reason(log: &str) -> Option<String> {
    let mut messages = log.lines().map(|l| l.trim().trim_start_matches("libbpf: "));
    let is_repetition =
        |l: &&str| l.is_empty() || l.starts_with("failed to load object") || l.contains("failed to load BPF");
    let complaint = messages.rfind(|l| !is_repetition(l))?;
    Some(match complaint.strip_prefix("extern (func ksym) ") {
        Some(rest) => {
            let name = quoted(rest).unwrap_or(rest);
            format!("this kernel has no function {name} for congestion controls, or its module is not loaded")
        }
        None => missing_member(complaint).unwrap_or_else(|| complaint.into()),
    })
}

/// Converts `struct_ops init_kern cubic: Cannot find member NAME in kernel BTF` to a sentence.
fn missing_member(complaint: &str) -> Option<String> {
    let (_, rest) = complaint.split_once(": Cannot find member ")?;
    Some(format!("this kernel's struct tcp_congestion_ops has no member {}", first_word(rest)))
}

/// Whether a line is a reason, that is, not an instruction, state or summary:
/// `12: (63) *(u32 *)(r6 +1) = r1`, `from 9 to 12: R0=...`, `R1=ctx()`.
fn is_reason(line: &str) -> bool {
    let begins_with_number = line.split(':').next().is_some_and(|n| n.parse::<u32>().is_ok());
    let first = line.split('=').next().unwrap_or(line);
    let state = line.contains('=') && line.starts_with('R') && !first.contains(' ');
    let noise = [
        "processed ",
        "to caller at",
        "caller:",
        "callee:",
        "returning from",
        "frame",
        "from ",
        "arg#",
        "Func#",
        "func#",
        "verification time",
        "stack depth",
        "mark_precise",
        "Validating ",
        "Live regs",
        "The sequence of",
        "max_states",
        "; ",
        "last_idx",
        "cur state",
        "old state",
        "regs=",
        "parent didn't",
        "parent already",
        "BPF program is too large",
        "reg type unsupported",
    ];
    !(line.is_empty() || begins_with_number || state || noise.iter().any(|n| line.starts_with(n)))
}

/// Converts `<invalid CO-RE relocation>` and the line after it to a sentence.
fn core_failure(verifier: &str) -> Option<String> {
    let (_, after) = verifier.split_once("<invalid CO-RE relocation>")?;
    let line = after.lines().map(str::trim).find(|l| l.starts_with("failed to resolve"))?;
    // ... <byte_off> [12] struct tcp_sock.foo (0:3 @ offset 4)
    let member = line.split_once("] ").map_or(line, |(_, m)| m).split(" (").next().unwrap_or(line);
    Some(format!("this kernel has no {member}"))
}

fn quoted(text: &str) -> Option<&str> {
    text.split('\'').nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_has_the_verifiers_reason_and_its_source_line() {
        let log = "libbpf: prog 'bad_init': BPF program load failed: -EACCES\n\
                   libbpf: prog 'bad_init': -- BEGIN PROG LOAD LOG --\n\
                   0: R1=ctx() R10=fp0\n\
                   ; void BPF_PROG(bad_init, struct sock *sk) @ my.bpf.c:12\n\
                   0: (79) r1 = *(u64 *)(r1 +0)\n\
                   func 'init' arg0 has btf_id 2871 type STRUCT 'sock'\n\
                   1: R1_w=trusted_ptr_sock()\n\
                   ; tcp_sk(sk)->srtt_us = 5; @ my.bpf.c:14\n\
                   2: (63) *(u32 *)(r1 +1684) = r2\n\
                   no write support to tcp_sock at off 1684\n\
                   processed 3 insns (limit 1000000) max_states_per_insn 0 total_states 0\n\
                   -- END PROG LOAD LOG --\n\
                   libbpf: prog 'bad_init': failed to load: -EACCES\n\
                   libbpf: failed to load object 'my.bpf.c'\n";
        let rejection = Rejection::read(log, "Permission denied");
        assert_eq!(
            rejection.to_string(),
            "my.bpf.c:14: in bad_init: no write support to tcp_sock at off 1684; a congestion control may write \
             snd_cwnd, snd_cwnd_cnt, snd_cwnd_stamp, snd_ssthresh, app_limited, ecn_flags, icsk_ack.pending, sk_pacing_rate, \
             sk_pacing_status and its own inet_csk_ca(sk)\n    tcp_sk(sk)->srtt_us = 5;"
        );
    }

    #[test]
    fn a_reason_that_begins_with_a_register_is_distinguished_from_states_and_calls() {
        let log = "libbpf: prog 'main': -- BEGIN PROG LOAD LOG --\n\
                   to caller at 28:\n\
                   frame1: R0=scalar() R1_w=0\n\
                   R1=ctx() R10=fp0\n\
                   ; a[i] = 0; @ x.bpf.c:1032\n\
                   96: (6b) *(u16 *)(r2 +96) = r3\n\
                   R2 is ptr_tcp_sock invalid variable offset: off=1392, var_off=(0x0; 0x2)\n\
                   processed 138 insns (limit 1000000)\n\
                   -- END PROG LOAD LOG --\n";
        let rejection = Rejection::read(log, "Permission denied");
        assert!(rejection.reason.starts_with("R2 is ptr_tcp_sock invalid variable offset"), "{rejection}");
        assert_eq!(
            (rejection.position.as_deref(), rejection.line.as_deref()),
            (Some("x.bpf.c:1032"), Some("a[i] = 0;"))
        );
    }

    #[test]
    fn an_infinite_loop_is_the_reason() {
        let log = "libbpf: prog 'main': -- BEGIN PROG LOAD LOG --\n\
                   ; for (;;) { } @ x.bpf.c:9\n\
                   2: (05) goto pc-1\n\
                   infinite loop detected at insn 2\n\
                   cur state: R1=scalar(smin=0) R10=fp0\n\
                   old state: R1=scalar(smin=0) R10=fp0\n\
                   processed 4 insns (limit 1000000)\n\
                   -- END PROG LOAD LOG --\n";
        assert_eq!(Rejection::read(log, "Invalid argument").reason, "infinite loop detected at insn 2");
    }

    #[test]
    fn a_missing_kernel_function_is_named() {
        let log = "libbpf: extern (func ksym) 'bbr_init': not found in kernel or module BTFs\n\
                   libbpf: failed to load object 'x'\n";
        let rejection = Rejection::read(log, "No such process").to_string();
        assert_eq!(
            rejection,
            "this kernel has no function bbr_init for congestion controls, or its module is not loaded; `modprobe tcp_bbr` \
             loads its module; the simulator has the function"
        );
        assert_eq!(Rejection::read("", "Invalid argument").to_string(), "Invalid argument");
    }
}
