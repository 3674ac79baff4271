//! One file a command: its arguments, a call into the libraries, and what it prints.

pub mod about;
pub mod check;
pub mod compare;
pub mod curve;
pub mod export;
pub mod generate;
pub mod heaps;
pub mod import;
pub mod mark;
pub mod pressure;
pub mod record;
pub mod recording;
pub mod recover;
pub mod replay;
pub mod report;
pub mod shell;
pub mod snapshot;
pub mod symbolize;
pub mod tour;
pub mod track;
pub mod what_if;
