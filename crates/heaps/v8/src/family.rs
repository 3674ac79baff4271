//! The family `v8`: `v8:many,version=7.9,compact=never`.

use crate::spec::{PARAMETERS, Spec};
use crate::{V8Heap, documented, strategy};
use heaplab_heap::{Family, FamilyError, Lab, Name, Row, Traits};

/// The family's name.
const NAME: &str = "v8";

/// The family.
#[derive(Clone, Copy, Debug)]
pub struct V8s;

impl heaplab_heap::Spec for Spec {
    fn traits(&self) -> Traits {
        Traits { limit: self.limit_text(), files: self.files(), walked: true, ..Traits::default() }
    }
}

impl Family for V8s {
    type Spec = Spec;

    fn rows(&self) -> Vec<Row> {
        let row = |strategy: strategy::Strategy| Row {
            name: format!("{NAME}:{}", strategy.name),
            summary: strategy.summary,
            parameters: PARAMETERS.iter().map(Into::into).collect(),
            example: Some("v8:many,version=7.9,compact=never"),
            is_walked: true,
            ..Row::default()
        };
        documented::all().into_iter().map(row).collect()
    }

    fn parse(&self, name: &Name) -> Option<Result<Spec, FamilyError>> {
        (name.head == NAME).then(|| {
            let stray = name.strays.iter().map(|stray| (stray.as_str(), ""));
            let given = name.parameters.iter().map(|(key, value)| (key.as_str(), value.as_str()));
            let spec = Spec::of(name.variant.as_deref(), given.chain(stray));
            // The same command line works once the file is right.
            spec.map_err(|error| {
                if error.of_file { FamilyError::failed(error) } else { FamilyError::wrong(error) }
            })
        })
    }

    fn run<L: Lab>(&self, spec: &Spec, lab: L) -> Result<L::Output, FamilyError> {
        // A person who looks at pages wants free bytes by category too.
        let mut spec = spec.clone();
        spec.categories |= lab.walks();
        let mut heap = V8Heap::new(spec).map_err(FamilyError::failed)?;
        if lab.walks() {
            heap.watch_losses();
        }
        Ok(lab.collected(heap))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_missing_is_no_wrong_name() {
        let error = |name: &str| V8s.parse(&Name::parse(name)).unwrap().unwrap_err();
        for name in ["v8:file=/missing.toml", "v8:many,base=/missing.toml"] {
            assert!(matches!(error(name), FamilyError::Failed(_)), "{name}");
        }
        assert!(matches!(error("v8:many,file=/missing.toml"), FamilyError::Failed(_)));
        assert!(matches!(error("v8:many,base=1000000"), FamilyError::Wrong(_)));
    }
}
