//! Address space: reserve it, commit and uncommit parts, count the kernel's work, with a limit, and
//! with faults that a test can place at any call.
//!
//! For authors of heaps: a [`Reservation`] is one range of addresses with parts backed by memory;
//! the heap on top chooses the parts. Its advantage over direct calls of `mmap`: the limit, the
//! counts and above all the failures are the same for every heap, and a test can make *any* commit
//! fail ([`Faults`]), which no real machine does on demand.
//!
//! **Which method does what** is chosen once a reservation, by [`Commitment`]:
//!
//! | | [`Commitment::Touch`] | [`Commitment::Protect`] | [`Commitment::Replace`] |
//! |---|---|---|---|
//! | reserve | `mmap(PROT_NONE, MAP_NORESERVE)` | the same | the same |
//! | [`commit`](Reservation::commit) | opens the addresses up to the range's end, in large steps (`mprotect`); the kernel gives pages at the first touch | `mprotect(READ, WRITE)` of the range | `mmap(MAP_FIXED, READ, WRITE)` over the range, which **erases** what it held |
//! | [`uncommit`](Reservation::uncommit) | `madvise(MADV_DONTNEED)`: pages go, the range stays open | `MADV_DONTNEED`, then `mprotect(NONE)` | `mmap(MAP_FIXED, PROT_NONE, MAP_NORESERVE)` over the range |
//! | mappings (VMAs) | at most 4, whatever is committed: the open part, the closed part, a guard page on either side | one for each boundary between committed and uncommitted | the same |
//! | touching an uncommitted page | gives a zeroed, uncounted page (in the open part) | faults | faults |
//! | for | allocators with many small granules | catching stray writes | comparison with HotSpot 17: its `os::commit_memory` and `os::uncommit_memory` do this |
//!
//! A committed page that was never written, or was uncommitted in between, reads as zeroes under
//! all three.
//!
//! The reservation keeps **no mask** of committed parts: granules and masks belong to the heap
//! (`heaplab-buddy` has them). It trusts its caller and adds up; [`Reservation::commit_part`] is
//! for ranges that are partly committed already.
//!
//! Linux on x86-64 and aarch64, any page size.
//!
//! ```
//! use heaplab_address_space::{Commitment, ReservationOptions, Reservation};
//!
//! let page = heaplab_address_space::page_bytes();
//! let options =
//!     ReservationOptions { commitment: Commitment::Touch, ..ReservationOptions::default() };
//! let space = Reservation::new(64 << 20, &options)?;
//! space.commit(0..4 * page)?;
//! // SAFETY: the first page was committed above and nobody else has the reservation.
//! unsafe { space.base().write_bytes(0x5a, page) };
//! assert_eq!(space.committed_bytes(), 4 * page);
//! assert_eq!(space.usage()?.resident_bytes, page, "the kernel gave the touched page");
//! assert!(space.usage()?.mappings <= 4);
//! // SAFETY: nothing of those pages is used any more.
//! unsafe { space.uncommit(0..4 * page) }?;
//! assert_eq!(space.usage()?.resident_bytes, 0);
//! # Ok::<(), heaplab_address_space::Error>(())
//! ```

mod error;
mod faults;
mod limit;
mod reservation;
mod system;
mod usage;

pub use error::Error;
pub use faults::{Call, Faults};
pub use limit::CommitLimit;
pub use reservation::{Commitment, Counts, Reservation, ReservationOptions, SystemCalls};
pub use system::page_bytes;
pub use usage::{Usage, usage_of};
