//! The Python package on recordings of this binary: its own tests, run by pytest.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const MODULES: &str =
    "pyarrow, pytest, IPython, duckdb, pandas, polars, ray, nbclient, ipykernel, matplotlib";

fn passes(tests: &str) {
    static PYTHON: OnceLock<Option<PathBuf>> = OnceLock::new();
    let Some(python) = PYTHON.get_or_init(|| heaplab_oracle::python(MODULES)) else { return };
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python");
    let output = Command::new(python)
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider"])
        .arg(package.join("tests").join(tests))
        .env("PYTHONPATH", package.join("package").canonicalize().unwrap())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("HEAPLAB", env!("CARGO_BIN_EXE_heaplab"))
        .current_dir(std::env::temp_dir())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let passed = said.contains(" passed") && !said.contains(" skipped");
    assert!(output.status.success() && passed, "{said}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn recordings_are_arrow_tables() {
    passes("test_recording.py");
}

#[test]
fn a_marked_test_runs_recorded_and_is_checked() {
    passes("test_heap_mark.py");
}

#[test]
fn a_sweep_on_ray_loses_no_block_of_a_dead_node() {
    passes("test_ray.py");
}

#[test]
fn a_cell_is_recorded_and_reported() {
    passes("test_magic.py");
}

#[test]
fn notebooks_run_from_their_first_cell_to_their_last() {
    passes("test_notebooks.py");
}

#[test]
fn a_program_registers_reporters_and_is_asked() {
    passes("test_reporter.py");
}
