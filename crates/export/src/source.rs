//! A recording, a process and a moment: the source of an export, read as each format needs it.

use crate::{
    About, Detail, Export, ExportError, Format, HeapAtMoment, HeapSnapshot, InUseAt, LiveBlocks,
    MetaspaceSnapshot, Written,
};
use heaplab_jvm::{At as MetaspaceAt, has_chunks, jvms, shadow_at};
use heaplab_profile::{At, MomentRequest, Profile, ProfileOptions, choose, profile};
use heaplab_replay::Selected;
use heaplab_trace::bundle::{Bundle, Selection};
use heaplab_trace::tables::Tables;
use std::io::Write;

/// The source of an export.
#[derive(Debug)]
pub struct Source<'a> {
    bundle: &'a Bundle,
    selection: Selection,
    moment: choose::Chosen,
    /// The moment as requested.
    name: &'a str,
    about: About,
}

impl<'a> Source<'a> {
    /// Takes a process and a moment, named as in [`choose`].
    ///
    /// # Errors
    /// There is no such process or moment, or the recording cannot be read.
    pub fn of(
        bundle: &'a Bundle,
        process: Option<&str>,
        moment: &'a str,
    ) -> Result<Source<'a>, choose::ChooseError> {
        let selection = choose::process(bundle, process)?;
        let about = About::of(bundle, selection);
        let chosen = choose::moment(bundle.tables(), selection, moment)?;
        Ok(Source { bundle, selection, moment: chosen, name: moment, about })
    }

    /// Whether the moment lies after the last event: the export then shows the end.
    pub fn is_after_the_end(&self) -> bool {
        matches!(self.moment, choose::Chosen::At(At::Time(time))
            if time > self.bundle.meta().duration_ns)
    }

    /// Writes a profile.
    ///
    /// # Errors
    /// The recording cannot be read, or the errors of [`Export::write`].
    pub fn write_profile(
        &self,
        format: Format,
        mut out: &mut dyn Write,
    ) -> Result<(), ExportError> {
        let mut detail = Detail::new(self.bundle.meta().duration_ns > 0);
        let (options, moment) = self.options();
        let (tables, mut events) = (self.bundle.tables(), self.bundle.events(self.selection)?);
        let profile = profile(tables, &mut events, &options, &mut detail)
            .map_err(choose::of_recording(self.bundle))?;
        Export { tables, profile: &profile, detail: &detail, moment, about: self.about.clone() }
            .write(format, &mut out)
    }

    /// Writes the live blocks as a heap snapshot; for a JVM's metaspace its loaders and chunks.
    /// Reads the events twice, because a moment's row is known only after a whole pass.
    ///
    /// # Errors
    /// The recording cannot be read, has several JVMs, or lacks this moment; or the output fails.
    pub fn write_heap_snapshot(&self, mut out: &mut dyn Write) -> Result<Written, ExportError> {
        let (bundle, tables) = (self.bundle, self.bundle.tables());
        if has_chunks(tables) {
            return self.write_metaspace(out);
        }
        let (profile, moment) = self.profiled()?;
        let at = self.at(&profile, moment)?;
        let blocks = LiveBlocks::at(at, tables, bundle.events(self.selection)?)
            .map_err(choose::of_recording(bundle))?;
        let (moment, objects_born) = (self.name, bundle.meta().objects);
        HeapSnapshot { tables, blocks, objects_born, moment, about: &self.about }.write(&mut out)
    }

    /// Runs the workload on `heap` up to the moment.
    ///
    /// # Errors
    /// The errors of [`HeapAtMoment::at`], or the recording lacks this moment.
    pub fn run_on(&self, heap: &dyn Selected) -> Result<HeapAtMoment, ExportError> {
        let (profile, moment) = self.profiled()?;
        let at = self.at(&profile, moment)?;
        HeapAtMoment::at(heap, self.bundle, self.selection, at, moment == InUseAt::End)
    }

    /// Writes a heap that ran the workload, under the name `name`, as a heap snapshot.
    ///
    /// # Errors
    /// The output fails.
    pub fn write_heap(
        &self,
        heap: HeapAtMoment,
        name: &str,
        mut out: &mut dyn Write,
    ) -> Result<Written, ExportError> {
        heap.snapshot(self.bundle, name, self.name, &self.about).write(&mut out)
    }

    /// Reads the events of all processes, because rows count over all.
    fn write_metaspace(&self, mut out: &mut dyn Write) -> Result<Written, ExportError> {
        let (bundle, tables) = (self.bundle, self.bundle.tables());
        let all = jvms(tables, self.selection);
        let [process] = all[..] else { return Err(ExportError::SeveralJvms(all.len())) };
        let mut events = bundle.events(Selection::default())?;
        let shadow = shadow_at(tables, &mut events, process, metaspace_at(tables, self.moment))
            .map_err(choose::of_recording(bundle))?;
        MetaspaceSnapshot {
            tables,
            shadow: &shadow,
            process,
            objects_born: bundle.meta().objects,
            moment: self.name,
            about: &self.about,
        }
        .write(&mut out)
    }

    /// The profile with the bytes in use at the moment.
    fn profiled(&self) -> Result<(Profile, InUseAt), ExportError> {
        let (options, moment) = self.options();
        let mut events = self.bundle.events(self.selection)?;
        let profile = Profile::of(self.bundle.tables(), &mut events, &options)
            .map_err(choose::of_recording(self.bundle))?;
        Ok((profile, moment))
    }

    /// The options with which a profile has the bytes in use at the moment.
    fn options(&self) -> (ProfileOptions, InUseAt) {
        let mut options = ProfileOptions::default();
        let moment = match self.moment {
            choose::Chosen::Peak => InUseAt::Peak,
            choose::Chosen::End => InUseAt::End,
            choose::Chosen::At(at) => {
                options.moments.push(MomentRequest { name: self.name.into(), at });
                InUseAt::Asked(0)
            }
        };
        (options, moment)
    }

    fn at<'p>(
        &self,
        profile: &'p Profile,
        moment: InUseAt,
    ) -> Result<&'p heaplab_profile::Moment, ExportError> {
        match moment {
            InUseAt::Peak => Ok(&profile.peak),
            InUseAt::End => Ok(&profile.end),
            InUseAt::Asked(number) => {
                let at = profile.moments.get(number);
                at.ok_or_else(|| ExportError::MarkElsewhere(self.name.into()))
            }
        }
    }
}

/// A moment for a metaspace; its peak is that of committed bytes.
fn metaspace_at(tables: &Tables, moment: choose::Chosen) -> MetaspaceAt {
    match moment {
        choose::Chosen::End => MetaspaceAt::End,
        choose::Chosen::Peak => MetaspaceAt::Peak,
        choose::Chosen::At(At::Time(time_ns)) => MetaspaceAt::Time(time_ns),
        choose::Chosen::At(At::Row(row)) => MetaspaceAt::Row(row),
        choose::Chosen::At(At::Mark(row)) => {
            MetaspaceAt::Time(tables.marks.get(row as usize).map_or(0, |mark| mark.time_ns))
        }
    }
}
