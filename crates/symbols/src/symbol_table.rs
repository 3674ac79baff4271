//! Symbol tables (`.symtab`, `.dynsym`) as disjoint ranges, for lookups by exact containment.
//!
//! Symbols may share an address (aliases) and may lie inside each other. Both are settled once, so
//! a lookup is one binary search for every file: the innermost symbol wins, and among aliases the
//! one that a reader expects (`malloc`, not `__libc_malloc`).

use object::{Object, ObjectSymbol, SymbolKind};

/// A range of addresses and its name (a byte range of the file, by symbol number).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    start: u64,
    end: u64,
    symbol: usize,
}

/// A function symbol with a size.
#[derive(Clone, Debug)]
struct Symbol<'a> {
    start: u64,
    end: u64,
    name: &'a [u8],
    rank: (bool, bool, usize),
}

/// The functions of one file's symbol tables.
#[derive(Debug, Default)]
pub(crate) struct SymbolTable<'a> {
    symbols: Vec<Symbol<'a>>,
    segments: Vec<Segment>,
}

impl<'a> SymbolTable<'a> {
    /// Reads `.symtab` and, for addresses outside of it (stripped libraries), `.dynsym`.
    pub(crate) fn of(file: &object::File<'a>) -> Self {
        let mut symbols: Vec<Symbol<'a>> =
            file.symbols().filter_map(|symbol| function(&symbol)).collect();
        symbols.extend(file.dynamic_symbols().filter_map(|symbol| function(&symbol)));
        Self::new(symbols)
    }

    fn new(mut symbols: Vec<Symbol<'a>>) -> Self {
        // Outer before inner; among aliases the preferred one last, because the last one pushed
        // covers the others.
        symbols.sort_by(|a, b| {
            a.start
                .cmp(&b.start)
                .then(b.end.cmp(&a.end))
                .then_with(|| b.rank.cmp(&a.rank))
                .then_with(|| b.name.cmp(a.name))
        });
        let segments = disjoint(&symbols);
        SymbolTable { symbols, segments }
    }

    /// The name of the function that contains `address`.
    pub(crate) fn find(&self, address: u64) -> Option<&'a [u8]> {
        let after = self.segments.partition_point(|segment| segment.start <= address);
        let segment = self.segments.get(after.checked_sub(1)?)?;
        (address < segment.end).then(|| self.symbols[segment.symbol].name)
    }

    /// Whether the table is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }
}

/// The symbol, if it is a function of this file with a size and a name.
fn function<'a>(symbol: &impl ObjectSymbol<'a>) -> Option<Symbol<'a>> {
    if symbol.kind() != SymbolKind::Text || symbol.is_undefined() || symbol.size() == 0 {
        return None;
    }
    let name = symbol.name_bytes().ok().filter(|name| !name.is_empty())?;
    let underscores = name.iter().take_while(|byte| **byte == b'_').count();
    let end = symbol.address().checked_add(symbol.size())?;
    Some(Symbol {
        start: symbol.address(),
        end,
        name,
        rank: (symbol.is_local(), symbol.is_weak() && underscores > 0, underscores),
    })
}

/// Splits symbols sorted by start (outer first) into disjoint ranges, at most two a symbol.
fn disjoint(symbols: &[Symbol<'_>]) -> Vec<Segment> {
    let mut segments = Vec::with_capacity(symbols.len());
    let mut open: Vec<usize> = Vec::new();
    let mut at = 0;
    let mut close_until = |limit: u64, open: &mut Vec<usize>, at: &mut u64| {
        while let Some(&top) = open.last() {
            let end = symbols[top].end.min(limit);
            if *at < end {
                segments.push(Segment { start: *at, end, symbol: top });
                *at = end;
            }
            if symbols[top].end > limit {
                return;
            }
            open.pop();
        }
    };
    for (number, symbol) in symbols.iter().enumerate() {
        close_until(symbol.start, &mut open, &mut at);
        at = symbol.start;
        open.push(number);
    }
    close_until(u64::MAX, &mut open, &mut at);
    segments
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn symbol(start: u64, size: u64, name: &str) -> Symbol<'_> {
        Symbol { start, end: start + size, name: name.as_bytes(), rank: (false, false, 0) }
    }

    #[test]
    fn only_containment_gives_a_name() {
        let table = SymbolTable::new(vec![symbol(0x100, 0x10, "f"), symbol(0x200, 0x10, "g")]);
        assert_eq!(table.find(0xff), None);
        assert_eq!(table.find(0x100), Some(&b"f"[..]));
        assert_eq!(table.find(0x10f), Some(&b"f"[..]));
        assert_eq!(table.find(0x110), None, "the nearest symbol is not the right one");
        assert_eq!(table.find(0x20f), Some(&b"g"[..]));
        assert_eq!(table.find(u64::MAX), None);
    }

    #[test]
    fn the_innermost_symbol_wins_and_the_outer_one_resumes() {
        let table =
            SymbolTable::new(vec![symbol(0x100, 0x100, "outer"), symbol(0x140, 0x10, "inner")]);
        assert_eq!(table.find(0x13f), Some(&b"outer"[..]));
        assert_eq!(table.find(0x140), Some(&b"inner"[..]));
        assert_eq!(table.find(0x150), Some(&b"outer"[..]));
    }

    #[test]
    fn among_aliases_the_plain_name_wins() {
        let alias = |name: &'static str, underscores| Symbol {
            rank: (false, false, underscores),
            ..symbol(0x10, 4, name)
        };
        let table = SymbolTable::new(vec![alias("malloc", 0), alias("__libc_malloc", 2)]);
        assert_eq!(table.find(0x12), Some(&b"malloc"[..]));
        let table = SymbolTable::new(vec![alias("__libc_malloc", 2), alias("malloc", 0)]);
        assert_eq!(table.find(0x12), Some(&b"malloc"[..]));
    }

    proptest! {
        #[test]
        fn agrees_with_a_linear_search(ranges in proptest::collection::vec((0u64..64, 1u64..32), 0..24)) {
            let names: Vec<String> = (0..ranges.len()).map(|number| format!("f{number:02}")).collect();
            let symbols: Vec<_> = ranges.iter().zip(&names).map(|((start, size), name)| symbol(*start, *size, name)).collect();
            let table = SymbolTable::new(symbols.clone());
            prop_assert!(table.segments.windows(2).all(|pair| pair[0].end <= pair[1].start));
            prop_assert!(table.segments.len() <= 2 * symbols.len());
            for address in 0..100 {
                // The innermost: starts last, then ends first.
                let expected = symbols.iter().filter(|s| s.start <= address && address < s.end)
                    .max_by(|a, b| a.start.cmp(&b.start).then(b.end.cmp(&a.end)).then_with(|| b.name.cmp(a.name)));
                prop_assert_eq!(table.find(address), expected.map(|s| s.name));
            }
        }
    }
}
