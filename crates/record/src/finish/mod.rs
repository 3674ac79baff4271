//! Turns a spool into a bundle: order, identity, stacks, processes. The same code finishes a
//! recording that has just ended and the remains of a crash.
//!
//! Memory is bounded by the live blocks of one moment and by distinct stacks, not by the number of
//! events. The spool is only read; the caller removes it once the bundle has its name.

pub mod address_map;
pub mod allocator;
pub mod cut_stacks;
pub mod facts;
pub mod live_heap;
pub mod merge;
pub mod node_table;
pub mod perf_map;
pub mod residence;
pub mod stack_map;
pub mod streams;
pub mod tables;
pub mod unfinished;
pub mod waits;

use crate::clock::{Clock, ClockReading};
use crate::control::{CONTROL_FILE, ControlFacts};
use crate::diagnose::{self, Obstacle};
use crate::discover;
use crate::error::RecordError;
use crate::execs::{self, Exec, Unseen};
use crate::image::{Image, ImageDamage};
use crate::mark;
use crate::python::{self, Python};
use crate::spool::EVENTS_FILE;
use crate::spool::block::{BlockDamage, RingId};
use crate::spool::note::Note;
use crate::spool::reader::{BlockPlace, Index};
use crate::symbolize;
use crate::unrecorded;
use heaplab_preload::layout;
use heaplab_text::words::count;
use heaplab_trace::EventSink;
use heaplab_trace::bundle::{BundleWriter, Meta};
use heaplab_trace::tables::{Sample, Tables};
use merge::{Action, Counts, ImageInput, Merge};
use residence::ResidenceMoment;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use streams::{Files, Stream};

/// A finished recording.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The bundle.
    pub output: PathBuf,
    /// The content of `meta.json`.
    pub meta: Meta,
    /// Counts of merging.
    pub counts: Counts,
    /// Processes that were recorded.
    pub processes: usize,
    /// Bytes of the bundle's files.
    pub bundle_bytes: u64,
    /// The largest process, and why its requests could not be seen; `None` if they were.
    pub largest_unseen: Option<String>,
}

/// The stage of finishing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Rows written, and an estimate of all rows.
    Rows(u64, u64),
    /// Looking names up.
    Symbols,
    /// Writing the tables.
    Tables,
}

impl fmt::Display for Progress {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        match *self {
            Progress::Rows(done, all) => {
                write!(to, "finishing: {} of {} events", count(done), count(all.max(done)))
            }
            Progress::Symbols => to.write_str("finishing: looking functions up"),
            Progress::Tables => to.write_str("finishing: writing tables"),
        }
    }
}

type Images = BTreeMap<(u32, u32), Image>;

/// The spool's content except the records.
struct SpoolContent {
    control: ControlFacts,
    index: Index,
    images: Images,
    losses: Vec<String>,
}

/// FinishOptions of a bundle.
#[derive(Debug, Default)]
pub struct FinishOptions {
    /// How to look functions up; `None`: do not.
    pub symbols: Option<heaplab_symbols::Options>,
    /// Keep the blocks' addresses.
    pub addresses: bool,
    /// Replace a bundle of that name once the new one is whole.
    pub replace: bool,
    /// Block index from the writer; `None`: rebuild it by scanning the spool.
    pub index: Option<Index>,
    /// Path of the temporary bundle, set early so that an interrupt handler can delete it
    /// ([`heaplab_trace::bundle::abandon`]).
    pub unfinished: Arc<OnceLock<PathBuf>>,
}

/// Finishes the spool into a bundle at `output`, which must not exist unless `replace` is set.
pub fn finish(
    spool: &Path,
    output: &Path,
    options: &FinishOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Finished, RecordError> {
    let files =
        Files::open(spool).map_err(RecordError::io("cannot open", &spool.join(EVENTS_FILE)))?;
    let begin = if options.replace { BundleWriter::replace } else { BundleWriter::create };
    let mut writer = begin(output)?;
    let _ = options.unfinished.set(writer.unfinished().to_owned());
    if !options.addresses {
        writer.leave_out_addresses();
    }
    let (mut tables, meta, counts) =
        merge_spool(&files, options.index.clone(), &mut writer, progress)?;
    if let Some(symbols) = &options.symbols {
        progress(Progress::Symbols);
        symbolize::symbolize(&mut tables, symbols);
    }
    progress(Progress::Tables);
    writer.finish(&tables, meta.clone())?;
    let processes = tables.processes.iter().filter(|process| process.refused.is_none()).count();
    let entries = fs::read_dir(output).map_err(RecordError::io("cannot read", output))?;
    let bundle_bytes = entries
        .flatten()
        .filter_map(|entry| entry.metadata().ok())
        .map(|metadata| metadata.len())
        .sum();
    let meta = Meta {
        events: counts.events,
        objects: counts.objects,
        duration_ns: meta.duration_ns.max(counts.last_ns),
        ..meta
    };
    let largest_unseen = largest_unseen(&tables);
    Ok(Finished {
        output: output.to_owned(),
        meta,
        counts,
        processes,
        bundle_bytes,
        largest_unseen,
    })
}

/// The process with the most resident memory, if its executable's own `malloc` is found before the
/// recorder's (such as Firefox under its wrapper script). Such a process loads the recorder, but
/// only its small neighbours are recorded.
fn largest_unseen(tables: &Tables) -> Option<String> {
    let resident = |sample: &Sample| sample.resident_peak_bytes.max(sample.resident_bytes);
    let largest = tables.samples.iter().max_by_key(|sample| resident(sample))?;
    let process = tables.processes.get(largest.process as usize)?;
    let obstacle = diagnose::obstacle(Path::new(&process.executable), None)?;
    let own_malloc =
        matches!(obstacle, Obstacle::OwnMalloc { exported: true } | Obstacle::Sanitizer(_));
    let (pid, program, mib) =
        (process.pid, &process.executable, resident(largest) as f64 / f64::from(1 << 20));
    own_malloc.then(|| {
        format!("process {pid} ({program}), the largest with {mib:.1} MiB resident, {obstacle}")
    })
}

/// Merges all rings of a spool into `sink`; returns the tables and the facts of the recording.
/// `index`: see [`FinishOptions`].
pub fn merge_spool<S: EventSink>(
    files: &Files,
    index: Option<Index>,
    sink: &mut S,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Tables, Meta, Counts), RecordError> {
    let mut content = read_content(files, index)?;
    let later = content.control.later.unwrap_or_else(ClockReading::now);
    let clock =
        Clock::between(content.control.origin, later).ok_or_else(|| RecordError::NotASpool {
            path: files.folder.clone(),
            reason: String::from("its control page has no clock readings that fit together"),
        })?;
    let expected =
        content.index.rings.values().flatten().map(|block| u64::from(block.records)).sum();
    let (inputs, streams) = inputs(files, &mut content);
    if content.control.is_python {
        let images = || inputs.iter().map(|input| &input.image);
        content.losses.extend(Python::loss(images().map(|image| &image.python)));
        let started = images().map(|image| (&image.python, &image.arguments[..]));
        content.losses.extend(python::ignores_malloc(started));
    }
    let facts = facts::Facts::new(&content.control, inputs.iter().map(|input| &input.image), clock);
    let mut actions: Vec<(u64, Action)> = Vec::new();
    for (place, input) in inputs.iter().enumerate() {
        let first =
            streams.iter().filter(|(of, _)| *of == place).map(|(_, stream)| stream.key).min();
        actions
            .push((input.image.begin_counter.min(first.unwrap_or(u64::MAX)), Action::Begin(place)));
    }
    actions.extend(
        mark::read(&files.folder)
            .into_iter()
            .map(|mark| (mark.counter, Action::Mark(mark.name, mark.pid))),
    );
    let places: HashMap<(u32, u32), usize> = inputs
        .iter()
        .enumerate()
        .map(|(place, input)| ((input.image.pid, input.image.seq), place))
        .collect();
    for moment in moments(&content.index.notes) {
        if let Some(place) = places.get(&moment.key) {
            // Nothing happens to a process before it begins.
            let counter = moment.counter.max(inputs[*place].image.begin_counter);
            actions.push((counter, Action::Resident(*place, Box::new(moment))));
        }
    }
    actions.sort_by_key(|(counter, action)| (*counter, matches!(action, Action::Mark(..))));
    let mut merge = Merge::new(files, clock, content.control.stack_depth, sink, inputs, streams);
    merge.run(actions, &mut |rows| progress(Progress::Rows(rows, expected)))?;
    let mut counts = merge.counts;
    counts.objects = merge.objects();
    content.losses.append(&mut merge.damage);
    let unknown_stacks = merge.builder.unknown_stacks;
    let rows = |pid: u32, seq: u32| merge.builder.row_of((pid, seq));
    let samples = facts.samples(&content.index, rows);
    let ends = facts.ends(&content.index, rows);
    let without_huge_pages = facts::Facts::without_huge_pages(&content.index, rows);
    let (mut tables, generated) = (merge.builder.tables, merge.builder.generated);
    tables.resident = merge.resident;
    tables.samples = samples;
    facts.complete(&mut tables, ends, &content.index);
    let meta =
        Meta { without_huge_pages, ..facts.meta(&content, &counts, unknown_stacks, &tables) };
    perf_map::name(&mut tables.frames, generated, Path::new("/tmp"), meta.began_unix_s);
    Ok((tables, meta, counts))
}

/// The moments at which the resident memory of an image is divided.
fn moments(notes: &[Note]) -> Vec<ResidenceMoment> {
    let mut of_images: BTreeMap<(u32, u32), Vec<ResidenceMoment>> = BTreeMap::new();
    for note in notes {
        let Note::Mappings { counter, pid, seq, files, anonymous, account } = note else {
            continue;
        };
        let key = (*pid, *seq);
        let of_image = of_images.entry(key).or_default();
        let before = of_image.last();
        let files =
            files.clone().or_else(|| before.map(|before| before.files.clone())).unwrap_or_default();
        let account = account
            .clone()
            .or_else(|| before.map(|before| before.account.clone()))
            .unwrap_or_default();
        of_image.push(ResidenceMoment {
            counter: *counter,
            key,
            files,
            anonymous: anonymous.clone(),
            account,
        });
    }
    of_images.into_values().flat_map(residence::thin).collect()
}

fn read_content(files: &Files, index: Option<Index>) -> Result<SpoolContent, RecordError> {
    let folder = &files.folder;
    let not_a_spool = |reason: String| RecordError::NotASpool { path: folder.clone(), reason };
    let page = folder.join(CONTROL_FILE);
    let control =
        ControlFacts::parse(&fs::read(&page).map_err(RecordError::io("cannot read", &page))?)
            .map_err(not_a_spool)?;
    let mut index = match index {
        Some(index) => index,
        None => files
            .spool
            .index()
            .map_err(RecordError::io("cannot read", &folder.join(EVENTS_FILE)))?,
    };
    if let Some(damage @ BlockDamage::Version) = index.damage {
        return Err(not_a_spool(damage.to_string()));
    }
    let execs = execs::read(folder);
    let mut losses = Vec::new();
    let images = read_images(folder, &execs, &mut index, &mut losses)?;
    losses.extend(Unseen::new(&index.notes, &execs, &images, control.refused).sentences());
    Ok(SpoolContent { control, index, images, losses })
}

/// All images with a readable file. Adds to `index` a note for each process without one, unless the
/// recording noted it.
fn read_images(
    folder: &Path,
    execs: &[Exec],
    index: &mut Index,
    losses: &mut Vec<String>,
) -> Result<Images, RecordError> {
    let mut images = Images::new();
    let has_records: HashSet<(u32, u32)> = index
        .rings
        .iter()
        .filter(|(_, blocks)| !blocks.is_empty())
        .map(|(id, _)| (id.pid, id.seq))
        .collect();
    let told = |note: &Note| match note {
        Note::Unrecorded { pid, is_unread: true, .. } => Some(*pid),
        _ => None,
    };
    let told: HashSet<u32> = index.notes.iter().filter_map(told).collect();
    for key in discover::process_files(folder).map_err(RecordError::io("cannot list", folder))? {
        let path = discover::process_path(folder, key);
        let why = match discover::read_image(folder, key) {
            Ok(Ok(image)) => {
                if image.damaged {
                    losses.push(format!(
                        "{} is damaged: some of process {}'s modules may be unknown",
                        path.display(),
                        key.0
                    ));
                }
                images.insert(key, image);
                continue;
            }
            // The process ended while making the file: it had recorded nothing.
            Ok(Err(ImageDamage::Unfinished)) => continue,
            Ok(Err(damage)) => damage.to_string(),
            Err(error) => error.to_string(),
        };
        if has_records.contains(&key) {
            losses.push(format!("{} was left out: {why}", path.display()));
        } else if !told.contains(&key.0) {
            index.notes.push(
                unrecorded::unread(key.0, discover::unread_reason(key, &why), None, execs).note(),
            );
        }
    }
    Ok(images)
}

/// The images in order of their beginning, and a stream for each non-empty ring.
fn inputs(files: &Files, content: &mut SpoolContent) -> (Vec<ImageInput>, Vec<(usize, Stream)>) {
    let mut rings: BTreeMap<RingId, Vec<BlockPlace>> = std::mem::take(&mut content.index.rings);
    let first = |key: &(u32, u32), nested| RingId { pid: key.0, seq: key.1, ring: 0, nested };
    for (key, _) in content.images.iter().filter(|(_, image)| image.first_ring_waits != [false; 2])
    {
        rings.entry(first(key, false)).or_default();
        rings.entry(first(key, true)).or_default();
    }
    for id in ring_files(&files.folder) {
        rings.entry(id).or_default();
        rings.entry(RingId { nested: true, ..id }).or_default();
    }
    // Records without their process file still count.
    for (id, blocks) in rings.iter().filter(|(_, blocks)| !blocks.is_empty()) {
        let begin_counter = blocks.first().map_or(0, |block| block.base_stamp);
        content.images.entry((id.pid, id.seq)).or_insert_with(|| {
            content.losses.push(format!(
                "process {} (image {}) has records but no process file: its stacks are unknown",
                id.pid, id.seq
            ));
            Image {
                pid: id.pid,
                seq: id.seq,
                began: layout::BEGAN_EXEC,
                begin_counter,
                ..Image::default()
            }
        });
    }
    let started = content
        .index
        .notes
        .iter()
        .find_map(|note| if let Note::Started { pid } = note { Some(*pid) } else { None });
    let mut images: Vec<Image> = content.images.values().cloned().collect();
    images.sort_by_key(|image| (image.begin_counter, image.pid, image.seq));
    let places: HashMap<(u32, u32), usize> =
        images.iter().enumerate().map(|(place, image)| ((image.pid, image.seq), place)).collect();
    let streams = rings
        .into_iter()
        .filter_map(|(id, blocks)| {
            let place = *places.get(&(id.pid, id.seq))?;
            // Rings other than the first have files; an emptied ring's file is removed.
            let waits = id.ring > 0 || images[place].first_ring_waits[usize::from(id.nested)];
            Some((place, Stream::new(id, blocks, images[place].begin_counter, waits)))
        })
        .collect();
    let inputs = images
        .into_iter()
        .enumerate()
        .map(|(place, image)| {
            let parent = image
                .parent
                .and_then(|key| places.get(&key).copied())
                .filter(|parent| *parent < place);
            let is_first = started == Some(image.pid) && image.seq == 0;
            ImageInput { image, parent, is_first }
        })
        .collect();
    (inputs, streams)
}

/// The ring files still in the folder.
fn ring_files(folder: &Path) -> BTreeSet<RingId> {
    let Ok(entries) = fs::read_dir(folder) else { return BTreeSet::new() };
    let id_of = |name: &str| {
        let mut parts = name.strip_suffix(".ring")?.split('-').map(str::parse);
        let id = RingId {
            pid: parts.next()?.ok()?,
            seq: parts.next()?.ok()?,
            ring: parts.next()?.ok()?,
            nested: false,
        };
        parts.next().is_none().then_some(id)
    };
    entries.flatten().filter_map(|entry| id_of(entry.file_name().to_str()?)).collect()
}
