//! Stacks as lines: innermost first, without the frames of allocation itself, which are the same everywhere.

use heaplab_trace::StackId;
use heaplab_trace::tables::Tables;

/// Names of functions that only pass a request on to the allocator, in C, C++ and Rust.
const WRAPPERS: [&str; 16] = [
    "malloc",
    "calloc",
    "realloc",
    "memalign",
    "operator new",
    "alloc::alloc",
    "alloc::raw_vec",
    "__rust_alloc",
    "__rust_realloc",
    "__rdl_",
    "__rg_",
    "RawVec",
    "Allocator",
    "new_allocator",
    "allocator_traits",
    "_M_allocate",
];
/// A chain of wrappers longer than this is a program's own code with such names.
const WRAPPERS_MAX: usize = 6;

/// The stack's frames as labels, the innermost first: at most `most`, and how many further out were left off.
pub fn lines(tables: &Tables, stack: StackId, most: usize) -> (Vec<String>, usize) {
    let frames: Vec<u32> = tables.frames_of(stack).collect();
    // Functions without a name may stand between wrappers: a library's static ones have none.
    let nameless = |frame: u32| tables.frames.get(frame as usize).is_none_or(|frame| frame.function.is_none());
    let leading = frames.iter().take(WRAPPERS_MAX).take_while(|frame| nameless(**frame) || is_wrapper(tables, **frame)).count();
    let wrappers = frames[..leading].iter().rposition(|frame| is_wrapper(tables, *frame)).map_or(0, |last| last + 1);
    // The last wrapper stays when nothing else would.
    let skipped = if wrappers == frames.len() { wrappers.saturating_sub(1) } else { wrappers };
    let shown = frames[skipped..].iter().take(most).map(|frame| label(tables, *frame)).collect();
    (shown, (frames.len() - skipped).saturating_sub(most))
}

fn is_wrapper(tables: &Tables, frame: u32) -> bool {
    let Some(function) = tables.frames.get(frame as usize).and_then(|frame| frame.function.as_deref()) else { return false };
    // `sqlite3MallocSize` and `my_malloc_stats` are wrappers in spirit; arguments and return types are not looked at.
    let name = function.split('(').next().unwrap_or(function);
    let lower = name.to_ascii_lowercase();
    WRAPPERS.iter().any(|wrapper| name.contains(wrapper) || lower.contains(&wrapper.to_ascii_lowercase()))
}

/// Function and line, or module and offset.
pub fn label(tables: &Tables, frame: u32) -> String {
    let mut label = tables.frame_label(frame);
    if let Some(frame) = tables.frames.get(frame as usize) {
        if let Some(file) = frame.file.as_deref().filter(|_| frame.line > 0) {
            let file = file.rsplit('/').next().unwrap_or(file);
            label.push_str(&format!("  {file}:{}", frame.line));
        } else if let (Some(_), Some(module)) = (&frame.function, frame.module.and_then(|module| tables.modules.get(module as usize))) {
            let module = module.path.rsplit('/').next().unwrap_or(&module.path);
            label.push_str(&format!("  {module}"));
        }
    }
    label
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaplab_trace::tables::{Frame, StackNode};

    fn tables(functions: &[&str]) -> Tables {
        let frames = functions.iter().map(|name| Frame { function: Some(name.to_string()), ..Frame::default() }).collect();
        let nodes = (0..functions.len()).map(|index| StackNode { parent: index as u32, frame: index as u32 });
        Tables { frames, stacks: std::iter::once(StackNode::default()).chain(nodes).collect(), ..Tables::default() }
    }

    #[test]
    fn wrappers_are_skipped_and_never_all_of_them() {
        let tables = tables(&["main", "parse", "sqlite3Malloc", "sqlite3MemMalloc"]);
        assert_eq!(lines(&tables, 4, 6), (vec!["parse".into(), "main".into()], 0));
        assert_eq!(lines(&tables, 4, 1), (vec!["parse".into()], 1));
        let only = self::tables(&["xmalloc"]);
        assert_eq!(lines(&only, 1, 6), (vec!["xmalloc".into()], 0));
        assert_eq!(lines(&only, 0, 6), (vec![], 0));
    }
}
