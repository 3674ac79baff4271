//! Each commitment against the kernel: contents, mappings, residency, limits, faults.

use super::*;

const ALL: [Commitment; 3] = [Commitment::Touch, Commitment::Protect, Commitment::Replace];

fn reservation(commitment: Commitment, bytes: usize) -> Reservation {
    Reservation::new(bytes, &ReservationOptions { commitment, ..ReservationOptions::default() })
        .unwrap()
}

fn fill(space: &Reservation, range: Range<usize>, byte: u8) {
    // SAFETY: tests commit the range before and hold the reservation alone.
    unsafe { space.at(range.start).write_bytes(byte, range.len()) };
}

fn reads(space: &Reservation, range: Range<usize>, byte: u8) -> bool {
    // SAFETY: as for `fill`.
    range.into_iter().all(|offset| unsafe { space.at(offset).read() } == byte)
}

#[test]
fn committed_pages_are_zero_and_keep_their_bytes_until_uncommitted() {
    for commitment in ALL {
        let page = page_bytes();
        let space = reservation(commitment, 8 * page);
        space.commit(0..4 * page).unwrap();
        assert!(reads(&space, 0..4 * page, 0));
        fill(&space, 0..4 * page, 7);
        // SAFETY: the test relies on nothing there.
        unsafe { space.uncommit(page..2 * page) }.unwrap();
        assert!(reads(&space, 0..page, 7) && reads(&space, 2 * page..4 * page, 7));
        space.commit(page..2 * page).unwrap();
        assert!(reads(&space, page..2 * page, 0), "{commitment:?}");
        assert_eq!(space.committed_bytes(), 4 * page);
        let calls = match commitment {
            Commitment::Touch => {
                SystemCalls { mmap: 1, mprotect: 1, madvise_dontneed: 1, ..SystemCalls::default() }
            }
            Commitment::Protect => {
                SystemCalls { mmap: 1, mprotect: 3, madvise_dontneed: 1, ..SystemCalls::default() }
            }
            Commitment::Replace => SystemCalls { mmap: 4, ..SystemCalls::default() },
        };
        let counts = Counts {
            commits: 2,
            commit_bytes: 5 * page as u64,
            uncommits: 1,
            uncommit_bytes: page as u64,
            calls,
        };
        assert_eq!(space.counts(), counts);
    }
}

#[test]
fn a_commit_over_committed_pages_erases_only_where_mappings_are_replaced() {
    for commitment in ALL {
        let page = page_bytes();
        let space = reservation(commitment, 4 * page);
        space.commit(page..2 * page).unwrap();
        fill(&space, page..2 * page, 9);
        space.commit_part(0..4 * page, 3 * page).unwrap();
        let expected = if commitment == Commitment::Replace { 0 } else { 9 };
        assert!(cfg!(miri) || reads(&space, page..2 * page, expected), "{commitment:?}");
        assert_eq!(space.committed_bytes(), 4 * page);
    }
}

#[test]
#[cfg(not(miri))]
fn touch_splits_no_mapping_and_the_others_split_at_every_boundary() {
    let page = page_bytes();
    for (commitment, expected) in
        [(Commitment::Touch, 3..=4), (Commitment::Protect, 60..=70), (Commitment::Replace, 60..=70)]
    {
        let space = reservation(commitment, 64 * page);
        space.commit(0..64 * page).unwrap();
        fill(&space, 0..64 * page, 1);
        for nth in (0..64).step_by(2) {
            // SAFETY: the test relies on nothing there.
            unsafe { space.uncommit(nth * page..(nth + 1) * page) }.unwrap();
        }
        let usage = space.usage().unwrap();
        assert!(expected.contains(&usage.mappings), "{commitment:?}: {usage:?}");
        assert_eq!(usage.resident_bytes, 32 * page, "{commitment:?}");
    }
}

#[test]
#[cfg(not(miri))]
fn touch_opens_a_large_reservation_step_by_step() {
    let space = reservation(Commitment::Touch, 1 << 40);
    let far = 3 * OPEN_STEP_BYTES;
    space.commit(far..far + page_bytes()).unwrap();
    fill(&space, far..far + page_bytes(), 1);
    assert_eq!(space.usage().unwrap(), Usage { mappings: 3, resident_bytes: page_bytes() });
    assert!(space.opened_bytes.load(Ordering::Relaxed) < 1 << 30, "a terabyte was not opened");
}

#[test]
fn an_alignment_is_kept_and_nothing_beside_the_range_stays_mapped() {
    let space = Reservation::new(
        page_bytes() * 3,
        &ReservationOptions { align_bytes: 1 << 24, ..ReservationOptions::default() },
    )
    .unwrap();
    assert_eq!(space.addresses().start % (1 << 24), 0);
    assert_eq!(space.addresses().len(), 3 * page_bytes());
    if cfg!(not(miri)) {
        assert_eq!(space.usage().unwrap().mappings, 1);
    }
}

#[test]
fn a_limit_is_shared_and_returned_when_a_reservation_goes() {
    let page = page_bytes();
    let limit = Arc::new(CommitLimit::new(3 * page));
    let options =
        ReservationOptions { limit: Some(limit.clone()), ..ReservationOptions::default() };
    let (one, two) = (
        Reservation::new(4 * page, &options).unwrap(),
        Reservation::new(4 * page, &options).unwrap(),
    );
    one.commit(0..2 * page).unwrap();
    assert!(matches!(two.commit(0..2 * page), Err(Error::LimitReached { .. })));
    assert_eq!((two.committed_bytes(), two.counts().commits), (0, 0));
    two.commit(0..page).unwrap();
    drop(one);
    two.commit(page..3 * page).unwrap();
    assert_eq!(limit.committed_bytes(), 3 * page);
}

#[test]
fn a_fault_at_any_call_changes_nothing() {
    let page = page_bytes();
    for commitment in ALL {
        let (faults, limit) = (Arc::new(Faults::new()), Arc::new(CommitLimit::none()));
        let options = ReservationOptions {
            commitment,
            limit: Some(limit.clone()),
            faults: Some(faults.clone()),
            ..ReservationOptions::default()
        };
        faults.fail(Call::Reserve, 0, 1);
        assert!(matches!(Reservation::new(page, &options), Err(Error::Reserve { .. })));
        let space = Reservation::new(4 * page, &options).unwrap();
        faults.fail(Call::Commit, 0, 1);
        assert!(matches!(space.commit(0..page), Err(Error::Commit { offset: 0, .. })));
        assert_eq!((space.committed_bytes(), limit.committed_bytes()), (0, 0));
        space.commit(0..page).unwrap();
        fill(&space, 0..page, 3);
        faults.fail(Call::Uncommit, 0, 1);
        // SAFETY: the call fails and leaves the page.
        assert!(matches!(unsafe { space.uncommit(0..page) }, Err(Error::Uncommit { .. })));
        assert!(reads(&space, 0..page, 3));
        faults.fail(Call::Populate, 0, 1);
        assert!(!space.populate(0..page).unwrap());
        assert_eq!((space.committed_bytes(), limit.committed_bytes()), (page, page));
    }
}

#[test]
fn ranges_that_are_not_whole_pages_inside_are_refused() {
    let page = page_bytes();
    let space = reservation(Commitment::Touch, 4 * page);
    #[allow(clippy::reversed_empty_ranges)]
    for range in [0..1, 1..page, 0..5 * page, 2 * page..page, 8 * page..9 * page, 0..usize::MAX] {
        assert!(matches!(space.commit(range.clone()), Err(Error::Range { .. })), "{range:?}");
    }
    space.commit(page..page).unwrap();
    assert!(Reservation::new(0, &ReservationOptions::default()).is_err());
    assert!(Reservation::new(usize::MAX, &ReservationOptions::default()).is_err());
    assert!(
        Reservation::new(
            page,
            &ReservationOptions { align_bytes: 3, ..ReservationOptions::default() }
        )
        .is_err()
    );
}

#[test]
#[cfg(not(miri))]
fn populated_pages_are_resident_before_they_are_touched() {
    let page = page_bytes();
    let space = reservation(Commitment::Touch, 64 * page);
    space.commit(0..64 * page).unwrap();
    if space.populate(0..16 * page).unwrap() {
        assert_eq!(space.usage().unwrap().resident_bytes, 16 * page);
    } else {
        eprintln!("skipped: this kernel has no MADV_POPULATE_WRITE (Linux 5.14)");
    }
}
