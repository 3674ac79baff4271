//! The kind of a class loader, which the log does not print, from the first chunk that each of its
//! arenas asks for.
//!
//! The level asked for is the smaller of the growth policy's first step and the smallest level that
//! the request fits, as `MetaspaceArena::allocate_new_chunk` has it. So a level above the fitting
//! one is the policy's own, and otherwise the policy's is that one or a deeper one. What both
//! arenas of a loader leave possible is intersected; of the kinds that remain the most frequent is
//! taken. Levels: `metaspaceArenaGrowthPolicy.cpp` of JDK 17 to 25.

/// Kinds by name, the most frequent of those that can be mistaken for each other first: level of
/// the first chunk of the non-class arena, and of the class arena.
const KINDS: [(&str, u8, u8); 4] =
    [("standard", 12, 13), ("hidden", 14, 14), ("reflection", 13, 14), ("boot", 2, 6)];

/// The kinds that a loader may still be of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Possible(u8);

impl Default for Possible {
    fn default() -> Self {
        Possible((1 << KINDS.len()) - 1)
    }
}

impl Possible {
    /// What is left when the first chunk asked for by the loader's class or non-class arena is of
    /// `level` where `fitting` would do.
    pub fn after_first_chunk(self, class: bool, level: u8, fitting: u8) -> Possible {
        let mut left = 0;
        for (index, (_, non_class_level, class_level)) in KINDS.iter().enumerate() {
            let policy = if class { *class_level } else { *non_class_level };
            if policy == level || (level == fitting && policy > level) {
                left |= 1 << index;
            }
        }
        Possible(self.0 & left)
    }

    /// The likeliest; empty where none is possible, which no known JVM does.
    pub fn name(self) -> &'static str {
        KINDS
            .iter()
            .enumerate()
            .find(|(index, _)| self.0 >> index & 1 == 1)
            .map_or("", |(_, (name, _, _))| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policys_own_level_decides_and_a_large_request_leaves_it_open() {
        let any = Possible::default();
        assert_eq!(any.after_first_chunk(false, 12, 14).name(), "standard");
        assert_eq!(any.after_first_chunk(false, 14, 14).name(), "hidden");
        assert_eq!(any.after_first_chunk(false, 13, 14).name(), "reflection");
        assert_eq!(any.after_first_chunk(false, 2, 14).name(), "boot");
        // 3 KB asked for: any policy up to 4 KB would ask for a chunk of 4 KB.
        let open = any.after_first_chunk(false, 12, 12);
        assert_eq!(open.name(), "standard");
        assert_eq!(open.after_first_chunk(true, 14, 14).name(), "hidden");
        assert_eq!(
            any.after_first_chunk(true, 14, 14).after_first_chunk(false, 13, 14).name(),
            "reflection"
        );
        assert_eq!(any.after_first_chunk(false, 7, 14).name(), "");
    }
}
