//! What is known of each type before the walk: its name, where its references are, how large its
//! objects are.

use super::attributes::Layout;
use super::object::{self, Address, address, flags_of, pointer, var_size};
use heaplab_snapshot::names::StringId;
use pyo3::ffi;
use pyo3::prelude::*;
use std::collections::HashMap;

/// `Py_TPFLAGS_HAVE_GC`.
const HAVE_GC: u64 = 1 << 14;
/// `Py_TPFLAGS_HEAPTYPE`.
const HEAP_TYPE: u64 = 1 << 9;
const LIST_SUBCLASS: u64 = 1 << 25;
const TUPLE_SUBCLASS: u64 = 1 << 26;
const DICT_SUBCLASS: u64 = 1 << 29;
/// `PyGC_Head`.
const COLLECTOR_HEADER_BYTES: u64 = 16;
/// Pointers to dictionary and weak references before an object.
const WORDS_BEFORE_BYTES: u64 = 16;
/// `T_OBJECT` and `T_OBJECT_EX` of a member.
const OBJECT_MEMBERS: [i32; 2] = [6, 16];

/// What an object is to the walk. The numbers are those of `_KINDS` in snapshot.py.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Other,
    String,
    Integer,
    Float,
    Dict,
    List,
    Tuple,
    Function,
    Code,
    Type,
    Builtin,
    Cell,
    Method,
    Module,
    /// An array of NumPy, whose layout is known.
    Array,
    /// A `_Document` of lxml.
    Tree,
}

impl Kind {
    fn of_number(number: u8) -> Kind {
        use Kind::*;
        let all = [Other, String, Integer, Float, Dict, List, Tuple, Function, Code, Type, Builtin, Cell, Method, Module, Array, Tree];
        all.get(usize::from(number)).copied().unwrap_or(Other)
    }
}

/// What Python says of a type.
pub struct Described<'a, 'py> {
    pub name: &'a str,
    pub kind: u8,
    pub basic_size: u64,
    pub item_size: u64,
    pub sizeof: Option<Bound<'py, PyAny>>,
    pub namespace: &'a Bound<'py, PyAny>,
    pub members: Vec<(String, Bound<'py, PyAny>)>,
    pub getters: Vec<Bound<'py, PyAny>>,
}

/// What is known of a type.
pub struct TypeInfo {
    pub name: Vec<u8>,
    /// The name's number in the strings of the file being written.
    pub name_id: Option<StringId>,
    pub kind: Kind,
    pub flags: u64,
    pub traverse: Option<ffi::traverseproc>,
    pub basic_size: u64,
    item_size: u64,
    /// A method of a built-in type that knows better; it lives as long as its type.
    sizeof: Option<Address>,
    /// The dictionary of the type itself.
    pub namespace: Option<Address>,
    /// Names and offsets of its objects' slots.
    pub members: Vec<(Vec<u8>, i64)>,
    /// Interned names of attributes that may be asked for, with their text.
    pub getters: Vec<(Vec<u8>, Address)>,
}

impl TypeInfo {
    pub fn is_dict(&self) -> bool {
        self.flags & DICT_SUBCLASS != 0
    }

    pub fn is_list(&self) -> bool {
        self.flags & LIST_SUBCLASS != 0
    }

    pub fn is_tuple(&self) -> bool {
        self.flags & TUPLE_SUBCLASS != 0
    }

    /// Whether its objects may have a dictionary of their own.
    pub fn may_have_dict(&self) -> bool {
        self.kind == Kind::Module || self.flags & HEAP_TYPE != 0
    }

    fn of_unknown(type_object: Address) -> TypeInfo {
        TypeInfo {
            name: b"type that appeared while walking".to_vec(),
            name_id: None,
            kind: Kind::Other,
            flags: flags_of(type_object),
            traverse: traverse(type_object),
            basic_size: 16,
            item_size: 0,
            sizeof: None,
            namespace: None,
            members: Vec::new(),
            getters: Vec::new(),
        }
    }
}

/// `tp_traverse` of types whose objects the collector may know.
fn traverse(type_object: Address) -> Option<ffi::traverseproc> {
    if flags_of(type_object) & HAVE_GC == 0 { None } else { object::traverse_of(type_object) }
}

/// All types.
#[derive(Default)]
pub struct Types {
    known: HashMap<Address, u32>,
    infos: Vec<TypeInfo>,
    /// Objects of one type often follow each other.
    recent: (Address, u32),
    minor: u8,
}

impl Types {
    pub fn add(&mut self, type_object: &Bound<'_, PyAny>, described: Described<'_, '_>) {
        self.minor = type_object.py().version_info().minor;
        let members = described.members.iter().filter_map(|(name, member)| {
            // SAFETY: exact member descriptors have their PyMemberDef (name, type, offset) after
            // PyDescr_COMMON, since Python 2.
            let (member_type, offset) = unsafe {
                let definition = object::word_at(address(member), 40);
                (object::word_at(definition, 8) as i32, object::word_at(definition, 16) as i64)
            };
            OBJECT_MEMBERS.contains(&member_type).then(|| (name.clone().into_bytes(), offset))
        });
        let mut namespace = None;
        if let Some(traverse) = object::traverse_of(object::type_of(address(described.namespace))) {
            // What is handed over is a proxy, which refers to the dictionary and nothing else.
            object::traverse(address(described.namespace), traverse, &mut |target| namespace = Some(target));
        }
        let getters = described.getters.iter().filter_map(|name| Some((name.extract::<String>().ok()?.into_bytes(), address(name))));
        let at = address(type_object);
        let info = TypeInfo {
            name: described.name.as_bytes().to_vec(),
            name_id: None,
            kind: Kind::of_number(described.kind),
            flags: flags_of(at),
            traverse: traverse(at),
            basic_size: described.basic_size,
            item_size: described.item_size,
            sizeof: described.sizeof.as_ref().map(address),
            namespace,
            members: members.collect(),
            getters: getters.collect(),
        };
        self.known.insert(at, self.infos.len() as u32);
        self.infos.push(info);
    }

    /// The type of an object.
    #[inline]
    pub fn of(&mut self, object: Address) -> &mut TypeInfo {
        let type_object = object::type_of(object);
        if self.recent.0 != type_object {
            let (known, infos) = (&mut self.known, &mut self.infos);
            let index = *known.entry(type_object).or_insert_with(|| {
                infos.push(TypeInfo::of_unknown(type_object));
                infos.len() as u32 - 1
            });
            self.recent = (type_object, index);
        }
        &mut self.infos[self.recent.1 as usize]
    }

    /// What is known of a type object, as an object.
    pub fn info_of_type(&self, type_object: Address) -> Option<&TypeInfo> {
        self.known.get(&type_object).map(|index| &self.infos[*index as usize])
    }

    /// Bytes of an object as `sys.getsizeof` counts them.
    pub fn size_of(&mut self, object: Address) -> u64 {
        let minor = self.minor;
        let info = self.of(object);
        // A static type has no header; 3.11 and 3.12 count one all the same.
        let static_type = info.kind == Kind::Type && flags_of(object) & HEAP_TYPE == 0;
        let collected = info.flags & HAVE_GC != 0 && (!static_type || matches!(minor, 11 | 12));
        let mut before = if collected { COLLECTOR_HEADER_BYTES } else { 0 };
        before += if Layout::has_words_before(info.flags, minor) { WORDS_BEFORE_BYTES } else { 0 };
        let own = match info.sizeof {
            Some(sizeof) => called_size(sizeof, object),
            None if info.item_size > 0 => Some(info.basic_size + info.item_size * var_size(object)),
            None => Some(info.basic_size),
        };
        before + own.unwrap_or(info.basic_size)
    }

    /// Whether `tp_traverse` may be called: a static type is not to be traversed.
    #[inline]
    pub fn traverse_for(&mut self, object: Address) -> Option<ffi::traverseproc> {
        let info = self.of(object);
        info.traverse.filter(|_| info.kind != Kind::Type || flags_of(object) & HEAP_TYPE != 0)
    }
}

/// Asks a built-in `__sizeof__`.
fn called_size(sizeof: Address, object: Address) -> Option<u64> {
    // SAFETY: a method descriptor of a built-in base of the object's type; it computes from the
    // object's fields and gives an int, given up here.
    unsafe {
        let result = ffi::PyObject_CallFunctionObjArgs(pointer(sizeof), pointer(object), std::ptr::null_mut::<ffi::PyObject>());
        if result.is_null() {
            ffi::PyErr_Clear();
            return None;
        }
        let size = super::text::integer(result as u64);
        ffi::Py_DECREF(result);
        size.and_then(|size| u64::try_from(size).ok())
    }
}
