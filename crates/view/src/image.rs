//! Converts SVG to PNG and PDF.
//!
//! Text is set in DejaVu Sans. The program embeds its Latin, Greek and Cyrillic letters and mathematical
//! symbols (`fonts/`), so that a picture is identical on every machine. Letters of other scripts come from
//! the machine's fonts.

use std::sync::{Arc, LazyLock};

use resvg::{
    tiny_skia::{Pixmap, Transform},
    usvg::{Options, Tree, fontdb::Database},
};

use crate::{Error, length::PIXELS_PER_INCH};

const FAMILY: &str = "DejaVu Sans";
/// Pixels of the PNG per pixel of the SVG, for high-resolution screens and print.
const SCALE: f32 = 2.0;
/// Maximum number of pixels, of four bytes each.
const MAX_PIXELS: f32 = 100e6;

static FONTS: LazyLock<Database> = LazyLock::new(|| {
    let mut fonts = Database::new();
    fonts.load_font_data(include_bytes!("../fonts/DejaVuSans-latin.ttf").to_vec());
    fonts.load_font_data(include_bytes!("../fonts/DejaVuSans-Bold-latin.ttf").to_vec());
    fonts.set_sans_serif_family(FAMILY);
    fonts
});

/// Converts an SVG to a PNG of twice its width and height.
///
/// # Errors
/// If the input is not an SVG, or too large.
pub fn png(svg: &str) -> Result<Vec<u8>, Error> {
    let tree = read(svg)?;
    let size = tree.size();
    let (width, height) = ((size.width() * SCALE).ceil(), (size.height() * SCALE).ceil());
    let too_large = || Error::Image(format!("{width} x {height} pixels are too many"));
    if width * height > MAX_PIXELS {
        return Err(too_large());
    }
    let mut pixels = Pixmap::new(width as u32, height as u32).ok_or_else(too_large)?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| Error::Image(error.to_string()))
}

/// Converts an SVG to a PDF page of its physical size, 96 pixels to the inch, with searchable text.
///
/// # Errors
/// If the input is not an SVG, or a font cannot be embedded.
pub fn pdf(svg: &str) -> Result<Vec<u8>, Error> {
    let page = svg2pdf::PageOptions { dpi: PIXELS_PER_INCH as f32 };
    svg2pdf::to_pdf(&read(svg)?, svg2pdf::ConversionOptions::default(), page)
        .map_err(|error| Error::Image(error.to_string()))
}

fn read(svg: &str) -> Result<Tree, Error> {
    let mut fonts = FONTS.clone();
    if !svg.chars().all(is_embedded) {
        fonts.load_system_fonts();
    }
    let options = Options { fontdb: Arc::new(fonts), font_family: FAMILY.into(), ..Options::default() };
    Tree::from_str(svg, &options).map_err(|error| Error::Image(error.to_string()))
}

/// Whether the embedded fonts have a character.
fn is_embedded(letter: char) -> bool {
    matches!(letter, '\0'..='\u{17f}' | '\u{370}'..='\u{3ff}' | '\u{400}'..='\u{45f}' | '\u{2010}'..='\u{2027}'
        | '\u{2190}'..='\u{2195}' | '\u{2200}'..='\u{222b}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::plot_css;

    fn picture() -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"lf\" width=\"100\" height=\"40\">\n<style>{}</style>\n\
             <rect class=\"bg\" width=\"100%\" height=\"100%\"/><text x=\"5\" y=\"20\">goodput, µs</text></svg>",
            plot_css()
        )
    }

    #[test]
    fn a_png_has_twice_the_size_and_text_on_a_light_background() {
        let pixels = Pixmap::decode_png(&png(&picture()).unwrap()).unwrap();
        assert_eq!((pixels.width(), pixels.height()), (200, 80));
        let first = pixels.pixel(0, 0).unwrap();
        assert_eq!((first.red(), first.green(), first.blue(), first.alpha()), (255, 255, 255, 255));
        let dark = |x: u32| (0..80).filter(|y| pixels.pixel(x, *y).is_some_and(|p| p.red() < 120)).count();
        let columns = (0..200).filter(|x| dark(*x) > 0).count();
        assert!((60..190).contains(&columns), "{columns} columns with ink");
    }

    #[test]
    fn a_pdf_embeds_its_font() {
        let bytes = pdf(&picture()).unwrap();
        assert!(bytes.starts_with(b"%PDF-1."));
        assert!(bytes.trim_ascii_end().ends_with(b"%%EOF"));
        let has = |what: &[u8]| bytes.windows(what.len()).any(|window| window == what);
        assert!(has(b"/MediaBox") && has(b"DejaVuSans") && has(b"/FontFile2"));
    }

    #[test]
    fn a_pdf_page_has_the_physical_size() {
        let picture = picture().replace("width=\"100\" height=\"40\"", "width=\"25.4mm\" height=\"0.5in\"");
        let bytes = pdf(&picture).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        // 72 points are an inch.
        assert!(text.contains("/MediaBox [0 0 72 36]"), "{}", &text[..text.len().min(2000)]);
    }

    #[test]
    fn input_that_is_not_svg_is_an_error() {
        assert!(matches!(png("nothing"), Err(Error::Image(_))));
        assert!(matches!(pdf("<svg"), Err(Error::Image(_))));
        let huge = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"90000\" height=\"90000\"/>";
        assert!(png(huge).unwrap_err().to_string().contains("too many"));
    }
}
