//! Instructions as words. The three low bits of the first word are the kind, the other 29 a slot or
//! an argument.

/// Bits of a slot number.
pub(super) const SLOT_BITS: u32 = 29;
/// Slots that a program can address.
pub(super) const SLOTS_MAX: u64 = 1 << SLOT_BITS;
/// Regions that a program can address (24 bits beside the flags of a wide request).
pub(super) const REGIONS_MAX: u32 = 1 << 24;
/// Threads that a program can address (26 bits of a control word).
pub(super) const THREADS_MAX: u32 = 1 << 26;
/// Largest log2 of an alignment.
pub(super) const ALIGN_LOG2_MAX: u8 = 47;
/// Largest size of a block: half of a 48-bit address space. A request above it cannot have
/// succeeded.
pub const SIZE_MAX: u64 = 1 << 47;

const FREE: u32 = 0;
const ALLOCATE: u32 = 1;
const ALLOCATE_ZEROED: u32 = 2;
const REALLOCATE: u32 = 3;
const WIDE: u32 = 4;
const CONTROL: u32 = 6;
const USABLE_SIZE: u32 = 7;

const WIDE_ZEROED: u32 = 1 << 6;
const WIDE_REALLOCATE: u32 = 1 << 7;

const CONTROL_THREAD: u32 = 0;
const CONTROL_REGION_BIRTH: u32 = 1;
const CONTROL_REGION_DEATH: u32 = 2;
const CONTROL_MANAGED: u32 = 3;

const MANAGED_COLLECT: u32 = 0;
const MANAGED_COLLECT_YOUNG: u32 = 1;
const MANAGED_TRIM: u32 = 2;
const MANAGED_NEXT_OLD: u32 = 3;
const MANAGED_NEXT_HIDDEN_CLASS: u32 = 4;
const MANAGED_RELEASE: u32 = 5;
const MANAGED_REFERENCE: u32 = 6;
/// No slot: the field is cleared.
const NO_SLOT: u32 = u32::MAX;

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The block in `slot` dies.
    Free {
        /// The block's slot.
        slot: u32,
    },
    /// A block is born in `slot`, which is empty.
    Allocate {
        /// The block's slot.
        slot: u32,
        /// Bytes.
        size: u64,
        /// log2 of the alignment; 0: none requested.
        align_log2: u8,
        /// Zeroed memory was requested.
        zeroed: bool,
        /// Dense number of the arena; 0: malloc.
        region: u32,
    },
    /// The block in `slot` gets a new size.
    Reallocate {
        /// The block's slot.
        slot: u32,
        /// Bytes.
        size: u64,
        /// log2 of the alignment; 0: none requested.
        align_log2: u8,
        /// Dense number of the arena; 0: malloc.
        region: u32,
    },
    /// The program asks for the usable size of the block in `slot`.
    UsableSize {
        /// The block's slot.
        slot: u32,
    },
    /// This thread executes the next instructions (dense, in order of first appearance; a program
    /// begins with thread 0).
    Thread {
        /// Its number.
        thread: u32,
    },
    /// An arena begins.
    RegionBirth {
        /// Its dense number, from 1.
        region: u32,
    },
    /// An arena ends. The blocks in the `members` slots, in words from `first` on, die with it.
    RegionDeath {
        /// Its dense number.
        region: u32,
        /// Word index of the first member.
        first: usize,
        /// Number of members.
        members: usize,
    },
    /// An instruction that only heaps which collect, or give memory back, execute.
    Managed(Managed),
}

/// An instruction for heaps that collect. Heaps with blocks that the program frees execute only
/// `Trim` and `Release`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Managed {
    /// The program asks for a full collection.
    Collect,
    /// The program asks for a collection of the young generation.
    CollectYoung,
    /// The heap gives memory back to the system.
    Trim,
    /// The next birth is in the old generation.
    NextOld,
    /// The next birth is a hidden class.
    NextHiddenClass,
    /// The program lets go of the object in `slot`, which lives on while others refer to it. The
    /// slot is not reused.
    Release {
        /// The object's slot.
        slot: u32,
    },
    /// Field `field` of the object in `from` now refers to the object in `to`; `None`: to nothing.
    Reference {
        /// The referring object's slot.
        from: u32,
        /// Index of the field.
        field: u32,
        /// The slot of the object referred to.
        to: Option<u32>,
    },
}

/// Words that are no instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("word {word} of the replay program: expected {expected}, found {found:#x}")]
pub struct Corrupt {
    /// Index of the word.
    pub word: usize,
    /// The content of a sound program.
    pub expected: &'static str,
    /// The word found.
    pub found: u32,
}

/// The slot of an instruction that begins with `word`, for prefetching; meaningless for other
/// words.
#[inline(always)]
pub fn slot_at(word: u32) -> usize {
    (word >> 3) as usize
}

/// Whether the instruction at `at` frees the block in `slot`.
#[inline(always)]
pub fn is_freed_at(words: &[u32], at: usize, slot: u32) -> bool {
    words.get(at) == Some(&(slot << 3 | FREE))
}

/// Words of a birth and the death that follows.
pub const TRANSIENT_WORDS: usize = 3;

/// Bytes of the blocks at the beginning of `words` that live for one instruction: each is born by a
/// short instruction like the first one, in the same slot, and the next instruction frees it.
#[inline(always)]
pub fn transients(words: &[u32]) -> impl Iterator<Item = usize> {
    let birth = words.first().copied().unwrap_or(FREE);
    let is_birth = matches!(birth & 7, ALLOCATE | ALLOCATE_ZEROED);
    let (steps, _) = words.as_chunks::<TRANSIENT_WORDS>();
    steps
        .iter()
        .take_while(move |[first, _, last]| is_birth && *first == birth && *last == birth & !7)
        .map(|[_, size, _]| *size as usize)
}

/// Decodes the instruction at `*at` and moves `*at` behind it. `None` at the end.
#[inline(always)]
pub fn decode(words: &[u32], at: &mut usize) -> Result<Option<Step>, Corrupt> {
    let here = *at;
    let Some(&first) = words.get(here) else { return Ok(None) };
    let slot = first >> 3;
    match first & 7 {
        FREE => {
            *at = here + 1;
            Ok(Some(Step::Free { slot }))
        }
        tag @ (ALLOCATE | ALLOCATE_ZEROED) => {
            let size = u64::from(word(words, here + 1)?);
            *at = here + 2;
            Ok(Some(Step::Allocate {
                slot,
                size,
                align_log2: 0,
                zeroed: tag == ALLOCATE_ZEROED,
                region: 0,
            }))
        }
        REALLOCATE => {
            let size = u64::from(word(words, here + 1)?);
            *at = here + 2;
            Ok(Some(Step::Reallocate { slot, size, align_log2: 0, region: 0 }))
        }
        USABLE_SIZE => {
            *at = here + 1;
            Ok(Some(Step::UsableSize { slot }))
        }
        _ => {
            // By value, so that `at` need not be in memory.
            let (step, next) = decode_rare(words, here, first)?;
            *at = next;
            Ok(Some(step))
        }
    }
}

#[cold]
#[inline(never)]
fn decode_rare(words: &[u32], here: usize, first: u32) -> Result<(Step, usize), Corrupt> {
    let argument = first >> 6;
    match (first & 7, (first >> 3) & 7) {
        (WIDE, _) => {
            let slot = first >> 3;
            let how = word(words, here + 1)?;
            let size = u64::from(word(words, here + 2)?) | u64::from(word(words, here + 3)?) << 32;
            let (align_log2, region) = ((how & 63) as u8, how >> 8);
            if align_log2 > ALIGN_LOG2_MAX {
                return Err(Corrupt {
                    word: here + 1,
                    expected: "an alignment of at most 2^47",
                    found: how,
                });
            }
            if size > SIZE_MAX {
                return Err(Corrupt {
                    word: here + 3,
                    expected: "a size of at most 2^47",
                    found: (size >> 32) as u32,
                });
            }
            let zeroed = how & WIDE_ZEROED != 0;
            let step = if how & WIDE_REALLOCATE != 0 {
                Step::Reallocate { slot, size, align_log2, region }
            } else {
                Step::Allocate { slot, size, align_log2, zeroed, region }
            };
            Ok((step, here + 4))
        }
        (CONTROL, CONTROL_THREAD) => Ok((Step::Thread { thread: argument }, here + 1)),
        (CONTROL, CONTROL_REGION_BIRTH) => Ok((Step::RegionBirth { region: argument }, here + 1)),
        (CONTROL, CONTROL_REGION_DEATH) => {
            let members = word(words, here + 1)?;
            let first_member = here + 2;
            let end = first_member.checked_add(members as usize).filter(|end| *end <= words.len());
            let end = end.ok_or(Corrupt {
                word: here + 1,
                expected: "as many members as words follow",
                found: members,
            })?;
            let (first, members) = (first_member, members as usize);
            Ok((Step::RegionDeath { region: argument, first, members }, end))
        }
        (CONTROL, CONTROL_MANAGED) => {
            let (managed, words) = decode_managed(words, here, argument)?;
            Ok((Step::Managed(managed), here + words))
        }
        _ => Err(Corrupt { word: here, expected: "an instruction", found: first }),
    }
}

/// The instruction, and its words.
fn decode_managed(words: &[u32], here: usize, kind: u32) -> Result<(Managed, usize), Corrupt> {
    Ok(match kind {
        MANAGED_COLLECT => (Managed::Collect, 1),
        MANAGED_COLLECT_YOUNG => (Managed::CollectYoung, 1),
        MANAGED_TRIM => (Managed::Trim, 1),
        MANAGED_NEXT_OLD => (Managed::NextOld, 1),
        MANAGED_NEXT_HIDDEN_CLASS => (Managed::NextHiddenClass, 1),
        MANAGED_RELEASE => (Managed::Release { slot: word(words, here + 1)? }, 2),
        MANAGED_REFERENCE => {
            let (from, field, to) =
                (word(words, here + 1)?, word(words, here + 2)?, word(words, here + 3)?);
            (Managed::Reference { from, field, to: (to != NO_SLOT).then_some(to) }, 4)
        }
        _ => {
            return Err(Corrupt {
                word: here,
                expected: "an instruction for heaps that collect",
                found: kind,
            });
        }
    })
}

#[inline(always)]
fn word(words: &[u32], at: usize) -> Result<u32, Corrupt> {
    words.get(at).copied().ok_or(Corrupt {
        word: at,
        expected: "another word of the instruction",
        found: 0,
    })
}

/// Appends the words of a request. `slot`, `align_log2`, `size` and `region` must be within their
/// limits (the compiler checks).
pub(super) fn encode_request(words: &mut Vec<u32>, step: Step) {
    let (slot, size, align_log2, region, zeroed, again) = match step {
        Step::Allocate { slot, size, align_log2, zeroed, region } => {
            (slot, size, align_log2, region, zeroed, false)
        }
        Step::Reallocate { slot, size, align_log2, region } => {
            (slot, size, align_log2, region, false, true)
        }
        _ => unreachable!("only requests have a size"),
    };
    if align_log2 == 0 && region == 0 && size <= u64::from(u32::MAX) {
        let tag = match (again, zeroed) {
            (true, _) => REALLOCATE,
            (false, true) => ALLOCATE_ZEROED,
            (false, false) => ALLOCATE,
        };
        words.extend([slot << 3 | tag, size as u32]);
        return;
    }
    let how = u32::from(align_log2)
        | if zeroed { WIDE_ZEROED } else { 0 }
        | if again { WIDE_REALLOCATE } else { 0 }
        | region << 8;
    words.extend([slot << 3 | WIDE, how, size as u32, (size >> 32) as u32]);
}

/// Appends the words of any other instruction; the words of a region's death end before its
/// members, which the caller appends.
pub(super) fn encode(words: &mut Vec<u32>, step: Step) {
    match step {
        Step::Free { slot } => words.push(slot << 3 | FREE),
        Step::UsableSize { slot } => words.push(slot << 3 | USABLE_SIZE),
        Step::Thread { thread } => words.push(thread << 6 | CONTROL_THREAD << 3 | CONTROL),
        Step::RegionBirth { region } => {
            words.push(region << 6 | CONTROL_REGION_BIRTH << 3 | CONTROL)
        }
        Step::RegionDeath { region, members, .. } => {
            words.extend([region << 6 | CONTROL_REGION_DEATH << 3 | CONTROL, members as u32])
        }
        Step::Allocate { .. } | Step::Reallocate { .. } => encode_request(words, step),
        Step::Managed(managed) => encode_managed(words, managed),
    }
}

fn encode_managed(words: &mut Vec<u32>, managed: Managed) {
    let control = |kind: u32| kind << 6 | CONTROL_MANAGED << 3 | CONTROL;
    match managed {
        Managed::Collect => words.push(control(MANAGED_COLLECT)),
        Managed::CollectYoung => words.push(control(MANAGED_COLLECT_YOUNG)),
        Managed::Trim => words.push(control(MANAGED_TRIM)),
        Managed::NextOld => words.push(control(MANAGED_NEXT_OLD)),
        Managed::NextHiddenClass => words.push(control(MANAGED_NEXT_HIDDEN_CLASS)),
        Managed::Release { slot } => words.extend([control(MANAGED_RELEASE), slot]),
        Managed::Reference { from, field, to } => {
            words.extend([control(MANAGED_REFERENCE), from, field, to.unwrap_or(NO_SLOT)])
        }
    }
}
