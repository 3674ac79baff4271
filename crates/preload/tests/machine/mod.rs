//! Where the test programs run: on this machine, or as aarch64 programs under an emulator. The
//! recorder shares only memory with its drainer, and both machines write the memory alike: this
//! machine's drainer judges the other's programs too.

#![allow(dead_code, reason = "each test binary uses what it needs")]

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Compilers, and the runner of their programs.
#[derive(Debug)]
pub struct Machine {
    c: OsString,
    cpp: OsString,
    emulator: Option<OsString>,
    /// The recorder's objects by their additional flags: one takes two seconds to compile.
    objects: Mutex<HashMap<String, Arc<OnceLock<Vec<u8>>>>>,
}

/// Flags of the recorder's build, except those that only silence warnings.
const OBJECT_FLAGS: &str = "-std=gnu11 -O2 -fPIC -shared -fvisibility=hidden -ftls-model=initial-exec -fexceptions -fno-builtin-malloc -fno-plt -fno-stack-protector -mgeneral-regs-only -Wl,-z,noseparate-code -Wl,-z,norelro";

/// This machine.
pub fn own() -> &'static Machine {
    static OWN: OnceLock<Machine> = OnceLock::new();
    OWN.get_or_init(|| Machine {
        c: "cc".into(),
        cpp: "c++".into(),
        emulator: None,
        objects: Mutex::default(),
    })
}

/// Aarch64, if Debian's cross compilers (of any version) and qemu are installed; otherwise prints a
/// line, or fails if the environment requires everything.
pub fn aarch64() -> Option<&'static Machine> {
    static AARCH64: OnceLock<Option<Machine>> = OnceLock::new();
    let found = AARCH64.get_or_init(|| {
        let versions = || {
            std::iter::once(String::new()).chain((9..40).rev().map(|version| format!("-{version}")))
        };
        let installed = |mut names: Box<dyn Iterator<Item = String>>| {
            names.find(|name| runs(name)).map(OsString::from)
        };
        Some(Machine {
            c: installed(Box::new(
                versions().map(|version| format!("aarch64-linux-gnu-gcc{version}")),
            ))?,
            cpp: installed(Box::new(
                versions().map(|version| format!("aarch64-linux-gnu-g++{version}")),
            ))?,
            emulator: Some(installed(Box::new(
                ["qemu-aarch64", "qemu-aarch64-static"].into_iter().map(String::from),
            ))?),
            objects: Mutex::default(),
        })
    });
    if found.is_none() {
        heaplab_oracle::skip(
            "gcc and g++ for aarch64-linux-gnu and qemu-aarch64 are not all installed",
        );
    }
    found.as_ref()
}

fn runs(program: &str) -> bool {
    let on_path = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .any(|folder| folder.join(program).is_file());
    on_path
        && Command::new(program)
            .arg("--version")
            .output()
            .is_ok_and(|output| output.status.success())
}

impl Machine {
    /// Whether its programs run in an emulator, slowly.
    pub fn is_emulated(&self) -> bool {
        self.emulator.is_some()
    }

    /// The recorder's object for it.
    pub fn preload(&self) -> Vec<u8> {
        if self.emulator.is_none() {
            return heaplab_preload::PRELOAD.to_vec();
        }
        self.object(&[])
    }

    /// The recorder's object, compiled with additional flags.
    pub fn object(&self, flags: &[&str]) -> Vec<u8> {
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        let object = objects.entry(flags.join(" ")).or_default().clone();
        drop(objects);
        object.get_or_init(|| self.compile_object(flags)).clone()
    }

    fn compile_object(&self, flags: &[&str]) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("object.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/c/preload.c");
        let versions =
            concat!("-Wl,--version-script=", env!("CARGO_MANIFEST_DIR"), "/c/preload.map");
        let mut command = Command::new(&self.c);
        let run = command
            .args(OBJECT_FLAGS.split(' '))
            .args(flags)
            .args([versions, source, "-o"])
            .arg(&out)
            .output()
            .expect("a C compiler");
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        std::fs::read(out).unwrap()
    }

    /// Whether there is a C++ compiler; skips the test if not.
    #[track_caller]
    pub fn has_cpp(&self) -> bool {
        heaplab_oracle::has(&self.cpp.to_string_lossy())
    }

    /// Compiles a program of tests/programs; `source` may be C or C++.
    pub fn compile(&self, folder: &Path, source: &str, name: &str, flags: &[&str]) -> PathBuf {
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
        let out = folder.join(name);
        let mut command = Command::new(if source.ends_with(".cpp") { &self.cpp } else { &self.c });
        command
            .args(["-O2", "-Wall", "-fno-builtin-malloc", "-o"])
            .arg(&out)
            .args(flags)
            .arg(programs.join(source));
        let run = command
            .arg("-I")
            .arg(programs.join("../../c"))
            .arg("-pthread")
            .output()
            .expect("a C compiler");
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        out
    }

    /// A command that runs `program` with these variables in the emulated program's environment,
    /// not the emulator's.
    pub fn command(&self, program: &Path, variables: &[(&str, &OsStr)]) -> Command {
        let Some(emulator) = &self.emulator else {
            let mut command = Command::new(program);
            command.envs(variables.iter().copied());
            return command;
        };
        let mut command = Command::new(emulator);
        command.args(["-L", "/usr/aarch64-linux-gnu"]);
        for (name, value) in variables {
            let mut variable = OsString::from(format!("{name}="));
            variable.push(value);
            assert!(
                !variable.as_encoded_bytes().contains(&b','),
                "qemu takes a comma for the next variable"
            );
            command.arg("-E").arg(variable);
        }
        command.arg(program);
        command
    }
}
