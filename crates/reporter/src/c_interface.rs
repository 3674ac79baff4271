//! The functions of `include/heaplab_reporter.h`, for programs in C and C++.
//!
//! A text that is not UTF-8 gets U+FFFD in place of its bad bytes, because JSON allows nothing
//! else. A null pointer counts as an empty text.

use crate::registry::{self, Handle, Kind, Sink, Units};
use crate::{PressureHandle, measure, pressure, serve};
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex};

/// A registration that C knows by number.
enum Registered {
    Reporter(#[expect(dead_code, reason = "dropping it unregisters")] Handle),
    Pressure(#[expect(dead_code, reason = "dropping it unregisters")] PressureHandle),
}

static REGISTERED: LazyLock<Mutex<HashMap<u64, Registered>>> = LazyLock::new(Mutex::default);

fn keep(registered: Registered) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    crate::entry::locked(&REGISTERED).insert(number, registered);
    number
}

/// A pointer from C that goes back to C with each callback.
struct Data(*mut c_void);
// SAFETY: the header says that the callback runs with this pointer on another thread.
unsafe impl Send for Data {}

impl Data {
    fn get(&self) -> *mut c_void {
        self.0
    }
}

/// Registers a reporter in C.
///
/// # Safety
/// `collect` may be called with `data` from any thread until it is unregistered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heaplab_reporter_register(
    collect: extern "C" fn(*mut Sink, *mut c_void),
    data: *mut c_void,
) -> u64 {
    let data = Data(data);
    let handle = registry::register(move |sink| collect(sink, data.get()));
    keep(Registered::Reporter(handle))
}

/// Registers a callback for memory pressure in C.
///
/// # Safety
/// `callback` may be called with `data` from any thread until it is unregistered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heaplab_reporter_on_pressure(
    callback: extern "C" fn(*mut c_void),
    data: *mut c_void,
) -> u64 {
    let data = Data(data);
    keep(Registered::Pressure(pressure::on_pressure(move || callback(data.get()))))
}

/// Unregisters a reporter or a callback; ignores unknown numbers.
#[unsafe(no_mangle)]
pub extern "C" fn heaplab_reporter_unregister(number: u64) {
    let registered = crate::entry::locked(&REGISTERED).remove(&number);
    // Dropped outside of the lock: dropping waits for the callback, which may register others.
    drop(registered);
}

/// Reports an amount.
///
/// # Safety
/// `sink` is the running callback's own; the texts are null or end in a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heaplab_reporter_report(
    sink: *mut Sink,
    path: *const c_char,
    kind: c_int,
    units: c_int,
    amount: i64,
    description: *const c_char,
) {
    // SAFETY: the caller's promise.
    let (sink, path, description) = unsafe { (&mut *sink, text(path), text(description)) };
    let kind = [Kind::NonHeap, Kind::Heap, Kind::Other].into_iter().find(|k| *k as c_int == kind);
    let all = [Units::Bytes, Units::Count, Units::CountCumulative, Units::Percentage];
    let units = all.into_iter().find(|u| *u as c_int == units);
    match (kind, units) {
        (Some(kind), Some(units)) => sink.report(&path, kind, units, amount, &description),
        _ => sink.skip(&format!("the report {path:?} of {amount} has an unknown kind or unit")),
    }
}

/// Records why a reporter reports nothing.
///
/// # Safety
/// As [`heaplab_reporter_report`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heaplab_reporter_skip(sink: *mut Sink, why: *const c_char) {
    // SAFETY: the caller's promise.
    unsafe { (*sink).skip(&text(why)) };
}

/// The usable size of a block, which then counts as reported.
///
/// # Safety
/// `block` is null or a live block's start.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heaplab_reporter_size_of(block: *const c_void) -> usize {
    // SAFETY: the caller's promise.
    unsafe { measure::block(block) }
}

/// Sets a mark.
///
/// # Safety
/// `name` is null or ends in a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heaplab_reporter_mark(name: *const c_char) {
    // SAFETY: the caller's promise.
    crate::mark(&unsafe { text(name) });
}

/// Names the program's allocator.
///
/// # Safety
/// As [`crate::set_allocator`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heaplab_reporter_allocator(
    usable: unsafe extern "C" fn(*const c_void) -> usize,
    allocated: Option<extern "C" fn() -> i64>,
) -> c_int {
    // SAFETY: the caller's promise.
    c_int::from(unsafe { measure::set_allocator(usable, allocated) })
}

/// Serves until the program ends; 0, or an errno.
#[unsafe(no_mangle)]
pub extern "C" fn heaplab_reporter_serve() -> c_int {
    match serve::serve() {
        Ok(serving) => {
            serving.forever();
            0
        }
        Err(error) => error.raw_os_error().unwrap_or(libc::EALREADY),
    }
}

/// # Safety
/// `text` is null or ends in a zero byte.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
