//! Signals to heaplab while a target runs.
//!
//! A terminal sends Ctrl-C to the whole foreground group, target included; passing it on would
//! deliver it twice. A signal that another process sent to heaplab alone is passed on. `ssi_code`
//! and `ssi_pid` tell the sender. A signal from the target or a process of its recording comes by
//! their process group, which heaplab shares (`kill 0`): the target has it already. For all other
//! senders nothing tells whether the signal was for heaplab or for the group. A script that ends
//! its background `heaplab record` by pid is in the group too, so the group proves nothing. Such a
//! signal is passed on; a signal to the group then arrives twice.
//!
//! If SIGCHLD is ignored the kernel tells nobody how a child ended; so it is not ignored while a
//! target runs.

use crate::{inherited, proc_fs};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;

/// Terminating signals, which heaplab passes on.
const PASSED_ON: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];
/// Most ancestors of a sender searched for the target.
const ANCESTORS_MAX: usize = 256;

/// A signal that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Its number.
    pub signal: i32,
    /// The sending process; `None`: the terminal, which sends to the target too.
    pub sender: Option<u32>,
}

impl Arrived {
    /// Whether the target has the signal as well: from the terminal, or from a process of its
    /// recording, with `spool` in its environment. A sender that is gone counts as a stranger.
    pub fn reached_target(&self, target: u32, spool: &Path) -> bool {
        let is_of_recording = |sender| {
            let mut ancestors = std::iter::successors(Some(sender), |pid| {
                Some(proc_fs::parent(*pid)).filter(|parent| *parent > 1)
            });
            ancestors.by_ref().take(ANCESTORS_MAX).any(|pid| pid == target)
                || proc_fs::is_of_recording(sender, spool)
        };
        self.sender.is_none_or(is_of_recording)
    }
}

/// While it lives, signals to this thread arrive here instead of ending the process.
#[derive(Debug)]
pub struct Signals {
    descriptor: OwnedFd,
    before: libc::sigset_t,
    /// The earlier action of SIGCHLD, if it hid how children end.
    child_before: Option<libc::sigaction>,
}

impl Signals {
    /// Takes the signals over. Also blocks SIGXFSZ: a file size limit then is an error of write(2).
    pub fn take() -> io::Result<Signals> {
        // SAFETY: a sigset_t is plain integers; it is emptied before use.
        let (mut set, mut before): (libc::sigset_t, libc::sigset_t) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        // SAFETY: both sets live through the calls, and the signal numbers are valid. signalfd
        // returns a descriptor that nobody else owns, or -1; the code checks it before use.
        unsafe {
            libc::sigemptyset(&raw mut set);
            for signal in PASSED_ON {
                libc::sigaddset(&raw mut set, signal);
            }
            let descriptor =
                libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if descriptor < 0 {
                return Err(io::Error::last_os_error());
            }
            libc::sigaddset(&raw mut set, libc::SIGXFSZ);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before);
            let child_before = hear_of_children();
            Ok(Signals { descriptor: OwnedFd::from_raw_fd(descriptor), before, child_before })
        }
    }

    /// Becomes readable when a signal arrives.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// The earlier signal mask, for the target.
    pub fn mask_before(&self) -> libc::sigset_t {
        self.before
    }

    /// Whether SIGCHLD was ignored before; the target inherits this.
    pub fn child_was_ignored(&self) -> bool {
        self.child_before.is_some_and(|before| before.sa_sigaction == libc::SIG_IGN)
    }

    /// Passes signals on to `target` while it runs, except those it has already. Returns how many
    /// arrived, without those between processes of the recording in `spool`, which are not for
    /// heaplab.
    pub fn pass_on(&self, target: u32, runs: bool, spool: &Path) -> u32 {
        let mut arrived_for_heaplab = 0;
        while let Some(arrived) = self.next() {
            let reached_target = arrived.reached_target(target, spool);
            if reached_target && arrived.sender.is_some() {
                continue;
            }
            arrived_for_heaplab += 1;
            if !reached_target && runs {
                send(target, arrived.signal);
            }
        }
        arrived_for_heaplab
    }

    /// The next signal that has arrived.
    pub fn next(&self) -> Option<Arrived> {
        let mut info = [0; size_of::<libc::signalfd_siginfo>()];
        let length = rustix::io::read(&self.descriptor, &mut info).ok()?;
        let field =
            |at: usize| i32::from_ne_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]]);
        let signal = field(std::mem::offset_of!(libc::signalfd_siginfo, ssi_signo));
        let code = field(std::mem::offset_of!(libc::signalfd_siginfo, ssi_code));
        let sender = field(std::mem::offset_of!(libc::signalfd_siginfo, ssi_pid)) as u32;
        // The kernel's own codes are above 0; a sender of another pid namespace has the number 0.
        (length == info.len()).then_some(Arrived { signal, sender: (code <= 0).then_some(sender) })
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // A signal still waiting would be delivered once unblocked.
        while self.next().is_some() {}
        // SAFETY: `before` is the mask from pthread_sigmask in `take`.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut())
        };
        if let Some(before) = self.child_before {
            // SAFETY: it is the action from sigaction in `take`.
            unsafe { libc::sigaction(libc::SIGCHLD, &raw const before, std::ptr::null_mut()) };
        }
    }
}

/// Makes children waitable. Returns the earlier action of SIGCHLD if they were not.
fn hear_of_children() -> Option<libc::sigaction> {
    let before = inherited::disposition(libc::SIGCHLD);
    let are_lost =
        before.sa_sigaction == libc::SIG_IGN || before.sa_flags & libc::SA_NOCLDWAIT != 0;
    if are_lost {
        let mut action = before;
        action.sa_flags &= !libc::SA_NOCLDWAIT;
        if action.sa_sigaction == libc::SIG_IGN {
            action.sa_sigaction = libc::SIG_DFL;
        }
        // SAFETY: except for the change above the action is the current one.
        unsafe { libc::sigaction(libc::SIGCHLD, &raw const action, std::ptr::null_mut()) };
    }
    are_lost.then_some(before)
}

/// Whether this process ignores `signal`. Such a signal still arrives in [`Signals`].
pub fn is_ignored(signal: i32) -> bool {
    inherited::disposition(signal).sa_sigaction == libc::SIG_IGN
}

/// Sends `signal` to the process `pid`. A process that is gone is no error.
pub fn send(pid: u32, signal: i32) {
    // SAFETY: kill takes two integers and touches no memory of ours.
    unsafe { libc::kill(pid as libc::pid_t, signal) };
}
