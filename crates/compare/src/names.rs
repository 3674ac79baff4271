//! Functions as two builds of a program have them in common: by name, never by address.
//!
//! A name loses its arguments, whose types may change, and what a compiler adds to the name of a
//! copy that it made (`parse.constprop.0`). A function without a name is its module: what has moved
//! within a module without symbols cannot be told.

use hashbrown::HashMap;
use heaplab_trace::StackId;
use heaplab_trace::tables::{Tables, bare_name};

/// What GCC and LLVM append to the name of a function that they copied, split or renamed.
const COPIES: [&str; 8] =
    [".constprop.", ".isra.", ".part.", ".cold", ".lto_priv.", ".llvm.", ".clone.", ".localalias"];

/// All functions that were met, each once.
#[derive(Debug, Default)]
pub(crate) struct Names {
    rows: Vec<String>,
    index: HashMap<String, u32>,
}

impl Names {
    pub(crate) fn add(&mut self, name: &str) -> u32 {
        if let Some(row) = self.index.get(name) {
            return *row;
        }
        let row = self.rows.len() as u32;
        self.rows.push(name.to_owned());
        self.index.insert(name.to_owned(), row);
        row
    }

    pub(crate) fn text(&self, name: u32) -> &str {
        self.rows.get(name as usize).map_or("?", String::as_str)
    }
}

/// The name without what differs between builds.
pub(crate) fn common(name: &str) -> &str {
    let bare = bare_name(name);
    let copied = COPIES.iter().filter_map(|copy| bare.find(copy)).filter(|at| *at > 0).min();
    copied.map_or(bare, |at| &bare[..at])
}

/// Stacks of one recording as paths of functions.
pub(crate) struct Paths<'a> {
    tables: &'a Tables,
    /// For each row of `frames` its name, once it was looked up.
    frames: Vec<Option<u32>>,
}

impl<'a> Paths<'a> {
    pub(crate) fn new(tables: &'a Tables) -> Paths<'a> {
        Paths { tables, frames: vec![None; tables.frames.len()] }
    }

    /// The functions of a stack, the innermost first, without the frames of allocation itself, and
    /// the line of the innermost: 0 if unknown.
    pub(crate) fn of(&mut self, names: &mut Names, stack: StackId) -> (Vec<u32>, u32) {
        let frames: Vec<u32> = self.tables.frames_of(stack).collect();
        let frames = &frames[self.tables.site(&frames)..];
        let line = frames.first().and_then(|frame| self.tables.frames.get(*frame as usize));
        let mut path: Vec<u32> = Vec::with_capacity(frames.len());
        for frame in frames {
            let (name, is_nameless) = self.name(names, *frame);
            // How many nameless functions of a module stand one above the other is the build's.
            if !(is_nameless && path.last() == Some(&name)) {
                path.push(name);
            }
        }
        (path, line.map_or(0, |frame| frame.line))
    }

    fn name(&mut self, names: &mut Names, frame: u32) -> (u32, bool) {
        let row = self.tables.frames.get(frame as usize);
        let is_nameless = row.is_none_or(|row| row.function.is_none());
        if let Some(name) = self.frames.get(frame as usize).copied().flatten() {
            return (name, is_nameless);
        }
        let name = match row.and_then(|row| row.function.as_deref()) {
            Some(function) => names.add(common(function)),
            None => {
                let module = row
                    .and_then(|row| row.module)
                    .and_then(|module| self.tables.modules.get(module as usize))
                    .map_or("unknown code", |module| {
                        module.path.rsplit('/').next().unwrap_or(&module.path)
                    });
                names.add(&format!("({module})"))
            }
        };
        if let Some(known) = self.frames.get_mut(frame as usize) {
            *known = Some(name);
        }
        (name, is_nameless)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_what_a_build_adds() {
        for (name, shared) in [
            ("parse.constprop.0", "parse"),
            ("parse.part.0.isra.0", "parse"),
            ("a::load(char const*)", "a::load"),
            ("load.cold", "load"),
            ("main", "main"),
            (".cold", ".cold"),
        ] {
            assert_eq!(common(name), shared);
        }
    }
}
