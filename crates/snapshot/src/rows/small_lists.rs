//! The small lists for the reader, which keeps what is in them: who allocated, when, and where
//! things stand in the source. It passes them where they lie, and reads them when it has the
//! strings that they name.

use super::find::pass_numbers;
use super::{Rows, TraceStep};
use crate::ReadError;
use crate::reader::Cursor;
use crate::snapshot::{Location, Sample, Snapshot, TraceFunction, TraceNode};
use crate::write::Section;
use std::ops::Range;

/// Where lists lie.
pub(crate) type Ranges = [Option<Range<usize>>; Section::ALL.len()];

impl Rows<'_> {
    /// Passes a small list, and says where it lies; none where its fields are not known.
    pub(crate) fn pass_small(
        &self,
        section: Section,
        cursor: &mut Cursor<'_>,
    ) -> Result<Option<Range<usize>>, ReadError> {
        if section.is_of_scopes() && self.scope_columns.is_none() {
            return cursor.skip().map(|_| None);
        }
        cursor.peek();
        let start = cursor.at;
        if section == Section::TraceTree {
            cursor.skip()?;
        } else {
            pass_numbers(cursor, section)?;
        }
        Ok(Some(start..cursor.at))
    }

    /// Reads the small lists that lie there into the snapshot, which has its strings. Scopes are
    /// only checked.
    pub(crate) fn read_small(
        mut self,
        ranges: Ranges,
        snapshot: &mut Snapshot,
    ) -> Result<(), ReadError> {
        (self.ranges, self.string_count) = (ranges, snapshot.strings.len() as u64);
        let (mut functions, mut samples) = (self.trace_functions(), self.samples());
        if self.has(Section::TraceFunctionInfos) {
            while let Some(row) = functions.read()? {
                let [script_id, line, column] = row.place;
                snapshot.traces.functions.push(TraceFunction {
                    function_id: row.id,
                    name: row.name.0,
                    script_name: row.script_name.0,
                    script_id,
                    line,
                    column,
                });
            }
        }
        self.read_trace_tree(&mut snapshot.traces.nodes)?;
        while let Some([timestamp_us, last_assigned_id]) = samples.read()? {
            snapshot.samples.push(Sample { timestamp_us, last_assigned_id });
        }
        let mut locations = self.locations();
        while let Some(row) = locations.read()? {
            snapshot.locations.push(Location {
                node: row.node as u32,
                script_id: row.script_id as u32,
                line: row.line as u32,
                column: row.column as u32,
            });
        }
        self.check_scopes()
    }

    /// The tree of calls: lists within lists, as deep as the program's stacks were.
    fn read_trace_tree(&self, nodes: &mut Vec<TraceNode>) -> Result<(), ReadError> {
        let mut steps = self.trace_tree();
        let mut open: Vec<u32> = Vec::new();
        while let Some(step) = steps.read()? {
            let TraceStep::Open([id, function, count, size_bytes]) = step else {
                open.pop();
                continue;
            };
            let parent = open.last().copied();
            open.push(nodes.len() as u32);
            nodes.push(TraceNode { id, function: function as u32, count, size_bytes, parent });
        }
        Ok(())
    }
}
