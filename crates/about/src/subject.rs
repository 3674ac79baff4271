//! The subject of a reading: a running process, or a saved file.

use crate::{AboutError, Model, Saved, ask, difference, page};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The source of readings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A running process.
    Process(u32),
    /// A file that heaplab or about:memory saved.
    File(PathBuf),
}

impl Subject {
    /// The process of this number, or the file of this name.
    ///
    /// # Errors
    /// The number is larger than any process's.
    pub fn of(text: &str) -> Result<Subject, AboutError> {
        Ok(ask::number(text)?.map_or_else(|| Subject::File(text.into()), Subject::Process))
    }

    /// The process's number; `None`: a file.
    pub fn pid(&self) -> Option<u32> {
        match self {
            Subject::Process(pid) => Some(*pid),
            Subject::File(_) => None,
        }
    }

    /// The title of a page about it.
    pub fn title(&self) -> String {
        match self {
            Subject::Process(pid) => format!("Memory of process {pid}"),
            Subject::File(path) => format!("Memory: {}", path.display()),
        }
    }

    /// A reading of the process, now or at the mark `at`; the reading in the file, which has no
    /// marks.
    ///
    /// # Errors
    /// The process cannot be asked within `patience`, or the file cannot be read.
    pub fn read(&self, at: Option<&str>, patience: Duration) -> Result<Saved, AboutError> {
        match (self, at) {
            (Subject::Process(pid), Some(mark)) => ask::at(*pid, mark, patience),
            (Subject::Process(pid), None) => ask::report(*pid, patience),
            (Subject::File(path), _) => std::fs::read(path)
                .map_err(AboutError::Unreadable)
                .and_then(|bytes| Saved::read(&bytes))
                .map_err(|source| AboutError::File { path: path.clone(), source: source.into() }),
        }
    }
}

/// Readings for a page that asks again and again.
#[derive(Debug)]
pub struct Served {
    subject: Subject,
    patience: Duration,
    /// The range of all readings so far.
    seen: Mutex<Option<Model>>,
}

impl Served {
    /// No reading yet.
    pub fn new(subject: Subject, patience: Duration) -> Served {
        Served { subject, patience, seen: Mutex::new(None) }
    }

    /// The page's content: the reading at the mark `at`, or the changes since the mark `since`;
    /// empty texts: now, with the range of all readings.
    ///
    /// # Errors
    /// As [`Subject::read`].
    pub fn body(&self, at: &str, since: &str) -> Result<String, AboutError> {
        let mark = |name| Some(name).filter(|mark: &&str| !mark.is_empty());
        let now = self.subject.read(mark(at), self.patience)?;
        let model = if let Some(since) = mark(since) {
            let before = self.subject.read(Some(since), self.patience)?;
            Model::of_difference(&difference::between(&before, &now))
        } else if mark(at).is_some() {
            Model::of(&now)
        } else {
            self.widened(Model::of(&now))
        };
        Ok(page::marks(&model, at, since) + &page::body(&model))
    }

    fn widened(&self, mut model: Model) -> Model {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().for_each(|earlier| model.widen(earlier));
        seen.insert(model).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::{Served, Subject};
    use std::error::Error as _;
    use std::time::Duration;

    #[test]
    fn a_subject_is_a_process_or_a_file() {
        assert_eq!(Subject::of("4711").unwrap(), Subject::Process(4711));
        let file = Subject::of("app.json").unwrap();
        assert_eq!((file.pid(), file.title().as_str()), (None, "Memory: app.json"));
        let missing = file.read(None, Duration::ZERO).unwrap_err();
        assert_eq!(missing.to_string(), "app.json");
        assert!(missing.source().unwrap().to_string().contains("No such file"), "{missing:?}");
    }

    #[test]
    fn a_served_body_has_the_range_of_all_readings() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("reading.json");
        let served = Served::new(Subject::File(path.clone()), Duration::ZERO);
        let body = |amount: u32| {
            let report = format!(
                r#"{{"version":1,"hasMozMallocUsableSize":true,"reports":[{{"process":"app (pid 7)",
                "path":"explicit/cache","kind":1,"units":0,"amount":{amount},"description":"Pages."}}]}}"#
            );
            std::fs::write(&path, report).unwrap();
            served.body("", "").unwrap()
        };
        assert!(!body(1_048_576).contains("3.00"));
        let second = body(3_145_728);
        assert!(second.contains("1.00") && second.contains("3.00"), "{second}");
        assert!(!served.body("mark", "").unwrap().contains("1.00"));
    }
}
