//! `heaplab snapshot check`: assertions about a heap, for CI.

use super::expression::{Expression, Misread, Tokens, Value};
use super::file::{self, Reading};
use super::pattern::{Pattern, of_classes, retained_by_all, suggestion};
use super::table::number;
use crate::signals::bus;
use crate::terminal;
use anyhow::{Result, ensure};
use heaplab_findings::words::bytes;
use heaplab_snapshot::analysis::Analysis;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  heaplab snapshot check a.heapsnapshot --assert 'retained(\"Detached *\") < 1MB'
  heaplab snapshot check a.heapsnapshot --assert 'count(Session) <= 10' \\
      --assert 'total() < 200MB'
  heaplab snapshot check a.heapsnapshot \\
      --assert 'shallow(\"(string)\") / total() < 0.5'
  heaplab snapshot check b.heapsnapshot --since a.heapsnapshot \\
      --assert 'grew(Session) < 10'

count(CLASS)      objects of the class; * in its name stands for any text
shallow(CLASS)    their own bytes
retained(CLASS)   bytes that would go with all of them
distance(CLASS)   references from a root to the nearest
grew(CLASS)       objects more than in the file of --since (counts are compared:
                  any two snapshots of the program will do)
total()           all bytes;  nodes(), edges(): all objects, all references

Units are B, kB, MB, GB (powers of 1000) and KiB, MiB, GiB (of 1024);
+ - * / and or not ( ) as usual.

Exit code: 0 where all assertions hold, 1 where one does not, 2 where they
could not be checked. A class that no object is of is noted; --strict: exit
code 1, since a name that was mistyped holds for ever.";

/// Functions with a class, and without.
const OF_CLASS: [&str; 5] = ["count", "shallow", "retained", "distance", "grew"];
const OF_HEAP: [&str; 3] = ["total", "nodes", "edges"];

/// Arguments of `heaplab snapshot check`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The snapshot
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// What has to hold (may be repeated)
    #[arg(long = "assert", value_name = "ASSERTION", required = true)]
    assertions: Vec<String>,
    /// An older snapshot, for grew(CLASS)
    #[arg(long, value_name = "OLDER")]
    since: Option<PathBuf>,
    /// Fail where a class is named that no object is of
    #[arg(long)]
    strict: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reading: Reading,
}

/// One value that an assertion asked for.
struct Asked {
    call: String,
    value: f64,
    is_bytes: bool,
}

impl Asked {
    fn shown(&self) -> String {
        let whole = self.value as u64;
        if self.is_bytes {
            format!("{} ({} bytes)", bytes(whole), number(whole))
        } else if self.value.is_infinite() {
            "infinite: there is no such object".into()
        } else if self.value < 0.0 && self.call.starts_with("grew") {
            format!("{}", self.value)
        } else if self.value < 0.0 {
            format!("{}: nothing leads there", self.value)
        } else {
            number(whole)
        }
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    bus::exits_with(2);
    let read: Result<Vec<Expression>, Misread> =
        args.assertions.iter().map(|text| assertion(text)).collect();
    let expressions = match read {
        Ok(expressions) => expressions,
        Err(misread) => {
            eprintln!("heaplab snapshot check: {misread}");
            return Ok(ExitCode::from(2));
        }
    };
    let mut unknown: Vec<(String, String)> = Vec::new();
    let checked = before(&args, &expressions).and_then(|before| {
        file::analysed(&args.file, &args.reading, |analysis| {
            for class in classes_of(&expressions) {
                let pattern = Pattern::new(class.clone());
                if !pattern.classes(analysis).contains(&true)
                    && before.get(&class).is_none_or(|count| *count == 0)
                {
                    let near = suggestion(analysis, &pattern);
                    unknown.push((class, near));
                }
            }
            args.assertions
                .iter()
                .zip(&expressions)
                .map(|(text, expression)| check(analysis, &before, text, expression))
                .collect::<Result<Vec<_>>>()
        })
    });
    let checked = match checked {
        Ok(checked) => checked,
        Err(error) => {
            eprintln!("heaplab snapshot check: {error:#}");
            return Ok(ExitCode::from(2));
        }
    };
    let failed = checked.iter().filter(|(holds, _)| !holds).count();
    for (class, near) in &unknown {
        eprintln!("heaplab snapshot check: note: no object is of a class {class:?}{near}");
    }
    if args.json {
        let rows: Vec<_> = args
            .assertions
            .iter()
            .zip(&checked)
            .map(|(text, (holds, asked))| {
                let values: Vec<_> = asked
                    .iter()
                    .map(|asked| json!({"call": asked.call, "value": asked.value}))
                    .collect();
                json!({"assertion": text, "holds": holds, "values": values})
            })
            .collect();
        let answer = json!({"format": "heaplab-snapshot-check", "version": 1, "failed": failed, "assertions": rows,
            "unknown_classes": unknown.iter().map(|(class, _)| class).collect::<Vec<_>>()});
        println!("{}", serde_json::to_string(&answer)?)?;
    } else {
        for (text, (holds, asked)) in args.assertions.iter().zip(&checked) {
            let holds = if *holds { "holds   " } else { "FAILED  " };
            print!("{}", terminal::paragraph(text, holds, holds.len(), terminal::columns()))?;
            for each in asked {
                println!("        {} is {}", each.call, each.shown())?;
            }
        }
    }
    Ok(ExitCode::from(u8::from(failed > 0 || (args.strict && !unknown.is_empty()))))
}

/// The classes that are named.
fn classes_of(expressions: &[Expression]) -> BTreeSet<String> {
    let mut classes = BTreeSet::new();
    for expression in expressions {
        expression.names(&mut |_, argument, _| {
            classes.extend(argument.filter(|class| !class.is_empty()).map(str::to_owned))
        });
    }
    classes
}

/// Objects of each class in the older snapshot.
fn before(args: &Args, expressions: &[Expression]) -> Result<BTreeMap<String, usize>> {
    let mut asks = false;
    expressions
        .iter()
        .for_each(|expression| expression.names(&mut |name, _, _| asks |= name == "grew"));
    let Some(older) = &args.since else {
        ensure!(!asks, "grew(...) needs an older snapshot: --since before.heapsnapshot");
        return Ok(BTreeMap::new());
    };
    file::analysed(older, &args.reading, |analysis| {
        let count = |class: &String| {
            of_classes(analysis, &Pattern::new(class.clone()).classes(analysis)).len()
        };
        Ok(classes_of(expressions)
            .into_iter()
            .map(|class| (class.clone(), count(&class)))
            .collect())
    })
}

/// Reads an assertion and checks that every name in it is known, and that it compares numbers: a
/// text beside a number would make it hold or fail whatever the heap is.
fn assertion(text: &str) -> Result<Expression, Misread> {
    let expression = Expression::read(text)?;
    let mut wrong = None;
    expression.names(&mut |name, argument, place| {
        let why = match argument {
            Some("") if OF_CLASS.contains(&name) => {
                format!("{name} needs a class, such as {name}(Session)")
            }
            Some("") if OF_HEAP.contains(&name) => return,
            Some(class) if !class.is_empty() && OF_CLASS.contains(&name) => return,
            Some(_) if OF_HEAP.contains(&name) => format!("{name} is of the whole heap: {name}()"),
            None if OF_CLASS.contains(&name) => {
                format!("{name} needs a class, such as {name}(Session)")
            }
            None if OF_HEAP.contains(&name) => format!("write {name}()"),
            _ => format!(
                "{name} is not known; there are {}, {}",
                OF_CLASS.join(", "),
                OF_HEAP.join(", ")
            ),
        };
        wrong.get_or_insert((why, place));
    });
    if let Some(stray) = expression.text() {
        let place = [format!("\"{stray}\""), format!("'{stray}'")]
            .iter()
            .find_map(|quoted| text.find(quoted))
            .unwrap_or(0);
        let why = format!(
            "there is no text to compare with; a class stands in a function, such as count({stray:?})"
        );
        wrong.get_or_insert((why, place));
    }
    match wrong {
        Some((why, place)) => Err(Tokens::of(text)?.misread_at(place, why)),
        None => Ok(expression),
    }
}

/// Whether it holds, and the values that it asked for.
fn check(
    analysis: &Analysis,
    before: &BTreeMap<String, usize>,
    text: &str,
    expression: &Expression,
) -> Result<(bool, Vec<Asked>)> {
    let mut asked: Vec<Asked> = Vec::new();
    let mut ask = |name: &str, argument: Option<&str>| {
        let class = argument.unwrap_or_default();
        let call =
            if class.is_empty() { format!("{name}()") } else { format!("{name}({class:?})") };
        if let Some(known) = asked.iter().find(|asked| asked.call == call) {
            return Value::Number(known.value);
        }
        let value = value(analysis, before, name, class);
        asked.push(Asked {
            call,
            value,
            is_bytes: matches!(name, "shallow" | "retained" | "total"),
        });
        Value::Number(value)
    };
    ensure!(
        !expression.divides_by_zero(&mut ask),
        "{text}: something is divided by zero, which is neither more nor less than anything"
    );
    let holds = expression.is_true(&mut ask);
    Ok((holds, asked))
}

fn value(analysis: &Analysis, before: &BTreeMap<String, usize>, name: &str, class: &str) -> f64 {
    let graph = &analysis.snapshot().graph;
    let chosen = || of_classes(analysis, &Pattern::new(class).classes(analysis));
    match name {
        "count" => chosen().len() as f64,
        "grew" => chosen().len() as f64 - before.get(class).copied().unwrap_or(0) as f64,
        "shallow" => chosen().iter().map(|node| analysis.self_size(*node)).sum::<u64>() as f64,
        "retained" => retained_by_all(analysis, &chosen()) as f64,
        "distance" => chosen()
            .iter()
            .map(|node| analysis.distance(*node))
            .min()
            .map_or(f64::INFINITY, f64::from),
        "total" => analysis.total_bytes() as f64,
        "nodes" => graph.node_count() as f64,
        _ => graph.edge_count() as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_pointed_at() {
        let misread = |text: &str| assertion(text).unwrap_err().to_string();
        assert_eq!(
            misread("1 < cuont(Session)"),
            "cuont is not known; there are count, shallow, retained, distance, grew, total, nodes, edges\n  1 < cuont(Session)\n      ^"
        );
        assert!(
            misread("count() < 1").contains("needs a class")
                && misread("count < 1").contains("needs a class")
        );
        assert!(
            misread("total(Map) < 1").contains("whole heap")
                && misread("total < 1").contains("write total()")
        );
        assert!(assertion("count(Session) <= 10 and total() < 1GB").is_ok());
        assert!(
            misread("count(A) != 'many'").ends_with("\n  count(A) != 'many'\n              ^"),
            "it would always hold"
        );
        assert!(misread("not (\"A\" = \"B\")").contains("no text to compare with"));
    }

    #[test]
    fn distances_of_nothing_are_said_in_words() {
        let shown = |value| Asked { call: String::new(), value, is_bytes: false }.shown();
        assert_eq!(shown(3.0), "3");
        assert_eq!(shown(-5.0), "-5: nothing leads there");
        assert!(shown(f64::INFINITY).contains("no such object"));
    }
}
