//! Numbers in the form of HotSpot's `jcmd VM.metaspace`, whose text users compare with ours.

/// Bytes in the largest unit that gives at least one: `64.00 KB`.
pub fn bytes(bytes: u64) -> String {
    scaled(bytes).map_or_else(|| format!("{bytes} bytes"), |(n, unit)| format!("{n:.2} {unit}"))
}

/// The same in two or three digits, for tables that must fit a terminal: `64.0 KB`, `512 KB`.
pub fn short(bytes: u64) -> String {
    let Some((number, unit)) = scaled(bytes) else { return format!("{bytes} B") };
    let digits = if number >= 100.0 { 0 } else { 1 };
    format!("{number:.digits$} {unit}")
}

/// A share, four characters wide.
pub fn percent(part: u64, whole: u64) -> String {
    match (part, whole) {
        (_, 0) => "  ?%".into(),
        (0, _) => "  0%".into(),
        (part, whole) if part == whole => "100%".into(),
        (part, whole) => match 100.0 * part as f64 / whole as f64 {
            share if share < 1.0 => " <1%".into(),
            share if share > 99.0 => ">99%".into(),
            share => format!("{share:3.0}%"),
        },
    }
}

fn scaled(bytes: u64) -> Option<(f64, &'static str)> {
    let units = [("GB", 30), ("MB", 20), ("KB", 10)];
    let (unit, shift) = units.into_iter().find(|(_, shift)| bytes >= 1 << shift)?;
    Some((bytes as f64 / f64::from(1 << shift), unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_jcmd() {
        assert_eq!(
            [0, 1023, 1024, 65536].map(bytes),
            ["0 bytes", "1023 bytes", "1.00 KB", "64.00 KB"]
        );
        assert_eq!([880, 10 << 10, 448 << 10].map(short), ["880 B", "10.0 KB", "448 KB"]);
        assert_eq!(bytes(3 << 30), "3.00 GB");
        let shares = [(1, 0), (0, 9), (9, 9), (1, 1000), (999, 1000), (1, 8)];
        let expected = ["  ?%", "  0%", "100%", " <1%", ">99%", " 12%"];
        assert_eq!(shares.map(|(part, whole)| percent(part, whole)), expected);
    }
}
