//! A forked child has no server, and its parent's socket ends with the parent.

use heaplab_reporter::{REPORT, serve};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

#[test]
fn a_child_neither_serves_nor_takes_the_socket_along() {
    let serving = serve().unwrap();
    let path = serving.path().to_owned();
    assert!(serve().is_err(), "one server a process");
    // The test harness's own sockets are in both counts.
    let before = sockets(std::process::id());
    // SAFETY: the child makes only calls that are allowed after a fork of a process with threads:
    // it asks to end with its parent, and waits in the kernel.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            libc::pause();
            libc::_exit(0);
        }
    }
    let mut connection = UnixStream::connect(&path).unwrap();
    connection.write_all(format!("{REPORT}\n").as_bytes()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    assert!(answer.contains(&format!("(pid {})", std::process::id())), "{answer}");
    // The child closes its socket as soon as it runs, which a busy machine delays.
    let child_pid = u32::try_from(child).unwrap();
    let closed = (0..1_000).any(|_| {
        let is_closed = sockets(child_pid) + 1 == before;
        if !is_closed {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        is_closed
    });
    assert!(closed, "the child still listens");
    drop(connection);
    drop(serving);
    assert!(!path.exists());
    // SAFETY: our own child.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    drop(serve().unwrap());
}

/// Number of a process's open sockets.
fn sockets(pid: u32) -> usize {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let links = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
}
