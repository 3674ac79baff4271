//! The columns of each table, and the conversion between the rows of [`Tables`] and these columns.
//!
//! References between tables are checked here: a parent is a smaller row, every other reference
//! exists.

use super::resident_codec;
use super::tables_file::{Rows, write};
use crate::TraceError;
use crate::parquet::schema::{Column, Encoding::*, Kind::*};
use crate::parquet::table::Value;
use crate::tables::{
    Arena, Began, ChunkEvent, Ended, Frame, Mark, Module, OpName, Process, Sample, StackNode,
    Tables, Thread,
};
use std::path::Path;

const STACKS: [Column; 3] = [
    Column::required("id", U32, Delta),
    Column::required("parent", U32, Delta),
    Column::required("frame", U32, Delta),
];

const FRAMES: [Column; 7] = [
    Column::required("id", U32, Delta),
    Column::optional("module", U32, Dictionary),
    Column::required("address", U64, Delta),
    Column::optional("function", Text, Dictionary),
    Column::optional("file", Text, Dictionary),
    Column::optional("line", U32, Dictionary),
    Column::optional("inlined_into", U32, Delta),
];

const MODULES: [Column; 8] = [
    Column::required("id", U32, Delta),
    Column::required("path", Text, Dictionary),
    Column::optional("build_id", Text, Dictionary),
    Column::required("process", U32, Dictionary),
    Column::required("bias", U64, Delta),
    Column::required("size", U64, Delta),
    Column::required("loaded_ns", I64, Delta),
    Column::optional("unloaded_ns", I64, Delta),
];

const PROCESSES: [Column; 11] = [
    Column::required("id", U32, Delta),
    Column::required("pid", U32, Delta),
    Column::optional("parent", U32, Delta),
    Column::required("executable", Text, Dictionary),
    Column::required("arguments", Text, Dictionary),
    Column::required("began", Text, Dictionary),
    Column::required("began_ns", I64, Delta),
    Column::required("ended", Text, Dictionary),
    Column::optional("ended_status", I32, Dictionary),
    Column::optional("ended_ns", I64, Delta),
    Column::optional("refused", Text, Dictionary),
];

const THREADS: [Column; 4] = [
    Column::required("id", U32, Delta),
    Column::required("process", U32, Dictionary),
    Column::required("tid", U32, Delta),
    Column::required("name", Text, Dictionary),
];

const ARENAS: [Column; 5] = [
    Column::required("id", U32, Delta),
    Column::required("kind", Text, Dictionary),
    Column::optional("partner", U32, Delta),
    Column::required("loader", Text, Dictionary),
    Column::required("growth_policy", Text, Dictionary),
];

const MARKS: [Column; 4] = [
    Column::required("id", U32, Delta),
    Column::required("name", Text, Dictionary),
    Column::required("time_ns", I64, Delta),
    Column::optional("process", U32, Dictionary),
];

const SAMPLES: [Column; 6] = [
    Column::required("time_ns", I64, Delta),
    Column::required("process", U32, Dictionary),
    Column::required("resident_bytes", U64, Delta),
    Column::required("resident_anonymous_bytes", U64, Delta),
    Column::optional("committed_bytes", U64, Delta),
    // Older bundles lack the column.
    Column::optional("resident_peak_bytes", U64, Delta),
];

const CHUNKS: [Column; 7] = [
    Column::required("op", Text, Dictionary),
    Column::required("row", U64, Delta),
    Column::required("time_ns", I64, Delta),
    Column::required("address", U64, Delta),
    Column::required("bytes", U64, Dictionary),
    Column::required("arena", U32, Delta),
    Column::optional("process", U32, Dictionary),
];

/// Present only in a recording with chunks, so that bundles of 0.1.0 stay readable.
const CHUNKS_FILE: &str = "chunks.parquet";

const U32_LIMIT: u64 = 1 << 32;
const TIME_LIMIT: u64 = 1 << 63;
const ANY: u64 = u64::MAX;

/// The files of the tables, in this module's order.
pub const FILES: [&str; 8] = {
    let [_, _, tables @ ..] = super::FILES;
    tables
};

/// Writes all tables into `folder`.
pub fn write_all(folder: &Path, tables: &Tables) -> Result<(), TraceError> {
    let id = |row: usize| Value::Number(row as u64);
    let stack = |row: usize, column| match (column, tables.stacks[row]) {
        (0, _) => id(row),
        (1, node) => node.parent.into(),
        (_, node) => node.frame.into(),
    };
    write(&folder.join(FILES[0]), &STACKS, tables.stacks.len(), stack)?;
    write_frames(&folder.join(FILES[1]), &tables.frames)?;
    write(&folder.join(FILES[2]), &MODULES, tables.modules.len(), |row, column| {
        module_value(row, &tables.modules[row], column)
    })?;
    write(&folder.join(FILES[3]), &PROCESSES, tables.processes.len(), |row, column| {
        process_value(row, &tables.processes[row], column)
    })?;
    write(&folder.join(FILES[4]), &THREADS, tables.threads.len(), |row, column| {
        match (column, &tables.threads[row]) {
            (0, _) => id(row),
            (1, thread) => thread.process.into(),
            (2, thread) => thread.tid.into(),
            (_, thread) => (&thread.name).into(),
        }
    })?;
    write(&folder.join(FILES[5]), &ARENAS, tables.arenas.len(), |row, column| {
        match (column, &tables.arenas[row]) {
            (0, _) => id(row),
            (1, arena) => (&arena.kind).into(),
            (2, arena) => arena.partner.into(),
            (3, arena) => (&arena.loader).into(),
            (_, arena) => (&arena.growth_policy).into(),
        }
    })?;
    write(&folder.join(FILES[6]), &MARKS, tables.marks.len(), |row, column| {
        match (column, &tables.marks[row]) {
            (0, _) => id(row),
            (1, mark) => (&mark.name).into(),
            (2, mark) => mark.time_ns.into(),
            (_, mark) => mark.process.into(),
        }
    })?;
    write(&folder.join(FILES[7]), &SAMPLES, tables.samples.len(), |row, column| {
        match (column, tables.samples[row]) {
            (0, sample) => sample.time_ns.into(),
            (1, sample) => sample.process.into(),
            (2, sample) => sample.resident_bytes.into(),
            (3, sample) => sample.resident_anonymous_bytes.into(),
            (4, sample) => unless_zero(sample.committed_bytes),
            (_, sample) => unless_zero(sample.resident_peak_bytes),
        }
    })?;
    resident_codec::write_parts(folder, &tables.resident)?;
    if tables.chunks.is_empty() {
        return Ok(());
    }
    write(&folder.join(CHUNKS_FILE), &CHUNKS, tables.chunks.len(), |row, column| {
        match (column, &tables.chunks[row]) {
            (0, chunk) => chunk.op.text().into(),
            (1, chunk) => chunk.row.into(),
            (2, chunk) => chunk.time_ns.into(),
            (3, chunk) => chunk.address.into(),
            (4, chunk) => chunk.bytes.into(),
            (5, chunk) => chunk.arena.into(),
            (_, chunk) => unless_zero(chunk.process.into()),
        }
    })
}

/// Writes the table of frames to a new file.
pub fn write_frames(path: &Path, frames: &[Frame]) -> Result<(), TraceError> {
    write(path, &FRAMES, frames.len(), |row, column| frame_value(row, &frames[row], column))
}

fn unless_zero<'a>(value: u64) -> Value<'a> {
    if value == 0 { Value::Null } else { Value::Number(value) }
}

fn unless_empty(text: &str) -> Value<'_> {
    if text.is_empty() { Value::Null } else { text.into() }
}

fn frame_value(row: usize, frame: &Frame, column: usize) -> Value<'_> {
    match column {
        0 => (row as u64).into(),
        1 => frame.module.into(),
        2 => frame.address.into(),
        3 => frame.function.as_deref().into(),
        4 => frame.file.as_deref().into(),
        5 => unless_zero(frame.line.into()),
        _ => frame.inlined_into.into(),
    }
}

fn module_value(row: usize, module: &Module, column: usize) -> Value<'_> {
    match column {
        0 => (row as u64).into(),
        1 => (&module.path).into(),
        2 => unless_empty(&module.build_id),
        3 => module.process.into(),
        4 => module.bias.into(),
        5 => module.size.into(),
        6 => module.loaded_ns.into(),
        _ => module.unloaded_ns.into(),
    }
}

fn process_value(row: usize, process: &Process, column: usize) -> Value<'_> {
    let (ended, status) = match process.ended {
        Ended::Unknown => ("unknown", None),
        Ended::Exited(status) => ("exited", Some(status)),
        Ended::Signalled(signal) => ("signalled", Some(signal)),
        Ended::Exec => ("exec", None),
    };
    match column {
        0 => (row as u64).into(),
        1 => process.pid.into(),
        2 => process.parent.into(),
        3 => (&process.executable).into(),
        4 => serde_json::to_string(&process.arguments).unwrap_or_default().into(),
        5 => match process.began {
            Began::Started => "started",
            Began::Fork => "fork",
            Began::Exec => "exec",
        }
        .into(),
        6 => process.began_ns.into(),
        7 => ended.into(),
        8 => status.map(|status| status as u32).into(),
        9 => process.ended_ns.into(),
        _ => process.refused.as_deref().into(),
    }
}

/// Reads all tables from `folder`; so many rows about chunks and about resident memory must be
/// there.
pub fn read_all(
    folder: &Path,
    chunks_expected: u64,
    resident_expected: u64,
) -> Result<Tables, TraceError> {
    let open = |file: usize, columns: &[Column]| Rows::read(&folder.join(FILES[file]), columns);
    let (stacks, frames, modules) = (open(0, &STACKS)?, open(1, &FRAMES)?, open(2, &MODULES)?);
    let (processes, threads, arenas) =
        (open(3, &PROCESSES)?, open(4, &THREADS)?, open(5, &ARENAS)?);
    let (marks, samples) = (open(6, &MARKS)?, open(7, &SAMPLES)?);
    let chunks = optional(folder, CHUNKS_FILE, &CHUNKS, chunks_expected)?;
    let counts = Counts {
        frames: frames.len() as u64,
        modules: modules.len() as u64,
        processes: processes.len() as u64,
        arenas: arenas.len() as u64,
    };
    Ok(Tables {
        stacks: rows(&stacks, |row| stack(&stacks, row, &counts))?,
        frames: rows(&frames, |row| frame(&frames, row, &counts))?,
        modules: rows(&modules, |row| module(&modules, row, &counts))?,
        processes: rows(&processes, |row| process(&processes, row))?,
        threads: rows(&threads, |row| thread(&threads, row, &counts))?,
        arenas: rows(&arenas, |row| arena(&arenas, row, &counts))?,
        marks: rows(&marks, |row| mark(&marks, row, &counts))?,
        samples: rows(&samples, |row| sample(&samples, row, &counts))?,
        chunks: chunks
            .map_or(Ok(Vec::new()), |chunks| rows(&chunks, |row| chunk(&chunks, row, &counts)))?,
        resident: resident_codec::read_parts(
            folder,
            resident_expected,
            counts.processes,
            stacks.len() as u64,
        )?,
    })
}

/// A file that only some recordings have; `None`: no rows are expected. It must have as many rows
/// as expected.
pub(super) fn optional(
    folder: &Path,
    file: &str,
    columns: &[Column],
    expected_rows: u64,
) -> Result<Option<Rows>, TraceError> {
    if expected_rows == 0 {
        return Ok(None);
    }
    let path = folder.join(file);
    let table = Rows::read(&path, columns)?;
    if table.len() as u64 != expected_rows {
        return Err(TraceError::Malformed {
            path,
            place: "footer".into(),
            expected: format!("{expected_rows} rows, as meta.json says"),
            found: table.len().to_string(),
        });
    }
    Ok(Some(table))
}

struct Counts {
    frames: u64,
    modules: u64,
    processes: u64,
    arenas: u64,
}

fn rows<T>(
    table: &Rows,
    each: impl Fn(usize) -> Result<T, TraceError>,
) -> Result<Vec<T>, TraceError> {
    (0..table.len()).map(each).collect()
}

fn text(table: &Rows, row: usize, column: usize) -> String {
    table.text(row, column).unwrap_or_default().into()
}

fn narrow(value: Option<u64>) -> Option<u32> {
    value.map(|value| value as u32)
}

fn stack(table: &Rows, row: usize, counts: &Counts) -> Result<StackNode, TraceError> {
    let parent = table.under(row, 1, (row as u64).max(1))? as u32;
    // Row 0 is "no stack": nobody looks at its frame.
    let frame = table.under(row, 2, if row == 0 { U32_LIMIT } else { counts.frames })? as u32;
    Ok(StackNode { parent, frame })
}

fn frame(table: &Rows, row: usize, counts: &Counts) -> Result<Frame, TraceError> {
    let inlined_into = narrow(table.optional_under(row, 6, counts.frames)?);
    // `Tables::frames_of` follows only larger rows, which ends every chain.
    if let Some(outer) = inlined_into
        && outer as usize <= row
    {
        return Err(table.wrong(row, 6, format!("a row after {row}"), outer.to_string()));
    }
    Ok(Frame {
        module: narrow(table.optional_under(row, 1, counts.modules)?),
        address: table.under(row, 2, ANY)?,
        function: table.text(row, 3).map(String::from),
        file: table.text(row, 4).map(String::from),
        line: table.optional_under(row, 5, U32_LIMIT)?.unwrap_or(0) as u32,
        inlined_into,
    })
}

fn module(table: &Rows, row: usize, counts: &Counts) -> Result<Module, TraceError> {
    Ok(Module {
        path: text(table, row, 1),
        build_id: text(table, row, 2),
        process: table.under(row, 3, counts.processes)? as u32,
        bias: table.under(row, 4, ANY)?,
        size: table.under(row, 5, ANY)?,
        loaded_ns: table.under(row, 6, TIME_LIMIT)?,
        unloaded_ns: table.optional_under(row, 7, TIME_LIMIT)?,
    })
}

fn process(table: &Rows, row: usize) -> Result<Process, TraceError> {
    let unknown = |column, expected: &str| {
        let found = format!("{:?}", table.text(row, column).unwrap_or("null"));
        table.wrong(row, column, expected.into(), found)
    };
    let arguments = serde_json::from_str(table.text(row, 4).unwrap_or("[]"));
    let status = table.optional(row, 8).unwrap_or(0) as i32;
    Ok(Process {
        pid: table.under(row, 1, U32_LIMIT)? as u32,
        parent: narrow(table.optional_under(row, 2, table.len() as u64)?),
        executable: text(table, row, 3),
        arguments: arguments.map_err(|_| unknown(4, "a JSON array of texts"))?,
        began: match table.text(row, 5) {
            Some("started") => Began::Started,
            Some("fork") => Began::Fork,
            Some("exec") => Began::Exec,
            _ => return Err(unknown(5, "started, fork or exec")),
        },
        began_ns: table.under(row, 6, TIME_LIMIT)?,
        ended: match table.text(row, 7) {
            Some("unknown") => Ended::Unknown,
            Some("exited") => Ended::Exited(status),
            Some("signalled") => Ended::Signalled(status),
            Some("exec") => Ended::Exec,
            _ => return Err(unknown(7, "unknown, exited, signalled or exec")),
        },
        ended_ns: table.optional_under(row, 9, TIME_LIMIT)?,
        refused: table.text(row, 10).map(String::from),
    })
}

fn thread(table: &Rows, row: usize, counts: &Counts) -> Result<Thread, TraceError> {
    let process = table.under(row, 1, counts.processes)? as u32;
    Ok(Thread { process, tid: table.under(row, 2, U32_LIMIT)? as u32, name: text(table, row, 3) })
}

fn arena(table: &Rows, row: usize, counts: &Counts) -> Result<Arena, TraceError> {
    let partner = narrow(table.optional_under(row, 2, counts.arenas)?);
    Ok(Arena {
        kind: text(table, row, 1),
        partner,
        loader: text(table, row, 3),
        growth_policy: text(table, row, 4),
    })
}

fn mark(table: &Rows, row: usize, counts: &Counts) -> Result<Mark, TraceError> {
    let process = narrow(table.optional_under(row, 3, counts.processes)?);
    Ok(Mark { name: text(table, row, 1), time_ns: table.under(row, 2, TIME_LIMIT)?, process })
}

fn sample(table: &Rows, row: usize, counts: &Counts) -> Result<Sample, TraceError> {
    Ok(Sample {
        time_ns: table.under(row, 0, TIME_LIMIT)?,
        process: table.under(row, 1, counts.processes)? as u32,
        resident_bytes: table.under(row, 2, ANY)?,
        resident_anonymous_bytes: table.under(row, 3, ANY)?,
        committed_bytes: table.optional(row, 4).unwrap_or(0),
        resident_peak_bytes: table.optional(row, 5).unwrap_or(0),
    })
}

fn chunk(table: &Rows, row: usize, counts: &Counts) -> Result<ChunkEvent, TraceError> {
    let name = table.text(row, 0);
    let unnamed = || {
        let found = format!("{:?}", name.unwrap_or("null"));
        table.wrong(row, 0, "a name of 1 to 15 bytes".into(), found)
    };
    Ok(ChunkEvent {
        op: name.and_then(OpName::new).ok_or_else(unnamed)?,
        row: table.under(row, 1, TIME_LIMIT)?,
        time_ns: table.under(row, 2, TIME_LIMIT)?,
        address: table.under(row, 3, ANY)?,
        bytes: table.under(row, 4, ANY)?,
        arena: table.under(row, 5, counts.arenas.max(1))? as u32,
        process: table.optional_under(row, 6, counts.processes.max(1))?.unwrap_or(0) as u32,
    })
}
