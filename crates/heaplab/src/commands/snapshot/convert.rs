//! `heaplab snapshot convert`: the same heap in the columns of another writer.

use super::file::{self, Source};
use super::rewriting::{may_write, rewritten};
use crate::{output, terminal};
use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use heaplab_snapshot::rewrite::{Converted, Lost, Target, convert};
use heaplab_text::lines;
use heaplab_text::lines::cut;
use heaplab_text::words::count as number;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::process::ExitCode;

/// Characters of a name that is not known.
const TEXT_CHARACTERS: usize = 30;

/// Arguments of `heaplab snapshot convert`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  heaplab snapshot convert python.heapsnapshot --to node20 -o b.heapsnapshot
  # a row a line
  heaplab snapshot convert a.heapsnapshot --to lines -o - | grep ...
  heaplab snapshot convert a.heapsnapshot --to compact -o small.heapsnapshot

same: as it is, with every list, in DevTools' order, each string once.
Another writer may have no place for something. What is lost is counted on
standard error, and with --json in `lost`:
  to node12, node16  nodes of types `object shape` and `wasm object` are hidden
  to node24          `wasm object` too; DevTools counts what is hidden with what
                     alone refers to it, or in (system)
  to node12          which nodes are attached, detached: Detached <div> is <div>
  to node12 .. 20    bytes outside of the heap: the total is less by so many
  to node24          where nodes were allocated, if no function is named
  to any Node        Chromium's scopes, and the nodes of locations' scripts
  from node12        nodes that only their names call detached are so no more
  always             columns and lists that heaplab does not know
DevTools answers about the new file as about the old one without all that, and
nothing else changes: objects, ids, references, names, own bytes in the file.")]
pub struct Args {
    /// The snapshot
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Whose columns, or how many rows a line
    #[arg(long, value_name = "TARGET", value_parser = PossibleValuesParser::new(Target::ALL.map(|(name, _)| name)))]
    to: String,
    /// The file to write; - is standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Write what was done as JSON; not with -o -
    #[arg(long)]
    json: bool,
    /// Take a file in which objects have the same id: the first keeps it, the others get new ones,
    /// larger than any
    #[arg(long)]
    allow_duplicate_ids: bool,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    may_write(args.json, &args.file, &args.output)?;
    let source = Source::open(&args.file, args.quiet)?;
    let rows = source.rows(args.allow_duplicate_ids)?;
    let (_, target) =
        Target::ALL.into_iter().find(|(name, _)| *name == args.to).context("no such target")?;
    let bar = file::bar(args.quiet, "converting")?;
    let mut converted = None;
    output::write_private(&args.output, false, |out| {
        let (_, written) = convert(&rows, target, out, &mut |done, all| {
            bar.set_length(all);
            bar.set_position(done);
        })
        .map_err(|error| source.not_rewritten(error))?;
        converted = Some(written);
        Ok(())
    })?;
    bar.finish_and_clear();
    if let Some(Converted { written, lost }) = converted {
        rewritten(
            args.json,
            "heaplab-snapshot-convert",
            &args.output,
            &written,
            json!({"to": args.to, "lost": lost_json(&lost)}),
        )?;
        let losses = losses(&lost);
        if !losses.is_empty() {
            let text = format!(
                "not in the new file: {}. --help says what that changes",
                losses.join("; ")
            );
            eprintln!(
                "{}",
                lines::paragraph(&text, "heaplab: ", 2, terminal::columns()).trim_end()
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn lost_json(lost: &Lost) -> Value {
    let hidden: Map<String, Value> =
        lost.hidden.iter().map(|(name, count)| (name.clone(), json!(count))).collect();
    json!({
        "types": hidden, "attached": lost.attached, "detached": lost.detached, "detached_by_name": lost.detached_by_name,
        "allocated": lost.allocated, "scopes": lost.scopes, "scope_variables": lost.scope_variables, "scope_uses": lost.scope_uses,
        "script_objects": lost.script_objects, "extra_native_bytes": lost.extra_native_bytes, "unknown": lost.unknown,
    })
}

/// Names of unknown columns and lists that are shown.
const UNKNOWN_SHOWN: usize = 5;

/// What is lost, in words, a piece each.
fn losses(lost: &Lost) -> Vec<String> {
    let of_type = |(name, count): &(String, u64)| {
        (*count, format!("the type `{name}` of # node"), ", hidden there")
    };
    let counts = [
        (lost.attached, "the state `attached` of # node".into(), ""),
        (lost.detached, "the state `detached` of # node".into(), ""),
        (
            lost.detached_by_name,
            "the state `detached` of # native node".into(),
            " that only the name tells",
        ),
        (lost.allocated, "the place of allocation of # node".into(), ""),
        (lost.scopes, "# scope".into(), " of scripts"),
        (lost.scope_variables, "# variable".into(), " of scopes"),
        (lost.scope_uses, "# use".into(), " of variables"),
        (lost.script_objects, "the script's node of # location".into(), ""),
        (lost.extra_native_bytes, "# byte".into(), " outside of the heap"),
    ];
    let counts = lost.hidden.iter().map(of_type).chain(counts).filter(|(count, ..)| *count > 0);
    let mut losses: Vec<String> = counts
        .map(|(count, what, more)| {
            format!(
                "{}{}{more}",
                what.replace('#', &number(count)),
                if count == 1 { "" } else { "s" }
            )
        })
        .collect();
    if !lost.unknown.is_empty() {
        let shown: Vec<String> = lost
            .unknown
            .iter()
            .take(UNKNOWN_SHOWN)
            .map(|name| format!("`{}`", cut(name, TEXT_CHARACTERS)))
            .collect();
        let more = if lost.unknown.len() > shown.len() { ", ..." } else { "" };
        losses.push(format!(
            "what heaplab does not know: {}{more} ({})",
            shown.join(", "),
            number(lost.unknown.len() as u64)
        ));
    }
    losses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_loss_is_a_piece_with_its_count() {
        assert!(losses(&Lost::default()).is_empty());
        let lost = Lost {
            hidden: vec![("object shape".into(), 1234), ("wasm object".into(), 1)],
            detached: 1,
            scope_uses: 2,
            extra_native_bytes: 1,
            unknown: vec!["nodes.a\u{1b}".into(); 6],
            ..Lost::default()
        };
        let said = losses(&lost).join("; ");
        let expected = "the type `object shape` of 1,234 nodes, hidden there; the type `wasm object` of 1 node, hidden there; the state `detached` of 1 node; \
                        2 uses of variables; 1 byte outside of the heap; what heaplab does not know: ";
        assert!(
            said.starts_with(expected) && said.ends_with(", ... (6)") && !said.contains('\u{1b}'),
            "{said}"
        );
    }
}
