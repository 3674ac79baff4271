//! No word of a text, comment, template or regular expression is taken for an identifier: random
//! programs, and acorn (the copy in Node) for a judge.

use heaplab_snapshot::rewrite::Identifiers;
use serde_json::Value;
use std::collections::HashSet;
use std::io::Write;
use std::process::{Command, Stdio};

const PROGRAMS: usize = 3000;
/// Words that are looked for.
const WORDS: u64 = 24;
/// Prints, for each text of a list, its names and keywords, or null if it is not a program.
const JUDGE: &str = "
    const acorn = require('internal/deps/acorn/acorn/dist/acorn');
    const names = text => { const found = []; try { acorn.parse(text, {ecmaVersion: 2022, onToken: token => {
        if (token.type.label === 'name' || token.type.label === 'privateId' || token.type.keyword) found.push(token.value); }}); } catch { return null; } return found; };
    let all = ''; process.stdin.on('data', piece => all += piece).on('end', () => console.log(JSON.stringify(JSON.parse(all).map(names))));";

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn word(&mut self) -> String {
        format!("w{}", self.below(WORDS))
    }

    /// What stands in quotes: words, and what begins something elsewhere.
    fn text(&mut self) -> String {
        let pieces =
            ["/", "//", "/*", "*/", "}", "{", "(", ")", "<!--", "-->", " ", "\\\\", "=", "</"];
        (0..self.below(4))
            .map(|_| {
                if self.below(2) == 0 {
                    self.word() + " "
                } else {
                    pieces[self.below(14) as usize].into()
                }
            })
            .collect()
    }

    fn expression(&mut self, depth: u64) -> String {
        let choice = if depth == 0 { self.below(5) } else { self.below(19) };
        let mut inner = || self.expression(depth.saturating_sub(1));
        match choice {
            0 => self.word(),
            1 => format!("{}", self.below(100)),
            2 => format!("'{}`'", self.text()),
            3 => format!("\"{}'\"", self.text()),
            4 => format!("/[/{}']{}`/g", self.word(), self.word()),
            5 | 6 => format!("{} / {}", inner(), inner()),
            7 => format!("({})", inner()),
            8 => format!("{}({})", inner(), inner()),
            9 => format!("{{{}: {}}}", self.word(), self.expression(depth - 1)),
            10 => format!("function {}() {{{}}}", self.word(), self.statement(depth - 1)),
            11 => format!("({} => {{{}}})", self.word(), self.statement(depth - 1)),
            12 | 13 => {
                format!("`{}\n${{{}}}{}'`", self.text(), self.expression(depth - 1), self.text())
            }
            14 => format!("{}.if({}) / {}", self.word(), self.word(), self.word()),
            15 => format!("{}++ / {}", self.word(), self.expression(depth - 1)),
            16 => format!("[{}] /{}/ {}", inner(), inner(), inner()),
            17 => format!("typeof {}", inner()),
            _ => format!(
                "class {{ #a = {}; static {}() {{{}}} }}",
                self.expression(depth - 1),
                self.word(),
                self.statement(depth - 1)
            ),
        }
    }

    fn statement(&mut self, depth: u64) -> String {
        let less = depth.saturating_sub(1);
        match self.below(11) {
            0..=2 => format!("{};\n", self.expression(depth)),
            3 => format!("x = {}\n", self.expression(depth)),
            4 => format!("if ({}) {}", self.expression(less), self.statement(less)),
            5 => format!("{{{}}}{}", self.statement(less), self.statement(less)),
            6 => format!("// {}'`{}\n", self.text(), self.text()),
            7 => format!("/* {}'`\n{} */", self.word(), self.word()),
            8 => format!("a <!-- {}\n", self.text()),
            9 => format!("\n  --> {}\n", self.text()),
            _ => format!("label{}: {{}}{}", self.below(99), self.expression(less)),
        }
    }
}

/// Node's answers about the programs.
fn judged(programs: &[String]) -> Option<Vec<Option<HashSet<String>>>> {
    let judge = Command::new("node")
        .args(["--expose-internals", "-e", JUDGE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut judge) = judge else {
        heaplab_oracle::skip("node is not installed");
        return None;
    };
    judge
        .stdin
        .take()
        .unwrap()
        .write_all(serde_json::to_string(programs).unwrap().as_bytes())
        .unwrap();
    let answer: Vec<Value> =
        serde_json::from_slice(&judge.wait_with_output().unwrap().stdout).unwrap();
    let names = |each: &Value| {
        Some(each.as_array()?.iter().filter_map(|name| Some(name.as_str()?.to_owned())).collect())
    };
    Some(answer.iter().map(names).collect())
}

#[test]
fn what_acorn_does_not_call_a_name_is_none() {
    let mut random = Random(20_260_722);
    let programs: Vec<String> =
        (0..PROGRAMS).map(|_| (0..4).map(|_| random.statement(4)).collect()).collect();
    let Some(judged) = judged(&programs) else { return };
    let (mut kept, mut of, mut valid) = (0, 0, 0);
    for (program, names) in programs.iter().zip(judged) {
        let Some(names) = names else { continue };
        valid += 1;
        let mut identifiers = Identifiers::default();
        identifiers.add_source(program.as_bytes());
        for word in (0..WORDS).map(|word| format!("w{word}")) {
            let is_kept = identifiers.contains(word.as_bytes());
            assert!(!is_kept || names.contains(&word), "{word} is text in\n{program}");
            kept += usize::from(is_kept);
            of += usize::from(names.contains(&word));
        }
    }
    assert!(valid > PROGRAMS / 4, "{valid} programs are any");
    // Caution that keeps nothing would be of no use.
    assert!(kept * 4 > of, "{kept} of {of} names are kept");
    eprintln!("{valid} programs, {kept} of {of} names kept");
}
