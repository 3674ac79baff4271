//! Readings of a running program, one after another.

use crate::{AboutError, Model, Saved, ask};
use std::time::Duration;

/// How a program is watched.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    /// The process.
    pub pid: u32,
    /// Longest time to wait for an answer.
    pub patience: Duration,
    /// Time between two readings.
    pub every: Duration,
    /// Readings to take; `None`: until the process ends.
    pub readings: Option<u64>,
}

impl Watch {
    /// Takes readings after `first`. Returns the last one, and a model with the range of all.
    /// `shown` gets the model before each further reading.
    ///
    /// # Errors
    /// The process cannot be asked, or `shown` fails. A process that has ended is no error.
    pub fn run<E: From<AboutError>>(
        self,
        first: Saved,
        shown: &mut dyn FnMut(&Model) -> Result<(), E>,
    ) -> Result<(Saved, Model), E> {
        let (mut model, mut saved) = (Model::of(&first), first);
        while self.readings.is_none_or(|wanted| model.readings < wanted) {
            shown(&model)?;
            std::thread::sleep(self.every);
            saved = match ask::report(self.pid, self.patience) {
                Ok(next) => next,
                Err(
                    AboutError::NoProcess(_) | AboutError::NoReporters(_) | AboutError::Died { .. },
                ) => break,
                Err(error) => return Err(error.into()),
            };
            let earlier = std::mem::replace(&mut model, Model::of(&saved));
            model.widen(&earlier);
        }
        Ok((saved, model))
    }
}
