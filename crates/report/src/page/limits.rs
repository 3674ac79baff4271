//! How much of everything a page holds. A page is read by a person and opened on a phone: what is
//! beyond these is summed up and said, never dropped in silence.

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
/// Moments at which a heap's pages are drawn.
pub const MOMENTS_OF_PAGES: usize = 24;
/// Pages of a heap that are drawn at all moments together, so that fewer moments of a large heap
/// are.
pub const PAGES_OF_MOMENTS: usize = 6_000;
/// Pages drawn of each space of a heap.
pub const MAPPED_PAGES: usize = 400;
/// Collections of each heap's curve.
pub const COLLECTION_POINTS: usize = 512;
/// Characters of a name (C++ names reach tens of thousands).
pub const NAME_CHARS: usize = 600;
