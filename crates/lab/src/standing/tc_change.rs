//! Changes of a port's qdiscs and classes, with the errors of tc, and their counters.

use net::PipeCounters;

use super::{
    tc::{self, Parent, Qdisc, QdiscAction, QdiscKind, QdiscPosition},
    tc_kinds::{self, HtbClass},
};

/// The counters of a qdisc since its root was added, as `tc -s` prints them. At the root (`None`) they count
/// all drops, below it those of the kind. `overlimits` counts packets that found the queue full or were
/// marked.
pub(crate) fn counters_of(kind: Option<&QdiscKind>, now: &PipeCounters, since: &PipeCounters) -> String {
    let queue = now.dropped_queue + now.dropped_aqm - since.dropped_queue - since.dropped_aqm;
    let wire = now.dropped_loss - since.dropped_loss;
    let other = now.dropped_mtu + now.dropped_down - since.dropped_mtu - since.dropped_down;
    let dropped = match kind {
        None => queue + wire + other,
        Some(QdiscKind::Netem(netem)) if netem.rate.is_none() => wire,
        Some(QdiscKind::Netem(_)) => wire + queue,
        Some(_) => queue,
    };
    let overlimits = queue + now.marked - since.marked;
    format!(
        " Sent {} bytes {} pkt (dropped {dropped}, overlimits {overlimits} requeues 0)\n \
          backlog {}b {}p requeues 0",
        now.sent_bytes - since.sent_bytes,
        now.sent_packets - since.sent_packets,
        now.queue_bytes,
        now.queue_packets
    )
}

/// Adds, changes or removes a class of htb as tc does.
pub(crate) fn change_classes(
    qdiscs: &mut [Qdisc],
    action: QdiscAction,
    class: Parent,
    parameters: Option<HtbClass>,
) -> Result<(), String> {
    let has_children = qdiscs.iter().any(|q| q.parent == Some(class));
    let on_device = present(qdiscs);
    let found = qdiscs.iter_mut().find(|q| q.handle == class.handle).map(|q| &mut q.kind);
    let Some(QdiscKind::Htb(htb)) = found else {
        return Err(format!("no htb qdisc {:x}:{}", class.handle, on_device));
    };
    let existing = htb.classes.iter().position(|c| c.minor == class.class);
    match (action, existing, parameters) {
        (QdiscAction::Add, Some(_), _) => {
            return Err(format!(
                "File exists: there is a class {class} already; tc class change sets its parameters"
            ));
        }
        (QdiscAction::Change | QdiscAction::Delete, None, _) => return Err(format!("no class {class}")),
        (QdiscAction::Delete, Some(at), _) => {
            if has_children || htb.classes.iter().any(|c| c.parent == class.class) {
                return Err(format!("class {class} is in use"));
            }
            htb.classes.remove(at);
        }
        (_, existing, Some(parameters)) => {
            if parameters.parent == parameters.minor {
                return Err(format!("class {class} cannot be its own parent"));
            }
            if parameters.parent != 0 && htb.class(parameters.parent).is_none() {
                return Err(format!("no class {:x}:{:x}", class.handle, parameters.parent));
            }
            match existing {
                // A class stays where it is, as in Linux: so there are no cycles.
                Some(at) if htb.classes[at].parent != parameters.parent => {
                    return Err(format!("class {class} cannot get another parent"));
                }
                Some(at) => htb.classes[at] = parameters,
                None => htb.classes.push(parameters),
            }
        }
        (_, _, None) => return Err("no class given".into()),
    }
    Ok(())
}

/// Adds, changes or removes a qdisc as tc does.
pub(crate) fn change_qdiscs(
    qdiscs: &mut Vec<Qdisc>,
    action: QdiscAction,
    position: QdiscPosition,
    handle: Option<u32>,
    kind: Option<tc::QdiscKind>,
) -> Result<(), String> {
    let parent = match position {
        QdiscPosition::Root => None,
        QdiscPosition::Ingress => return Err("ingress has policers only".into()),
        QdiscPosition::Under(parent) => {
            match qdiscs.iter().find(|q| q.handle == parent.handle).map(|q| &q.kind) {
                None => return Err(format!("no parent qdisc {:x}:{}", parent.handle, present(qdiscs))),
                Some(QdiscKind::Htb(htb)) if htb.class(parent.class).is_none() => {
                    return Err(format!("no class {parent}"));
                }
                Some(QdiscKind::Htb(_)) => Some(parent),
                Some(QdiscKind::Queue(queue)) if !queue.shown.starts_with("red") => {
                    return Err(format!("{} has no classes", qdisc_name(qdiscs, parent.handle)));
                }
                // These have one class.
                Some(_) => Some(Parent { class: 0, ..parent }),
            }
        }
    };
    let existing = qdiscs.iter().position(|q| q.parent == parent);
    match (action, existing) {
        (QdiscAction::Add, Some(at)) => return Err(exists_error(&qdiscs[at], kind.as_ref())),
        (QdiscAction::Change | QdiscAction::Delete, None) => {
            return Err("no such qdisc (cannot find specified qdisc on specified device)".into());
        }
        (QdiscAction::Delete, Some(_)) => delete_below(qdiscs, parent),
        (QdiscAction::Change, Some(at)) => {
            let kind = kind.ok_or("no qdisc given")?;
            if std::mem::discriminant(&qdiscs[at].kind) != std::mem::discriminant(&kind) {
                return Err("change cannot change the kind of a qdisc; use replace".into());
            }
            qdiscs[at].kind = match (&qdiscs[at].kind, kind) {
                (QdiscKind::Htb(old), QdiscKind::Htb(new)) => {
                    QdiscKind::Htb(tc_kinds::Htb { classes: old.classes.clone(), ..new })
                }
                (QdiscKind::Queue(old), QdiscKind::Queue(new))
                    if std::mem::discriminant(&old.discipline) != std::mem::discriminant(&new.discipline) =>
                {
                    return Err("change cannot change the kind of a qdisc; use replace".into());
                }
                (_, kind) => kind,
            };
        }
        (QdiscAction::Add | QdiscAction::Replace, _) => {
            delete_below(qdiscs, parent);
            let free = (0x8001..).find(|h| qdiscs.iter().all(|q| q.handle != *h)).unwrap_or(0x8001);
            let handle = handle.unwrap_or(free);
            if qdiscs.iter().any(|q| q.handle == handle) {
                return Err(format!(
                    "File exists: there is a qdisc {handle:x}: already; choose another handle"
                ));
            }
            qdiscs.push(Qdisc { handle, parent, kind: kind.ok_or("no qdisc given")? });
        }
    }
    Ok(())
}

/// The error of tc for a position that has a qdisc, and the command to use instead of `add`.
fn exists_error(existing: &Qdisc, new: Option<&QdiscKind>) -> String {
    let instead = match new {
        Some(new) if new.name() == existing.kind.name() => {
            "tc qdisc change sets its parameters, tc qdisc replace sets all of them"
        }
        _ => "tc qdisc replace puts another in its place, tc qdisc del removes it",
    };
    let position = if existing.parent.is_none() { "root " } else { "" };
    format!(
        "File exists: there is a {position}qdisc already, {} {:x}: (Exclusivity flag on, cannot modify); {instead}",
        existing.kind.name(),
        existing.handle
    )
}

/// The name of the qdisc with this handle.
fn qdisc_name(qdiscs: &[Qdisc], handle: u32) -> &str {
    qdiscs.iter().find(|q| q.handle == handle).map_or("", |q| q.kind.name())
}

/// The device's qdiscs, for an error about a qdisc that does not exist. A qdisc that was added without a
/// handle has a handle that the user does not know.
fn present(qdiscs: &[Qdisc]) -> String {
    match qdiscs {
        [] => "; the device has none yet: tc qdisc add dev DEVICE root handle 1: ...".to_owned(),
        qdiscs => {
            let names: Vec<String> =
                qdiscs.iter().map(|q| format!("{} {:x}:", q.kind.name(), q.handle)).collect();
            format!(
                "; the device has {}; use its handle, or delete it (tc qdisc del dev DEVICE root) and add it again with handle 1:",
                names.join(", ")
            )
        }
    }
}

/// Removes the qdisc under `parent`, and all its descendants.
fn delete_below(qdiscs: &mut Vec<Qdisc>, parent: Option<Parent>) {
    while let Some(at) = qdiscs.iter().position(|q| q.parent == parent) {
        let removed = qdiscs.remove(at);
        while let Some(child) = qdiscs.iter().find_map(|q| q.parent.filter(|p| p.handle == removed.handle)) {
            delete_below(qdiscs, Some(child));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a command and executes it on a port.
    fn execute(qdiscs: &mut Vec<Qdisc>, line: &str) -> Result<(), String> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        match tc::parse(&arguments)? {
            tc::TcCommand::Change { action, position, handle, kind, .. } => {
                change_qdiscs(qdiscs, action, position, handle, kind)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_unknown_parent_is_refused_with_the_qdiscs_that_the_device_has() {
        let mut qdiscs = Vec::new();
        let child = "qdisc add dev s1-eth2 parent 1: handle 2: tbf rate 10gbit burst 5000000 limit 25000000";
        let refused = execute(&mut qdiscs, child).unwrap_err();
        assert!(refused.starts_with("no parent qdisc 1:; the device has none yet"), "{refused}");
        execute(&mut qdiscs, "qdisc add dev s1-eth2 root netem delay 20ms").unwrap();
        let given = format!("the device has netem {:x}:; use its handle", qdiscs[0].handle);
        let refused = execute(&mut qdiscs, child).unwrap_err();
        assert!(refused.contains(&given), "{refused}");
        let refused =
            change_classes(&mut qdiscs, QdiscAction::Add, Parent { handle: 1, class: 1 }, None).unwrap_err();
        assert!(refused.starts_with("no htb qdisc 1:; the device has netem"), "{refused}");
    }
}
