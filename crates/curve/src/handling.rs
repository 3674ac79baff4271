//! The exit statuses that count as success, the destination of a command's output (in hyperfine's
//! words), and the command's processors.

use serde::{Deserialize, Serialize};

/// Exit statuses other than 0 that count as success: `false` none, `true` all, or a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IgnoredStatuses {
    /// All of them, or none.
    All(bool),
    /// These.
    These(Vec<u8>),
}

impl Default for IgnoredStatuses {
    fn default() -> IgnoredStatuses {
        IgnoredStatuses::All(false)
    }
}

impl IgnoredStatuses {
    /// Parses `all-non-zero`, or statuses from 1 to 255 between commas.
    ///
    /// # Errors
    /// A sentence with the expected forms.
    pub fn parse(text: &str) -> Result<IgnoredStatuses, String> {
        if text == "all-non-zero" {
            return Ok(IgnoredStatuses::All(true));
        }
        let status = |part: &str| part.trim().parse().ok().filter(|status| *status != 0);
        let statuses: Option<Vec<u8>> = text.split(',').map(status).collect();
        statuses
            .map(IgnoredStatuses::These)
            .ok_or_else(|| "statuses from 1 to 255 such as 1,3, or all-non-zero".into())
    }

    /// Whether a run with this status counts as a success.
    pub fn accept(&self, status: i32) -> bool {
        match self {
            _ if status == 0 => true,
            IgnoredStatuses::All(all) => *all,
            IgnoredStatuses::These(these) => these.iter().any(|known| i32::from(*known) == status),
        }
    }
}

/// The destination of a command's standard output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// `/dev/null`; some programs notice it and write nothing at all.
    #[default]
    Null,
    /// A pipe whose content is thrown away.
    Pipe,
    /// Standard error of heaplab, together with the command's own standard error; results are on
    /// standard output.
    Inherit,
    /// A file, written anew by each run. Its name may contain `{compare}` and the varied `{NAME}`.
    File(String),
}

impl Output {
    /// Parses `null`, `pipe`, `inherit`, or a file. A file's name must contain a `.` or a `/`, so
    /// that a word added later never takes the name of a file.
    ///
    /// # Errors
    /// A sentence with the expected forms.
    pub fn parse(text: &str) -> Result<Output, String> {
        match text {
            "null" => Ok(Output::Null),
            "pipe" => Ok(Output::Pipe),
            "inherit" => Ok(Output::Inherit),
            file if file.contains(['.', '/']) => Ok(Output::File(file.into())),
            _ => Err("null, pipe, inherit, or a file (with a folder: ./out)".into()),
        }
    }
}

/// Processors that a command runs on; empty: all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores(pub Vec<u32>);

impl Cores {
    /// Parses `all`, or numbers and ranges between commas: `0,2-3`.
    ///
    /// # Errors
    /// A sentence with the expected forms.
    pub fn parse(text: &str) -> Result<Cores, String> {
        if text == "all" {
            return Ok(Cores(Vec::new()));
        }
        let mut cores = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            match (first.parse::<u32>(), last.parse::<u32>()) {
                (Ok(first), Ok(last)) if first <= last && last < 4096 => cores.extend(first..=last),
                _ => return Err("numbers of processors such as 0,2-3, or all".into()),
            }
        }
        Ok(Cores(cores))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_all_or_a_list() {
        assert_eq!(Cores::parse("0,2-3"), Ok(Cores(vec![0, 2, 3])));
        assert_eq!(Cores::parse("all"), Ok(Cores(Vec::new())));
        for wrong in ["", "3-2", "a", "5000"] {
            assert!(Cores::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn statuses_are_all_or_a_list() {
        let parsed = |text| IgnoredStatuses::parse(text).unwrap();
        let accepted = |ignored: IgnoredStatuses| {
            [0, 1, 3, 255].into_iter().filter(|status| ignored.accept(*status)).collect::<Vec<_>>()
        };
        assert_eq!(accepted(IgnoredStatuses::default()), [0]);
        assert_eq!(accepted(parsed("all-non-zero")), [0, 1, 3, 255]);
        assert_eq!(accepted(parsed("1, 255")), [0, 1, 255]);
        for wrong in ["", "0", "256", "-1", "1,", "all"] {
            assert!(IgnoredStatuses::parse(wrong).is_err(), "{wrong}");
        }
        let json = |ignored: &IgnoredStatuses| serde_json::to_string(ignored).unwrap();
        assert_eq!(json(&IgnoredStatuses::default()), "false");
        assert_eq!(json(&parsed("1,3")), "[1,3]");
        assert_eq!(serde_json::from_str::<IgnoredStatuses>("[1,3]").unwrap(), parsed("1,3"));
    }

    #[test]
    fn outputs_have_hyperfines_words() {
        assert_eq!(Output::parse("pipe"), Ok(Output::Pipe));
        assert_eq!(Output::parse("out.txt"), Ok(Output::File("out.txt".into())));
        assert!(Output::parse("nul").unwrap_err().contains("./out"));
    }
}
