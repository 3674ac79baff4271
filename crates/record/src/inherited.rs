//! State that a program inherits through heaplab and that Rust's runtime and `Command` would
//! change: ignored signals, and the environment unchanged, in its order, with duplicates and
//! nameless entries.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::atomic::{AtomicBool, Ordering};

static PIPE_IGNORED: AtomicBool = AtomicBool::new(false);

/// Rust's runtime ignores SIGPIPE before `main` and forgets the earlier disposition; constructors
/// run before the runtime.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE_PIPE: extern "C" fn() = note_pipe;

extern "C" fn note_pipe() {
    PIPE_IGNORED.store(disposition(libc::SIGPIPE).sa_sigaction == libc::SIG_IGN, Ordering::Relaxed);
}

/// The action for `signal`.
pub(crate) fn disposition(signal: i32) -> libc::sigaction {
    // SAFETY: a sigaction of zeros is valid to be read into; the number is a signal's, and the call
    // changes nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action);
        action
    }
}

/// Whether SIGPIPE was ignored when this process began.
pub(crate) fn pipe_is_ignored() -> bool {
    PIPE_IGNORED.load(Ordering::Relaxed)
}

/// The environment of a program to start.
#[derive(Debug)]
pub struct Environment(Vec<CString>);

impl Environment {
    /// This process's own.
    pub fn inherited() -> Environment {
        let mut entries = Vec::new();
        // SAFETY: `environ` is null or an array of strings that ends with a null. Nothing changes
        // it: setting a variable is unsafe in Rust, and its caller must ensure that nobody reads
        // meanwhile.
        unsafe {
            let mut entry = libc::environ;
            while !entry.is_null() && !(*entry).is_null() {
                entries.push(CStr::from_ptr(*entry).to_owned());
                entry = entry.add(1);
            }
        }
        Environment(entries)
    }

    /// Replaces the value of `name` by `value` of the old value, at every occurrence (programs
    /// disagree on which of two counts), or else appends it.
    ///
    /// # Panics
    /// The value holds a NUL byte; neither file names nor other variables' values can.
    pub fn set(&mut self, name: &str, value: impl Fn(Option<&OsStr>) -> OsString) {
        let entry = |before: Option<&OsStr>| {
            let text = [name.as_bytes(), b"=", &value(before).into_vec()].concat();
            CString::new(text).expect("no NUL in a variable's value")
        };
        let mut is_there = false;
        for found in &mut self.0 {
            let before = found
                .to_bytes()
                .strip_prefix(name.as_bytes())
                .and_then(|rest| rest.strip_prefix(b"="));
            if let Some(before) = before {
                is_there = true;
                *found = entry(Some(OsStr::from_bytes(before)));
            }
        }
        if !is_there {
            self.0.push(entry(None));
        }
    }

    /// The form that `execve` takes.
    pub(crate) fn block(self) -> Block {
        let pointers = self
            .0
            .iter()
            .map(|entry| entry.as_ptr().cast_mut())
            .chain([std::ptr::null_mut()])
            .collect();
        Block { pointers, _entries: self.0 }
    }
}

/// An environment in memory, made before the fork: after the fork nothing may allocate.
pub(crate) struct Block {
    pointers: Vec<*mut libc::c_char>,
    _entries: Vec<CString>,
}

// SAFETY: the pointers refer to strings that the block owns; their bytes do not move with the block
// and are never written.
unsafe impl Send for Block {}
// SAFETY: as above; a shared block is only read.
unsafe impl Sync for Block {}

impl Block {
    /// Makes it this process's environment.
    ///
    /// # Safety
    /// No other thread runs, and the block lives until `exec`: that is, between fork and exec.
    pub(crate) unsafe fn install(&self) {
        // SAFETY: the caller's promise; the array ends with a null.
        unsafe { libc::environ = self.pointers.as_ptr().cast_mut() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_set_where_it_stands_and_nothing_else_changes() {
        let entries = [
            "Z=1",
            "A=1",
            "NOEQ",
            "LD_PRELOAD=a",
            "A=2",
            "=weird",
            "LD_PRELOAD=",
            "LD_PRELOAD_X=1",
        ];
        let mut environment =
            Environment(entries.map(|entry| CString::new(entry).unwrap()).to_vec());
        environment.set("LD_PRELOAD", |before| {
            ["new:".as_ref(), before.unwrap_or_default()].into_iter().collect()
        });
        environment.set("SPOOL", |before| before.map_or_else(|| "here".into(), OsStr::to_owned));
        let now: Vec<&str> = environment.0.iter().map(|entry| entry.to_str().unwrap()).collect();
        assert_eq!(
            now,
            [
                "Z=1",
                "A=1",
                "NOEQ",
                "LD_PRELOAD=new:a",
                "A=2",
                "=weird",
                "LD_PRELOAD=new:",
                "LD_PRELOAD_X=1",
                "SPOOL=here"
            ]
        );
    }
}
