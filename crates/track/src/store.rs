//! The store: a folder with `store.json`, which states the subject, and one small file a run.
//!
//! A file appears whole or not at all (written beside its name, then renamed). So a measurement
//! that ends in any way leaves a readable store, and can go on. One writer at a time holds a lock;
//! readers need none.

use crate::TrackError;
use crate::run::{Commit, FORMAT, Run, VERSION};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const STORE_FORMAT: &str = "heaplab-track";
/// A run's file has some kilobytes, also with a thousand phases.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Runs of a store: a thousand commits, a hundred times.
const RUNS_MAX: usize = 100_000;
/// Commits of a project: the largest have some millions.
const PLACE_MAX: u64 = 1_000_000_000;

/// The facts that a store's runs share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// The folder of the repository; where it lies is not compared.
    pub repository: String,
    /// The name of the project's first commit, which identifies the project.
    pub project: String,
    /// Shell command run in each commit's tree before the measurement.
    pub build: Option<String>,
    /// The command that is measured.
    pub command: Vec<String>,
    /// The kind of recording: "malloc", "node", "jvm-metaspace", "ocaml".
    pub recorder: String,
    /// Which process is looked at; `None`: the one with the largest peak.
    pub process: Option<String>,
    /// Whether trees are built on top of one another.
    #[serde(default)]
    pub incremental: bool,
}

#[derive(Serialize, Deserialize)]
struct Head {
    format: String,
    version: u32,
    #[serde(flatten)]
    subject: Subject,
}

/// A store that is read.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    subject: Subject,
    runs: Vec<Run>,
    damaged: Vec<TrackError>,
}

/// A store open for writing, with an exclusive lock.
#[derive(Debug)]
pub struct Writer {
    store: Store,
    _lock: File,
}

impl Store {
    /// Reads all runs, in the order of commits and repetitions. A run that cannot be read is left
    /// out ([`Store::damaged`]).
    ///
    /// # Errors
    /// The folder has no store, the store's own file is damaged or of a newer version, or no run
    /// can be read.
    pub fn open(folder: &Path) -> Result<Store, TrackError> {
        let head = folder.join("store.json");
        if !head.exists() {
            return Err(TrackError::Absent(folder.to_owned()));
        }
        let subject = read_head(&head)?;
        let (mut runs, mut damaged) = (Vec::new(), Vec::new());
        let listed = folder.join("runs");
        let entries = match fs::read_dir(&listed) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            other => Some(other.map_err(TrackError::io(&listed, "read"))?),
        };
        for entry in entries.into_iter().flatten() {
            let path = entry.map_err(TrackError::io(&listed, "read"))?.path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            if runs.len() + damaged.len() == RUNS_MAX {
                return Err(misread(&listed, format!("more than {RUNS_MAX} runs")));
            }
            match read_run(&path) {
                Ok(run) => runs.push(run),
                Err(error) => damaged.push(error),
            }
        }
        if runs.is_empty()
            && let Some(error) = damaged.pop()
        {
            return Err(error);
        }
        runs.sort_by(|a, b| order(a).cmp(&order(b)));
        damaged.sort_by_key(ToString::to_string);
        Ok(Store { folder: folder.to_owned(), subject, runs, damaged })
    }

    /// The store's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The subject.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// All runs and failures, in the order of commits and repetitions.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Why runs are left out: each names its file and the remedy.
    pub fn damaged(&self) -> &[TrackError] {
        &self.damaged
    }

    /// The first repetition of a commit that the store lacks.
    pub fn next_repetition(&self, id: &str) -> u32 {
        let has = |repetition: &u32| {
            self.runs.iter().any(|run| run.commit.id == id && run.repetition == *repetition)
        };
        (1..).find(|repetition| !has(repetition)).unwrap_or(u32::MAX)
    }

    /// How many runs of a commit were measured, and whether it failed.
    pub fn of_commit(&self, id: &str) -> (u32, bool) {
        let runs = self.runs.iter().filter(|run| run.commit.id == id);
        runs.fold((0, false), |(measured, failed), run| match run.figures() {
            Some(_) => (measured + 1, failed),
            None => (measured, true),
        })
    }
}

fn order(run: &Run) -> (u64, &str, u32) {
    (run.commit.place, &run.commit.id, run.repetition)
}

impl Writer {
    /// Opens a store to add runs of `subject`, or makes it.
    ///
    /// # Errors
    /// The store has another subject, another writer has it open, or it cannot be read or made. A
    /// run that cannot be read may be one of a newer heaplab, so that nothing is written beside it.
    pub fn open(folder: &Path, subject: &Subject) -> Result<Writer, TrackError> {
        let is_other = folder.exists()
            && !folder.join("store.json").exists()
            && fs::read_dir(folder)
                .map_err(TrackError::io(folder, "read"))?
                .flatten()
                .any(|entry| entry.file_name() != "lock");
        if is_other {
            let reason = "exists already and is no store of heaplab track: choose another --store";
            return Err(misread(folder, reason.into()));
        }
        let runs = folder.join("runs");
        fs::create_dir_all(&runs).map_err(TrackError::io(&runs, "make"))?;
        let lock = locked(folder)?;
        let head = folder.join("store.json");
        if !head.exists() {
            let text =
                Head { format: STORE_FORMAT.into(), version: VERSION, subject: subject.clone() };
            write(&head, &text)?;
        }
        let mut store = Store::open(folder)?;
        if let Some(error) = store.damaged.pop() {
            return Err(error);
        }
        same(folder, store.subject(), subject)?;
        Ok(Writer { store, _lock: lock })
    }

    /// The store's present runs.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Adds a run.
    ///
    /// # Errors
    /// The run cannot be written; then the store has nothing of it.
    pub fn add(&mut self, run: Run) -> Result<(), TrackError> {
        let path = self.file(&run);
        write(&path, &run)?;
        let place = self.store.runs.partition_point(|there| order(there) <= order(&run));
        self.store.runs.insert(place, run);
        Ok(())
    }

    /// Forgets the failures of commits, so that these are tried again.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn forget_failures(&mut self, of: &dyn Fn(&str) -> bool) -> Result<(), TrackError> {
        let is_meant = |run: &Run| run.figures().is_none() && of(&run.commit.id);
        for run in self.store.runs.iter().filter(|run| is_meant(run)) {
            let path = self.file(run);
            fs::remove_file(&path).map_err(TrackError::io(&path, "remove"))?;
        }
        self.store.runs.retain(|run| !is_meant(run));
        Ok(())
    }

    fn file(&self, run: &Run) -> PathBuf {
        let name =
            format!("{:07}-{}-{}.json", run.commit.place, run.commit.short(), run.repetition);
        self.store.folder.join("runs").join(name)
    }
}

fn locked(folder: &Path) -> Result<File, TrackError> {
    let path = folder.join("lock");
    let lock = File::options().create(true).append(true).open(&path);
    let lock = lock.map_err(TrackError::io(&path, "open"))?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => Err(TrackError::Busy(folder.to_owned())),
        // A file system without locks: nobody can detect two writers.
        _ => Ok(lock),
    }
}

fn same(folder: &Path, stored: &Subject, asked: &Subject) -> Result<(), TrackError> {
    let command = |subject: &Subject| heaplab_text::shell::line(&subject.command);
    let build = |subject: &Subject| subject.build.clone().unwrap_or_else(|| "no build".into());
    let how = |subject: &Subject| {
        let process = subject.process.as_deref().unwrap_or("the largest process");
        let trees = if subject.incremental { "incremental builds" } else { "fresh trees" };
        format!("{} of {process}, {trees}", subject.recorder)
    };
    let project = |subject: &Subject| format!("the one that begins with {}", subject.project);
    let each = |text: &dyn Fn(&Subject) -> String| (text(stored), text(asked));
    let all = [
        ("project", each(&project)),
        ("build", each(&build)),
        ("command", each(&command)),
        ("measurement", each(&how)),
    ];
    for (what, (stored, asked)) in all {
        if stored != asked {
            return Err(TrackError::Differs { path: folder.to_owned(), what, stored, asked });
        }
    }
    Ok(())
}

fn write(path: &Path, content: &impl Serialize) -> Result<(), TrackError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    // As readable as any file of this user: a history is shared.
    let mode = fs::Permissions::from_mode(0o666);
    let file = tempfile::Builder::new().permissions(mode).tempfile_in(folder);
    let mut file = file.map_err(TrackError::io(folder, "write to"))?;
    let text = serde_json::to_vec_pretty(content)
        .map_err(|error| TrackError::io(path, "write")(error.into()))?;
    file.write_all(&text).map_err(TrackError::io(path, "write"))?;
    file.as_file().sync_all().map_err(TrackError::io(path, "write"))?;
    file.persist(path).map_err(|error| TrackError::io(path, "give its name to")(error.error))?;
    Ok(())
}

fn misread(path: &Path, reason: String) -> TrackError {
    TrackError::Misread { path: path.to_owned(), reason }
}

fn content(path: &Path) -> Result<Vec<u8>, TrackError> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(TrackError::io(path, "open"))?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(TrackError::io(path, "read"))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(misread(path, format!("a file of a store has at most {FILE_BYTES_MAX} bytes")));
    }
    Ok(bytes)
}

/// The format and the version come first: a file of tomorrow may have other fields.
#[derive(Deserialize)]
struct Which {
    format: String,
    version: u32,
}

fn parsed<T: for<'a> Deserialize<'a>>(path: &Path, format: &str) -> Result<T, TrackError> {
    let bytes = content(path)?;
    let is_run = format == FORMAT;
    let what = if is_run { "it, and its run is made again" } else { "the store" };
    let wrong = |error: serde_json::Error| {
        misread(
            path,
            format!(
                "expected a file of the format {format}: {error}; if it is damaged, delete {what}"
            ),
        )
    };
    let which: Which = serde_json::from_slice(&bytes).map_err(wrong)?;
    if which.format != format {
        let reason = format!("expected the format {format}, found {:?}", which.format);
        return Err(misread(path, reason));
    }
    if which.version == 0 || which.version > VERSION {
        let reason = format!(
            "version {} of the format {format}, and this heaplab knows {VERSION}: take a newer one",
            which.version
        );
        return Err(misread(path, reason));
    }
    serde_json::from_slice(&bytes).map_err(wrong)
}

fn read_head(path: &Path) -> Result<Subject, TrackError> {
    Ok(parsed::<Head>(path, STORE_FORMAT)?.subject)
}

/// Whether a run's commit is plausible: its place is used in counting, and its name is a part of
/// the run's file name.
fn read_run(path: &Path) -> Result<Run, TrackError> {
    let run: Run = parsed(path, FORMAT)?;
    let Commit { id, place, .. } = &run.commit;
    if !(1..=PLACE_MAX).contains(place) {
        let reason = format!("expected a commit's place from 1 to {PLACE_MAX}, found {place}");
        return Err(misread(path, reason));
    }
    if !(7..=64).contains(&id.len()) || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        let reason =
            format!("expected a commit's name in 7 to 64 hexadecimal digits, found {id:?}");
        return Err(misread(path, reason));
    }
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Failure, Figures, Outcome};
    use heaplab_experiment::results::Machine;

    fn subject() -> Subject {
        Subject { project: "1234".into(), command: vec!["./bench".into()], ..Subject::default() }
    }

    fn run(place: u64, repetition: u32, outcome: Outcome) -> Run {
        let commit = Commit { id: format!("{place:040x}"), place, ..Commit::default() };
        Run::new(commit, repetition, Machine::default(), outcome)
    }

    #[test]
    fn runs_come_back_in_the_order_of_the_history() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("store");
        let mut writer = Writer::open(&folder, &subject()).unwrap();
        for place in [7, 2, 10] {
            writer.add(run(place, 1, Outcome::Measured(Figures::default()))).unwrap();
        }
        writer.add(run(3, 1, Outcome::Failed(Failure::default()))).unwrap();
        let places = |store: &Store| store.runs().iter().map(|run| run.commit.place).collect();
        let found: Vec<u64> = places(&Store::open(&folder).unwrap());
        assert_eq!(found, [2, 3, 7, 10]);
        assert_eq!(writer.store().runs(), Store::open(&folder).unwrap().runs());
        assert_eq!(writer.store().of_commit(&format!("{:040x}", 3)), (0, true));
        writer.forget_failures(&|_| true).unwrap();
        let found: Vec<u64> = places(&Store::open(&folder).unwrap());
        assert_eq!(found, [2, 7, 10]);
    }

    #[test]
    fn what_is_damaged_is_left_out_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("store");
        let mut writer = Writer::open(&folder, &subject()).unwrap();
        for repetition in 1..=3 {
            writer.add(run(2, repetition, Outcome::Measured(Figures::default()))).unwrap();
        }
        drop(writer);
        let id = format!("{:040x}", 2);
        let second = folder.join(format!("runs/0000002-{}-2.json", &id[..9]));
        fs::write(&second, "{").unwrap();
        let store = Store::open(&folder).unwrap();
        let [error] = store.damaged() else { panic!("{:?}", store.damaged()) };
        let named = format!("{}: expected a file", second.display());
        assert!(error.to_string().starts_with(&named), "{error}");
        assert_eq!(store.of_commit(&id), (2, false));
        // It stays where it is until somebody deletes it; then its run is made again.
        assert!(Writer::open(&folder, &subject()).unwrap_err().to_string().starts_with(&named));
        fs::remove_file(&second).unwrap();
        let store = Store::open(&folder).unwrap();
        assert_eq!((store.next_repetition(&id), store.damaged().len()), (2, 0));
    }

    #[test]
    fn one_writes_and_of_one_subject() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("store");
        let writer = Writer::open(&folder, &subject()).unwrap();
        let busy = Writer::open(&folder, &subject()).unwrap_err().to_string();
        assert!(busy.contains("another heaplab track"), "{busy}");
        drop(writer);
        let other = Subject { command: vec!["./bench".into(), "2".into()], ..subject() };
        let error = Writer::open(&folder, &other).unwrap_err().to_string();
        assert!(error.contains("another command: ./bench\nand this is ./bench 2"), "{error}");
        let moved = Subject { repository: "/elsewhere".into(), ..subject() };
        assert!(Writer::open(&folder, &moved).is_ok());
    }

    #[test]
    fn what_is_no_store_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        assert!(matches!(Store::open(path), Err(TrackError::Absent(_))));
        fs::write(path.join("mine.txt"), "").unwrap();
        let error = Writer::open(path, &subject()).unwrap_err().to_string();
        assert!(error.contains("no store of heaplab track"), "{error}");
        fs::remove_file(path.join("mine.txt")).unwrap();
        drop(Writer::open(path, &subject()).unwrap());
        for (text, said) in [
            ("{\"format\": \"heaplab-track-run\", \"version\": 9, \"new\": 1}", "a newer one"),
            ("{\"format\": \"other\", \"version\": 1}", "expected the format heaplab-track-run"),
            ("{\"format\": \"heaplab-track-run\", \"version\": 1}", "missing field"),
            ("", "delete it, and its run is made again"),
        ] {
            fs::write(path.join("runs/1.json"), text).unwrap();
            let error = Store::open(path).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains("1.json"), "{error}");
        }
        let mut edited = run(1 << 63, 1, Outcome::Measured(Figures::default()));
        for said in ["from 1 to 1000000000, found 9223372036854775808", "hexadecimal digits"] {
            fs::write(path.join("runs/1.json"), serde_json::to_vec(&edited).unwrap()).unwrap();
            let error = Store::open(path).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains("1.json"), "{error}");
            edited.commit = Commit { id: "../../../secret".into(), place: 1, ..edited.commit };
        }
    }
}
