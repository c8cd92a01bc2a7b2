//! Detects command lines of other tools (`longfat -c HOST`, `longfat ping HOST`) and suggests longfat's
//! command.

use std::ffi::OsString;

/// An error message with longfat's equivalent of another tool's command line; `None` for other
/// command lines. `arguments` are those after the program's name.
pub fn suggest<'a>(arguments: impl Iterator<Item = &'a OsString>) -> Option<String> {
    let arguments: Vec<String> = arguments.map(|argument| argument.to_string_lossy().into_owned()).collect();
    let (first, rest) = arguments.split_first()?;
    let (requested, equivalent) = match first.as_str() {
        "iperf" | "iperf3" | "test" => {
            let is_other_tool = first != "test" || iperf3(rest).is_some();
            let equivalent = iperf3(rest).unwrap_or_else(|| "longfat test HOST, longfat serve".into());
            (is_other_tool.then_some(first.as_str())?, equivalent)
        }
        "ping" => ("ping", with("longfat probe delay", rest)),
        "traceroute" | "tracepath" | "mtr" => (first.as_str(), with("longfat probe hops", rest)),
        "ss" => ("ss", "longfat watch --once".into()),
        "tc" | "mn" => {
            (first.as_str(), "longfat lab up FILE, then longfat lab exec or longfat lab shell".into())
        }
        flag if flag.starts_with('-') && !flag.starts_with("--runs") && flag != "--json" => {
            ("iperf3", iperf3(&arguments)?)
        }
        _ => return None,
    };
    Some(format!("{requested} is another program; longfat's equivalent: {equivalent}"))
}

/// The command for iperf3's `-c HOST ...` or `-s ...`, at any position of the flag.
fn iperf3(arguments: &[String]) -> Option<String> {
    let mut others = Vec::new();
    let mut found = None;
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "-s" | "--server" => found = Some("longfat serve".to_owned()),
            "-c" | "--client" => {
                let host = arguments.next().map_or("HOST", String::as_str);
                found = Some(format!("longfat test {host}"));
            }
            other => match other.strip_prefix("--client=").or_else(|| attached_host(other)) {
                Some(host) => found = Some(format!("longfat test {host}")),
                None => others.push(argument.clone()),
            },
        }
    }
    found.map(|command| with(&command, &others))
}

/// The host of `-cHOST`.
fn attached_host(argument: &str) -> Option<&str> {
    argument.strip_prefix("-c").filter(|host| !host.is_empty())
}

fn with(command: &str, arguments: &[String]) -> String {
    [&[command.to_owned()], arguments].concat().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suggested(line: &str) -> Option<String> {
        let arguments: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let text = suggest(arguments.iter())?;
        Some(text.split_once(": ").unwrap().1.to_owned())
    }

    #[test]
    fn longfats_command_is_suggested_for_other_tools() {
        for (requested, expected) in [
            ("-c h2 -t 20 -R", "longfat test h2 -t 20 -R"),
            ("-t 20 -c h2", "longfat test h2 -t 20"),
            ("-ch2", "longfat test h2"),
            ("--client=h2 -u", "longfat test h2 -u"),
            ("-c", "longfat test HOST"),
            ("-s -p 5202", "longfat serve -p 5202"),
            ("iperf3 -c h2 -P 4", "longfat test h2 -P 4"),
            ("iperf3", "longfat test HOST, longfat serve"),
            ("test -c h2", "longfat test h2"),
            ("test -s", "longfat serve"),
            ("ping h2", "longfat probe delay h2"),
            ("mtr h2", "longfat probe hops h2"),
        ] {
            assert_eq!(suggested(requested).as_deref(), Some(expected), "{requested}");
        }
    }

    #[test]
    fn longfats_commands_get_no_suggestion() {
        for line in [
            "",
            "run s.toml",
            "test h2 -C bbr",
            "test h2 --connect-timeout 5",
            "serve -s",
            "--help",
            "--json ls",
        ] {
            assert_eq!(suggested(line), None, "{line}");
        }
    }
}
