//! Chromium's lists about the scopes of scripts: the scopes, the variables in their contexts, and
//! the variables that each scope uses.
//!
//! Three lists: a scope's row gives the number of its rows in the other two. Scope numbers may be
//! negative. Source: V8 15's snapshots (Chromium 156) and DevTools' `ContextAnalyzer`, which reads
//! them.

use super::header::{COLUMNS_MAX, Columns};
use super::{Numbers, Rows, first};
use crate::ReadError;
use crate::names::StringId;
use crate::write::{Scope, Section};

/// Scopes, one after the other.
#[derive(Clone, Debug)]
pub struct ScopeRows<'a>(List<'a, 5>);

/// The variables of all scopes, one after the other.
#[derive(Clone, Debug)]
pub struct ScopeVariableRows<'a>(List<'a, 1>);

/// The variables that scopes use, one after the other.
#[derive(Clone, Debug)]
pub struct ScopeUseRows<'a>(List<'a, 2>);

/// A row's fields, and their places in it.
type Row<const N: usize> = ([u64; N], [usize; N]);

/// One of the lists; empty where the file has none.
#[derive(Clone, Debug)]
struct List<'a, const N: usize> {
    numbers: Numbers<'a>,
    rows: &'a Rows<'a>,
    columns: Option<Columns<N>>,
}

impl<const N: usize> List<'_, N> {
    /// The next row, and the places of its fields.
    fn read(&mut self) -> Result<Option<Row<N>>, ReadError> {
        let Some(columns) = self.columns else { return Ok(None) };
        let mut row = [0; COLUMNS_MAX];
        Ok(self.numbers.row(&mut row[..columns.width])?.then(|| (columns.pick(&row), columns.at)))
    }
}

impl ScopeRows<'_> {
    /// Byte of the file that comes next.
    pub fn offset(&self) -> usize {
        self.0.numbers.offset()
    }

    /// The next scope.
    pub fn read(&mut self) -> Result<Option<Scope>, ReadError> {
        let Some(([script, id, depth, context_vars, uses], at)) = self.0.read()? else {
            return Ok(None);
        };
        let (rows, numbers) = (self.0.rows, &self.0.numbers);
        let small = |value, place: usize, what| rows.short(value, numbers, at[place], what);
        let depth = small(depth, 2, "a depth below 2^32");
        let (context_vars, uses) = (
            small(context_vars, 3, "a count of variables below 2^32"),
            small(uses, 4, "a count of uses below 2^32"),
        );
        match (rows.node(script, numbers, at[0]), depth, context_vars, uses) {
            (Ok(script), Ok(depth), Ok(context_vars), Ok(uses)) => {
                Ok(Some(Scope { script, id: id as i64, depth, context_vars, uses }))
            }
            (script, depth, context_vars, uses) => {
                Err(first([script.err(), depth.err(), context_vars.err(), uses.err()]))
            }
        }
    }
}

impl ScopeVariableRows<'_> {
    /// Byte of the file that comes next.
    pub fn offset(&self) -> usize {
        self.0.numbers.offset()
    }

    /// The next variable's name.
    pub fn read(&mut self) -> Result<Option<StringId>, ReadError> {
        let Some(([name], at)) = self.0.read()? else { return Ok(None) };
        self.0.rows.name(name, &self.0.numbers, at[0]).map(Some)
    }
}

impl ScopeUseRows<'_> {
    /// Byte of the file that comes next.
    pub fn offset(&self) -> usize {
        self.0.numbers.offset()
    }

    /// The next use: the scope that declares the variable, and its place there.
    pub fn read(&mut self) -> Result<Option<(i64, u64)>, ReadError> {
        let Some(([scope, slot], at)) = self.0.read()? else { return Ok(None) };
        Ok(Some((
            scope as i64,
            self.0.rows.short(slot, &self.0.numbers, at[1], "a place below 2^32")?,
        )))
    }
}

impl<'a> Rows<'a> {
    /// The scopes of scripts.
    pub fn scopes(&'a self) -> ScopeRows<'a> {
        ScopeRows(List {
            numbers: self.numbers(Section::Scopes),
            rows: self,
            columns: self.scope_columns.map(|columns| columns.scope),
        })
    }

    /// The variables of those scopes.
    pub fn scope_variables(&'a self) -> ScopeVariableRows<'a> {
        let columns = self.scope_columns.map(|columns| columns.variable);
        ScopeVariableRows(List {
            numbers: self.numbers(Section::ScopeContextVars),
            rows: self,
            columns,
        })
    }

    /// The variables that those scopes use.
    pub fn scope_uses(&'a self) -> ScopeUseRows<'a> {
        let columns = self.scope_columns.map(|columns| columns.use_of);
        ScopeUseRows(List { numbers: self.numbers(Section::ScopeUses), rows: self, columns })
    }

    /// Checks the lists of scopes.
    pub(super) fn check_scopes(&self) -> Result<(), ReadError> {
        let (mut scopes, mut variables, mut uses) =
            (self.scopes(), self.scope_variables(), self.scope_uses());
        while scopes.read()?.is_some() {}
        while variables.read()?.is_some() {}
        while uses.read()?.is_some() {}
        self.scopes_belong_together().map_or(Ok(()), Err)
    }

    /// Checks that scopes declare as many rows as the lists of variables have. Returns the first
    /// surplus row, or the place of the first missing one.
    pub(crate) fn scopes_belong_together(&self) -> Option<ReadError> {
        let (mut scopes, mut announced) = (self.scopes(), [0u64; 2]);
        while let Ok(Some(scope)) = scopes.read() {
            announced = [
                announced[0].saturating_add(scope.context_vars),
                announced[1].saturating_add(scope.uses),
            ];
        }
        let (mut variables, mut uses) = (self.scope_variables(), self.scope_uses());
        self.rows_are(announced[0], Section::ScopeContextVars, || {
            Some((variables.read().ok()??, variables.0.numbers.field_at(0)).1)
        })
        .or_else(|| {
            self.rows_are(announced[1], Section::ScopeUses, || {
                Some((uses.read().ok()??, uses.0.numbers.field_at(0)).1)
            })
        })
    }

    /// Compares the number of a list's rows with the expected one; `next` returns the place of each
    /// row.
    fn rows_are(
        &self,
        expected: u64,
        section: Section,
        mut next: impl FnMut() -> Option<usize>,
    ) -> Option<ReadError> {
        let mut there = 0;
        while let Some(at) = next() {
            if there == expected {
                return Some(ReadError::at(
                    self.bytes,
                    at,
                    format!("`]` behind {expected} rows, as `scopes` say"),
                ));
            }
            there += 1;
        }
        let list = if self.has(section) { section } else { Section::Scopes };
        let key = section.key();
        (there < expected).then(|| {
            self.at_end_of(
                list,
                format!("{expected} rows of `{key}`, as `scopes` say ({there} are there)"),
            )
        })
    }
}
