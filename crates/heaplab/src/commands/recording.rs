//! The common part of `record` and `recover`: finishing a spool into a bundle, and the summary.

use anyhow::Result;
use heaplab_record::finish::unfinished::what_is_kept;
use heaplab_record::finish::{self, FinishOptions, Finished};
use heaplab_record::interrupts;
use heaplab_record::output;
use heaplab_record::summary::Summary;
use heaplab_terminal::progress;
use heaplab_text::shell::quoted;
use heaplab_trace::bundle::abandon;
use std::path::PathBuf;

/// Options of `record` and `recover` for the parts of a bundle.
#[derive(Debug, clap::Args)]
pub struct Contents {
    /// Do not look functions up (`heaplab symbolize` does it later)
    #[arg(long)]
    no_symbols: bool,
    /// Keep the address of every block (costs a tenth of a byte an event)
    #[arg(long)]
    addresses: bool,
}

impl Contents {
    /// The options of the library.
    pub fn options(&self) -> FinishOptions {
        FinishOptions {
            symbols: (!self.no_symbols).then(heaplab_symbols::Options::default),
            addresses: self.addresses,
            ..FinishOptions::default()
        }
    }
}

/// A spool to finish.
pub struct Finishing {
    /// The spool folder.
    pub spool: PathBuf,
    /// The bundle.
    pub output: PathBuf,
    /// The parts of the bundle.
    pub options: FinishOptions,
    /// Show no progress.
    pub quiet: bool,
    /// Leave the spool where it is.
    pub keep_spool: bool,
}

/// Finishes a spool; removes it once the bundle is there.
pub fn finish(finishing: &Finishing) -> Result<Finished> {
    let bar = progress::line(finishing.quiet, "{msg}");
    let finished = interrupts::watched(
        || {
            finish::finish(&finishing.spool, &finishing.output, &finishing.options, &mut |progress| {
                bar.set_message(progress.to_string());
            })
        },
        || {
            bar.finish_and_clear();
            if let Some(folder) = finishing.options.unfinished.get() {
                abandon(folder);
            }
            let spool = quoted(&finishing.spool);
            eprintln!(
                "heaplab: ended by a signal while finishing. What was recorded is kept in {spool}: `heaplab recover {spool}` finishes it"
            );
        },
    )
    .map_err(|error| match what_is_kept(&error, &finishing.spool, &finishing.output) {
        Some(sentence) => anyhow::Error::new(error).context(sentence),
        None => error.into(),
    })?;
    bar.finish_and_clear();
    if !finishing.keep_spool {
        output::discard_spool(&finishing.spool)?;
    }
    Ok(finished)
}

/// Prints the summary on standard error, because standard output is the program's.
pub fn report(summary: &Summary, json: bool) -> Result<()> {
    if json {
        eprintln!("{}", serde_json::to_string(&summary.json)?);
    } else {
        summary.lines.iter().for_each(|line| eprintln!("heaplab: {line}"));
    }
    Ok(())
}
