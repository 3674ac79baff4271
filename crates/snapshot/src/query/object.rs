//! The fields of objects, and conditions on them: what rows of a query and choices of objects
//! share.

use super::plan::Field;
use crate::Node;
use crate::analysis::{Analysis, Class};
use heaplab_expression::{Expression, Value};

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

    /// Whether a condition holds for an object. A quotient by zero is neither above nor below any
    /// number.
    pub fn fits(&self, node: Node, condition: &Expression) -> bool {
        let mut field = |name: &str, _: Option<&str>| match Field::named(name) {
            Some(field) => match self.field(node, field) {
                Cell::Number(number) => Value::from(number),
                Cell::Text(text) => Value::Text(text),
            },
            None => Value::Integer(0),
        };
        // Few objects fit, so that few are asked twice.
        condition.is_true(&mut field) && !condition.is_undefined(&mut field)
    }

    /// A field of an object.
    pub fn field(&self, node: Node, field: Field) -> Cell {
        let (analysis, snapshot) = (self.analysis, self.analysis.snapshot());
        let graph = &snapshot.graph;
        Cell::Number(match field {
            Field::Id => graph.id(node).into(),
            Field::Type => {
                return Cell::Text(snapshot.node_type_name(graph.node_type(node)).into());
            }
            Field::Class => {
                return Cell::Text(self.class_names[analysis.class_of(node) as usize].clone());
            }
            Field::Name => return Cell::Text(analysis.name(node).into_owned()),
            Field::Shallow => analysis.self_size(node) as i64,
            Field::Retained => analysis.retained_size(node) as i64,
            Field::Distance => analysis.distance(node).into(),
            Field::Detached => i64::from(analysis.detachedness(node) == 2),
            Field::References => graph.edges(node).len() as i64,
            Field::Dominator => graph.id(analysis.dominator(node)).into(),
            Field::Count => 1,
        })
    }
}
