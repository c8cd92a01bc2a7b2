//! Checks that each operation points to a function with the signature of the kernel's call.
//!
//! Members are usually set with a cast to `void *`, so the compiler does not notice an old signature;
//! natively such a function would read garbage as a pointer.

use super::inspect::{Class, Function, Inspection, Operations};
use super::runtime;
use tcp::Operation;

/// The mismatches, by line.
pub fn check(found: &Inspection) -> Vec<(u32, String)> {
    let mut wrong = Vec::new();
    for operations in &found.operations {
        let mut compare = |offset: u64, member: &str, call: &Call| {
            let Some(address) = operations.members.get(&offset) else { return };
            // Functions of the shim are not checked.
            let Some(function) = found.functions.get(address) else { return };
            if let Some(why) = mismatch(call, function) {
                let text = format!("{}, used as {member} of {}, {why}", function.name, operations.name);
                wrong.push((function.line, text));
            }
        };
        for operation in Operation::ALL {
            // It is called with its own arguments.
            if operation == Operation::CongControl && has_short_cong_control(found, operations) {
                continue;
            }
            compare(runtime::offset(operation), operation.name(), &expected(operation));
        }
        compare(runtime::TX_START_OFFSET, "cwnd_event_tx_start", &expected(Operation::Init));
        if operations.members.contains_key(&runtime::GET_INFO_OFFSET) {
            let text = format!(
                "get_info of {} is set, which the kernel does not allow for eBPF; remove it, `ss -i` then shows no details of it",
                operations.name
            );
            wrong.push((operations.line, text));
        }
    }
    wrong.extend(found.declared.iter().filter_map(|declared| {
        let defined = found.of_shim.get(&declared.name)?;
        let same = defined.parameters.len() == declared.parameters.len()
            && declared.parameters.iter().zip(&defined.parameters).all(|(has, gets)| fits(has, gets));
        let text = format!(
            "{} is declared with other arguments than the kernel's function, which changed in Linux 6.10",
            declared.name
        );
        (!same).then_some((declared.line, text))
    }));
    wrong.sort();
    wrong.dedup();
    wrong
}

/// Whether cong_control has the form of kernels before Linux 6.10: `(struct sock *sk, const struct
/// rate_sample *rs)`.
pub fn has_short_cong_control(found: &Inspection, operations: &Operations) -> bool {
    let address = operations.members.get(&runtime::offset(Operation::CongControl));
    let function = address.and_then(|address| found.functions.get(address));
    function.is_some_and(|f| {
        matches!(&f.parameters[..], [sk, Class::Pointer(rs)] if rs == "rate_sample" && fits(sk, &Class::Pointer("sock".into())))
    })
}

/// Return type of an operation, and its arguments as text and by type.
type Call = (Class, &'static str, Vec<Class>);

/// The signature with which the kernel calls an operation.
fn expected(operation: Operation) -> Call {
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

fn mismatch((returns, called, arguments): &Call, function: &Function) -> Option<String> {
    if *returns != Class::Void && !matches!(function.returns, Class::Integer(_)) {
        return Some("returns no number".into());
    }
    if function.parameters.len() > arguments.len() {
        return Some(format!("takes {} arguments; it is called with {called}", function.parameters.len()));
    }
    // Fewer arguments are allowed, as in eBPF: the others are not read.
    let wrong = function.parameters.iter().zip(arguments).position(|(has, gets)| !fits(has, gets))?;
    Some(format!("takes another type as its argument {}; it is called with {called}", wrong + 1))
}

/// Whether a parameter of type `has` accepts an argument of type `gets`.
fn fits(has: &Class, gets: &Class) -> bool {
    match (has, gets) {
        (Class::Integer(has), Class::Integer(gets)) => *has <= 8 && (*has >= *gets || *gets > 1),
        // A socket can be passed as any of its structures, and as an untyped pointer.
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
