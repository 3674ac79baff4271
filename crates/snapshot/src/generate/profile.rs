//! Times and counts of a snapshot by phase, as V8's `--profile-heap-snapshot`.

use crate::names::Counters;
use std::fmt;
use std::time::Duration;

/// Times and counts of one snapshot.
#[derive(Clone, Copy, Debug, Default)]
pub struct Profile {
    /// Generation: line ends of the scripts, before the walk.
    pub line_ends_time: Duration,
    /// Generation: the walk.
    pub walk_time: Duration,
    /// Serialization: nodes.
    pub nodes_time: Duration,
    /// Serialization: edges.
    pub edges_time: Duration,
    /// Serialization: locations and strings.
    pub rest_time: Duration,
    /// Nodes.
    pub nodes: u64,
    /// Edges.
    pub edges: u64,
    /// Scripts whose line ends were computed before the walk.
    pub scripts: usize,
    /// Bytes of source looked at for line ends.
    pub source_bytes: u64,
    /// Objects with a place in the source.
    pub locations: usize,
    /// Distinct strings.
    pub strings: usize,
    /// Names asked for in the first phase.
    pub generation_names: Counters,
    /// Names asked for in the second phase.
    pub serialization_names: Counters,
    /// Bytes of the identity map.
    pub identity_bytes: usize,
    /// Bytes of the strings and their table.
    pub strings_bytes: usize,
    /// Bytes kept between the phases besides those two.
    pub kept_bytes: usize,
    /// Bytes of the file.
    pub file_bytes: u64,
}

impl Profile {
    /// The document's first phase.
    pub fn generation(&self) -> Duration {
        self.line_ends_time + self.walk_time
    }

    /// The document's second phase.
    pub fn serialization(&self) -> Duration {
        self.nodes_time + self.edges_time + self.rest_time
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let names = |out: &mut fmt::Formatter<'_>, counters: &Counters| {
            let (mean, longest) = (counters.mean_probe(), counters.longest_probe);
            writeln!(
                out,
                "  names          {} asked for, {mean:.2} slots a name, {longest} at most",
                counters.lookups
            )
        };
        writeln!(out, "generation     {:9.1} ms", ms(self.generation()))?;
        let (scripts, scanned) = (self.scripts, self.source_bytes);
        writeln!(
            out,
            "  line ends    {:9.1} ms  {scripts} scripts, {scanned} bytes looked at",
            ms(self.line_ends_time)
        )?;
        writeln!(
            out,
            "  walk         {:9.1} ms  {} objects, {} references",
            ms(self.walk_time),
            self.nodes,
            self.edges
        )?;
        if self.generation_names.lookups > 0 {
            names(out, &self.generation_names)?;
        }
        writeln!(
            out,
            "serialization  {:9.1} ms  {} bytes",
            ms(self.serialization()),
            self.file_bytes
        )?;
        writeln!(out, "  nodes        {:9.1} ms", ms(self.nodes_time))?;
        writeln!(out, "  edges        {:9.1} ms", ms(self.edges_time))?;
        writeln!(
            out,
            "  the rest     {:9.1} ms  {} strings, {} locations",
            ms(self.rest_time),
            self.strings,
            self.locations
        )?;
        names(out, &self.serialization_names)?;
        let (identity, strings, kept) = (self.identity_bytes, self.strings_bytes, self.kept_bytes);
        write!(
            out,
            "memory         identity map {identity}, strings {strings}, besides {kept} bytes"
        )
    }
}
