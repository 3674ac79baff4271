//! The header of a snapshot: what its fields and types are called, how many rows follow, and where the root is.
//!
//! Fields are found by name and never by place: Node 12 has six node fields, 16 to 20 have seven, 24 has another six, and
//! `node_types` keeps an entry for a field that is gone. Types are translated once, while reading, into [`NodeType`] and
//! [`EdgeType`], so that nothing behind the reader depends on the numbers of one V8; a type that we do not know keeps its name.

use crate::ReadError;
use crate::reader::Cursor;
use crate::write::NodeField;

/// What a snapshot's `snapshot` key says.
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
    /// Bytes outside of the heap that V8 knows of (Node 24).
    pub extra_native_bytes: u64,
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
    /// Fields of a sample; `None` when the file has no samples.
    pub sample_fields: Option<Vec<String>>,
    /// Fields of a location; `None` when the file has no locations.
    pub location_fields: Option<Vec<String>>,
}

macro_rules! types {
    ($(#[$doc:meta])* $name:ident, $($(#[$variant_doc:meta])* $variant:ident = $number:literal, $text:literal;)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub(crate) u8);

        #[allow(non_upper_case_globals, reason = "they read as variants of an enum that the file may extend")]
        impl $name {
            $($(#[$variant_doc])* pub const $variant: $name = $name($number);)*
            /// Types from this number on are the file's own: their number in the file is what is left.
            pub(crate) const OWN: u8 = 64;

            /// The type of that name in V8's files.
            fn known(name: &str) -> Option<$name> {
                match name { $($text => Some($name($number)),)* _ => None }
            }

            /// Its name if it is one of V8's.
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
const FIELDS_MAX: usize = 16;
/// The longest list of types that is believed.
const TYPES_MAX: usize = 128;

impl Header {
    /// Reads the value of the key `snapshot`.
    pub(crate) fn read(cursor: &mut Cursor) -> Result<Header, ReadError> {
        let mut header = Header::default();
        let (mut has_meta, mut has_nodes, mut has_edges) = (false, false, false);
        let from = cursor.at;
        object(cursor, "the header, an object", |cursor, key| {
            match key {
                b"meta" => {
                    header.meta = Meta::read(cursor)?;
                    has_meta = true;
                }
                b"node_count" => {
                    header.node_count = cursor.integer("the number of nodes")?;
                    has_nodes = true;
                }
                b"edge_count" => {
                    header.edge_count = cursor.integer("the number of edges")?;
                    has_edges = true;
                }
                b"trace_function_count" => header.trace_function_count = cursor.integer("the number of functions")?,
                b"root_index" => header.root_index = cursor.integer("the root's index")?,
                b"extra_native_bytes" => header.extra_native_bytes = cursor.integer("a number of bytes")?,
                _ => cursor.skip()?,
            }
            Ok(())
        })?;
        for (has, key) in [(has_meta, "meta"), (has_nodes, "node_count"), (has_edges, "edge_count")] {
            if !has {
                return Err(ReadError::saying(from, format!("a header with the key `{key}`"), "a header without it"));
            }
        }
        Ok(header)
    }
}

impl Meta {
    fn read(cursor: &mut Cursor) -> Result<Meta, ReadError> {
        let mut meta = Meta::default();
        let (mut node_types, mut edge_types) = (Vec::new(), Vec::new());
        cursor.peek();
        let from = cursor.at;
        object(cursor, "`meta`, an object", |cursor, key| {
            match key {
                b"node_fields" => meta.node_fields = cursor.strings("the names of node fields")?,
                b"edge_fields" => meta.edge_fields = cursor.strings("the names of edge fields")?,
                b"node_types" => node_types = type_lists(cursor)?,
                b"edge_types" => edge_types = type_lists(cursor)?,
                b"trace_function_info_fields" => meta.trace_function_info_fields = cursor.strings("a list of names")?,
                b"trace_node_fields" => meta.trace_node_fields = cursor.strings("a list of names")?,
                b"sample_fields" => meta.sample_fields = Some(cursor.strings("a list of names")?),
                b"location_fields" => meta.location_fields = Some(cursor.strings("a list of names")?),
                _ => cursor.skip()?,
            }
            Ok(())
        })?;
        let needed = |fields: &[String], names: &[&str], of: &str| match names.iter().find(|name| field(fields, name).is_none()) {
            Some(name) => Err(ReadError::saying(from, format!("the {of} field `{name}`"), format!("the fields {fields:?}"))),
            None if fields.len() > FIELDS_MAX => Err(ReadError::saying(from, "at most 16 fields", format!("{}", fields.len()))),
            None => Ok(()),
        };
        needed(&meta.node_fields, &["type", "name", "id", "self_size", "edge_count"], "node")?;
        let known = meta.node_fields.iter().filter(|field| NodeField::of_name(field).is_some()).cloned().collect::<Vec<_>>();
        if let Some(name) = named_twice(&known) {
            return Err(ReadError::saying(from, "each node field once", format!("`{name}` twice")));
        }
        needed(&meta.edge_fields, &["type", "name_or_index", "to_node"], "edge")?;
        meta.node_types = types_of(&node_types, &meta.node_fields, from, "node")?;
        meta.edge_types = types_of(&edge_types, &meta.edge_fields, from, "edge")?;
        Ok(meta)
    }
}

/// Where a field stands in a row.
pub(crate) fn field(fields: &[String], name: &str) -> Option<usize> {
    fields.iter().position(|field| field == name)
}

/// A type's name that stands twice: readers differ in which of the two they then mean.
pub(crate) fn named_twice(names: &[String]) -> Option<&str> {
    names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)).map(|(_, name)| name.as_str())
}

/// The names of types: the entry of the lists that belongs to the field `type`.
fn types_of(lists: &[Option<Vec<String>>], fields: &[String], from: usize, of: &str) -> Result<Vec<String>, ReadError> {
    let place = field(fields, "type").unwrap_or(0);
    match lists.get(place) {
        Some(Some(names)) if named_twice(names).is_some() => {
            let twice = named_twice(names).unwrap_or_default();
            Err(ReadError::saying(from, format!("names of {of} types, each once"), format!("`{twice}` twice")))
        }
        Some(Some(names)) if (1..=TYPES_MAX).contains(&names.len()) => Ok(names.clone()),
        _ => Err(ReadError::saying(from, format!("1 to {TYPES_MAX} names of {of} types at the place of the field `type`"), "no such list")),
    }
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
