//! CPython's heap as an embedder of `heaplab_snapshot::generate`.
//!
//! What Python code can say without being walked (types, frames, roots) is handed over by
//! `heaplab/snapshot.py`; then the heap is walked twice while the GIL is held, by each type's
//! `tp_traverse`. During the walk nothing is allocated in the heap but numbers that die at once
//! (`__sizeof__`), no Python code runs and the garbage collector is off, so that both passes see
//! the same heap, and texts of strings and numbers can be read again where they are
//! ([`text::OfObjects`]) instead of being copied.
//!
//! Source of what is known of CPython: its documentation of the stable ABI where that reaches;
//! where it does not (where attributes and slots lie), the place is named and either as old as
//! Python 3 or tried on a sample ([`attributes`]).

mod attributes;
mod heap;
mod ids;
mod lxml;
mod ndarray;
mod object;
mod references;
mod text;
mod types;

use heaplab_snapshot::generate::{GeneratorOptions, generate};
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyList};
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Gathers what Python says, then walks.
#[pyclass]
struct Walker {
    heap: heap::Heap,
    /// What is known by its address before the walk begins. Until then other threads run and let go
    /// of their variables: held here, beside the heap, so that no address outlives its object.
    held: Vec<Py<PyAny>>,
}

#[pymethods]
impl Walker {
    /// `sample` is an object with the attributes `first`, `second`, `third` and no others, set in
    /// that order.
    #[new]
    fn new(sample: &Bound<'_, PyAny>) -> Walker {
        Walker { heap: heap::Heap::new(attributes::Layout::find(sample)), held: Vec::new() }
    }

    /// A type. `members` are its member descriptors by name, `getters` attributes that give what is
    /// there.
    #[allow(clippy::too_many_arguments)]
    fn add_type(
        &mut self,
        object: &Bound<'_, PyAny>,
        name: &str,
        kind: u8,
        basic_size: u64,
        item_size: u64,
        sizeof: Option<Bound<'_, PyAny>>,
        namespace: &Bound<'_, PyAny>,
        members: Vec<(String, Bound<'_, PyAny>)>,
        getters: Vec<Bound<'_, PyAny>>,
    ) {
        let described = types::Described { name, kind, basic_size, item_size, sizeof, namespace, members, getters };
        self.held.push(object.clone().unbind());
        self.heap.types.add(object, described);
    }

    /// Whether arrays of NumPy can be looked into: `sample` is one of objects, `items` are those.
    fn knows_arrays(&self, sample: &Bound<'_, PyAny>, items: Vec<Bound<'_, PyAny>>) -> bool {
        let items: Vec<object::Address> = items.iter().map(object::address).collect();
        ndarray::works(object::address(sample), &items)
    }

    /// A root by name.
    fn add_root(&mut self, name: &str, object: &Bound<'_, PyAny>) {
        self.held.push(object.clone().unbind());
        self.heap.add_root(name, object::address(object));
    }

    /// A frame: what it is called, its code, its file and line, its variables.
    fn add_frame(&mut self, name: &str, code: &Bound<'_, PyAny>, file: &str, line: u32, variables: Vec<(String, Bound<'_, PyAny>)>) {
        self.held.push(code.clone().unbind());
        self.held.extend(variables.iter().map(|(_, value)| value.clone().unbind()));
        let variables = variables.iter().map(|(name, value)| (name.clone().into_bytes(), object::address(value))).collect();
        self.heap.add_frame(name, object::address(code), file, line, variables);
    }

    /// Objects that were born since the last snapshot.
    fn young(&mut self, objects: &Bound<'_, PyList>) {
        self.heap.young = ids::Young::of(objects);
    }

    /// Walks and writes, with that mode less what the umask takes. `objects` is what the garbage
    /// collector lists; it is empty afterwards.
    fn write<'py>(
        &mut self,
        py: Python<'py>,
        path: PathBuf,
        objects: Bound<'py, PyList>,
        ids: &Bound<'py, ids::Ids>,
        remember: bool,
        mode: u32,
    ) -> PyResult<Bound<'py, PyDict>> {
        // Until this returns, however it does; not longer, since a frame may have a variable that
        // leads back here.
        let _held = std::mem::take(&mut self.held);
        self.heap.begin(&objects, ids.borrow_mut().take(), remember);
        let beside = beside(&path);
        // What an earlier process of this number left has its own mode.
        let _ = std::fs::remove_file(&beside);
        let file = File::options()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&beside)
            .map_err(|error| PyOSError::new_err(format!("{}: {error}", beside.display())))?;
        let written = generate(&mut self.heap, file, GeneratorOptions::default());
        let _alone = self.heap.take_alone();
        ids.borrow_mut().give_back(self.heap.end());
        let finished = written.map_err(|error| error.to_string()).and_then(|(file, profile)| {
            file.sync_all().and_then(|()| std::fs::rename(&beside, &path)).map_err(|error| error.to_string())?;
            Ok(profile)
        });
        let profile = finished.map_err(|error| {
            // Half a snapshot is of no use here: the program goes on and can write another.
            let _ = std::fs::remove_file(&beside);
            PyRuntimeError::new_err(format!("{}: {error}", path.display()))
        })?;
        let result = PyDict::new(py);
        result.set_item("nodes", profile.nodes)?;
        result.set_item("edges", profile.edges)?;
        result.set_item("bytes", profile.file_bytes)?;
        result.set_item("strings", profile.strings)?;
        result.set_item("object_bytes", self.heap.measured.object_bytes)?;
        result.set_item("array_bytes", self.heap.measured.array_bytes)?;
        result.set_item("tree_bytes", self.heap.measured.tree_bytes)?;
        result.set_item("generation_milliseconds", profile.generation().as_secs_f64() * 1e3)?;
        result.set_item("serialization_milliseconds", profile.serialization().as_secs_f64() * 1e3)?;
        result.set_item("milliseconds", (profile.generation() + profile.serialization()).as_secs_f64() * 1e3)?;
        // Before 3.11 attributes are in dictionaries, which have names.
        result.set_item("attributes_named", self.heap.names_attributes() || py.version_info() < (3, 11))?;
        Ok(result)
    }
}

/// Where the file grows until it is complete.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    path.with_file_name(name)
}

/// The native part of the package `heaplab`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Walker>()?;
    module.add_class::<ids::Ids>()
}
