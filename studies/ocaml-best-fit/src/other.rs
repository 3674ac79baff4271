//! The method on other collectors: the same cache of strings in Go, on a JVM and in Node, one
//! command each.

use crate::{programs, real};
use anyhow::{Result, bail};
use heaplab_study::in_tree;
use serde_json::Value;
use std::process::Command;

/// Go, over `GOGC`.
pub fn go() -> Result<Option<String>> {
    let source = in_tree("studies/ocaml-best-fit/programs/strcache.go");
    let mut build = Command::new("go");
    build.args(["build", "-o", "strcache-go"]).arg(source);
    if !built(build)? {
        return Ok(None);
    }
    let words = words("./strcache-go 20000 400000");
    said("go", &["--vary", "GOGC=25..800x8", "--cores", "all"], &words)
}

/// A JVM, over its largest heap, with two collectors.
pub fn jvm() -> Result<Option<String>> {
    let source = in_tree("studies/ocaml-best-fit/programs/StrCache.java");
    let mut build = Command::new("javac");
    build.args(["-d", "."]).arg(source);
    if !built(build)? {
        return Ok(None);
    }
    let options = [
        "--vary",
        "JAVA_TOOL_OPTIONS=-Xmx{32..512x8}m",
        "--compare=-XX:+UseSerialGC,-XX:+UseParallelGC",
    ];
    said("jvm", &options, &words("java -cp . StrCache 20000 400000"))
}

/// Node, over the size of its young generation.
pub fn node() -> Result<Option<String>> {
    let source = in_tree("studies/ocaml-best-fit/programs/strcache.cjs");
    if Command::new("node").arg("--version").output().is_err() {
        return Ok(None);
    }
    let mut words = words("node SOURCE 20000 400000");
    words[1] = source.display().to_string();
    let options = ["--vary", "NODE_OPTIONS=--max-semi-space-size={1,2,4,8,16,32}"];
    said("node", &options, &words)
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// Whether the compiler is installed; its errors are errors.
fn built(mut build: Command) -> Result<bool> {
    let Ok(output) = build.current_dir(programs::folder()?).output() else { return Ok(false) };
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(true)
}

/// The conclusions of `heaplab curve`, and each variant's ends.
fn said(name: &str, options: &[&str], words: &[String]) -> Result<Option<String>> {
    let json = real::curve(name, options, words)?;
    let mut said = Vec::new();
    for variant in json["variants"].as_array().into_iter().flatten() {
        let points = variant["points"].as_array().map(Vec::as_slice).unwrap_or_default();
        let is_setting = |point: &&Value| point["time_s"].is_object() && point["value"].is_string();
        let ran: Vec<_> = points.iter().filter(is_setting).collect();
        let (Some(first), Some(last)) = (ran.first(), ran.last()) else { continue };
        let fits = if variant["curve"]["fits"] == true { "a curve" } else { "points only" };
        let name = variant["name"].as_str().filter(|name| !name.is_empty());
        let name = name.map(|name| format!("{name}: ")).unwrap_or_default();
        said.push(format!("{name}{} to {}, {fits}", end(first), end(last)));
    }
    if let Some(comparison) = json["comparisons"].get(0) {
        said.push(format!(
            "space at equal time {}, time at equal space {}",
            real::ratio(&comparison["space_at_equal_time"]),
            real::ratio(&comparison["time_at_equal_space"])
        ));
    }
    Ok(Some(said.join("; ")))
}

fn end(point: &Value) -> String {
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    format!(
        "{}: {:.2} s, {:.0} MiB",
        point["setting"].as_str().unwrap_or_default(),
        number(&point["time_s"]["value"]),
        number(&point["space_bytes"]["value"]) / 1_048_576.0
    )
}
