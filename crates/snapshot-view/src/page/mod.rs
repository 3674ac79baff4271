//! Snapshots as a page in a browser, laid out like DevTools' Memory panel.
//!
//! The page has Summary with its filters, Comparison, Containment, Statistics, retainers, search,
//! and a treemap of the dominator tree. The page (`assets/`) asks for rows as they come into view.
//! [`Page::answer`] answers from analyses that are made once. Sizes come as text and as numbers, so
//! the script formats nothing. The answers belong to the page and may change with it; other
//! programs read docs/snapshot-json.md.
//!
//! This crate opens no socket: `heaplab snapshot open --serve` does.

mod comparison;
mod object;
mod parameters;
mod references;
mod rows;
mod summary;
mod treemap;

pub use parameters::Problem;

use heaplab_snapshot::analysis::{Analysis, Class, NodeSet};
use heaplab_snapshot::diff::ClassDiff;
use heaplab_snapshot::query::filter::Wanted;
use heaplab_snapshot::session::Session;
use heaplab_text::words::{bytes, count};
use parameters::Asked;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

/// Filters whose results are cached, each at one bit an object.
const FILTERS_KEPT: usize = 8;

/// A snapshot that the page shows.
pub struct Opened<'p> {
    /// The file's name.
    pub name: String,
    /// Everything about it.
    pub analysis: &'p Analysis<'p, 'p>,
    /// Whether equal ids are equal objects here and in the snapshot before it.
    pub session: Option<Session>,
}

/// A filter's classes (by the number of their class) and objects.
struct Filtered {
    classes: Vec<Class>,
    nodes: NodeSet,
}

/// A filter's text, its file, and its result.
type Kept = ((usize, String), Arc<Filtered>);

/// The page over some snapshots of one program, the oldest first.
pub struct Page<'p> {
    files: Vec<Opened<'p>>,
    /// Differences of two files, by their places.
    comparisons: BTreeMap<(usize, usize), OnceLock<Vec<ClassDiff>>>,
    /// The last filters, by file and words.
    filters: Mutex<Vec<Kept>>,
}

/// A part of the page that is no answer about a snapshot: its media type and content.
pub fn asset(path: &str) -> Option<(&'static str, &'static str)> {
    Some(match path {
        "" => ("text/html; charset=utf-8", include_str!("../../assets/page.html")),
        "page.css" => ("text/css; charset=utf-8", include_str!("../../assets/page.css")),
        "page.js" => ("text/javascript; charset=utf-8", include_str!("../../assets/page.js")),
        _ => return None,
    })
}

impl<'p> Page<'p> {
    /// A page over these files, at least one.
    pub fn new(files: Vec<Opened<'p>>) -> Page<'p> {
        let pairs = (0..files.len())
            .flat_map(|newer| (0..files.len()).map(move |older| (older, newer)))
            .filter(|(older, newer)| older != newer);
        let comparisons = pairs.map(|pair| (pair, OnceLock::new())).collect();
        Page { files, comparisons, filters: Mutex::default() }
    }

    /// Makes what answers need and does not exist yet: referrers, and what changed from each file
    /// to the next. Answers wait for the part that they need.
    pub fn prepare(&self) {
        for file in &self.files {
            file.analysis.backward();
        }
        for newer in 1..self.files.len() {
            self.compared((newer - 1, newer));
        }
    }

    /// The answer to a question of the page, as JSON.
    ///
    /// # Errors
    /// The question is none of the page's, or asks for an object or a file that is not there.
    pub fn answer(&self, path: &str, values: &[(String, String)]) -> Result<Value, Problem> {
        let asked = Asked(values);
        if path == "files" {
            return Ok(self.files_json());
        }
        let number: usize = asked.number("file", 0)?;
        let file = self.files.get(number).ok_or_else(|| Problem::no_file(number))?;
        let analysis = file.analysis;
        match path {
            "classes" => summary::classes(self, number, &asked),
            "members" => summary::members(self, number, &asked),
            "search" => summary::search(analysis, &asked),
            "compared" => comparison::classes(self, number, &asked),
            "changed" => comparison::objects(self, number, &asked),
            "references" => references::references(analysis, &asked),
            "retainers" => references::retainers(analysis, &asked),
            "object" => object::object(analysis, &asked),
            "treemap" => treemap::treemap(analysis, &asked),
            _ => Err(Problem::not_asked(path)),
        }
    }

    fn files_json(&self) -> Value {
        let file = |file: &Opened| {
            let analysis = file.analysis;
            let graph = &analysis.snapshot().graph;
            let broken = file.session.as_ref().is_some_and(Session::is_broken);
            json!({
                "name": file.name,
                "objects": count(graph.node_count() as u64),
                "total": bytes(analysis.total_bytes()),
                "root": graph.root(),
                "last_id": graph.last_object_id(),
                "other_session": broken,
                "statistics": object::statistics(analysis),
            })
        };
        self.files.iter().map(file).collect()
    }

    /// Differences of two files.
    fn compared(&self, (older, newer): (usize, usize)) -> &[ClassDiff] {
        let Some(compared) = self.comparisons.get(&(older, newer)) else { return &[] };
        compared.get_or_init(|| {
            heaplab_snapshot::diff::compare(self.files[older].analysis, self.files[newer].analysis)
        })
    }

    /// The classes and objects that pass a filter.
    fn filtered(&self, file: usize, words: &str) -> Result<Arc<Filtered>, Problem> {
        let key = (file, words.to_owned());
        let kept = |filters: &[Kept]| {
            filters.iter().find(|(known, _)| *known == key).map(|(_, filtered)| filtered.clone())
        };
        let lock = || self.filters.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(filtered) = kept(&lock()) {
            return Ok(filtered);
        }
        let analysis = self.files[file].analysis;
        let wanted: Wanted = words.parse().map_err(Problem::Asked)?;
        let not_there = |why: heaplab_snapshot::query::NotThere| Problem::Asked(why.0);
        let filtered = Arc::new(Filtered {
            classes: wanted.all_classes(analysis).map_err(not_there)?,
            nodes: wanted.nodes(analysis).map_err(not_there)?,
        });
        let mut filters = lock();
        if filters.len() == FILTERS_KEPT {
            filters.remove(0);
        }
        filters.push((key, filtered.clone()));
        Ok(filtered)
    }
}
