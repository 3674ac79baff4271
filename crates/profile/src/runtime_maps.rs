//! Which runtime's memory a mapping is, by the code that mapped it.
//!
//! Functions name it where the runtime has symbols (Node, debug packages). Stripped runtimes are
//! known by their file: the core of CPython, GCC's compilers and Ruby map private anonymous memory
//! for one purpose each, their arenas (CPython: `Objects/obmalloc.c`; GCC: `ggc-page.cc`; Ruby:
//! `gc.c`). Deviations: of a stripped JVM only the file is known, so its heap, code and metaspace
//! are one part; with names, G1 commits its heap and its tables by one call.

use heaplab_trace::StackId;
use heaplab_trace::tables::{Frame, Tables};

/// Frames looked at, from the innermost on.
const FRAMES_MAX: usize = 24;

/// Part of a function's name, and the kind of memory that the function maps. The first that fits
/// any frame counts.
const BY_FUNCTION: [(&str, &str); 29] = [
    ("v8::internal::ReadOnly", "V8's read-only space"),
    ("v8::internal::SemiSpace", "V8's new space"),
    ("v8::internal::NewSpace", "V8's new space"),
    ("v8::internal::PagedNewSpace", "V8's new space"),
    ("v8::internal::CodeRange", "V8's code"),
    ("LargeObjectSpace::", "V8's large objects"),
    ("v8::internal::AccountingAllocator", "V8's zones (parser, compiler)"),
    ("v8::internal::Zone", "V8's zones (parser, compiler)"),
    ("BackingStore::", "V8's array buffers"),
    ("v8::internal::PagedSpace", "V8's old spaces"),
    ("v8::internal::OldSpace", "V8's old spaces"),
    ("v8::internal::MemoryAllocator", "V8's heap pages"),
    ("v8::internal::", "V8"),
    ("v8::base::", "V8"),
    ("_PyObject_ArenaMmap", "pymalloc arenas"),
    ("_PyMem_ArenaAlloc", "pymalloc arenas"),
    ("ggc_internal_alloc", "GCC's garbage-collected pages"),
    ("ggc_alloc", "GCC's garbage-collected pages"),
    ("heap_page_allocate", "Ruby's object pages"),
    ("metaspace::", "the JVM's metaspace"),
    ("Metaspace::", "the JVM's metaspace"),
    ("CodeHeap::", "the JVM's code cache"),
    ("CodeCache::", "the JVM's code cache"),
    ("G1PageBasedVirtualSpace::", "the Java heap and G1's tables"),
    ("PSVirtualSpace::", "the Java heap"),
    ("Generation::", "the Java heap"),
    ("CollectedHeap::", "the Java heap"),
    ("CardTable::", "the Java heap's tables"),
    ("os::commit_memory", "the JVM's own memory"),
];

/// Start of the file of the innermost frame, and what its own code maps.
const BY_FILE: [(&str, &str); 9] = [
    ("python3", "pymalloc arenas"),
    ("libpython3", "pymalloc arenas"),
    ("cc1", "GCC's garbage-collected pages"),
    ("lto1", "GCC's garbage-collected pages"),
    ("libruby", "Ruby's object pages"),
    ("ruby", "Ruby's object pages"),
    ("libjvm.so", "the JVM's own memory (heap, code, metaspace)"),
    ("node", "V8 and Node's own memory"),
    ("libnode", "V8 and Node's own memory"),
];

/// The runtime's name for memory mapped from `stack`; `None`: no known runtime mapped it.
pub(crate) fn name(tables: &Tables, stack: StackId) -> Option<&'static str> {
    let frames: Vec<&Frame> = tables
        .frames_of(stack)
        .take(FRAMES_MAX)
        .filter_map(|frame| tables.frames.get(frame as usize))
        .collect();
    let has = |part: &str| {
        frames
            .iter()
            .any(|frame| frame.function.as_deref().is_some_and(|function| function.contains(part)))
    };
    if let Some((_, name)) = BY_FUNCTION.iter().find(|(part, _)| has(part)) {
        return Some(name);
    }
    // A function with another name maps for another purpose.
    let innermost = frames.first().filter(|frame| frame.function.is_none())?;
    let module = tables.modules.get(innermost.module? as usize)?;
    let file = module.path.rsplit('/').next().unwrap_or(&module.path);
    BY_FILE.iter().find(|(start, _)| file.starts_with(start)).map(|(_, name)| *name)
}
