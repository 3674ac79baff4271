//! Stacks as lines: innermost first, without the frames of allocation itself, which are the same
//! everywhere.

use heaplab_trace::StackId;
use heaplab_trace::tables::Tables;

/// The stack's frames as labels, the innermost first: at most `most`, and how many further out were
/// left off.
pub fn lines(tables: &Tables, stack: StackId, most: usize) -> (Vec<String>, usize) {
    let frames: Vec<u32> = tables.frames_of(stack).collect();
    let skipped = tables.wrappers(&frames);
    let shown = frames[skipped..].iter().take(most).map(|frame| label(tables, *frame)).collect();
    (shown, (frames.len() - skipped).saturating_sub(most))
}

/// Function and line, or module and offset.
pub fn label(tables: &Tables, frame: u32) -> String {
    let mut label = tables.frame_label(frame);
    if let Some(frame) = tables.frames.get(frame as usize) {
        if let Some(file) = frame.file.as_deref().filter(|_| frame.line > 0) {
            let file = source_name(file);
            label.push_str(&format!("  {file}:{}", frame.line));
        } else if let (Some(_), Some(module)) =
            (&frame.function, frame.module.and_then(|module| tables.modules.get(module as usize)))
        {
            let module = module.path.rsplit('/').next().unwrap_or(&module.path);
            label.push_str(&format!("  {module}"));
        }
    }
    label
}

/// A file of source without its folders; with the last one if every package has such a file.
pub(crate) fn source_name(path: &str) -> &str {
    let folder = path.rfind('/');
    let name = &path[folder.map_or(0, |at| at + 1)..];
    match folder {
        Some(at) if ["__init__.py", "__main__.py", "index.js", "mod.rs"].contains(&name) => {
            &path[path[..at].rfind('/').map_or(0, |before| before + 1)..]
        }
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaplab_trace::tables::{Frame, StackNode};

    fn tables(functions: &[&str]) -> Tables {
        let frames = functions
            .iter()
            .map(|name| Frame { function: Some(name.to_string()), ..Frame::default() })
            .collect();
        let nodes = (0..functions.len())
            .map(|index| StackNode { parent: index as u32, frame: index as u32 });
        Tables {
            frames,
            stacks: std::iter::once(StackNode::default()).chain(nodes).collect(),
            ..Tables::default()
        }
    }

    #[test]
    fn a_name_that_every_package_has_is_told_with_its_folder() {
        let names = ["/lib/json/__init__.py", "json/mod.rs", "/mod.rs", "mod.rs", "a/encoder.py"];
        let short = ["json/__init__.py", "json/mod.rs", "/mod.rs", "mod.rs", "encoder.py"];
        assert_eq!(names.map(source_name), short);
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
