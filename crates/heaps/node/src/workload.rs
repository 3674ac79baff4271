//! The workload file for the driver: pairs of little-endian 32-bit numbers (slot, words).
//!
//! | pair | means |
//! |---|---|
//! | slot >= 0, words > 0 | an array of so many words is born in the slot; what was there dies |
//! | slot >= 0, words < 0 | an object with a hidden class of its own is born in the slot; what was there dies |
//! | slot >= 0, words = 0 | what is in the slot dies |
//! | -1, 0 | a full collection, and what the spaces held before and after |
//! | -2, 0 | the same with a collection of the young generation |
//!
//! The file never has a name, so nothing is left behind after any end of the run.

use crate::{NodeError, known};
use heaplab_heap::Ask;
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};

const FULL: i32 = -1;
const MINOR: i32 = -2;
/// Instead of words.
const HIDDEN_CLASS: i32 = -1;

/// One step of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// An object is born in `slot`; an object there dies (a reallocation).
    Birth {
        /// The slot that holds it.
        slot: u32,
        /// Requested bytes.
        size: u64,
    },
    /// A hidden class is born in `slot`, with an object that has it; an object there dies.
    HiddenClass {
        /// The slot that holds the object.
        slot: u32,
        /// Requested bytes.
        size: u64,
    },
    /// The object in `slot` dies.
    Death {
        /// The slot that held it.
        slot: u32,
    },
    /// The program asks for a collection.
    Collect(Ask),
}

/// The state of the workload at a forced collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forced {
    /// Only of the young generation.
    pub minor: bool,
    /// Births so far.
    pub births: u64,
    /// Their requested bytes.
    pub born_bytes: u64,
}

/// The facts of a workload that Node's own objects depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Slots of the driver's table.
    pub slots: u32,
    /// Hidden classes are born: the driver has code for them.
    pub hidden_classes: bool,
}

/// A workload that is written.
#[derive(Debug)]
pub struct Workload {
    /// The pairs, at its beginning.
    pub file: File,
    /// The collections in the workload, in order.
    pub forced: Vec<Forced>,
    /// Pairs.
    pub steps: u64,
    /// Peak of live requested bytes.
    pub peak_bytes: u64,
    /// The driver's table.
    pub table: Table,
}

/// Calls the given function with each step, in order. Ends at the function's first error or its
/// own.
pub type Feed<'a> =
    &'a mut dyn FnMut(&mut dyn FnMut(Step) -> Result<(), String>) -> Result<(), String>;

/// The rules of writing a workload.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// Births between full collections forced in addition to the workload's own.
    pub every: Option<u64>,
    /// Leaves out the workload's own forced collections.
    pub leave_out_collections: bool,
}

struct Writer {
    out: BufWriter<File>,
    rules: Rules,
    /// Requested bytes of the live object in each slot, plus one; 0: empty.
    live: Vec<u64>,
    live_bytes: u64,
    here: Forced,
    done: Workload,
}

/// Writes the steps of `feed` on `slots` slots into a temporary file, and a full collection behind
/// them.
///
/// # Errors
/// A step that no program can have done, an object too large for a V8 array, no room for the file,
/// or an error of `feed`.
pub fn write(slots: u32, rules: Rules, feed: Feed<'_>) -> Result<Workload, NodeError> {
    if slots > known::SLOTS_MAX {
        let what =
            format!("{slots} objects live at once; the driver's table holds {}", known::SLOTS_MAX);
        return Err(NodeError::Workload { step: 0, what });
    }
    let file = tempfile::tempfile().map_err(|source| NodeError::Start {
        path: std::env::temp_dir(),
        action: "make a temporary file for the workload in",
        source,
    })?;
    let copy = file.try_clone().map_err(failed)?;
    let table = Table { slots, hidden_classes: false };
    let done = Workload { file: copy, forced: Vec::new(), steps: 0, peak_bytes: 0, table };
    let out = BufWriter::with_capacity(1 << 17, file);
    let mut writer = Writer {
        out,
        rules,
        live: vec![0; slots as usize],
        live_bytes: 0,
        here: Forced::default(),
        done,
    };
    let mut refused = None;
    let fed = feed(&mut |step| {
        writer.step(step).map_err(|error| {
            let said = error.to_string();
            refused = Some(error);
            said
        })
    });
    if let Some(error) = refused {
        return Err(error);
    }
    fed.map_err(|what| NodeError::Workload { step: writer.done.steps, what })?;
    if writer.done.forced.last().is_none_or(|last| last.minor || last.births < writer.here.births) {
        writer.collect(false)?;
    }
    writer.out.flush().map_err(failed)?;
    writer.done.file.seek(SeekFrom::Start(0)).map_err(failed)?;
    Ok(writer.done)
}

impl Writer {
    fn step(&mut self, step: Step) -> Result<(), NodeError> {
        match step {
            Step::Birth { slot, size } => {
                let words = self.words(size)?;
                self.birth(slot, size, words)
            }
            Step::HiddenClass { slot, size } => {
                self.done.table.hidden_classes = true;
                self.birth(slot, size, HIDDEN_CLASS)
            }
            Step::Death { slot } => {
                let live = self.slot(slot)?;
                if *live == 0 {
                    return Err(
                        self.wrong(format!("the object in slot {slot} dies, and there is none"))
                    );
                }
                self.live_bytes -= std::mem::take(live) - 1;
                self.pair(slot as i32, 0)
            }
            Step::Collect(_) if self.rules.leave_out_collections => Ok(()),
            Step::Collect(ask) => self.collect(ask == Ask::Minor),
        }
    }

    /// The words of an array.
    fn words(&self, size: u64) -> Result<i32, NodeError> {
        let words = known::words_of(size);
        if words > known::WORDS_MAX {
            let most = known::WORDS_MAX * known::WORD_BYTES;
            return Err(self.wrong(format!(
                "an object of {size} bytes; the largest array that V8 keeps as one has {most}"
            )));
        }
        Ok(words as i32)
    }

    fn birth(&mut self, slot: u32, size: u64, words: i32) -> Result<(), NodeError> {
        let before = std::mem::replace(self.slot(slot)?, size + 1);
        self.live_bytes = self.live_bytes + size - before.saturating_sub(1);
        self.done.peak_bytes = self.done.peak_bytes.max(self.live_bytes);
        self.pair(slot as i32, words)?;
        self.here.births += 1;
        self.here.born_bytes += size;
        if self.rules.every.is_some_and(|every| self.here.births.is_multiple_of(every)) {
            self.collect(false)
        } else {
            Ok(())
        }
    }

    fn collect(&mut self, minor: bool) -> Result<(), NodeError> {
        self.done.forced.push(Forced { minor, ..self.here });
        self.pair(if minor { MINOR } else { FULL }, 0)
    }

    fn slot(&mut self, slot: u32) -> Result<&mut u64, NodeError> {
        let (slots, step) = (self.live.len(), self.done.steps);
        let what = || format!("slot {slot} is used, and there are {slots}");
        self.live.get_mut(slot as usize).ok_or_else(|| NodeError::Workload { step, what: what() })
    }

    fn wrong(&self, what: String) -> NodeError {
        NodeError::Workload { step: self.done.steps, what }
    }

    fn pair(&mut self, slot: i32, words: i32) -> Result<(), NodeError> {
        self.done.steps += 1;
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&slot.to_le_bytes());
        bytes[4..].copy_from_slice(&words.to_le_bytes());
        self.out.write_all(&bytes).map_err(failed)
    }
}

fn failed(source: std::io::Error) -> NodeError {
    NodeError::Start {
        path: std::env::temp_dir(),
        action: "write or read the workload among the temporary files in",
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn written(
        slots: u32,
        rules: Rules,
        steps: &[Step],
    ) -> Result<(Workload, Vec<i32>), NodeError> {
        let mut workload =
            write(slots, rules, &mut |visit| steps.iter().try_for_each(|step| visit(*step)))?;
        let mut bytes = Vec::new();
        workload.file.read_to_end(&mut bytes).unwrap();
        Ok((
            workload,
            bytes.chunks(4).map(|word| i32::from_le_bytes(word.try_into().unwrap())).collect(),
        ))
    }

    #[test]
    fn steps_become_pairs_with_a_last_collection() {
        let birth = |slot, size| Step::Birth { slot, size };
        let steps = [
            birth(0, 1),
            birth(1, 9),
            Step::Collect(Ask::Minor),
            birth(1, 0),
            Step::Death { slot: 0 },
        ];
        let (workload, pairs) = written(2, Rules::default(), &steps).unwrap();
        assert_eq!(pairs, [0, 1, 1, 2, -2, 0, 1, 1, 0, 0, -1, 0]);
        let forced = [
            Forced { minor: true, births: 2, born_bytes: 10 },
            Forced { minor: false, births: 3, born_bytes: 10 },
        ];
        assert_eq!(
            (workload.forced.as_slice(), workload.peak_bytes, workload.steps),
            (forced.as_slice(), 10, 6)
        );
        let rules = Rules { every: Some(1), leave_out_collections: true };
        assert_eq!(
            written(1, rules, &[birth(0, 8), Step::Collect(Ask::Full)]).unwrap().1,
            [0, 1, -1, 0]
        );
        assert_eq!(written(1, Rules::default(), &[Step::Collect(Ask::Full)]).unwrap().1, [-1, 0]);
        assert!(!workload.table.hidden_classes);
        let class = [Step::HiddenClass { slot: 2, size: 80 }, birth(0, 8)];
        let (workload, pairs) = written(3, Rules::default(), &class).unwrap();
        assert_eq!(pairs, [2, -1, 0, 1, -1, 0]);
        assert_eq!(workload.table, Table { slots: 3, hidden_classes: true });
        assert_eq!((workload.peak_bytes, workload.forced[0].births), (88, 2));
    }

    #[test]
    fn what_no_program_does_is_refused_with_the_step() {
        let said = |steps: &[Step]| written(3, Rules::default(), steps).unwrap_err().to_string();
        assert_eq!(
            said(&[Step::Death { slot: 1 }]),
            "step 0 of the workload: the object in slot 1 dies, and there is none"
        );
        assert_eq!(
            said(&[Step::Birth { slot: 3, size: 1 }]),
            "step 0 of the workload: slot 3 is used, and there are 3"
        );
        let large =
            [Step::Birth { slot: 0, size: 1 }, Step::Birth { slot: 1, size: (256 << 20) + 1 }];
        assert!(
            said(&large).starts_with("step 1 of the workload: an object of 268435457 bytes"),
            "{}",
            said(&large)
        );
        let error =
            write(1, Rules::default(), &mut |_| Err("word 7 is damaged".into())).unwrap_err();
        assert_eq!(error.to_string(), "step 0 of the workload: word 7 is damaged");
        assert!(write(u32::MAX, Rules::default(), &mut |_| Ok(())).is_err());
    }
}
