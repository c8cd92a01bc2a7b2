//! Light or dark colours of pages, independent of the preference of the reader's system.

use std::fmt;
use std::str::FromStr;

/// The condition in style sheets that holds on systems with dark colours.
const PREFERS_DARK: &str = "(prefers-color-scheme:dark)";

/// Which colours a page has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Theme {
    /// The colours that the reader's system prefers.
    #[default]
    Auto,
    /// Dark on light.
    Light,
    /// Light on dark.
    Dark,
}

impl Theme {
    /// A report or a sweep's page with these colours.
    pub fn apply(self, page: String) -> String {
        let (condition, scheme) = match self {
            Theme::Auto => return page,
            Theme::Light => ("not all", "light"),
            Theme::Dark => ("all", "dark"),
        };
        page.replace(PREFERS_DARK, condition)
            .replace("content=\"light dark\"", &format!("content=\"{scheme}\""))
            .replace("color-scheme:light dark", &format!("color-scheme:{scheme}"))
    }
}

impl FromStr for Theme {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Theme::Auto, Theme::Light, Theme::Dark]
            .into_iter()
            .find(|theme| theme.to_string() == text)
            .ok_or_else(|| format!("unknown theme {text:?}; there are auto, light and dark"))
    }
}

impl fmt::Display for Theme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Theme::Auto => "auto",
            Theme::Light => "light",
            Theme::Dark => "dark",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_one_scheme_unless_the_theme_is_auto() {
        let page = crate::sweep::sweep_page("t", "<p>", "<svg class=\"lf\"></svg>", "c");
        assert_eq!(Theme::Auto.apply(page.clone()), page);
        assert!(page.contains(PREFERS_DARK) && page.contains("light dark"), "{page}");
        for (theme, condition) in [(Theme::Light, "@media not all{"), (Theme::Dark, "@media all{")] {
            let themed = theme.apply(page.clone());
            assert!(themed.contains(condition), "{themed}");
            assert!(!themed.contains(PREFERS_DARK) && !themed.contains("light dark"), "{themed}");
            assert_eq!(theme.to_string().parse(), Ok(theme));
        }
        assert!("blue".parse::<Theme>().unwrap_err().contains("light and dark"));
    }
}
