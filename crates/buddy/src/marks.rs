//! Named points on rare paths, after TigerBeetle's `marks.zig`: a test proves that it reached a
//! path.
//!
//! Production code calls [`mark`] on rare paths (a refused commit, a merge to the root). In a build
//! with debug assertions each thread counts its passes; in other builds the marks vanish.

use std::cell::RefCell;
use std::collections::BTreeMap;

type Act = Box<dyn FnMut()>;

thread_local! {
    static PASSED: RefCell<BTreeMap<&'static str, u64>> = const { RefCell::new(BTreeMap::new()) };
    static ACTS: RefCell<BTreeMap<&'static str, Act>> = const { RefCell::new(BTreeMap::new()) };
}

/// Marks this path as taken.
#[inline(always)]
pub fn mark(name: &'static str) {
    if cfg!(debug_assertions) {
        count(name);
    }
}

#[cold]
fn count(name: &'static str) {
    // A heap may be used while the thread's own data are being destroyed; nobody counts then.
    let _ = PASSED.try_with(|passed| *passed.borrow_mut().entry(name).or_default() += 1);
    // Not while borrowed: the act may take paths, too.
    if let Ok(Some(mut act)) = ACTS.try_with(|acts| acts.borrow_mut().remove(name)) {
        act();
        let _ = ACTS.try_with(|acts| {
            acts.borrow_mut().entry(name).or_insert(act);
        });
    }
}

/// Runs `act` whenever this thread takes the path `name`: a test can hold the thread there while
/// other threads act. Without debug assertions it is dropped at once.
pub fn whenever(name: &'static str, act: impl FnMut() + 'static) {
    if cfg!(debug_assertions) {
        ACTS.with(|acts| acts.borrow_mut().insert(name, Box::new(act)));
    }
}

/// Number of times this thread took the path `name`; always 0 without debug assertions.
pub fn passed(name: &str) -> u64 {
    PASSED.with(|passed| passed.borrow().get(name).copied().unwrap_or(0))
}

/// Runs `test` and fails if it did not take the path `name`. Without debug assertions it only runs
/// the test.
pub fn expect<R>(name: &str, test: impl FnOnce() -> R) -> R {
    let before = passed(name);
    let result = test();
    assert!(!cfg!(debug_assertions) || passed(name) > before, "the path {name:?} was not taken");
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_counted_where_it_is_taken() {
        expect("here", || mark("here"));
        assert_eq!((passed("here"), passed("there")), (1, 0));
    }

    #[test]
    fn what_is_to_happen_on_a_path_happens_each_time() {
        let count = std::rc::Rc::new(std::cell::Cell::new(0));
        let counted = count.clone();
        whenever("here", move || counted.set(counted.get() + 1));
        ["here", "there", "here"].into_iter().for_each(mark);
        assert_eq!(count.get(), 2);
    }

    #[test]
    #[should_panic(expected = "was not taken")]
    fn a_path_that_was_not_taken_fails_the_test() {
        expect("there", || mark("here"));
    }
}
