//! What of a source text is an identifier: the words outside of quotes, comments, templates and
//! regular expressions.
//!
//! A text wrongly taken for an identifier would stay in a file that its owner gives away. So in
//! doubt nothing counts. Where only a parser could tell (a slash behind a `}` whose `{` may begin a
//! block or an object), and where something is not in the language (a quote that its line does not
//! close, JSX), the rest of the text is ignored. Source: ECMA-262 12 (lexical grammar) and B.1.1
//! (HTML-like comments), Python's "Lexical analysis". `tests/identifiers.rs` compares with acorn.

/// Why a text is not read to its end, or not counted at all.
pub(super) struct Doubt;

/// The context behind a closing bracket.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    /// `(`: behind its end comes a statement (`if (...)`), or an operator.
    Round { statement: bool },
    /// `{` of a block: behind its end comes a statement.
    Block,
    /// `{` of an object: behind its end comes an operator.
    Object,
    /// `{` of unknown kind.
    Unclear,
    /// `${` in a template.
    Template,
}

/// The meaning of a slash here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Slash {
    Division,
    Expression,
    Unclear,
}

/// The identifiers of a JavaScript or TypeScript text, or of a close dialect. Identifiers in
/// templates are left out. A text with JSX has none.
pub(super) fn javascript<'t>(text: &'t [u8], found: &mut Vec<&'t [u8]>) -> Result<(), Doubt> {
    let mut lexer = Lexer {
        text,
        at: 0,
        slash: Slash::Expression,
        open: Vec::new(),
        templates: 0,
        word: b"",
        before: 0,
        fresh_line: true,
        quoted: false,
    };
    if text.starts_with(b"#!") {
        lexer.at = line_end(text, 0);
    }
    while let Some(byte) = text.get(lexer.at) {
        if let Err(doubt) = lexer.token(*byte, found) {
            // Its text is between tags, anywhere.
            if text[lexer.at..].starts_with(b"</") {
                found.clear();
            }
            return Err(doubt);
        }
    }
    Ok(())
}

struct Lexer<'t> {
    text: &'t [u8],
    at: usize,
    slash: Slash,
    open: Vec<Open>,
    /// Of the open brackets those that are templates'.
    templates: usize,
    /// The token before, if that is a word that is no property's name.
    word: &'t [u8],
    /// The last byte of the token before.
    before: u8,
    /// Nothing but space and comments has come on this line.
    fresh_line: bool,
    /// The token before is a quoted text.
    quoted: bool,
}

impl<'t> Lexer<'t> {
    fn token(&mut self, byte: u8, found: &mut Vec<&'t [u8]>) -> Result<(), Doubt> {
        let rest = &self.text[self.at..];
        let quoted = std::mem::take(&mut self.quoted);
        match byte {
            b'\n' | b'\r' => {
                (self.fresh_line, self.quoted) = (true, quoted);
                self.at += 1;
                return Ok(());
            }
            byte if byte.is_ascii_whitespace() || byte == 11 => {
                (self.at, self.quoted) = (self.at + 1, quoted);
                return Ok(());
            }
            b'/' if rest.starts_with(b"//") => {
                self.quoted = quoted;
                return self.skip_line();
            }
            b'/' if rest.starts_with(b"/*") => {
                let length =
                    memchr::memmem::find(&rest[2..], b"*/").map_or(rest.len(), |length| length + 4);
                self.fresh_line |= rest[..length].contains(&b'\n');
                (self.at, self.quoted) = (self.at + length, quoted);
                return Ok(());
            }
            b'<' if rest.starts_with(b"<!--") => return self.skip_doubtful_line(),
            b'-' if self.fresh_line && rest.starts_with(b"-->") => {
                return self.skip_doubtful_line();
            }
            b'<' if rest.starts_with(b"</") => return Err(Doubt),
            // No language's expression: Python's and Java's blocks of text.
            b'"' | b'\'' if quoted => return Err(Doubt),
            b'"' | b'\'' => {
                self.at = after_quoted(self.text, self.at)?;
                self.operand(byte);
                self.quoted = true;
            }
            b'`' => {
                self.at += 1;
                self.template();
            }
            b'/' => match self.slash {
                Slash::Unclear => return Err(Doubt),
                Slash::Expression => {
                    self.at = after_expression(self.text, self.at)?;
                    self.operand(byte);
                }
                Slash::Division => self.operator(byte),
            },
            b'0'..=b'9' => {
                let number = |byte: &&u8| continues_identifier(**byte) || **byte == b'.';
                self.at += rest.iter().take_while(number).count();
                self.operand(byte);
            }
            byte if starts_identifier(byte) => self.word(found),
            b'\\' => return Err(Doubt),
            _ => self.punctuation(byte)?,
        }
        self.fresh_line = false;
        Ok(())
    }

    fn word(&mut self, found: &mut Vec<&'t [u8]>) {
        let rest = &self.text[self.at..];
        let word = &rest[..rest.iter().take_while(|byte| continues_identifier(**byte)).count()];
        if self.templates == 0 {
            found.push(word);
        }
        let is_property = matches!(self.before, b'.' | b'#');
        self.at += word.len();
        self.operand(b'a');
        if !is_property {
            self.word = word;
            self.slash = match word {
                b"return" | b"typeof" | b"case" | b"in" | b"void" | b"delete" | b"do" | b"else"
                | b"instanceof" | b"new" | b"throw" => Slash::Expression,
                b"of" | b"yield" | b"await" | b"async" | b"let" | b"static" => Slash::Unclear,
                _ => Slash::Division,
            };
        }
    }

    fn punctuation(&mut self, byte: u8) -> Result<(), Doubt> {
        let rest = &self.text[self.at..];
        match byte {
            b'(' => {
                let statement = matches!(self.word, b"if" | b"while" | b"for" | b"with");
                self.open.push(Open::Round { statement });
                self.operator(byte);
            }
            b'{' => {
                let open = match (self.before, self.open.last()) {
                    (b'{', Some(Open::Template)) => Open::Object,
                    (b';' | b'{' | b'}', Some(Open::Round { .. })) => Open::Unclear,
                    (b';' | b'{' | b'}' | 0, _) => Open::Block,
                    // Of a statement, and not of a function that may be a value.
                    (b')', _) if self.slash == Slash::Expression => Open::Block,
                    (b'(' | b'[' | b',' | b'=' | b'?' | b'&' | b'|' | b'+', _) => Open::Object,
                    _ if matches!(self.word, b"else" | b"do" | b"try" | b"finally") => Open::Block,
                    _ if self.word == b"return" && !self.fresh_line => Open::Object,
                    _ => Open::Unclear,
                };
                self.open.push(open);
                self.operator(byte);
            }
            b')' | b'}' => {
                let open = self.open.pop();
                self.operator(byte);
                self.slash = match (byte, open) {
                    (b')', Some(Open::Round { statement })) => {
                        if statement {
                            Slash::Expression
                        } else {
                            Slash::Division
                        }
                    }
                    (b'}', Some(Open::Block)) => Slash::Expression,
                    (b'}', Some(Open::Object)) => Slash::Division,
                    (b'}', Some(Open::Unclear)) => Slash::Unclear,
                    (b'}', Some(Open::Template)) => {
                        self.templates -= 1;
                        self.template();
                        return Ok(());
                    }
                    _ => return Err(Doubt),
                };
            }
            b']' => {
                self.operator(byte);
                self.slash = Slash::Division;
            }
            // Behind an operand these belong to the operand.
            b'+' | b'-' if rest.get(1) == Some(&byte) => {
                let slash = self.slash;
                self.at += 1;
                self.operator(byte);
                self.slash = slash;
            }
            // Of TypeScript's, behind an operand.
            b'!' if self.slash == Slash::Division && rest.get(1) != Some(&b'=') => {
                self.operator(byte);
                self.slash = Slash::Unclear;
            }
            _ => self.operator(byte),
        }
        Ok(())
    }

    /// Reads a template's text, up to its end or to an expression in it.
    fn template(&mut self) {
        while let Some(byte) = self.text.get(self.at) {
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                b'`' => return self.operand(b'`'),
                b'$' if self.text.get(self.at) == Some(&b'{') => {
                    self.open.push(Open::Template);
                    self.templates += 1;
                    return self.operator(b'{');
                }
                _ => {}
            }
        }
        self.at = self.at.min(self.text.len());
    }

    /// Behind something that has a value; `at` stands there.
    fn operand(&mut self, last: u8) {
        (self.slash, self.word, self.before, self.fresh_line) = (Slash::Division, b"", last, false);
    }

    /// Over a byte of punctuation.
    fn operator(&mut self, byte: u8) {
        self.operand(byte);
        (self.at, self.slash) = (self.at + 1, Slash::Expression);
    }

    fn skip_line(&mut self) -> Result<(), Doubt> {
        let end = line_end(self.text, self.at);
        // U+2028 and U+2029 end a line too.
        if memchr::memmem::find(&self.text[self.at..end], b"\xe2\x80").is_some() {
            return Err(Doubt);
        }
        self.at = end;
        Ok(())
    }

    /// Skips a line that is a comment in a script and has an operator in a module. Gives up if
    /// something begins on it that may go on behind it.
    fn skip_doubtful_line(&mut self) -> Result<(), Doubt> {
        let line = &self.text[self.at..line_end(self.text, self.at)];
        let begins = line.iter().any(|byte| b"`{}()'\"\\".contains(byte))
            || memchr::memmem::find(line, b"/*").is_some();
        if begins { Err(Doubt) } else { self.skip_line() }
    }
}

/// The identifiers of a Python text.
pub(super) fn python<'t>(text: &'t [u8], found: &mut Vec<&'t [u8]>) -> Result<(), Doubt> {
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        let rest = &text[at..];
        match byte {
            b'#' => at = line_end(text, at),
            b'"' | b'\'' => at = after_python_quoted(text, at, false)?,
            byte if starts_identifier(*byte) => {
                let word =
                    &rest[..rest.iter().take_while(|byte| continues_identifier(**byte)).count()];
                at += word.len();
                match text.get(at) {
                    Some(b'"' | b'\'') if word.len() > 2 => return Err(Doubt),
                    Some(b'"' | b'\'') => {
                        at = after_python_quoted(
                            text,
                            at,
                            word.iter().any(|byte| b"fFtT".contains(byte)),
                        )?
                    }
                    _ => found.push(word),
                }
            }
            b'0'..=b'9' => {
                at += rest
                    .iter()
                    .take_while(|byte| continues_identifier(**byte) || **byte == b'.')
                    .count()
            }
            b'$' | b'?' | b'`' => return Err(Doubt),
            _ => at += 1,
        }
    }
    Ok(())
}

/// Behind a quoted text of Python. In a formatted one expressions may hold the same quotes, or
/// (before 3.12) must not.
fn after_python_quoted(text: &[u8], start: usize, formatted: bool) -> Result<usize, Doubt> {
    let quote = text[start];
    let triple = [quote; 3];
    let is_triple = text[start..].starts_with(&triple);
    let mut at = start + if is_triple { 3 } else { 1 };
    let mut depth = 0u32;
    while let Some(byte) = text.get(at) {
        match *byte {
            b'\\' => at += 1,
            b'\n' if !is_triple => return Err(Doubt),
            b'{' if formatted && text.get(at + 1) == Some(&b'{') && depth == 0 => at += 1,
            b'{' if formatted => depth += 1,
            b'}' if formatted => depth = depth.saturating_sub(1),
            byte if byte == quote && depth > 0 => return Err(Doubt),
            byte if byte == quote && !is_triple => return Ok(at + 1),
            _ if is_triple && text[at..].starts_with(&triple) => return Ok(at + 3),
            _ => {}
        }
        at += 1;
    }
    Ok(text.len())
}

pub(super) fn starts_identifier(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte == b'$' || byte >= 128
}

pub(super) fn continues_identifier(byte: u8) -> bool {
    starts_identifier(byte) || byte.is_ascii_digit()
}

fn line_end(text: &[u8], from: usize) -> usize {
    memchr::memchr2(b'\n', b'\r', &text[from..]).map_or(text.len(), |length| from + length)
}

/// Behind a text in quotes, which its line closes.
fn after_quoted(text: &[u8], start: usize) -> Result<usize, Doubt> {
    let mut at = start + 1;
    while let Some(byte) = text.get(at) {
        match byte {
            b'\\' if text[at + 1..].starts_with(b"\r\n") => at += 2,
            b'\\' => at += 1,
            byte if *byte == text[start] => return Ok(at + 1),
            b'\n' | b'\r' => return Err(Doubt),
            _ => {}
        }
        at += 1;
    }
    // A text that was cut.
    Ok(text.len())
}

/// Behind a regular expression and its flags.
fn after_expression(text: &[u8], start: usize) -> Result<usize, Doubt> {
    let (mut at, mut class) = (start + 1, 0u32);
    while let Some(byte) = text.get(at) {
        match byte {
            b'\\' => at += 1,
            // Classes nest with the flag v alone, which is not known yet.
            b'[' if class > 0 => return Err(Doubt),
            b'[' => class = 1,
            b']' => class = 0,
            b'\n' | b'\r' => return Err(Doubt),
            b'/' if class == 0 => {
                let flags =
                    text[at + 1..].iter().take_while(|byte| continues_identifier(**byte)).count();
                return Ok(at + 1 + flags);
            }
            _ => {}
        }
        at += 1;
    }
    Ok(text.len())
}
