//! The list of commands, and Mininet's commands that do not exist here.

/// The text of `help`.
pub const HELP: &str = "\
HOST COMMAND        run a command on a host: h1 ping h2, h2 iperf3 -s &, h1 bash
pingall             ping between every pair of hosts; pingallfull: with times
pingpair            ping between the first two hosts; pingpairfull: with times
iperf [A B [OPTIONS]]
                    iperf3 (TCP) from A to B, or from the first host to the last
iperfudp [RATE [A B]]
                    iperf3 with UDP datagrams at RATE, such as 10M
nodes               hosts, switches and routers
net                 which port is connected with which
dump                nodes with their ports and addresses; intfs: ports only
links               configuration of each link
status              links with their counters, and how late the emulator is
link A-B [forward|backward] down
                    take a link or one direction of it down, or up
link A-B [forward|backward] KEY VALUE ...
                    change a link: link s1-s2 delay 50ms loss 1%; KEYs are those
                    of the scenario file
tc [-s] qdisc|class|filter ...
                    netem, tbf, htb, red, codel, fq_codel, pfifo, bfifo, police
                    on a port: tc qdisc add dev s1-eth2 root netem delay 20ms
ifconfig s1-eth1 mtu 9000
                    the MTU of a port
pcap NODE|LINK FILE capture the packets of a host or link, until pcap stop FILE
xterm HOST ...      a window with a shell on each host (needs an X display)
sh COMMAND          run a command on this machine
source FILE         execute the commands in a file
time COMMAND        execute a command and show how long it took
exit                exit; stops a lab that this prompt started

TAB completes. Ctrl-C ends the program on a host, not this prompt.
Not available: dpctl, gterm, noecho, ports, px, py, switch, wait, x (type one
for the alternative).";

/// The alternative to a command of Mininet that does not exist here.
pub fn instead_of(command: &str) -> Option<&'static str> {
    Some(match command {
        "py" | "px" => {
            "the lab is not a Python program. dump and net show nodes and addresses; h1 python3 FILE runs Python on \
             a host; scripts use longfat lab exec HOST -- PROGRAM"
        }
        "dpctl" | "ports" => {
            "there is no OpenFlow; switches learn addresses. net shows the ports, tc -s qdisc their counters"
        }
        "switch" => "switches cannot be stopped alone; take their links down: link s1-s2 down",
        "x" => "programs with windows use this machine's display: xterm HOST, then start them there",
        "gterm" => "use xterm HOST, or longfat lab exec HOST -- bash in another terminal",
        "noecho" => "use HOST COMMAND",
        "wait" => "commands end before the next prompt; h1 wait has nothing to wait for",
        _ => return None,
    })
}

/// The names of the commands, for completion.
pub const COMMANDS: [&str; 27] = [
    "dump",
    "exit",
    "help",
    "ifconfig",
    "intfs",
    "ip",
    "iperf",
    "iperfudp",
    "link",
    "links",
    "net",
    "nodes",
    "pcap",
    "pingall",
    "pingallfull",
    "pingpair",
    "pingpairfull",
    "quit",
    "sh",
    "source",
    "status",
    "sudo",
    "tc",
    "time",
    "xterm",
    "?",
    "EOF",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_fits_a_terminal_and_names_every_command() {
        assert!(HELP.lines().all(|line| line.len() <= 80), "{HELP}");
        let shorthands = ["?", "EOF", "quit", "sudo", "help", "ip"];
        for command in COMMANDS.iter().filter(|c| !shorthands.contains(c)) {
            assert!(HELP.contains(command), "{command}");
        }
        for refused in ["dpctl", "gterm", "noecho", "ports", "px", "py", "switch", "wait", "x"] {
            assert!(instead_of(refused).is_some() && !COMMANDS.contains(&refused), "{refused}");
        }
    }
}
