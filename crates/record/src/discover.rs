//! Finds what targets have made in the spool folder: process files and their rings.

use crate::image::{Image, ImageDamage};
use heaplab_recorder::layout::{self, ProcessHeader};
use std::fs::{self, File};
use std::io;
use std::mem::{offset_of, size_of};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Largest process file that is read; what lies beyond is left out (the parser then says `damaged`).
const PROCESS_FILE_BYTES_MAX: u64 = 256 << 20;
/// What is read of a process file at first: all there is of a short process.
const FIRST_BYTES: usize = 16 << 10;
/// Rings of one image that are believed.
pub const RINGS_MAX: u32 = 1 << 20;

/// (pid, seq) of every process file in the folder, finished or not.
pub fn process_files(spool: &Path) -> io::Result<Vec<(u32, u32)>> {
    let mut found: Vec<(u32, u32)> = fs::read_dir(spool)?.flatten().filter_map(|entry| key_of(entry.file_name().to_str()?)).collect();
    found.sort_unstable();
    Ok(found)
}

fn key_of(name: &str) -> Option<(u32, u32)> {
    let (pid, seq) = name.strip_suffix(".process")?.split_once('-')?;
    Some((pid.parse().ok()?, seq.parse().ok()?))
}

/// Numbers of the image's rings that are there, whatever its process file says.
pub fn ring_numbers(spool: &Path, (pid, seq): (u32, u32)) -> io::Result<Vec<u32>> {
    let prefix = format!("{pid}-{seq}-");
    let number_of = |name: &str| name.strip_prefix(&prefix)?.strip_suffix(".ring")?.parse().ok();
    let mut found: Vec<u32> = fs::read_dir(spool)?.flatten().filter_map(|entry| number_of(entry.file_name().to_str()?)).collect();
    found.sort_unstable();
    Ok(found)
}

/// Path of an image's process file.
pub fn process_path(spool: &Path, (pid, seq): (u32, u32)) -> PathBuf {
    spool.join(format!("{pid}-{seq}.process"))
}

/// Path of one of an image's ring files.
pub fn ring_path(spool: &Path, (pid, seq): (u32, u32), ring: u32) -> PathBuf {
    spool.join(format!("{pid}-{seq}-{ring}.ring"))
}

/// Reads the process file `key`.
pub fn read_image(spool: &Path, key: (u32, u32)) -> io::Result<Result<Image, ImageDamage>> {
    let file = File::open(process_path(spool, key))?;
    let mut bytes = Vec::with_capacity(FIRST_BYTES);
    io::Read::read_to_end(&mut io::Read::take(&file, FIRST_BYTES as u64), &mut bytes)?;
    // Most of the file is room for records that never came: reading it would take longer than the process ran.
    let used_bytes = Image::used_bytes(&bytes).min(PROCESS_FILE_BYTES_MAX).saturating_sub(bytes.len() as u64);
    io::Read::read_to_end(&mut io::Read::take(&file, used_bytes), &mut bytes)?;
    Ok(Image::parse(&bytes).map(|mut image| {
        // The name is what rings and notes refer to; a file that says otherwise is not believed.
        image.damaged |= (image.pid, image.seq) != key;
        (image.pid, image.seq) = key;
        image
    }))
}

/// How many rings the image has now, and why it stopped recording if it did; cheap.
pub fn ring_count(file: &File) -> (u32, Option<u32>) {
    let mut bytes = [0; size_of::<ProcessHeader>()];
    if file.read_exact_at(&mut bytes, 0).is_err() {
        return (0, None);
    }
    let field = |at: usize| bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes);
    let cut = field(offset_of!(ProcessHeader, state)) == layout::PROCESS_CUT;
    let count = field(offset_of!(ProcessHeader, ring_count)).min(RINGS_MAX);
    (count, cut.then(|| field(offset_of!(ProcessHeader, cut_reason))))
}

/// The little of a process file that draining needs: start ticks. `None` while it is not finished.
pub fn identity(file: &File) -> Option<u64> {
    let mut bytes = [0; size_of::<ProcessHeader>()];
    file.read_exact_at(&mut bytes, 0).ok()?;
    match Image::parse(&bytes) {
        Ok(image) => Some(image.start_ticks),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_process_files_are_found() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["12-0.process", "12-1.process", "12-0-3.ring", "x-1.process", "control", "12-.process"] {
            fs::write(folder.path().join(name), b"").unwrap();
        }
        assert_eq!(process_files(folder.path()).unwrap(), [(12, 0), (12, 1)]);
        assert_eq!(read_image(folder.path(), (12, 0)).unwrap(), Err(ImageDamage::Short));
    }
}
