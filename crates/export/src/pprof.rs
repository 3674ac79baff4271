//! pprof: the sample types of a Go heap profile, so `go tool pprof` and everything built on it
//! shows all its views.
//!
//! Every mapping is marked as symbolized. Otherwise pprof looks for names itself, by the nearest
//! symbol below an address, and gives stripped libraries wrong ones; here a nameless frame is named
//! by its module and offset.

use crate::{
    Export, ExportError,
    pprof_messages::{Function, Line, Location, Mapping, Profile, Sample, ValueType},
    stacks::{NO_STACK_LABEL, Weighted, functions, return_addresses, weighted},
};
use flate2::{Compression, write::GzEncoder};
use prost::Message;
use std::{collections::HashMap, io::Write};

/// Writes the profile, compressed.
pub fn write(export: &Export<'_>, out: &mut impl Write) -> Result<(), ExportError> {
    let mut writer = Writer::new(export);
    writer.header()?;
    for row in weighted(export)? {
        writer.sample(&row)?;
    }
    let mut gzip = GzEncoder::new(out, Compression::default());
    gzip.write_all(&writer.finish().encode_to_vec())?;
    gzip.finish()?.flush()?;
    Ok(())
}

struct Writer<'a, 'b> {
    export: &'a Export<'b>,
    profile: Profile,
    strings: HashMap<String, i64>,
    /// Mapping by row of `modules`.
    mappings: HashMap<u32, u64>,
    /// Location by row of `frames`; `None`: no stack was recorded.
    locations: HashMap<Option<u32>, u64>,
    /// Function by name and file.
    functions: HashMap<(i64, i64), u64>,
}

impl<'a, 'b> Writer<'a, 'b> {
    fn new(export: &'a Export<'b>) -> Self {
        let strings = HashMap::from([(String::new(), 0)]);
        let profile = Profile::default();
        Writer {
            export,
            profile,
            strings,
            mappings: HashMap::new(),
            locations: HashMap::new(),
            functions: HashMap::new(),
        }
    }

    fn header(&mut self) -> Result<(), ExportError> {
        // pprof takes the first mapping for the program.
        if let Some(row) = self.executable() {
            self.mapping(row);
        }
        let types = [
            ("alloc_objects", "count"),
            ("alloc_space", "bytes"),
            ("inuse_objects", "count"),
            ("inuse_space", "bytes"),
        ];
        self.profile.sample_type = types
            .map(|(name, unit)| ValueType { r#type: self.string(name), unit: self.string(unit) })
            .into();
        self.profile.period_type =
            Some(ValueType { r#type: self.string("space"), unit: self.string("bytes") });
        self.profile.period = 1;
        self.profile.default_sample_type = self.string("inuse_space");
        let began_ns = self.export.about.began_unix_s.saturating_mul(1_000_000_000);
        self.profile.time_nanos = number("the time of the recording in ns", began_ns)?;
        self.profile.duration_nanos =
            number("its duration in ns", self.export.profile.totals.duration_ns)?;
        let about = &self.export.about;
        let what = format!(
            "{} (process {}), in use at {}",
            about.program,
            about.pid,
            self.export.moment_name()
        );
        let writer = concat!("heaplab ", env!("CARGO_PKG_VERSION"));
        self.profile.comment = [what.as_str(), writer].map(|comment| self.string(comment)).into();
        Ok(())
    }

    /// The module of the process's own program.
    fn executable(&self) -> Option<u32> {
        let tables = self.export.tables;
        let is_program = |path: &str| {
            let mut processes =
                tables.processes.iter().filter(|process| process.pid == self.export.about.pid);
            processes.any(|process| process.executable == path)
        };
        tables.modules.iter().position(|module| is_program(&module.path)).map(|row| row as u32)
    }

    fn sample(&mut self, row: &Weighted) -> Result<(), ExportError> {
        let values =
            [row.requested.objects, row.requested.bytes, row.in_use.objects, row.in_use.bytes];
        let names = ["allocated objects", "allocated bytes", "objects in use", "bytes in use"];
        let value = names
            .iter()
            .zip(values)
            .map(|(name, value)| number(name, value))
            .collect::<Result<_, _>>()?;
        let mut location_id: Vec<u64> = return_addresses(self.export.tables, row.stack)
            .map(|frame| self.location(Some(frame)))
            .collect();
        if location_id.is_empty() {
            location_id.push(self.location(None));
        }
        self.profile.sample.push(Sample { location_id, value });
        Ok(())
    }

    fn location(&mut self, frame: Option<u32>) -> u64 {
        if let Some(id) = self.locations.get(&frame) {
            return *id;
        }
        let tables = self.export.tables;
        let id = self.locations.len() as u64 + 1;
        self.locations.insert(frame, id);
        let place = frame.and_then(|frame| tables.frames.get(frame as usize));
        let module = place.and_then(|place| place.module);
        let bias = module
            .and_then(|module| tables.modules.get(module as usize))
            .map_or(0, |module| module.bias);
        let address = place.map_or(0, |place| place.address.wrapping_add(bias));
        let mapping_id = module.map_or(0, |module| self.mapping(module));
        let line = match frame {
            Some(frame) => functions(tables, frame).map(|frame| self.line(frame)).collect(),
            None => vec![Line { function_id: self.function(NO_STACK_LABEL, ""), line: 0 }],
        };
        self.profile.location.push(Location { id, mapping_id, address, line });
        id
    }

    fn line(&mut self, frame: u32) -> Line {
        let tables = self.export.tables;
        let place = tables.frames.get(frame as usize);
        let file = place.and_then(|place| place.file.as_deref()).unwrap_or_default();
        let function_id = self.function(&tables.frame_label(frame), file);
        Line { function_id, line: place.map_or(0, |place| i64::from(place.line)) }
    }

    fn function(&mut self, name: &str, file: &str) -> u64 {
        let key = (self.string(name), self.string(file));
        let next = self.functions.len() as u64 + 1;
        let id = *self.functions.entry(key).or_insert(next);
        if id == next {
            // A function with equal system name and name counts as mangled, and pprof then removes
            // template arguments from it.
            self.profile.function.push(Function {
                id,
                name: key.0,
                system_name: 0,
                filename: key.1,
            });
        }
        id
    }

    /// The mapping of a module; 0: no such module.
    fn mapping(&mut self, row: u32) -> u64 {
        if let Some(id) = self.mappings.get(&row) {
            return *id;
        }
        let Some(module) = self.export.tables.modules.get(row as usize) else { return 0 };
        let id = self.mappings.len() as u64 + 1;
        self.mappings.insert(row, id);
        let mapping = Mapping {
            id,
            memory_start: module.bias,
            memory_limit: module.bias.saturating_add(module.size),
            file_offset: 0,
            filename: self.string(&module.path),
            build_id: self.string(&module.build_id),
            has_functions: true,
            has_filenames: true,
            has_line_numbers: true,
            has_inline_frames: true,
        };
        self.profile.mapping.push(mapping);
        id
    }

    fn string(&mut self, text: &str) -> i64 {
        let next = self.strings.len() as i64;
        *self.strings.entry(text.to_owned()).or_insert(next)
    }

    fn finish(mut self) -> Profile {
        let mut strings: Vec<(String, i64)> = self.strings.into_iter().collect();
        strings.sort_by_key(|(_, number)| *number);
        self.profile.string_table = strings.into_iter().map(|(text, _)| text).collect();
        self.profile
    }
}

fn number(what: &'static str, value: u64) -> Result<i64, ExportError> {
    i64::try_from(value).map_err(|_| ExportError::TooLarge {
        format: "pprof",
        what,
        value,
        limit: i64::MAX as u64,
    })
}
