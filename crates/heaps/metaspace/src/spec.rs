//! The names of the generations and their parameters: `jdk17,reclaim=aggressive,limit=64m`.
//!
//! One table ([`PARAMETERS`]) serves parsing, limits and help.

use heaplab_heap::Parameter;
use heaplab_heap::parameter::bytes;
use serde::Serialize;

/// A generation's rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Generation {
    /// JDK 11: the old design, unchanged until JDK 15.
    Jdk11,
    /// JDK 16: the first elastic one; root chunks of 4 MB.
    Jdk16,
    /// JDK 17: root chunks of 16 MB; free chunks are uncommitted on their return.
    Jdk17,
    /// JDK 18 and later: free chunks are uncommitted only at a purge.
    Jdk18,
}

impl Generation {
    /// Every generation with its name and a description in one line.
    pub const ALL: [(Generation, &'static str, &'static str); 4] = [
        (
            Generation::Jdk11,
            "jdk11",
            "HotSpot's old metaspace, as JDK 11 has it: three chunk sizes and humongous chunks",
        ),
        (Generation::Jdk16, "jdk16", "HotSpot's first elastic metaspace: buddy chunks up to 4 MB"),
        (
            Generation::Jdk17,
            "jdk17",
            "HotSpot's elastic metaspace of JDK 17: buddy chunks up to 16 MB, uncommitted when an arena returns them",
        ),
        (
            Generation::Jdk18,
            "jdk18",
            "HotSpot's elastic metaspace since JDK 18: chunks are uncommitted only at a purge, after arenas died",
        ),
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(generation, _, _)| *generation == self)
            .map_or("jdk17", |(_, name, _)| name)
    }
}

/// `-XX:MetaspaceReclaimPolicy` (JDK 16 to 20; 21 removed it).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reclaim {
    /// Granules of 64 KB.
    #[default]
    Balanced,
    /// Granules of 16 KB.
    Aggressive,
    /// New chunks are committed whole and never uncommitted.
    None,
}

impl Reclaim {
    /// Every policy with its name.
    pub const ALL: [(Reclaim, &'static str); 3] = [
        (Reclaim::Balanced, "balanced"),
        (Reclaim::Aggressive, "aggressive"),
        (Reclaim::None, "none"),
    ];
}

/// The family's parameters.
pub const PARAMETERS: [Parameter; 3] = [
    Parameter {
        name: "reclaim",
        takes: "balanced, aggressive or none",
        default: "balanced",
        help: "balanced: granules of 64 KB; aggressive: of 16 KB; none: commit chunks whole and keep them (not jdk11)",
    },
    Parameter {
        name: "limit",
        takes: "bytes, or with k, m, g; 64k (a granule) or more",
        default: "unlimited",
        help: "MaxMetaspaceSize: maximum of committed bytes of both spaces",
    },
    Parameter {
        name: "class_space",
        takes: "bytes, or with k, m, g; 16m to 4g",
        default: "1g",
        help: "CompressedClassSpaceSize: reserved size of the class space, which cannot grow",
    },
];

/// Smallest class space: one root chunk.
const CLASS_SPACE_BYTES_MIN: u64 = 16 << 20;
/// Largest class space: the reach of a compressed class pointer.
const CLASS_SPACE_BYTES_MAX: u64 = 4 << 30;
/// Smallest limit: one granule of the default policy.
const LIMIT_BYTES_MIN: u64 = 64 << 10;

/// A generation with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Spec {
    /// The generation.
    pub generation: Generation,
    /// The treatment of free chunks; without meaning in JDK 11.
    pub reclaim: Reclaim,
    /// Most bytes committed; `None`: no limit.
    pub limit_bytes: Option<u64>,
    /// Reserved bytes of the class space.
    pub class_space_bytes: u64,
}

/// Why a name is not a metaspace's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The generation is unknown.
    #[error("there is no metaspace {0:?}; there are jdk11, jdk16, jdk17 and jdk18")]
    Generation(String),
    /// The parameter is unknown.
    #[error("metaspace has no parameter {0:?}; it has reclaim, limit and class_space")]
    Parameter(String),
    /// JDK 11 had no choice of a policy.
    #[error("metaspace:jdk11 has no reclaim; jdk16, jdk17 and jdk18 have one")]
    Reclaim,
    /// An invalid value of this parameter.
    #[error("metaspace:{parameter} takes {takes}, not {value:?}")]
    Value {
        /// The parameter.
        parameter: &'static str,
        /// The possible values.
        takes: &'static str,
        /// As typed.
        value: String,
    },
}

impl Spec {
    /// A generation with its JVM's default parameters.
    pub const fn new(generation: Generation) -> Spec {
        Spec {
            generation,
            reclaim: Reclaim::Balanced,
            limit_bytes: None,
            class_space_bytes: 1 << 30,
        }
    }

    /// Parses the text behind `metaspace:`: a generation, then `parameter=value` pieces, all
    /// separated by commas.
    pub fn parse(text: &str) -> Result<Spec, SpecError> {
        let mut pieces = text.split(',');
        let name = pieces.next().unwrap_or_default();
        let Some((generation, _, _)) = Generation::ALL.iter().find(|(_, known, _)| *known == name)
        else {
            return Err(SpecError::Generation(name.into()));
        };
        let mut spec = Spec::new(*generation);
        for piece in pieces {
            let (key, value) = piece.split_once('=').unwrap_or((piece, ""));
            let Some(parameter) = PARAMETERS.iter().find(|parameter| parameter.name == key) else {
                return Err(SpecError::Parameter(key.into()));
            };
            spec.set(parameter, value)?;
        }
        Ok(spec)
    }

    /// The limit in its typed form, if any.
    pub fn limit_text(&self) -> Option<String> {
        self.limit_bytes.map(|limit| format!("limit={}", shortest(limit)))
    }

    /// The reclaim policy's name, and whether it is the default.
    pub fn reclaim_name(&self) -> (&'static str, bool) {
        let name = Reclaim::ALL
            .iter()
            .find(|(reclaim, _)| *reclaim == self.reclaim)
            .map_or("balanced", |(_, name)| name);
        (name, self.reclaim == Reclaim::default())
    }

    fn set(&mut self, parameter: &Parameter, value: &str) -> Result<(), SpecError> {
        let wrong = || SpecError::Value {
            parameter: parameter.name,
            takes: parameter.takes,
            value: value.into(),
        };
        match parameter.name {
            "reclaim" if self.generation != Generation::Jdk11 => {
                let (reclaim, _) =
                    Reclaim::ALL.iter().find(|(_, name)| *name == value).ok_or_else(wrong)?;
                self.reclaim = *reclaim;
            }
            "reclaim" => return Err(SpecError::Reclaim),
            "limit" => {
                self.limit_bytes =
                    Some(bytes(value).filter(|bytes| *bytes >= LIMIT_BYTES_MIN).ok_or_else(wrong)?)
            }
            _ => {
                let fits = |bytes: &u64| {
                    (CLASS_SPACE_BYTES_MIN..=CLASS_SPACE_BYTES_MAX).contains(bytes)
                        && bytes.is_multiple_of(CLASS_SPACE_BYTES_MIN)
                };
                self.class_space_bytes = bytes(value).filter(fits).ok_or_else(wrong)?;
            }
        }
        Ok(())
    }
}

impl std::fmt::Display for Spec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.generation.name())?;
        if let (name, false) = self.reclaim_name() {
            write!(f, ",reclaim={name}")?;
        }
        if let Some(limit) = self.limit_bytes {
            write!(f, ",limit={}", shortest(limit))?;
        }
        if self.class_space_bytes != 1 << 30 {
            write!(f, ",class_space={}", shortest(self.class_space_bytes))?;
        }
        Ok(())
    }
}

/// Bytes in the command line's form, in the largest unit that is whole.
fn shortest(bytes: u64) -> String {
    for (unit, shift) in [("g", 30), ("m", 20), ("k", 10)] {
        if bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_and_print() {
        for text in [
            "jdk11",
            "jdk16,reclaim=none",
            "jdk17",
            "jdk17,reclaim=aggressive,limit=64m,class_space=256m",
            "jdk18,limit=100000",
        ] {
            assert_eq!(Spec::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Spec::parse("jdk17,reclaim=balanced").unwrap(), Spec::new(Generation::Jdk17));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let said = |text: &str| Spec::parse(text).unwrap_err().to_string();
        assert_eq!(
            said("jdk12"),
            "there is no metaspace \"jdk12\"; there are jdk11, jdk16, jdk17 and jdk18"
        );
        assert_eq!(
            said("jdk17,fast=1"),
            "metaspace has no parameter \"fast\"; it has reclaim, limit and class_space"
        );
        assert_eq!(
            said("jdk17,limit=1k"),
            "metaspace:limit takes bytes, or with k, m, g; 64k (a granule) or more, not \"1k\""
        );
        assert_eq!(
            said("jdk17,class_space=17m"),
            "metaspace:class_space takes bytes, or with k, m, g; 16m to 4g, not \"17m\""
        );
        assert_eq!(
            said("jdk17,reclaim"),
            "metaspace:reclaim takes balanced, aggressive or none, not \"\""
        );
        assert_eq!(
            said("jdk11,reclaim=none"),
            "metaspace:jdk11 has no reclaim; jdk16, jdk17 and jdk18 have one"
        );
    }
}
