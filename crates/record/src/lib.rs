//! Runs a program under the recorder, drains its rings and finishes the bundle.

pub mod symbolize;
