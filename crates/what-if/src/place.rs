//! The requests that a rule concerns: those of a function and its callees, or those of given
//! stacks.
//!
//! A function is named as `heaplab_trace` finds it (`Tables::stacks_through`).

use crate::WhatIfError;
use heaplab_trace::StackId;
use heaplab_trace::tables::Tables;

/// Which requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Stacks with a function of this name.
    Function(String),
    /// Those of these stacks.
    Stacks {
        /// What to call them.
        name: String,
        /// Rows of the `stacks` table; 0: requests without a stack.
        stacks: Vec<StackId>,
    },
}

impl Place {
    /// What to call it.
    pub fn name(&self) -> &str {
        match self {
            Place::Function(name) | Place::Stacks { name, .. } => name,
        }
    }

    /// For each row of `stacks`, whether the place contains it.
    ///
    /// # Errors
    /// No stack has the function.
    pub(crate) fn rows(&self, tables: &Tables) -> Result<Vec<bool>, WhatIfError> {
        let mut rows = vec![false; tables.stacks.len().max(1)];
        match self {
            Place::Stacks { stacks, .. } => {
                for stack in stacks {
                    if let Some(row) = rows.get_mut(*stack as usize) {
                        *row = true;
                    }
                }
            }
            Place::Function(name) => rows = stacks_through(tables, name)?,
        }
        Ok(rows)
    }
}

/// For each row of `stacks`, whether it has the function.
///
/// # Errors
/// No stack has it.
pub(crate) fn stacks_through(tables: &Tables, name: &str) -> Result<Vec<bool>, WhatIfError> {
    let rows = tables.stacks_through(name);
    if !rows.contains(&true) {
        return Err(WhatIfError::NoFunction {
            name: name.into(),
            near: tables.functions_like(name),
        });
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaplab_trace::tables::{Frame, StackNode};

    #[test]
    fn a_function_is_what_it_calls_and_what_is_inlined_into_it() {
        let frame = |name: &str, inlined_into| Frame {
            function: Some(name.into()),
            inlined_into,
            ..Frame::default()
        };
        let tables = Tables {
            frames: vec![frame("inner", Some(1)), frame("outer", None), frame("main", None)],
            stacks: vec![
                StackNode::default(),
                StackNode { parent: 0, frame: 2 },
                StackNode { parent: 1, frame: 0 },
                StackNode { parent: 2, frame: 2 },
            ],
            ..Tables::default()
        };
        let rows = |name: &str| Place::Function(name.into()).rows(&tables).unwrap();
        assert_eq!(rows("outer"), [false, false, true, true]);
        assert_eq!(rows("inner"), [false, false, true, true]);
        assert_eq!(rows("main"), [false, true, true, true]);
        let error = Place::Function("out".into()).rows(&tables).unwrap_err().to_string();
        assert_eq!(error, "no stack has a function called \"out\"; there are outer");
    }
}
