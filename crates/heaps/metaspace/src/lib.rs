//! HotSpot's metaspace, old (JDK 11) and elastic (JDK 16, 17, 18), as heaps that any workload can
//! run on.
//!
//! Shows the cost of a JVM's class metadata under another generation's allocator, and serves
//! authors of such allocators. Each generation keeps the rules of its original exactly; each rule
//! names its source or measurement. A region of the workload is an arena of the metaspace: class or
//! non-class, and of a kind that decides its growth ([`plan`]).
//!
//! - [`family`]: how they enter the lab.
//! - [`spec`]: the names of the generations and their parameters.
//! - [`designs`]: what every generation holds, in the same terms.
//! - [`plan`]: the kind of arena of each region of a workload.
//! - [`elastic`]: JDK 16 and later (JEP 387): buddy chunks, commit granules, headers outside.
//! - [`old`]: JDK 15 and before: three chunk sizes and humongous ones, headers inside.
//!
//! ```
//! use heaplab_metaspace::spec::{Generation, Spec};
//! let spec = Spec::parse("jdk17,reclaim=aggressive").unwrap();
//! assert_eq!(spec.generation, Generation::Jdk17);
//! ```

pub mod designs;
pub mod elastic;
pub mod family;
pub mod listing;
pub mod old;
pub mod plan;
pub mod spec;

pub use family::Metaspaces;
