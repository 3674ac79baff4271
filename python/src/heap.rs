//! CPython's heap as an [`Embedder`].
//!
//! The root leads to `sys.modules`, to every module and frame, and to "(Other objects)", which
//! holds what was not met otherwise: objects that only C code refers to. That place is filled last,
//! so that it holds as little as it can, and first with what has references that no object
//! explains, so that a cycle hangs on the object that C code holds.

use super::attributes::Layout;
use super::ids::Young;
use super::lxml;
use super::ndarray::Array;
use super::object::{self, Address, FRAMES, OTHER, ROOT, address, entries, is_tracked, list_items, tuple_items, type_of, word_at};
use super::references::References;
use super::text;
use super::types::{Kind, Types};
use heaplab_snapshot::generate::{Description, EdgeSink, Embedder, NameSink, ObjectIds, OwnTexts, Position};
use heaplab_snapshot::names::StringId;
use heaplab_snapshot::write::{EdgeName, edge_type, node_type};
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::collections::HashMap;

/// Slots of the cache of names; a power of two.
const NAMES_CACHED: usize = 1 << 14;
/// No object has this address.
const UNKNOWN: (Address, StringId) = (0, StringId(0));

/// A frame of a thread.
struct Frame {
    name: Vec<u8>,
    code: Address,
    script: u64,
    line: u32,
    variables: Vec<(Vec<u8>, Address)>,
}

/// What the objects of a file take, bytes.
#[derive(Default)]
pub struct Measured {
    /// All of them, but for the memory behind arrays and trees.
    pub object_bytes: u64,
    /// The memory behind arrays of NumPy.
    pub array_bytes: u64,
    /// The trees of lxml.
    pub tree_bytes: u64,
}

/// The heap, and what is needed to walk it.
pub struct Heap {
    pub types: Types,
    pub young: Young,
    pub measured: Measured,
    memory: Option<lxml::Memory>,
    attributes: Option<Layout>,
    roots: Vec<(Vec<u8>, Address)>,
    frames: Vec<Frame>,
    scripts: HashMap<Vec<u8>, u64>,
    ids: ObjectIds,
    /// The collector's list, as a Python list, and how far it has been looked through from its end.
    objects: Address,
    left: usize,
    /// What only that list held, when it was emptied.
    alone: Vec<Py<PyAny>>,
    others: Vec<Address>,
    /// Objects that only C code holds, to be met before the rest; none before they are looked for.
    held_by_c: Option<Vec<Address>>,
    references: References,
    names: Vec<(Address, StringId)>,
    text: Vec<u8>,
}

impl Heap {
    pub fn new(attributes: Option<Layout>) -> Heap {
        Heap {
            types: Types::default(),
            young: Young::default(),
            measured: Measured::default(),
            memory: lxml::Memory::open(),
            attributes,
            roots: Vec::new(),
            frames: Vec::new(),
            scripts: HashMap::new(),
            ids: ObjectIds::default(),
            objects: 0,
            left: 0,
            alone: Vec::new(),
            others: Vec::new(),
            held_by_c: None,
            references: References::default(),
            names: vec![UNKNOWN; NAMES_CACHED],
            text: Vec::new(),
        }
    }

    pub fn names_attributes(&self) -> bool {
        self.attributes.is_some()
    }

    pub fn add_root(&mut self, name: &str, object: Address) {
        self.roots.push((name.as_bytes().to_vec(), object));
    }

    pub fn add_frame(&mut self, name: &str, code: Address, file: &str, line: u32, variables: Vec<(Vec<u8>, Address)>) {
        let script = self.script(file.as_bytes());
        self.frames.push(Frame { name: name.as_bytes().to_vec(), code, script, line, variables });
    }

    fn script(&mut self, file: &[u8]) -> u64 {
        if let Some(known) = self.scripts.get(file) {
            return *known;
        }
        let next = self.scripts.len() as u64 + 1;
        self.scripts.insert(file.to_vec(), next);
        next
    }

    /// Before the walk.
    pub fn begin(&mut self, objects: &Bound<'_, PyList>, ids: ObjectIds, remember: bool) {
        self.objects = address(objects);
        self.left = objects.len();
        self.ids = ids;
        self.ids.begin(remember);
    }

    /// After it.
    pub fn end(&mut self) -> ObjectIds {
        self.ids.end();
        std::mem::take(&mut self.ids)
    }

    /// What the walk alone kept alive. To be dropped when it is over: objects may end with code of
    /// their own.
    pub fn take_alone(&mut self) -> Vec<Py<PyAny>> {
        std::mem::take(&mut self.alone)
    }

    fn frame(&self, object: u64) -> Option<&Frame> {
        (object & FRAMES != 0).then(|| self.frames.get((object & !FRAMES) as usize)).flatten()
    }

    /// The objects that nothing met so far leads to, and that have more references than those of
    /// their like and the list: C code holds them, and they are why the others are alive. The
    /// collector tells what is garbage the same way. In the order of their births, reversed.
    fn find_held_by_c(&mut self, met: &dyn Fn(u64) -> bool) -> Vec<Address> {
        let mut unmet = Vec::new();
        let objects = self.objects;
        object::list_items(objects, |_, object| {
            if object != objects && !met(object) {
                unmet.push(object);
            }
        });
        // From each other, and one of the list.
        let mut known: HashMap<Address, usize> = unmet.iter().map(|object| (*object, 1)).collect();
        for object in &unmet {
            self.each_target(*object, &mut |target| {
                if let Some(count) = known.get_mut(&target) {
                    *count += 1;
                }
            });
        }
        unmet.retain(|object| object::references_to(*object) > known[object]);
        unmet.reverse();
        unmet
    }

    /// Where an object leads: the same objects in the same order in both passes.
    fn each_target(&mut self, object: Address, visit: &mut impl FnMut(Address)) {
        self.each_own(object, visit);
        if self.types.of(object).kind == Kind::Array {
            let array = Array::of(object);
            [array.base, array.description].into_iter().filter(|target| *target != 0).for_each(&mut *visit);
            array.items(&mut |_, item| visit(item));
        }
    }

    /// What an array of NumPy refers to.
    fn write_array(&self, object: Address, edges: &mut impl EdgeSink) {
        let array = Array::of(object);
        for (name, target) in [(&b"base"[..], array.base), (b"dtype", array.description)] {
            if target != 0 {
                edges.named(edge_type::INTERNAL, name, target);
            }
        }
        array.items(&mut |index, item| edges.element(index, item));
    }

    /// What its type shows of it.
    fn each_own(&mut self, object: Address, visit: &mut impl FnMut(Address)) {
        match self.types.of(object).kind {
            Kind::Dict => entries(object, |key, value| {
                visit(value);
                visit(key);
            }),
            Kind::List => list_items(object, |_, item| visit(item)),
            Kind::Tuple => tuple_items(object, |_, item| visit(item)),
            _ => match self.types.traverse_for(object) {
                Some(traverse) => object::traverse(object, traverse, visit),
                None => self.each_member(object, visit),
            },
        }
    }

    /// Of objects that the collector does not know: their slots; of a static type: its dictionary.
    fn each_member(&mut self, object: Address, visit: &mut impl FnMut(Address)) {
        if self.types.of(object).kind == Kind::Type {
            self.types.info_of_type(object).and_then(|info| info.namespace).into_iter().for_each(visit);
            return;
        }
        for (_, offset) in &self.types.of(object).members {
            // SAFETY: a slot of an object of this type, null or an object.
            let target = unsafe { word_at(object, *offset) };
            if target != 0 {
                visit(target);
            }
        }
    }

    /// The name of a string object, from the cache where it was asked for before.
    fn name_of_string(&mut self, string: Address, names: &mut impl NameSink) -> StringId {
        let slot = (string >> 4) as usize & (NAMES_CACHED - 1);
        if self.names[slot].0 != string {
            self.text.clear();
            text::append(string, &mut self.text);
            self.names[slot] = (string, names.intern(&self.text));
        }
        self.names[slot].1
    }

    /// What a reference by that key is called.
    fn label_of_key(&mut self, key: Address, names: &mut impl NameSink) -> (u8, EdgeName) {
        if text::is_string(key) {
            return (edge_type::PROPERTY, EdgeName::Text(self.name_of_string(key, names)));
        }
        if text::is_integer(key)
            && let Some(index) = text::integer(key).and_then(|index| u32::try_from(index).ok())
        {
            return (edge_type::ELEMENT, EdgeName::Index(u64::from(index)));
        }
        self.text.clear();
        match self.types.of(key).kind {
            Kind::Integer => text::append_integer(key, &mut self.text),
            Kind::Float => text::append_float(key, &mut self.text),
            _ => {
                let name = std::mem::take(&mut self.types.of(key).name);
                text::write_all(&mut self.text, format_args!("<{}>", String::from_utf8_lossy(&name)));
                self.types.of(key).name = name;
            }
        }
        (edge_type::PROPERTY, EdgeName::Text(names.intern(&self.text)))
    }

    /// References of an object whose traversal does not say their names.
    fn write_named(&mut self, object: Address, edges: &mut impl EdgeSink) {
        let mut references = std::mem::take(&mut self.references);
        references.begin();
        self.each_own(object, &mut |target| references.push(target));
        references.ready();
        if references.any_unnamed() {
            self.offer_attributes(object, &mut references, edges);
            self.offer_members(object, &mut references, edges);
            self.offer_items(object, &mut references, edges);
        }
        references.write(edges);
        self.references = references;
    }

    fn offer_attributes(&mut self, object: Address, references: &mut References, edges: &mut impl EdgeSink) {
        if let Some(layout) = self.attributes {
            let basic_size = self.types.of(object).basic_size as i64;
            layout.each(object, basic_size, &mut |name, value| {
                references.offer(value, || (edge_type::PROPERTY, EdgeName::Text(self.name_of_string(name, edges))));
            });
        }
        references.offer(type_of(object), || (edge_type::INTERNAL, EdgeName::Text(edges.intern(b"__class__"))));
    }

    fn offer_members(&mut self, object: Address, references: &mut References, edges: &mut impl EdgeSink) {
        let info = self.types.of(object);
        for (name, offset) in &info.members {
            // SAFETY: a slot of an object of this type, null or an object.
            let target = unsafe { word_at(object, *offset) };
            references.offer(target, || (edge_type::PROPERTY, EdgeName::Text(edges.intern(name))));
        }
        if info.kind != Kind::Code {
            for (name, getter) in &info.getters {
                if !references.any_unnamed() {
                    break;
                }
                if let Some(target) = object::attribute(object, *getter) {
                    references.offer(target, || (edge_type::INTERNAL, EdgeName::Text(edges.intern(name))));
                }
            }
        }
        if info.kind == Kind::Type
            && let Some(namespace) = self.types.info_of_type(object).and_then(|info| info.namespace)
        {
            references.offer(namespace, || (edge_type::INTERNAL, EdgeName::Text(edges.intern(b"__dict__"))));
        }
    }

    fn offer_items(&mut self, object: Address, references: &mut References, edges: &mut impl EdgeSink) {
        if !references.any_unnamed() {
            return;
        }
        let info = self.types.of(object);
        let (is_dict, is_list, is_tuple, has_dict) = (info.is_dict(), info.is_list(), info.is_tuple(), info.may_have_dict());
        let element = |index| (edge_type::ELEMENT, EdgeName::Index(index));
        if is_dict {
            entries(object, |key, value| references.offer(value, || self.label_of_key(key, edges)));
            let key_name = EdgeName::Text(edges.intern(b"(key)"));
            entries(object, |key, _| references.offer(key, || (edge_type::INTERNAL, key_name)));
        } else if is_list {
            list_items(object, |index, item| references.offer(item, || element(index)));
        } else if is_tuple {
            tuple_items(object, |index, item| references.offer(item, || element(index)));
        }
        // A dictionary that nothing else names is an instance's own.
        let dict = references.unnamed().find(|target| has_dict && self.types.of(*target).kind == Kind::Dict);
        if let Some(dict) = dict {
            references.offer(dict, || (edge_type::INTERNAL, EdgeName::Text(edges.intern(b"__dict__"))));
        }
    }

    /// A code object's file, if it is one.
    fn file_of_code(&mut self, code: Address) -> Option<Address> {
        let info = self.types.of(code);
        let (_, offset) = info.members.iter().find(|(name, _)| name == b"co_filename").filter(|_| info.kind == Kind::Code)?;
        // SAFETY: the slot of a code object that holds its file's name.
        Some(unsafe { word_at(code, *offset) }).filter(|file| *file != 0 && text::is_string(*file))
    }

    fn line_of_code(&mut self, code: Address) -> u32 {
        let getter = self.types.of(code).getters.iter().find(|(name, _)| name == b"co_firstlineno").map(|(_, getter)| *getter);
        getter.and_then(|getter| object::attribute_integer(code, getter)).and_then(|line| u32::try_from(line).ok()).unwrap_or(0)
    }

    fn getter(&mut self, object: Address, name: &[u8]) -> Option<Address> {
        let getter = self.types.of(object).getters.iter().find(|(known, _)| known == name).map(|(_, getter)| *getter)?;
        object::attribute(object, getter)
    }

    /// File and line of a function or a code object.
    fn place(&mut self, object: Address) -> Option<(Address, u32)> {
        let code = match self.types.of(object).kind {
            Kind::Function => self.getter(object, b"__code__")?,
            Kind::Code => object,
            _ => return None,
        };
        Some((self.file_of_code(code)?, self.line_of_code(code)))
    }

    /// "Session.login app.py:12"
    fn append_function(&mut self, object: Address) {
        let name = match self.types.of(object).kind {
            Kind::Function => self.getter(object, b"__qualname__"),
            _ => {
                let info = self.types.of(object);
                let members = ["co_qualname", "co_name"].map(|name| info.members.iter().find(|(known, _)| known == name.as_bytes()));
                // SAFETY: the slot of a code object that holds its name.
                members.into_iter().flatten().next().map(|(_, offset)| unsafe { word_at(object, *offset) })
            }
        };
        self.text.clear();
        if let Some(name) = name.filter(|name| *name != 0 && text::is_string(*name)) {
            text::append(name, &mut self.text);
        }
        if let Some((file, line)) = self.place(object) {
            let mut path = Vec::new();
            text::append(file, &mut path);
            let file = path.rsplit(|byte| *byte == b'/' || *byte == b'\\').next().unwrap_or_default();
            text::write_all(&mut self.text, format_args!(" {}:{line}", String::from_utf8_lossy(file)));
        }
    }

    /// Type and name of an object's node.
    fn node_name(&mut self, object: Address, names: &mut impl NameSink) -> (u8, StringId) {
        self.text.clear();
        let kind = match self.types.of(object).kind {
            Kind::String => {
                text::append(object, &mut self.text);
                node_type::STRING
            }
            Kind::Integer => {
                text::append_integer(object, &mut self.text);
                node_type::NUMBER
            }
            Kind::Float => {
                text::append_float(object, &mut self.text);
                node_type::NUMBER
            }
            Kind::Function => {
                self.append_function(object);
                node_type::CLOSURE
            }
            Kind::Code => {
                self.append_function(object);
                node_type::CODE
            }
            _ => {
                let info = self.types.of(object);
                let name = *info.name_id.get_or_insert_with(|| names.intern(&info.name));
                return (node_type::OBJECT, name);
            }
        };
        (kind, names.intern(&self.text))
    }

    /// What must be the same of an object besides its address, and whether it may be one of the
    /// last snapshot.
    fn identity(&mut self, object: Address) -> (u32, bool) {
        let type_object = type_of(object);
        if is_tracked(object) {
            return (mix(0, type_object), !self.young.contains(object));
        }
        let mut value = mix(1, type_object);
        match self.types.of(object).kind {
            // The text is still there from the node's name.
            Kind::String | Kind::Integer | Kind::Float | Kind::Code => {
                value = self.text.chunks(8).fold(value, |value, piece| {
                    let mut word = [0; 8];
                    word[..piece.len()].copy_from_slice(piece);
                    mix(value, u64::from_le_bytes(word))
                });
            }
            Kind::Tuple => tuple_items(object, |_, item| value = mix(value, item)),
            Kind::Dict => {
                let mut first = None;
                entries(object, |key, _| first = first.or(Some(key)));
                value = mix(value, first.unwrap_or(0));
            }
            _ => {}
        }
        (value, true)
    }
}

fn mix(value: u32, word: u64) -> u32 {
    let product = (word ^ u64::from(value)).wrapping_add(0x9E37_79B9_7F4A_7C15).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    (product >> 32) as u32
}

impl Embedder for Heap {
    fn root(&mut self) -> u64 {
        ROOT
    }

    fn numbered_by_address(&self) -> bool {
        true
    }

    fn last(&mut self) -> Option<u64> {
        Some(OTHER)
    }

    fn unmet(&mut self, met: &dyn Fn(u64) -> bool) -> Option<u64> {
        if self.held_by_c.is_none() {
            self.held_by_c = Some(self.find_held_by_c(met));
        }
        while let Some(object) = self.held_by_c.as_mut().and_then(Vec::pop) {
            if !met(object) {
                self.others.push(object);
                return Some(object);
            }
        }
        // From the end: what was made last often holds what was made before.
        while self.left > 0 {
            self.left -= 1;
            let object = object::list_item(self.objects, self.left);
            if object != 0 && object != self.objects && !met(object) {
                self.others.push(object);
                return Some(object);
            }
        }
        // All are met; 8 bytes an object are given back.
        self.alone.extend(object::clear_list(self.objects));
        None
    }

    fn targets(&mut self, object: u64, visit: &mut impl FnMut(u64)) {
        match object {
            ROOT => {
                visit(OTHER);
                self.roots.iter().for_each(|(_, object)| visit(*object));
                (0..self.frames.len() as u64).for_each(|frame| visit(FRAMES | frame));
            }
            OTHER => self.others.iter().for_each(|object| visit(*object)),
            _ => match self.frame(object) {
                Some(frame) => {
                    visit(frame.code);
                    frame.variables.iter().for_each(|(_, value)| visit(*value));
                }
                None => self.each_target(object, visit),
            },
        }
    }

    fn describe(&mut self, object: u64, names: &mut impl NameSink) -> Description {
        let node = |node_type, name, id, self_size| Description { node_type, name, id, self_size, trace_node_id: 0, detachedness: 0 };
        if object == ROOT {
            return node(node_type::SYNTHETIC, names.intern(b""), 1, 0);
        }
        if object == OTHER {
            return node(node_type::SYNTHETIC, names.intern(b"(Other objects)"), u64::from(self.ids.id(OTHER, 0, true)), 0);
        }
        if let Some(frame) = self.frame(object) {
            let fingerprint = mix(frame.line, frame.code);
            return node(node_type::OBJECT, names.intern(b"frame"), u64::from(self.ids.id(object, fingerprint, true)), 0);
        }
        let (node_type, name) = self.node_name(object, names);
        let (fingerprint, may_be_known) = self.identity(object);
        let id = self.ids.id(object, fingerprint, may_be_known);
        let size = self.types.size_of(object);
        let info = self.types.of(object);
        let (in_array, in_tree) = match (info.kind, &self.memory) {
            (Kind::Array, _) => (size.saturating_sub(info.basic_size), 0),
            (Kind::Tree, Some(memory)) => (0, memory.tree_bytes(object, info.basic_size)),
            _ => (0, 0),
        };
        self.measured.array_bytes += in_array;
        self.measured.tree_bytes += in_tree;
        self.measured.object_bytes += size - in_array;
        node(node_type, name, u64::from(id), size + in_tree)
    }

    fn references(&mut self, object: u64, edges: &mut impl EdgeSink) {
        match object {
            ROOT => {
                edges.element(0, OTHER);
                self.roots.iter().for_each(|(name, object)| edges.named(edge_type::SHORTCUT, name, *object));
                let frames = self.frames.iter().enumerate();
                frames.for_each(|(index, frame)| edges.named(edge_type::SHORTCUT, &frame.name, FRAMES | index as u64));
                return;
            }
            OTHER => return (0..).zip(&self.others).for_each(|(index, object)| edges.element(index, *object)),
            _ => {}
        }
        if let Some(frame) = self.frame(object) {
            edges.named(edge_type::INTERNAL, b"f_code", frame.code);
            frame.variables.iter().for_each(|(name, value)| edges.named(edge_type::CONTEXT, name, *value));
            return;
        }
        match self.types.of(object).kind {
            Kind::Dict => {
                let key_name = EdgeName::Text(edges.intern(b"(key)"));
                entries(object, |key, value| {
                    let (edge_type, name) = self.label_of_key(key, edges);
                    edges.edge(edge_type, name, value);
                    edges.edge(edge_type::INTERNAL, key_name, key);
                });
            }
            Kind::List => list_items(object, |index, item| edges.element(index, item)),
            Kind::Tuple => tuple_items(object, |index, item| edges.element(index, item)),
            Kind::Array => {
                self.write_named(object, edges);
                self.write_array(object, edges);
            }
            _ => self.write_named(object, edges),
        }
    }

    fn own_texts(&self) -> Option<Box<dyn OwnTexts>> {
        Some(Box::new(text::OfObjects))
    }

    fn position(&mut self, object: u64) -> Option<Position> {
        if let Some(frame) = self.frame(object) {
            return Some(Position::Place { script: frame.script, line: u64::from(frame.line.saturating_sub(1)), column: 0 });
        }
        if object == ROOT || object == OTHER {
            return None;
        }
        let (file, line) = self.place(object)?;
        self.text.clear();
        text::append(file, &mut self.text);
        let file = std::mem::take(&mut self.text);
        let script = self.script(&file);
        self.text = file;
        Some(Position::Place { script, line: u64::from(line.saturating_sub(1)), column: 0 })
    }
}
