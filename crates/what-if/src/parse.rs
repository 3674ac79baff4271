//! Rules as written on a command line: `FUNCTION=2x`, `FUNCTION=64k`, `FUNCTION:4368=4096`.

use crate::{CHUNK_BYTES, Change, Growth, Place, Rule, SizeRow, Sizes, WhatIfError};

/// How sizes are written.
const SIZE: &str = "FUNCTION:A=B (requests of A bytes ask for B), FUNCTION:A=B+C (for two blocks), or FUNCTION:-N (every request is N bytes less)";

impl Rule {
    /// `FUNCTION=2x`, or `FUNCTION=pow2` for powers of two.
    ///
    /// # Errors
    /// The text has another form.
    pub fn grow(text: &str) -> Result<Rule, WhatIfError> {
        let growth = |text: &str| {
            if text == "pow2" {
                return Some(Growth::PowerOfTwo);
            }
            let factor: f64 = text.strip_suffix('x').unwrap_or(text).parse().ok()?;
            (factor > 1.0 && factor <= 1024.0).then_some(Growth::Factor(factor))
        };
        let parsed = text.rsplit_once('=').and_then(|(name, by)| Some((name, growth(by)?)));
        let expected = "FUNCTION=FACTOR with a factor over 1 (read_line=2x), or FUNCTION=pow2";
        let (name, growth) = parsed.ok_or_else(|| malformed(text, expected))?;
        rule(text, name, Change::Grow(growth))
    }

    /// `FUNCTION=64k`.
    ///
    /// # Errors
    /// The text has another form.
    pub fn cap(text: &str) -> Result<Rule, WhatIfError> {
        let parsed = text.rsplit_once('=').and_then(|(name, most)| Some((name, bytes(most)?)));
        let expected = "FUNCTION=BYTES, for example load_page=64k";
        let (name, bytes) = parsed.ok_or_else(|| malformed(text, expected))?;
        rule(text, name, Change::Cap { bytes })
    }

    /// `FUNCTION`.
    ///
    /// # Errors
    /// The name is empty.
    pub fn reuse(text: &str) -> Result<Rule, WhatIfError> {
        rule(text, text, Change::Reuse)
    }

    /// `FUNCTION`.
    ///
    /// # Errors
    /// The name is empty.
    pub fn dropped(text: &str) -> Result<Rule, WhatIfError> {
        rule(text, text, Change::Drop)
    }

    /// `FUNCTION`, or `FUNCTION=16k` with the size of a chunk.
    ///
    /// # Errors
    /// The name is empty.
    pub fn arena(text: &str) -> Result<Rule, WhatIfError> {
        // A function may have a `=` in its name, and no number behind it.
        let sized = text
            .rsplit_once('=')
            .filter(|(_, size)| size.starts_with(|c: char| c.is_ascii_digit()));
        let Some((name, size)) = sized else {
            return rule(text, text, Change::Arena { chunk_bytes: CHUNK_BYTES });
        };
        let expected = "FUNCTION, or FUNCTION=BYTES with chunks of 64 bytes and more (parse=16k)";
        let chunk_bytes = bytes(size).filter(|size| *size >= 64);
        let chunk_bytes = chunk_bytes.ok_or_else(|| malformed(text, expected))?;
        rule(text, name, Change::Arena { chunk_bytes })
    }

    /// `FUNCTION:4368=4096`, `FUNCTION:4368=4096+272`, `FUNCTION:-8`.
    ///
    /// # Errors
    /// The text has another form.
    pub fn size(text: &str) -> Result<Rule, WhatIfError> {
        let (name, sizes) = sizes(text).ok_or_else(|| malformed(text, SIZE))?;
        rule(text, name, Change::Sizes(sizes))
    }
}

fn malformed(text: &str, expected: &'static str) -> WhatIfError {
    WhatIfError::Malformed { text: text.into(), expected }
}

fn rule(text: &str, name: &str, change: Change) -> Result<Rule, WhatIfError> {
    if name.is_empty() {
        return Err(malformed(text, "the name of a function before the rest (* for all)"));
    }
    Ok(Rule { place: Place::Function(name.into()), except: Vec::new(), change })
}

fn sizes(text: &str) -> Option<(&str, Sizes)> {
    let (name, rest) = text.rsplit_once(':')?;
    if let Some(less) = rest.strip_prefix('-') {
        return Some((name, Sizes::Less(bytes(less).filter(|less| *less > 0)?)));
    }
    let (from, to) = rest.split_once('=')?;
    let (to, beside) = match to.split_once('+') {
        Some((to, beside)) => (bytes(to)?, bytes(beside).filter(|beside| *beside > 0)?),
        None => (bytes(to)?, 0),
    };
    let row = SizeRow { from: bytes(from)?, to, beside, displaces: false };
    Some((name, Sizes::Table(vec![row])))
}

/// `4368`, `64k`, `1.5m`, `2g`, also as `64KiB`, in powers of 1024. At most the largest size of an
/// object.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let factor = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1u64,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        _ => return None,
    };
    let bytes = match number.parse::<u64>() {
        Ok(whole) => whole.checked_mul(factor)?,
        Err(_) => (number.parse::<f64>().ok()? * factor as f64).round() as u64,
    };
    (bytes <= heaplab_trace::order::OBJECT_BYTES_MAX).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_as_written() {
        let change = |rule: Result<Rule, WhatIfError>| {
            let rule = rule.unwrap();
            (rule.place.name().to_owned(), rule.change)
        };
        let table = |from, to, beside| {
            let rows = vec![SizeRow { from, to, beside, displaces: false }];
            Change::Sizes(Sizes::Table(rows))
        };
        let grow = |growth| ("a::b".to_owned(), Change::Grow(growth));
        assert_eq!(change(Rule::grow("a::b=1.5x")), grow(Growth::Factor(1.5)));
        assert_eq!(change(Rule::grow("a::b=pow2")), grow(Growth::PowerOfTwo));
        assert_eq!(change(Rule::cap("load=64k")), ("load".into(), Change::Cap { bytes: 65536 }));
        assert_eq!(change(Rule::size("a::b:4368=4096")), ("a::b".into(), table(4368, 4096, 0)));
        assert_eq!(change(Rule::size("f:4368=4K+272")), ("f".into(), table(4368, 4096, 272)));
        assert_eq!(change(Rule::size("*:-8")), ("*".into(), Change::Sizes(Sizes::Less(8))));
        let arena = |chunk_bytes| Change::Arena { chunk_bytes };
        assert_eq!(change(Rule::arena("f")), ("f".into(), arena(CHUNK_BYTES)));
        assert_eq!(change(Rule::arena("f=1.5k")), ("f".into(), arena(1536)));
        assert_eq!(
            change(Rule::arena("T::operator=")),
            ("T::operator=".into(), arena(CHUNK_BYTES))
        );
    }

    #[test]
    fn what_is_no_rule_is_refused_with_an_example() {
        for rule in [
            Rule::grow("f"),
            Rule::grow("f=1x"),
            Rule::grow("f=nan"),
            Rule::grow("=2x"),
            Rule::cap("f=64q"),
            Rule::cap("f=-1"),
            Rule::cap("f=99999999g"),
            Rule::cap("f=18446744073709551615g"),
            Rule::size("4368=4096"),
            Rule::size("f:4368"),
            Rule::size("f:-0"),
            Rule::size("f:8=8+0"),
            Rule::reuse(""),
            Rule::arena("f=0"),
            Rule::arena("f=1T"),
        ] {
            let error = rule.unwrap_err().to_string();
            assert!(
                error.contains("expected") && error.contains("FUNCTION")
                    || error.contains("name of a function"),
                "{error}"
            );
        }
    }
}
