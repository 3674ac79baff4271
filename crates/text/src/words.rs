//! Numbers in sentences, the same everywhere: `1,048,584`, `9.2 MiB`, `19.6 %`.

/// With a comma between thousands.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// In the largest unit that gives at least 1, with three digits.
pub fn bytes(number: u64) -> String {
    let (number, unit) = number_and_unit(number);
    format!("{number} {unit}")
}

/// A range of bytes, the unit once where it is one: `23.5 to 27.9 MiB`.
pub fn bytes_range(low: u64, high: u64) -> String {
    let (high, unit) = number_and_unit(high);
    match number_and_unit(low) {
        (low, same) if same == unit => format!("{low} to {high} {unit}"),
        (low, other) => format!("{low} {other} to {high} {unit}"),
    }
}

/// [`bytes`], the number and its unit.
pub fn number_and_unit(number: u64) -> (String, &'static str) {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if number < 1024 {
        return (number.to_string(), if number == 1 { "byte" } else { "bytes" });
    }
    let mut value = number as f64 / 1024.0;
    let mut unit = 0;
    // 999.5 would be shown as 1000: better in the next unit.
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let decimals = if value < 9.995 {
        2
    } else if value < 99.95 {
        1
    } else {
        0
    };
    (format!("{value:.decimals$}"), UNITS[unit])
}

/// What moves copied: so many bytes, and perhaps others that may have been remapped: `158 KiB`, `at
/// least 158 KiB`, `nothing`.
pub fn copied(known: u64, remapped: u64) -> String {
    match (known, remapped) {
        (0, 0) => "nothing".into(),
        (0, _) => format!("at most {}", bytes(remapped)),
        (_, 0) => bytes(known),
        (_, _) => format!("at least {}", bytes(known)),
    }
}

/// A share of one in percent: `19.6 %`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent == 0.0 {
        "0 %".into()
    } else if percent < 0.05 {
        "< 0.1 %".into()
    } else if percent < 99.95 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}

/// Nanoseconds in the largest unit in which they are at least one.
pub fn duration(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        // A value that would round to 1000.0 uses the next unit.
        1_000..999_950 => format!("{:.1} us", ns as f64 / 1e3),
        999_950..999_950_000 => format!("{:.1} ms", ns as f64 / 1e6),
        999_950_000..120_000_000_000 => format!("{:.2} s", ns as f64 / 1e9),
        120_000_000_000..7_200_000_000_000 => format!("{:.1} min", ns as f64 / 6e10),
        _ => format!("{:.1} h", ns as f64 / 3.6e12),
    }
}

/// `1 block`, `2 blocks`, `2 passes`.
pub fn plural(number: u64, one: &str) -> String {
    let ending = match number {
        1 => "",
        _ if one.ends_with('s') => "es",
        _ => "s",
    };
    format!("{} {one}{ending}", count(number))
}

/// The sentence `text` behind its count. `text` has both forms of words that depend on the number:
/// `[block was|blocks were] given back`.
///
/// ```
/// use heaplab_text::words::so_many;
/// assert_eq!(so_many(1, "[block was|blocks were] given back"), "1 block was given back");
/// assert_eq!(so_many(20, "[block was|blocks were] given back"), "20 blocks were given back");
/// ```
pub fn so_many(count: u64, text: &str) -> String {
    let mut sentence = format!("{count} ");
    let mut rest = text;
    while let Some((before, choice, after)) = choice(rest) {
        sentence.push_str(before);
        sentence.push_str(if count == 1 { choice.0 } else { choice.1 });
        rest = after;
    }
    sentence.push_str(rest);
    sentence
}

/// The text before the first choice, the choice, and the text behind it.
fn choice(text: &str) -> Option<(&str, (&str, &str), &str)> {
    let (before, behind) = text.split_once('[')?;
    let (choice, after) = behind.split_once(']')?;
    Some((before, choice.split_once('|')?, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_its_unit_once() {
        assert_eq!(bytes_range(23_500 << 10, 27_900 << 10), "22.9 to 27.2 MiB");
        assert_eq!(bytes_range(512, 2048), "512 bytes to 2.00 KiB");
    }

    #[test]
    fn as_a_person_writes_them() {
        assert_eq!(count(0), "0");
        assert_eq!(count(549_756_338_176), "549,756,338,176");
        assert_eq!(count(1_000), "1,000");
        assert_eq!(bytes(1), "1 byte");
        assert_eq!(bytes(1023), "1023 bytes");
        assert_eq!(bytes(1024), "1.00 KiB");
        assert_eq!(bytes(1_048_575), "1.00 MiB");
        assert_eq!(bytes(9_247_632), "8.82 MiB");
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
        assert_eq!(
            [copied(0, 0), copied(10, 0), copied(10, 20), copied(0, 20)],
            ["nothing", "10 bytes", "at least 10 bytes", "at most 20 bytes"]
        );
        assert_eq!(percent(0.196), "19.6 %");
        assert_eq!(percent(0.000_1), "< 0.1 %");
        assert_eq!(percent(2.0), "200 %");
        assert_eq!(duration(1_500_000_000), "1.50 s");
        assert_eq!(
            [duration(999_949), duration(999_999), duration(999_999_999)],
            ["999.9 us", "1.0 ms", "1.00 s"]
        );
        assert_eq!(plural(1, "block"), "1 block");
        assert_eq!(plural(2000, "block"), "2,000 blocks");
        assert_eq!([plural(1, "pass"), plural(2, "pass")], ["1 pass", "2 passes"]);
    }

    #[test]
    fn one_is_one_and_what_is_no_choice_stays() {
        assert_eq!(
            so_many(1, "[free|frees] of what [was|were] not there"),
            "1 free of what was not there"
        );
        assert_eq!(
            so_many(0, "[free|frees] of what [was|were] not there"),
            "0 frees of what were not there"
        );
        for plain in ["lines", "a [b", "a ] b [", "[x] y", ""] {
            assert_eq!(so_many(1, plain), format!("1 {plain}"));
        }
    }
}
