//! Random paths with no, one or several faults, and variants without each fault, which give the true gains.

use datagrams::Draws;
use diagnosis::Kind;
use units::Time;

/// A fault of a path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fault {
    /// Maximum receive buffer, bytes.
    ReceiveBuffer(u64),
    /// Maximum send buffer, bytes.
    SendBuffer(u64),
    /// Window scaling is disabled on the receiver.
    NoWindowScaling,
    /// Packets are lost with this probability.
    Loss(f64),
    /// Size of the queue, in bandwidth-delay products.
    ShortQueue(f64),
    /// A link has only this share of the expected rate.
    SlowHop(f64),
    /// Other datagrams at this rate, bit/s.
    OtherDatagrams(f64),
    /// Number of other TCP flows on the path.
    OtherTcp(u32),
    /// ECN marking threshold of the queue, packets.
    EcnMarks(u32),
    /// A policer's rate as a share of the path's, and its bucket in bytes.
    Policer(f64, u64),
    /// SACK is disabled on the receiver.
    NoSack,
    /// Length of the sending host's transmit queue, packets; its own link is the slowest.
    LocalQueue(u32),
}

impl Fault {
    /// The kind of limit that it causes.
    pub fn kind(self) -> Kind {
        match self {
            Fault::ReceiveBuffer(_) => Kind::ReceiveBuffer,
            Fault::SendBuffer(_) => Kind::SendBuffer,
            Fault::NoWindowScaling => Kind::WindowScaling,
            Fault::Loss(_) => Kind::Loss,
            Fault::ShortQueue(_) => Kind::ShortQueue,
            Fault::SlowHop(_) => Kind::SlowHop,
            Fault::OtherDatagrams(_) | Fault::OtherTcp(_) => Kind::CompetingTraffic,
            Fault::Policer(..) => Kind::Policer,
            Fault::NoSack => Kind::SackOff,
            Fault::EcnMarks(_) => Kind::EcnMarks,
            Fault::LocalQueue(_) => Kind::LocalQueue,
        }
    }

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Fault::ReceiveBuffer(_) => "receive buffer",
            Fault::SendBuffer(_) => "send buffer",
            Fault::NoWindowScaling => "no window scaling",
            Fault::Loss(_) => "random loss",
            Fault::ShortQueue(_) => "short queue",
            Fault::SlowHop(_) => "slow hop",
            Fault::OtherDatagrams(_) => "other datagrams",
            Fault::OtherTcp(_) => "other TCP flows",
            Fault::Policer(..) => "policer",
            Fault::NoSack => "no SACK",
            Fault::EcnMarks(_) => "ECN marks",
            Fault::LocalQueue(_) => "own queue",
        }
    }
}

/// A path and its faults.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    pub seed: u64,
    pub rate_bps: f64,
    pub rtt: Time,
    pub queue_bdp: f64,
    pub cc: &'static str,
    pub faults: Vec<Fault>,
}

impl Case {
    /// Draws the case of a number, with this many faults.
    pub fn drawn(seed: u64, faults: usize) -> Self {
        let mut draws = Draws::new(seed, 77);
        let mut between = |low: f64, high: f64| {
            // Uniform on a logarithmic scale; by libm, because the C library's functions differ between
            // processors in the last bit.
            let share = draws.below(1 << 30) as f64 / f64::from(1 << 30);
            low * libm::pow(high / low, share)
        };
        let rate_bps = between(10e6, 500e6).round();
        let rtt = Time::from_secs_f64(between(0.004, 0.15));
        let queue_bdp = between(1.0, 3.0);
        let cc = ["cubic", "reno"][(between(1.0, 4.0) > 2.0) as usize];
        let bdp = rate_bps / 8.0 * rtt.as_secs_f64();
        let mut chosen: Vec<Fault> = Vec::new();
        while chosen.len() < faults {
            let fault = match libm::log2(between(1.0, 4096.0)) as u32 {
                0 => Fault::ReceiveBuffer((bdp * between(0.15, 1.2)).max(16_384.0) as u64),
                1 => Fault::SendBuffer((bdp * between(0.15, 1.2)).max(16_384.0) as u64),
                2 => Fault::NoWindowScaling,
                3 => Fault::Loss(between(1e-4, 2e-2)),
                4 => Fault::ShortQueue(between(0.02, 0.3)),
                5 => Fault::SlowHop(between(0.15, 0.7)),
                6 => Fault::OtherDatagrams(rate_bps * between(0.2, 0.8)),
                7 => Fault::OtherTcp(between(1.0, 4.9) as u32),
                8 => Fault::EcnMarks(between(2.0, 20.0) as u32),
                9 => Fault::Policer(between(0.2, 0.7), between(20_000.0, 500_000.0) as u64),
                10 => Fault::NoSack,
                _ => Fault::LocalQueue(between(20.0, 200.0) as u32),
            };
            if chosen.iter().all(|other| other.name() != fault.name()) {
                chosen.push(fault);
            }
        }
        let case = Case { seed, rate_bps, rtt, queue_bdp, cc, faults: chosen };
        let share = case.share();
        let faults = case.faults.iter().map(|fault| match fault {
            // Relative to the slower hop's rate, if there is one.
            Fault::OtherDatagrams(bps) => Fault::OtherDatagrams(bps * share),
            other => *other,
        });
        Case { faults: faults.collect(), ..case.clone() }
    }

    /// Share of the expected rate that the slowest link has.
    fn share(&self) -> f64 {
        self.find(|fault| if let Fault::SlowHop(share) = fault { Some(*share) } else { None }).unwrap_or(1.0)
    }

    /// This case without any fault of a kind.
    pub fn without(&self, kind: Kind) -> Self {
        let faults = self.faults.iter().copied().filter(|fault| fault.kind() != kind).collect();
        Case { faults, ..self.clone() }
    }

    /// This case without any fault.
    pub fn without_any(&self) -> Self {
        Case { faults: Vec::new(), ..self.clone() }
    }

    fn find<T>(&self, value: impl Fn(&Fault) -> Option<T>) -> Option<T> {
        self.faults.iter().find_map(value)
    }

    /// The scenario file.
    pub fn text(&self) -> String {
        let rate = self.rate_bps * self.share();
        let bdp = rate / 8.0 * self.rtt.as_secs_f64();
        let queue_bdp = self
            .find(|f| if let Fault::ShortQueue(bdp) = f { Some(*bdp) } else { None })
            .unwrap_or(self.queue_bdp);
        let queue = (bdp * queue_bdp).max(6.0 * 1514.0);
        let loss = self.find(|f| if let Fault::Loss(p) = f { Some(*p) } else { None }).unwrap_or(0.0);
        let rmem =
            self.find(|f| if let Fault::ReceiveBuffer(b) = f { Some(*b) } else { None }).unwrap_or(1 << 28);
        let wmem =
            self.find(|f| if let Fault::SendBuffer(b) = f { Some(*b) } else { None }).unwrap_or(1 << 28);
        let scaling = if self.faults.contains(&Fault::NoWindowScaling) { 0 } else { 1 };
        let marks = self.find(|f| if let Fault::EcnMarks(from) = f { Some(*from) } else { None });
        let qdisc = marks.map_or(String::new(), |from| {
            format!(", qdisc = {{ kind = \"droptail\", mark_above = \"{from}p\" }}")
        });
        let ecn = u32::from(marks.is_some());
        // A separate token bucket behind the link, with a very short queue.
        let policer =
            self.find(|f| if let Fault::Policer(share, bytes) = f { Some((*share, *bytes)) } else { None });
        let police = policer.map_or(String::new(), |(share, bytes)| {
            let bps = (self.rate_bps * share) as u64;
            format!("forward = {{ rate = \"{bps}bit\", burst = \"{bytes}B\", queue = \"2p\" }}\n")
        });
        let sack = u32::from(!self.faults.contains(&Fault::NoSack));
        let own = self.find(|f| if let Fault::LocalQueue(packets) = f { Some(*packets) } else { None });
        // A device's queue fills only if the device is the slowest link.
        let (nic, access) = own.map_or((String::new(), String::new()), |packets| {
            let bps = (rate * 0.99) as u64;
            (format!("nic = {{ tx_queue = {packets} }}\n"), format!("forward = {{ rate = \"{bps}bit\" }}\n"))
        });
        let mut flows = String::new();
        for fault in &self.faults {
            match fault {
                Fault::OtherDatagrams(bps) => flows.push_str(&format!(
                    "[[flows]]\nname = \"other\"\nkind = \"udp\"\nfrom = \"h3\"\nto = \"h4\"\nrate = \"{}bit\"\n",
                    *bps as u64
                )),
                Fault::OtherTcp(count) => {
                    for number in 0..*count {
                        flows.push_str(&format!(
                            "[[flows]]\nname = \"other-{number}\"\nfrom = \"h3\"\nto = \"h4\"\ncc = \"cubic\"\n"
                        ));
                    }
                }
                _ => {}
            }
        }
        if flows.is_empty() {
            // A scenario needs at least one flow.
            flows.push_str(
                "[[flows]]\nname = \"none\"\nkind = \"ping\"\nfrom = \"h3\"\nto = \"h4\"\ncount = 1\n",
            );
        }
        let (initial_rmem, initial_wmem) = (131_072.min(rmem), 16_384.min(wmem));
        format!(
            "duration = \"1000s\"\nseed = {seed}\n\
             [hosts.h1]\naddress = \"10.0.0.1/24\"\nsysctl = {{ \"net.ipv4.tcp_wmem\" = \"4096 {initial_wmem} {wmem}\", \"net.ipv4.tcp_ecn\" = \"{ecn}\" }}\n{nic}\
             [hosts.h2]\naddress = \"10.0.0.2/24\"\n\
             sysctl = {{ \"net.ipv4.tcp_rmem\" = \"4096 {initial_rmem} {rmem}\", \"net.ipv4.tcp_window_scaling\" = \"{scaling}\", \"net.ipv4.tcp_ecn\" = \"{ecn}\", \"net.ipv4.tcp_sack\" = \"{sack}\" }}\n\
             [hosts.h3]\naddress = \"10.0.0.3/24\"\nsysctl = {{ \"net.ipv4.tcp_wmem\" = \"4096 16384 268435456\" }}\n\
             [hosts.h4]\naddress = \"10.0.0.4/24\"\nsysctl = {{ \"net.ipv4.tcp_rmem\" = \"4096 131072 268435456\" }}\n\
             [switches]\nnames = [\"s1\", \"s2\"]\n\
             [[links]]\nends = [\"h1\", \"s1\"]\n{access}[[links]]\nends = [\"h3\", \"s1\"]\n\
             [[links]]\nends = [\"s1\", \"s2\"]\n\
             forward = {{ rate = \"{rate}bit\", queue = \"{queue}B\", delay = \"{delay}us\", loss = {loss}{qdisc} }}\n\
             backward = {{ delay = \"{delay}us\" }}\n\
             [[links]]\nends = [\"s2\", \"h2\"]\n{police}[[links]]\nends = [\"s2\", \"h4\"]\n{flows}",
            seed = self.seed,
            rate = rate as u64,
            queue = queue as u64,
            delay = self.rtt.as_nanos() / 2000,
        )
    }
}
