//! A range of addresses with committed parts. [`Commitment`] chooses the kernel calls; the table of
//! the crate's first page describes each.

use crate::{Call, CommitLimit, Error, Faults, Usage, page_bytes, system, usage};
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// With [`Commitment::Touch`] addresses are opened in steps of at least this size. The kernel
/// accounts writable mappings (RLIMIT_DATA, strict overcommit): so it is asked only for addresses
/// near use, not for the whole reservation.
const OPEN_STEP_BYTES: usize = 64 << 20;

/// The method of commit and uncommit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Commitment {
    /// The kernel gives pages at the first touch and takes them with `MADV_DONTNEED`. Splits no
    /// mapping.
    #[default]
    Touch,
    /// `mprotect` on both sides: an uncommitted page faults when touched.
    Protect,
    /// A fresh mapping over the range on both sides, as HotSpot does. A commit erases.
    Replace,
}

/// ReservationOptions of a reservation.
#[derive(Clone, Debug, Default)]
pub struct ReservationOptions {
    /// The method of commit and uncommit.
    pub commitment: Commitment,
    /// The base is a multiple of this power of two; 0 and 1 mean a page.
    pub align_bytes: usize,
    /// The commit limit, shared with other holders. `None`: no limit.
    pub limit: Option<Arc<CommitLimit>>,
    /// Keep the kernel from backing the range with huge pages. It would give a whole one for the
    /// first byte touched, and have to split it to take one page back.
    pub no_huge_pages: bool,
    /// Ask the kernel to back the range with huge pages if possible (`MADV_HUGEPAGE`): far fewer
    /// faults, and more resident than committed. Ignored with `no_huge_pages`.
    pub huge_pages: bool,
    /// Failing calls, for tests.
    pub faults: Option<Arc<Faults>>,
}

/// System calls made, including refused ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SystemCalls {
    /// To reserve, and to replace a mapping.
    pub mmap: u64,
    /// To remove parts mapped only to find an aligned place.
    pub munmap: u64,
    /// To open addresses and to close them.
    pub mprotect: u64,
    /// To take pages back (`MADV_DONTNEED`).
    pub madvise_dontneed: u64,
    /// To give pages before they are touched (`MADV_POPULATE_WRITE`).
    pub madvise_populate: u64,
    /// About huge pages.
    pub madvise_huge: u64,
}

impl SystemCalls {
    /// All advice together.
    pub fn madvise(&self) -> u64 {
        self.madvise_dontneed + self.madvise_populate + self.madvise_huge
    }
}

/// The counters behind [`SystemCalls`].
#[derive(Debug, Default)]
struct Calls {
    mmap: AtomicU64,
    mprotect: AtomicU64,
    dontneed: AtomicU64,
    populate: AtomicU64,
}

/// Ranges committed and given back, and the system calls for them: with [`Commitment::Touch`] most
/// commits need none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Commits that succeeded.
    pub commits: u64,
    /// Bytes newly committed by them.
    pub commit_bytes: u64,
    /// Uncommits that succeeded.
    pub uncommits: u64,
    /// Bytes given back by them.
    pub uncommit_bytes: u64,
    /// The system calls.
    pub calls: SystemCalls,
}

/// A range of addresses with committed parts. Dropping it returns all of it to the kernel.
///
/// All methods take `&self` and may be called from many threads; callers must not make two calls
/// about the same pages at once.
#[derive(Debug)]
pub struct Reservation {
    base: NonNull<u8>,
    reserved_bytes: usize,
    page_bytes: usize,
    options: ReservationOptions,
    /// With [`Commitment::Touch`]: lower offsets are readable and writable.
    opened_bytes: AtomicUsize,
    opening: Mutex<()>,
    commits: AtomicU64,
    commit_bytes: AtomicU64,
    uncommits: AtomicU64,
    uncommit_bytes: AtomicU64,
    calls: Calls,
    /// Calls made while reserving: munmap, and advice about huge pages.
    reserve_calls: (u64, u64),
}

// SAFETY: the mapping belongs to the reservation, whichever thread holds it. It is read or written
// only through pointers, and their users are responsible.
unsafe impl Send for Reservation {}
// SAFETY: `&self` methods change atomics, and change the mapping's state through the kernel, which
// orders those calls itself.
unsafe impl Sync for Reservation {}

impl Reservation {
    /// Reserves `bytes` (rounded up to whole pages), none of it committed.
    pub fn new(bytes: usize, options: &ReservationOptions) -> Result<Reservation, Error> {
        let page_bytes = page_bytes();
        let shape = || Error::Shape { bytes, align_bytes: options.align_bytes };
        let align_bytes = options.align_bytes.max(1);
        if bytes == 0 || !align_bytes.is_power_of_two() {
            return Err(shape());
        }
        let reserved_bytes = bytes
            .checked_next_multiple_of(page_bytes)
            .filter(|size| *size <= isize::MAX as usize)
            .ok_or_else(shape)?;
        let refused = |source| Error::Reserve { bytes, source };
        strike(&options.faults, Call::Reserve).map_err(refused)?;
        let (base, munmap_calls) = system::reserve(reserved_bytes, align_bytes).map_err(refused)?;
        if options.no_huge_pages {
            // SAFETY: the mapping is new and nobody else has it.
            unsafe { system::advise_huge_pages(base.as_ptr(), reserved_bytes, false) };
        } else if options.huge_pages {
            // SAFETY: as above.
            unsafe { system::advise_huge_pages(base.as_ptr(), reserved_bytes, true) };
        }
        Ok(Reservation {
            base,
            reserved_bytes,
            page_bytes,
            options: options.clone(),
            opened_bytes: AtomicUsize::new(0),
            opening: Mutex::new(()),
            commits: AtomicU64::new(0),
            commit_bytes: AtomicU64::new(0),
            uncommits: AtomicU64::new(0),
            uncommit_bytes: AtomicU64::new(0),
            calls: Calls { mmap: AtomicU64::new(1), ..Calls::default() },
            reserve_calls: (munmap_calls, u64::from(options.no_huge_pages || options.huge_pages)),
        })
    }

    /// The first address. Only committed pages may be touched.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Bytes of the range.
    pub fn reserved_bytes(&self) -> usize {
        self.reserved_bytes
    }

    /// Committed bytes, by the caller's account.
    pub fn committed_bytes(&self) -> usize {
        // In this order the difference is never negative: returned bytes had been committed.
        let returned = self.uncommit_bytes.load(Ordering::Acquire);
        (self.commit_bytes.load(Ordering::Relaxed) - returned) as usize
    }

    /// The method of commit and uncommit.
    pub fn commitment(&self) -> Commitment {
        self.options.commitment
    }

    /// Commits, uncommits and system calls so far.
    pub fn counts(&self) -> Counts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            commits: of(&self.commits),
            commit_bytes: of(&self.commit_bytes),
            uncommits: of(&self.uncommits),
            uncommit_bytes: of(&self.uncommit_bytes),
            calls: SystemCalls {
                mmap: of(&self.calls.mmap),
                munmap: self.reserve_calls.0,
                mprotect: of(&self.calls.mprotect),
                madvise_dontneed: of(&self.calls.dontneed),
                madvise_populate: of(&self.calls.populate),
                madvise_huge: self.reserve_calls.1,
            },
        }
    }

    /// The addresses of the range.
    pub fn addresses(&self) -> Range<usize> {
        let start = self.base.as_ptr() as usize;
        start..start + self.reserved_bytes
    }

    /// The kernel's mapped and resident bytes here now, with the guard pages on both sides. Walks
    /// page tables: for reports and tests.
    pub fn usage(&self) -> Result<Usage, Error> {
        let addresses = self.addresses();
        usage::usage(&(addresses.start - self.page_bytes..addresses.end + self.page_bytes))
    }

    /// Commits the range, given as offsets; no part of it may be committed. It then reads as zeroes
    /// (with [`Commitment::Touch`] it holds the data of an earlier owner who never uncommitted it).
    ///
    /// Fails with [`Error::LimitReached`], or with [`Error::Commit`] if the kernel has no memory;
    /// nothing has changed then.
    pub fn commit(&self, range: Range<usize>) -> Result<(), Error> {
        let bytes = range.len();
        self.commit_part(range, bytes)
    }

    /// Commits the range; only `uncommitted_bytes` of it are not committed yet, and only those
    /// count against the limit. With [`Commitment::Replace`] the **whole range is erased**,
    /// committed parts too.
    pub fn commit_part(&self, range: Range<usize>, uncommitted_bytes: usize) -> Result<(), Error> {
        self.check(&range)?;
        debug_assert!(uncommitted_bytes <= range.len());
        if let Some(limit) = &self.options.limit {
            limit.charge(uncommitted_bytes)?;
        }
        let made = strike(&self.options.faults, Call::Commit).and_then(|()| self.back(&range));
        if let Err(source) = made {
            if let Some(limit) = &self.options.limit {
                limit.release(uncommitted_bytes);
            }
            return Err(Error::Commit { offset: range.start, bytes: range.len(), source });
        }
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.commit_bytes.fetch_add(uncommitted_bytes as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Gives the range's pages back; all of it must be committed.
    ///
    /// Fails with [`Error::Uncommit`] if the kernel refuses (replacing or protecting a mapping may
    /// exceed the process's number of mappings); nothing then counts as given back.
    ///
    /// # Safety
    /// Nobody relies on the range's content, or touches the range before it is committed again.
    pub unsafe fn uncommit(&self, range: Range<usize>) -> Result<(), Error> {
        let bytes = range.len();
        // SAFETY: the caller's promise.
        unsafe { self.uncommit_part(range, bytes) }
    }

    /// Gives the range's pages back; only `committed_bytes` of it are committed.
    ///
    /// # Safety
    /// As for [`Reservation::uncommit`].
    pub unsafe fn uncommit_part(
        &self,
        range: Range<usize>,
        committed_bytes: usize,
    ) -> Result<(), Error> {
        self.check(&range)?;
        debug_assert!(committed_bytes <= range.len());
        let (start, bytes) = (self.at(range.start), range.len());
        let made = strike(&self.options.faults, Call::Uncommit).and_then(|()| {
            if bytes == 0 {
                return Ok(());
            }
            // SAFETY: `check` bounds the range by the reservation; the caller promises that nobody
            // uses it.
            unsafe {
                match self.options.commitment {
                    Commitment::Touch => self.discard(start, bytes),
                    Commitment::Protect => {
                        self.discard(start, bytes)?;
                        count(&self.calls.mprotect);
                        system::close(start, bytes)
                    }
                    Commitment::Replace => {
                        count(&self.calls.mmap);
                        system::replace(start, bytes, false)
                    }
                }
            }
        });
        made.map_err(|source| Error::Uncommit { offset: range.start, bytes, source })?;
        self.uncommits.fetch_add(1, Ordering::Relaxed);
        self.uncommit_bytes.fetch_add(committed_bytes as u64, Ordering::Release);
        if let Some(limit) = &self.options.limit {
            limit.release(committed_bytes);
        }
        Ok(())
    }

    /// Makes the kernel give the committed range its pages now: one call instead of a fault a page
    /// (`MADV_POPULATE_WRITE`, Linux 5.14). The content stays. Returns false if the kernel cannot:
    /// the pages then come at their first touch, as always.
    pub fn populate(&self, range: Range<usize>) -> Result<bool, Error> {
        self.check(&range)?;
        if range.is_empty() || strike(&self.options.faults, Call::Populate).is_err() {
            return Ok(false);
        }
        count(&self.calls.populate);
        // SAFETY: the range lies in the reservation; populating changes no content.
        Ok(unsafe { system::populate(self.at(range.start), range.len()) }.is_ok())
    }

    /// Makes the range inaccessible whatever the commitment, or accessible again: guard pages. Each
    /// splits a mapping.
    ///
    /// # Safety
    /// The range is committed, and nobody touches it while inaccessible.
    pub unsafe fn guard(&self, range: Range<usize>, inaccessible: bool) -> Result<(), Error> {
        self.check(&range)?;
        let (start, bytes) = (self.at(range.start), range.len());
        count(&self.calls.mprotect);
        // SAFETY: the range lies in the reservation; the caller promises the rest.
        let made = unsafe {
            if inaccessible { system::close(start, bytes) } else { system::open(start, bytes) }
        };
        made.map_err(|source| Error::Commit { offset: range.start, bytes, source })
    }

    /// # Safety
    /// As for [`system::discard`].
    unsafe fn discard(&self, start: *mut u8, bytes: usize) -> io::Result<()> {
        count(&self.calls.dontneed);
        // SAFETY: the caller's promise.
        unsafe { system::discard(start, bytes) }
    }

    fn at(&self, offset: usize) -> *mut u8 {
        self.base.as_ptr().wrapping_add(offset)
    }

    fn check(&self, range: &Range<usize>) -> Result<(), Error> {
        // A page is a power of two; two divisions would be most of a commit's cost.
        let whole = (range.start | range.end) & (self.page_bytes - 1) == 0;
        if whole && range.start <= range.end && range.end <= self.reserved_bytes {
            return Ok(());
        }
        Err(Error::Range {
            range: range.clone(),
            page_bytes: self.page_bytes,
            reserved_bytes: self.reserved_bytes,
        })
    }

    /// Commits by the chosen method.
    fn back(&self, range: &Range<usize>) -> io::Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let (start, bytes) = (self.at(range.start), range.len());
        match self.options.commitment {
            Commitment::Touch => self.open_up_to(range.end),
            Commitment::Protect => {
                count(&self.calls.mprotect);
                // SAFETY: `check` bounds the range by the reservation.
                unsafe { system::open(start, bytes) }
            }
            Commitment::Replace => {
                count(&self.calls.mmap);
                // SAFETY: as above; the contract says that the range is erased.
                unsafe { system::replace(start, bytes, true) }
            }
        }
    }

    /// Makes offsets below `end` readable and writable.
    fn open_up_to(&self, end: usize) -> io::Result<()> {
        if end <= self.opened_bytes.load(Ordering::Acquire) {
            return Ok(());
        }
        let _opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = self.opened_bytes.load(Ordering::Acquire);
        if end <= opened {
            return Ok(());
        }
        // If the kernel refuses a whole step, it may still open the needed part.
        let step =
            end.max(opened.saturating_add(opened.max(OPEN_STEP_BYTES))).min(self.reserved_bytes);
        let open = |to: usize| {
            count(&self.calls.mprotect);
            // SAFETY: both ends lie in the reservation, and nobody uses addresses that are not
            // open.
            unsafe { system::open(self.at(opened), to - opened) }.map(|()| to)
        };
        let to = open(step).or_else(|_| open(end))?;
        self.opened_bytes.store(to, Ordering::Release);
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(limit) = &self.options.limit {
            limit.release(self.committed_bytes());
        }
        // SAFETY: the mapping is this reservation's own, and holders of pointers into it promised
        // to be done.
        unsafe { system::release(self.base, self.reserved_bytes, self.options.align_bytes.max(1)) };
    }
}

fn count(calls: &AtomicU64) {
    calls.fetch_add(1, Ordering::Relaxed);
}

/// Fails if a test placed a fault at this call.
fn strike(faults: &Option<Arc<Faults>>, call: Call) -> io::Result<()> {
    match faults {
        Some(faults) if faults.strikes(call) => Err(io::Error::from(io::ErrorKind::OutOfMemory)),
        _ => Ok(()),
    }
}

#[cfg(test)]
#[path = "reservation_tests.rs"]
mod tests;
