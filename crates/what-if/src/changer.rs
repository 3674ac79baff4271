//! Events in, changed events out, row by row.
//!
//! An object follows the rule of the stack that asks for it: rules that change sizes first, then
//! the first rule that concerns the stack. Objects that are never freed first follow a rule that
//! does not make them. A buffer grows by the rule of the stack that asks for more. Rows of other
//! processes stay, except for their objects' numbers.

use crate::arena::{Arenas, rounded};
use crate::cache::Cache;
use crate::changed_rows::Written;
use crate::objects::{Holder, Object, Objects};
use crate::pool::{Pool, Taken};
use crate::renumber::Renumber;
use crate::sizes::{Asked, Resizer};
use crate::successor::{Ahead, Buffers};
use crate::{Change, Growth, Rule, WhatIfError};
use heaplab_trace::order::LiveSet;
use heaplab_trace::{Event, EventSink, Flags, ObjectId, Op, StackId, TraceError, tables::Tables};

/// Alignments up to that of malloc need no block of their own: log2.
const MALLOC_ALIGN_LOG2: u8 = 4;

/// Changes events.
#[derive(Debug)]
pub struct Changer {
    process: Option<u32>,
    states: Vec<State>,
    /// By stack: one more than the rule for the lives of its objects; 0: none.
    lives_by: Vec<u16>,
    /// The same for the rule that does not make its objects if they are never freed.
    unfreed_by: Vec<u16>,
    /// By stack: the row of `size_rules`.
    sizes_by: Vec<u16>,
    /// Rules of sizes that concern the same stacks.
    size_rules: Vec<Vec<u16>>,
    objects: Objects,
    renumber: Renumber,
    written: Written,
    ahead: Ahead,
    /// Whether sizes of all objects have to be known.
    grows: bool,
    done: Vec<Done>,
    /// Rules of whose stacks an earlier rule has some, or that except all their stacks.
    shadowed: Vec<bool>,
}

/// The effect of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Requests that the rule concerned.
    pub requests: u64,
    /// Of these, requests that are no longer made.
    pub spared: u64,
    /// Blocks that are freed earlier than they were.
    pub early: u64,
    /// Blocks that were not asked for before.
    pub added: u64,
}

#[derive(Debug)]
enum State {
    Sizes(Resizer),
    Grow(Growth),
    Cap(Cache),
    Reuse(Pool),
    Drop,
    DropUnfreed(LiveSet),
    Arena(Arenas),
}

impl State {
    fn of(change: &Change) -> State {
        match change {
            Change::Sizes(sizes) => State::Sizes(Resizer::new(sizes)),
            Change::Grow(growth) => State::Grow(*growth),
            Change::Cap { bytes } => State::Cap(Cache::new(*bytes)),
            Change::Reuse => State::Reuse(Pool::default()),
            Change::Drop => State::Drop,
            Change::DropUnfreed => State::DropUnfreed(LiveSet::default()),
            Change::Arena { chunk_bytes } => State::Arena(Arenas::new(*chunk_bytes)),
        }
    }
}

impl Changer {
    /// Begins before the first event. `process`: the row of `processes` whose requests change;
    /// `None`: all.
    ///
    /// # Errors
    /// No stack has a rule's function.
    pub fn new(
        tables: &Tables,
        rules: &[Rule],
        process: Option<u32>,
    ) -> Result<Changer, WhatIfError> {
        let stacks = tables.stacks.len().max(1);
        let [mut lives_by, mut unfreed_by, mut sizes_by] = [(); 3].map(|()| vec![0u16; stacks]);
        let mut size_rules: Vec<Vec<u16>> = vec![Vec::new()];
        let mut shadowed = vec![false; rules.len()];
        for (number, rule) in rules.iter().enumerate() {
            let number = number as u16;
            let rows = rule.rows(tables)?;
            shadowed[usize::from(number)] = !rule.except.is_empty() && !rows.contains(&true);
            let of_place =
                || rows.iter().enumerate().filter(|(_, is_of)| **is_of).map(|(at, _)| at);
            if !matches!(rule.change, Change::Sizes(_)) {
                let is_unfreed = rule.change == Change::DropUnfreed;
                let by = if is_unfreed { &mut unfreed_by } else { &mut lives_by };
                for row in of_place() {
                    shadowed[usize::from(number)] |= by[row] != 0;
                    by[row] = if by[row] == 0 { number + 1 } else { by[row] };
                }
                continue;
            }
            for row in of_place() {
                let with = [&size_rules[usize::from(sizes_by[row])][..], &[number]].concat();
                let known = size_rules.iter().position(|rules| *rules == with);
                sizes_by[row] = known.unwrap_or(size_rules.len()) as u16;
                if known.is_none() {
                    size_rules.push(with);
                }
            }
        }
        Ok(Changer {
            process,
            states: rules.iter().map(|rule| State::of(&rule.change)).collect(),
            lives_by,
            unfreed_by,
            sizes_by,
            size_rules,
            objects: Objects::default(),
            renumber: Renumber::default(),
            written: Written::default(),
            ahead: Ahead::default(),
            grows: rules.iter().any(|rule| matches!(rule.change, Change::Grow(_))),
            done: vec![Done::default(); rules.len()],
            shadowed,
        })
    }

    /// Which objects of the place of rule `number` are never freed; called before the first event.
    pub(crate) fn never_freed(&mut self, number: usize, objects: LiveSet) {
        if let Some(state @ State::DropUnfreed(_)) = self.states.get_mut(number) {
            *state = State::DropUnfreed(objects);
        }
    }

    /// The rule for the lives of a stack's objects.
    fn rule_of(&self, stack: u32) -> Option<usize> {
        row(&self.lives_by, stack)
    }

    /// The rule that does not make a stack's objects if they are never freed.
    pub(crate) fn unfreed_rule_of(&self, stack: u32) -> Option<usize> {
        row(&self.unfreed_by, stack)
    }

    /// Whether an earlier rule has some of the rule's stacks.
    pub(crate) fn is_shadowed(&self, number: usize) -> bool {
        self.shadowed[number]
    }

    /// What each rule did so far, in their order.
    pub fn done(&self) -> &[Done] {
        &self.done
    }

    /// Takes the next event; changed events go to `sink`, now or up to 65,536 events later.
    ///
    /// # Errors
    /// `sink` refuses.
    pub fn push(&mut self, event: &Event, sink: &mut impl EventSink) -> Result<(), TraceError> {
        if !self.grows {
            return self.apply(event, sink);
        }
        let (is_request, is_of_place) = (self.concerns(event), self.is_to_grow(event.stack));
        match self.ahead.push(event, is_request, is_of_place) {
            Some(event) => self.apply(&event, sink),
            None => Ok(()),
        }
    }

    /// Emits the remaining events.
    ///
    /// # Errors
    /// `sink` refuses.
    pub fn finish(&mut self, sink: &mut impl EventSink) -> Result<(), TraceError> {
        while let Some(event) = self.ahead.pop() {
            self.apply(&event, sink)?;
        }
        Ok(())
    }

    /// Looks for buffers that are grown by hand in the places whose buffers should grow in another
    /// way.
    pub(crate) fn look(&self, buffers: &mut Buffers, event: &Event) {
        buffers.look(event, self.concerns(event), self.is_to_grow(event.stack));
    }

    /// The buffers of the whole workload; called before the first event. Without them a stack that
    /// turns out to be a queue's may grow until then.
    pub(crate) fn judge_by(&mut self, whole: Buffers) {
        self.ahead.judge_by(whole);
    }

    fn concerns(&self, event: &Event) -> bool {
        let is_looked_at = self.process.is_none_or(|process| process == event.process);
        is_looked_at && event.arena == 0 && event.counts()
    }

    fn apply(&mut self, event: &Event, sink: &mut impl EventSink) -> Result<(), TraceError> {
        let concerns = self.concerns(event);
        match event.op {
            Op::Alloc if event.has(Flags::FAILED) => sink.push(event),
            Op::Alloc if concerns => self.birth(event, sink),
            Op::Alloc => {
                let born = self.written.birth(event, event.size, sink)?;
                self.renumber.born(Some(born));
                Ok(())
            }
            Op::Realloc if concerns => self.resize(event, sink),
            Op::Free if concerns => self.death(event, sink),
            Op::Report if event.has(Flags::FAILED) => sink.push(event),
            Op::Free | Op::Realloc | Op::UsableSizeRead | Op::Promote | Op::Report => {
                match self.now(event, event.object) {
                    Some(object) => self.written.row(event, object, sink),
                    None => Ok(()),
                }
            }
            Op::Reference => {
                let target = match event.target {
                    u64::MAX => Some(u64::MAX),
                    target => self.now(event, target),
                };
                match (self.now(event, event.object), target) {
                    (Some(object), Some(target)) => {
                        self.written.row(&Event { target, ..*event }, object, sink)
                    }
                    _ => Ok(()),
                }
            }
            _ => sink.push(event),
        }
    }

    /// The object's number in a row about it; `None`: the object no longer exists, or has no block
    /// of its own.
    fn now(&self, event: &Event, object: ObjectId) -> Option<ObjectId> {
        match self.objects.get(&object).filter(|_| !event.has(Flags::INHERITED)) {
            Some(object) => match object.holder {
                Holder::Nobody | Holder::Dropped(_) | Holder::Arena(..) => None,
                _ => Some(object.block),
            },
            None => self.renumber.now(object),
        }
    }

    /// The size of a request by the rules of sizes.
    fn asks(&mut self, event: &Event) -> Asked {
        let set = self.sizes_by.get(event.stack as usize).copied().unwrap_or(0);
        for number in self.size_rules[usize::from(set)].iter().map(|number| usize::from(*number)) {
            let State::Sizes(resizer) = &mut self.states[number] else { continue };
            if let Some(asked) = resizer.asks(event.size) {
                self.done[number].requests += 1;
                self.done[number].added += u64::from(asked.beside > 0);
                return asked;
            }
        }
        Asked { bytes: event.size, beside: 0 }
    }

    fn birth(&mut self, event: &Event, sink: &mut impl EventSink) -> Result<(), TraceError> {
        self.written.learn(event);
        let Asked { bytes, beside } = self.asks(event);
        // Another stack may have resized it last, so it belongs to that rule's place.
        let never_freed = self.states.iter().position(
            |state| matches!(state, State::DropUnfreed(objects) if objects.contains(event.object)),
        );
        if let Some(number) = never_freed {
            return self.nothing_is_born(event, bytes, number);
        }
        let rule = self.rule_of(event.stack);
        let is_plain = event.align_log2 <= MALLOC_ALIGN_LOG2;
        if let Some(number) = rule {
            match &mut self.states[number] {
                State::Drop => return self.nothing_is_born(event, bytes, number),
                State::Reuse(_) if is_plain => return self.pooled(event, bytes, number, sink),
                State::Arena(_) if is_plain => return self.in_arena(event, bytes, number, sink),
                State::Cap(_) => self.make_room(event, event.object, bytes, number, sink)?,
                State::Grow(growth) => {
                    let growth = *growth;
                    return self.perhaps_grown(event, bytes, (number, growth), sink);
                }
                _ => {}
            }
        }
        let block = self.written.birth(event, bytes, sink)?;
        self.renumber.born(Some(block));
        let beside = if beside > 0 { Some(self.written.birth(event, beside, sink)?) } else { None };
        let holder = match rule.map(|number| (number, &mut self.states[number])) {
            Some((number, State::Cap(cache))) => {
                cache.put(event.object, bytes);
                self.done[number].requests += 1;
                Holder::Cache(number)
            }
            _ => Holder::Program,
        };
        if self.grows || beside.is_some() || holder != Holder::Program {
            let object = Object { block, beside, bytes, has_bytes: bytes, holder };
            self.objects.insert(event.object, object);
        }
        Ok(())
    }

    fn nothing_is_born(
        &mut self,
        event: &Event,
        bytes: u64,
        number: usize,
    ) -> Result<(), TraceError> {
        self.renumber.born(None);
        self.done[number].requests += 1;
        self.done[number].spared += 1;
        self.hold(event.object, 0, bytes, bytes, Holder::Dropped(number));
        Ok(())
    }

    fn hold(&mut self, object: ObjectId, block: ObjectId, bytes: u64, has: u64, holder: Holder) {
        self.objects.insert(object, Object { block, beside: None, bytes, has_bytes: has, holder });
    }

    fn pooled(
        &mut self,
        event: &Event,
        bytes: u64,
        number: usize,
        sink: &mut impl EventSink,
    ) -> Result<(), TraceError> {
        let State::Reuse(pool) = &mut self.states[number] else { return Ok(()) };
        self.done[number].requests += 1;
        let (block, has) = match pool.take(bytes) {
            Taken::Kept(block, has) => {
                self.done[number].spared += 1;
                self.renumber.born(None);
                (block, has)
            }
            Taken::New(given_up) => {
                if let Some(block) = given_up {
                    self.written.death(event, block, sink)?;
                }
                let block = self.written.birth(event, bytes, sink)?;
                self.renumber.born(Some(block));
                (block, bytes)
            }
        };
        self.hold(event.object, block, bytes, has, Holder::Pool(number));
        Ok(())
    }

    fn in_arena(
        &mut self,
        event: &Event,
        bytes: u64,
        number: usize,
        sink: &mut impl EventSink,
    ) -> Result<(), TraceError> {
        let State::Arena(arenas) = &mut self.states[number] else { return Ok(()) };
        let arena = arenas.of(event.process, event.thread);
        self.done[number].requests += 1;
        match arenas.born(arena, bytes) {
            Some(chunk_bytes) => {
                let chunk = self.written.birth(event, chunk_bytes, sink)?;
                arenas.made(arena, chunk);
                self.done[number].added += 1;
            }
            None => self.done[number].spared += 1,
        }
        self.renumber.born(None);
        self.hold(event.object, 0, bytes, rounded(bytes), Holder::Arena(number, arena));
        Ok(())
    }

    /// Frees the oldest of a capped place until `object` has room for `bytes`.
    fn make_room(
        &mut self,
        event: &Event,
        object: ObjectId,
        bytes: u64,
        number: usize,
        sink: &mut impl EventSink,
    ) -> Result<(), TraceError> {
        let State::Cap(cache) = &mut self.states[number] else { return Ok(()) };
        while let Some(old) = cache.too_old(object, bytes) {
            let Some(gone) = self.objects.get_mut(&old) else { continue };
            gone.holder = Holder::Nobody;
            self.done[number].early += 1;
            for block in [Some(gone.block), gone.beside.take()].into_iter().flatten() {
                self.written.death(event, block, sink)?;
            }
        }
        Ok(())
    }

    /// A birth by a stack whose buffers should grow in another way: perhaps a step of a buffer that
    /// grows by hand.
    fn perhaps_grown(
        &mut self,
        event: &Event,
        bytes: u64,
        (number, growth): (usize, Growth),
        sink: &mut impl EventSink,
    ) -> Result<(), TraceError> {
        let before = self
            .ahead
            .predecessor(event.object)
            .and_then(|before| Some((before, *self.objects.get(&before)?)))
            .filter(|(_, of)| of.holder == Holder::Program);
        let mut has = bytes;
        if let Some((before, of)) = before {
            self.done[number].requests += 1;
            if bytes <= of.has_bytes {
                self.done[number].spared += 1;
                self.renumber.born(None);
                self.objects.insert(event.object, Object { bytes, ..of });
                self.objects.insert(before, Object { beside: None, holder: Holder::Nobody, ..of });
                return Ok(());
            }
            has = growth.grown(of.has_bytes, bytes);
        }
        let block = self.written.birth(event, has, sink)?;
        self.renumber.born(Some(block));
        self.hold(event.object, block, bytes, has, Holder::Program);
        Ok(())
    }

    fn resize(&mut self, event: &Event, sink: &mut impl EventSink) -> Result<(), TraceError> {
        self.written.learn(event);
        let Asked { bytes, .. } = self.asks(event);
        let Some(of) = self.objects.get(&event.object).copied() else {
            return match self.renumber.now(event.object) {
                Some(block) => self.written.resize(event, block, bytes, sink),
                None => Ok(()),
            };
        };
        let mut has = bytes;
        match of.holder {
            Holder::Nobody => return Ok(()),
            Holder::Dropped(number) => {
                self.done[number].requests += 1;
                self.done[number].spared += 1;
                return Ok(());
            }
            Holder::Program => {
                let rule = self.rule_of(event.stack);
                if let Some((number, State::Grow(growth))) =
                    rule.map(|number| (number, &self.states[number]))
                {
                    self.done[number].requests += 1;
                    if bytes > of.has_bytes {
                        has = growth.grown(of.has_bytes, bytes);
                    } else if bytes >= of.bytes {
                        self.done[number].spared += 1;
                        has = of.has_bytes;
                    }
                }
            }
            Holder::Cache(number) => {
                self.make_room(event, event.object, bytes, number, sink)?;
                if let State::Cap(cache) = &mut self.states[number] {
                    cache.put(event.object, bytes);
                }
            }
            Holder::Pool(number) => {
                self.done[number].requests += 1;
                self.done[number].spared += u64::from(bytes <= of.has_bytes);
                has = bytes.max(of.has_bytes);
            }
            Holder::Arena(number, arena) => {
                return self.resize_in_arena(event, bytes, of, (number, arena), sink);
            }
        }
        self.objects.insert(event.object, Object { bytes, has_bytes: has, ..of });
        // A request for what there is already may still be one, where no rule spares it.
        let is_spared = has == of.has_bytes
            && (bytes != has
                || matches!(of.holder, Holder::Pool(_))
                || self.is_to_grow(event.stack));
        if is_spared { Ok(()) } else { self.written.resize(event, of.block, has, sink) }
    }

    fn is_to_grow(&self, stack: StackId) -> bool {
        self.rule_of(stack).is_some_and(|number| matches!(self.states[number], State::Grow(_)))
    }

    fn resize_in_arena(
        &mut self,
        event: &Event,
        bytes: u64,
        of: Object,
        (number, arena): (usize, usize),
        sink: &mut impl EventSink,
    ) -> Result<(), TraceError> {
        self.done[number].requests += 1;
        let mut has = of.has_bytes;
        let mut chunk = None;
        if let State::Arena(arenas) = &mut self.states[number]
            && bytes > has
        {
            has = rounded(bytes);
            chunk = arenas.takes(arena, bytes);
            if let Some(chunk_bytes) = chunk {
                let block = self.written.birth(event, chunk_bytes, sink)?;
                arenas.made(arena, block);
                self.done[number].added += 1;
            }
        }
        self.done[number].spared += u64::from(chunk.is_none());
        self.objects.insert(event.object, Object { bytes, has_bytes: has, ..of });
        Ok(())
    }

    fn death(&mut self, event: &Event, sink: &mut impl EventSink) -> Result<(), TraceError> {
        let Some(of) = self.objects.remove(&event.object) else {
            return match self.renumber.now(event.object) {
                Some(object) => self.written.row(event, object, sink),
                None => Ok(()),
            };
        };
        if let Some(beside) = of.beside {
            self.written.death(event, beside, sink)?;
        }
        match of.holder {
            Holder::Nobody | Holder::Dropped(_) => Ok(()),
            Holder::Program => self.written.row(event, of.block, sink),
            Holder::Cache(number) => {
                if let State::Cap(cache) = &mut self.states[number] {
                    cache.remove(event.object);
                }
                self.written.row(event, of.block, sink)
            }
            Holder::Pool(number) => {
                if let State::Reuse(pool) = &mut self.states[number] {
                    pool.keep(of.block, of.has_bytes);
                }
                Ok(())
            }
            Holder::Arena(number, arena) => {
                let State::Arena(arenas) = &mut self.states[number] else { return Ok(()) };
                for chunk in arenas.died(arena) {
                    self.written.death(event, chunk, sink)?;
                }
                Ok(())
            }
        }
    }
}

/// The rule in a stack's row.
fn row(by: &[u16], stack: u32) -> Option<usize> {
    usize::from(by.get(stack as usize).copied().unwrap_or(0)).checked_sub(1)
}
