//! The place of a program's socket, and its protocol.
//!
//! One question a connection: a line, [`REPORT`], [`PRESSURE`], or [`AT`] with the name of a mark.
//! The answer is one JSON object, in the form that about:memory saves and loads, with a key
//! `heaplab` of our own (`errors`, `marks` if the program has set some, and `callbacks` after
//! pressure). Then the program closes the connection. An answer that is no whole
//! object comes from a program that died.
//!
//! The place depends only on the program's user, not on its environment, which the asker does not
//! share.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Asks for reports.
pub const REPORT: &str = "report";
/// Runs the pressure callbacks, then asks for reports.
pub const PRESSURE: &str = "pressure";
/// With the name of a mark behind it: asks what the reporters said at this mark.
pub const AT: &str = "at ";

/// The socket of process `pid` of user `uid`, both as the program itself sees them. `root` is the
/// root folder as the program sees it: `/`, or `/proc/PID/root` for an asker outside its container.
pub fn socket_path(root: &Path, uid: u32, pid: u32) -> PathBuf {
    folder(root, uid).join(format!("reporters-{pid}"))
}

/// The folder of a user's sockets, which only this user may enter.
pub(crate) fn folder(root: &Path, uid: u32) -> PathBuf {
    let runtime = root.join(format!("run/user/{uid}"));
    match std::fs::symlink_metadata(&runtime) {
        Ok(found) if found.is_dir() && found.uid() == uid => runtime.join("heaplab"),
        _ => root.join(format!("tmp/heaplab-{uid}")),
    }
}
