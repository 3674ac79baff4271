//! The header of a snapshot: what its fields and types are called, how many rows follow, and where
//! the root is.
//!
//! Fields are found by name and never by place: Node 12 has six node fields, 16 to 20 have seven,
//! 24 has another six, and `node_types` keeps an entry for a field that is gone. Types are
//! translated once, while reading, into [`NodeType`] and [`EdgeType`], so that nothing behind the
//! reader depends on the numbers of one V8; a type that we do not know keeps its name.

use crate::ReadError;
use crate::reader::Cursor;
use crate::write::NodeField;

/// The content of a snapshot's `snapshot` key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Names of fields and types.
    pub meta: Meta,
    /// Rows of `nodes`.
    pub node_count: u64,
    /// Rows of `edges`.
    pub edge_count: u64,
    /// Rows of `trace_function_infos`; not 0 only when allocations were tracked.
    pub trace_function_count: u64,
    /// Index of the root's first field in `nodes`; V8 writes no such key and has the root first.
    pub root_index: u64,
    /// Bytes outside of the heap that V8 knows of, if the file states them (Node 24).
    pub extra_native_bytes: Option<u64>,
}

/// Names of fields and types, as in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Fields of a node.
    pub node_fields: Vec<String>,
    /// Names of node types, by their number.
    pub node_types: Vec<String>,
    /// Fields of an edge.
    pub edge_fields: Vec<String>,
    /// Names of edge types, by their number.
    pub edge_types: Vec<String>,
    /// Fields of a function that allocated.
    pub trace_function_info_fields: Vec<String>,
    /// Fields of a node of the allocation tree.
    pub trace_node_fields: Vec<String>,
    /// Fields of a sample; V8's, as those of all lists about objects, where the file names none.
    pub sample_fields: Vec<String>,
    /// Fields of a location.
    pub location_fields: Vec<String>,
    /// Fields of a scope (Chromium); none where the file names none.
    pub scope_fields: Vec<String>,
    /// Fields of a scope's variable.
    pub scope_context_var_fields: Vec<String>,
    /// Fields of a use of a variable.
    pub scope_use_fields: Vec<String>,
    /// Entries of `node_types` that name no types; they may be more than there are fields.
    pub(crate) node_kinds: usize,
}

macro_rules! types {
    ($(#[$doc:meta])* $name:ident, $($(#[$variant_doc:meta])* $variant:ident = $number:literal, $text:literal;)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub(crate) u8);

        #[allow(non_upper_case_globals, reason = "they read as variants of an enum that the file may extend")]
        impl $name {
            $($(#[$variant_doc])* pub const $variant: $name = $name($number);)*
            /// Types from this number on are the file's own: less this number, they are the numbers
            /// of the types in the file.
            pub(crate) const OWN: u8 = 64;

            /// The type of that name in V8's files.
            fn known(name: &str) -> Option<$name> {
                match name { $($text => Some($name($number)),)* _ => None }
            }

            /// V8's name of the type; `None` for a type of the file's own.
            pub fn known_name(self) -> Option<&'static str> {
                match self.0 { $($number => Some($text),)* _ => None }
            }

            /// The types of a file, by their number there. `names` has at most 128 entries.
            pub(crate) fn table(names: &[String]) -> Vec<$name> {
                names.iter().enumerate().map(|(number, name)| Self::known(name).unwrap_or($name(Self::OWN + number as u8))).collect()
            }

            /// Its name; `names` are those of the file.
            pub fn name(self, names: &[String]) -> &str {
                match self.known_name() {
                    Some(name) => name,
                    None => names.get(usize::from(self.0.wrapping_sub(Self::OWN))).map_or("", String::as_str),
                }
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.known_name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, "own type {}", self.0.wrapping_sub(Self::OWN)),
                }
            }
        }
    };
}

types! {
    /// What a node is.
    NodeType,
    /// Internals of the engine that have no better type.
    Hidden = 0, "hidden";
    /// An array of elements or of internals.
    Array = 1, "array";
    /// A string with its own characters.
    String = 2, "string";
    /// An object of the language.
    Object = 3, "object";
    /// Compiled code and what belongs to it.
    Code = 4, "code";
    /// A function.
    Closure = 5, "closure";
    /// A regular expression.
    RegExp = 6, "regexp";
    /// A number on the heap.
    Number = 7, "number";
    /// Something of the embedder: a DOM node, a wrapper, a buffer.
    Native = 8, "native";
    /// A root, or a group of roots.
    Synthetic = 9, "synthetic";
    /// A string made of two others.
    ConcatenatedString = 10, "concatenated string";
    /// A part of another string.
    SlicedString = 11, "sliced string";
    /// A symbol.
    Symbol = 12, "symbol";
    /// A big integer.
    BigInt = 13, "bigint";
    /// Maps, descriptors and other descriptions of shapes.
    ObjectShape = 14, "object shape";
    /// An object of WebAssembly.
    WasmObject = 15, "wasm object";
}

types! {
    /// What a reference is.
    EdgeType,
    /// A variable of a function's context.
    Context = 0, "context";
    /// An element; its name is a number.
    Element = 1, "element";
    /// A property.
    Property = 2, "property";
    /// A field of the engine, with a name.
    Internal = 3, "internal";
    /// A field of the engine, with a number.
    Hidden = 4, "hidden";
    /// A shortcut past internals; from the root it marks a global object.
    Shortcut = 5, "shortcut";
    /// Keeps nothing alive.
    Weak = 6, "weak";
    /// Not to be shown.
    Invisible = 7, "invisible";
}

impl EdgeType {
    /// Whether its name is a number rather than a string.
    pub fn is_indexed(self) -> bool {
        self == EdgeType::Element || self == EdgeType::Hidden
    }
}

/// The longest row that is believed.
pub(crate) const FIELDS_MAX: usize = 16;
/// The longest list of types that is believed.
const TYPES_MAX: usize = 128;
/// V8's fields of the small lists, which other programs leave unnamed where they have no rows.
pub(crate) const TRACE_FUNCTION_FIELDS: [&str; 6] =
    ["function_id", "name", "script_name", "script_id", "line", "column"];
pub(crate) const TRACE_NODE_FIELDS: [&str; 5] =
    ["id", "function_info_index", "count", "size", "children"];
pub(crate) const SAMPLE_FIELDS: [&str; 2] = ["timestamp_us", "last_assigned_id"];
pub(crate) const LOCATION_FIELDS: [&str; 4] = ["object_index", "script_id", "line", "column"];

/// Where the header's numbers stand in the file, for messages about them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CountPlaces {
    pub nodes: usize,
    pub edges: usize,
    pub root: usize,
}

impl Header {
    /// Reads the value of the key `snapshot`.
    pub(crate) fn read(cursor: &mut Cursor) -> Result<(Header, CountPlaces), ReadError> {
        let (mut header, mut places) = (Header::default(), CountPlaces::default());
        let (mut has_meta, mut has_nodes, mut has_edges) = (false, false, false);
        cursor.peek();
        let from = cursor.at;
        object(cursor, "the header, an object", |cursor, key| {
            cursor.peek();
            let at = cursor.at;
            match key {
                b"meta" => {
                    header.meta = Meta::read(cursor)?;
                    has_meta = true;
                }
                b"node_count" => {
                    header.node_count = cursor.integer("the number of nodes")?;
                    (has_nodes, places.nodes) = (true, at);
                }
                b"edge_count" => {
                    header.edge_count = cursor.integer("the number of edges")?;
                    (has_edges, places.edges) = (true, at);
                }
                b"trace_function_count" => {
                    header.trace_function_count = cursor.integer("the number of functions")?
                }
                b"root_index" => {
                    (header.root_index, places.root) = (cursor.integer("the root's index")?, at)
                }
                b"extra_native_bytes" => {
                    header.extra_native_bytes = Some(cursor.integer("a number of bytes")?)
                }
                _ => cursor.skip().map(|_| ())?,
            }
            Ok(())
        })?;
        for (has, key) in [(has_meta, "meta"), (has_nodes, "node_count"), (has_edges, "edge_count")]
        {
            if !has {
                return Err(ReadError::saying(
                    from,
                    format!("a header with the key `{key}`"),
                    "a header without it",
                ));
            }
        }
        header.check_root(cursor.bytes, places.root)?;
        Ok((header, places))
    }

    /// Every heap has a root, and it is one of its nodes.
    fn check_root(&self, bytes: &[u8], at: usize) -> Result<(), ReadError> {
        let fields = self.meta.node_fields.len() as u64;
        if self.root_index.is_multiple_of(fields)
            && (self.root_index == 0 || self.root_index / fields < self.node_count)
        {
            return Ok(());
        }
        Err(ReadError::at(
            bytes,
            at,
            format!(
                "a multiple of {fields} below {}, the root's index",
                self.node_count.saturating_mul(fields)
            ),
        ))
    }

    /// Bounds the counts by what the file can hold, and by what an ordinal can.
    pub(crate) fn check_counts(&self, places: &CountPlaces, bytes: &[u8]) -> Result<(), ReadError> {
        let checks = [
            ("node_count", self.node_count, self.meta.node_fields.len(), places.nodes),
            ("edge_count", self.edge_count, self.meta.edge_fields.len(), places.edges),
        ];
        for (key, count, fields, at) in checks {
            // A digit and a comma a field; the last has no comma.
            let most = (bytes.len() as u64 + 1) / (2 * fields as u64);
            if count > most {
                let expected =
                    format!("a `{key}` of at most {most}, which {} bytes can hold", bytes.len());
                return Err(ReadError::saying(at, expected, count.to_string()));
            }
            if count >= u64::from(u32::MAX) {
                return Err(ReadError::saying(
                    at,
                    format!("a `{key}` below 2^32 - 1, the most that is supported"),
                    count.to_string(),
                ));
            }
        }
        if self.node_count == 0 {
            return Err(ReadError::saying(
                places.nodes,
                "a `node_count` of at least 1, the root",
                "0",
            ));
        }
        Ok(())
    }
}

/// A list of names, and where it stands.
#[derive(Clone, Debug, Default)]
struct Names {
    at: usize,
    names: Vec<String>,
}

impl Names {
    fn read(cursor: &mut Cursor, what: &str) -> Result<Names, ReadError> {
        cursor.peek();
        Ok(Names { at: cursor.at, names: cursor.strings(what)? })
    }

    /// These must be among them.
    fn needed(&self, names: &[&str], of: &str) -> Result<(), ReadError> {
        match names.iter().find(|name| field(&self.names, name).is_none()) {
            Some(name) => Err(ReadError::saying(
                self.at,
                format!("the {of} field `{name}`"),
                format!("the fields {:?}", self.names),
            )),
            None if self.names.len() > FIELDS_MAX => Err(ReadError::saying(
                self.at,
                "at most 16 fields",
                format!("{}", self.names.len()),
            )),
            None => Ok(()),
        }
    }

    /// These, in V8's order, where there are none; else they must be among them.
    fn or_usual(mut self, names: &[&str], of: &str) -> Result<Vec<String>, ReadError> {
        if self.names.is_empty() {
            self.names = names.iter().map(|name| (*name).to_owned()).collect();
        }
        self.needed(names, of)?;
        Ok(self.names)
    }
}

/// Lists of types' names, and where they stand.
#[derive(Clone, Debug, Default)]
struct Types {
    at: usize,
    lists: Vec<Option<Vec<String>>>,
}

impl Types {
    fn read(cursor: &mut Cursor) -> Result<Types, ReadError> {
        cursor.peek();
        Ok(Types { at: cursor.at, lists: type_lists(cursor)? })
    }

    /// The names of types: the entry of the lists that belongs to the field `type`.
    fn of(self, fields: &[String], of: &str) -> Result<Vec<String>, ReadError> {
        let place = field(fields, "type").unwrap_or(0);
        match self.lists.into_iter().nth(place).flatten() {
            Some(names) if named_twice(&names).is_some() => {
                let twice = named_twice(&names).unwrap_or_default();
                Err(ReadError::saying(
                    self.at,
                    format!("names of {of} types, each once"),
                    format!("`{twice}` twice"),
                ))
            }
            Some(names) if (1..=TYPES_MAX).contains(&names.len()) => Ok(names),
            _ => {
                let expected = format!(
                    "1 to {TYPES_MAX} names of {of} types at the place of the field `type`"
                );
                Err(ReadError::saying(self.at, expected, "no such list"))
            }
        }
    }
}

/// `meta` as it stands in the file.
#[derive(Debug, Default)]
struct RawMeta {
    node_fields: Names,
    node_types: Types,
    edge_fields: Names,
    edge_types: Types,
    trace_functions: Names,
    trace_nodes: Names,
    samples: Names,
    locations: Names,
    scopes: Names,
    scope_variables: Names,
    scope_uses: Names,
}

impl Meta {
    fn read(cursor: &mut Cursor) -> Result<Meta, ReadError> {
        cursor.peek();
        // What is not there at all is missed at the beginning.
        let missing = || Names { at: cursor.at, names: Vec::new() };
        let mut raw =
            RawMeta { node_fields: missing(), edge_fields: missing(), ..RawMeta::default() };
        (raw.node_types.at, raw.edge_types.at) = (cursor.at, cursor.at);
        object(cursor, "`meta`, an object", |cursor, key| {
            match key {
                b"node_types" => raw.node_types = Types::read(cursor)?,
                b"edge_types" => raw.edge_types = Types::read(cursor)?,
                b"node_fields" => {
                    raw.node_fields = Names::read(cursor, "the names of node fields")?
                }
                b"edge_fields" => {
                    raw.edge_fields = Names::read(cursor, "the names of edge fields")?
                }
                b"trace_function_info_fields" => {
                    raw.trace_functions = Names::read(cursor, "a list of names")?
                }
                b"trace_node_fields" => raw.trace_nodes = Names::read(cursor, "a list of names")?,
                b"sample_fields" => raw.samples = Names::read(cursor, "a list of names")?,
                b"location_fields" => raw.locations = Names::read(cursor, "a list of names")?,
                b"scope_fields" => raw.scopes = Names::read(cursor, "a list of names")?,
                b"scope_context_var_fields" => {
                    raw.scope_variables = Names::read(cursor, "a list of names")?
                }
                b"scope_use_fields" => raw.scope_uses = Names::read(cursor, "a list of names")?,
                _ => cursor.skip().map(|_| ())?,
            }
            Ok(())
        })?;
        Meta::of(raw)
    }

    fn of(raw: RawMeta) -> Result<Meta, ReadError> {
        raw.node_fields.needed(&["type", "name", "id", "self_size", "edge_count"], "node")?;
        let known = raw
            .node_fields
            .names
            .iter()
            .filter(|field| NodeField::of_name(field).is_some())
            .cloned()
            .collect::<Vec<_>>();
        if let Some(name) = named_twice(&known) {
            return Err(ReadError::saying(
                raw.node_fields.at,
                "each node field once",
                format!("`{name}` twice"),
            ));
        }
        raw.edge_fields.needed(&["type", "name_or_index", "to_node"], "edge")?;
        let trace_nodes_at = raw.trace_nodes.at;
        let meta = Meta {
            node_kinds: raw.node_types.lists.iter().filter(|list| list.is_none()).count(),
            node_types: raw.node_types.of(&raw.node_fields.names, "node")?,
            edge_types: raw.edge_types.of(&raw.edge_fields.names, "edge")?,
            node_fields: raw.node_fields.names,
            edge_fields: raw.edge_fields.names,
            trace_function_info_fields: raw
                .trace_functions
                .or_usual(&TRACE_FUNCTION_FIELDS, "function's")?,
            trace_node_fields: raw.trace_nodes.or_usual(&TRACE_NODE_FIELDS, "allocation tree's")?,
            sample_fields: raw.samples.or_usual(&SAMPLE_FIELDS, "sample's")?,
            location_fields: raw.locations.or_usual(&LOCATION_FIELDS, "location's")?,
            scope_fields: raw.scopes.names,
            scope_context_var_fields: raw.scope_variables.names,
            scope_use_fields: raw.scope_uses.names,
        };
        if meta.trace_node_fields.last().is_some_and(|last| last != "children") {
            let found = format!("the fields {:?}", meta.trace_node_fields);
            return Err(ReadError::saying(
                trace_nodes_at,
                "`children` as the last of `trace_node_fields`",
                found,
            ));
        }
        for fields in [&meta.scope_fields, &meta.scope_context_var_fields, &meta.scope_use_fields] {
            if fields.len() > FIELDS_MAX {
                return Err(ReadError::saying(
                    raw.scopes.at,
                    "at most 16 fields",
                    format!("{}", fields.len()),
                ));
            }
        }
        Ok(meta)
    }
}

/// Where a field stands in a row.
pub(crate) fn field(fields: &[String], name: &str) -> Option<usize> {
    fields.iter().position(|field| field == name)
}

/// A type's name that stands twice: readers differ in which of the two they then mean.
pub(crate) fn named_twice(names: &[String]) -> Option<&str> {
    names
        .iter()
        .enumerate()
        .find(|(at, name)| names[..*at].contains(name))
        .map(|(_, name)| name.as_str())
}

/// Lists of type names; entries that are words (`"number"`) are none.
fn type_lists(cursor: &mut Cursor) -> Result<Vec<Option<Vec<String>>>, ReadError> {
    let mut lists = Vec::new();
    cursor.expect(b'[', "the types of fields")?;
    while !cursor.take(b']') {
        if !lists.is_empty() {
            cursor.expect(b',', "a comma or `]`")?;
        }
        if cursor.peek() == Some(b'[') {
            lists.push(Some(cursor.strings("the names of types")?));
        } else {
            cursor.string("the type of a field")?;
            lists.push(None);
        }
    }
    Ok(lists)
}

/// Walks the keys of an object.
fn object<'a>(
    cursor: &mut Cursor<'a>,
    what: &str,
    mut each: impl FnMut(&mut Cursor<'a>, &[u8]) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    cursor.expect(b'{', what)?;
    let mut first = true;
    while !cursor.take(b'}') {
        if !first {
            cursor.expect(b',', "a comma or `}`")?;
        }
        first = false;
        let key = cursor.string("a key in quotes")?;
        cursor.expect(b':', "a colon")?;
        each(cursor, key)?;
    }
    Ok(())
}
