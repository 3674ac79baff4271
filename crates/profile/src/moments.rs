//! Snapshots at the requested moments.

use crate::observe::Instant;
use crate::sizes::Sizes;
use crate::stacks::Stacks;
use crate::{Amount, At, Moment, MomentRequest};

/// The requested moments: those to come and those taken.
#[derive(Debug)]
pub(crate) struct Moments {
    requests: Vec<MomentRequest>,
    taken: Vec<Option<Moment>>,
    /// The earliest time still to come; `u64::MAX`: none.
    pub(crate) next_time_ns: u64,
    /// The earliest row still to come; `u64::MAX`: none.
    pub(crate) next_row: u64,
}

impl Moments {
    pub(crate) fn new(requests: &[MomentRequest]) -> Moments {
        let mut moments = Moments {
            requests: requests.to_vec(),
            taken: vec![None; requests.len()],
            next_time_ns: u64::MAX,
            next_row: u64::MAX,
        };
        moments.look_ahead();
        moments
    }

    fn look_ahead(&mut self) {
        let open = || {
            self.requests
                .iter()
                .zip(&self.taken)
                .filter(|(_, taken)| taken.is_none())
                .map(|(request, _)| request.at)
        };
        let time =
            open().filter_map(|at| if let At::Time(time) = at { Some(time) } else { None }).min();
        let row =
            open().filter_map(|at| if let At::Row(row) = at { Some(row) } else { None }).min();
        self.next_time_ns = time.unwrap_or(u64::MAX);
        self.next_row = row.unwrap_or(u64::MAX);
    }

    fn take(
        &mut self,
        which: impl Fn(At) -> bool,
        now: &Instant,
        live: &Amount,
        stacks: &Stacks,
        sizes: &Sizes,
    ) {
        for (request, taken) in self.requests.iter().zip(&mut self.taken) {
            if taken.is_none() && which(request.at) {
                *taken = Some(Moment {
                    name: request.name.clone(),
                    row: now.row,
                    time_ns: now.time_ns,
                    live: *live,
                    stacks: stacks.moment(),
                    sizes: sizes.moment(),
                });
            }
        }
        self.look_ahead();
    }

    /// Takes the moments that lie before an event at `time_ns`.
    #[cold]
    pub(crate) fn take_until(
        &mut self,
        time_ns: u64,
        now: &Instant,
        live: &Amount,
        stacks: &Stacks,
        sizes: &Sizes,
    ) {
        self.take(|at| matches!(at, At::Time(time) if time < time_ns), now, live, stacks, sizes);
    }

    #[cold]
    pub(crate) fn take_row(
        &mut self,
        now: &Instant,
        live: &Amount,
        stacks: &Stacks,
        sizes: &Sizes,
    ) {
        self.take(|at| at == At::Row(now.row), now, live, stacks, sizes);
    }

    pub(crate) fn take_mark(
        &mut self,
        mark: u32,
        now: &Instant,
        live: &Amount,
        stacks: &Stacks,
        sizes: &Sizes,
    ) {
        self.take(|at| at == At::Mark(mark), now, live, stacks, sizes);
    }

    /// Times and rows after the last event mean the end; marks that never passed have no moment.
    pub(crate) fn finish(
        mut self,
        now: &Instant,
        live: &Amount,
        stacks: &Stacks,
        sizes: &Sizes,
    ) -> Vec<Moment> {
        self.take(|at| !matches!(at, At::Mark(_)), now, live, stacks, sizes);
        self.taken.into_iter().flatten().collect()
    }
}
