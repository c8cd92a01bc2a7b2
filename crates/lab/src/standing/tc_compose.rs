//! Applies a port's qdiscs to its pipe, and prints qdiscs in the format of tc.

use std::fmt;

use net::{Discipline, Jitter, LossModel, LossUnit, PipeSpec, QueueLimit, Rate, Reorder};
use units::{BitRate, Time};

use super::{
    tc::{Netem, Parent, Qdisc, QdiscKind},
    tc_kinds::{HtbClass, Police, TX_QUEUE},
};

/// Default limit of netem's queue, packets (sch_netem.c, tc-netem(8)).
const NETEM_LIMIT: u64 = 1000;

/// Applies a port's qdiscs to its pipe; `plain` is the pipe without qdiscs, `policer` that of the port at the
/// other end.
///
/// # Errors
/// If one link cannot have this combination of qdiscs; the error names them.
pub(crate) fn compose(
    qdiscs: &[Qdisc],
    plain: &PipeSpec,
    policer: Option<&Police>,
) -> Result<PipeSpec, String> {
    let mut spec = plain.clone();
    let mut shaper = None;
    for qdisc in qdiscs.iter().filter(|q| is_active(qdiscs, q)) {
        let name = qdisc.kind.name();
        let rate = match &qdisc.kind {
            QdiscKind::Tbf(tbf) => Some((tbf.rate, Some(tbf.burst), QueueLimit::Bytes(tbf.limit))),
            QdiscKind::Htb(htb) => htb
                .default_class()
                .map(|class| (htb.rate_of(class), class.burst, QueueLimit::Packets(TX_QUEUE))),
            QdiscKind::Netem(netem) => {
                apply_netem(netem, &mut spec);
                netem.rate.map(|rate| (rate, None, QueueLimit::Packets(netem.limit.unwrap_or(NETEM_LIMIT))))
            }
            QdiscKind::Queue(_) => None,
        };
        let Some((rate, burst, queue)) = rate else { continue };
        if let Some(other) = shaper.replace(name) {
            let what = if name == "netem" || other == "netem" { "netem rate" } else { "a second rate" };
            return Err(format!(
                "{what} in addition to {} is not supported on an emulated port: a link has one rate",
                if other == "netem" { name } else { other }
            ));
        }
        (spec.rate, spec.burst, spec.queue) = (Rate::Constant(rate), burst, queue);
        spec.discipline = Discipline::default();
    }
    for qdisc in qdiscs.iter().filter(|q| is_active(qdiscs, q)) {
        if let QdiscKind::Queue(queue) = &qdisc.kind {
            (spec.queue, spec.discipline) = (queue.limit, queue.discipline.clone());
        }
    }
    if let Some(police) = policer {
        if spec.rate != Rate::Unlimited {
            return Err("police at a port whose link has a rate is not supported: a link has one rate".into());
        }
        spec.rate = Rate::Constant(police.rate);
        spec.burst = Some(police.burst);
        // The queue has space for one packet, which waits for its tokens.
        (spec.queue, spec.discipline) = (QueueLimit::Packets(1), Discipline::default());
    }
    Ok(spec)
}

/// Whether packets pass a qdisc: it is not below an htb class other than the default.
fn is_active(qdiscs: &[Qdisc], qdisc: &Qdisc) -> bool {
    let Some(parent) = qdisc.parent else { return true };
    let Some(above) = qdiscs.iter().find(|q| q.handle == parent.handle) else { return false };
    let passes = match &above.kind {
        QdiscKind::Htb(htb) => htb.default == parent.class,
        _ => true,
    };
    passes && is_active(qdiscs, above)
}

/// A warning about parameters of accepted qdiscs that have no effect.
pub(crate) fn warning(kind: &QdiscKind, spec: &PipeSpec) -> Option<&'static str> {
    match kind {
        QdiscKind::Netem(netem) if netem.limit.is_some() && netem.rate.is_none() => {
            Some("Warning: netem limit is not emulated: a delay holds any number of packets")
        }
        QdiscKind::Queue(_) if spec.rate == Rate::Unlimited => {
            Some("Warning: this port has no rate, so its queue stays empty")
        }
        _ => None,
    }
}

fn apply_netem(netem: &Netem, spec: &mut PipeSpec) {
    spec.delay = netem.delay;
    spec.jitter = (netem.jitter > Time::ZERO).then_some(Jitter {
        spread: netem.jitter,
        distribution: netem.distribution,
        reorders: true,
    });
    spec.loss = netem.loss.clone();
    spec.loss_unit = LossUnit::SuperPacket;
    spec.duplicate = netem.duplicate;
    spec.corrupt = netem.corrupt;
    spec.reorder = (netem.reorder > 0.0).then_some(Reorder { probability: netem.reorder, gap: netem.gap });
}

impl QdiscKind {
    pub(crate) fn name(&self) -> &str {
        match self {
            QdiscKind::Netem(_) => "netem",
            QdiscKind::Tbf(_) => "tbf",
            QdiscKind::Htb(_) => "htb",
            QdiscKind::Queue(queue) => queue.shown.split(' ').next().unwrap_or_default(),
        }
    }
}

impl fmt::Display for Parent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.class {
            0 => write!(f, "{:x}:", self.handle),
            class => write!(f, "{:x}:{class:x}", self.handle),
        }
    }
}

impl fmt::Display for Qdisc {
    /// In the format of tc, without `gap`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "qdisc {} {:x}: ", self.kind.name(), self.handle)?;
        match self.parent {
            None => write!(f, "root")?,
            Some(parent) => write!(f, "parent {parent}")?,
        }
        match &self.kind {
            QdiscKind::Tbf(t) => {
                write!(f, " rate {} burst {}b limit {}b", format_rate(t.rate), t.burst.0, t.limit.0)
            }
            QdiscKind::Htb(htb) => write!(f, " default {:#x}", htb.default),
            QdiscKind::Queue(queue) => write!(f, "{}", &queue.shown[self.kind.name().len()..]),
            QdiscKind::Netem(netem) => fmt_netem(netem, f),
        }
    }
}

/// A class in the format of tc.
pub(crate) fn describe_class(handle: u32, class: &HtbClass) -> String {
    let id = Parent { handle, class: class.minor };
    let above = match class.parent {
        0 => "root".to_owned(),
        parent => format!("parent {}", Parent { handle, class: parent }),
    };
    let burst = class.burst.map(|burst| format!(" burst {}b", burst.0)).unwrap_or_default();
    format!("class htb {id} {above} rate {} ceil {}{burst}", format_rate(class.rate), format_rate(class.ceil))
}

/// A time in the format of tc: `20ms`.
fn format_time(time: Time) -> String {
    time.to_string().replace(' ', "")
}

/// A rate in the format of tc: `10Gbit`.
pub(crate) fn format_rate(rate: BitRate) -> String {
    rate.to_string().replace("b/s", "bit").replace(' ', "")
}

fn fmt_netem(netem: &Netem, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, " limit {}", netem.limit.unwrap_or(NETEM_LIMIT))?;
    if netem.delay > Time::ZERO {
        write!(f, " delay {}", format_time(netem.delay))?;
    }
    if netem.jitter > Time::ZERO {
        write!(f, "  {}", format_time(netem.jitter))?;
    }
    match &netem.loss {
        LossModel::Independent(p) => write!(f, " loss {}%", p * 100.0)?,
        LossModel::GilbertElliott(g) => write!(
            f,
            " loss gemodel p {}% r {}% 1-h {}% 1-k {}%",
            g.to_bad * 100.0,
            g.to_good * 100.0,
            g.loss_bad * 100.0,
            g.loss_good * 100.0
        )?,
        _ => {}
    }
    for (name, share) in
        [("duplicate", netem.duplicate), ("corrupt", netem.corrupt), ("reorder", netem.reorder)]
    {
        if share > 0.0 {
            write!(f, " {name} {}%", share * 100.0)?;
        }
    }
    match netem.rate {
        Some(rate) => write!(f, " rate {}", format_rate(rate)),
        None => Ok(()),
    }
}
