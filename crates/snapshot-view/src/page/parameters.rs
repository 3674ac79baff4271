//! The page's parameters: names and values. Bad ones get an error in words.

use heaplab_snapshot::Node;
use heaplab_snapshot::analysis::Analysis;
use std::str::FromStr;

/// Rows of one answer.
const ROWS_MAX: usize = 1000;
/// Rows of an answer that asks for no number.
const ROWS: usize = 100;

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The page knows no question of this name.
    #[error("{0}")]
    NotFound(String),
    /// The question does not accept the value.
    #[error("{0}")]
    Asked(String),
}

impl Problem {
    pub(super) fn not_asked(path: &str) -> Problem {
        Problem::NotFound(format!("the page has no question {path:?}"))
    }

    pub(super) fn no_file(number: usize) -> Problem {
        Problem::Asked(format!("there is no file {number}"))
    }
}

/// The names and values of a question.
pub(super) struct Asked<'q>(pub &'q [(String, String)]);

impl Asked<'_> {
    /// The value of this name; empty if the query lacks the name.
    pub fn text(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// The number of this name, or another where none is given.
    pub fn number<T: FromStr>(&self, name: &str, otherwise: T) -> Result<T, Problem> {
        match self.text(name) {
            "" => Ok(otherwise),
            text => text
                .parse()
                .map_err(|_| Problem::Asked(format!("{name}={text}: expected a number"))),
        }
    }

    /// An object of the file, by its place.
    pub fn node(&self, analysis: &Analysis) -> Result<Node, Problem> {
        let graph = &analysis.snapshot().graph;
        let node = self.number("node", graph.root())?;
        if (node as usize) < graph.node_count() {
            return Ok(node);
        }
        Err(Problem::Asked(format!("there is no object at place {node}")))
    }

    /// The requested rows: the first, and their number.
    pub fn window(&self) -> Result<(usize, usize), Problem> {
        Ok((self.number("from", 0)?, self.number("rows", ROWS)?.min(ROWS_MAX)))
    }
}
