//! The kernel's mapped and resident bytes in a range of addresses: a parser of `/proc/self/smaps`
//! (proc(5)), which takes text, and the call that reads the file.

use crate::Error;
use std::ops::Range;

/// The kernel's figures for a range of addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Mappings (VMAs) that overlap the range.
    pub mappings: usize,
    /// Resident bytes of those mappings.
    pub resident_bytes: usize,
}

/// Adds up the figures of `smaps` (or `maps`, which has no residency) for `addresses`. Skips lines
/// that are neither a mapping nor its residency, because kernels add fields.
pub fn usage_of(smaps: &str, addresses: &Range<usize>) -> Usage {
    let mut usage = Usage::default();
    let mut inside = false;
    for line in smaps.lines() {
        if let Some(mapping) = mapping(line) {
            inside = mapping.start < addresses.end && addresses.start < mapping.end;
            usage.mappings += usize::from(inside);
        } else if inside && let Some(kib) = line.strip_prefix("Rss:").and_then(kib) {
            usage.resident_bytes += kib << 10;
        }
    }
    usage
}

/// The addresses of a line such as `7f12a000-7f12b000 rw-p 00000000 00:00 0`.
fn mapping(line: &str) -> Option<Range<usize>> {
    let (start, rest) = line.split_once('-')?;
    let (end, _) = rest.split_once(' ')?;
    Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
}

fn kib(value: &str) -> Option<usize> {
    value.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// Reads the kernel's figures now. The kernel walks the range's page tables: for reports.
#[cfg(not(miri))]
pub(crate) fn usage(addresses: &Range<usize>) -> Result<Usage, Error> {
    let file = "/proc/self/smaps";
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(usage_of(&text, addresses)),
        Err(source) => Err(Error::Usage { file, source }),
    }
}

/// Miri has no kernel to ask.
#[cfg(miri)]
pub(crate) fn usage(_: &Range<usize>) -> Result<Usage, Error> {
    Ok(Usage { mappings: 1, resident_bytes: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
7f0000000000-7f0000010000 rw-p 00000000 00:00 0 
Size:                 64 kB
Rss:                  12 kB
VmFlags: rd wr mr mw me ac
7f0000010000-7f0000020000 ---p 00000000 00:00 0 
Rss:                   0 kB
7f0000030000-7f0000040000 r-xp 00000000 08:01 1234    /usr/lib/a-b c.so
Rss:                  40 kB
";

    #[test]
    fn mappings_count_where_they_touch_the_range() {
        assert_eq!(
            usage_of(SMAPS, &(0x7f00_0000_8000..0x7f00_0002_0000)),
            Usage { mappings: 2, resident_bytes: 12 << 10 }
        );
        assert_eq!(
            usage_of(SMAPS, &(0x7f00_0003_ffff..0x7f00_0004_0000)),
            Usage { mappings: 1, resident_bytes: 40 << 10 }
        );
        assert_eq!(usage_of(SMAPS, &(0x7f00_0002_0000..0x7f00_0003_0000)), Usage::default());
    }

    #[test]
    fn what_is_no_mapping_is_passed_over() {
        assert_eq!(
            usage_of("zz-yy rw-p\nRss: 4 kB\n\n-\n5-\nRss: x kB", &(0..usize::MAX)),
            Usage::default()
        );
    }
}
