//! A gnuplot script for the tables of a record as CSV, as a starting point for your own plots.

use schema::{FlowSample, Metrics, RunSummary};

/// The panels: a column of flows.csv, its divisor, and the axis's label. Columns without values are omitted.
const PANELS: [(&str, f64, &str); 3] = [
    ("goodput_bps", 1e6, "goodput (Mb/s)"),
    ("snd_cwnd_segs", 1.0, "congestion window (segments)"),
    ("srtt_us", 1e3, "round-trip time (ms)"),
];

/// The script for a run, to be stored beside its `flows.csv`.
pub fn gnuplot(title: &str, run: &RunSummary, rows: &[FlowSample]) -> String {
    let panels: Vec<_> =
        PANELS.into_iter().filter(|(column, ..)| rows.iter().any(|row| row.get(column).is_some())).collect();
    let mut script = format!(
        "# gnuplot -p plot.gp\nset datafile separator \",\"\nset key outside right\nset xrange [0:{:.3}]\nset yrange [0:*]\n\
         set multiplot layout {},1 title {}\n",
        run.duration_s.max(0.001),
        panels.len().max(1),
        quoted(title)
    );
    for (number, (column, scale, label)) in panels.iter().enumerate() {
        script.push_str(&format!("set ylabel \"{label}\"\n"));
        if number + 1 == panels.len() {
            script.push_str("set xlabel \"time (s)\"\n");
        }
        let curves: Vec<String> = run
            .flows
            .iter()
            .map(|flow| {
                let name = quoted(&flow.name);
                format!(
                    "\"flows.csv\" using (strcol(\"flow\") eq {name} ? column(\"time_us\")*1e-6 : NaN):\
                     (column(\"{column}\")/{scale:.1}) with lines title {name} noenhanced"
                )
            })
            .collect();
        script.push_str(&format!("plot {}\n", curves.join(", \\\n     ")));
    }
    script.push_str("unset multiplot\n");
    script
}

/// A string of gnuplot. In double quotes, gnuplot would execute text between backquotes as a shell command.
fn quoted(text: &str) -> String {
    let line: String = text.chars().filter(|c| !c.is_control()).collect();
    format!("'{}'", line.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use schema::FlowSummary;

    use super::*;

    /// The text outside single-quoted strings, in which gnuplot expands nothing.
    fn outside_strings(script: &str) -> String {
        script.split('\'').step_by(2).collect()
    }

    /// The script for a run with this title and flow.
    fn script(title: &str, flow: &str) -> String {
        let flows = vec![FlowSummary { name: flow.into(), ..FlowSummary::default() }];
        let run = RunSummary { flows, ..RunSummary::begun("sim".into(), String::new()) };
        gnuplot(title, &run, &[FlowSample { goodput_bps: Some(1), ..FlowSample::default() }])
    }

    #[test]
    fn names_cannot_end_their_strings() {
        const NAME: &str = "a'`touch x`\n\\\"; system('y'); @z";
        let text = script(NAME, NAME);
        assert_eq!(outside_strings(&text), outside_strings(&script("title", "flow")), "{text}");
        let string = "'a''`touch x`\\\"; system(''y''); @z'";
        assert_eq!(text.matches(string).count(), 3, "{text}");
    }
}
