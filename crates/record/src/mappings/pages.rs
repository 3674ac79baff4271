//! The resident pages of anonymous mappings, from `/proc/PID/pagemap`.
//!
//! The file has a word a page; bit 63 says that the page is present. Wholly resident mappings need
//! no look. A page of zeros that was only read counts as present here and not in `smaps`, so users
//! of the stretches scale them to the row's bytes.

use super::AnonymousRow;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Most pages looked at in one reading: 2 GiB of address space, 4 MiB of words.
const PAGES_MAX: u64 = 512 << 10;
/// Most stretches kept of one row, and of all rows of a reading.
const STRETCHES_MAX: (usize, usize) = (1024, 32 << 10);
/// Words read at a time.
const WORDS: usize = 8 << 10;

const PRESENT: u64 = 1 << 63;

/// Fills in the stretches of rows that are resident in part, the largest resident ones first.
pub fn look(pid: u32, rows: &mut [AnonymousRow]) {
    let page_bytes = rustix::param::page_size() as u64;
    let mut partial: Vec<&mut AnonymousRow> =
        rows.iter_mut().filter(|row| row.bytes < row.end - row.start).collect();
    if partial.is_empty() {
        return;
    }
    let Ok(pagemap) = File::open(format!("/proc/{pid}/pagemap")) else { return };
    partial.sort_by_key(|row| std::cmp::Reverse(row.bytes));
    let (mut pages_left, mut stretches_left) = (PAGES_MAX, STRETCHES_MAX.1);
    for row in partial {
        let pages = (row.end - row.start) / page_bytes;
        if pages > pages_left {
            continue;
        }
        pages_left -= pages;
        let most = STRETCHES_MAX.0.min(stretches_left);
        if let Some(stretches) = stretches_of(&pagemap, row.start / page_bytes, pages, most) {
            stretches_left -= stretches.len();
            row.stretches = stretches;
        }
    }
}

/// `None`: unreadable, or more than `most` stretches.
fn stretches_of(pagemap: &File, first: u64, pages: u64, most: usize) -> Option<Vec<u32>> {
    let mut bytes = vec![0; WORDS.min(pages as usize) * 8];
    let mut stretches: Vec<u32> = vec![0];
    let mut at = 0;
    while at < pages {
        let words = (pages - at).min(WORDS as u64) as usize;
        let part = bytes.get_mut(..words * 8)?;
        pagemap.read_exact_at(part, (first + at) * 8).ok()?;
        for word in part.as_chunks::<8>().0 {
            push(&mut stretches, u64::from_le_bytes(*word) & PRESENT != 0);
        }
        if stretches.len() > most {
            return None;
        }
        at += words as u64;
    }
    Some(stretches)
}

/// Adds a page. Stretches at even places are absent, at odd ones present.
fn push(stretches: &mut Vec<u32>, is_present: bool) {
    let last_is_present = stretches.len().is_multiple_of(2);
    match stretches.last_mut() {
        Some(last) if last_is_present == is_present => *last += 1,
        _ => stretches.push(1),
    }
}
