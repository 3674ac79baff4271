//! The common part of commands that write a snapshot anew.

use super::file::{self, Source};
use anyhow::{Result, ensure};
use heaplab_snapshot::rewrite::RewriteError;
use heaplab_snapshot::write::Written;
use heaplab_terminal::whole_file;
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Input and output.
#[derive(Debug, clap::Args)]
pub struct Rewriting {
    /// The snapshot
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The file to write; - is standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Print a summary as JSON; not with -o -
    #[arg(long)]
    pub json: bool,
}

/// The progress of a rewriting: bytes read, of all.
type Progress<'p> = &'p mut dyn FnMut(u64, u64);

impl Rewriting {
    /// Opens the snapshot, after [`Rewriting::check`].
    pub fn open(&self, quiet: bool) -> Result<Source> {
        self.check()?;
        Source::open(&self.file, quiet)
    }

    /// Refuses JSON on standard output together with the file, and an output that would replace
    /// the input.
    pub fn check(&self) -> Result<()> {
        ensure!(
            !self.json || self.output != Path::new("-"),
            "--json and -o - both write to standard output: name a file"
        );
        let output = self.output.canonicalize();
        let is_input =
            output.is_ok_and(|output| self.file.canonicalize().is_ok_and(|input| input == output));
        ensure!(
            !is_input,
            "{}: is the input, which the output would replace; name another file with -o",
            self.output.display()
        );
        Ok(())
    }

    /// Lets `rewrite` write the file, for its owner alone where `is_private`, behind a bar.
    pub fn write<T>(
        &self,
        source: &Source,
        (quiet, doing): (bool, &'static str),
        is_private: bool,
        rewrite: impl FnOnce(&mut dyn Write, Progress) -> Result<T, RewriteError>,
    ) -> Result<T> {
        let bar = file::bar(quiet, doing);
        let mut done = None;
        let fill = |out: &mut dyn Write| -> Result<()> {
            let progress: Progress = &mut |done, all| {
                bar.set_length(all);
                bar.set_position(done);
            };
            done = Some(rewrite(out, progress).map_err(|error| source.not_rewritten(error))?);
            Ok(())
        };
        if is_private {
            whole_file::write_private(&self.output, false, fill)?;
        } else {
            whole_file::write(&self.output, false, fill)?;
        }
        bar.finish_and_clear();
        Ok(done.expect("what is written was rewritten"))
    }

    /// Prints the summary for `--json`.
    pub fn tell(&self, format: &str, written: &Written, told: Value) -> Result<()> {
        if !self.json {
            return Ok(());
        }
        let mut answer = json!({
            "format": format, "version": 1, "file": self.output.to_string_lossy(),
            "bytes": written.bytes, "written_strings": written.strings,
        });
        if let (Value::Object(answer), Value::Object(told)) = (&mut answer, told) {
            answer.extend(told);
        }
        Ok(println!("{}", serde_json::to_string(&answer)?)?)
    }
}
