//! Bytes of lxml's trees, which are libxml2's and of no Python object.
//!
//! A `_Document` of lxml has a pointer to its tree. The structures are those of libxml2's `tree.h`,
//! the same in 2.9 to 2.15 as far as they are read here. Nothing of lxml or libxml2 is called.
//! Memory is read through `/proc/self/mem`, which refuses a wrong address; a tree is believed where
//! it and each of its nodes refer to the tree. Not seen: names, which all trees of a process share,
//! and the parser's own memory. Without `/proc`, trees have no bytes.

use super::object::{Address, word_at};
use std::fs::File;
use std::os::unix::fs::FileExt;

const TYPE: usize = 8;
const CHILDREN: usize = 24;
const NEXT: usize = 48;
const DOCUMENT: usize = 64;
const CONTENT: usize = 80;
const PROPERTIES: usize = 88;
const NAMESPACES: usize = 96;

/// `XML_ELEMENT_NODE` and so on.
const ELEMENT: u32 = 1;
const ATTRIBUTE: u32 = 2;
const TEXT: u32 = 3;
const CDATA: u32 = 4;
const ENTITY_REFERENCE: u32 = 5;
const INSTRUCTION: u32 = 7;
const COMMENT: u32 = 8;
const XML_DOCUMENT: u32 = 9;
const HTML_DOCUMENT: u32 = 13;

/// `sizeof(xmlDoc)`, `sizeof(xmlNode)`, `sizeof(xmlAttr)`, `sizeof(xmlNs)`.
const DOCUMENT_BYTES: usize = 176;
const NODE_BYTES: usize = 120;
const ATTRIBUTE_BYTES: usize = 96;
const NAMESPACE_BYTES: usize = 48;
/// More nodes than memory can hold: the pointers lead round in a circle.
const NODES_MAX: u64 = 1 << 32;
/// Namespaces that one element declares.
const NAMESPACES_MAX: usize = 1 << 16;

/// The process's memory.
pub struct Memory(File);

impl Memory {
    /// `None` where there is no `/proc`.
    pub fn open() -> Option<Memory> {
        File::open("/proc/self/mem").ok().map(Memory)
    }

    /// Bytes of the tree of a `_Document`, whose own fields take `own_bytes`.
    pub fn tree_bytes(&self, document: Address, own_bytes: u64) -> u64 {
        for offset in (16..own_bytes as i64).step_by(8) {
            // SAFETY: a word of the object's fields.
            let tree = unsafe { word_at(document, offset) };
            if let Some(node) = self.structure::<DOCUMENT_BYTES>(tree)
                && [XML_DOCUMENT, HTML_DOCUMENT].contains(&node.number(TYPE))
                && node.word(DOCUMENT) == tree
            {
                return DOCUMENT_BYTES as u64 + self.nodes_bytes(tree, node.word(CHILDREN));
            }
        }
        0
    }

    fn nodes_bytes(&self, tree: u64, first: u64) -> u64 {
        let (mut bytes, mut nodes) = (0, 0);
        let mut open = vec![first];
        while let Some(at) = open.pop() {
            let Some(node) = self.structure::<NODE_BYTES>(at).filter(|node| node.word(DOCUMENT) == tree) else { continue };
            nodes += 1;
            if nodes > NODES_MAX {
                break;
            }
            open.push(node.word(NEXT));
            match node.number(TYPE) {
                ELEMENT => {
                    bytes += NODE_BYTES as u64 + self.namespaces_bytes(node.word(NAMESPACES));
                    open.extend([node.word(CHILDREN), node.word(PROPERTIES)]);
                }
                ATTRIBUTE => {
                    bytes += ATTRIBUTE_BYTES as u64;
                    open.push(node.word(CHILDREN));
                }
                TEXT | CDATA | COMMENT | INSTRUCTION => {
                    let content = node.word(CONTENT);
                    // Short texts lie in the node itself.
                    let own = content == at + PROPERTIES as u64;
                    bytes += NODE_BYTES as u64 + if own { 0 } else { self.text_bytes(content) };
                }
                ENTITY_REFERENCE => bytes += NODE_BYTES as u64,
                _ => {}
            }
        }
        bytes
    }

    fn namespaces_bytes(&self, mut at: u64) -> u64 {
        let mut bytes = 0;
        for _ in 0..NAMESPACES_MAX {
            let Some(namespace) = self.structure::<NAMESPACE_BYTES>(at) else { break };
            bytes += NAMESPACE_BYTES as u64 + self.text_bytes(namespace.word(16)) + self.text_bytes(namespace.word(24));
            at = namespace.word(0);
        }
        bytes
    }

    /// Bytes of a text with the zero at its end; 0 for none.
    fn text_bytes(&self, start: u64) -> u64 {
        let mut piece = [0; 512];
        let mut at = start;
        while at != 0 {
            let Ok(read @ 1..) = self.0.read_at(&mut piece, at) else { break };
            if let Some(end) = piece[..read].iter().position(|byte| *byte == 0) {
                return at + end as u64 + 1 - start;
            }
            at += read as u64;
        }
        0
    }

    fn structure<const BYTES: usize>(&self, at: u64) -> Option<Structure<BYTES>> {
        let mut bytes = [0; BYTES];
        (at != 0 && at.is_multiple_of(8) && self.0.read_exact_at(&mut bytes, at).is_ok()).then_some(Structure(bytes))
    }
}

/// The bytes of a structure.
struct Structure<const BYTES: usize>([u8; BYTES]);

impl<const BYTES: usize> Structure<BYTES> {
    fn word(&self, offset: usize) -> u64 {
        self.0[offset..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
    }

    fn number(&self, offset: usize) -> u32 {
        self.0[offset..].first_chunk().map_or(0, |number| u32::from_le_bytes(*number))
    }
}
