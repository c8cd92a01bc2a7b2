//! `tc`: changes and shows qdiscs, classes and policers.

use net::{PipeCounters, PipeSpec};

use super::{CommandResult, End, Links, describe};
use crate::standing::{
    tc::{self, Qdisc, QdiscAction, QdiscKind, QdiscPosition, TcCommand, TcObject},
    tc_change::{change_classes, change_qdiscs, counters_of},
    tc_compose::{describe_class, format_rate, warning},
};

impl Links {
    /// Runs `tc` with these arguments. `counters` has an entry for each direction: the first link forward,
    /// then backward, and so on.
    pub(crate) fn tc(
        &mut self,
        arguments: &[String],
        counters: &[PipeCounters],
    ) -> Result<CommandResult, String> {
        match tc::parse(arguments)? {
            TcCommand::Show { device, object, with_counters } => {
                self.show(device.as_deref(), object, counters, with_counters)
            }
            TcCommand::Change { device, action, position: QdiscPosition::Ingress, .. } => {
                self.ingress(&device, action)
            }
            TcCommand::Change { device, action, position, handle, kind } => {
                let (index, side) = self.find_device(&device)?;
                let mut qdiscs = self.0[index].ends[side].qdiscs.clone();
                change_qdiscs(&mut qdiscs, action, position, handle, kind.clone())?;
                let is_new = position == QdiscPosition::Root
                    && matches!(action, QdiscAction::Add | QdiscAction::Replace);
                let done = self.set_qdiscs(index, side, qdiscs)?;
                if is_new {
                    self.0[index].ends[side].since =
                        counters.get(2 * index + side).copied().unwrap_or_default();
                }
                let spec = self.0[index].spec(side);
                let text = kind.and_then(|kind| warning(&kind, &spec)).unwrap_or_default().to_owned();
                Ok(CommandResult { text, ..done })
            }
            TcCommand::Class { device, action, class, parameters } => {
                let (index, side) = self.find_device(&device)?;
                let mut qdiscs = self.0[index].ends[side].qdiscs.clone();
                change_classes(&mut qdiscs, action, class, parameters)?;
                let done = self.set_qdiscs(index, side, qdiscs)?;
                Ok(CommandResult { text: String::new(), ..done })
            }
            TcCommand::Police { device, police } => {
                let (index, side) = self.find_device(&device)?;
                let link = &mut self.0[index];
                if !link.ends[side].has_ingress {
                    return Err(format!("no ingress qdisc; add it first: tc qdisc add dev {device} ingress"));
                }
                let before = std::mem::replace(&mut link.ends[side].police, police);
                if let Err(why) = link.try_spec(1 - side) {
                    link.ends[side].police = before;
                    return Err(why);
                }
                Ok(CommandResult { text: String::new(), ..self.done(index) })
            }
        }
    }

    /// Adds or removes the ingress qdisc of a port.
    fn ingress(&mut self, device: &str, action: QdiscAction) -> Result<CommandResult, String> {
        let (index, side) = self.find_device(device)?;
        let end = &mut self.0[index].ends[side];
        match (action, end.has_ingress) {
            (QdiscAction::Add, true) => {
                return Err(format!(
                    "File exists: {device} has an ingress qdisc already; tc filter add dev {device} parent ffff: adds a policer"
                ));
            }
            (QdiscAction::Delete, false) => return Err("no ingress qdisc".into()),
            (QdiscAction::Delete, true) => (end.has_ingress, end.police) = (false, None),
            _ => end.has_ingress = true,
        }
        Ok(CommandResult { text: String::new(), ..self.done(index) })
    }

    /// Sets a port's qdiscs, unless one link cannot have this combination.
    fn set_qdiscs(&mut self, index: usize, side: usize, qdiscs: Vec<Qdisc>) -> Result<CommandResult, String> {
        let link = &mut self.0[index];
        let before = std::mem::replace(&mut link.ends[side].qdiscs, qdiscs);
        if let Err(why) = link.try_spec(side) {
            link.ends[side].qdiscs = before;
            return Err(why);
        }
        let end = &mut link.ends[side];
        if end.qdiscs.is_empty() {
            // As in Mininet, a port without a root qdisc is ideal.
            let PipeSpec { overhead, down, .. } = end.plain;
            end.plain = PipeSpec { overhead, down, ..PipeSpec::default() };
        }
        Ok(self.done(index))
    }

    fn show(
        &self,
        device: Option<&str>,
        object: TcObject,
        counters: &[PipeCounters],
        with_counters: bool,
    ) -> Result<CommandResult, String> {
        let mut lines = Vec::new();
        if let Some(device) = device {
            self.find_device(device)?;
        }
        let ends = self.0.iter().flat_map(|l| &l.ends).zip(counters);
        for (end, now) in ends.filter(|(e, _)| device.is_none_or(|d| d == e.device)) {
            match object {
                TcObject::Qdisc => end.show_qdiscs(with_counters.then_some(now), &mut lines),
                TcObject::Class => end.show_classes(&mut lines),
                TcObject::Filter => lines.extend(end.police.as_ref().map(|police| {
                    format!(
                        "filter dev {} parent ffff: protocol all matchall police rate {} burst {}b action drop",
                        end.device,
                        format_rate(police.rate),
                        police.burst.0
                    )
                })),
            }
        }
        Ok(CommandResult { text: lines.join("\n"), ..CommandResult::default() })
    }
}

impl End {
    fn show_qdiscs(&self, now: Option<&PipeCounters>, lines: &mut Vec<String>) {
        if self.qdiscs.is_empty() {
            lines.push(format!("qdisc longfat 0: dev {} root {}", self.device, describe(&self.plain)));
            lines.extend(now.map(|now| counters_of(None, now, &self.since)));
        }
        for qdisc in &self.qdiscs {
            // As tc does, with the device after the handle.
            lines.push(qdisc.to_string().replacen(": ", &format!(": dev {} ", self.device), 1));
            let kind = qdisc.parent.map(|_| &qdisc.kind);
            lines.extend(now.map(|now| counters_of(kind, now, &self.since)));
        }
        if self.has_ingress {
            lines.push(format!("qdisc ingress ffff: dev {} parent ffff:fff1", self.device));
        }
    }

    fn show_classes(&self, lines: &mut Vec<String>) {
        for qdisc in &self.qdiscs {
            if let QdiscKind::Htb(htb) = &qdisc.kind {
                lines.extend(htb.classes.iter().map(|class| describe_class(qdisc.handle, class)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use net::{Direction, QueueLimit, Rate};
    use units::{BitRate, Bytes, Time};

    use super::*;
    use crate::standing::links::tests::{arguments, links, tc};

    #[test]
    fn tc_commands_change_the_direction_of_a_port() {
        let mut links = links();
        tc(&mut links, "qdisc add dev s2-eth1 root handle 1: netem delay 20ms").unwrap();
        let line = "qdisc add dev s2-eth1 parent 1: handle 2: tbf rate 10gbit burst 5000000 limit 25000000";
        let done = tc(&mut links, line).unwrap();
        let (pipe, spec) = &done.changed[1];
        assert_eq!((pipe.link, pipe.direction), (1, Direction::Backward));
        assert_eq!((spec.delay, spec.queue), (Time::from_millis(20), QueueLimit::Bytes(Bytes(25_000_000))));
        assert_eq!(done.changed[0].1.delay, Time::from_millis(5), "the other direction is unchanged");
        let shown = tc(&mut links, "qdisc show dev s2-eth1").unwrap().text;
        assert_eq!(shown.lines().count(), 2);
        assert!(shown.starts_with("qdisc netem 1: dev s2-eth1 root limit 1000 delay 20ms"), "{shown}");
        assert!(tc(&mut links, line).unwrap_err().contains("already"));
        tc(&mut links, "qdisc change dev s2-eth1 root handle 1: netem loss 1%").unwrap();
        let done = tc(&mut links, "qdisc del dev s2-eth1 root").unwrap();
        assert_eq!(done.changed[1].1, PipeSpec::default());
        assert!(tc(&mut links, "qdisc del dev s2-eth1 root").is_err());
        assert!(
            tc(&mut links, "qdisc add dev s9-eth1 root netem delay 1ms").unwrap_err().contains("s1-eth1")
        );
    }

    #[test]
    fn shapers_queues_and_policers_compose() {
        let mut links = links();
        // As Mininet's TCLink does.
        for line in [
            "qdisc add dev s1-eth2 root handle 5: htb default 1",
            "class add dev s1-eth2 parent 5: classid 5:1 htb rate 10mbit burst 15k",
            "qdisc add dev s1-eth2 parent 5:1 handle 10: netem delay 7ms",
        ] {
            tc(&mut links, line).unwrap();
        }
        let done = tc(&mut links, "qdisc add dev s1-eth2 parent 10: handle 11: fq_codel").unwrap();
        let spec = &done.changed[0].1;
        assert_eq!((&spec.rate, spec.burst), (&Rate::Constant(BitRate(10_000_000)), Some(Bytes(15 * 1024))));
        assert_eq!((spec.delay, spec.queue), (Time::from_millis(7), QueueLimit::Packets(10_240)));
        assert!(matches!(spec.discipline, net::Discipline::FqCodel(_)));
        let shown = tc(&mut links, "class show dev s1-eth2").unwrap().text;
        assert_eq!(shown, "class htb 5:1 root rate 10Mbit ceil 10Mbit burst 15360b");
        let error = tc(&mut links, "qdisc change dev s1-eth2 parent 5:1 netem rate 1mbit").unwrap_err();
        assert!(error.contains("netem rate in addition to htb"), "{error}");
        assert!(tc(&mut links, "class del dev s1-eth2 classid 5:1").unwrap_err().contains("in use"));
        assert!(
            tc(&mut links, "qdisc add dev s1-eth2 parent 5:9 netem delay 1ms").unwrap_err().contains("5:9")
        );
        let error = tc(&mut links, "qdisc add dev s1-eth2 parent 11: handle 12: pfifo").unwrap_err();
        assert!(error.contains("fq_codel has no classes"), "{error}");
        // A refused command changes nothing.
        assert_eq!(links.0[1].spec(0), done.changed[0].1);

        tc(&mut links, "qdisc add dev s1-eth1 ingress").unwrap();
        let line = "filter add dev s1-eth1 parent ffff: protocol ip u32 match u32 0 0 police rate 1mbit burst 10k drop";
        let done = tc(&mut links, line).unwrap();
        let policed = &done.changed[0].1;
        assert_eq!((policed.queue, policed.burst), (QueueLimit::Packets(1), Some(Bytes(10_240))));
        assert_eq!(done.changed[1].1, PipeSpec::default(), "only received packets");
        assert!(tc(&mut links, "filter show dev s1-eth1 ingress").unwrap().text.contains("rate 1Mbit"));
        let error = tc(&mut links, &line.replace("s1-eth1", "s2-eth1")).unwrap_err();
        assert!(error.contains("ingress"), "{error}");
        tc(&mut links, "qdisc add dev s2-eth1 ingress").unwrap();
        let error = tc(&mut links, &line.replace("s1-eth1", "s2-eth1")).unwrap_err();
        assert!(error.contains("one rate"), "{error}");
        let done = tc(&mut links, "qdisc del dev s1-eth1 ingress").unwrap();
        assert_eq!(done.changed[0].1, PipeSpec::default());
    }

    #[test]
    fn two_rates_are_refused_and_ineffective_settings_are_reported() {
        let mut links = links();
        tc(&mut links, "qdisc add dev s2-eth1 root handle 1: netem delay 5ms limit 100000")
            .map(|done| {
                assert!(done.text.contains("netem limit is not emulated"), "{}", done.text);
            })
            .unwrap();
        tc(&mut links, "qdisc add dev s2-eth1 parent 1: handle 2: tbf rate 1mbit burst 10kb limit 10kb")
            .unwrap();
        for (line, named) in [
            ("qdisc change dev s2-eth1 root netem delay 5ms rate 2mbit", "netem rate in addition to tbf"),
            ("qdisc add dev s2-eth1 parent 2: handle 3: tbf rate 2mbit burst 10kb limit 10kb", "second rate"),
        ] {
            let error = tc(&mut links, line).unwrap_err();
            assert!(error.contains(named), "{line}: {error}");
        }
        let codel = tc(&mut links, "qdisc add dev s1-eth1 root codel").unwrap();
        assert!(codel.text.contains("no rate"), "{}", codel.text);
    }

    #[test]
    fn counters_begin_with_the_root_qdisc() {
        let mut links = links();
        let mut counters = [PipeCounters::default(); 6];
        counters[2] = PipeCounters { sent_packets: 5, sent_bytes: 500, dropped_loss: 1, ..counters[2] };
        links.tc(&arguments("qdisc add dev s1-eth2 root handle 1: netem loss 1%"), &counters).unwrap();
        let tbf = "qdisc add dev s1-eth2 parent 1: handle 2: tbf rate 1mbit burst 10kb limit 10kb";
        links.tc(&arguments(tbf), &counters).unwrap();
        counters[2] = PipeCounters {
            sent_packets: 8,
            sent_bytes: 900,
            dropped_loss: 3,
            dropped_queue: 4,
            queue_packets: 1,
            queue_bytes: 100,
            ..counters[2]
        };
        let shown = links.tc(&arguments("-s qdisc show dev s1-eth2"), &counters).unwrap().text;
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[1], " Sent 400 bytes 3 pkt (dropped 6, overlimits 4 requeues 0)");
        assert_eq!(lines[2], " backlog 100b 1p requeues 0");
        assert!(lines[4].contains("(dropped 4, overlimits 4"), "{shown}");
    }
}
