//! A file beyond 4 GB through the command line, as a user opens it: `heaplab snapshot summary
//! --json` as a process on a ladder file, whose totals must be those of one copy so many times,
//! class by class.

use super::ladder;
use crate::measure;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Seek};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// A ladder's rows are that much longer than the original's at most: its numbers have more digits.
const GROWTH_PERCENT: u64 = 130;

/// Writes the ladder, asks `program` about both files, compares, and says what that took. Without
/// room on the disk it says so and does nothing.
pub fn run(program: &Path, file: &Path, to: &Path, copies: u32) -> Result<()> {
    let needed_bytes = file.metadata()?.len() * u64::from(copies) * GROWTH_PERCENT / 100;
    let folder =
        to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let free_bytes = free_bytes(folder)?;
    if free_bytes < needed_bytes {
        println!(
            "skipped: {copies} copies need {needed_bytes} bytes in {}, and {free_bytes} are free",
            folder.display()
        );
        return Ok(());
    }
    let (one, _) = summary(program, file)?;
    let asked = ladder::write_unchecked(file, to, copies).and_then(|()| {
        println!(
            "{}: {} bytes, {copies} copies of {}",
            to.display(),
            to.metadata()?.len(),
            file.display()
        );
        summary(program, to)
    });
    std::fs::remove_file(to).ok();
    let (many, used) = asked?;
    let classes = compare(&one, &many, copies.into())?;
    println!(
        "{} nodes, {} edges and {classes} classes have {copies} times the figures of one copy",
        many["nodes"], many["edges"]
    );
    println!("{used}");
    Ok(())
}

fn free_bytes(folder: &Path) -> Result<u64> {
    let output =
        Command::new("df").args(["--output=avail", "-B1"]).arg(folder).output().context("df")?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines()
        .nth(1)
        .and_then(|line| line.trim().parse().ok())
        .with_context(|| format!("df says {text:?}"))
}

/// What `heaplab snapshot summary` answers, and what it took.
fn summary(program: &Path, file: &Path) -> Result<(Value, String)> {
    let mut answer: File = tempfile::tempfile()?;
    let mut command = Command::new(program);
    command
        .args(["snapshot", "summary", "--json", "--top", "0"])
        .arg(file)
        .stdout(Stdio::from(answer.try_clone()?));
    let from = Instant::now();
    let used = measure::run(&mut command)?;
    let took = format!(
        "heaplab snapshot summary: {:.1} s, {:.1} s of processors, {:.0} MB resident at most, the mapped file among them",
        from.elapsed().as_secs_f64(),
        used.cpu_s,
        used.resident_kib as f64 * 1024.0 / 1e6
    );
    answer.rewind()?;
    Ok((serde_json::from_reader(BufReader::new(answer))?, took))
}

/// Checks every figure; the result is the number of classes. The root is not copied.
fn compare(one: &Value, many: &Value, copies: u64) -> Result<usize> {
    let figure = |of: &Value, name: &str| {
        of[name].as_u64().with_context(|| format!("a summary without {name}"))
    };
    ensure!(
        figure(many, "nodes")? == 1 + copies * (figure(one, "nodes")? - 1),
        "nodes: {} of {}",
        many["nodes"],
        one["nodes"]
    );
    ensure!(
        figure(many, "edges")? == copies * figure(one, "edges")?,
        "edges: {} of {}",
        many["edges"],
        one["edges"]
    );
    let classes = |of: &Value| -> Result<HashMap<String, [u64; 4]>> {
        let list = of["classes"].as_array().context("a summary without classes")?;
        let row = |class: &Value| -> Result<(String, [u64; 4])> {
            let figures = [
                figure(class, "count")?,
                figure(class, "shallow_bytes")?,
                figure(class, "retained_bytes")?,
                figure(class, "distance")?,
            ];
            Ok((class["key"].to_string(), figures))
        };
        list.iter().map(row).collect()
    };
    let (one, many) = (classes(one)?, classes(many)?);
    ensure!(one.len() == many.len(), "{} classes became {}", one.len(), many.len());
    for (key, [count, shallow, retained, distance]) in &one {
        let expected = [copies * count, copies * shallow, copies * retained, *distance];
        ensure!(
            many.get(key) == Some(&expected),
            "{key}: expected {expected:?}, found {:?}",
            many.get(key)
        );
    }
    Ok(one.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn answer(nodes: u64, retained_bytes: u64) -> Value {
        let class = json!({"key": ",A", "count": nodes - 1, "shallow_bytes": 8 * (nodes - 1), "retained_bytes": retained_bytes, "distance": 1});
        json!({"nodes": nodes, "edges": nodes - 1, "total_bytes": 8 * (nodes - 1), "classes": [class]})
    }

    #[test]
    fn a_figure_that_is_not_so_many_times_that_of_one_is_an_error() {
        assert_eq!(compare(&answer(3, 16), &answer(21, 160), 10).unwrap(), 1);
        assert!(
            compare(&answer(3, 16), &answer(22, 160), 10)
                .unwrap_err()
                .to_string()
                .contains("nodes: 22 of 3")
        );
        assert!(
            compare(&answer(3, 16), &answer(21, 161), 10)
                .unwrap_err()
                .to_string()
                .contains("expected [20, 160, 160, 1], found Some([20, 160, 161, 1])")
        );
    }
}
