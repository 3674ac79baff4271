//! What the commands about one object share: which object of which file, and how an answer begins.

use super::file::{self, Reading};
use super::pattern::Subject;
use super::rows::{heading, node_json};
use anyhow::Result;
use heaplab_snapshot::Node;
use heaplab_snapshot::analysis::Analysis;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::process::ExitCode;

/// One object of a file.
#[derive(Clone, Debug, clap::Args)]
pub struct OfObject {
    /// The snapshot
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// An object such as @4711, or the class whose largest object is meant
    #[arg(value_name = "OBJECT")]
    subject: Subject,
    /// Write JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reading: Reading,
}

/// What a command has to say of an object, behind what every one says.
pub trait Says {
    /// The members of the JSON.
    fn json(&self, analysis: &Analysis, node: Node) -> Map<String, Value>;
    /// The lines of the text.
    fn text(&self, analysis: &Analysis, node: Node) -> String;
}

impl OfObject {
    /// Finds the object and prints what there is to say of it, as `format` where JSON is asked for.
    pub fn answer(&self, format: &str, says: &impl Says) -> Result<ExitCode> {
        file::analysed(&self.file, &self.reading, |analysis| {
            let node = self.subject.node(analysis)?;
            if !self.json {
                return print!("{}{}", heading(analysis, node), says.text(analysis, node));
            }
            let mut answer = Map::from_iter([
                ("format".to_owned(), json!(format)),
                ("version".to_owned(), json!(1)),
                ("object".to_owned(), node_json(analysis, node)),
            ]);
            answer.extend(says.json(analysis, node));
            println!("{}", serde_json::to_string(&answer)?)
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
