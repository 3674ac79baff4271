//! The family `ocaml`: `ocaml:next-fit`, `ocaml:first-fit` and `ocaml:best-fit`.

use crate::OCaml;
use crate::spec::{PARAMETERS, Policy, Spec};
use heaplab_heap::{Family, FamilyError, Lab, Name, Row, Traits};
use std::fmt;

/// The family's name.
const NAME: &str = "ocaml";

/// The family.
#[derive(Clone, Copy, Debug)]
pub struct OCamls;

/// A policy with its parameters, as a heap of the family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named(pub Spec);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{NAME}:{}", self.0)
    }
}

impl heaplab_heap::Spec for Named {
    fn traits(&self) -> Traits {
        Traits {
            limit: self.0.limit_bytes.map(|limit| format!("limit={limit}")),
            walked: true,
            ..Traits::default()
        }
    }
}

impl Family for OCamls {
    type Spec = Named;

    fn rows(&self) -> Vec<Row> {
        let row = |(_, name, summary): (Policy, &str, &'static str)| Row {
            name: format!("{NAME}:{name}"),
            summary,
            parameters: PARAMETERS.iter().map(Into::into).collect(),
            example: Some("ocaml:best-fit,o=80,s=32k"),
            is_walked: true,
            ..Row::default()
        };
        Policy::ALL.map(row).into()
    }

    fn parse(&self, name: &Name) -> Option<Result<Named, FamilyError>> {
        (name.head == NAME).then(|| Spec::of_name(name).map(Named).map_err(FamilyError::wrong))
    }

    fn run<L: Lab>(&self, Named(spec): &Named, lab: L) -> Result<L::Output, FamilyError> {
        let heap = OCaml::new(*spec);
        Ok(lab.collected(heap.map_err(|error| {
            FamilyError::Failed(format!("no memory for OCaml's heap: {error}"))
        })?))
    }
}
