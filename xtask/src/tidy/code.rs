//! Source text with comments and literals blanked out, so that a rule can look for words and braces
//! without a parser.
//!
//! The scan knows only the constructs that can hide a brace: comments (nested in Rust), strings,
//! raw strings, and character literals. The closing quote distinguishes a literal from a lifetime.

/// The text of a file, character for character; comments and the insides of literals are blank.
#[derive(Debug)]
pub struct Code {
    lines: Vec<String>,
}

impl Code {
    /// Blanks the comments and literals of Rust.
    pub fn of_rust(text: &str) -> Code {
        Code::scan(text, true)
    }

    /// Blanks the comments and literals of C.
    pub fn of_c(text: &str) -> Code {
        Code::scan(text, false)
    }

    /// The lines, the first at 0.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// The line (from 0) of the brace that closes the first block opened at `line` or after it;
    /// `None`: a `;` comes first, or the block never closes.
    pub fn end_of_block(&self, line: usize, column: usize) -> Option<usize> {
        let mut depth = 0usize;
        let mut parentheses = 0usize;
        for (number, text) in self.lines.iter().enumerate().skip(line) {
            let from = if number == line { column } else { 0 };
            for character in text.chars().skip(from) {
                match character {
                    '{' => depth += 1,
                    '}' if depth <= 1 => return (depth == 1).then_some(number),
                    '}' => depth -= 1,
                    '(' | '[' => parentheses += 1,
                    ')' | ']' => parentheses = parentheses.saturating_sub(1),
                    ';' if depth == 0 && parentheses == 0 => return None,
                    _ => {}
                }
            }
        }
        None
    }

    fn scan(text: &str, rust: bool) -> Code {
        let characters: Vec<char> = text.chars().collect();
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        while at < characters.len() {
            let end = hidden_end(&characters, at, rust).unwrap_or(at + 1).min(characters.len());
            let hidden = end > at + 1;
            out.extend(
                characters[at..end]
                    .iter()
                    .map(|character| if hidden && *character != '\n' { ' ' } else { *character }),
            );
            at = end;
        }
        Code { lines: out.split('\n').map(str::to_owned).collect() }
    }
}

/// The end of the comment or literal that begins at `at`; `None`: none begins there.
fn hidden_end(characters: &[char], at: usize, rust: bool) -> Option<usize> {
    let next = characters.get(at + 1).copied();
    let in_word = at > 0 && (characters[at - 1].is_alphanumeric() || characters[at - 1] == '_');
    match characters[at] {
        '/' if next == Some('/') => Some(find(characters, at, |rest| rest[0] == '\n')),
        '/' if next == Some('*') => Some(comment_end(characters, at, rust)),
        '"' => Some(quoted_end(characters, at, '"')),
        'r' if rust && (!in_word || characters[at - 1] == 'b') => raw_string_end(characters, at),
        '\'' if !rust => Some(quoted_end(characters, at, '\'')),
        // 'a' and '\n' are characters, 'a is a lifetime.
        '\'' if next == Some('\\') => Some(quoted_end(characters, at, '\'')),
        '\'' if characters.get(at + 2) == Some(&'\'') => Some(at + 3),
        _ => None,
    }
}

fn find(characters: &[char], from: usize, stop: impl Fn(&[char]) -> bool) -> usize {
    (from..characters.len()).find(|at| stop(&characters[*at..])).unwrap_or(characters.len())
}

fn comment_end(characters: &[char], at: usize, nested: bool) -> usize {
    let mut depth = 1;
    let mut at = at + 2;
    while at < characters.len() && depth > 0 {
        match characters[at..] {
            ['*', '/', ..] => depth -= 1,
            ['/', '*', ..] if nested => depth += 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
    }
    at
}

fn quoted_end(characters: &[char], at: usize, quote: char) -> usize {
    let mut at = at + 1;
    while at < characters.len() && characters[at] != quote {
        at += if characters[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

fn raw_string_end(characters: &[char], at: usize) -> Option<usize> {
    let hashes = characters[at + 1..].iter().take_while(|character| **character == '#').count();
    if characters.get(at + 1 + hashes) != Some(&'"') {
        return None;
    }
    let closed = |rest: &[char]| {
        rest[0] == '"'
            && rest.len() > hashes
            && rest[1..=hashes].iter().all(|character| *character == '#')
    };
    Some(find(characters, at + 2 + hashes, closed) + 1 + hashes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked() {
        let text = "a { // }\n/* { /* } */ { */ b \"}\\\"}\" 'x' '\\'' r#\"}\"#  c<'a> '{'\nd }";
        let code = Code::of_rust(text);
        assert_eq!(code.lines()[0].trim_end(), "a {");
        assert_eq!(code.lines()[1].split_whitespace().collect::<Vec<_>>(), ["b", "c<'a>"]);
        assert_eq!(code.end_of_block(0, 0), Some(2));
        assert_eq!(
            code.lines()[1].len(),
            text.lines().nth(1).unwrap().len(),
            "columns stay where they were"
        );
    }

    #[test]
    fn c_strings_and_characters_are_blanked() {
        let code = Code::of_c("int f(void) {\n  return '{' + \"{\"[0]; /* { */\n}\n");
        assert_eq!(code.end_of_block(0, 0), Some(2));
    }

    #[test]
    fn a_declaration_has_no_block() {
        assert_eq!(Code::of_rust("fn f(a: [u8; 3]);\nfn g() {}\n").end_of_block(0, 0), None);
        assert_eq!(Code::of_rust("fn f(a: [u8; 3]) {\n}\n").end_of_block(0, 0), Some(1));
        assert_eq!(Code::of_rust("fn f() {").end_of_block(0, 0), None);
    }
}
