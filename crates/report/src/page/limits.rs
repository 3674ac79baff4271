//! Limits of a page. A person reads it, perhaps on a phone. Rows beyond a limit are summed up and
//! counted, never dropped in silence.

/// Steps of the timeline.
pub const TIMELINE_POINTS: usize = 2048;
/// Samples of resident memory.
pub const SAMPLES: usize = 2048;
/// Readings of the parts of resident memory.
pub const READINGS: usize = 256;
/// Parts of resident memory at the largest reading.
pub const RESIDENT_PARTS: usize = 200;
/// Named moments.
pub const MARKS: usize = 200;
/// Rows of each counts table.
pub const COUNT_ROWS: usize = 300;
/// Size classes of each allocator.
pub const SLOP_CLASSES: usize = 100;
/// Nodes of the flame graph.
pub const FLAME_NODES: usize = 12_000;
/// Most characters of the flame graph, names included; with more, it gets half as many nodes.
pub const FLAME_CHARS: usize = 900_000;
/// Nodes that no length of names takes away.
pub const FLAME_NODES_LEAST: usize = 750;
/// Levels of the flame graph.
pub const FLAME_DEPTH: usize = 512;
/// Chosen moments with a column of the flame graph.
pub const MOMENTS: usize = 8;
/// Processes.
pub const PROCESSES: usize = 200;
/// JVMs whose metaspaces are shown.
pub const METASPACES: usize = 24;
/// Threads.
pub const THREADS: usize = 200;
/// Findings.
pub const FINDINGS: usize = 200;
/// Stacks live at the end.
pub const LIVE_STACKS: usize = 200;
/// Frames of a stack in a table.
pub const STACK_FRAMES: usize = 128;
/// Points of each heap's curve of resident bytes.
pub const CURVE_POINTS: usize = 256;
/// Cells of a page's strip in a picture of a heap.
pub const STRIP_CELLS: usize = 128;
/// Pages of a heap that are drawn at all moments together, so that fewer moments of a large heap
/// are.
pub const PAGES_OF_MOMENTS: usize = 6_000;
/// Pages drawn of each space of a heap.
pub const MAPPED_PAGES: usize = 400;
/// Collections of each heap's curve.
pub const COLLECTION_POINTS: usize = 512;
/// Characters of a name (C++ names reach tens of thousands).
pub const NAME_CHARS: usize = 600;
/// Steps in which lives are counted, so that a range can be chosen.
pub const RANGE_STEPS: usize = 512;
/// Characters of the packed numbers of ranges; with more, steps are merged.
pub const RANGES_CHARS: usize = 480_000;
/// Steps that are not merged further.
pub const RANGE_STEPS_LEAST: usize = 16;
/// Rows of each counts table that have their own numbers for ranges.
pub const RANGE_SIZES: usize = 100;
/// Threads that have their own numbers for ranges.
pub const RANGE_THREADS: usize = 48;
/// Places with lines of their source.
pub const SOURCES: usize = 400;
/// Characters of all these lines.
pub const SOURCE_CHARS: usize = 300_000;
/// A longer file is not read.
pub const SOURCE_FILE_BYTES: u64 = 8 << 20;
/// Lines before and behind the line of a place.
pub const SOURCE_LINES_AROUND: usize = 4;
/// Characters of a line.
pub const SOURCE_LINE_CHARS: usize = 240;
