//! `jdk11_log LOG REPORT` prints the recording of JDK 11's log and the program's report; on
//! standard error it compares this crate's metaspace with the JVM.
//! `studies/elastic-metaspace/churn/record-jdk11` shows how to record.

use heaplab_metaspace::old::{jvm_log, recording};
use std::io::Write;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files: Vec<String> = std::env::args().skip(1).collect();
    let [log, report] = files.as_slice() else { return Err("usage: jdk11_log LOG REPORT".into()) };
    let converted =
        jvm_log::convert(&std::fs::read_to_string(log)?, &std::fs::read_to_string(report)?)?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    writeln!(out, "{}", recording::HEADER)?;
    for event in &converted.events {
        writeln!(out, "{event}")?;
    }
    out.flush()?;
    eprintln!("{} chunks, the arena of {} of them guessed", converted.chunks, converted.guessed);
    let (_, comparison) = recording::replay(&converted.events)?;
    eprintln!(
        "{} of {} chunks lie where they lay in the JVM",
        comparison.chunks_equal, comparison.chunks
    );
    eprintln!(
        "{} of {} requests that a free block served got the same block",
        comparison.blocks_equal, comparison.blocks
    );
    eprintln!("{} nodes unmapped, {} here", comparison.unmapped, comparison.unmapped_here);
    if let Some(difference) = &comparison.first_difference {
        eprintln!("first difference: {difference}");
    }
    for moment in &comparison.moments {
        let said = &moment.said;
        eprintln!(
            "{} {}: committed {} in the JVM, {} here; class {} and {}; used {} and {}",
            said.step,
            said.cycle,
            said.committed_bytes,
            moment.ours.committed_bytes(),
            said.class_committed_bytes,
            moment.ours.class.committed_bytes,
            said.used_bytes,
            moment.ours.used_bytes()
        );
    }
    Ok(())
}
