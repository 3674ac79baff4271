//! How wide the reader's terminal is, and whether it takes colours.

use clap::ColorChoice;
use heaplab_text::paint::Look;
use std::io::IsTerminal;
use std::sync::OnceLock;

/// Columns if the width is unknown: a pipe, a file.
const COLUMNS: usize = 80;
/// Narrower than this no table can be.
const COLUMNS_MIN: usize = 60;
/// In lines longer than this the eye loses its way.
const COLUMNS_MAX: usize = 120;

/// Columns to fill.
pub fn columns() -> usize {
    width().min(COLUMNS_MAX)
}

/// Columns of the terminal on standard output, else those in `COLUMNS`, else 80.
pub fn width() -> usize {
    let out = std::io::stdout();
    let asked = if out.is_terminal() {
        rustix::termios::tcgetwinsize(&out).ok().map(|size| usize::from(size.ws_col))
    } else {
        None
    };
    let told = || std::env::var("COLUMNS").ok()?.parse().ok();
    asked.filter(|columns| *columns > 0).or_else(told).unwrap_or(COLUMNS).max(COLUMNS_MIN)
}

/// Columns for lines on standard error, if limited: on a terminal, or by `COLUMNS`.
pub fn error_width() -> Option<usize> {
    let error = std::io::stderr();
    let asked = if error.is_terminal() {
        rustix::termios::tcgetwinsize(&error).ok().map(|size| usize::from(size.ws_col))
    } else {
        None
    };
    let told = || std::env::var("COLUMNS").ok()?.parse().ok();
    Some(asked.filter(|columns| *columns > 0).or_else(told)?.clamp(COLUMNS_MIN, COLUMNS_MAX))
}

/// How a report looks on standard output, with `top` rows a list.
pub fn look(top: usize) -> Look {
    Look { width: columns(), listing_width: width(), colour: has_colours(), top }
}

/// The value of `--color`.
static CHOICE: OnceLock<ColorChoice> = OnceLock::new();

/// Keeps the value of `--color` for [`has_colours`].
pub fn choose_colours(choice: ColorChoice) {
    CHOICE.get_or_init(|| choice);
}

/// Whether standard output gets colours: by `--color`, or else on a terminal that takes them,
/// unless the user refuses them.
pub fn has_colours() -> bool {
    match CHOICE.get() {
        Some(ColorChoice::Always) => return true,
        Some(ColorChoice::Never) => return false,
        Some(ColorChoice::Auto) | None => {}
    }
    let named = |name: &str| std::env::var(name).unwrap_or_default();
    std::io::stdout().is_terminal() && takes_colours(&named("TERM"), &named("NO_COLOR"))
}

/// Whether a terminal of this kind takes colours, given the value of `NO_COLOR`. A dumb terminal
/// shows escapes as they are.
fn takes_colours(kind: &str, no_color: &str) -> bool {
    kind != "dumb" && no_color.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dumb_terminal_gets_no_colours() {
        assert!(takes_colours("xterm-256color", "") && takes_colours("", ""));
        assert!(!takes_colours("dumb", "") && !takes_colours("xterm", "1"));
    }
}
