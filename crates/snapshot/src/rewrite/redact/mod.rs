//! `redact`: a snapshot that shows its shape and hides its strings.
//!
//! Contents of strings, numbers and regular expressions are always replaced, and so are addresses
//! of scripts and pages. The caller chooses which names stay ([`Keep`]). By default, names stay
//! that occur as identifiers of source text (see `evidence`; script sources in the file, source
//! files from the caller) or in a list of the runtime's own names. A replacement has the length of
//! the original. Equal texts get equal replacements (under one key, but for a few short ones, in
//! other files too), so duplicates, growth and diffs can still be studied. Julia redacts by default
//! for the same reason (issue 55326).
//!
//! A string that is both content and name becomes two. Names that a reader computes with keep their
//! form: pairs of a WeakMap, `<div id="...">`, `Window / https://...`.
//!
//! Names of types that V8 does not have are those of another program, and are numbered.
//!
//! These stay: indices of elements (a map keyed by small numbers keeps them), sizes, ids, lines and
//! columns, and numbers of up to six digits that the runtime gives its own references. V8 counts
//! slots so, and the heap's shape needs them. In V8's files no text of the program is ever such a
//! name; in another writer's file one may be.

mod evidence;
mod identifiers;
mod lexer;
mod pairs;
mod stand_in;

pub use identifiers::Identifiers;

use super::ids::Ids;
use super::ladder::is_weak_map_pair;
use super::small_lists::{Places, Use, copy_small_lists};
use super::{FileStrings, Progress, RewriteError, Ticker};
use crate::names::{Hash, StringId, StringsStorage};
use crate::rows::Rows;
use crate::write::{EDGE_TYPES, EdgeName, Layout, NODE_TYPES, Node, Writer, Written};
use evidence::collect_identifiers;
use pairs::{Pair, Paired};
use stand_in::StandIns;
use std::io::Write;

/// Which names stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Keep {
    /// Identifiers of source code, and the runtime's own names.
    #[default]
    Identifiers,
    /// All names of properties, variables, functions and classes.
    /// Addresses among the names of functions and classes are replaced all the same.
    Names,
    /// Only the runtime's own names.
    Own,
}

/// How a file is redacted.
#[derive(Clone, Debug)]
pub struct Redaction {
    /// Which names stay.
    pub keep: Keep,
    /// Names that may stay besides those found in the file.
    pub identifiers: Identifiers,
    /// Of the keyed hash. A random one that is forgotten is safest; the same for several files
    /// keeps strings comparable.
    pub key: Key,
}

/// The key of the hash that stand-ins are drawn from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key([u8; 32]);

impl Key {
    /// From random bytes.
    pub fn new(random: [u8; 32]) -> Key {
        Key(random)
    }

    /// A shorter secret can be guessed.
    pub const SECRET_BYTES_MIN: usize = 16;

    /// From a secret as a file holds it. The bytes are the secret, without an editor's line end.
    /// `None`: the secret is empty.
    pub fn of_secret(text: &[u8]) -> Option<(Key, usize)> {
        let line = text.strip_suffix(b"\n");
        let secret = line.map_or(text, |line| line.strip_suffix(b"\r").unwrap_or(line));
        (!secret.is_empty()).then(|| (Key::of_text(secret), secret.len()))
    }

    /// From a text. The key is only as strong as the text is long and unlikely: nothing here slows
    /// down guessing.
    pub fn of_text(text: &[u8]) -> Key {
        Key(blake3::derive_key("heaplab snapshot redact, 2026: what stands for strings", text))
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Key(secret)")
    }
}

/// Counts of redacted strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redacted {
    /// The file.
    pub written: Written,
    /// Strings of the original.
    pub strings: usize,
    /// Of these, strings that stay in some place.
    pub kept: usize,
}

/// The use of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// The content of a string, number, symbol or regular expression.
    Content,
    /// What somebody called a property or variable.
    Name,
    /// What somebody called a class or a closure.
    Class,
    /// What somebody called a function or a script.
    Code,
    /// The runtime's name for an object of its own.
    System,
    /// The runtime's name for a reference of its own: often the number of a slot, "17" or "17 /
    /// content".
    Slot,
}

impl Role {
    fn is_runtimes(self) -> bool {
        matches!(self, Role::System | Role::Slot)
    }
}

const ROLES: usize = 6;
const UNDECIDED: StringId = StringId(u32::MAX);
/// Node types whose name is their content.
const CONTENT_TYPES: [&str; 7] =
    ["string", "concatenated string", "sliced string", "number", "symbol", "bigint", "regexp"];
/// Node types that the runtime names.
const SYSTEM_TYPES: [&str; 5] = ["hidden", "array", "synthetic", "native", "object shape"];
const SYSTEM_EDGES: [&str; 2] = ["internal", "weak"];

/// Writes the redacted file.
pub fn redact<W: Write>(
    rows: &Rows<'_>,
    redaction: Redaction,
    sink: W,
    progress: Progress<'_>,
) -> Result<(W, Redacted), RewriteError> {
    let FileStrings { strings, of_file } = FileStrings::read(rows)?;
    let roles = Roles::of(rows);
    let mut identifiers = redaction.identifiers;
    if redaction.keep == Keep::Identifiers {
        collect_identifiers(
            rows,
            |name| strings.bytes_of(of_file[name.0 as usize]),
            &mut identifiers,
        )?;
    }
    let mut names = Names {
        strings: &strings,
        of_file,
        stand_ins: StandIns::new(redaction.key, &strings),
        paired: Paired::of(&strings),
        keep: redaction.keep,
        identifiers: &identifiers,
        decided: std::array::from_fn(|_| vec![UNDECIDED; strings.len()]),
        kept: vec![false; strings.len()],
        text: Vec::new(),
    };
    let mut ticker = Ticker::new(progress, rows.counts.nodes + rows.counts.edges);
    let mut writer =
        Writer::with_strings(sink, layout(rows), rows.counts, StringsStorage::new(Hash::Mixed))?;
    let mut ids = Ids::of(rows);
    let mut nodes = rows.nodes();
    while let Some(node) = nodes.read()? {
        let role = roles.node[usize::from(node.node_type)];
        names.paired.meet(node.id, role, node.name);
        let name = names.of(writer.strings(), node.name, role)?;
        ids.write(&mut writer, Node { name, ..node })?;
        ticker.tick();
    }
    let mut edges = rows.edges();
    while let Some(edge) = edges.read()? {
        let name = match edge.name {
            EdgeName::Text(name) => EdgeName::Text(names.of(
                writer.strings(),
                name,
                roles.edge[usize::from(edge.edge_type)],
            )?),
            index => index,
        };
        writer.edge(edge.from, edge.edge_type, name, edge.to)?;
        ticker.tick();
    }
    let role = |used: Use| if used == Use::Variable { Role::Name } else { Role::Code };
    let places = Places { copies: 1, of: |node, _| Some(node) };
    copy_small_lists(
        rows,
        &mut writer,
        |strings, name, used| names.of(strings, name, role(used)),
        places,
    )?;
    let kept = names.kept.iter().filter(|kept| **kept).count();
    let (sink, written) = writer.finish()?;
    Ok((sink, Redacted { written, strings: strings.len(), kept }))
}

/// The file's layout. A type that V8 lacks gets its number as its name: its own name may identify
/// the program.
fn layout(rows: &Rows<'_>) -> Layout {
    let mut layout = rows.layout.clone();
    let rename = |names: &mut Vec<String>, known: &[&str]| {
        let foreign =
            names.iter_mut().enumerate().filter(|(_, name)| !known.contains(&name.as_str()));
        foreign.for_each(|(number, name)| *name = format!("type {number}"));
    };
    rename(&mut layout.node_types, &NODE_TYPES);
    rename(&mut layout.edge_types, &EDGE_TYPES);
    layout
}

/// Roles by type number.
struct Roles {
    node: Vec<Role>,
    edge: Vec<Role>,
}

impl Roles {
    fn of(rows: &Rows<'_>) -> Roles {
        let layout = &rows.layout;
        let node = layout.node_types.iter().map(|name| match name.as_str() {
            name if CONTENT_TYPES.contains(&name) => Role::Content,
            name if SYSTEM_TYPES.contains(&name) => Role::System,
            "code" => Role::Code,
            "object" | "closure" | "wasm object" => Role::Class,
            // The content of another program's types is unknown.
            _ => Role::Content,
        });
        let edge = layout.edge_types.iter().map(|name| match name.as_str() {
            name if SYSTEM_EDGES.contains(&name) => Role::Slot,
            name if EDGE_TYPES.contains(&name) => Role::Name,
            _ => Role::Content,
        });
        Roles { node: node.collect(), edge: edge.collect() }
    }
}

/// New names for old ones, one a role.
struct Names<'a> {
    strings: &'a StringsStorage,
    of_file: Vec<StringId>,
    stand_ins: StandIns<'a>,
    /// Nodes that names of WeakMap pairs mention. Edges have such names, and edges stand behind the
    /// nodes.
    paired: Paired,
    keep: Keep,
    identifiers: &'a Identifiers,
    decided: [Vec<StringId>; ROLES],
    kept: Vec<bool>,
    text: Vec<u8>,
}

impl Names<'_> {
    fn of(
        &mut self,
        new: &mut StringsStorage,
        name: StringId,
        role: Role,
    ) -> Result<StringId, RewriteError> {
        let number = self.of_file[name.0 as usize];
        let index = number.0 as usize;
        let known = self.decided[role as usize][index];
        if known != UNDECIDED {
            return Ok(known);
        }
        let original = self.strings.bytes_of(number);
        self.text.clear();
        self.decide(original, role)?;
        self.kept[index] |= self.text == original;
        let decided = new.intern_bytes(&self.text)?;
        self.decided[role as usize][index] = decided;
        Ok(decided)
    }

    /// Puts what stands for a string into `text`.
    fn decide(&mut self, original: &[u8], role: Role) -> Result<(), RewriteError> {
        if role != Role::Content && self.may_stay(original, role) {
            self.text.extend_from_slice(original);
            return Ok(());
        }
        match role {
            role if role.is_runtimes() && is_weak_map_pair(original) => {
                self.weak_map_pair(original)
            }
            Role::Content => Ok(self.stand_ins.of(original, &mut self.text)?),
            _ if memchr::memmem::find(original, b" / ").is_some() => self.parts(original, role),
            Role::System if original.starts_with(b"<") || original.starts_with(b"Detached <") => {
                self.tag(original)
            }
            _ => Ok(self.stand_ins.of(original, &mut self.text)?),
        }
    }

    fn may_stay(&self, name: &[u8], role: Role) -> bool {
        let number = role == Role::Slot && is_slot_number(name);
        let builtin = (role == Role::Code || role.is_runtimes()) && is_builtin(name);
        match self.keep {
            Keep::Names if role == Role::Name => true,
            Keep::Names if role == Role::Class && !is_address(name) => true,
            // A script may be a bare file.
            Keep::Names if role == Role::Code && !is_address(name) && !name.contains(&b'.') => true,
            Keep::Own | Keep::Names => self.identifiers.is_own(name) || number || builtin,
            Keep::Identifiers => self.identifiers.contains(name) || number || builtin,
        }
    }

    /// "system / Context / f", "Window / https://...", "17 / DeoptimizationEntry_Eager": part by
    /// part. Only the first can be the number of a slot.
    fn parts(&mut self, original: &[u8], role: Role) -> Result<(), RewriteError> {
        let mut rest = original;
        loop {
            let end = memchr::memmem::find(rest, b" / ");
            let part = &rest[..end.unwrap_or(rest.len())];
            let is_first = rest.len() == original.len();
            if self.may_stay(part, role) && (is_first || !is_slot_number(part)) {
                self.text.extend_from_slice(part);
            } else {
                self.stand_ins.of(part, &mut self.text)?;
            }
            let Some(end) = end else { return Ok(()) };
            self.text.extend_from_slice(b" / ");
            rest = &rest[end + 3..];
        }
    }

    /// "N / part of key (X @id) -> value (Y @id) pair in WeakMap (table @id)". X and Y are the
    /// names of the nodes with those ids. Each is decided like its node's name: a class that stays
    /// there stays here. A text that is no such node's name stays only if it is the runtime's own.
    fn weak_map_pair(&mut self, original: &[u8]) -> Result<(), RewriteError> {
        let Some(pair) = Pair::of(original) else {
            return Ok(self.stand_ins.of(original, &mut self.text)?);
        };
        self.text.extend_from_slice(pair.number);
        for (side, behind) in [(&pair.key, pair.between), (&pair.value, pair.end)] {
            let role =
                self.paired.role(side, |name| self.strings.bytes_of(self.of_file[name.0 as usize]));
            match role {
                _ if self.identifiers.is_own(side.name) => self.text.extend_from_slice(side.name),
                // A pair named as a pair is no name that V8 gives.
                Some(role) if !is_weak_map_pair(side.name) => self.decide(side.name, role)?,
                _ => self.stand_ins.of(side.name, &mut self.text)?,
            }
            self.text.extend_from_slice(behind);
        }
        Ok(())
    }

    /// `<div id="...">`: the tag stays, because DevTools' class consists of it. Attributes go.
    fn tag(&mut self, original: &[u8]) -> Result<(), RewriteError> {
        let start = original.iter().position(|byte| *byte == b'<').map_or(0, |at| at + 1);
        let length = original[start..]
            .iter()
            .take_while(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
            .count();
        let end = start + length;
        let known =
            HTML_TAGS.contains(&std::str::from_utf8(&original[start..end]).unwrap_or_default());
        let Some(attributes) = original[end..].strip_suffix(b">").filter(|_| known) else {
            return Ok(self.stand_ins.of(original, &mut self.text)?);
        };
        self.text.extend_from_slice(&original[..end]);
        match attributes {
            [] => {}
            [_, attributes @ ..] => {
                self.text.push(b' ');
                self.stand_ins.of(attributes, &mut self.text)?;
            }
        }
        self.text.push(b'>');
        Ok(())
    }
}

/// The number of a slot, as V8 names its own references: at most six digits, so that no telephone
/// number passes for one.
fn is_slot_number(name: &[u8]) -> bool {
    !name.is_empty() && name.len() <= 6 && name.iter().all(u8::is_ascii_digit)
}

/// "(ArrayConcat builtin)", "ArrayConcat (builtin)": V8's own code.
fn is_builtin(name: &[u8]) -> bool {
    let inner = name.strip_prefix(b"(").and_then(|name| name.strip_suffix(b" builtin)"));
    inner.or_else(|| name.strip_suffix(b" (builtin)")).is_some_and(identifiers::is_identifier)
}

/// Whether it may be the address of a script or a page: a path, or something with a scheme.
fn is_address(name: &[u8]) -> bool {
    let scheme = name
        .iter()
        .position(|byte| *byte == b':')
        .is_some_and(|at| at > 0 && name[..at].iter().all(u8::is_ascii_alphanumeric));
    scheme || name.iter().any(|byte| matches!(byte, b'/' | b'\\'))
}

/// Elements of HTML that documents are made of; an element of another name may be of a program's
/// own.
const HTML_TAGS: [&str; 58] = [
    "a", "article", "aside", "b", "body", "br", "button", "canvas", "div", "em", "fieldset",
    "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "head", "header", "hr", "html", "i",
    "iframe", "img", "input", "label", "li", "link", "main", "meta", "nav", "ol", "option", "p",
    "pre", "script", "section", "select", "small", "source", "span", "strong", "style", "svg",
    "table", "tbody", "td", "template", "textarea", "th", "thead", "title", "tr", "u", "ul",
    "video",
];

#[cfg(test)]
mod tests;
