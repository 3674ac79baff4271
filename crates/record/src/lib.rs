//! Runs a program under the recorder, drains its rings and finishes the bundle.
//!
//! For whoever wants a recording from a program of their own (a test, a benchmark, a service that
//! records on demand) as well as for the command line. The recording side never slows the target by
//! more than a full ring makes it wait, and whatever happens to either side, what was published is
//! in the spool folder: [`finish`] turns it into a bundle, at the end of a recording or long after
//! a crash.
//!
//! - [`session`]: one recording from start to end.
//! - [`spawn`], [`inherited`], [`signals`], [`preload`], [`control`]: the target's side of it.
//! - [`discover`], [`ring`], [`image`]: what targets write, and reading it without believing it.
//! - [`drain`], [`spool`]: rings into checksummed blocks (docs/spool-format.md).
//! - [`finish`]: spool into bundle: order, identity, stacks, processes.
//! - [`symbolize`]: functions, files and lines for the frames.
//! - [`diagnose`], [`unrecorded`], [`execs`]: what was not recorded, and why.
//! - [`output`]: where a recording goes, and what may be replaced there.
//! - [`mark`]: naming a moment from outside.
//! - [`jvm`]: recordings of a JVM's metaspace by its own log, without the preload object.
//! - [`node`]: recordings of a Node's JavaScript heaps by an addon, without the preload object.

pub mod clock;
pub mod control;
pub mod diagnose;
pub mod discover;
pub mod drain;
pub mod error;
pub mod execs;
pub mod finish;
pub mod image;
pub mod inherited;
pub mod jvm;
pub mod mark;
pub mod node;
pub mod output;
pub mod preload;
pub mod proc_fs;
pub mod ring;
pub mod session;
pub mod signals;
pub mod spawn;
pub mod spool;
pub mod symbolize;
pub mod unrecorded;

pub use error::RecordError;
