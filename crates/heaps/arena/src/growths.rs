//! The growth of arenas as named on the command line: a named policy, chunk sizes, or one of these
//! for each kind of arena.
//!
//! ```text
//! fast                                     every arena
//! 3k+16k+32k                               every arena: the sizes of its first chunks; the last again, or more for large arenas
//! class:768+16k+32k/non-class:3k+16k+32k   by the kind that the recording gives each arena; other arenas as recorded
//! class:768+16k/standard                   the same, and one for all other arenas
//! ```

use crate::elastic;
use heaplab_elastic::Growth;
use heaplab_heap::parameter;

/// The possible forms of a growth, for help and errors.
pub const TAKES: &str = "recorded, learned, micro, small, standard, fast, large, chunk sizes (3k+16k+32k), or KIND:one of these/...";

const NAMED: [(&str, Option<Growth>); 7] = [
    ("recorded", None),
    ("learned", Some(Growth::LEARNED)),
    ("micro", Some(Growth::MICRO)),
    ("small", Some(Growth::SMALL)),
    ("standard", Some(Growth::STANDARD)),
    ("fast", Some(Growth::FAST)),
    ("large", Some(Growth::LARGE)),
];

/// Most chunk sizes of a sequence.
const SIZES_MAX: usize = 8;
/// Chunk sizes that [`Growth::new`] takes, rounded up to an eighth of a power of two.
const CHUNK_BYTES: std::ops::RangeInclusive<u64> = 128..=1 << 30;

/// The growth of each arena of a workload. The default is the recorded one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Growths {
    /// By kind; `None`: as recorded.
    kinds: Vec<(String, Option<Growth>)>,
    others: Option<Growth>,
}

impl Growths {
    /// Parses the text behind `growth=`; `None` if it is no growth.
    pub fn parse(text: &str) -> Option<Growths> {
        let mut growths = Growths::default();
        let mut has_others = false;
        for part in text.split('/') {
            match part.split_once(':') {
                Some((kind, growth))
                    if !kind.is_empty() && growths.kinds().all(|known| known != kind) =>
                {
                    growths.kinds.push((kind.into(), one(growth)?));
                }
                None if !has_others => {
                    growths.others = one(part)?;
                    has_others = true;
                }
                _ => return None,
            }
        }
        Some(growths)
    }

    /// The named kinds.
    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        self.kinds.iter().map(|(kind, _)| kind.as_str())
    }

    /// The growth of an arena with these recorded facts.
    pub fn of_arena(&self, kind: &str, recorded: &str) -> Growth {
        let named = self
            .kinds
            .iter()
            .find(|(known, _)| known == kind)
            .map_or(self.others, |(_, growth)| *growth);
        named.unwrap_or_else(|| elastic::growth(recorded))
    }

    /// The growth of the arena for blocks outside of arenas.
    pub fn of_no_arena(&self) -> Growth {
        self.others.unwrap_or(Growth::LARGE)
    }
}

/// A policy's name, or sizes. `Some(None)`: as recorded.
fn one(text: &str) -> Option<Option<Growth>> {
    if let Some((_, growth)) = NAMED.iter().find(|(name, _)| *name == text) {
        return Some(*growth);
    }
    let size = |text: &str| {
        parameter::bytes(text)
            .filter(|bytes| CHUNK_BYTES.contains(bytes))
            .map(|bytes| bytes as usize)
    };
    let sizes: Vec<usize> = text.split('+').map(size).collect::<Option<_>>()?;
    (sizes.len() <= SIZES_MAX).then(|| Some(Growth::new(&sizes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_its_own_and_the_others_one() {
        let growths = Growths::parse("class:768+16k+32k/hidden:recorded/3k").unwrap();
        assert_eq!(growths.kinds().collect::<Vec<_>>(), ["class", "hidden"]);
        let class = growths.of_arena("class", "boot");
        assert_eq!(
            [0, 1, 2, 3].map(|nth| class.chunk_bytes(nth)),
            [768, 16 << 10, 32 << 10, 32 << 10]
        );
        assert_eq!(growths.of_arena("hidden", "micro"), Growth::MICRO);
        assert_eq!(
            [growths.of_arena("non-class", "boot"), growths.of_no_arena()],
            [Growth::new(&[3 << 10]); 2]
        );
        let recorded = Growths::default();
        assert_eq!(
            [recorded.of_arena("class", "boot"), recorded.of_no_arena()],
            [Growth::LARGE; 2]
        );
        assert_eq!(recorded, Growths::parse("recorded").unwrap());
    }

    #[test]
    fn what_is_no_growth_is_none() {
        let wrong = [
            "",
            "quick",
            "1k+",
            "127",
            "2g",
            "1k+2k+3k+4k+5k+6k+7k+8k+9k",
            "fast/small",
            "class:",
            ":fast",
            "class:fast/class:small",
            "a:b:fast",
            "fast+1k",
        ];
        for text in wrong {
            assert_eq!(Growths::parse(text), None, "{text}");
        }
    }
}
