//! Which references keep their target alive, for dominators. Source: DevTools' `isEssentialEdge`.

use super::ephemerons::Ephemerons;
use crate::columns::Bits;
use crate::graph::{Edge, Graph, Node};
use crate::meta::EdgeType;

/// Tells essential references from others.
pub(crate) struct Essential<'e> {
    pub graph: &'e Graph<'e>,
    /// The page's objects.
    pub page: &'e Bits,
    pub ephemerons: &'e Ephemerons,
}

/// Like [`Essential`] for the references of one node, with the node's own facts looked up once.
pub(crate) struct FromNode<'e> {
    of: &'e Essential<'e>,
    source: Node,
    is_root: bool,
    is_page: bool,
}

impl Essential<'_> {
    #[inline(always)]
    pub fn from(&self, source: Node) -> FromNode<'_> {
        FromNode {
            of: self,
            source,
            is_root: source == self.graph.root(),
            is_page: self.page.get(source),
        }
    }
}

impl FromNode<'_> {
    #[inline(always)]
    pub fn keeps(&self, edge: Edge, target: Node) -> bool {
        let edge_type = self.of.graph.edge_type(edge);
        if edge_type == EdgeType::Weak
            || self.source == target
            || self.of.ephemerons.is_tables(edge)
        {
            return false;
        }
        // The root's shortcuts mark global objects; others repeat internal references. The
        // debugger's references to a page do not count.
        self.is_root
            || (edge_type != EdgeType::Shortcut && (self.is_page || !self.of.page.get(target)))
    }
}
