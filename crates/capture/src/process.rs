//! The inspector of a Node process that is named by its pid.
//!
//! `SIGUSR1` makes Node listen on 127.0.0.1:9229, unless an option sets another address. Node fails
//! to listen if another Node has that port. So the port is read, not assumed: `/proc` tells on
//! which sockets the process listens and, before the signal, whether the port is free. The signal
//! ends a program that does not catch it, and may end or disturb a program that is not Node. Before
//! every signal the process must catch `SIGUSR1` and its executable must be Node ([`crate::node`]).
//! The signal goes to a descriptor of the process, so that another process that gets the same
//! number meanwhile does not receive it.
//!
//! Not recognised: a Node program that handles `SIGUSR1` itself (`process.on('SIGUSR1')`), against
//! the advice of Node's documentation.
//!
//! An open inspector lets any local program run code in the process: one that was opened here is
//! closed again.

use crate::address::DEFAULT_PORT;
use crate::{Address, CaptureError, Endpoint, Options, endpoint, node};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use std::collections::HashSet;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

/// Pause between two reads of the process's listening sockets.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// Between two signals.
const SIGNAL_AGAIN: Duration = Duration::from_secs(2);
/// The bit of `SIGUSR1` in the masks of `/proc/PID/status`.
const USR1_BIT: u64 = 1 << (10 - 1);
/// A listening socket's state in `/proc/PID/net/tcp`.
const LISTENING: &str = "0A";

/// Finds or starts the inspector of `pid`.
pub fn inspector(pid: u32, options: &Options) -> Result<Endpoint, CaptureError> {
    let target = Target::open(pid)?;
    target.must_be_node()?;
    if let Some(endpoint) = listening(pid, options)? {
        return Ok(endpoint);
    }
    target.must_wait_for_usr1()?;
    if let Some(taken) = taken_port(pid) {
        return Err(wrong(pid, &taken));
    }
    let until = Instant::now() + options.connect;
    let mut signal_at = Instant::now();
    while Instant::now() < until {
        // Send the signal again if the port does not appear: Node loses a signal that arrives while
        // it ends a session. A Node that listens already ignores the signal.
        if Instant::now() >= signal_at {
            target.must_be_node()?;
            target.must_wait_for_usr1()?;
            target.send_usr1()?;
            signal_at += SIGNAL_AGAIN;
        }
        std::thread::sleep(LOOK_AGAIN);
        if !fs::exists(format!("/proc/{pid}")).unwrap_or(false) {
            return Err(wrong(pid, "ended when it was asked to start its inspector"));
        }
        if let Some(endpoint) = listening(pid, options)? {
            return Ok(Endpoint { opened: Some(pid), ..endpoint });
        }
    }
    Err(wrong(
        pid,
        &format!(
            "was asked to start its inspector (SIGUSR1) and has not within {} s: its program handles SIGUSR1 itself, or its port is taken (it says so on its standard error), or it has not come to its event loop: start it with --inspect-port=0",
            options.connect.as_secs()
        ),
    ))
}

/// A process that may get a signal.
struct Target {
    pid: u32,
    number: Pid,
    /// None before Linux 5.3.
    descriptor: Option<OwnedFd>,
}

impl Target {
    fn open(pid: u32) -> Result<Target, CaptureError> {
        let number = i32::try_from(pid)
            .ok()
            .and_then(Pid::from_raw)
            .ok_or_else(|| wrong(pid, "is no process"))?;
        let target =
            Target { pid, number, descriptor: pidfd_open(number, PidfdFlags::empty()).ok() };
        target.status()?;
        Ok(target)
    }

    fn status(&self) -> Result<String, CaptureError> {
        fs::read_to_string(format!("/proc/{}/status", self.pid))
            .map_err(|error| wrong(self.pid, &explain(&error)))
    }

    fn must_be_node(&self) -> Result<(), CaptureError> {
        if node::is_node(self.pid).map_err(|error| wrong(self.pid, &explain(&error)))? {
            return Ok(());
        }
        let status = self.status()?;
        Err(wrong(
            self.pid,
            &node::refusal(self.pid, field(&status, "Name").unwrap_or("another program")),
        ))
    }

    fn must_wait_for_usr1(&self) -> Result<(), CaptureError> {
        let caught = field(&self.status()?, "SigCgt")
            .and_then(|mask| u64::from_str_radix(mask, 16).ok())
            .unwrap_or(0);
        if caught & USR1_BIT != 0 {
            return Ok(());
        }
        Err(wrong(
            self.pid,
            "is Node, but listens on no inspector and does not wait for SIGUSR1: it was started with --disable-sigusr1, was built without the inspector, or has only just begun; start it with --inspect",
        ))
    }

    fn send_usr1(&self) -> Result<(), CaptureError> {
        let sent = match &self.descriptor {
            Some(descriptor) => pidfd_send_signal(descriptor, Signal::USR1),
            None => kill_process(self.number, Signal::USR1),
        };
        sent.map_err(|error| wrong(self.pid, &explain(&error.into())))
    }
}

/// Why Node could not open its inspector: the port has an owner.
fn taken_port(pid: u32) -> Option<String> {
    let port = inspector_port(pid);
    let row = |line: &str| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let (_, local) = cells.get(1)?.split_once(':')?;
        let is_it = u16::from_str_radix(local, 16).ok()? == port && *cells.get(3)? == LISTENING;
        is_it.then(|| cells.get(9)?.parse::<u64>().ok()).flatten()
    };
    let tables = ["tcp", "tcp6"]
        .map(|table| fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default());
    let socket = tables.iter().flat_map(|table| table.lines().skip(1)).find_map(row)?;
    let pids = fs::read_dir("/proc")
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let owner = pids
        .into_iter()
        .find(|other| sockets(*other).is_ok_and(|sockets| sockets.contains(&socket)));
    let owner = owner.map_or("another program".to_owned(), |owner| {
        let name = fs::read_to_string(format!("/proc/{owner}/comm")).unwrap_or_default();
        format!("process {owner} ({})", name.trim_end())
    });
    Some(format!(
        "cannot open its inspector: port {port}, where that would listen, is taken by {owner}; end that one's, or start this one with --inspect-port=0"
    ))
}

/// The port on which Node would listen: the one in its command line or `NODE_OPTIONS`, or 9229.
/// Port 0 means any free port.
fn inspector_port(pid: u32) -> u16 {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let options = environment
        .split(|byte| *byte == 0)
        .find_map(|variable| variable.strip_prefix(b"NODE_OPTIONS="));
    let mut words: Vec<String> = String::from_utf8_lossy(options.unwrap_or_default())
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    words.extend(
        line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()),
    );
    let mut port = DEFAULT_PORT;
    for (at, word) in words.iter().enumerate() {
        let (option, value) =
            word.split_once('=').unwrap_or((word, words.get(at + 1).map_or("", String::as_str)));
        if matches!(option, "--inspect-port" | "--debug-port") {
            port = value.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or(port);
        }
    }
    port
}

/// Whether the process still listens as an inspector.
pub(crate) fn is_open(pid: u32, options: &Options) -> bool {
    matches!(listening(pid, options), Ok(Some(_)))
}

/// The inspector that the process already listens on.
fn listening(pid: u32, options: &Options) -> Result<Option<Endpoint>, CaptureError> {
    let sockets = sockets(pid).map_err(|error| wrong(pid, &explain(&error)))?;
    // A program's own server may listen too and answer anything or nothing: wait one second only.
    let quick = Options { connect: Duration::from_secs(1), ..*options };
    for (table, host) in [("tcp", "127.0.0.1"), ("tcp6", "::1")] {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        for (address, port) in text.lines().skip(1).filter_map(|line| listener(line, &sockets)) {
            let host = address.unwrap_or_else(|| host.to_string());
            let address = Address { host, port, path: String::new() };
            let Ok(pages) = endpoint::pages(&address, &quick) else { continue };
            if let Some(page) = pages.into_iter().find(|page| page.kind == "node")
                && let Some(found) =
                    page.socket.as_deref().and_then(|socket| Address::parse(socket).ok())
            {
                return Ok(Some(Endpoint {
                    address: Address { path: found.path, ..address },
                    title: page.title,
                    opened: None,
                }));
            }
        }
    }
    Ok(None)
}

/// The numbers of the sockets that the process holds.
fn sockets(pid: u32) -> io::Result<HashSet<u64>> {
    let links = fs::read_dir(format!("/proc/{pid}/fd"))?
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    Ok(links
        .filter_map(|link| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok())
        .collect())
}

/// The port in a row of `/proc/PID/net/tcp`, if the row listens and belongs to one of `sockets`.
/// Also the IPv4 address, unless the row listens on all addresses.
fn listener(line: &str, sockets: &HashSet<u64>) -> Option<(Option<String>, u16)> {
    let cells: Vec<&str> = line.split_whitespace().collect();
    let (address, port) = cells.get(1)?.split_once(':')?;
    if *cells.get(3)? != LISTENING || !sockets.contains(&cells.get(9)?.parse().ok()?) {
        return None;
    }
    let ipv4 =
        u32::from_str_radix(address, 16).ok().filter(|bits| address.len() == 8 && *bits != 0);
    let host = ipv4.map(|bits| std::net::Ipv4Addr::from(bits.to_ne_bytes()).to_string());
    Some((host, u16::from_str_radix(port, 16).ok()?))
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

fn wrong(pid: u32, why: &str) -> CaptureError {
    CaptureError::Process { pid, why: why.into() }
}

fn explain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is none (any more)".into(),
        io::ErrorKind::PermissionDenied => {
            "belongs to another user: run heaplab as that user or as root".into()
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    #[test]
    fn listeners_are_those_of_the_process() {
        let sockets = HashSet::from([4711]);
        let row = |local: &str, state: &str, inode: u32| {
            format!(
                "   0: {local} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000     0        0 {inode} 1 0000000000000000 100 0 0 10 0"
            )
        };
        assert_eq!(
            listener(&row("0100007F:240D", "0A", 4711), &sockets),
            Some((Some("127.0.0.1".into()), 9229))
        );
        assert_eq!(listener(&row("00000000:240D", "0A", 4711), &sockets), Some((None, 9229)));
        assert_eq!(
            listener(&row("00000000000000000000000001000000:240D", "0A", 4711), &sockets),
            Some((None, 9229))
        );
        assert_eq!(
            listener(&row("0100007F:240D", "01", 4711), &sockets),
            None,
            "connected, not listening"
        );
        assert_eq!(
            listener(&row("0100007F:240D", "0A", 4712), &sockets),
            None,
            "another process's"
        );
        assert_eq!(listener("  sl  local_address", &sockets), None);
    }

    /// Each of these programs catches SIGUSR1 or dies of it, and each shows that a signal came:
    /// bash ends, Python writes a file.
    #[test]
    fn a_process_that_is_not_node_gets_no_signal() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("came");
        let python = format!(
            "import signal, time\nsignal.signal(signal.SIGUSR1, lambda *_: open({mark:?}, 'w'))\nprint('ready', flush=True)\ntime.sleep(60)"
        );
        let programs: [(&str, Vec<&str>); 4] = [
            ("sleep", vec!["60"]),
            ("bash", vec!["--norc", "-i", "-c", "echo ready; sleep 60; :"]),
            (
                "bash",
                vec![
                    "-c",
                    "trap 'touch \"$0\"; exit' USR1; echo ready; sleep 60 & wait",
                    mark.to_str().unwrap(),
                ],
            ),
            ("python3", vec!["-c", &python]),
        ];
        for (program, arguments) in programs {
            if !heaplab_oracle::has(program) {
                continue;
            }
            let mut child =
                Command::new(program).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
            if program != "sleep" {
                let mut line = String::new();
                BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
                assert_eq!(line, "ready\n");
                let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
                let caught = u64::from_str_radix(field(&status, "SigCgt").unwrap(), 16).unwrap();
                assert_ne!(caught & USR1_BIT, 0, "{program} catches the signal");
            }
            let error = inspector(child.id(), &Options::default()).unwrap_err().to_string();
            let is_refused = error.starts_with(&format!("process {}: this is ", child.id()))
                && error.contains("not Node, so heaplab sends nothing to it");
            assert!(is_refused, "{error}");
            std::thread::sleep(Duration::from_millis(200));
            assert!(child.try_wait().unwrap().is_none(), "{program} runs on");
            assert!(!mark.exists(), "{program} got a signal");
            child.kill().unwrap();
            child.wait().unwrap();
            let error = inspector(child.id(), &Options::default()).unwrap_err().to_string();
            assert!(error.contains("there is none"), "{error}");
        }
    }
}
