//! The page's table of places in code: each label once, referred to by index.

use crate::page::{compose::shorten, limits, model};
use heaplab_trace::{StackId, tables::Tables};
use std::collections::HashMap;

/// Collects the places that the page names.
#[derive(Debug, Default)]
pub(crate) struct Names {
    rows: Vec<model::Frame>,
    /// File and line of each row, where they are known.
    places: Vec<Option<(String, u32)>>,
    index: HashMap<(model::Frame, Option<(String, u32)>), u32>,
}

impl Names {
    /// The table.
    pub(crate) fn into_rows(self) -> Vec<model::Frame> {
        self.rows
    }

    /// The table, and file and line of each row.
    pub(crate) fn into_rows_and_places(self) -> (Vec<model::Frame>, Vec<Option<(String, u32)>>) {
        (self.rows, self.places)
    }

    /// Index of a place.
    pub(crate) fn add(&mut self, frame: model::Frame) -> u32 {
        self.add_at(frame, None)
    }

    fn add_at(&mut self, frame: model::Frame, place: Option<(String, u32)>) -> u32 {
        let key = (frame, place);
        if let Some(&index) = self.index.get(&key) {
            return index;
        }
        let index = u32::try_from(self.rows.len())
            .expect("fewer places than stack nodes, which are counted in 32 bits");
        self.rows.push(key.0.clone());
        self.places.push(key.1.clone());
        self.index.insert(key, index);
        index
    }

    /// Index of a row of `frames` as a function, without its line.
    pub(crate) fn function(&mut self, tables: &Tables, frame: u32) -> u32 {
        let frame = place_of(tables, frame, false);
        self.add(frame)
    }

    /// A stack, innermost first, at most [`limits::STACK_FRAMES`] frames.
    pub(crate) fn stack(&mut self, tables: &Tables, stack: StackId) -> Vec<u32> {
        tables
            .frames_of(stack)
            .take(limits::STACK_FRAMES)
            .map(|frame| {
                let place = tables
                    .frames
                    .get(frame as usize)
                    .and_then(|row| Some((row.file.clone().filter(|_| row.line > 0)?, row.line)));
                self.add_at(place_of(tables, frame, true), place)
            })
            .collect()
    }
}

/// A frame; without its line, a function.
fn place_of(tables: &Tables, row: u32, with_line: bool) -> model::Frame {
    let frame = tables.frames.get(row as usize);
    let module =
        frame.and_then(|frame| frame.module).and_then(|module| tables.modules.get(module as usize));
    let place = frame.and_then(|frame| {
        let file = crate::frames::source_name(frame.file.as_ref()?);
        Some(if with_line { format!("{file}:{}", frame.line) } else { file.to_owned() })
    });
    model::Frame {
        label: fitting(&tables.frame_label(row), limits::NAME_CHARS),
        module: module
            .map(|module| shorten(file_name(&module.path), limits::NAME_CHARS))
            .unwrap_or_default(),
        place: place.map(|place| shorten(&place, limits::NAME_CHARS)).unwrap_or_default(),
        wrapper: tables.is_wrapper(row),
        source: None,
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A function's name in at most `characters` characters. Template arguments and parameters go
/// first, the innermost before the others: the function itself stands at the end of its name.
fn fitting(name: &str, characters: usize) -> String {
    if name.chars().nth(characters).is_none() {
        return name.to_owned();
    }
    let deepest = depths(name).map(|(_, depth)| depth).max().unwrap_or(0);
    for most in (1..=deepest).rev() {
        let mut short = String::new();
        for (letter, depth) in depths(name) {
            if depth < most {
                short.push(letter);
            } else if !short.ends_with('…') {
                short.push('…');
            }
        }
        if short.chars().nth(characters).is_none() {
            return short;
        }
    }
    shorten(name, characters)
}

/// Each letter with the number of brackets around it.
fn depths(name: &str) -> impl Iterator<Item = (char, u32)> {
    let mut depth = 0u32;
    let mut before = ' ';
    name.chars().map(move |letter| {
        let is_end = letter == ')' || letter == '>' && before != '-';
        before = letter;
        depth = depth.saturating_sub(u32::from(is_end));
        let around = depth;
        depth += u32::from(letter == '(' || letter == '<');
        (letter, around)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_loses_what_is_innermost_first() {
        let name = "std::_Rb_tree<key, std::pair<key, Item>, less<key> >::find(key const&)";
        assert_eq!(fitting(name, 100), name);
        assert_eq!(
            fitting(name, 60),
            "std::_Rb_tree<key, std::pair<…>, less<…> >::find(key const&)"
        );
        assert_eq!(fitting(name, 59), "std::_Rb_tree<…>::find(…)");
        assert_eq!(fitting(name, 10), "std::_Rb_…");
        assert_eq!(fitting("a<(b->c)>)>d", 9), "a<(…)>)>d");
    }
}
