//! Generates the events of a workload and counts them.

use crate::lifetimes::Living;
use crate::random::Random;
use crate::sizes::{BOUNDS, Drawer};
use crate::spec::{FRAGMENTS, Lifetimes, Spec};
use heaplab_trace::bundle::Meta;
use heaplab_trace::tables::{Arena, Process, Tables, Thread};
use heaplab_trace::{Event, EventSink, EventSource, FREED_BY_PROGRAM, ObjectId, Op, TraceError};

/// Births whose events form one batch.
const BATCH_BIRTHS: u64 = 512;
/// Time between two births.
const GAP_NS: u64 = 100;

/// Counts of the generated events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Objects born.
    pub births: u64,
    /// Their bytes.
    pub born_bytes: u64,
    /// Births of at most the bytes of each of [`BOUNDS`].
    pub up_to: [u64; 3],
    /// Births that were followed by one of the same size.
    pub same: u64,
    /// Objects live at the ends of phases; `died` has those that died there. For generational:
    /// objects that left youth; `died` has those that died then.
    pub judged: u64,
    /// Objects of `judged` that died.
    pub died: u64,
    /// Objects live now.
    pub live: u64,
    /// Most objects live at once.
    pub live_max: u64,
    /// Bytes live now.
    pub live_bytes: u64,
    /// Most bytes live at once.
    pub live_bytes_max: u64,
    /// Forced collections.
    pub collections: u64,
}

/// Generates the events of a workload.
#[derive(Debug)]
pub struct Generator {
    spec: Spec,
    random: Random,
    drawer: Drawer,
    living: Living,
    /// Size of each live object.
    sizes: std::collections::HashMap<ObjectId, u64>,
    before: Option<u64>,
    counts: Counts,
    dead: Vec<ObjectId>,
}

impl Generator {
    /// The workload of `spec`.
    pub fn new(spec: Spec) -> Generator {
        Generator {
            random: Random::new(spec.seed),
            drawer: Drawer::new(spec.sizes.clone()),
            living: Living::new(&spec),
            sizes: std::collections::HashMap::new(),
            before: None,
            counts: Counts::default(),
            dead: Vec::new(),
            spec,
        }
    }

    /// The statement behind the workload.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Counts so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Passes every event to `sink`, and the number of objects born so far to `progress`.
    ///
    /// # Errors
    /// The errors of the sink.
    pub fn write(
        &mut self,
        sink: &mut impl EventSink,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), TraceError> {
        let mut batch = Vec::new();
        loop {
            self.next_batch(&mut batch)?;
            if batch.is_empty() {
                return Ok(());
            }
            batch.iter().try_for_each(|event| sink.push(event))?;
            progress(self.counts.births);
        }
    }

    /// The tables that the events refer to.
    pub fn tables(&self) -> Tables {
        Tables {
            stacks: vec![Default::default()],
            processes: vec![Process { executable: "generated".into(), ..Process::default() }],
            threads: vec![Thread { process: 0, tid: 1, ..Thread::default() }],
            arenas: vec![Arena { kind: "malloc".into(), ..Arena::default() }],
            ..Tables::default()
        }
    }

    /// The bundle's facts on the workload.
    pub fn meta(&self) -> Meta {
        Meta {
            program: format!("heaplab generate {}", self.spec),
            death_rule: FREED_BY_PROGRAM.into(),
            ..Meta::default()
        }
    }

    fn time_ns(&self) -> u64 {
        self.counts.births * GAP_NS
    }

    /// One birth and its consequences.
    fn step(&mut self, batch: &mut Vec<Event>) {
        self.begin_phase();
        let object = self.counts.births;
        let size = self.size();
        batch.push(Event { object, size, time_ns: self.time_ns(), ..Event::default() });
        self.count_birth(object, size);
        let dies = self.living.born(object, self.spec.die, &mut self.random, &mut self.dead);
        self.counts.judged += u64::from(dies.is_some());
        self.counts.died += u64::from(dies == Some(true));
        self.kill(batch);
        if self.phase_ends() {
            self.counts.judged +=
                if self.spec.lifetimes == Lifetimes::Phase { self.counts.live } else { 0 };
            self.living.phase_ended(self.spec.die, &mut self.random, &mut self.dead);
            self.counts.died +=
                if self.spec.lifetimes == Lifetimes::Phase { self.dead.len() as u64 } else { 0 };
            self.kill(batch);
        }
        if self.spec.collect > 0 && self.counts.births.is_multiple_of(self.spec.collect) {
            self.counts.collections += 1;
            batch.push(Event { op: Op::Collect, time_ns: self.time_ns(), ..Event::default() });
        }
    }

    fn size(&mut self) -> u64 {
        if self.spec.lifetimes != Lifetimes::Fragmentation {
            return self.drawer.draw(&mut self.random);
        }
        let [large, small, following] = FRAGMENTS;
        match self.counts.births {
            birth if birth >= self.fragments() => following,
            birth if birth % 2 == 0 => large,
            _ => small,
        }
    }

    /// Number of births before the large arrays of Dart's test die: two thirds of all.
    fn fragments(&self) -> u64 {
        (self.spec.births * 2).div_ceil(3)
    }

    fn births_a_phase(&self) -> u64 {
        self.spec.births.div_ceil(self.spec.phases)
    }

    fn begin_phase(&mut self) {
        let first = self.counts.births.is_multiple_of(self.births_a_phase());
        if first && self.spec.lifetimes == Lifetimes::Phase {
            self.drawer.change(&mut self.random);
        }
    }

    fn phase_ends(&self) -> bool {
        match self.spec.lifetimes {
            Lifetimes::Phase => self.counts.births.is_multiple_of(self.births_a_phase()),
            Lifetimes::Fragmentation => self.counts.births == self.fragments(),
            _ => false,
        }
    }

    fn count_birth(&mut self, object: ObjectId, size: u64) {
        let counts = &mut self.counts;
        counts.births += 1;
        counts.born_bytes += size;
        counts.live += 1;
        counts.live_bytes += size;
        counts.live_max = counts.live_max.max(counts.live);
        counts.live_bytes_max = counts.live_bytes_max.max(counts.live_bytes);
        for (count, bound) in counts.up_to.iter_mut().zip(BOUNDS) {
            *count += u64::from(size <= bound);
        }
        counts.same += u64::from(self.before == Some(size));
        self.before = Some(size);
        self.sizes.insert(object, size);
    }

    fn kill(&mut self, batch: &mut Vec<Event>) {
        let time_ns = self.time_ns();
        for object in self.dead.drain(..) {
            self.counts.live -= 1;
            self.counts.live_bytes -= self.sizes.remove(&object).unwrap_or_default();
            batch.push(Event { op: Op::Free, object, time_ns, ..Event::default() });
        }
    }
}

impl EventSource for Generator {
    fn next_batch(&mut self, batch: &mut Vec<Event>) -> Result<(), TraceError> {
        batch.clear();
        for _ in 0..BATCH_BIRTHS.min(self.spec.births - self.counts.births) {
            self.step(batch);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaplab_trace::order::OrderChecker;

    fn generated(text: &str) -> (Vec<Event>, Counts) {
        let mut generator = Generator::new(Spec::parse(text, |_| Err("none".into())).unwrap());
        let mut checker = OrderChecker::new("generated", &generator.tables());
        let mut events = Vec::new();
        generator
            .for_each(|event| {
                events.push(*event);
                checker.check(event)
            })
            .unwrap();
        assert_eq!(checker.live(), generator.counts().live);
        (events, generator.counts().clone())
    }

    #[test]
    fn every_rule_of_lifetimes_gives_a_legal_workload_that_repeats() {
        for (_, name) in Lifetimes::ALL {
            let of = |seed: &str| {
                let seed = if name == "fragmentation" { "" } else { seed };
                generated(&format!("lifetimes={name},births=20000{seed}"))
            };
            let (events, counts) = of(",seed=3");
            assert!(events == of(",seed=3").0, "{name}");
            assert!(name == "fragmentation" || events != of(",seed=4").0, "{name}");
            assert_eq!((counts.births, counts.collections), (20_000, 10), "{name}");
        }
    }

    #[test]
    fn the_first_events_of_a_seed_never_change() {
        let (events, _) = generated("births=8,slots=2,collect=4,seed=1");
        let said: Vec<String> = events
            .iter()
            .map(|event| format!("{:?} {} {}", event.op, event.object, event.size))
            .collect();
        insta::assert_snapshot!(said.join("\n"));
    }

    #[test]
    fn lifetimes_are_what_they_say() {
        let (events, counts) = generated("lifetimes=queue,births=1000,slots=10,collect=0");
        let frees: Vec<u64> =
            events.iter().filter(|event| event.op == Op::Free).map(|event| event.object).collect();
        assert_eq!((frees, counts.live, counts.live_max), ((0..990).collect(), 10, 11));
        let (events, _) = generated("lifetimes=fragmentation,births=9,collect=0");
        let sizes: Vec<u64> = events
            .iter()
            .filter(|event| event.op == Op::Alloc)
            .map(|event| event.size / 8)
            .collect();
        assert_eq!(sizes, [260, 1, 260, 1, 260, 1, 300, 300, 300]);
        let frees: Vec<u64> =
            events.iter().filter(|event| event.op == Op::Free).map(|event| event.object).collect();
        assert_eq!(frees, [0, 2, 4]);
        let (_, counts) = generated("lifetimes=cache,births=5000,slots=100");
        assert_eq!((counts.live, counts.live_max), (100, 101));
        let (_, counts) = generated("lifetimes=generational,births=50000,slots=800");
        assert!((800..=901).contains(&counts.live_max), "{counts:?}");
    }
}
