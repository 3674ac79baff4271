//! Lines of source files around the places that the page names, where they were asked for and the
//! files are here.
//!
//! Users send pages to others, so a page includes no source line unless the user asks. The page
//! limits the lines, and counts the places that it leaves out.

use crate::page::{limits, model};
use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::time::UNIX_EPOCH;

/// Reads the lines around the `places` (file and line of each row of `frames`) and notes them in
/// the rows. `began_unix_s`: a file changed after it may have other lines now; 0: not known.
pub(crate) fn sources(
    frames: &mut [model::Frame],
    places: &[Option<(String, u32)>],
    began_unix_s: u64,
) -> model::Sources {
    let mut sources = model::Sources::default();
    let mut files: HashMap<&str, Option<File>> = HashMap::new();
    let mut known: HashMap<(&str, u32), u32> = HashMap::new();
    let mut chars = 0;
    for (frame, place) in frames.iter_mut().zip(places) {
        let Some((path, line)) = place.as_ref().filter(|(_, line)| *line > 0) else { continue };
        let file = files.entry(path).or_insert_with(|| File::read(path, began_unix_s));
        let Some(file) = file else { continue };
        if let Some(at) = known.get(&(path.as_str(), *line)) {
            frame.source = Some(*at);
            continue;
        }
        let Some(excerpt) = file.around(*line) else { continue };
        let size: usize = excerpt.lines.iter().map(String::len).sum();
        if sources.excerpts.len() >= limits::SOURCES || chars + size > limits::SOURCE_CHARS {
            sources.left_out += 1;
            continue;
        }
        chars += size;
        let at = sources.excerpts.len() as u32;
        known.insert((path, *line), at);
        frame.source = Some(at);
        sources.excerpts.push(excerpt);
    }
    let mut read: Vec<String> =
        files.iter().filter(|(_, file)| file.is_some()).map(|(path, _)| (*path).into()).collect();
    read.sort();
    sources.missing_files = files.len() - read.len();
    sources.files = read;
    sources
}

struct File {
    lines: Vec<String>,
    changed: bool,
}

impl File {
    /// The file's lines; `None`: it does not exist, is too long, or is not text.
    fn read(path: &str, began_unix_s: u64) -> Option<File> {
        let file = fs::File::open(path).ok()?;
        let facts = file.metadata().ok().filter(fs::Metadata::is_file)?;
        let mut text = String::new();
        file.take(limits::SOURCE_FILE_BYTES + 1).read_to_string(&mut text).ok()?;
        if text.len() as u64 > limits::SOURCE_FILE_BYTES {
            return None;
        }
        // The recording's time has whole seconds: a script is often written in the same one.
        let written = facts.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let changed = began_unix_s > 0 && written.is_some_and(|at| at.as_secs() > began_unix_s);
        Some(File { lines: text.lines().map(shortened).collect(), changed })
    }

    fn around(&self, line: u32) -> Option<model::Excerpt> {
        let at = (line as usize).checked_sub(1).filter(|at| *at < self.lines.len())?;
        let first = at.saturating_sub(limits::SOURCE_LINES_AROUND);
        let last = (at + limits::SOURCE_LINES_AROUND).min(self.lines.len() - 1);
        Some(model::Excerpt {
            first_line: first as u32 + 1,
            line,
            lines: self.lines[first..=last].to_vec(),
            changed: self.changed,
        })
    }
}

fn shortened(line: &str) -> String {
    crate::page::compose::shorten(line.trim_end(), limits::SOURCE_LINE_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_around_a_place_are_read_once_and_missing_files_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.c");
        fs::write(&path, (1..=20).map(|line| format!("line {line} <b>\n")).collect::<String>())
            .unwrap();
        let path = path.to_string_lossy().into_owned();
        let place = |path: &str, line| Some((path.to_owned(), line));
        let places = [
            place(&path, 1),
            place(&path, 10),
            place(&path, 10),
            place(&path, 99),
            place("/not/here.c", 4),
            None,
        ];
        let mut frames = vec![model::Frame::default(); places.len()];
        let sources = sources(&mut frames, &places, 1);
        let of: Vec<Option<u32>> = frames.iter().map(|frame| frame.source).collect();
        assert_eq!(of, [Some(0), Some(1), Some(1), None, None, None]);
        assert_eq!(sources.excerpts[0].first_line, 1);
        let second = &sources.excerpts[1];
        let at = (second.line - second.first_line) as usize;
        assert_eq!(second.lines[at], "line 10 <b>");
        assert!(second.changed, "it was written after the recording began, in 1970");
        assert_eq!((sources.files.len(), sources.missing_files), (1, 1));
    }

    #[test]
    fn a_file_of_the_second_in_which_the_recording_began_is_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.py");
        fs::write(&path, "print()\n").unwrap();
        let changed_at = |millis| {
            let file = fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(UNIX_EPOCH + std::time::Duration::from_millis(millis)).unwrap();
            File::read(&path.to_string_lossy(), 1_000).unwrap().changed
        };
        assert_eq!([999_900, 1_000_637, 1_001_000].map(changed_at), [false, false, true]);
    }
}
