//! The page of `longfat reproduce`: all published results, then the scenarios with their tables and plots.

use std::fmt::Write;

use schema::PublishedResult;
use serde::Serialize;

use crate::escape::escape;
use crate::report::{ReportExtra, page_head, section};
use crate::report_parts::published_table;

/// A published result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reproduced {
    /// Its id.
    pub id: String,
    /// A short description.
    pub what: String,
    /// Where it is shown, for a result without a figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shown: Option<String>,
    /// Its figures beside ours.
    pub figures: Vec<ReproducedFigure>,
}

/// A figure of a published result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReproducedFigure {
    /// The scenario of our figure.
    pub scenario: String,
    /// The published figure and ours.
    #[serde(flatten)]
    pub figure: PublishedResult,
}

/// The page; `sections` are the scenarios' sections, see [`crate::scenario_section`].
pub fn reproduction(results: &[Reproduced], sections: &[String], extra: &ReportExtra) -> String {
    let mut page = page_head("Published results, reproduced");
    page.push_str("<header>\n<h1>Published results, reproduced</h1>\n");
    if let Some(created) = &extra.created {
        let _ = writeln!(page, "<p class=\"facts\"><span>report of {}</span></p>", escape(created));
    }
    if let Some(command) = &extra.command {
        let _ = writeln!(page, "<pre><code>{}</code></pre>", escape(command));
    }
    page.push_str("</header>\n");
    let figures: Vec<PublishedResult> =
        results.iter().flat_map(|r| r.figures.iter().map(|f| f.figure.clone())).collect();
    section(
        &mut page,
        "Published, predicted, simulated, emulated",
        "\u{201c}Contradicts itself\u{201d}: the source\u{2019}s figure contradicts the rest of the source, with which our figure \
         agrees. \u{201c}No figure given\u{201d}: the source shows the experiment in words or pictures.",
        &published_table(&figures),
    );
    section(&mut page, "Without a figure", "", &facts(results));
    sections.iter().for_each(|section| page.push_str(section));
    let _ = write!(
        page,
        "<footer>\n<p>Created by longfat {}.</p>\n</footer>\n</main>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION")
    );
    page
}

fn facts(results: &[Reproduced]) -> String {
    let items: String = results
        .iter()
        .filter_map(|r| {
            let shown = r.shown.as_ref()?;
            Some(format!("<li><b>{}</b> {}: {}</li>\n", escape(&r.id), escape(&r.what), escape(shown)))
        })
        .collect();
    if items.is_empty() { items } else { format!("<ul>\n{items}</ul>\n") }
}
