//! The choices of the generations and reclaim policies, as plain data.

use super::facts;
use crate::plan::{ArenaPlan, LoaderKind};
use crate::spec::{Generation, Reclaim, Spec};
use heaplab_buddy::{Geometry, Level};

/// When free chunks of at least a granule give their memory back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uncommit {
    /// On their return, and at a purge (16, 17).
    AtReturn,
    /// At a purge (18 and later).
    AtPurge,
    /// Never (`none`).
    Never,
}

/// A generation's choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Levels of chunks.
    pub geometry: Geometry,
    /// Bytes committed at a time.
    pub granule_bytes: usize,
    /// Bytes of a non-class node.
    pub node_bytes: usize,
    /// The time of uncommitting free chunks.
    pub uncommit: Uncommit,
    /// Commits a chunk whole when it is handed out (`none`).
    pub commit_whole_chunks: bool,
}

impl Settings {
    /// The choices of `spec`, except JDK 11's.
    pub fn of(spec: &Spec) -> Settings {
        let (root, node_bytes) = match spec.generation {
            Generation::Jdk16 => (facts::ROOT_CHUNK_BYTES_16, facts::NODE_BYTES_16),
            Generation::Jdk11 | Generation::Jdk17 | Generation::Jdk18 => {
                (facts::ROOT_CHUNK_BYTES_17, facts::NODE_BYTES_17)
            }
        };
        let geometry = Geometry::new(root, facts::SMALLEST_CHUNK_BYTES).expect("powers of two");
        let uncommit = match (spec.reclaim, spec.generation) {
            (Reclaim::None, _) => Uncommit::Never,
            (_, Generation::Jdk18) => Uncommit::AtPurge,
            _ => Uncommit::AtReturn,
        };
        let granule_bytes = match spec.reclaim {
            Reclaim::Aggressive => facts::GRANULE_BYTES_AGGRESSIVE,
            Reclaim::Balanced | Reclaim::None => facts::GRANULE_BYTES,
        };
        Settings {
            geometry,
            granule_bytes,
            node_bytes,
            uncommit,
            commit_whole_chunks: spec.reclaim == Reclaim::None,
        }
    }

    /// The wanted level of an arena's next chunk when it has `chunks`. A size above a root chunk
    /// means a root chunk (the boot loader's first one, 16).
    pub fn wanted_level(&self, sizes: &[usize], chunks: usize) -> Level {
        let bytes = sizes[chunks.min(sizes.len() - 1)];
        self.geometry.level_fitting(bytes).unwrap_or(Level::ROOT)
    }
}

/// The sizes of an arena's chunks, in order; the last repeats.
pub fn growth(plan: ArenaPlan) -> &'static [usize] {
    match (plan.loader, plan.class) {
        (LoaderKind::Standard, false) => facts::STANDARD_NON_CLASS,
        (LoaderKind::Standard, true) => facts::STANDARD_CLASS,
        (LoaderKind::Hidden, _) => facts::HIDDEN,
        (LoaderKind::Reflection, false) => facts::REFLECTION_NON_CLASS,
        (LoaderKind::Reflection, true) => facts::REFLECTION_CLASS,
        (LoaderKind::Boot, false) => facts::BOOT_NON_CLASS,
        (LoaderKind::Boot, true) => facts::BOOT_CLASS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standard_loader_grows_in_five_steps() {
        let settings = Settings::of(&Spec::new(Generation::Jdk17));
        let sizes = growth(ArenaPlan::default());
        let levels: Vec<u8> = (0..7).map(|chunks| settings.wanted_level(sizes, chunks).0).collect();
        assert_eq!(levels, [12, 12, 12, 11, 10, 10, 10]);
    }

    #[test]
    fn the_boot_loader_of_16_begins_with_a_root_chunk() {
        let settings = Settings::of(&Spec::new(Generation::Jdk16));
        let boot = ArenaPlan { class: false, loader: LoaderKind::Boot };
        assert_eq!(
            (settings.wanted_level(growth(boot), 0), settings.wanted_level(growth(boot), 1)),
            (Level(0), Level(2))
        );
    }

    #[test]
    fn policies_differ_in_granule_and_in_when_memory_goes_back() {
        let of = |text: &str| Settings::of(&Spec::parse(text).unwrap());
        assert_eq!(
            (of("jdk17").granule_bytes, of("jdk17").uncommit),
            (64 << 10, Uncommit::AtReturn)
        );
        assert_eq!(
            (of("jdk18,reclaim=aggressive").granule_bytes, of("jdk18").uncommit),
            (16 << 10, Uncommit::AtPurge)
        );
        assert_eq!(
            (of("jdk17,reclaim=none").commit_whole_chunks, of("jdk18,reclaim=none").uncommit),
            (true, Uncommit::Never)
        );
    }
}
