//! The fields of objects: what rows of a query and conditions on objects share.

use super::plan::Field;
use crate::Node;
use crate::analysis::{Analysis, Class};

/// A field of an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A number.
    Number(i64),
    /// A text.
    Text(String),
}

/// The objects of a heap as rows.
pub struct Objects<'q, 's, 'a> {
    /// Of this heap.
    pub analysis: &'q Analysis<'s, 'a>,
    /// The names of its classes.
    pub class_names: Vec<String>,
}

impl<'q, 's, 'a> Objects<'q, 's, 'a> {
    /// Of a heap.
    pub fn of(analysis: &'q Analysis<'s, 'a>) -> Self {
        Objects { analysis, class_names: analysis.classes().iter().map(Class::text).collect() }
    }

    /// A field of an object.
    pub fn field(&self, node: Node, field: Field) -> Cell {
        if let Some(number) = self.number(node, field) {
            return Cell::Number(number);
        }
        let (analysis, snapshot) = (self.analysis, self.analysis.snapshot());
        Cell::Text(match field {
            Field::Type => snapshot.node_type_name(snapshot.graph.node_type(node)).into(),
            Field::Class => self.class_names[analysis.class_of(node) as usize].clone(),
            _ => analysis.name(node).into_owned(),
        })
    }

    /// A field of an object that is a number.
    #[inline]
    pub fn number(&self, node: Node, field: Field) -> Option<i64> {
        let (analysis, graph) = (self.analysis, &self.analysis.snapshot().graph);
        Some(match field {
            Field::Id => graph.id(node).into(),
            Field::Shallow => analysis.self_size(node) as i64,
            Field::Retained => analysis.retained_size(node) as i64,
            Field::Distance => analysis.distance(node).into(),
            Field::Detached => i64::from(analysis.detachedness(node) == 2),
            Field::References => graph.edges(node).len() as i64,
            Field::Dominator => graph.id(analysis.dominator(node)).into(),
            Field::Count => 1,
            Field::Type | Field::Class | Field::Name => return None,
        })
    }
}
