//! The layout that the recorded program and the drainer share, mirroring `c/layout.h`, which
//! describes the protocol as a whole.
//!
//! The header is the original and this file its copy, because the C object must build without Rust.
//! The test at the end compiles the header and compares every size, offset and constant. All
//! structs lie in mapped files that another process writes. Fields that change while both run are
//! atomics; readers must check every value before they believe it.

use std::sync::atomic::{AtomicU32, AtomicU64};

/// Version of this layout; a file of another version cannot be read.
pub const VERSION: u32 = 5;
/// First word of the control page.
pub const CONTROL_MAGIC: u64 = 0x3130_4c52_5443_4c48;
/// First word of a process file.
pub const PROCESS_MAGIC: u64 = 0x3130_434f_5250_4c48;
/// First word of a ring's header.
pub const RING_MAGIC: u64 = 0x3130_474e_4952_4c48;

/// [`Control::state`]: recording.
pub const CONTROL_RECORDING: u32 = 1;
/// [`Control::state`]: processes cut their recording at their next wait.
pub const CONTROL_STOPPED: u32 = 2;
/// [`Control::flags`]: processes note their memory at exit().
pub const CONTROL_MEMORY: u32 = 1;
/// [`Control::flags`]: stacks have Python's frames.
pub const CONTROL_PYTHON: u32 = 2;
/// [`Control::flags`]: also has all native frames of the interpreter between Python's.
pub const CONTROL_INTERPRETER: u32 = 4;
/// [`Control::flags`]: processes write [`REPORT`].
pub const CONTROL_REPORTS: u32 = 8;
/// Largest [`Control::stack_depth`].
pub const STACK_DEPTH_MAX: u32 = 1024;

/// The control page, written by the drainer before the target starts. The drainer holds an
/// open-file-description write lock on the whole file while it lives.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Control {
    /// [`CONTROL_MAGIC`], stored last.
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: u32,
    /// `CONTROL_...`.
    pub state: AtomicU32,
    /// Innermost frames wanted of each stack; 0: none.
    pub stack_depth: u32,
    /// Bytes of a ring's data: a power of two, at least 64 KiB.
    pub ring_bytes: u32,
    /// Bytes of a nested ring's data: a power of two, at least the page size.
    pub nested_bytes: u32,
    /// A signal that sets a mark; 0: none.
    pub mark_signal: u32,
    /// The drainer's process number.
    pub drainer_pid: u32,
    /// [`CONTROL_MEMORY`], [`CONTROL_PYTHON`], [`CONTROL_INTERPRETER`], [`CONTROL_REPORTS`].
    pub flags: AtomicU32,
    /// Time stamp counter at the start of the recording.
    pub origin_counter: u64,
    /// CLOCK_MONOTONIC at that moment, ns.
    pub origin_ns: u64,
    /// The counter later; 0: not yet.
    pub end_counter: AtomicU64,
    /// CLOCK_MONOTONIC at that moment, ns.
    pub end_ns: AtomicU64,
    /// `ring_bytes` of each process's first ring, as a rule its main thread's.
    pub first_ring_bytes: u32,
    /// Unused.
    pub unused0: [u32; 13],
    /// Files made by targets so far.
    pub announced: AtomicU64,
    /// Processes that could not record.
    pub refused: AtomicU32,
    /// The last process that could not record.
    pub refused_pid: AtomicU32,
    /// Its errno.
    pub refused_errno: AtomicU32,
    /// The step that failed: `STEP_...`.
    pub refused_step: AtomicU32,
    /// Unused.
    pub unused1: [u64; 5],
}

/// [`Control::refused_step`]: making the process file.
pub const STEP_PROCESS_FILE: u32 = 1;
/// [`Control::refused_step`]: making a ring file.
pub const STEP_RING_FILE: u32 = 3;
/// [`Control::refused_step`]: mapping memory.
pub const STEP_MAP: u32 = 4;
/// [`Control::refused_step`]: any step, for a child of [`Control::refused_pid`], which is in a
/// sandbox.
pub const STEP_SANDBOX: u32 = 5;

/// [`ProcessHeader::began`]: the first image of its process.
pub const BEGAN_STARTED: u32 = 1;
/// [`ProcessHeader::began`]: a copy of image `parent_pid`-`parent_seq`.
pub const BEGAN_FORK: u32 = 2;
/// [`ProcessHeader::began`]: follows image `pid`-(`seq` - 1) in the same process.
pub const BEGAN_EXEC: u32 = 3;

/// [`ProcessHeader::state`]: recording.
pub const PROCESS_RECORDING: u32 = 1;
/// [`ProcessHeader::state`]: recording stopped early.
pub const PROCESS_CUT: u32 = 2;

/// [`ProcessHeader::cut_reason`]: a waiting thread found the drainer dead.
pub const CUT_DRAINER_DEAD: u32 = 1;
/// [`ProcessHeader::cut_reason`]: [`CONTROL_STOPPED`].
pub const CUT_STOPPED: u32 = 2;
/// [`ProcessHeader::cut_reason`]: the disk is full, and a ring's file got no more memory.
pub const CUT_NO_SPACE: u32 = 3;
/// [`ProcessHeader::cut_reason`]: the drainer cannot read the image's files (`PID-SEQ.unread`).
pub const CUT_UNREAD: u32 = 4;
/// [`ProcessHeader::cut_reason`]: the program has forbidden itself to read the counter (seccomp's
/// strict mode, `PR_SET_TSC`).
pub const CUT_TIMELESS: u32 = 5;
/// [`ProcessHeader::cut_reason`]: [`ProcessHeader::left`].
pub const CUT_LEFT: u32 = 6;

/// [`ProcessHeader::architecture`]: x86-64.
pub const X86_64: u32 = 1;
/// [`ProcessHeader::architecture`]: aarch64.
pub const AARCH64: u32 = 2;

/// [`ProcessHeader::lost`]: events, the nested ring was full.
pub const LOST_NESTED_FULL: usize = 0;
/// [`ProcessHeader::lost`]: events inside an event inside an event.
pub const LOST_NESTED_DEEPER: usize = 1;
/// [`ProcessHeader::lost`]: events, no ring could be made for the thread.
pub const LOST_NO_RING: usize = 2;
/// [`ProcessHeader::lost`]: module records, the record area is full.
pub const LOST_RECORDS_FULL: usize = 4;
/// [`ProcessHeader::lost`]: stacks cut short, because the bounds of the stack's memory are unknown.
pub const LOST_STACK_BOUNDS: usize = 5;
/// [`ProcessHeader::lost`]: marks whose name was cut at [`MARK_BYTES_MAX`].
pub const LOST_MARK_LONG: usize = 6;
/// [`ProcessHeader::lost`]: stacks of events in a nested ring; the events are there.
pub const LOST_NESTED_STACK: usize = 7;
/// [`ProcessHeader::lost`]: events of threads that began in a sandbox, where no ring can be made.
pub const LOST_IN_SANDBOX: usize = 8;
/// Number of slots in [`ProcessHeader::lost`].
pub const LOST_REASONS: usize = 16;

/// The head of `PID-SEQ.process`, one a process image.
#[repr(C)]
#[derive(Debug, Default)]
pub struct ProcessHeader {
    /// [`PROCESS_MAGIC`], stored last.
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: u32,
    /// Process number.
    pub pid: u32,
    /// Counts the images of one process number.
    pub seq: u32,
    /// Process number of its parent when the image began.
    pub ppid: u32,
    /// `BEGAN_...`.
    pub began: u32,
    /// After a fork: process number of the copied process.
    pub parent_pid: u32,
    /// After a fork: the copied image's `seq`.
    pub parent_seq: u32,
    /// [`X86_64`] or [`AARCH64`].
    pub architecture: u32,
    /// Start of the process, in the kernel's ticks; 0: unknown.
    pub start_ticks: u64,
    /// Counter at the image's start.
    pub begin_counter: u64,
    /// `PROCESS_...`.
    pub state: AtomicU32,
    /// `CUT_...`, stored before `state`.
    pub cut_reason: AtomicU32,
    /// Counter at the cut.
    pub cut_counter: AtomicU64,
    /// 1 after a call of exit() or _exit(); events may still follow.
    pub exited: AtomicU32,
    /// Status passed to exit() or _exit().
    pub exit_status: AtomicU32,
    /// Counter at the exit.
    pub exit_counter: AtomicU64,
    /// Rings made so far; the first one is always there.
    pub ring_count: AtomicU32,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Offset of the records in this file; the second area takes the records that do not fit.
    pub records_offset: u64,
    /// Bytes of room for records.
    pub records_capacity: u64,
    /// Bytes of records published.
    pub records_used: AtomicU64,
    /// Counts of missing things, by reason: `LOST_...`.
    pub lost: [AtomicU64; LOST_REASONS],
    /// Resident bytes at exit(); 0: unknown, also in the next two.
    pub exit_resident_bytes: AtomicU64,
    /// Resident anonymous bytes at exit().
    pub exit_anonymous_bytes: AtomicU64,
    /// Peak of resident bytes until exit(), as the kernel counts it.
    pub exit_resident_peak_bytes: AtomicU64,
    /// Offset of the second area of records in this file. Once one record lies there, all later
    /// ones do.
    pub more_offset: u64,
    /// Bytes of room for records in the second area.
    pub more_capacity: u64,
    /// Bytes of records published in the second area.
    pub more_used: AtomicU64,
    /// 1: the drainer has stopped reading, because it takes the image for ended.
    pub left: AtomicU32,
    /// Unused.
    pub unused0: [u32; 5],
    /// The process's ring 0; its offsets count from the start of this file.
    pub first_ring: RingHeader,
}

/// The head of each record in a process file.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Record {
    /// `RECORD_...`.
    pub kind: u32,
    /// Bytes of the whole record, a multiple of 8.
    pub bytes: u32,
    /// Counter of the record.
    pub counter: u64,
}

/// [`Record::kind`]: [`Text`], the executable's path.
pub const RECORD_EXECUTABLE: u32 = 1;
/// [`Record::kind`]: [`Text`], the arguments, each ended by a zero byte.
pub const RECORD_COMMAND_LINE: u32 = 2;
/// [`Record::kind`]: [`Module`].
pub const RECORD_MODULE: u32 = 3;
/// [`Record::kind`]: [`Unloaded`].
pub const RECORD_MODULE_UNLOADED: u32 = 4;
/// [`Record::kind`]: [`Code`].
pub const RECORD_CODE: u32 = 5;
/// [`Record::kind`]: [`Python`].
pub const RECORD_PYTHON: u32 = 6;

/// A code object of Python; its qualified name and its file follow.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Code {
    /// The record's head.
    pub head: Record,
    /// Counts from 1 in each process image.
    pub number: u32,
    /// The code's first line.
    pub line: u32,
    /// Bytes of the qualified name that follow.
    pub name_bytes: u32,
    /// Bytes of the file's name that follow the name.
    pub file_bytes: u32,
}

/// The fate of Python's frames in an image.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Python {
    /// The record's head.
    pub head: Record,
    /// `PYTHON_...`.
    pub verdict: u32,
    /// 0x030b0200: 3.11.2.
    pub version: u32,
}

/// [`Python::verdict`]: stacks have its frames.
pub const PYTHON_READ: u32 = 1;
/// [`Python::verdict`]: the recorder does not know this version.
pub const PYTHON_VERSION: u32 = 2;
/// [`Python::verdict`]: the interpreter exports too few symbols.
pub const PYTHON_SYMBOLS: u32 = 3;
/// [`Python::verdict`]: frames do not look like those of this version.
pub const PYTHON_LAYOUT: u32 = 4;
/// [`Python::verdict`]: another implementation of Python.
pub const PYTHON_NOT_CPYTHON: u32 = 5;

/// Marks a node's address as a Python frame: the line in the low bits, the code's number above.
pub const PYTHON_FRAME: u64 = 0x8000_0000_0000_0000;
/// Bits of the line; the number has as many.
pub const PYTHON_LINE_BITS: u32 = 24;

/// A text; `text_bytes` follow.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Text {
    /// The record's head.
    pub head: Record,
    /// Bytes that follow.
    pub text_bytes: u32,
    /// Unused.
    pub unused: u32,
}

/// A file mapped at `[start, end)` from this record's counter on; build id and path follow.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Module {
    /// The record's head.
    pub head: Record,
    /// Address in memory less virtual address in the file.
    pub bias: u64,
    /// Start of the first segment in memory.
    pub start: u64,
    /// End of the last segment in memory.
    pub end: u64,
    /// Counts modules of the process from 0.
    pub index: u32,
    /// Bytes of build id that follow.
    pub build_id_bytes: u32,
    /// Bytes of path that follow the build id.
    pub path_bytes: u32,
    /// Unused.
    pub unused: u32,
}

/// A module went away.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Unloaded {
    /// The record's head.
    pub head: Record,
    /// [`Module::index`] of the module.
    pub index: u32,
    /// Unused.
    pub unused: u32,
}

/// [`RingHeader::state`]: no thread has it.
pub const RING_FREE: u32 = 0;
/// [`RingHeader::state`]: `tid` has it.
pub const RING_IN_USE: u32 = 1;

/// An atomic position on a cache line of its own.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Position {
    /// 64-bit words since the ring was made.
    pub words: AtomicU64,
    /// Unused.
    pub unused: [u64; 7],
}

/// The head of `PID-SEQ-N.ring`, and of the first ring in its process's file.
#[repr(C)]
#[derive(Debug, Default)]
pub struct RingHeader {
    /// [`RING_MAGIC`], stored last.
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: u32,
    /// N in the file's name.
    pub number: u32,
    /// PID in the file's name.
    pub pid: u32,
    /// SEQ in the file's name.
    pub seq: u32,
    /// Offset of the data in the file.
    pub data_offset: u64,
    /// Bytes of data, a power of two.
    pub data_bytes: u64,
    /// Offset of the nested ring's data in the file.
    pub nested_offset: u64,
    /// Bytes of the nested ring's data, a power of two.
    pub nested_bytes: u64,
    /// Unused.
    pub unused0: u64,
    /// `RING_...`.
    pub state: AtomicU32,
    /// The thread that has the ring, or had it last.
    pub tid: AtomicU32,
    /// Unused.
    pub unused1: [u64; 7],
    /// Words written; the producer's.
    pub head: Position,
    /// Words read; the consumer's.
    pub tail: Position,
    /// The nested ring's words written.
    pub nested_head: Position,
    /// The nested ring's words read.
    pub nested_tail: Position,
}

/// 4 words: stamp, block, size, node and slack.
pub const ALLOC: u8 = 1;
/// 4 words, as [`ALLOC`] with address 0.
pub const ALLOC_FAILED: u8 = 2;
/// 2 words: stamp, block.
pub const FREE: u8 = 3;
/// 6 words: stamp before, new block, size, node and slack, old block, counter after.
pub const REALLOC: u8 = 4;
/// 6 words, as [`REALLOC`] with a new address of 0; the old block lives on.
pub const REALLOC_FAILED: u8 = 5;
/// 2 words: stamp, block whose usable size the program asked for.
pub const USABLE_SIZE: u8 = 6;
/// 4 words: stamp, tid, 16 bytes of name ended by zero.
pub const THREAD_BEGIN: u8 = 7;
/// 4 words, as [`THREAD_BEGIN`], with the name the thread has now.
pub const THREAD_END: u8 = 8;
/// 2 + n words: stamp, bytes of name, name padded with zeros to whole words.
pub const MARK: u8 = 9;
/// Longest name of a mark.
pub const MARK_BYTES_MAX: u64 = 256;
/// 3 words: stamp, return address, node and its caller's node. Defines the node's number in this
/// ring from here on.
pub const NODE: u8 = 10;
/// 1 word: only a stamp. Fills the end of a ring's data if the next records would not fit in one
/// piece.
pub const PAD: u8 = 11;
/// 4 words: stamp, address and owner, bytes, node: the range is mapped.
pub const MAP: u8 = 12;
/// 3 words: stamp (before), address, bytes: the range is mapped no more.
pub const UNMAP: u8 = 13;
/// 3 words: stamp, address, node and [`REPORT_INSIDE`]: a memory reporter names a block.
pub const REPORT: u8 = 14;
/// Above the node of [`REPORT`]: the address lies somewhere in the block.
pub const REPORT_INSIDE: u32 = 1;
/// Shift of [`MAP`]'s owner above the address.
pub const MAP_OWNER_SHIFT: u32 = 52;
/// The program mapped the range.
pub const MAP_PROGRAM: u32 = 0;
/// The allocator mapped it.
pub const MAP_ALLOCATOR: u32 = 1;
/// Node numbers are below this.
pub const NODES_MAX: u32 = 1 << 20;
/// Bits of the counter that a stamp keeps.
pub const COUNTER_BITS: u32 = 60;
/// Bits of an address that a block word keeps.
pub const ADDRESS_BITS: u32 = 52;
/// Shift of log2 of the alignment (6 bits) in a block word.
pub const ALIGN_SHIFT: u32 = 52;
/// Shift of "zeroed" in a block word.
pub const ZEROED_SHIFT: u32 = 58;
/// Shift of the family in a block word (2 bits).
pub const FAMILY_SHIFT: u32 = 59;
/// Family: malloc.
pub const FAMILY_MALLOC: u32 = 0;
/// Family: aligned_alloc and its kin.
pub const FAMILY_ALIGNED: u32 = 1;
/// Family: operator new of an allocator that brings its own.
pub const FAMILY_NEW: u32 = 2;
/// Slack that is unknown or does not fit.
pub const SLACK_UNKNOWN: u32 = u32::MAX;

/// Kind and counter in a record's first word.
pub const fn stamp(word: u64) -> (u8, u64) {
    ((word & 15) as u8, word >> 4)
}

/// Words of a record of this kind, given its second word (used by [`MARK`] only); `None`: no
/// record.
pub const fn record_words(kind: u8, second: u64) -> Option<u64> {
    match kind {
        ALLOC | ALLOC_FAILED | THREAD_BEGIN | THREAD_END | MAP => Some(4),
        PAD => Some(1),
        FREE | USABLE_SIZE => Some(2),
        NODE | UNMAP | REPORT => Some(3),
        REALLOC | REALLOC_FAILED => Some(6),
        MARK if second <= MARK_BYTES_MAX => Some(2 + second.div_ceil(8)),
        _ => None,
    }
}

/// The fields of a block word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The block's address.
    pub address: u64,
    /// log2 of the requested alignment; 0: none.
    pub align_log2: u8,
    /// Whether the program asked for zeroed memory.
    pub zeroed: bool,
    /// `FAMILY_...`.
    pub family: u8,
}

impl Block {
    /// Splits a block word.
    pub const fn from_word(word: u64) -> Block {
        Block {
            address: word & ((1 << ADDRESS_BITS) - 1),
            align_log2: (word >> ALIGN_SHIFT & 63) as u8,
            zeroed: word >> ZEROED_SHIFT & 1 != 0,
            family: (word >> FAMILY_SHIFT & 3) as u8,
        }
    }
}

/// Splits a [`NODE`]'s last word into node and caller's node.
pub const fn node_and_parent(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

/// Splits a word into node and slack (usable size less size; `None`: unknown).
pub const fn node_and_slack(word: u64) -> (u32, Option<u32>) {
    let slack = (word >> 32) as u32;
    (word as u32, if slack == SLACK_UNKNOWN { None } else { Some(slack) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    /// Every size, offset and constant as (C expression, Rust value).
    fn expected() -> Vec<(String, u64)> {
        let mut all = Vec::new();
        macro_rules! structure {
            ($c:literal, $rust:ty, $($c_field:literal = $field:ident $(. $inner:ident)?),* $(,)?) => {
                all.push((format!("sizeof(struct {})", $c), size_of::<$rust>() as u64));
                $(all.push((format!("offsetof(struct {}, {})", $c, $c_field), offset_of!($rust, $field $(. $inner)?) as u64));)*
            };
        }
        macro_rules! same_names { ($c:literal, $rust:ty, $($field:ident),* $(,)?) => {
            all.push((format!("sizeof(struct {})", $c), size_of::<$rust>() as u64));
            $(all.push((format!("offsetof(struct {}, {})", $c, stringify!($field)), offset_of!($rust, $field) as u64));)*
        }; }
        macro_rules! constants { ($($name:ident),* $(,)?) => {
            $(all.push((concat!("HL_", stringify!($name)).to_string(), $name as u64));)*
        }; }
        #[rustfmt::skip]
        same_names!("hl_control", Control, magic, version, state, stack_depth, ring_bytes, nested_bytes, mark_signal, drainer_pid,
            flags, origin_counter, origin_ns, end_counter, end_ns, first_ring_bytes, announced, refused, refused_pid, refused_errno, refused_step);
        #[rustfmt::skip]
        same_names!("hl_process", ProcessHeader, magic, version, pid, seq, ppid, began, parent_pid, parent_seq, architecture,
            start_ticks, begin_counter, state, cut_reason, cut_counter, exited, exit_status, exit_counter, ring_count,
            page_bytes, records_offset, records_capacity, records_used, lost, exit_resident_bytes, exit_anonymous_bytes,
            exit_resident_peak_bytes, more_offset, more_capacity, more_used, left, first_ring);
        same_names!("hl_record", Record, kind, bytes, counter);
        same_names!("hl_text", Text, head, text_bytes);
        same_names!("hl_module", Module, head, bias, start, end, index, build_id_bytes, path_bytes);
        same_names!("hl_unloaded", Unloaded, head, index);
        same_names!("hl_code", Code, head, number, line, name_bytes, file_bytes);
        same_names!("hl_python", Python, head, verdict, version);
        #[rustfmt::skip]
        structure!("hl_ring", RingHeader, "magic" = magic, "version" = version, "number" = number, "pid" = pid, "seq" = seq,
            "data_offset" = data_offset, "data_bytes" = data_bytes, "nested_offset" = nested_offset, "nested_bytes" = nested_bytes,
            "state" = state, "tid" = tid, "head" = head.words, "tail" = tail.words, "nested_head" = nested_head.words,
            "nested_tail" = nested_tail.words);
        #[rustfmt::skip]
        constants!(VERSION, CONTROL_MAGIC, PROCESS_MAGIC, RING_MAGIC, CONTROL_RECORDING, CONTROL_STOPPED, CONTROL_MEMORY, CONTROL_PYTHON, CONTROL_INTERPRETER, CONTROL_REPORTS, STACK_DEPTH_MAX,
            STEP_PROCESS_FILE, STEP_RING_FILE, STEP_MAP, STEP_SANDBOX, BEGAN_STARTED, BEGAN_FORK, BEGAN_EXEC,
            PROCESS_RECORDING, PROCESS_CUT, CUT_DRAINER_DEAD, CUT_STOPPED, CUT_NO_SPACE, CUT_UNREAD, CUT_TIMELESS, CUT_LEFT, X86_64, AARCH64, LOST_NESTED_FULL,
            LOST_NESTED_DEEPER, LOST_NO_RING, LOST_RECORDS_FULL, LOST_STACK_BOUNDS, LOST_MARK_LONG, LOST_NESTED_STACK, LOST_IN_SANDBOX,
            LOST_REASONS, RECORD_EXECUTABLE, RECORD_COMMAND_LINE, RECORD_MODULE, RECORD_MODULE_UNLOADED, RECORD_CODE, RECORD_PYTHON, PYTHON_READ,
            PYTHON_VERSION, PYTHON_SYMBOLS, PYTHON_LAYOUT, PYTHON_NOT_CPYTHON, PYTHON_FRAME, PYTHON_LINE_BITS, RING_FREE,
            RING_IN_USE, ALLOC, ALLOC_FAILED, FREE, REALLOC, REALLOC_FAILED, USABLE_SIZE, THREAD_BEGIN, THREAD_END, MARK,
            MARK_BYTES_MAX, NODE, PAD, NODES_MAX, COUNTER_BITS, ADDRESS_BITS, ALIGN_SHIFT, ZEROED_SHIFT, FAMILY_SHIFT, FAMILY_MALLOC,
            FAMILY_ALIGNED, FAMILY_NEW, SLACK_UNKNOWN, MAP, UNMAP, MAP_OWNER_SHIFT, MAP_PROGRAM, MAP_ALLOCATOR, REPORT, REPORT_INSIDE);
        all
    }

    /// Compiles assertions about the header with the C compiler that builds the preload object.
    #[test]
    fn the_header_and_this_file_agree() {
        let asserts: String = expected()
            .iter()
            .map(|(c, value)| format!("_Static_assert((uint64_t)({c}) == {value}ull, \"{c}\");\n"))
            .collect();
        let source = std::path::Path::new(env!("OUT_DIR")).join("layout_agrees.c");
        std::fs::write(&source, format!("#include <stddef.h>\n#include \"layout.h\"\n{asserts}"))
            .unwrap();
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        let header = concat!(env!("CARGO_MANIFEST_DIR"), "/c");
        let run = std::process::Command::new(compiler)
            .args(["-fsyntax-only", "-I", header])
            .arg(&source)
            .output()
            .unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    }

    #[test]
    fn words_are_taken_apart() {
        assert_eq!(stamp(0x123 << 4 | 3), (FREE, 0x123));
        let word = 0x7f00_1234_5670 | 6 << ALIGN_SHIFT | 1 << ZEROED_SHIFT | 1 << FAMILY_SHIFT;
        assert_eq!(
            Block::from_word(word),
            Block { address: 0x7f00_1234_5670, align_log2: 6, zeroed: true, family: 1 }
        );
        assert_eq!(node_and_slack(7 | 8 << 32), (7, Some(8)));
        assert_eq!(node_and_slack(7 | u64::from(SLACK_UNKNOWN) << 32), (7, None));
        assert_eq!(node_and_parent(7 | 8 << 32), (7, 8));
        assert_eq!(record_words(MARK, 9), Some(4));
        assert_eq!(record_words(MARK, 257), None);
        assert_eq!(record_words(0, 0), None);
    }
}
