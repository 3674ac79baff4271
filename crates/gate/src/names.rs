//! The names that an assertion may use.

/// A name and its parameter.
pub(crate) struct Name {
    pub(crate) text: &'static str,
    pub(crate) takes: Takes,
    pub(crate) is_bytes: bool,
}

/// What stands in a name's parentheses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Nothing, or a function.
    Function,
    /// Nothing.
    Nothing,
    /// A mark.
    Mark,
    /// Nothing, or a kind of finding.
    Kind,
}

const fn name(text: &'static str, takes: Takes, is_bytes: bool) -> Name {
    Name { text, takes, is_bytes }
}

pub(crate) const NAMES: [Name; 13] = [
    name("peak", Takes::Function, true),
    name("end", Takes::Function, true),
    name("leaked", Takes::Function, true),
    name("live", Takes::Mark, true),
    name("objects", Takes::Function, false),
    name("allocations", Takes::Function, false),
    name("reallocations", Takes::Function, false),
    name("temporary", Takes::Function, false),
    name("requested", Takes::Function, true),
    name("copied", Takes::Function, true),
    name("slop", Takes::Nothing, true),
    name("resident", Takes::Nothing, true),
    name("findings", Takes::Kind, false),
];

/// Kinds of findings, as reports name them.
pub(crate) const KINDS: [&str; 4] = ["clownshoes", "growth", "churn", "leak"];

pub(crate) fn known(text: &str) -> Option<&'static Name> {
    NAMES.iter().find(|name| name.text == text)
}

/// Why a name cannot stand so; `None`: it can.
pub(crate) fn wrong(text: &str, argument: Option<&str>) -> Option<String> {
    let Some(name) = known(text) else {
        let all: Vec<&str> = NAMES.iter().map(|name| name.text).collect();
        return Some(format!("{text} is not known; there are {}, baseline", all.join(", ")));
    };
    match (name.takes, argument.filter(|argument| !argument.is_empty())) {
        (Takes::Mark, None) => Some(format!("{text} needs a mark, such as {text}(\"loaded\")")),
        (Takes::Nothing, Some(_)) => {
            Some(format!("{text} is of the whole run and takes no name: {text}"))
        }
        (Takes::Kind, Some(kind)) if !KINDS.contains(&kind) => {
            Some(format!("{kind} is no kind of finding; there are {}", KINDS.join(", ")))
        }
        _ => None,
    }
}
