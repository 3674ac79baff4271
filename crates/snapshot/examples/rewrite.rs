//! Rewrites a snapshot: `rewrite WHAT IN OUT`. WHAT is `validate`, `redact`, `ladder:K`, or a
//! target of `convert` (`same`, `lines`, `compact`, `node12`, ...).

use heaplab_snapshot::rewrite::{
    Identifiers, Keep, Key, Redaction, Target, convert, ladder, redact,
};
use heaplab_snapshot::rows::Rows;
use heaplab_snapshot::validate::validate;
use std::error::Error;
use std::fs::{self, File};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [what, from, to] = words.as_slice() else { return Err("rewrite WHAT IN OUT".into()) };
    let bytes = fs::read(from)?;
    let mut quiet = |_, _| ();
    if what == "validate" {
        println!("{:#?}", validate(&bytes, &mut quiet));
        return Ok(());
    }
    let rows = Rows::find(&bytes)?;
    if let Some((_, target)) = Target::ALL.into_iter().find(|(name, _)| name == what) {
        println!("{:?}", convert(&rows, target, File::create(to)?, &mut quiet)?.1);
    } else if let Some(copies) = what.strip_prefix("ladder:") {
        println!("{:?}", ladder(&rows, copies.parse()?, File::create(to)?, &mut quiet)?.1);
    } else {
        // A fixed key: files of one developer are to be comparable.
        let redaction = Redaction {
            keep: Keep::default(),
            identifiers: Identifiers::own(),
            key: Key::new([1; 32]),
        };
        println!("{:?}", redact(&rows, redaction, File::create(to)?, &mut quiet)?.1);
    }
    Ok(())
}
