//! First pass: the arena of each chunk, and the blocks that will be given back.

use super::super::facts::WORD;
use super::super::strategy::Space;
use super::JvmLogError;
use super::lines::{Line, Record};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

/// One use of a chunk by an arena.
pub(super) struct Tenancy {
    pub base: usize,
    pub words: usize,
    pub space: Space,
    pub arena: Option<usize>,
    /// The chunk that it replaced, which therefore belongs to the same arena.
    pub after: Option<usize>,
    /// Its freed blocks: offset and words.
    pub cuts: BTreeMap<usize, usize>,
}

/// The first pass's findings.
#[derive(Default)]
pub(super) struct Owners {
    pub tenancies: Vec<Tenancy>,
    /// For each arena its space, and the words of its first chunk.
    pub births: Vec<(Space, usize)>,
    /// Arenas that die; all their chunks are known.
    pub mortal: HashSet<usize>,
    class_base: usize,
    class_end: usize,
}

#[derive(Default)]
struct Pending {
    births: VecDeque<usize>,
    grow: bool,
    retired: Option<usize>,
}

/// Begin and end of the class space.
fn class_space(records: &[Record]) -> Option<(usize, usize)> {
    let class_base = records.iter().find_map(|record| match record.line {
        Line::ClassSpace { base } => Some(base),
        _ => None,
    })?;
    records.iter().find_map(|record| match record.line {
        Line::NodeAt { base, end } if base == class_base => Some((base, end)),
        _ => None,
    })
}

impl Owners {
    pub fn space_of(&self, address: usize) -> Space {
        if (self.class_base..self.class_end).contains(&address) {
            Space::Class
        } else {
            Space::NonClass
        }
    }

    pub fn learn(records: &[Record]) -> Result<Owners, JvmLogError> {
        let (class_base, class_end) = class_space(records).ok_or(JvmLogError::NoClassSpace)?;
        let mut owners = Owners { class_base, class_end, ..Owners::default() };
        let mut live: BTreeMap<usize, usize> = BTreeMap::new();
        let mut managers: HashMap<usize, usize> = HashMap::new();
        let mut threads: HashMap<u64, Pending> = HashMap::new();
        let mut dying: Option<usize> = None;
        for record in records {
            let context = |what| JvmLogError::Context { line: record.number, what };
            let pending = threads.entry(record.thread).or_default();
            match record.line {
                Line::Birth(manager) => {
                    let space =
                        if pending.births.len() == 1 { Space::Class } else { Space::NonClass };
                    managers.insert(manager, owners.births.len());
                    pending.births.push_back(owners.births.len());
                    owners.births.push((space, 0));
                }
                Line::Grow { .. } => (pending.grow, pending.retired) = (true, None),
                Line::Added { base, end } => {
                    let number = owners.tenancies.len();
                    let space = owners.space_of(base);
                    let words = end
                        .checked_sub(base)
                        .ok_or_else(|| context("a chunk ends before it begins"))?
                        / WORD;
                    let (arena, after) = match pending.births.pop_front() {
                        Some(arena) => {
                            owners.births[arena].1 = words;
                            (Some(arena), None)
                        }
                        None if pending.grow => (None, pending.retired),
                        None => {
                            return Err(context(
                                "a chunk is added, but no arena was born and none asked for it",
                            ));
                        }
                    };
                    (pending.grow, pending.retired) = (false, None);
                    live.insert(base, number);
                    owners.tenancies.push(Tenancy {
                        base,
                        words,
                        space,
                        arena,
                        after,
                        cuts: BTreeMap::new(),
                    });
                }
                Line::Retired { base } => {
                    pending.retired = live.range(..=base).next_back().map(|(_, number)| *number)
                }
                Line::GivenBack { base, words, fresh: true } => {
                    let tenancy = live.range(..=base).next_back().map(|(_, number)| *number);
                    let owner = &mut owners.tenancies[tenancy
                        .ok_or_else(|| context("a block is returned that lies in no chunk"))?];
                    owner.cuts.insert((base - owner.base) / WORD, words);
                }
                Line::Death(manager) => {
                    dying = managers.remove(&manager);
                    owners.mortal.extend(dying);
                }
                Line::Returned(base) => {
                    // Padding and leftovers return too; they never had an arena.
                    if let Some(number) = live.remove(&base) {
                        owners.tenancies[number].arena = dying;
                    }
                }
                _ => {}
            }
        }
        owners.follow_links();
        Ok(owners)
    }

    /// A chunk and the one it replaced have one owner: forwards, then backwards.
    fn follow_links(&mut self) {
        for number in 0..self.tenancies.len() {
            if let (None, Some(after)) =
                (self.tenancies[number].arena, self.tenancies[number].after)
            {
                self.tenancies[number].arena = self.tenancies[after].arena;
            }
        }
        for number in (0..self.tenancies.len()).rev() {
            if let (Some(arena), Some(after)) =
                (self.tenancies[number].arena, self.tenancies[number].after)
            {
                self.tenancies[after].arena.get_or_insert(arena);
            }
        }
    }
}
