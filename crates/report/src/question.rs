//! What a user asks of a recording, and the look at the recording that answers it.

use crate::metaspace::{self, OfProcess};
use crate::{
    Analysis, HeapAt, HeapAtError, JvmMetaspace, ModelError, Shown, analyse, analyse_for_page,
    moments, on_model,
};
use heaplab_findings::Basis;
use heaplab_jvm::jvms;
use heaplab_profile::ProcessPeak;
use heaplab_profile::choose::ChooseError;
use heaplab_replay::Selected;
use heaplab_text::paint::Look;
use heaplab_trace::bundle::{Bundle, Selection};

/// A question about one process of a recording, or about all.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The recording.
    pub bundle: &'a Bundle,
    /// The process.
    pub selection: Selection,
    /// A moment: a mark or a time.
    pub at: Option<&'a str>,
    /// Two moments, whose changes are wanted.
    pub between: Option<[&'a str; 2]>,
    /// The allocator that judges slop; `None`: the recording's.
    pub allocator: Option<Basis>,
    /// The answer is a page.
    pub is_page: bool,
    /// The report shows metaspaces of JVMs.
    pub with_metaspaces: bool,
}

/// A look at the recording, with all that the report needs.
#[derive(Debug)]
pub struct Answer {
    /// The results of the pass.
    pub analysis: Analysis,
    /// The requested moments.
    pub shown: Shown,
    metaspaces: Vec<OfProcess>,
    moment: String,
}

impl Answer {
    /// The metaspaces of recorded JVMs.
    pub fn metaspaces(&self) -> Vec<JvmMetaspace<'_>> {
        self.metaspaces.iter().map(|of| of.at(&self.moment)).collect()
    }
}

impl Question<'_> {
    fn jvms(&self) -> Vec<u32> {
        jvms(self.bundle.tables(), self.selection)
    }

    /// Reads the recording once. `peaks` has all processes, if the largest was chosen; `say` gets
    /// remarks on the moments; `progress` gets the number of events read.
    ///
    /// # Errors
    /// A moment is unknown, or the events cannot be read.
    pub fn answer(
        &self,
        peaks: Vec<ProcessPeak>,
        say: &mut dyn FnMut(&str),
        progress: &mut dyn FnMut(u64),
    ) -> Result<Answer, ChooseError> {
        let Question { bundle, selection, .. } = *self;
        let metaspaces = if self.with_metaspaces {
            metaspace::of_each(bundle, &self.jvms(), self.at)?
        } else {
            Vec::new()
        };
        let wanted: Vec<String> = self
            .at
            .into_iter()
            .chain(self.between.into_iter().flatten())
            .map(String::from)
            .collect();
        let (moments, notes) =
            moments::requests(&wanted, bundle.tables(), bundle.meta().duration_ns, selection)?;
        notes.iter().for_each(|note| say(note));
        let analyse = if self.is_page { analyse_for_page } else { analyse };
        let analysis = analyse(bundle, selection, self.allocator, moments, progress)?;
        let shown = moments::shown(&wanted, self.between.is_some(), &analysis.profile)?;
        let moment = self.at.map_or(String::from("At the end"), |name| format!("At {name}"));
        Ok(Answer { analysis: Analysis { peaks, ..analysis }, shown, metaspaces, moment })
    }

    /// Runs the workload on each heap, up to the moment `at` of the heap.
    ///
    /// # Errors
    /// A heap cannot run the workload, or does not come to the moment.
    pub fn heaps_at(
        &self,
        heaps: &[Box<dyn Selected>],
        at: Option<&str>,
    ) -> Result<Vec<HeapAt>, HeapAtError> {
        let heaps = heaps.iter().map(AsRef::as_ref);
        heaps.map(|heap| HeapAt::run(self.bundle, self.selection, heap, at, self.is_page)).collect()
    }

    /// What each JVM's metaspace workload holds on these models, as text.
    ///
    /// # Errors
    /// As [`on_model`].
    pub fn on_models(&self, models: &[String]) -> Result<String, ModelError> {
        let mut text = String::new();
        for jvm in self.jvms() {
            for model in models {
                text += &on_model(self.bundle, jvm, model, self.at)?;
            }
        }
        Ok(text)
    }

    /// The metaspace of each JVM, or its changes between the two moments, as text.
    ///
    /// # Errors
    /// A moment is unknown, or the events cannot be read.
    pub fn metaspace_text(&self, look: &Look) -> Result<String, ModelError> {
        match self.between {
            Some(between) => Ok(metaspace::changes(self.bundle, &self.jvms(), between, look)?),
            None => metaspace::listing(self.bundle, &self.jvms(), self.at, look),
        }
    }
}
