//! Writes SVG elements. Coordinates are rounded to a tenth of a pixel. Text is escaped only here.

use std::fmt::Write;

use crate::escape::escape;
use crate::style::{SERIES, series_class};

/// Which part of a text is at its x coordinate.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// The body of an SVG.
#[derive(Debug, Default)]
pub(crate) struct Canvas {
    body: String,
}

impl Canvas {
    pub(crate) fn text(&mut self, x: f64, y: f64, anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let text = escape(text);
        self.push(format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\"{anchor}>{text}</text>\n"));
    }

    /// A panel's heading with a remark after it.
    pub(crate) fn heading(&mut self, x: f64, y: f64, heading: &str, note: &str) {
        let (heading, note) = (escape(heading), escape(note));
        self.push(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"panel\">{heading}<tspan class=\"note\" dx=\"8\">{note}</tspan></text>\n"
        ));
    }

    pub(crate) fn line(&mut self, x1: f64, y1: f64, x2: f64, y2: f64, class: &str) {
        self.push(format_args!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" class=\"{class}\"/>\n"
        ));
    }

    pub(crate) fn rect(&mut self, x: f64, y: f64, width: f64, height: f64, class: &str) {
        self.push(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" class=\"{class}\"/>\n"
        ));
    }

    /// A circle's outline.
    pub(crate) fn circle(&mut self, x: f64, y: f64, radius: f64, class: &str) {
        self.push(format_args!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\" class=\"{class}\"/>\n"
        ));
    }

    /// A point of series `index`: a circle for the first series of each colour, then a square, a diamond, and
    /// triangles.
    pub(crate) fn point(&mut self, x: f64, y: f64, radius: f64, index: usize) {
        let class = format!("swatch box shade {}", series_class(index));
        let (r, wide) = (radius * 0.9, radius * 1.25);
        let corners = match index / SERIES.len() % 5 {
            0 => return self.circle(x, y, radius, &class),
            1 => vec![(-r, -r), (r, -r), (r, r), (-r, r)],
            2 => vec![(0.0, -wide), (wide, 0.0), (0.0, wide), (-wide, 0.0)],
            3 => vec![(0.0, -wide), (wide, r), (-wide, r)],
            _ => vec![(0.0, wide), (wide, -r), (-wide, -r)],
        };
        let corners: Vec<String> =
            corners.iter().map(|(dx, dy)| format!("{:.1},{:.1}", x + dx, y + dy)).collect();
        self.push(format_args!("<polygon points=\"{}\" class=\"{class}\"/>\n", corners.join(" ")));
    }

    /// A curve through `points`; `None` interrupts it. A single point between gaps is drawn as a dot.
    pub(crate) fn path(&mut self, points: impl Iterator<Item = Option<(f64, f64)>>, class: &str) {
        let mut data = String::new();
        let mut drawing = false;
        let mut is_single = false;
        for point in points {
            match point {
                Some((x, y)) => {
                    let _ = write!(data, "{}{x:.1} {y:.1}", if drawing { "L" } else { "M" });
                    is_single = !drawing;
                    drawing = true;
                }
                None => {
                    if is_single {
                        data.push_str("h0");
                    }
                    (drawing, is_single) = (false, false);
                }
            }
        }
        if is_single {
            data.push_str("h0");
        }
        if !data.is_empty() {
            self.push(format_args!("<path class=\"{class}\" d=\"{data}\"/>\n"));
        }
    }

    /// A dot at each point.
    pub(crate) fn marks(&mut self, points: impl Iterator<Item = (f64, f64)>, class: &str) {
        let mut data = String::new();
        for (x, y) in points {
            let _ = write!(data, "M{x:.1} {y:.1}h0");
        }
        if !data.is_empty() {
            self.push(format_args!("<path class=\"{class} marks\" d=\"{data}\"/>\n"));
        }
    }

    /// Opens a clipping area whose coordinates begin at 0, 0.
    pub(crate) fn open_clip(&mut self, x: f64, y: f64, width: f64, height: f64) {
        // Two pixels of margin, so that a line along the edge keeps its width.
        self.push(format_args!(
            "<svg x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" viewBox=\"-2 -2 {:.1} {:.1}\" overflow=\"hidden\">\n",
            x - 2.0,
            y - 2.0,
            width + 4.0,
            height + 4.0,
            width + 4.0,
            height + 4.0
        ));
    }

    pub(crate) fn close_clip(&mut self) {
        self.body.push_str("</svg>\n");
    }

    /// The whole SVG. `css` is the style sheet of a standalone picture.
    pub(crate) fn finish(self, width: f64, height: f64, label: &str, css: Option<&str>) -> String {
        let style = css.map(|css| format!("<style>\n{css}</style>\n")).unwrap_or_default();
        let label = escape(label);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"lf\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\" aria-label=\"{label}\">\n{style}\
             <rect class=\"bg\" width=\"100%\" height=\"100%\"/>\n{}</svg>\n",
            self.body
        )
    }

    fn push(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing into a String cannot fail.
        let _ = self.body.write_fmt(element);
    }
}

/// Approximate width of `text` in a sans-serif font of `size` pixels.
pub(crate) fn text_width(text: &str, size: f64) -> f64 {
    text.chars()
        .map(|c| match c {
            'i' | 'j' | 'l' | 't' | 'f' | 'r' | '.' | ',' | ':' | ';' | '\'' | '|' | ' ' | '(' | ')'
            | '-' => 0.38,
            'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.95,
            c if c.is_ascii_uppercase() => 0.72,
            c if c.is_ascii() => 0.62,
            _ => 0.8,
        })
        .sum::<f64>()
        * size
}

/// Height of a line of a title.
const TITLE_ROW: f64 = 20.0;
/// Size of a title's letters.
const TITLE_SIZE: f64 = 16.0;

/// Draws a title, in as many lines of at most `width` as it needs, the first at `y`. Returns the height of
/// the lines after the first; words that are wider than a line are truncated.
pub(crate) fn draw_title(canvas: &mut Canvas, x: f64, y: f64, title: &str, width: f64) -> f64 {
    let mut lines: Vec<String> = Vec::new();
    for word in title.split_whitespace() {
        let joined = lines.last().map(|line| format!("{line} {word}"));
        match joined.filter(|joined| text_width(joined, TITLE_SIZE) <= width) {
            Some(joined) => *lines.last_mut().expect("it was extended") = joined,
            None => lines.push(word.to_owned()),
        }
    }
    for (index, line) in lines.iter().enumerate() {
        let line = fit(line, TITLE_SIZE, width);
        canvas.text(x, y + TITLE_ROW * index as f64, Anchor::Start, "title", &line);
    }
    TITLE_ROW * lines.len().saturating_sub(1) as f64
}

/// `text`, truncated with an ellipsis if it would be wider than `width`.
pub(crate) fn fit(text: &str, size: f64, width: f64) -> String {
    if text_width(text, size) <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    for c in text.chars() {
        kept.push(c);
        if text_width(&kept, size) + 0.8 * size > width {
            kept.pop();
            break;
        }
    }
    kept + "\u{2026}"
}

/// The texts, truncated if they would be wider than `width`. To keep different texts distinct, the
/// beginning and the end that all texts share are removed first.
pub(crate) fn fit_distinct(texts: &[&str], size: f64, width: f64) -> Vec<String> {
    let are_distinct = |fitted: &[String]| {
        (0..texts.len()).all(|i| (0..i).all(|j| texts[i] == texts[j] || fitted[i] != fitted[j]))
    };
    let fitted: Vec<String> = texts.iter().map(|text| fit(text, size, width)).collect();
    if are_distinct(&fitted) {
        return fitted;
    }
    let chars: Vec<Vec<char>> = texts.iter().map(|text| text.chars().collect()).collect();
    let shortest = chars.iter().map(Vec::len).min().unwrap_or(0);
    let all_have = |at: &dyn Fn(&[char]) -> char| chars.windows(2).all(|pair| at(&pair[0]) == at(&pair[1]));
    let begin = (0..shortest).take_while(|i| all_have(&|text| text[*i])).count();
    let end = (0..shortest - begin).take_while(|i| all_have(&|text| text[text.len() - 1 - i])).count();
    let shortened: Vec<String> = chars
        .iter()
        .map(|text| {
            let kept: String = text[begin..text.len() - end].iter().collect();
            fit(&format!("\u{2026}{kept}{}", if end > 0 { "\u{2026}" } else { "" }), size, width)
        })
        .collect();
    match are_distinct(&shortened) {
        true => shortened,
        false => (1..=texts.len()).map(|n| format!("no. {n}")).collect(),
    }
}

/// A point of a curve in pixels; `None` interrupts the curve.
pub(crate) type Placed = Option<(f64, f64)>;

/// Whether two curves would cover each other: the same number of points, each within 1.5 pixels.
pub(crate) fn coincide(a: &[Placed], b: &[Placed]) -> bool {
    let are_near = |a: &Placed, b: &Placed| match (a, b) {
        (Some(a), Some(b)) => (a.0 - b.0).abs() < 1.5 && (a.1 - b.1).abs() < 1.5,
        (None, None) => true,
        _ => false,
    };
    a.len() == b.len() && a.iter().any(Option::is_some) && a.iter().zip(b).all(|(a, b)| are_near(a, b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_has_as_many_lines_as_it_needs() {
        let mut canvas = Canvas::default();
        let title = "A path of 100 Mb/s and 20 ms, 0.01% loss";
        assert_eq!(draw_title(&mut canvas, 0.0, 26.0, title, 1000.0), 0.0);
        let mut canvas = Canvas::default();
        assert_eq!(draw_title(&mut canvas, 0.0, 26.0, title, 200.0), TITLE_ROW);
        let svg = canvas.finish(200.0, 100.0, "", None);
        assert!(svg.contains("0.01% loss<") && !svg.contains('\u{2026}'), "{svg}");
    }

    #[test]
    fn gaps_interrupt_a_curve_and_single_points_are_dots() {
        let mut canvas = Canvas::default();
        let points = [Some((0.0, 1.0)), Some((1.0, 2.0)), None, Some((3.0, 3.0)), None];
        canvas.path(points.into_iter(), "s0");
        assert_eq!(canvas.body, "<path class=\"s0\" d=\"M0.0 1.0L1.0 2.0M3.0 3.0h0\"/>\n");
    }

    #[test]
    fn long_names_are_truncated() {
        assert_eq!(fit("bulk", 10.0, 50.0), "bulk");
        let cut = fit("a-very-long-flow-name", 10.0, 50.0);
        assert!(cut.ends_with('\u{2026}') && text_width(&cut, 10.0) <= 50.0, "{cut}");
    }

    #[test]
    fn long_names_with_the_same_beginning_stay_distinct() {
        let names = ["20261123T1900-sim-cubic", "20261123T1900-sim-bbr"];
        let cut = fit_distinct(&names, 10.0, 60.0);
        assert_eq!(cut, ["\u{2026}cubic", "\u{2026}bbr"]);
        let middle = ["measurement-a-of-the-long-path", "measurement-b-of-the-long-path"];
        assert_eq!(fit_distinct(&middle, 10.0, 60.0), ["\u{2026}a\u{2026}", "\u{2026}b\u{2026}"]);
        assert_eq!(fit_distinct(&["a", "a", "b"], 10.0, 60.0), ["a", "a", "b"]);
        assert_eq!(fit_distinct(&["abcdefghijklmnop1", "bbcdefghijklmnop2"], 10.0, 14.0), ["no. 1", "no. 2"]);
    }

    #[test]
    fn curves_coincide_if_each_point_coincides() {
        let a = [Some((0.0, 1.0)), None, Some((2.0, 3.0))];
        assert!(coincide(&a, &[Some((0.4, 1.0)), None, Some((2.0, 3.9))]));
        assert!(!coincide(&a, &[Some((0.0, 1.0)), None, Some((2.0, 5.0))]) && !coincide(&a, &a[..2]));
        assert!(!coincide(&[None], &[None]), "nothing is drawn");
    }
}
