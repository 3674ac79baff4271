//! A file beyond 4 GB through the command line, as a user opens it: `heaplab snapshot summary
//! --json` as a process on a ladder file. Its totals must be those of one copy times the number of
//! copies, class by class. Measures also the later questions, answered from the file's index.

use super::ladder;
use crate::measure;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Largest growth of a ladder's rows against the original's: its numbers have more digits.
const GROWTH_PERCENT: u64 = 130;

/// Writes the ladder, asks `program` about both files, compares, and prints the costs. Without room
/// on the disk it prints a line and does nothing.
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
    let (one, _) = summary(program, file, &[])?;
    let asked = ladder::write_unchecked(file, to, copies).and_then(|()| {
        println!(
            "{}: {} bytes, {copies} copies of {}",
            to.display(),
            to.metadata()?.len(),
            file.display()
        );
        let (many, used) = summary(program, to, &[])?;
        Ok((many, used, second_questions(program, to)?))
    });
    let index = index_of(to);
    std::fs::remove_file(to).ok();
    std::fs::remove_file(index).ok();
    let (many, used, later) = asked?;
    let classes = compare(&one, &many, copies.into())?;
    println!(
        "{} nodes, {} edges and {classes} classes have {copies} times the figures of one copy",
        many["nodes"], many["edges"]
    );
    println!("{used}");
    later.iter().for_each(|used| println!("{used}"));
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

fn index_of(file: &Path) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(".index");
    path.into()
}

/// The cost of a summary that keeps an index, and of the questions after it: the same summary, and
/// the ways to all arrays. The last line is the index's size.
fn second_questions(program: &Path, file: &Path) -> Result<Vec<String>> {
    let (first, kept) = summary(program, file, &["--index"])?;
    let (second, from_index) = summary(program, file, &["--index"])?;
    ensure!(first == second, "the index answers otherwise than the file");
    let mut ways = Command::new(program);
    ways.args(["snapshot", "path"]).arg(file).args(["Array", "--index"]).stdout(Stdio::null());
    let bytes = index_of(file).metadata()?.len();
    let nodes = first["nodes"].as_u64().context("a summary without nodes")?;
    let size = format!("index: {bytes} bytes, {:.1} an object", bytes as f64 / nodes as f64);
    Ok(vec![
        format!("{kept}, with its index written"),
        format!("{from_index}, from the index"),
        format!("{}, from the index", took("path", &mut ways)?),
        size,
    ])
}

/// The answer of `heaplab snapshot summary`, and its cost.
fn summary(program: &Path, file: &Path, more: &[&str]) -> Result<(Value, String)> {
    let mut answer: File = tempfile::tempfile()?;
    let mut command = Command::new(program);
    command
        .args(["snapshot", "summary", "--json", "--top", "0"])
        .arg(file)
        .args(more)
        .stdout(Stdio::from(answer.try_clone()?));
    let took = took("summary", &mut command)?;
    answer.rewind()?;
    Ok((serde_json::from_reader(BufReader::new(answer))?, took))
}

fn took(name: &str, command: &mut Command) -> Result<String> {
    let from = Instant::now();
    let used = measure::run(command)?;
    Ok(format!(
        "heaplab snapshot {name}: {:.1} s, {:.1} s of processors, {:.0} MB resident at most, the mapped files among them",
        from.elapsed().as_secs_f64(),
        used.cpu_s,
        used.resident_kib as f64 * 1024.0 / 1e6
    ))
}

/// Checks every figure; returns the number of classes. The root is not copied.
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
