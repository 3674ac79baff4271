//! Progress on a terminal; nothing where standard error is none, or where the user wants none.

use indicatif::ProgressStyle;
use std::io::IsTerminal;
use std::time::Duration;

pub use indicatif::ProgressBar;

/// A bar of `length` steps, drawn by indicatif's `template`. Use `{wide_msg}` for a message: a
/// wrapped line is drawn again below itself.
///
/// # Panics
/// The template is none.
pub fn bar(is_quiet: bool, length: u64, template: &str) -> ProgressBar {
    if is_hidden(is_quiet) {
        return ProgressBar::hidden();
    }
    ProgressBar::new(length).with_style(style(template))
}

/// A line with `message` that moves by itself.
pub fn spinner(is_quiet: bool, message: String) -> ProgressBar {
    let bar = line(is_quiet, "{spinner} {msg}").with_message(message);
    if !bar.is_hidden() {
        bar.enable_steady_tick(Duration::from_millis(100));
    }
    bar
}

/// A line without a length, drawn by indicatif's `template`.
///
/// # Panics
/// The template is none.
pub fn line(is_quiet: bool, template: &str) -> ProgressBar {
    if is_hidden(is_quiet) {
        return ProgressBar::hidden();
    }
    ProgressBar::no_length().with_style(style(template))
}

/// A style of indicatif's `template`.
///
/// # Panics
/// The template is none.
pub fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is right")
}

/// Moves a bar to `done` of `total`, with a message about the current work.
pub fn show(bar: &ProgressBar, done: u64, total: u64, now: &str) {
    bar.set_length(total);
    bar.set_position(done);
    bar.set_message(now.to_owned());
}

fn is_hidden(is_quiet: bool) -> bool {
    is_quiet || !std::io::stderr().is_terminal()
}
