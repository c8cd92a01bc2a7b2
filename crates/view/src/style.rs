//! Colours and fonts of plots and reports, light and dark. Plots use no CSS variables, because few SVG
//! viewers support them.
//!
//! Series colours follow Okabe and Ito, "Color universal design" (2008), which colour-blind readers can
//! distinguish; they are lighter on dark backgrounds. Colours of causes follow the light scheme of P. Tol,
//! "Colour schemes" (2021): pale where series are dark, and dark where series are light, so that a colour has
//! one meaning in a figure.

use schema::Cause;

/// Colours of curves on light and dark background; with more curves they repeat.
pub(crate) const SERIES: [(&str, &str); 7] = [
    ("#0072b2", "#56b4e9"),
    ("#d55e00", "#ff8a3d"),
    ("#009e73", "#2fc79a"),
    ("#b5588f", "#e39ac5"),
    ("#8a5f00", "#e8b13a"),
    ("#332288", "#b3a5f0"),
    ("#5c5f66", "#c3c7ce"),
];

/// Colours of further curves on the page: together with [`SERIES`], 20 distinct colours (chosen for the
/// largest minimum distance in OKLab).
pub(crate) const MORE_SERIES: [(&str, &str); 13] = [
    ("#4a07a6", "#8966f9"),
    ("#452c17", "#99816e"),
    ("#90145f", "#cd5394"),
    ("#e749df", "#fc5ff4"),
    ("#226310", "#b6faa7"),
    ("#212e60", "#7183bd"),
    ("#b020cc", "#c43be0"),
    ("#3fb519", "#469d30"),
    ("#654abb", "#84fc3c"),
    ("#9b1207", "#d95544"),
    ("#6c4c02", "#fee0af"),
    ("#787936", "#acae87"),
    ("#b186bb", "#f5dafb"),
];

/// A cause's colour on light and dark background.
pub(crate) fn cause_colours(cause: Cause) -> (&'static str, &'static str) {
    match cause {
        Cause::ReceiveWindow => ("#ffaabb", "#8f3d55"),
        Cause::SendBuffer => ("#eedd88", "#8a6d00"),
        Cause::PathRate => ("#bbcc33", "#56650f"),
        Cause::Loss => ("#ee8866", "#8f3a1c"),
        Cause::EcnMarks => ("#aaaa00", "#4d4d00"),
        Cause::LocalQueue => ("#d3b98c", "#6b5233"),
        Cause::SlowStart => ("#99ddff", "#1f6f96"),
        Cause::Application => ("#77aadd", "#1d4a80"),
        Cause::Pacing => ("#44bb99", "#0f5a45"),
        Cause::HostCpu => ("#cfd2d8", "#4d525b"),
    }
}

/// The CSS class of the curve with number `index`.
pub(crate) fn series_class(index: usize) -> String {
    format!("s{}", index % SERIES.len())
}

/// The CSS class of a curve that other curves would cover, `below` in number: a wide pale line under the
/// first of them.
pub(crate) fn halo_class(index: usize, below: usize) -> String {
    format!("{} {}", series_class(index), if below > 1 { "halo2" } else { "halo" })
}

/// The CSS class of a cause's area.
pub(crate) fn cause_class(cause: Cause) -> String {
    format!("c-{}", cause.name().replace('_', "-"))
}

/// Overrides of [`plot_css`] for print: black on white, thin lines, a dash pattern for each series, no
/// background, a font that printers have.
pub(crate) fn paper_css() -> String {
    const DASHES: [&str; SERIES.len()] =
        ["none", "7 3", "1.5 2.5", "8 3 1.5 3", "3 2", "12 3", "8 2 1.5 2 1.5 2"];
    let mut css = String::from(
        ".lf text{font-family:Helvetica,Arial,'Nimbus Sans','Liberation Sans',sans-serif}\
         .lf text,.lf .title,.lf .panel,.lf .note{fill:#000}.lf .title,.lf .panel{font-weight:400}.lf .bg{fill:none}\
         .lf .grid{stroke:#ddd;stroke-width:.5}.lf .axis{stroke:#000;stroke-width:.7}.lf .wire,.lf .plain{stroke:#666}\
         .lf path,.lf .swatch{stroke-width:.9;stroke-linecap:butt}.lf path.raw{opacity:0}.lf path.halo{stroke-width:4;opacity:.25}.lf path.halo2{stroke-width:8;opacity:.25}\
         .lf path.marks{stroke-linecap:round}.lf .median{stroke-width:2.2}\n",
    );
    // Boxes of different series differ in shade.
    const SHADES: [&str; SERIES.len()] = ["#fff", "#bbb", "#777", "#e4e4e4", "#999", "#d0d0d0", "#555"];
    for (index, (dash, shade)) in DASHES.iter().zip(SHADES).enumerate() {
        css.push_str(&format!(".lf .s{index}{{stroke:#000;stroke-dasharray:{dash}}}"));
        css.push_str(&format!(".lf .s{index}.shade{{fill:{shade}}}"));
    }
    // Flows and companions of one run: grey, so that their dashes are not mistaken for runs.
    css + ".lf .dash,.lf .dot{stroke:#777}.lf .dash{stroke-dasharray:7 4}.lf .dot{stroke-dasharray:1.5 3.5}\
           .lf .second{stroke:#888}.lf .third{stroke:#bbb}\
           .lf .marks,.lf .bar,.lf .box,.lf .event{stroke-dasharray:none}\n"
}

/// The style sheet of plots, for `<style>` in an SVG or in a page that holds several.
pub(crate) fn plot_css() -> String {
    let mut css = String::from(
        ".lf text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;\
         font-size:12px;fill:#3b4048;font-variant-numeric:tabular-nums}\n\
         .lf .bg{fill:#fff}.lf .title{font-size:16px;font-weight:600;fill:#14171c}\
         .lf .panel{font-size:13px;font-weight:600;fill:#14171c}.lf .note{font-weight:400;fill:#666c76}\
         .lf .grid{stroke:#e6e8ec;stroke-width:1}.lf .axis{stroke:#9aa0aa;stroke-width:1}\
         .lf .wire{stroke:#666c76;stroke-width:1.3;stroke-dasharray:2 3}\
         .lf .published{stroke-width:1.3;stroke-dasharray:9 3 2 3;opacity:.85}.lf .plain{stroke:#666c76}\
         .lf .key{stroke:#3b4048}\n\
         .lf path,.lf .swatch{fill:none;stroke-width:1.6;stroke-linejoin:round;stroke-linecap:round}\
         .lf path.raw{stroke-width:.8;opacity:.28}.lf .dash{stroke-dasharray:7 4;stroke-linecap:butt}\
         .lf .dot{stroke-dasharray:1.5 3.5}\
         .lf path.halo{stroke-width:6;opacity:.45}.lf path.halo2{stroke-width:11;opacity:.45}.lf path.marks{stroke-width:3.4}\
         .lf line.marks{stroke-width:3.4;stroke-dasharray:.1 7}.lf .median{stroke-width:3;stroke-linecap:butt}\
         .lf .second{stroke-dasharray:7 4;stroke-linecap:butt}.lf .third{stroke-dasharray:1.5 3.5}\
         .lf .box,.lf path.marks{stroke-dasharray:none}\
         .lf .event{stroke-width:1.2;opacity:.7}.lf .timeout{stroke-width:2.4;opacity:1}\
         .lf .stall{fill:#d92d20;opacity:.22}.lf .stalled{stroke:#d92d20;stroke-width:6;opacity:.4}\n",
    );
    for (index, (light, _)) in SERIES.iter().enumerate() {
        css.push_str(&format!(".lf .s{index}{{stroke:{light}}}"));
    }
    css.push('\n');
    css.push_str(&cause_css(|(light, _)| light));
    css.push_str(
        "@media (prefers-color-scheme:dark){.lf text{fill:#c3c7ce}.lf .bg{fill:#14171c}\
         .lf .title,.lf .panel{fill:#f1f3f6}.lf .note{fill:#989eaa}\
         .lf .grid{stroke:#2a2f38}.lf .axis{stroke:#5d6470}.lf .wire,.lf .plain{stroke:#989eaa}.lf .key{stroke:#c3c7ce}\n",
    );
    for (index, (_, dark)) in SERIES.iter().enumerate() {
        css.push_str(&format!(".lf .s{index}{{stroke:{dark}}}"));
    }
    css.push('\n');
    css.push_str(&cause_css(|(_, dark)| dark));
    css.push_str("}\n");
    css
}

fn cause_css(pick: fn((&'static str, &'static str)) -> &'static str) -> String {
    let mut css = String::new();
    for cause in Cause::ALL {
        let (class, colour) = (cause_class(cause), pick(cause_colours(cause)));
        css.push_str(&format!(".{class}{{fill:{colour};background:{colour}}}"));
    }
    css.push('\n');
    css
}

/// The style sheet of the report's page, in addition to [`plot_css`].
pub(crate) const PAGE_CSS: &str = include_str!("report.css");

#[cfg(test)]
mod tests {
    use super::*;

    fn rgb(colour: &str) -> [f64; 3] {
        [1, 3, 5].map(|at| f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()))
    }

    fn distance(a: &str, b: &str) -> f64 {
        let (a, b) = (rgb(a), rgb(b));
        (0..3).map(|i| (a[i] - b[i]).powi(2)).sum::<f64>().sqrt()
    }

    #[test]
    fn colours_of_causes_differ_from_each_other_and_from_those_of_runs() {
        for (index, cause) in Cause::ALL.into_iter().enumerate() {
            let (light, dark) = cause_colours(cause);
            for (series_light, series_dark) in SERIES {
                assert!(distance(light, series_light) > 60.0, "{cause:?} {light} {series_light}");
                assert!(distance(dark, series_dark) > 60.0, "{cause:?} {dark} {series_dark}");
            }
            for other in &Cause::ALL[..index] {
                let (other_light, other_dark) = cause_colours(*other);
                assert!(distance(light, other_light) > 35.0, "{cause:?} {other:?}");
                assert!(distance(dark, other_dark) > 25.0, "{cause:?} {other:?}");
            }
        }
    }

    /// A colour `#rrggbb` in CIE XYZ-like linear light, then a cube root: which approximates perceived
    /// lightness.
    fn seen(colour: &str) -> [f64; 3] {
        [1, 3, 5].map(|at| {
            let part = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            part.powf(2.2).cbrt()
        })
    }

    #[test]
    fn twenty_curves_have_distinct_colours_on_both_backgrounds() {
        let all: Vec<_> = SERIES.iter().chain(&MORE_SERIES).collect();
        assert_eq!(all.len(), 20);
        for (at, one) in all.iter().enumerate() {
            for other in &all[at + 1..] {
                for (a, b) in [(one.0, other.0), (one.1, other.1)] {
                    let (a3, b3) = (seen(a), seen(b));
                    let distance: f64 = a3.iter().zip(&b3).map(|(a, b)| (a - b).powi(2)).sum();
                    assert!(distance.sqrt() > 0.1, "{a} and {b}: {}", distance.sqrt());
                }
            }
        }
    }
}
