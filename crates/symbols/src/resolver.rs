//! From an address to its functions: debug information first, then symbol tables.
//!
//! Debug information also describes functions that the linker threw away. Their code then "begins"
//! at address 0 and would cover all low addresses. The resolver recognises such a function by its
//! beginning, which lies in no section of code.

use crate::{
    Image, SymbolError,
    abbreviations::Bounds,
    demangle::{cut, demangle},
    image::Slice,
    split::{self, SplitUnit, SplitUnits},
    symbol_table::SymbolTable,
};
use addr2line::{
    Context,
    gimli::{self, Reader, Section},
};
use std::{collections::BTreeMap, ops::Range, sync::Arc};

/// Longest source path kept, in bytes (Linux's own limit).
const FILE_MAX_BYTES: usize = 4096;
/// Most functions inlined into each other at one address; compilers stay far below.
const INLINED_MAX: usize = 256;

/// A function at an address, and the address's place in its source.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Place {
    /// Demangled name; `None`: only the line is known.
    pub function: Option<String>,
    /// Source file, by the compiler's name.
    pub file: Option<String>,
    /// Source line, from 1; 0: unknown.
    pub line: u32,
}

/// Names for the addresses of one module.
pub struct Resolver<'a> {
    debug: Option<Context<Slice<'a>>>,
    /// The sections that `debug` reads.
    sections: Option<Arc<gimli::Dwarf<Slice<'a>>>>,
    split: SplitUnits<'a>,
    symbols: Vec<SymbolTable<'a>>,
    code: Vec<Range<u64>>,
    problems: Vec<SymbolError>,
}

impl std::fmt::Debug for Resolver<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Resolver { debug, symbols, problems, .. } = self;
        formatter
            .debug_struct("Resolver")
            .field("debug", &debug.is_some())
            .field("symbols", symbols)
            .field("problems", problems)
            .finish()
    }
}

impl<'a> Resolver<'a> {
    /// Names from `image`, its separate `debug` file, and the `alternate` file that the debug file
    /// shares with others. Damaged parts are left out and listed by [`Resolver::problems`].
    ///
    /// A program with split DWARF gives only lines and the names of its symbol table until the
    /// other files are added: see [`Resolver::split_units`].
    pub fn new(
        image: &'a Image,
        debug: Option<&'a Image>,
        alternate: Option<&'a Image>,
    ) -> Resolver<'a> {
        let mut problems = Vec::new();
        let mut symbols = Vec::new();
        for file in debug.into_iter().chain([image]) {
            match file.symbols() {
                Ok(table) if table.is_empty() => {}
                Ok(table) => symbols.push(table),
                Err(problem) => problems.push(problem),
            }
        }
        let source = debug.into_iter().chain([image]).find(|file| file.has_debug_information());
        let sections = source
            .and_then(|file| {
                sections(file, alternate).map_err(|problem| problems.push(problem)).ok()
            })
            .map(Arc::new);
        let context =
            sections.clone().map(|sections| Context::from_arc_dwarf(sections).map_err(damaged));
        let context =
            context.and_then(|context| context.map_err(|problem| problems.push(problem)).ok());
        Resolver {
            debug: context,
            sections,
            split: SplitUnits::new(),
            symbols,
            code: image.code(),
            problems,
        }
    }

    /// The units in other files with more about `addresses`, each once. Find these units, and pass
    /// them to [`Resolver::add_split`], before resolving the addresses: the resolver looks for a
    /// unit only once.
    pub fn split_units(&self, addresses: &[u64]) -> Vec<SplitUnit> {
        let Some(context) = &self.debug else { return Vec::new() };
        let mut units = BTreeMap::new();
        for address in addresses.iter().filter(|address| is_code(&self.code, **address)) {
            for (load, _) in context.preload_units(*address) {
                units.entry(load.dwo_id.0).or_insert_with(|| SplitUnit::of(&load));
            }
        }
        units.into_values().collect()
    }

    /// Takes the units `ids` that are in `file`, a `.dwo` file or a package.
    ///
    /// # Errors
    /// The file is damaged, and no unit was taken.
    pub fn add_split(&mut self, ids: &[u64], file: &'a Image) -> Result<(), SymbolError> {
        let Some(sections) = &self.sections else { return Ok(()) };
        let units = split::units(file, ids, sections)?;
        self.split.extend(units.into_iter().map(|(id, unit)| (id, Arc::new(unit))));
        Ok(())
    }

    /// The functions at `address` (as the file counts it), innermost first: the last one has its
    /// own code, the others are inlined into their successors. Empty: nothing known contains the
    /// address.
    pub fn resolve(&mut self, address: u64) -> Vec<Place> {
        if !is_code(&self.code, address) {
            return Vec::new();
        }
        let mut places = self.debug.as_ref().map_or(Vec::new(), |context| {
            for (load, put) in context.preload_units(address) {
                // An error comes again below.
                let _ = put(self.split.get(&load.dwo_id.0).cloned());
            }
            described(context, &self.code, address).unwrap_or_else(|error| {
                if self.problems.is_empty() {
                    self.problems.push(damaged(error));
                }
                // Functions and lines are separate, with split DWARF even in different files: one
                // may be sound.
                line(context, address).into_iter().collect()
            })
        });
        let symbol =
            self.symbols.iter().find_map(|table| table.find(address)).map(String::from_utf8_lossy);
        let Some(mangled) = symbol else { return places };
        let symbol = demangle(&mangled);
        match places.last_mut() {
            // An unmangled symbol is C's, and at best an alias or a clone (`f.constprop.0`) of the
            // described function.
            Some(Place { function: Some(name), .. })
                if symbol == mangled || !is_fuller(&symbol, name) => {}
            Some(outermost) => outermost.function = Some(symbol),
            None => places.push(Place { function: Some(symbol), ..Place::default() }),
        }
        places
    }

    /// Whether there is debug information (and not only symbol tables).
    pub fn has_debug_information(&self) -> bool {
        self.debug.is_some()
    }

    /// Parts that could not be read.
    pub fn problems(&self) -> &[SymbolError] {
        &self.problems
    }
}

fn sections<'a>(
    file: &'a Image,
    alternate: Option<&'a Image>,
) -> Result<gimli::Dwarf<Slice<'a>>, SymbolError> {
    let bounded = |file: &'a Image| {
        let mut dwarf = file.dwarf()?;
        Bounds::new(dwarf.debug_abbrev.reader().len()).check(&dwarf)?;
        // A table that several units share is read once.
        dwarf.populate_abbreviations_cache(gimli::AbbreviationsCacheStrategy::Duplicates);
        Ok(dwarf)
    };
    let mut dwarf = bounded(file)?;
    if let Some(alternate) = alternate {
        dwarf.set_sup(bounded(alternate)?);
    }
    Ok(dwarf)
}

fn damaged(error: gimli::Error) -> SymbolError {
    SymbolError::Dwarf(error.to_string())
}

/// Whether the demangled symbol says more than the debug information's `name`. Static and generic
/// functions may have only the bare name there, and the path and the parameters in the symbol. Both
/// must mean the same function: the linker may have folded identical code of two functions, and the
/// symbol may be the other's.
fn is_fuller(symbol: &str, name: &str) -> bool {
    let bare = name.split('<').next().unwrap_or_default();
    !bare.is_empty()
        && !bare.contains("::")
        && !bare.contains('(')
        && symbol.len() > bare.len()
        && symbol.contains(bare)
}

fn is_code(code: &[Range<u64>], address: u64) -> bool {
    code.iter().any(|section| section.contains(&address))
}

/// The debug information's functions at `address`; empty for a function that the linker threw away.
fn described(
    context: &Context<Slice<'_>>,
    code: &[Range<u64>],
    address: u64,
) -> Result<Vec<Place>, gimli::Error> {
    let mut places = Vec::new();
    let mut function = None;
    let mut frames = context.find_frames(address).skip_all_loads()?;
    while let Some(frame) = frames.next()? {
        function = frame.dw_die_offset;
        let place = Place {
            function: frame.function.and_then(|name| Some(demangle(&name.raw_name().ok()?))),
            file: frame
                .location
                .as_ref()
                .and_then(|location| Some(cut(location.file?, FILE_MAX_BYTES).to_owned())),
            line: frame.location.and_then(|location| location.line).unwrap_or(0),
        };
        if place != Place::default() && places.len() < INLINED_MAX {
            places.push(place);
        }
    }
    match (function, context.find_dwarf_and_unit(address).skip_all_loads()) {
        (Some(function), Some(unit)) if !is_linked(unit, function, code, address)? => {
            Ok(Vec::new())
        }
        _ => Ok(places),
    }
}

/// The source line at `address`, if nothing more is known.
fn line(context: &Context<Slice<'_>>, address: u64) -> Option<Place> {
    let location = context.find_location(address).ok()??;
    let file = location.file.map(|file| cut(file, FILE_MAX_BYTES).to_owned());
    let place = Place { function: None, file, line: location.line.unwrap_or(0) };
    (place != Place::default()).then_some(place)
}

/// Whether the range of `function` around `address` begins in code; it does unless the linker threw
/// the function away.
fn is_linked(
    unit: gimli::UnitRef<'_, Slice<'_>>,
    function: gimli::UnitOffset,
    code: &[Range<u64>],
    address: u64,
) -> Result<bool, gimli::Error> {
    let mut ranges = unit.die_ranges(&unit.entry(function)?)?;
    while let Some(range) = ranges.next()? {
        if (range.begin..range.end).contains(&address) && is_code(code, range.begin) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::is_fuller;

    #[test]
    fn a_symbol_adds_its_path_to_the_same_function_only() {
        assert!(is_fuller("shop::hidden(int)", "hidden"));
        assert!(is_fuller(
            "heaplab::resolve::<heaplab::main::{closure#0}>",
            "resolve<heaplab::main::{closure_env#0}>"
        ));
        assert!(is_fuller("heaplab::main::{closure#0}", "{closure#0}"));
        assert!(!is_fuller("shop::other(int)", "hidden"), "folded code");
        assert!(!is_fuller("main", "main"));
        assert!(!is_fuller("shop::hidden(int) [clone .cold]", "shop::hidden(int)"));
        assert!(!is_fuller("a", "<b>"));
    }
}
