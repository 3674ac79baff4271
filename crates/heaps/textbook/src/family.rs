//! The family `textbook`: `textbook:mark-sweep` and `textbook:semi-space`.

use crate::strategy::{Design, Options};
use crate::{MarkSweep, SemiSpace};
use heaplab_heap::{Family, FamilyError, Lab, Name, Parameter, Row, Traits, parameter};
use std::fmt;

/// The family's name.
const NAME: &str = "textbook";

/// Parameters of both heaps.
const PARAMETERS: [Parameter; 2] = [
    Parameter {
        name: "limit",
        takes: "bytes, with k, m or g",
        default: "16g",
        help: "maximum size of the heap; beyond it births fail",
    },
    Parameter {
        name: "overhead",
        takes: "percent, 1 to 1000000",
        default: "100",
        help: "allocation between two collections, as a share of the live bytes after the first (at least 1 MiB)",
    },
];

/// The family.
#[derive(Clone, Copy, Debug)]
pub struct Textbook;

/// A collector with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    design: Design,
    limit_bytes: Option<u64>,
    overhead_percent: Option<u64>,
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{NAME}:{}", self.design.name())?;
        self.limit_bytes.map_or(Ok(()), |limit| write!(f, ",limit={limit}"))?;
        self.overhead_percent.map_or(Ok(()), |percent| write!(f, ",overhead={percent}"))
    }
}

impl heaplab_heap::Spec for Spec {
    fn traits(&self) -> Traits {
        Traits {
            walked: true,
            limit: self.limit_bytes.map(|limit| format!("limit={limit}")),
            ..Traits::default()
        }
    }
}

impl Family for Textbook {
    type Spec = Spec;

    fn rows(&self) -> Vec<Row> {
        let row = |(_, name, summary): (Design, &str, &'static str)| Row {
            name: format!("{NAME}:{name}"),
            summary,
            parameters: PARAMETERS.iter().map(Into::into).collect(),
            example: Some("textbook:mark-sweep,limit=64m"),
            is_walked: true,
            ..Row::default()
        };
        Design::ALL.map(row).into()
    }

    fn parse(&self, name: &Name) -> Option<Result<Spec, FamilyError>> {
        (name.head == NAME).then(|| parse(name))
    }

    fn run<L: Lab>(&self, spec: &Spec, lab: L) -> Result<L::Output, FamilyError> {
        let mut options = Options::default();
        options.limit_bytes = spec.limit_bytes.map_or(options.limit_bytes, |limit| limit as usize);
        options.overhead_percent = spec.overhead_percent.unwrap_or(options.overhead_percent);
        match spec.design {
            Design::MarkSweep => {
                Ok(lab.collected(MarkSweep::new(options).map_err(FamilyError::failed)?))
            }
            Design::SemiSpace => {
                Ok(lab.collected(SemiSpace::new(options).map_err(FamilyError::failed)?))
            }
        }
    }
}

fn parse(name: &Name) -> Result<Spec, FamilyError> {
    let wrong = |what: String| Err(FamilyError::Wrong(format!("{}: {what}", name.text)));
    let variant = name.variant.as_deref().unwrap_or("");
    let Some((design, ..)) = Design::ALL.into_iter().find(|(_, known, _)| *known == variant) else {
        return wrong(format!("there are {NAME}:mark-sweep and {NAME}:semi-space"));
    };
    let mut spec = Spec { design, limit_bytes: None, overhead_percent: None };
    for (key, value) in &name.parameters {
        match key.as_str() {
            "limit" => {
                let bytes = parameter::bytes(value);
                spec.limit_bytes = bytes.filter(|bytes| (1 << 20..=1 << 40).contains(bytes));
                if spec.limit_bytes.is_none() {
                    return wrong(format!("limit takes bytes from 1m to 1024g, not {value}"));
                }
            }
            "overhead" => {
                let percent = value.parse().ok();
                spec.overhead_percent = percent.filter(|percent| (1..=1_000_000).contains(percent));
                if spec.overhead_percent.is_none() {
                    return wrong(format!("overhead takes percent from 1 to 1000000, not {value}"));
                }
            }
            _ => return wrong(format!("{key} is no parameter; it has limit and overhead")),
        }
    }
    match name.strays.first() {
        Some(stray) => wrong(format!("{stray} is no parameter; it has limit and overhead")),
        None => Ok(spec),
    }
}
