//! The findings through the public interface, on programs with known answers.

mod growth;
mod lives;
mod program;
mod slop;
