//! The sysctls of a run's hosts that the scenario does not state.
//!
//! The scenario's key `sysctl` decides. Without it a simulated host has the defaults of the kernel that the
//! scenario or `--kernel` names for it; a host of this machine's kernel has this machine's values, as in
//! the lab, so that both can be compared; a guest has its own. The values are written into the
//! scenario's hosts, so that all later steps read the same ones.

use std::collections::BTreeSet;

use scenario::{Host, Scenario, SysctlDefaults};
use units::KernelVersion;

use crate::{EngineChoice, Sysctls};

/// The sysctls of a network namespace that decide how much a flow can send.
const BUFFERS: [&str; 2] = ["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"];
/// The default congestion control. The lab does not set it: it needs root, and the kernel may not have the
/// other kernel's default.
const CC: &str = "net.ipv4.tcp_congestion_control";
/// Limits of a whole machine. Only the simulator has them for each host; the lab bypasses them if necessary
/// (SO_RCVBUFFORCE).
const MACHINE_WIDE: [&str; 2] = ["net.core.rmem_max", "net.core.wmem_max"];

/// The origin of the sysctls that a host does not state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    Machine,
    /// The defaults of a Linux version.
    Linux(u8, u8),
    /// The guest's own.
    Guest,
    /// Each real host's own.
    Host,
}

impl Origin {
    fn of(scenario: &Scenario, host: &Host, engine: &EngineChoice, kernel: Option<KernelVersion>) -> Origin {
        let requested = kernel
            .filter(|_| engine.is_computed())
            .and_then(|version| Some((u8::try_from(version.major).ok()?, u8::try_from(version.minor).ok()?)));
        match (scenario.sysctl, engine) {
            (_, EngineChoice::Hosts) => Origin::Host,
            (Some(SysctlDefaults::Machine), _) => Origin::Machine,
            (Some(SysctlDefaults::Linux((major, minor))), _) => Origin::Linux(major, minor),
            (None, EngineChoice::Kernel(_)) => Origin::Guest,
            (None, EngineChoice::Lab) => Origin::Machine,
            (None, EngineChoice::Model | EngineChoice::Sim) => {
                let named = host.kernel.or(requested).filter(|kernel| scenario::is_simulated(*kernel));
                named.map_or(Origin::Machine, |(major, minor)| Origin::Linux(major, minor))
            }
        }
    }

    /// A sysctl's value; `None` if the engine uses it by itself: hosts of the lab, and simulated ones except
    /// those of Linux 2.4, have the machine's values.
    fn value(self, sysctls: Sysctls<'_>, name: &str, host: &Host, engine: &EngineChoice) -> Option<String> {
        match (self, engine) {
            (Origin::Linux(major, minor), _) => linux_default((major, minor), name),
            (Origin::Machine, EngineChoice::Kernel(_)) => sysctls(name),
            (Origin::Machine, EngineChoice::Lab) => None,
            (Origin::Machine, _) => sysctls(name).filter(|_| host.kernel == Some((2, 4))),
            (Origin::Guest | Origin::Host, _) => None,
        }
    }

    fn describe(self) -> String {
        match self {
            Origin::Machine => "this machine's".into(),
            Origin::Linux(major, minor) => format!("Linux {major}.{minor}'s defaults"),
            Origin::Guest => "the guest kernel's own".into(),
            Origin::Host => "each host's own".into(),
        }
    }
}

/// Adds the sysctls that the scenario does not state to its hosts, except those whose values `engine` uses by
/// itself.
pub fn add_defaults(
    sysctls: Sysctls<'_>,
    mut scenario: Scenario,
    engine: &EngineChoice,
    kernel: Option<KernelVersion>,
) -> Scenario {
    let origins: Vec<Origin> =
        scenario.hosts.iter().map(|host| Origin::of(&scenario, host, engine, kernel)).collect();
    for (host, origin) in scenario.hosts.iter_mut().zip(origins) {
        let mut names = BUFFERS.to_vec();
        match engine {
            EngineChoice::Lab | EngineChoice::Kernel(_) | EngineChoice::Hosts => {}
            EngineChoice::Model => names.push(CC),
            EngineChoice::Sim => names.extend([&[CC][..], &MACHINE_WIDE].concat()),
        }
        for name in names {
            if !host.sysctl.contains_key(name)
                && let Some(value) = origin.value(sysctls, name, host, engine)
            {
                host.sysctl.insert(name.into(), value);
            }
        }
    }
    scenario
}

/// The origin of the hosts' sysctls: `Linux 6.1's defaults`, or several, separated by commas.
pub fn describe(scenario: &Scenario, engine: &EngineChoice, kernel: Option<KernelVersion>) -> String {
    let origins: BTreeSet<Origin> =
        scenario.hosts.iter().map(|host| Origin::of(scenario, host, engine, kernel)).collect();
    origins.into_iter().map(Origin::describe).collect::<Vec<_>>().join(", ")
}

/// The default of a Linux version.
pub fn linux_default((major, minor): (u8, u8), name: &str) -> Option<String> {
    let config = tcp::Config::of_kernel(major, minor)?;
    let three = |[min, default, max]: [u32; 3]| format!("{min} {default} {max}");
    Some(match name {
        // Linux 2.4 has no such sysctl: Reno is built into its stack.
        "net.ipv4.tcp_congestion_control" => if (major, minor) == (2, 4) { "reno" } else { "cubic" }.into(),
        "net.ipv4.tcp_rmem" => three(config.rmem),
        "net.ipv4.tcp_wmem" => three(config.wmem),
        "net.core.rmem_max" => config.rmem_max.to_string(),
        "net.core.wmem_max" => config.wmem_max.to_string(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use scenario::ScenarioFile;

    use super::*;

    fn of_machine(name: &str) -> Option<String> {
        (name == "net.ipv4.tcp_rmem").then(|| "4096 131072 12345678".into())
    }

    fn scenario(top: &str, host: &str) -> Scenario {
        let text = format!(
            "{top}\n[hosts.h1]\naddress = \"10.0.0.1/24\"\n{host}\n[hosts.h2]\naddress = \"10.0.0.2/24\"\n\
             [[links]]\nends = [\"h1\", \"h2\"]\n"
        );
        ScenarioFile::parse("s", &text).unwrap().resolve(None, &[]).unwrap()
    }

    fn rmem(scenario: &Scenario) -> [Option<&str>; 2] {
        [0, 1].map(|host| scenario.hosts[host].sysctl.get("net.ipv4.tcp_rmem").map(String::as_str))
    }

    const OF_6_1: &str = "4096 131072 6291456";
    const OF_6_18: &str = "4096 131072 33554432";

    #[test]
    fn a_named_kernel_sets_its_defaults_and_stated_values_remain() {
        let version = Some(KernelVersion::new(6, 1));
        let (sim, lab) = (EngineChoice::Sim, EngineChoice::Lab);
        let stated = |host: &str, engine| {
            rmem(&add_defaults(&of_machine, scenario("", host), engine, version))
                .map(|v| v.map(str::to_owned))
        };
        assert_eq!(stated("", &sim), [Some(OF_6_1.into()), Some(OF_6_1.into())]);
        let own = stated("sysctl = { \"net.ipv4.tcp_rmem\" = \"1 2 3\" }", &sim);
        assert_eq!(own, [Some("1 2 3".into()), Some(OF_6_1.into())]);
        let linux_2_4 = stated("kernel = \"2.4\"", &sim);
        assert_eq!(linux_2_4, [Some("4096 87380 174760".into()), Some(OF_6_1.into())]);
        assert_eq!(stated("", &EngineChoice::Model), stated("", &sim));
        assert_eq!(stated("kernel = \"2.4\"", &lab), [None, None], "a lab has this machine's kernel");
        assert_eq!(stated("", &EngineChoice::Kernel(None)), [None, None], "a guest has its own");
    }

    #[test]
    fn the_key_sysctl_decides_for_every_engine() {
        let named = scenario("sysctl = \"6.18\"", "kernel = \"6.1\"");
        for engine in [EngineChoice::Model, EngineChoice::Sim, EngineChoice::Lab, EngineChoice::Kernel(None)]
        {
            assert_eq!(
                rmem(&add_defaults(&of_machine, named.clone(), &engine, None)),
                [Some(OF_6_18); 2],
                "{engine:?}"
            );
            assert_eq!(describe(&named, &engine, None), "Linux 6.18's defaults");
            let is_simulated = matches!(engine, EngineChoice::Model | EngineChoice::Sim);
            let stated = add_defaults(&of_machine, named.clone(), &engine, None);
            let sets = |name: &str| stated.hosts[0].sysctl.contains_key(name);
            assert_eq!(sets("net.ipv4.tcp_congestion_control"), is_simulated, "a lab may not set it");
            assert_eq!(sets("net.core.rmem_max"), engine == EngineChoice::Sim, "of the whole machine");
        }
        let machine = scenario("sysctl = \"machine\"", "kernel = \"2.4\"");
        let expected = of_machine("net.ipv4.tcp_rmem");
        let sim = add_defaults(&of_machine, machine.clone(), &EngineChoice::Sim, None);
        assert_eq!(rmem(&sim), [expected.as_deref(), None], "the second host has them by default");
        assert_eq!(describe(&machine, &EngineChoice::Sim, None), "this machine's");
        assert_eq!(
            rmem(&add_defaults(&of_machine, machine, &EngineChoice::Lab, None)),
            [None, None],
            "it has them by default"
        );
    }

    #[test]
    fn the_origin_is_described_for_each_kind_of_host() {
        let mixed = scenario("", "kernel = \"2.4-web100\"");
        let by = |engine, kernel| describe(&mixed, &engine, kernel);
        assert_eq!(by(EngineChoice::Sim, None), "this machine's, Linux 2.4's defaults");
        assert_eq!(by(EngineChoice::Lab, None), "this machine's");
        assert_eq!(by(EngineChoice::Kernel(None), None), "the guest kernel's own");
        let newer = Some(KernelVersion::new(6, 12));
        for engine in [EngineChoice::Sim, EngineChoice::Model] {
            assert_eq!(by(engine, newer), "Linux 2.4's defaults, Linux 6.12's defaults");
        }
        assert_eq!(by(EngineChoice::Lab, newer), "this machine's");
    }

    #[test]
    fn defaults_agree_with_the_models() {
        for (major, minor) in [(5, 10), (6, 1), (6, 12), (6, 15), (6, 16), (6, 18), (7, 2)] {
            let model = model::buffer_defaults(KernelVersion::new(major.into(), minor.into()));
            let last = |name: &str| {
                linux_default((major, minor), name).unwrap().rsplit(' ').next().unwrap().to_owned()
            };
            assert_eq!(last("net.ipv4.tcp_rmem"), model.tcp_rmem_max.0.to_string());
            assert_eq!(last("net.ipv4.tcp_wmem"), model.tcp_wmem_max.0.to_string());
        }
        assert_eq!(linux_default((6, 16), "net.core.rmem_max").as_deref(), Some("212992"));
        assert_eq!(linux_default((6, 17), "net.core.rmem_max").as_deref(), Some("4194304"));
    }
}
