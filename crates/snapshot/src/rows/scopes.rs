//! Chromium's lists about the scopes of scripts: which scopes there are, the variables that their contexts hold, and which of those each uses.
//!
//! Three lists: a scope's row says how many rows of the other two are its. Numbers of scopes may be below zero.
//! Source: V8 15's snapshots (Chromium 156) and DevTools' `ContextAnalyzer`, which reads them.

use super::header::{COLUMNS_MAX, Columns};
use super::{Damage, Numbers, Rows};
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

/// One of the lists; empty where the file has none.
#[derive(Clone, Debug)]
struct List<'a, const N: usize> {
    numbers: Numbers<'a>,
    rows: &'a Rows<'a>,
    columns: Option<Columns<N>>,
}

impl<const N: usize> List<'_, N> {
    /// The next row, and where it begins.
    fn read(&mut self) -> Result<Option<([u64; N], usize)>, Damage> {
        let Some(columns) = self.columns else { return Ok(None) };
        let mut row = [0; COLUMNS_MAX];
        let before = self.numbers.offset();
        Ok(self.numbers.row(&mut row[..columns.width])?.then(|| (columns.pick(&row), before)))
    }
}

impl ScopeRows<'_> {
    /// Byte of the file that comes next.
    pub fn offset(&self) -> usize {
        self.0.numbers.offset()
    }

    /// The next scope.
    pub fn read(&mut self) -> Result<Option<Scope>, Damage> {
        let Some(([script, id, depth, context_vars, uses], before)) = self.0.read()? else { return Ok(None) };
        let small = |number: u64| {
            u32::try_from(number).map(u64::from).map_err(|_| Damage::at(self.0.rows.bytes, before, "a depth and counts from 0 to 2^32"))
        };
        let script = self.0.rows.node(script, before)?;
        Ok(Some(Scope { script, id: id as i64, depth: small(depth)?, context_vars: small(context_vars)?, uses: small(uses)? }))
    }
}

impl ScopeVariableRows<'_> {
    /// Byte of the file that comes next.
    pub fn offset(&self) -> usize {
        self.0.numbers.offset()
    }

    /// The next variable's name.
    pub fn read(&mut self) -> Result<Option<StringId>, Damage> {
        let Some(([name], before)) = self.0.read()? else { return Ok(None) };
        self.0.rows.name(name, before).map(Some)
    }
}

impl ScopeUseRows<'_> {
    /// Byte of the file that comes next.
    pub fn offset(&self) -> usize {
        self.0.numbers.offset()
    }

    /// The next use: the scope that declares the variable, and its place there.
    pub fn read(&mut self) -> Result<Option<(i64, u64)>, Damage> {
        let Some(([scope, slot], before)) = self.0.read()? else { return Ok(None) };
        let slot = u32::try_from(slot).map_err(|_| Damage::at(self.0.rows.bytes, before, "a place from 0 to 2^32"))?;
        Ok(Some((scope as i64, slot.into())))
    }
}

impl<'a> Rows<'a> {
    /// The scopes of scripts.
    pub fn scopes(&'a self) -> ScopeRows<'a> {
        ScopeRows(List { numbers: self.numbers(Section::Scopes), rows: self, columns: self.scope_columns.map(|columns| columns.scope) })
    }

    /// The variables of those scopes.
    pub fn scope_variables(&'a self) -> ScopeVariableRows<'a> {
        let columns = self.scope_columns.map(|columns| columns.variable);
        ScopeVariableRows(List { numbers: self.numbers(Section::ScopeContextVars), rows: self, columns })
    }

    /// The variables that those scopes use.
    pub fn scope_uses(&'a self) -> ScopeUseRows<'a> {
        let columns = self.scope_columns.map(|columns| columns.use_of);
        ScopeUseRows(List { numbers: self.numbers(Section::ScopeUses), rows: self, columns })
    }
}
