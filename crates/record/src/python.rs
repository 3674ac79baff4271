//! Python's frames in a recording: a process image's record about Python and about each code
//! object.
//!
//! The recorder reads the frames (`python.c` says how and why). Here are the records that it
//! writes, and the way to start a program for it. The spool is untrusted: names are bounded and
//! their control characters escaped.

use crate::inherited::Environment;
use heaplab_preload::layout;
use heaplab_text::words::plural;
use std::collections::HashMap;

/// What `record --python` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Frames {
    /// Python frames in place of the interpreter's own.
    #[cfg_attr(feature = "clap", value(name = "frames"))]
    Python,
    /// Python frames between all native ones.
    All,
}

impl Frames {
    /// As [`layout::Control::flags`].
    pub fn flags(self) -> u32 {
        match self {
            Frames::Python => layout::CONTROL_PYTHON,
            Frames::All => layout::CONTROL_PYTHON | layout::CONTROL_INTERPRETER,
        }
    }
}

/// Makes Python take objects from malloc instead of its own arenas. A user's setting with the same
/// effect (`malloc_debug`) stays.
pub fn set_environment(environment: &mut Environment) {
    environment.set("PYTHONMALLOC", |before| match before {
        Some(value) if value.to_string_lossy().starts_with("malloc") => value.to_owned(),
        _ => "malloc".into(),
    });
}

/// A code object of Python.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Code {
    /// Its qualified name.
    pub name: String,
    /// The file as the code names it.
    pub file: String,
}

/// An image's record about Python.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Python {
    /// `PYTHON_...` of the layout, and the version (0x030b0200 is 3.11.2); `None`: no interpreter
    /// was seen.
    pub verdict: Option<(u32, u32)>,
    /// By number.
    pub codes: HashMap<u32, Code>,
}

impl Python {
    /// Code and line of a node's address; `None`: the address is a native frame's.
    pub fn place(address: u64) -> Option<(u32, u32)> {
        let below = (1 << layout::PYTHON_LINE_BITS) - 1;
        let fields =
            (address & !layout::PYTHON_FRAME).checked_shr(layout::PYTHON_LINE_BITS).unwrap_or(0);
        (address & layout::PYTHON_FRAME != 0)
            .then_some(((fields & below) as u32, (address & below) as u32))
    }

    /// Why frames are missing; `None`: they are there, or no interpreter was seen.
    fn refusal(&self) -> Option<String> {
        let (verdict, version) = self.verdict?;
        let version =
            format!("Python {}.{}.{}", version >> 24, version >> 16 & 255, version >> 8 & 255);
        Some(match verdict {
            layout::PYTHON_READ => return None,
            layout::PYTHON_VERSION => {
                format!("heaplab reads frames of Python 3.8 to 3.13, not of {version}")
            }
            layout::PYTHON_SYMBOLS => format!(
                "the {version} of this program exports too few symbols (an interpreter linked into another program)"
            ),
            layout::PYTHON_NOT_CPYTHON => format!("{version} here is PyPy, not CPython"),
            _ => format!(
                "frames of this {version} do not look as those of that version do (a debug or free-threaded build?)"
            ),
        })
    }

    /// One sentence on missing frames for a recording with `--python`; `None`: they are there.
    pub fn loss<'a>(images: impl Iterator<Item = &'a Python>) -> Option<String> {
        let (mut read, mut refused, mut why) = (false, 0, None);
        for python in images {
            read |= matches!(python.verdict, Some((layout::PYTHON_READ, _)));
            if let Some(reason) = python.refusal() {
                refused += 1;
                why.get_or_insert(reason);
            }
        }
        match why {
            Some(why) => Some(format!(
                "stacks of {} have no Python frames: {why}",
                plural(refused, "process")
            )),
            None if !read => Some(String::from(
                "no stack has Python frames: no CPython was seen in any process (--python)",
            )),
            None => None,
        }
    }
}

/// One sentence on Pythons that were told to ignore `PYTHONMALLOC` (`-E`, `-I`): most of their
/// objects are missing. `None`: there is no such Python.
pub fn ignores_malloc<'a>(
    images: impl Iterator<Item = (&'a Python, &'a [Vec<u8>])>,
) -> Option<String> {
    let ignores = |(python, arguments): &(&Python, &[Vec<u8>])| {
        matches!(python.verdict, Some((layout::PYTHON_READ, _))) && ignores_environment(arguments)
    };
    let many = images.filter(ignores).count() as u64;
    (many > 0).then(|| {
        format!(
            "small objects of {} are not blocks of malloc: Python's -E and -I ignore PYTHONMALLOC; record without them",
            plural(many, "Python process")
        )
    })
}

/// Whether the options of a Python's command line, which end at its script, `-c` or `-m`, have `-E`
/// or `-I`.
fn ignores_environment(arguments: &[Vec<u8>]) -> bool {
    let mut words = arguments.iter().skip(1);
    while let Some(word) = words.next() {
        let Some(letters) = word.strip_prefix(b"-").filter(|letters| !letters.is_empty()) else {
            return false;
        };
        if letters == b"-check-hash-based-pycs" {
            words.next();
            continue;
        }
        // `--version` and `--help` run nothing; `--` ends the options.
        if letters[0] == b'-' {
            return false;
        }
        let ends = letters.iter().position(|letter| b"-cmWX".contains(letter));
        let flags = &letters[..ends.unwrap_or(letters.len())];
        if flags.contains(&b'E') || flags.contains(&b'I') {
            return true;
        }
        match ends.map(|at| (letters[at], at + 1 == letters.len())) {
            Some((b'W' | b'X', true)) => {
                words.next();
            }
            Some((b'W' | b'X', false)) | None => {}
            Some(_) => return false,
        }
    }
    false
}

/// A name from the program as text that a terminal can show.
pub fn name_of(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if !text.contains(char::is_control) {
        return text.into_owned();
    }
    text.chars()
        .flat_map(|letter| {
            if letter.is_control() { letter.escape_default().collect() } else { vec![letter] }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_place_in_python_or_native() {
        let address = layout::PYTHON_FRAME | 77 << layout::PYTHON_LINE_BITS | 1234;
        assert_eq!(Python::place(address), Some((77, 1234)));
        assert_eq!(Python::place(u64::MAX), Some((0xff_ffff, 0xff_ffff)));
        assert_eq!(Python::place(0x7fff_1234_5678), None);
    }

    #[test]
    fn missing_frames_have_their_reason() {
        let python =
            |verdict, version| Python { verdict: Some((verdict, version)), ..Python::default() };
        let good = python(layout::PYTHON_READ, 0x030b_0200);
        assert_eq!(Python::loss([&good, &Python::default()].into_iter()), None);
        assert_eq!(
            Python::loss([&good, &python(layout::PYTHON_VERSION, 0x0307_0300)].into_iter())
                .unwrap(),
            "stacks of 1 process have no Python frames: heaplab reads frames of Python 3.8 to 3.13, not of Python 3.7.3"
        );
        assert_eq!(
            Python::loss([&Python::default()].into_iter()).unwrap(),
            "no stack has Python frames: no CPython was seen in any process (--python)"
        );
    }

    #[test]
    fn a_python_that_ignores_pythonmalloc_is_told() {
        let python =
            Python { verdict: Some((layout::PYTHON_READ, 0x030c_0100)), ..Python::default() };
        let words = |line: &str| -> Vec<Vec<u8>> {
            line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
        };
        let told = |line: &str| {
            let words = words(line);
            let other = (&Python::default(), &words[..]);
            ignores_malloc([(&python, &words[..]), other].into_iter())
        };
        for line in [
            "python3 -I app.py",
            "python3 -E -c pass",
            "python3 -uE -",
            "python3 -W error -X dev -Xutf8 -sI -m app",
            "python3 --check-hash-based-pycs never -I app.py",
        ] {
            assert_eq!(
                told(line).expect(line),
                "small objects of 1 Python process are not blocks of malloc: Python's -E and -I \
                 ignore PYTHONMALLOC; record without them"
            );
        }
        for line in [
            "python3",
            "python3 app.py -I",
            "python3 - -I",
            "python3 -c E -I",
            "python3 -mE -I",
            "python3 -X E -WI app.py",
            "python3 --version -I",
        ] {
            assert_eq!(told(line), None, "{line}");
        }
    }

    #[test]
    fn names_cannot_write_to_a_terminal() {
        assert_eq!(name_of("Größe.<locals>.π".as_bytes()), "Größe.<locals>.π");
        assert_eq!(name_of(b"a\x1b[31m\nb\xff"), "a\\u{1b}[31m\\nb\u{fffd}");
    }
}
