//! Options for Node, in `NODE_OPTIONS`, and the command line options that would forbid them.
//!
//! Source: Node's documentation of `NODE_OPTIONS` (its allowed content and the quoting of spaces)
//! and of `--permission`.

use crate::error::RecordError;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The variable that every Node reads its options from.
pub const VARIABLE: &str = "NODE_OPTIONS";
/// The smallest young generation that V8 has.
pub const GRANULARITY_MIN: u64 = 1 << 20;
/// The largest young generation that heaplab asks for.
pub const GRANULARITY_MAX: u64 = 512 << 20;
/// The value that makes Node load `addon`, before the existing options.
pub fn value(addon: &Path, before: Option<&OsStr>) -> OsString {
    let mut value = OsString::from("--require ");
    value.push(addon);
    if let Some(before) = before.filter(|before| !before.is_empty()) {
        value.push(" ");
        value.push(before);
    }
    value
}

/// The command line of the program at `program`, with a young generation of this many bytes.
/// [`GRANULARITY_MIN`] is V8's initial size. A larger one must be set before V8 starts, and Node
/// allows this only as an argument.
///
/// # Errors
/// A larger size is asked for, and the program is not Node itself.
pub fn command(
    program: &Path,
    words: &[OsString],
    granularity_bytes: u64,
) -> Result<Vec<OsString>, RecordError> {
    let mut words = words.to_vec();
    if granularity_bytes > GRANULARITY_MIN {
        let named =
            |path: &Path| path.file_name().is_some_and(|name| name == "node" || name == "nodejs");
        if !named(program) && !program.canonicalize().is_ok_and(|real| named(&real)) {
            return Err(RecordError::GranularityOfOther { path: program.to_owned() });
        }
        // In MiB. The last of two options counts: the user's own.
        let options = ["min", "max"].map(|bound| {
            OsString::from(format!("--{bound}-semi-space-size={}", granularity_bytes >> 20))
        });
        words.splice(1..1, options);
    }
    Ok(words)
}

/// Whether the command line or the variable forbids addons.
pub fn check(command: &[OsString], variable: Option<&OsStr>) -> Result<(), RecordError> {
    let options = variable
        .map(OsStr::as_bytes)
        .unwrap_or_default()
        .split(|byte| *byte == b' ')
        .map(OsStr::from_bytes);
    let words: Vec<&OsStr> =
        command.iter().skip(1).map(OsString::as_os_str).chain(options).collect();
    let given = |option: &str| words.iter().any(|word| *word == option);
    let allowed = given("--allow-addons");
    let forbids = |option: &&&str| given(option) && !(allowed && option.ends_with("permission"));
    match ["--no-addons", "--permission", "--experimental-permission"].iter().find(forbids) {
        Some(option) => Err(RecordError::NoAddons { option: (*option).into() }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_of_node_before_stays_and_comes_last() {
        let of = |before| value(Path::new("/a/b.node"), before);
        assert_eq!(of(None), "--require /a/b.node");
        assert_eq!(of(Some(OsStr::new(""))), "--require /a/b.node");
        assert_eq!(of(Some(OsStr::new("--trace-gc"))), "--require /a/b.node --trace-gc");
    }

    #[test]
    fn a_large_young_generation_is_an_argument_of_node_alone() {
        let of = |program: &str, bytes| {
            command(Path::new(program), &["node".into(), "a.js".into()], bytes)
                .map_err(|error| error.to_string())
        };
        assert_eq!(of("/x/tsc", 1 << 20).unwrap(), ["node", "a.js"]);
        assert_eq!(
            of("/x/node", 4 << 20).unwrap(),
            ["node", "--min-semi-space-size=4", "--max-semi-space-size=4", "a.js"]
        );
        assert!(of("/x/tsc", 4 << 20).unwrap_err().contains("node /x/tsc"));
    }

    #[test]
    fn a_node_that_may_load_no_addon_is_named() {
        let check = |words: &[&str], variable: &str| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            check(&words, Some(OsStr::new(variable))).map_err(|error| error.to_string())
        };
        assert_eq!(check(&["node", "a.js"], "--trace-gc"), Ok(()));
        assert_eq!(check(&["node", "--permission", "--allow-addons", "a.js"], ""), Ok(()));
        assert!(check(&["node", "--permission", "a.js"], "").unwrap_err().contains("--permission"));
        assert!(check(&["node", "a.js"], "--x --no-addons").unwrap_err().contains("--no-addons"));
        assert!(check(&["node", "--allow-addons", "--no-addons"], "").is_err());
    }
}
