//! Runs a program under the recorder, drains its rings and finishes the bundle.
//!
//! For the command line, and for programs that record on their own (a test, a benchmark, a service
//! that records on demand). The recording side slows the target only while a ring is full. Whatever
//! happens to either side, published records are in the spool folder: [`finish`] turns them into a
//! bundle, at the end of a recording or long after a crash.
//!
//! - [`session`]: one recording from start to end.
//! - [`spawn`], [`inherited`], [`signals`], [`preload`], [`control`]: the target's side.
//! - [`discover`], [`ring`], [`image`]: the files of targets, read without trust.
//! - [`drain`], [`spool`]: rings into checksummed blocks (docs/spool-format.md).
//! - [`finish`]: spool into bundle: order, identity, stacks, processes.
//! - [`symbolize`]: functions, files and lines for the frames.
//! - [`diagnose`], [`unrecorded`], [`execs`]: the unrecorded programs, and why.
//! - [`output`]: the place of a recording, and what it may replace.
//! - [`settings`], [`summary`]: the user's options and the report to the user, in words.
//! - [`interrupts`]: work that a signal may end.
//! - [`mappings`]: where a process's resident memory lies, from the kernel.
//! - [`mark`]: naming a moment from outside.
//! - [`target`]: the program and the result of the next two.
//! - [`jvm`]: recordings of a JVM's metaspace by its own log, without the preload object.
//! - [`node`]: recordings of a Node's JavaScript heaps by an addon, without the preload object.
//! - [`ocaml`]: recordings of an OCaml program with the recorder linked in.

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
pub mod interrupts;
pub mod jvm;
pub mod mappings;
pub mod mark;
pub mod node;
pub mod ocaml;
pub mod output;
pub mod preload;
pub mod proc_fs;
pub mod python;
pub mod ring;
pub mod session;
pub mod settings;
pub mod signals;
pub mod spawn;
pub mod spool;
pub mod summary;
pub mod symbolize;
pub mod target;
pub mod unrecorded;

pub use error::RecordError;
