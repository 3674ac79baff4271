//! A block's owner and content, as a stack of two frames: reports of any recording can then say
//! where a metaspace's bytes go.

use super::Importer;
use heaplab_trace::tables::{Frame, StackNode};
use heaplab_trace::{NO_STACK, StackId};

/// Types of metadata with the numbers that JDK 17 to 25 share (`MetaspaceObj::Type`); later ones
/// differ between versions.
const TYPES: [&str; 14] = [
    "Class",
    "Symbol",
    "TypeArrayU1",
    "TypeArrayU2",
    "TypeArrayU4",
    "TypeArrayU8",
    "TypeArrayOther",
    "Method",
    "ConstMethod",
    "MethodData",
    "ConstantPool",
    "ConstantPoolCache",
    "Annotations",
    "MethodCounters",
];
/// Growth policies, and the outer frame's name for their loaders.
const LOADERS: [(&str, &str); 5] = [
    ("", "loader not known"),
    ("boot", "boot loader"),
    ("standard", "class loader"),
    ("hidden", "hidden class"),
    ("reflection", "reflection"),
];
/// Most kinds of stacks (loader kind and type): more types than any JVM has.
const STACKS_LIMIT: usize = 4096;

impl Importer {
    /// A stack of two frames: the arena's owner, and the type of the metadata.
    pub(super) fn stack(&mut self, arena: u32, metadata_type: Option<u64>) -> StackId {
        let Some(metadata_type) = metadata_type else { return NO_STACK };
        let row = &self.out.tables.arenas[arena as usize];
        let kind = LOADERS.iter().position(|(policy, _)| *policy == row.growth_policy).unwrap_or(0);
        let class = row.kind == "class";
        let outer = self.node((NO_STACK, 2 * kind as u64 + u64::from(class)), || {
            format!("{}, {}", LOADERS[kind].1, if class { "class" } else { "non-class" })
        });
        self.node((outer, metadata_type), || type_name(metadata_type))
    }

    /// The node of the stack tree with this key below its parent.
    fn node(&mut self, key: (StackId, u64), label: impl FnOnce() -> String) -> StackId {
        if let Some(stack) = self.stacks.get(&key) {
            return *stack;
        }
        if self.stacks.len() >= STACKS_LIMIT {
            return key.0;
        }
        let tables = &mut self.out.tables;
        tables.frames.push(Frame { function: Some(label()), ..Frame::default() });
        tables.stacks.push(StackNode { parent: key.0, frame: tables.frames.len() as u32 - 1 });
        let stack = tables.stacks.len() as u32 - 1;
        self.stacks.insert(key, stack);
        stack
    }
}

/// The metadata type of this name.
pub fn type_number(name: &str) -> Option<u64> {
    let known = TYPES.iter().position(|known| *known == name).map(|number| number as u64);
    known.or_else(|| name.strip_prefix("metadata type ")?.parse().ok())
}

/// The name of a metadata type.
pub fn type_name(number: u64) -> String {
    match usize::try_from(number).ok().and_then(|number| TYPES.get(number)) {
        Some(name) => String::from(*name),
        None => format!("metadata type {number}"),
    }
}
