//! One run of one commit, as a file of the store has it (docs/track.md).

use heaplab_experiment::results::Machine;
use serde::{Deserialize, Serialize};

/// The first field of a run's file.
pub const FORMAT: &str = "heaplab-track-run";
/// The version written, and the newest read.
pub const VERSION: u32 = 1;

/// A commit of the project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// Its whole name, in hexadecimal.
    pub id: String,
    /// The first line of its message.
    pub subject: String,
    /// Seconds since 1970 UTC.
    pub committed_unix_s: i64,
    /// The commit's place in the history: the number of commits up to it, itself included, always
    /// by the first parent, for any measured range.
    pub place: u64,
}

impl Commit {
    /// As many letters of the name as a person needs.
    pub fn short(&self) -> &str {
        self.id.get(..9).unwrap_or(&self.id)
    }
}

/// A run, or why it failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// The measured commit.
    pub commit: Commit,
    /// Which repetition, from 1.
    pub repetition: u32,
    /// Where.
    pub machine: Machine,
    /// When the run began, in seconds since 1970 UTC.
    pub began_unix_s: u64,
    /// The result.
    pub outcome: Outcome,
}

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was measured.
    Measured(Figures),
    /// It was not, and stays a gap.
    Failed(Failure),
}

/// The memory of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// The executable's file name of the process looked at.
    pub program: String,
    /// The named moments in their order; then "peak" and "end".
    pub phases: Vec<Phase>,
    /// Objects born over the run.
    pub allocations: u64,
    /// Bytes asked for over the run.
    pub requested_bytes: u64,
    /// Most resident bytes; `None`: not sampled.
    pub resident_peak_bytes: Option<u64>,
}

/// A named moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// "loaded"; of a second mark of this name "loaded#2".
    pub name: String,
    /// Requested bytes of the live objects.
    pub live_bytes: u64,
    /// The live objects.
    pub objects: u64,
    /// Resident bytes in the last sample before; `None`: no sample within [`SAMPLE_NS_MAX`].
    pub resident_bytes: Option<u64>,
}

/// An older sample does not describe the moment.
pub const SAMPLE_NS_MAX: u64 = 200_000_000;

/// Why a commit was not measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Where it ended.
    pub stage: Stage,
    /// In words, one line.
    pub reason: String,
    /// The last lines that the command wrote.
    pub output: String,
}

/// The parts of a measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The build command.
    #[default]
    Build,
    /// The command that is measured.
    Command,
    /// Recording it, or reading the recording.
    Recording,
}

impl Stage {
    /// As a sentence begins.
    pub fn text(self) -> &'static str {
        match self {
            Stage::Build => "the build",
            Stage::Command => "the command",
            Stage::Recording => "the recording",
        }
    }
}

impl Run {
    /// A run of today's format.
    pub fn new(commit: Commit, repetition: u32, machine: Machine, outcome: Outcome) -> Run {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Run {
            format: FORMAT.into(),
            version: VERSION,
            commit,
            repetition,
            machine,
            began_unix_s: now.map_or(0, |now| now.as_secs()),
            outcome,
        }
    }

    /// The figures, where there are any.
    pub fn figures(&self) -> Option<&Figures> {
        match &self.outcome {
            Outcome::Measured(figures) => Some(figures),
            Outcome::Failed(_) => None,
        }
    }
}
