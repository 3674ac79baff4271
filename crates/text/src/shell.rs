//! A path as a word of a shell command that a person can paste, for any bytes.

use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Plain if a shell takes it so, in single quotes if it is text, else as `$'...'` (POSIX 2024;
/// bash, zsh, ksh and busybox).
pub fn quoted(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(byte);
    match std::str::from_utf8(bytes) {
        Ok(text) if !bytes.is_empty() && bytes.iter().all(is_plain) => text.to_owned(),
        Ok(text) if !text.chars().any(crate::lines::misleads) => {
            format!("'{}'", text.replace('\'', r"'\''"))
        }
        _ => {
            let mut word = String::from("$'");
            for byte in bytes {
                // Three octal digits, because a hexadecimal escape would take digits that follow
                // it.
                let _ = match byte {
                    b'\'' | b'\\' => write!(word, "\\{}", char::from(*byte)),
                    b' '..=b'~' => write!(word, "{}", char::from(*byte)),
                    _ => write!(word, "\\{byte:03o}"),
                };
            }
            word + "'"
        }
    }
}

/// Words as a line that a shell takes.
pub fn line(words: &[String]) -> String {
    words.iter().map(|word| quoted(Path::new(word))).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn a_shell_reads_back_every_path() {
        let paths: [(&[u8], &str); 5] = [
            (b"/tmp/a-b_c.heaplab", "/tmp/a-b_c.heaplab"),
            (b"my app's.heaplab", r"'my app'\''s.heaplab'"),
            ("caf\u{e9}.heaplab".as_bytes(), "'caf\u{e9}.heaplab'"),
            (b"caf\xe91 '\\\n$x", r"$'caf\3511 \'\\\012$x'"),
            (b"", "''"),
        ];
        for (bytes, word) in paths {
            assert_eq!(quoted(Path::new(OsStr::from_bytes(bytes))), word);
            let printed = std::process::Command::new("bash")
                .arg("-c")
                .arg(format!("printf %s {word}"))
                .output();
            if let Ok(printed) = printed {
                assert_eq!(printed.stdout, bytes, "{word}");
            }
        }
    }
}
