//! The designs behind HotSpot's own operations: requests in words, arenas by number. The study
//! reads an arena's used words after each request, so it drives the designs itself.

use heaplab_metaspace::designs::{self, Usage, usage_of};
use heaplab_metaspace::elastic::{self, ElasticMetaspace};
use heaplab_metaspace::old::{self, Metaspace11, Options11, Space};
use heaplab_metaspace::plan::{ArenaPlan, Plan};
use heaplab_metaspace::spec::{Generation, Spec};
use std::ptr::NonNull;

/// A metaspace for replaying a recording.
pub trait Design {
    /// An arena is born; returns its number.
    fn birth(&mut self, plan: ArenaPlan) -> usize;
    /// A block; `None`: refused.
    fn allocate(&mut self, arena: usize, words: usize) -> Option<NonNull<u8>>;
    /// Gives a block back.
    ///
    /// # Safety
    /// The block was allocated from this arena with the same words and not given back since, and
    /// nobody uses it any more.
    unsafe fn deallocate(&mut self, arena: usize, block: NonNull<u8>, words: usize);
    /// Ends an arena.
    ///
    /// # Safety
    /// Nobody uses its blocks any more.
    unsafe fn death(&mut self, arena: usize);
    /// The end of a collection that unloaded classes.
    fn purge(&mut self);
    /// Words of a live arena that are handed out or in its free blocks.
    fn used_words(&self, arena: usize) -> usize;
    /// Its bytes, by use.
    fn usage(&self) -> Usage;
}

/// An empty design with these parameters.
///
/// # Errors
/// The address space of its class space cannot be reserved.
pub fn design(spec: Spec) -> anyhow::Result<Box<dyn Design>> {
    Ok(match spec.generation {
        Generation::Jdk11 => Box::new(Old {
            metaspace: Metaspace11::new(Options11::from(&spec)),
            arenas: Vec::new(),
        }),
        _ => {
            let metaspace = ElasticMetaspace::new(spec, Plan::default())?;
            Box::new(Elastic { metaspace, arenas: Vec::new() })
        }
    })
}

struct Old {
    metaspace: Metaspace11,
    arenas: Vec<old::ArenaId>,
}

impl Design for Old {
    fn birth(&mut self, plan: ArenaPlan) -> usize {
        let space = if plan.class { Space::Class } else { Space::NonClass };
        self.arenas.push(self.metaspace.birth(space, plan.loader));
        self.arenas.len() - 1
    }

    fn allocate(&mut self, arena: usize, words: usize) -> Option<NonNull<u8>> {
        self.metaspace.allocate(self.arenas[arena], words)
    }

    unsafe fn deallocate(&mut self, arena: usize, block: NonNull<u8>, words: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.metaspace.deallocate(self.arenas[arena], block, words) };
    }

    unsafe fn death(&mut self, arena: usize) {
        self.metaspace.death(self.arenas[arena]);
    }

    fn purge(&mut self) {
        self.metaspace.purge();
    }

    fn used_words(&self, arena: usize) -> usize {
        self.metaspace.used_words(self.arenas[arena])
    }

    fn usage(&self) -> Usage {
        usage_of(&self.metaspace.statistics())
    }
}

struct Elastic {
    metaspace: ElasticMetaspace,
    arenas: Vec<elastic::ArenaId>,
}

impl Design for Elastic {
    fn birth(&mut self, plan: ArenaPlan) -> usize {
        self.arenas.push(self.metaspace.birth(plan));
        self.arenas.len() - 1
    }

    fn allocate(&mut self, arena: usize, words: usize) -> Option<NonNull<u8>> {
        self.metaspace.allocate_words(self.arenas[arena], words).map(NonNull::cast)
    }

    unsafe fn deallocate(&mut self, arena: usize, block: NonNull<u8>, words: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.metaspace.deallocate_words(self.arenas[arena], block.cast(), words) };
    }

    unsafe fn death(&mut self, arena: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.metaspace.death(self.arenas[arena]) };
    }

    fn purge(&mut self) {
        self.metaspace.purge();
    }

    fn used_words(&self, arena: usize) -> usize {
        let arena = self.metaspace.arena(self.arenas[arena]);
        arena.map_or(0, |arena| {
            arena.used_words(&self.metaspace.spaces()[usize::from(arena.plan().class)])
        })
    }

    fn usage(&self) -> Usage {
        designs::Design::usage(&self.metaspace)
    }
}
