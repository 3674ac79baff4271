//! The kind of a class loader. The log does not print it; the first chunk that each of its arenas
//! asks for gives it away.
//!
//! The level asked for is the smaller of the growth policy's first step and the smallest level that
//! fits the request, as in `MetaspaceArena::allocate_new_chunk`. So a level above the fitting one
//! is the policy's own; otherwise the policy's level is the fitting one or a deeper one. The
//! possibilities of a loader's two arenas are intersected; of the remaining kinds the most frequent
//! is taken. Levels: `metaspaceArenaGrowthPolicy.cpp` of JDK 17 to 25.

/// Kinds by the levels of their first chunks, non-class and class arena. Of kinds that look alike,
/// the most frequent is first.
const KINDS: [(&str, u8, u8); 4] =
    [("standard", 12, 13), ("hidden", 14, 14), ("reflection", 13, 14), ("boot", 2, 6)];

/// The kinds still possible for a loader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Possible(u8);

impl Default for Possible {
    fn default() -> Self {
        Possible((1 << KINDS.len()) - 1)
    }
}

impl Possible {
    /// The possible kinds after the first chunk of the loader's class or non-class arena has
    /// `level`, and `fitting` would do.
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

    /// The likeliest kind; empty if none is possible, which no known JVM does.
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
        // 3 KB requested: any policy up to 4 KB would ask for a chunk of 4 KB.
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
