//! Changes as options of a command line.

use crate::{Rule, WhatIfError};

/// Changes by the option that asks for each.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct RuleOptions {
    /// Requests of A bytes ask for B bytes, or for two blocks of B and C bytes; or every request
    /// asks for N bytes less.
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "FUNCTION:A=B[+C]|FUNCTION:-N", allow_hyphen_values = true)
    )]
    pub size: Vec<String>,
    /// Buffers grow by at least this factor, or to a power of two.
    #[cfg_attr(feature = "clap", arg(long, value_name = "FUNCTION=FACTOR|pow2"))]
    pub grow: Vec<String>,
    /// At most this many bytes are live: the oldest blocks are freed first.
    #[cfg_attr(feature = "clap", arg(long, value_name = "FUNCTION=BYTES"))]
    pub cap: Vec<String>,
    /// The program keeps freed blocks and uses them again.
    #[cfg_attr(feature = "clap", arg(long, value_name = "FUNCTION"))]
    pub reuse: Vec<String>,
    /// The function makes no requests.
    #[cfg_attr(feature = "clap", arg(long, value_name = "FUNCTION"))]
    pub drop: Vec<String>,
    /// The function's blocks come from chunks that are freed together [default chunk: 64k].
    #[cfg_attr(feature = "clap", arg(long, value_name = "FUNCTION[=CHUNK]"))]
    pub arena: Vec<String>,
    /// Requests through this function stay as they are, whatever the other options change.
    #[cfg_attr(feature = "clap", arg(long, value_name = "FUNCTION"))]
    pub except: Vec<String>,
}

impl RuleOptions {
    /// The rules, in the order of the options.
    ///
    /// # Errors
    /// One is not written as its option expects.
    pub fn rules(&self) -> Result<Vec<Rule>, WhatIfError> {
        type Read = fn(&str) -> Result<Rule, WhatIfError>;
        let written: [(&'static str, &[String], Read); 6] = [
            ("size", &self.size, Rule::size),
            ("grow", &self.grow, Rule::grow),
            ("cap", &self.cap, Rule::cap),
            ("reuse", &self.reuse, Rule::reuse),
            ("drop", &self.drop, Rule::dropped),
            ("arena", &self.arena, Rule::arena),
        ];
        let each = written.into_iter().flat_map(|(flag, texts, read)| {
            texts.iter().map(move |text| {
                read(text).map_err(|error| WhatIfError::Option { flag, reason: error.into() })
            })
        });
        let rules: Result<Vec<Rule>, WhatIfError> = each.collect();
        Ok(self.excepted(rules?))
    }

    /// Rules that leave the requests through the functions of `except` as they are.
    pub fn excepted(&self, rules: Vec<Rule>) -> Vec<Rule> {
        let except = |rule| Rule { except: self.except.clone(), ..rule };
        rules.into_iter().map(except).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_that_is_written_wrongly_is_named() {
        let options = RuleOptions {
            drop: vec!["log_line".into()],
            grow: vec!["read_line=1x".into()],
            ..RuleOptions::default()
        };
        let error = options.rules().unwrap_err().to_string();
        assert!(error.starts_with("--grow: \"read_line=1x\": expected"), "{error}");
        let rules = RuleOptions { grow: Vec::new(), ..options }.rules().unwrap();
        assert_eq!(rules.len(), 1);
    }
}
