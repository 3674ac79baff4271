//! A snapshot's summary.

use crate::analysis::{Analysis, Class, Statistics};
use crate::scripts::Scripts;

/// The totals and classes of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Nodes in the file.
    pub node_count: u64,
    /// Edges in the file.
    pub edge_count: u64,
    /// Sums by kind.
    pub statistics: Statistics,
    /// The classes that DevTools shows.
    pub classes: Vec<Class>,
    /// Names of the scripts that the places of the classes are in.
    pub scripts: Scripts,
}

impl Summary {
    /// The summary of an analysed snapshot.
    pub fn of(analysis: &Analysis) -> Summary {
        let graph = &analysis.snapshot().graph;
        Summary {
            node_count: graph.node_count() as u64,
            edge_count: graph.edge_count() as u64,
            statistics: analysis.statistics(),
            classes: analysis.shown_classes().map(|(_, class)| class.clone()).collect(),
            scripts: analysis.scripts().clone(),
        }
    }
}
