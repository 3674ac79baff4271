//! Names with an open part.

/// A name in which `*` stands for any text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    /// The pattern as it is written.
    pub fn new(text: impl Into<String>) -> Pattern {
        Pattern(text.into())
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Whether all of `name` is what the pattern says.
    pub fn fits(&self, name: &str) -> bool {
        let mut parts = self.0.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = name.strip_prefix(first) else { return false };
        let Some(last) = self.0.contains('*').then(|| parts.next_back().unwrap_or_default()) else {
            return rest.is_empty();
        };
        for part in parts {
            let Some(at) = rest.find(part) else { return false };
            rest = &rest[at + part.len()..];
        }
        rest.ends_with(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_text() {
        let fits = |pattern: &str, name: &str| Pattern::new(pattern).fits(name);
        assert!(
            fits("Session", "Session")
                && !fits("Session", "Sessions")
                && !fits("Session", "MySession")
        );
        assert!(
            fits("Detached *", "Detached <div>")
                && fits("*", "")
                && fits("*Node*", "MyNodeList")
                && fits("a*b*c", "aXbYc")
        );
        assert!(!fits("a*a", "a") && !fits("Detached *", "Detache") && !fits("a*b*c", "acb"));
    }
}
