//! `cargo xtask bench snapshot-limits`: really passes DevTools' limits. A snapshot with more than
//! 2^29 characters of strings goes through `heaplab snapshot summary`, and one with more than 2^32
//! edge fields through reader and analysis. The exact content of both is known and compared.
//!
//! The second file would have 8.6 GB. Its rows repeat, so it is mapped instead of written: the same
//! 6 MB of memory stand at 1,366 consecutive addresses, and a reader of bytes sees no difference.
//! Its columns take 13 GB; if that much is not free, the command prints a line and leaves this part
//! out.

use anyhow::{Context, Result, ensure};
use heaplab_snapshot::analysis::{Analysis, Options};
use heaplab_snapshot::{ReadOptions, Snapshot};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Arguments of `cargo xtask bench snapshot-limits`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A release build of heaplab
    #[arg(long)]
    heaplab: PathBuf,
    /// Where the file of strings is written (0.7 GB) and removed again
    #[arg(long, default_value = "strings.heapsnapshot")]
    scratch: PathBuf,
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<()> {
    let checked =
        write_strings(&args.scratch).and_then(|()| check_strings(&args.heaplab, &args.scratch));
    std::fs::remove_file(&args.scratch).ok();
    checked?;
    let needed = 14 << 30;
    let free = super::measure::status_bytes("/proc/meminfo", "MemAvailable:")?;
    if free < needed {
        println!("edge fields: skipped, {needed} bytes of memory are needed and {free} free");
        return Ok(());
    }
    check_edges()
}

const META: &str = "{\"snapshot\":{\"meta\":{\"node_fields\":[\"type\",\"name\",\"id\",\"self_size\",\"edge_count\"],\
    \"node_types\":[[\"synthetic\",\"object\",\"string\"],\"string\",\"number\",\"number\",\"number\"],\
    \"edge_fields\":[\"type\",\"name_or_index\",\"to_node\"],\"edge_types\":[[\"property\",\"element\"],\"string_or_number\",\"node\"]}";

const STRINGS: u64 = 640;
const STRING_CHARACTERS: u64 = 1 << 20;

/// A root, and different strings of a million characters each.
fn write_strings(path: &Path) -> Result<()> {
    let mut out = BufWriter::with_capacity(
        1 << 20,
        File::create(path).with_context(|| path.display().to_string())?,
    );
    write!(
        out,
        "{META},\"node_count\":{},\"edge_count\":{STRINGS}}},\n\"nodes\":[0,0,1,0,{STRINGS}",
        STRINGS + 1
    )?;
    for string in 0..STRINGS {
        write!(out, ",2,{},{},{},0", string + 1, 2 * string + 3, STRING_CHARACTERS + 16)?;
    }
    write!(out, "],\n\"edges\":[")?;
    for string in 0..STRINGS {
        write!(out, "{}1,{string},{}", if string == 0 { "" } else { "," }, 5 * (string + 1))?;
    }
    write!(out, "],\n\"strings\":[\"(root)\"")?;
    let text = "characters, ".repeat(STRING_CHARACTERS as usize / 12 + 1);
    for string in 0..STRINGS {
        write!(out, ",\n\"{string:08}{}\"", &text[..STRING_CHARACTERS as usize - 8])?;
    }
    out.write_all(b"]}\n")?;
    Ok(out.flush()?)
}

fn check_strings(heaplab: &Path, path: &Path) -> Result<()> {
    let start = Instant::now();
    let output =
        Command::new(heaplab).args(["snapshot", "summary", "--json"]).arg(path).output()?;
    ensure!(
        output.status.success(),
        "heaplab snapshot summary: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let seconds = start.elapsed().as_secs_f64();
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let bytes = STRINGS * (STRING_CHARACTERS + 16);
    let classes = summary["classes"].as_array().context("`classes` in the summary")?;
    let strings =
        classes.iter().find(|class| class["name"] == "(string)").context("the class (string)")?;
    let found = [&summary["nodes"], &summary["edges"], &summary["total_bytes"], &strings["count"]]
        .map(|number| number.as_u64().unwrap_or(0));
    ensure!(
        found == [STRINGS + 1, STRINGS, bytes, STRINGS],
        "{found:?}, expected {} nodes, {STRINGS} edges, {bytes} bytes",
        STRINGS + 1
    );
    println!(
        "strings: {} characters ({:.2} times 2^29):\n  `heaplab snapshot summary` gives {STRINGS} strings and {bytes} bytes,\n  as they were written, in {seconds:.2} s",
        STRINGS * STRING_CHARACTERS,
        (STRINGS * STRING_CHARACTERS) as f64 / f64::from(1 << 29)
    );
    Ok(())
}

/// A row of six bytes: an element, to the root.
const ROW: &[u8] = b"1,0,0,";
const PIECE_BYTES: usize = 6 << 20;
const PIECES: u64 = 1366;
const ROWS: u64 = PIECES * (PIECE_BYTES / ROW.len()) as u64;

/// Consecutive bytes in memory, most of them the same physical ones.
struct Repeated {
    address: *mut libc::c_void,
    len: usize,
}

impl Repeated {
    /// `head` and `tail` once (filled with spaces at the head's end and before the tail), and
    /// `piece` `times` times between them.
    fn new(head: &[u8], piece: &[u8], times: usize, tail: &[u8]) -> Result<Repeated> {
        let page = 4096;
        ensure!(piece.len().is_multiple_of(page), "a piece of whole pages");
        let whole = |bytes: &[u8]| {
            let mut whole = bytes.to_vec();
            whole.resize(bytes.len().next_multiple_of(page), b' ');
            whole
        };
        let (head, tail) = (whole(head), whole(tail));
        let len = head.len() + times * piece.len() + tail.len();
        // SAFETY: reserves addresses that the kernel chooses.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        ensure!(
            address != libc::MAP_FAILED,
            "reserving {len} bytes: {}",
            std::io::Error::last_os_error()
        );
        let repeated = Repeated { address, len };
        let mut at = 0;
        for (bytes, times) in [(&head[..], 1), (piece, times), (&tail[..], 1)] {
            let file = memory_file(bytes)?;
            for _ in 0..times {
                // SAFETY: the place lies within the reservation, which nobody else knows yet; the
                // file has as many bytes.
                let mapped = unsafe {
                    let place = address.cast::<u8>().add(at).cast();
                    libc::mmap(
                        place,
                        bytes.len(),
                        libc::PROT_READ,
                        libc::MAP_SHARED | libc::MAP_FIXED,
                        file.as_raw_fd(),
                        0,
                    )
                };
                ensure!(
                    mapped != libc::MAP_FAILED,
                    "mapping a piece: {}",
                    std::io::Error::last_os_error()
                );
                at += bytes.len();
            }
        }
        Ok(repeated)
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: everything is mapped readable until this is dropped, and nobody writes to the
        // files behind it.
        unsafe { std::slice::from_raw_parts(self.address.cast(), self.len) }
    }
}

impl Drop for Repeated {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and borrows of it have ended.
        unsafe { libc::munmap(self.address, self.len) };
    }
}

/// A file in memory with those bytes.
fn memory_file(bytes: &[u8]) -> Result<File> {
    // SAFETY: the name ends in a zero; the descriptor is new and belongs to the file alone.
    let mut file = unsafe {
        let descriptor = libc::memfd_create(c"rows".as_ptr(), libc::MFD_CLOEXEC);
        ensure!(descriptor >= 0, "a file in memory: {}", std::io::Error::last_os_error());
        File::from_raw_fd(descriptor)
    };
    file.write_all(bytes)?;
    Ok(file)
}

/// A root; an object with more than 2^32 / 3 references to the root; and, at its very last edge, an
/// object that only this one reaches.
fn check_edges() -> Result<()> {
    let edges = ROWS + 2;
    let head = format!(
        "{META},\"node_count\":3,\"edge_count\":{edges}}},\n\"nodes\":[0,0,1,0,1, 1,1,3,100,{}, 1,2,5,1000,0],\n\"edges\":[1,0,5,",
        ROWS + 1
    );
    let piece = ROW.repeat(PIECE_BYTES / ROW.len());
    let file = Repeated::new(
        head.as_bytes(),
        &piece,
        PIECES as usize,
        b"0,3,10],\n\"strings\":[\"(root)\",\"Wide\",\"Last\",\"last\"]}",
    )?;
    let start = Instant::now();
    let snapshot = Snapshot::read_with(file.bytes(), &ReadOptions::default())?;
    let read_s = start.elapsed().as_secs_f64();
    let graph = &snapshot.graph;
    ensure!(graph.edge_count() as u64 == edges, "{} edges, expected {edges}", graph.edge_count());
    ensure!(
        graph.edges(1) == (1..edges as u32),
        "the edges of the wide object: {:?}",
        graph.edges(1)
    );
    let last = graph.edges(1).end - 1;
    ensure!(
        graph.target(last) == 2 && graph.target(last - 1) == 0,
        "the last edge leads to {}",
        graph.target(last)
    );
    ensure!(
        snapshot.strings.text(graph.edge_name(last)) == "last" && graph.source(last) == 1,
        "the last edge's name and source"
    );
    let analysis = Analysis::of(&snapshot, &Options::default());
    let answers = [1, 2].map(|node| {
        (analysis.dominator(node), analysis.retained_size(node), analysis.distance(node))
    });
    ensure!(
        answers == [(0, 1100, 1), (1, 1000, 2)],
        "dominator, retained size, distance: {answers:?}"
    );
    println!(
        "edge fields: {} ({:.3} times 2^32) in {} bytes:\n  {edges} edges, the last of them found and analysed,\n  read in {read_s:.1} s, all in {:.1} s",
        3 * edges,
        (3 * edges) as f64 / 4_294_967_296.0,
        file.len,
        start.elapsed().as_secs_f64()
    );
    Ok(())
}
