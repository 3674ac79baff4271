//! The parameters of [`elastic`](crate::elastic) on the command line:
//! `granule=64k,keep=4m,growth=fast`.
//!
//! One table ([`PARAMETERS`]) serves parsing and help; parameters not named keep the library's
//! defaults.

use crate::growths::{self, Growths};
use heaplab_elastic::{Options, Reclaim};
use heaplab_heap::Parameter;
use heaplab_heap::parameter;
use std::sync::Arc;
use std::time::Duration;

const BYTES: &str = "bytes, or with k, m, g";

/// The library's parameters.
pub const PARAMETERS: [Parameter; 7] = [
    Parameter {
        name: "granule",
        takes: "a power of two of a page to 256k",
        default: "a page",
        help: "unit in which memory is committed and given back",
    },
    Parameter {
        name: "growth",
        takes: growths::TAKES,
        default: "recorded",
        help: "chunk sizes of arenas: recorded: as the recording has them for each arena (learned if it has none; large for blocks without an arena); otherwise one growth for all arenas, or one for each kind (class:768+16k/non-class:3k+16k+32k); sizes are rounded up to eighths of a power of two",
    },
    Parameter {
        name: "reclaim",
        takes: "return, trim or background",
        default: "return",
        help: "when idle memory goes back: return: when an arena dies; trim: only at a trim; background: by a thread",
    },
    Parameter {
        name: "keep",
        takes: BYTES,
        default: "256k",
        help: "idle memory that may stay committed (not with reclaim=trim)",
    },
    Parameter {
        name: "interval",
        takes: "1 to 3600000 ms",
        default: "1000",
        help: "how often the thread of reclaim=background checks",
    },
    Parameter {
        name: "huge_pages",
        takes: "true or false",
        default: "false",
        help: "ask the kernel for huge pages",
    },
    Parameter {
        name: "limit",
        takes: "bytes, or with k, m, g; 64k or more",
        default: "unlimited",
        help: "maximum of committed bytes",
    },
];

const LIMIT_BYTES_MIN: usize = 64 << 10;
/// The largest granule such that the default root holds 64 of them.
const GRANULE_BYTES_MAX: usize = 256 << 10;

/// The requested parameters, as typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    /// The named parameters, with their values.
    parameters: Vec<(&'static str, String)>,
}

/// Why a text does not name the library's parameters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No such parameter.
    #[error("elastic has no parameter {name:?}; it has {known}")]
    Parameter {
        /// As typed.
        name: String,
        /// The known parameters.
        known: String,
    },
    /// An invalid value of this parameter.
    #[error("elastic:{parameter} takes {takes}, not {value:?}")]
    Value {
        /// The parameter.
        parameter: &'static str,
        /// The possible values.
        takes: &'static str,
        /// As typed.
        value: String,
    },
    /// A parameter that another one makes useless.
    #[error("elastic:{0}")]
    Useless(&'static str),
}

impl Spec {
    /// Parses `parameter=value` pieces, separated by commas; an empty text means the library's
    /// defaults.
    ///
    /// # Errors
    /// An unknown parameter, or an invalid value.
    pub fn parse(text: &str) -> Result<Spec, SpecError> {
        let mut spec = Spec::default();
        for piece in text.split(',').filter(|piece| !piece.is_empty()) {
            let (key, value) = piece.split_once('=').unwrap_or((piece, ""));
            let Some(parameter) = PARAMETERS.iter().find(|parameter| parameter.name == key) else {
                let known = PARAMETERS.map(|parameter| parameter.name).join(", ");
                return Err(SpecError::Parameter { name: key.into(), known });
            };
            if !fits(parameter.name, value) {
                return Err(SpecError::Value {
                    parameter: parameter.name,
                    takes: parameter.takes,
                    value: value.into(),
                });
            }
            spec.parameters.push((parameter.name, value.into()));
        }
        let reclaim = spec.get("reclaim").unwrap_or("return");
        if reclaim == "trim" && spec.get("keep").is_some() {
            return Err(SpecError::Useless(
                "keep has no meaning with reclaim=trim, which keeps all",
            ));
        }
        if reclaim != "background" && spec.get("interval").is_some() {
            return Err(SpecError::Useless("interval is of reclaim=background only"));
        }
        Ok(spec)
    }

    /// The value of a named parameter; if named twice, the last.
    fn get(&self, name: &str) -> Option<&str> {
        self.parameters
            .iter()
            .rev()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value.as_str())
    }

    fn bytes(&self, name: &str) -> Option<usize> {
        self.get(name).and_then(bytes)
    }

    /// The limit as typed.
    pub fn limit(&self) -> Option<&str> {
        self.get("limit")
    }

    /// Whether idle memory goes back after a time, which makes space depend on time.
    pub fn depends_on_time(&self) -> bool {
        self.get("reclaim") == Some("background")
    }

    /// The growth of arenas.
    pub fn growths(&self) -> Growths {
        self.get("growth").and_then(Growths::parse).unwrap_or_default()
    }

    /// The library's options.
    pub fn options(&self) -> Options {
        let mut options = Options::default();
        if let Some(granule_bytes) = self.bytes("granule") {
            options.granule_bytes = granule_bytes;
        }
        let keep_bytes = self.bytes("keep").unwrap_or(256 << 10);
        options.reclaim = match self.get("reclaim") {
            Some("trim") => Reclaim::AtTrim,
            Some("background") => {
                let ms = self.get("interval").and_then(|text| text.parse().ok()).unwrap_or(1000);
                Reclaim::Background { interval: Duration::from_millis(ms), keep_bytes }
            }
            _ => Reclaim::AtReturn { keep_bytes },
        };
        options.huge_pages = self.get("huge_pages") == Some("true");
        options.limit =
            self.bytes("limit").map(|bytes| Arc::new(heaplab_elastic::CommitLimit::new(bytes)));
        options
    }
}

/// A count of bytes within an address space.
fn bytes(text: &str) -> Option<usize> {
    parameter::bytes(text)?.try_into().ok()
}

fn fits(parameter: &str, value: &str) -> bool {
    match parameter {
        "granule" => bytes(value).is_some_and(|bytes| {
            bytes.is_power_of_two()
                && (Options::default().granule_bytes..=GRANULE_BYTES_MAX).contains(&bytes)
        }),
        "growth" => Growths::parse(value).is_some(),
        "reclaim" => matches!(value, "return" | "trim" | "background"),
        "interval" => value.parse::<u64>().is_ok_and(|ms| (1..=3_600_000).contains(&ms)),
        "huge_pages" => matches!(value, "true" | "false"),
        "limit" => bytes(value).is_some_and(|bytes| bytes >= LIMIT_BYTES_MIN),
        _ => bytes(value).is_some(),
    }
}

impl std::fmt::Display for Spec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, (name, value)) in self.parameters.iter().enumerate() {
            write!(f, "{}{name}={value}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_become_options() {
        let text = "granule=64k,growth=fast,reclaim=background,keep=4m,interval=20,huge_pages=true,limit=1g";
        let spec = Spec::parse(text).unwrap();
        assert_eq!(
            (spec.to_string().as_str(), spec.growths(), spec.limit(), spec.depends_on_time()),
            (text, Growths::parse("fast").unwrap(), Some("1g"), true)
        );
        let options = spec.options();
        assert_eq!((options.granule_bytes, options.huge_pages), (64 << 10, true));
        assert_eq!(
            options.reclaim,
            Reclaim::Background { interval: Duration::from_millis(20), keep_bytes: 4 << 20 }
        );
        assert_eq!(options.limit.map(|limit| limit.limit_bytes()), Some(1 << 30));
        assert_eq!(Spec::parse("reclaim=trim").unwrap().options().reclaim, Reclaim::AtTrim);
        let (plain, library) = (Spec::parse("").unwrap(), Options::default());
        assert_eq!(
            (plain.options().reclaim, plain.options().granule_bytes, plain.growths()),
            (library.reclaim, library.granule_bytes, Growths::default())
        );
        assert!(
            plain.options().limit.is_none()
                && !plain.options().huge_pages
                && plain.to_string().is_empty()
        );
        // The library takes the largest granule that parses.
        assert!(
            crate::elastic::Elastic::new(
                Spec::parse("granule=256k").unwrap().options(),
                Vec::new()
            )
            .is_ok()
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        let said = |text: &str| Spec::parse(text).unwrap_err().to_string();
        assert_eq!(
            said("fast=1"),
            "elastic has no parameter \"fast\"; it has granule, growth, reclaim, keep, interval, huge_pages, limit"
        );
        assert_eq!(
            said("granule=5k"),
            "elastic:granule takes a power of two of a page to 256k, not \"5k\""
        );
        assert_eq!(
            said("limit=1k"),
            "elastic:limit takes bytes, or with k, m, g; 64k or more, not \"1k\""
        );
        assert_eq!(said("keep"), "elastic:keep takes bytes, or with k, m, g, not \"\"");
        assert!(
            said("reclaim=trim,keep=1m").contains("no meaning")
                && said("interval=5").contains("background only")
        );
    }
}
