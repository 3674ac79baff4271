//! How the heap enters the lab: one name, no parameters.

use crate::segregated::Segregated;
use heaplab_heap::{Family, FamilyError, Lab, Name, Row, Spec, Traits};
use std::fmt;

/// The family.
#[derive(Clone, Copy, Debug)]
pub struct Segregate;

/// `segregated`, the family's one heap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plain;

impl fmt::Display for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("segregated")
    }
}

impl Spec for Plain {
    fn traits(&self) -> Traits {
        Traits::default()
    }
}

impl Family for Segregate {
    type Spec = Plain;

    fn rows(&self) -> Vec<Row> {
        vec![Row {
            name: "segregated".into(),
            summary: "powers of two, one free list each",
            ..Row::default()
        }]
    }

    fn parse(&self, name: &Name) -> Option<Result<Plain, FamilyError>> {
        (name.text == "segregated").then_some(Ok(Plain))
    }

    fn run<L: Lab>(&self, _: &Plain, lab: L) -> Result<L::Output, FamilyError> {
        Ok(lab.manual(Segregated::default()))
    }
}
