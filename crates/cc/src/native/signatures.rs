//! Checks that each operation points to a function that can be called as the kernel calls it.
//!
//! Members are usually set with a cast to `void *`, so the compiler does not see an old signature; natively such a call
//! would read garbage as a pointer.

use super::inspect::{Class, Function, Inspection};
use super::runtime;
use tcp::Operation;

/// What is wrong, by line.
pub fn check(found: &Inspection) -> Vec<(u32, String)> {
    let mut wrong = Vec::new();
    for operations in &found.operations {
        for operation in Operation::ALL {
            let Some(address) = operations.members.get(&runtime::offset(operation)) else { continue };
            // A function that is the shim's own is as it should be.
            let Some(function) = found.functions.get(address) else { continue };
            if let Some(why) = mismatch(operation, function) {
                let text =
                    format!("{}, used as {} of {}, {why}", function.name, operation.name(), operations.name);
                wrong.push((function.line, text));
            }
        }
        if operations.members.contains_key(&runtime::GET_INFO_OFFSET) {
            let text = format!("get_info of {} is set: the kernel takes none from eBPF", operations.name);
            wrong.push((operations.line, text));
        }
    }
    wrong.sort();
    wrong.dedup();
    wrong
}

/// How the kernel calls an operation: what it returns and the names and types of its arguments.
fn expected(operation: Operation) -> (Class, &'static str, Vec<Class>) {
    let int = || Class::Integer(4);
    let sk = || Class::Pointer("sock".into());
    let pointer = |name: &str| Class::Pointer(name.into());
    match operation {
        Operation::Ssthresh | Operation::MinTsoSegs | Operation::UndoCwnd | Operation::SndbufExpand => {
            (int(), "(struct sock *sk)", vec![sk()])
        }
        Operation::Init | Operation::Release => (Class::Void, "(struct sock *sk)", vec![sk()]),
        Operation::CongAvoid => {
            (Class::Void, "(struct sock *sk, u32 ack, u32 acked)", vec![sk(), int(), int()])
        }
        Operation::SetState => {
            (Class::Void, "(struct sock *sk, u8 new_state)", vec![sk(), Class::Integer(1)])
        }
        Operation::CwndEvent => (Class::Void, "(struct sock *sk, enum tcp_ca_event ev)", vec![sk(), int()]),
        Operation::InAckEvent => (Class::Void, "(struct sock *sk, u32 flags)", vec![sk(), int()]),
        Operation::PktsAcked => (
            Class::Void,
            "(struct sock *sk, const struct ack_sample *sample)",
            vec![sk(), pointer("ack_sample")],
        ),
        Operation::CongControl => (
            Class::Void,
            "(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)",
            vec![sk(), int(), int(), pointer("rate_sample")],
        ),
    }
}

fn mismatch(operation: Operation, function: &Function) -> Option<String> {
    let (returns, called, arguments) = expected(operation);
    let hint = match operation {
        Operation::CongControl => {
            "; before Linux 6.10 it was (struct sock *sk, const struct rate_sample *rs)"
        }
        _ => "",
    };
    if returns != Class::Void && !matches!(function.returns, Class::Integer(_)) {
        return Some("returns no number".into());
    }
    if function.parameters.len() > arguments.len() {
        return Some(format!(
            "takes {} arguments; it is called with {called}{hint}",
            function.parameters.len()
        ));
    }
    // Fewer arguments are fine, as in eBPF: the rest are not read.
    let wrong = function.parameters.iter().zip(&arguments).position(|(has, gets)| !fits(has, gets))?;
    Some(format!("takes another type as its argument {}; it is called with {called}{hint}", wrong + 1))
}

/// Whether a function that takes `has` may be given `gets`.
fn fits(has: &Class, gets: &Class) -> bool {
    match (has, gets) {
        (Class::Integer(has), Class::Integer(gets)) => *has <= 8 && (*has >= *gets || *gets > 1),
        // A socket may be taken by any of its faces; an untyped pointer by any.
        (Class::Pointer(has), Class::Pointer(gets)) if gets == "sock" => {
            has.is_empty()
                || has == "tcp_sock"
                || has == "inet_connection_sock"
                || has == "inet_sock"
                || has == "sock"
        }
        (Class::Pointer(has), Class::Pointer(gets)) => has.is_empty() || has == gets,
        _ => false,
    }
}
