//! Whether a program is a Java, and which one, from the file `release` in its home, without running
//! it.

use crate::error::RecordError;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The first version whose log is complete enough.
const OLDEST: u32 = 17;
/// Largest `release` file that is read, bytes.
const RELEASE_BYTES_LIMIT: u64 = 1 << 20;

/// Whether `program` is the `java` of a JDK or JRE.
pub(crate) fn is_java(program: &Path) -> bool {
    java(program).is_some()
}

/// The file of `program`, if its name is `java`.
fn java(program: &Path) -> Option<PathBuf> {
    program.canonicalize().ok().filter(|real| real.file_name().is_some_and(|name| name == "java"))
}

/// Whether `program` is the `java` of a JDK or JRE: it takes `-Xlog` as an argument then. Of any
/// other program nothing is known.
///
/// # Errors
/// The program is a Java before 17.
pub fn check(program: &Path) -> Result<bool, RecordError> {
    let Some(real) = java(program) else { return Ok(false) };
    let mut text = String::new();
    let home = real.parent().and_then(Path::parent);
    let file = home.and_then(|home| {
        fs::File::open(home.join("release"))
            .or_else(|_| fs::File::open(home.join("../release")))
            .ok()
    });
    if let Some(file) = file {
        // An unreadable file proves nothing: the JVM itself will tell.
        let _ = file.take(RELEASE_BYTES_LIMIT).read_to_string(&mut text);
    }
    let version = text
        .lines()
        .find_map(|line| line.strip_prefix("JAVA_VERSION="))
        .map(|value| value.trim().trim_matches('"'));
    match version {
        Some(version) if feature(version).is_some_and(|feature| feature < OLDEST) => {
            Err(RecordError::JavaTooOld { path: program.to_owned(), version: version.to_owned() })
        }
        _ => Ok(true),
    }
}

/// 8 of `1.8.0_292`, 17 of `17.0.15`.
fn feature(version: &str) -> Option<u32> {
    let mut parts = version.split(['.', '-', '+', '_']);
    match parts.next()?.parse().ok()? {
        1 => parts.next()?.parse().ok(),
        feature => Some(feature),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn java(release: &str) -> Result<bool, RecordError> {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("bin")).unwrap();
        fs::write(home.path().join("bin/java"), "").unwrap();
        fs::write(home.path().join("release"), release).unwrap();
        check(&home.path().join("bin/java"))
    }

    #[test]
    fn an_old_java_is_refused_and_another_program_is_left_alone() {
        assert!(java("IMPLEMENTOR=\"x\"\nJAVA_VERSION=\"17.0.15\"\n").unwrap());
        assert!(java("JAVA_VERSION=\"26-ea\"\n").unwrap() && java("").unwrap());
        for old in ["1.8.0_292", "11.0.13", "16.0.2"] {
            let error = java(&format!("JAVA_VERSION=\"{old}\"\n")).unwrap_err().to_string();
            assert!(error.contains(old) && error.contains("from JDK 17 on"), "{error}");
        }
        assert!(!check(Path::new("/bin/sh")).unwrap());
    }
}
