//! Prints one direction of a link as an inline table, with exact values.

use net::{
    Discipline, Distribution, GilbertElliott, LossModel, LossUnit, PipeSpec, QueueLimit, Rate, RateTrace,
};

use crate::quote::quote;

/// The keys of a direction that are printed.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Detail {
    /// Only what differs from the default.
    NonDefault,
    /// Also defaults, where a change must undo an earlier value: changes overlay the state before them.
    All,
}

/// Prints the direction as TOML.
pub(crate) fn inline(direction: &PipeSpec, detail: Detail) -> String {
    let all = detail == Detail::All;
    let mut fields = rate(&direction.rate);
    fields.push(format!("delay = {}", quote(direction.delay)));
    fields.extend(limit("queue", direction.queue));
    let none = Discipline::default();
    if direction.discipline != none || (all && direction.rate != Rate::Unlimited) {
        fields.push(format!("qdisc = {}", discipline(&direction.discipline)));
    }
    match &direction.jitter {
        Some(jitter) => {
            fields.push(format!("jitter = {}", quote(jitter.spread)));
            fields.push(format!("distribution = {}", quote(distribution(jitter.distribution))));
            fields.push(format!("jitter_reorders = {}", jitter.reorders));
        }
        None if all => fields.push("jitter = \"0s\"".into()),
        None => {}
    }
    if direction.loss != LossModel::None || all {
        fields.push(format!("loss = {}", loss(&direction.loss, direction.loss_unit)));
    }
    for (key, share) in [("duplicate", direction.duplicate), ("corrupt", direction.corrupt)] {
        if share > 0.0 || all {
            fields.push(format!("{key} = {share:?}"));
        }
    }
    match &direction.reorder {
        Some(reorder) => {
            fields.push(format!("reorder = {:?}", reorder.probability));
            fields.push(format!("reorder_gap = {}", reorder.gap));
        }
        None if all => fields.push("reorder = 0.0".into()),
        None => {}
    }
    fields.extend(direction.burst.map(|burst| format!("burst = {}", quote(burst))));
    fields.push(format!("overhead = {}", direction.overhead));
    fields.extend(direction.mtu.map(|mtu| format!("mtu = {mtu}")));
    if direction.down || all {
        fields.push(format!("down = {}", direction.down));
    }
    format!("{{ {} }}", fields.join(", "))
}

fn rate(rate: &Rate) -> Vec<String> {
    let trace = match rate {
        Rate::Unlimited => return Vec::new(),
        Rate::Constant(rate) => return vec![format!("rate = {}", quote(rate))],
        Rate::Trace(trace) => trace,
    };
    match &**trace {
        RateTrace::Opportunities(at) => {
            let at: Vec<String> = at.iter().map(u64::to_string).collect();
            vec![format!("trace = {{ mahimahi = [{}] }}", at.join(", "))]
        }
        RateTrace::Steps { steps, end } => {
            let steps: Vec<String> =
                steps.iter().map(|(at, rate)| format!("[{}, {}]", quote(at), quote(rate))).collect();
            vec![format!("trace = [{}]", steps.join(", ")), format!("trace_period = {}", quote(end))]
        }
    }
}

fn limit(key: &str, limit: QueueLimit) -> Option<String> {
    match limit {
        QueueLimit::Unlimited => None,
        QueueLimit::Bytes(bytes) => Some(format!("{key} = {}", quote(bytes))),
        QueueLimit::Packets(packets) => Some(format!("{key} = \"{packets}p\"")),
    }
}

fn distribution(distribution: Distribution) -> &'static str {
    match distribution {
        Distribution::Uniform => "uniform",
        Distribution::Normal => "normal",
        Distribution::Pareto => "pareto",
    }
}

/// `{:?}` prints all digits of a share and a decimal point, so it parses as a TOML float.
fn loss(model: &LossModel, unit: LossUnit) -> String {
    let fields = match model {
        LossModel::None => return "0.0".into(),
        LossModel::Independent(share) if unit == LossUnit::Segment => return format!("{share:?}"),
        LossModel::Independent(share) => format!("rate = {share:?}"),
        LossModel::GilbertElliott(GilbertElliott { to_bad, to_good, loss_bad, loss_good }) => format!(
            "model = \"gilbert-elliott\", to_bad = {to_bad:?}, to_good = {to_good:?}, \
             loss_bad = {loss_bad:?}, loss_good = {loss_good:?}"
        ),
        LossModel::Every(n) => format!("every = {n}"),
        LossModel::Packets(numbers) => {
            let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
            format!("packets = [{}]", numbers.join(", "))
        }
        LossModel::Times { at, count } => {
            let at: Vec<String> = at.iter().map(quote).collect();
            format!("at = [{}], count = {count}", at.join(", "))
        }
    };
    match unit {
        LossUnit::Segment => format!("{{ {fields} }}"),
        LossUnit::SuperPacket => format!("{{ {fields}, unit = \"super-packet\" }}"),
    }
}

fn discipline(discipline: &Discipline) -> String {
    let codel = |c: &net::Codel| {
        format!("target = {}, interval = {}, ecn = {}", quote(c.target), quote(c.interval), c.ecn)
    };
    let fields = match discipline {
        Discipline::DropTail { mark_above } => {
            let mark_above = mark_above.and_then(|at| limit(", mark_above", at)).unwrap_or_default();
            format!("kind = \"droptail\"{mark_above}")
        }
        Discipline::DropHead => "kind = \"drophead\"".into(),
        Discipline::Red(red) => format!(
            "kind = \"red\", min = {}, max = {}, probability = {:?}, weight = {:?}, gentle = {}, ecn = {}",
            quote(red.min),
            quote(red.max),
            red.max_probability,
            red.weight,
            red.gentle,
            red.ecn
        ),
        Discipline::Codel(c) => format!("kind = \"codel\", {}", codel(c)),
        Discipline::FqCodel(f) => {
            let round_robin = format!("flows = {}, quantum = {}", f.flows, f.quantum);
            format!("kind = \"fq_codel\", {}, {round_robin}", codel(&f.codel))
        }
        Discipline::Fq(f) => format!("kind = \"fq\", flows = {}, quantum = {}", f.flows, f.quantum),
        Discipline::DualPi2(d) => format!(
            "kind = \"dualpi2\", target = {}, update = {}, alpha = {:?}, beta = {:?}, coupling = {:?}, step = {}",
            quote(d.target),
            quote(d.update),
            d.alpha,
            d.beta,
            d.coupling,
            quote(d.step)
        ),
        Discipline::Xcp(x) => {
            format!("kind = \"xcp\", alpha = {:?}, beta = {:?}, shuffle = {:?}", x.alpha, x.beta, x.shuffle)
        }
    };
    format!("{{ {fields} }}")
}
