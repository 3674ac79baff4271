//! The lists of a snapshot and their order, which is part of the format.

/// The lists of a snapshot, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// `nodes`
    Nodes,
    /// `edges`
    Edges,
    /// `trace_function_infos`
    TraceFunctionInfos,
    /// `trace_tree`
    TraceTree,
    /// `samples`
    Samples,
    /// `locations`
    Locations,
    /// `scopes`
    Scopes,
    /// `scope_context_vars`
    ScopeContextVars,
    /// `scope_uses`
    ScopeUses,
    /// `strings`
    Strings,
}

impl Section {
    /// All of them, in their order.
    pub const ALL: [Section; 10] = [
        Section::Nodes,
        Section::Edges,
        Section::TraceFunctionInfos,
        Section::TraceTree,
        Section::Samples,
        Section::Locations,
        Section::Scopes,
        Section::ScopeContextVars,
        Section::ScopeUses,
        Section::Strings,
    ];

    /// Its key.
    pub const fn key(self) -> &'static str {
        match self {
            Section::Nodes => "nodes",
            Section::Edges => "edges",
            Section::TraceFunctionInfos => "trace_function_infos",
            Section::TraceTree => "trace_tree",
            Section::Samples => "samples",
            Section::Locations => "locations",
            Section::Scopes => "scopes",
            Section::ScopeContextVars => "scope_context_vars",
            Section::ScopeUses => "scope_uses",
            Section::Strings => "strings",
        }
    }

    /// Whether only files with scopes have it; all other lists are in every file that is written
    /// here.
    pub(crate) fn is_of_scopes(self) -> bool {
        matches!(self, Section::Scopes | Section::ScopeContextVars | Section::ScopeUses)
    }
}
