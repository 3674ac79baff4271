//! The driver, compiled once for each compiler and kept.

use crate::OCamlError;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program's only argument, a text of one word.
const NAME: &str = "heaplab";
const DRIVER: &str = include_str!("../driver/driver.ml");
const STUBS: &str = include_str!("../driver/stubs.c");

/// The compiled program that runs workloads.
#[derive(Clone, Debug)]
pub struct Driver {
    pub(crate) program: PathBuf,
    version: String,
    /// The program that runs the driver, and the folder with a link to the driver; `None`: runs the
    /// driver itself.
    pub(crate) under: Option<(Vec<OsString>, PathBuf)>,
}

impl Driver {
    /// The driver for the `ocamlopt` in the path, compiled unless it exists.
    ///
    /// # Errors
    /// No compiler, an unsupported version, or the compiler fails.
    pub fn build() -> Result<Driver, OCamlError> {
        Driver::build_with(Path::new("ocamlopt"))
    }

    /// The driver for this compiler.
    ///
    /// # Errors
    /// As for [`Driver::build`].
    pub fn build_with(ocamlopt: &Path) -> Result<Driver, OCamlError> {
        let (version, library) = (said(ocamlopt, "-version")?, said(ocamlopt, "-where")?);
        if !["4.12.", "4.13.", "4.14."].iter().any(|known| version.starts_with(known)) {
            return Err(OCamlError::Version(version));
        }
        let key =
            xxhash_rust::xxh3::xxh3_64([DRIVER, STUBS, &version, &library].concat().as_bytes());
        let folder = cache_folder();
        let refused = |source| OCamlError::Cache { folder: folder.clone(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(refused)?;
        let program = folder.join(format!("ocaml-{version}-{key:016x}"));
        if !program.exists() {
            let place = tempfile::Builder::new()
                .prefix("ocaml-build-")
                .tempdir_in(&folder)
                .map_err(refused)?;
            compile(ocamlopt, &library, place.path())
                .map_err(|error| error.unwrap_or_else(refused))?;
            fs::rename(place.path().join("driver"), &program).map_err(refused)?;
        }
        Ok(Driver { program, version, under: None })
    }

    /// The same driver under another program, such as a profiler: `runner` is the start of its
    /// command. Puts a link to the driver into `folder`: the driver's name must stay the same,
    /// because the runtime's decisions depend on it.
    ///
    /// # Errors
    /// The link cannot be made.
    pub fn under(&self, runner: Vec<OsString>, folder: &Path) -> Result<Driver, OCamlError> {
        let link = folder.join(NAME);
        if !link.exists() {
            std::os::unix::fs::symlink(&self.program, &link)
                .map_err(|source| OCamlError::Cache { folder: folder.to_owned(), source })?;
        }
        Ok(Driver { under: Some((runner, folder.to_owned())), ..self.clone() })
    }

    /// The command that runs the driver under its name.
    pub(crate) fn command(&self) -> Command {
        let Some((runner, folder)) = &self.under else {
            let mut command = Command::new(&self.program);
            command.arg0(NAME);
            return command;
        };
        let mut command = Command::new(&runner[0]);
        let mut path = folder.clone().into_os_string();
        if let Some(rest) = std::env::var_os("PATH") {
            path.push(":");
            path.push(rest);
        }
        command.args(&runner[1..]).arg(NAME).env("PATH", path);
        command
    }

    /// The compiled program's path.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The runtime's version: `4.13.1`.
    pub fn version(&self) -> &str {
        &self.version
    }
}

/// An error of its own, or one of the folder.
enum Failed {
    Own(OCamlError),
    Folder(io::Error),
}

impl Failed {
    fn unwrap_or_else(self, folder: impl FnOnce(io::Error) -> OCamlError) -> OCamlError {
        match self {
            Failed::Own(error) => error,
            Failed::Folder(error) => folder(error),
        }
    }
}

fn compile(ocamlopt: &Path, library: &str, place: &Path) -> Result<(), Failed> {
    fs::write(place.join("driver.ml"), DRIVER).map_err(Failed::Folder)?;
    fs::write(place.join("stubs.c"), STUBS).map_err(Failed::Folder)?;
    // Without the standard library neither its modules nor the runtime are linked, so the runtime
    // is named.
    let runtime = format!("{library}/libasmrun.a");
    let mut command = Command::new(ocamlopt);
    command.args([
        "-nopervasives",
        "-inline",
        "100",
        "-ccopt",
        "-O2",
        "driver.ml",
        "stubs.c",
        &runtime,
    ]);
    command.args(["-cclib", "-lm", "-cclib", "-ldl", "-o", "driver"]).current_dir(place);
    let output =
        command.output().map_err(|error| Failed::Own(OCamlError::Compile(error.to_string())))?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    let message = message.lines().take(6).collect::<Vec<_>>().join("; ");
    Err(Failed::Own(OCamlError::Compile(message)))
}

/// The compiler's answer to an option.
fn said(ocamlopt: &Path, option: &str) -> Result<String, OCamlError> {
    match Command::new(ocamlopt).arg(option).output() {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        }
        Ok(output) => {
            Err(OCamlError::Compile(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(OCamlError::Missing),
        Err(error) => Err(OCamlError::Compile(error.to_string())),
    }
}

fn cache_folder() -> PathBuf {
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache =
        absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    cache.unwrap_or_else(std::env::temp_dir).join("heaplab")
}
