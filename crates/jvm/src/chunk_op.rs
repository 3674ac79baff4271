//! The vocabulary of a JVM's `chunks.parquet`: the operations on chunks, and their names.

use heaplab_trace::TraceError;
use heaplab_trace::tables::{ChunkEvent, OpName, Tables};

/// An operation of a metaspace on the chunks of its arenas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum ChunkOp {
    /// `bytes` is the commit granule, `address` a code of the policy by which the heap gives memory
    /// back.
    #[default]
    Granule,
    /// `bytes` of address space were reserved.
    Node,
    /// The same for a space that lies apart and holds one kind of arena.
    NodeApart,
    /// A root chunk was taken from its node.
    Root,
    /// A chunk was given to `arena`.
    Take,
    /// A chunk's commit line was moved: its first `bytes` are committed now.
    Line,
    /// A chunk grew in place to `bytes`.
    Enlarge,
    /// A chunk was given back.
    Return,
    /// A range was committed.
    Commit,
    /// A range was uncommitted.
    Uncommit,
    /// The rest of a chunk or a block went to the free blocks of `arena`.
    Leftover,
    /// Everything that could be uncommitted was asked to be.
    Purge,
    /// A free chunk was taken for a request, split if it was larger, and went back whole, because
    /// it could not be committed.
    Refused,
    /// A commit was refused: `bytes` more could have been committed until the size limit, `address`
    /// bytes until the threshold for collecting.
    Limit,
}

impl ChunkOp {
    /// Every operation with its name in `chunks.parquet`.
    pub const ALL: [(ChunkOp, &'static str); 14] = [
        (ChunkOp::Granule, "granule"),
        (ChunkOp::Node, "node"),
        (ChunkOp::NodeApart, "class_node"),
        (ChunkOp::Root, "root"),
        (ChunkOp::Take, "take"),
        (ChunkOp::Line, "line"),
        (ChunkOp::Enlarge, "enlarge"),
        (ChunkOp::Return, "return"),
        (ChunkOp::Commit, "commit"),
        (ChunkOp::Uncommit, "uncommit"),
        (ChunkOp::Leftover, "leftover"),
        (ChunkOp::Purge, "purge"),
        (ChunkOp::Refused, "refused"),
        (ChunkOp::Limit, "limit"),
    ];

    /// As the file has it.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(op, _)| *op == self).map_or("granule", |(_, name)| name)
    }

    /// The operation of a row; `None`: this version does not know the name.
    pub fn of(event: &ChunkEvent) -> Option<ChunkOp> {
        let known = Self::ALL.iter().find(|(_, name)| *name == event.op.text());
        known.map(|(op, _)| *op)
    }
}

impl From<ChunkOp> for OpName {
    fn from(op: ChunkOp) -> OpName {
        OpName::new(op.name()).unwrap_or_default()
    }
}

/// Whether every operation is known.
///
/// # Errors
/// A name is unknown: a newer heaplab wrote the file, or the file is damaged.
pub fn all_are_known(tables: &Tables) -> Result<(), TraceError> {
    let unknown = tables.chunks.iter().position(|event| ChunkOp::of(event).is_none());
    let Some(row) = unknown else { return Ok(()) };
    Err(TraceError::Malformed {
        path: "chunks.parquet".into(),
        place: format!("row {row}, column op"),
        expected: format!("one of {}", ChunkOp::ALL.map(|(_, name)| name).join(", ")),
        found: format!("{:?}", tables.chunks[row].op),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_comes_back_from_its_name_and_others_are_refused() {
        let row = |op: OpName| ChunkEvent { op, ..ChunkEvent::default() };
        for (op, _) in ChunkOp::ALL {
            assert_eq!(ChunkOp::of(&row(op.into())), Some(op));
        }
        assert_eq!(OpName::TRIM, ChunkOp::Purge.into());
        let chunks = [ChunkOp::Take.into(), OpName::new("melt").unwrap()].map(row).to_vec();
        let error = all_are_known(&Tables { chunks, ..Tables::default() }).unwrap_err().to_string();
        assert!(error.contains("row 1") && error.ends_with("found \"melt\""), "{error}");
    }
}
