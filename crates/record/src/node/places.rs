//! The profiler's trees of functions as rows of `stacks` and `frames`.
//!
//! V8 drops a function's node with its last sample, and makes another with a new number when the
//! function allocates again: both are one row. A function's place is its beginning, not the
//! allocating line: V8's profile has no other.

use super::stream::Node;
use hashbrown::HashMap;
use heaplab_trace::tables::{Frame, StackNode, Tables};

/// The functions known so far, over all heaps.
#[derive(Debug, Default)]
pub struct Places {
    frames: HashMap<Frame, u32>,
    rows: HashMap<StackNode, u32>,
}

/// Rows of `stacks` by one heap's node numbers.
pub type Rows = HashMap<u64, u32>;

impl Places {
    /// The row of a node; its parent must be defined before. A root has row 0.
    pub fn define(&mut self, node: Node, rows: &mut Rows, tables: &mut Tables) {
        if tables.stacks.is_empty() {
            tables.stacks.push(StackNode::default());
        }
        let row = if node.parent == 0 {
            0
        } else {
            let parent = rows.get(&node.parent).copied().unwrap_or(0);
            let new = tables.frames.len() as u32;
            let frame = frame_of(&node);
            let frame = *self.frames.entry(frame).or_insert_with_key(|frame| {
                tables.frames.push(frame.clone());
                new
            });
            let new = tables.stacks.len() as u32;
            *self.rows.entry(StackNode { parent, frame }).or_insert_with_key(|node| {
                tables.stacks.push(*node);
                new
            })
        };
        rows.insert(node.id, row);
    }
}

/// A nameless function is named after its place.
fn frame_of(node: &Node) -> Frame {
    let script = node.script.as_str();
    let function = match (node.function.as_str(), script) {
        ("", "") => String::from("(anonymous)"),
        ("", script) => {
            let name = script.rsplit('/').next().unwrap_or(script);
            format!("(anonymous) {name}:{}:{}", node.line, node.column)
        }
        (name, _) => name.to_owned(),
    };
    let file =
        (!script.is_empty()).then(|| script.strip_prefix("file://").unwrap_or(script).to_owned());
    let line = u32::try_from(node.line).unwrap_or(0);
    Frame { function: Some(function), file, line, ..Frame::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: u64, parent: u64, function: &str, line: u64) -> Node {
        let script = if line == 0 { String::new() } else { String::from("file:///a/b.mjs") };
        Node { id, parent, line, column: 4, function: function.into(), script }
    }

    #[test]
    fn a_node_that_comes_again_is_the_row_that_it_was() {
        let (mut places, mut rows, mut tables) =
            (Places::default(), Rows::default(), Tables::default());
        for each in [
            node(1, 0, "(root)", 0),
            node(2, 1, "f", 3),
            node(3, 2, "", 9),
            node(9, 1, "f", 3),
            node(12, 9, "", 9),
            node(13, 1, "(V8 API)", 0),
        ] {
            places.define(each, &mut rows, &mut tables);
        }
        assert_eq!([1, 2, 3, 9, 12, 13].map(|id| rows[&id]), [0, 1, 2, 1, 2, 3]);
        let labels: Vec<String> = (0..3).map(|frame| tables.frame_label(frame)).collect();
        assert_eq!(labels, ["f", "(anonymous) b.mjs:9:4", "(V8 API)"]);
        assert_eq!(
            (tables.frames[0].file.as_deref(), tables.frames[0].line),
            (Some("/a/b.mjs"), 3)
        );
        assert_eq!(tables.frames_of(2).collect::<Vec<_>>(), [1, 0]);
    }
}
