//! Decides when to read a process's mappings, and which parts of a reading are new.
//!
//! A reading takes the kernel some ms for a program with hundreds of mappings and some 100 MB. So
//! readings take at most 1 part in `PART_MAX` of the time, and the time between two grows with
//! their number: a recording of a day has some thousands. A process whose resident bytes have grown
//! since its last reading is read sooner, and one that has outgrown its largest reading at once, so
//! that the largest reading is close to the peak.

use super::jvm::Asked;
use super::{Account, FilePart, Reading, pages, smaps};
use crate::spool::note::Note;
use crate::{clock, proc_fs};
use hashbrown::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Reading takes at most this part of the time: one in so many.
const PART_MAX: u32 = 20;
/// A process that is larger than its largest reading by this part of it is read at once: some ten
/// times while it grows tenfold. So the largest reading has most of the peak, where the text names
/// parts only if it has three quarters.
const OUTGROWN: u64 = 4;
/// Shortest and longest time between two checks of all processes.
const CHECKS: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));
/// Least time between two checks for each process; a check of it takes some 0.1 ms.
const CHECK: Duration = Duration::from_millis(2);
/// Interval of readings of a process whose resident bytes do not grow.
const PAUSE: Duration = Duration::from_secs(1);
/// The pauses double after this many readings, and again after as many.
const DOUBLES_AFTER: u32 = 256;
/// Growth that makes a reading due: so many bytes, and one part in so many of the last reading.
const GROWTH: (u64, u64) = (256 << 10, 64);
/// Most threads whose stack pointers are read.
const THREADS_MAX: usize = 512;

/// Time until the next check of all processes, `so_far` into the recording: a part of the time so
/// far, because a program may run for milliseconds and have its peak in them.
pub fn until_next_check(so_far: Duration, processes: usize) -> Duration {
    let processes = u32::try_from(processes).unwrap_or(u32::MAX);
    (so_far / PART_MAX).max(CHECK.saturating_mul(processes)).clamp(CHECKS.0, CHECKS.1)
}

/// Of this thread. On a busy machine a reading waits for a processor, which costs nobody anything.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The state of one image from its readings.
#[derive(Debug, Default)]
struct Followed {
    files: Vec<FilePart>,
    /// What its runtime said by the last note.
    account: Account,
    jvm: Asked,
    /// Stack pointers by thread, as last seen.
    stacks: HashMap<u32, u64>,
    bytes: u64,
    /// Of the largest reading.
    largest_bytes: u64,
    readings: u32,
    next: Option<(Instant, Instant)>,
}

/// Reads the mappings of the images of a recording.
#[derive(Debug, Default)]
pub struct Sampler {
    images: HashMap<(u32, u32), Followed>,
    /// Whether JVMs are asked for the purposes of their memory.
    pub asks_jvms: bool,
    /// Whether one has answered.
    answered: bool,
    /// The reason of a JVM that has not.
    refusal: Option<String>,
}

impl Sampler {
    /// The reason why no JVM has said the purposes of its memory; `None`: one has, or nobody asked.
    pub fn silence(&self) -> Option<String> {
        let of_living = self.images.values().find_map(|followed| followed.jvm.refusal.as_ref());
        let refusal = self.refusal.as_ref().or(of_living);
        (self.asks_jvms && !self.answered).then(|| match refusal {
            Some(refusal) => format!("the JVM did not answer --jvm-memory; {refusal}"),
            None => {
                "no JVM listened for the question of --jvm-memory: none started by a `java` of \
                     JDK 9 or later ran for long enough, or -XX:+DisableAttachMechanism forbids it"
                    .into()
            }
        })
    }

    /// Forgets an image that has ended.
    pub fn forget(&mut self, key: (u32, u32)) {
        let gone = self.images.remove(&key);
        self.refusal = gone.and_then(|gone| gone.jvm.refusal).or(self.refusal.take());
    }

    /// Notes the image's mappings, if a reading is due and possible. `resident_bytes` is the
    /// process's present resident size, known cheaply.
    pub fn read(&mut self, key: (u32, u32), resident_bytes: u64, spool: &Path) -> Option<Note> {
        let followed = self.images.entry(key).or_default();
        if self.asks_jvms && followed.jvm.look(key.0) {
            self.answered = true;
            followed.next = None;
        }
        let began = Instant::now();
        let grown = GROWTH.0.max(followed.bytes / GROWTH.1);
        let has_grown = resident_bytes > followed.bytes.saturating_add(grown);
        let outgrown = GROWTH.0.max(followed.largest_bytes / OUTGROWN);
        let has_outgrown = resident_bytes > followed.largest_bytes.saturating_add(outgrown);
        let is_due = has_outgrown
            || followed.next.is_none_or(|(if_grown, anyway)| {
                began >= if has_grown { if_grown } else { anyway }
            });
        if !is_due {
            return None;
        }
        let counter = clock::counter();
        let before = processor_time();
        let reading = followed.take(key.0, spool);
        let took = processor_time().saturating_sub(before);
        followed.readings += 1;
        let doublings = (followed.readings / DOUBLES_AFTER).min(16);
        let pause = took * PART_MAX;
        followed.next = Some((
            began + pause.max(Duration::from_millis(1) * ((1 << doublings) - 1)),
            began + pause.max(PAUSE * (1 << doublings)),
        ));
        followed.largest_bytes = followed.largest_bytes.max(resident_bytes);
        let reading = reading?;
        followed.bytes = reading.bytes();
        let files = (followed.files != reading.files).then(|| reading.files.clone());
        followed.files = reading.files;
        let anonymous = reading.anonymous;
        let said = &followed.jvm.account;
        let account = (followed.account != *said).then(|| said.clone());
        followed.account.clone_from(said);
        Some(Note::Mappings { counter, pid: key.0, seq: key.1, files, anonymous, account })
    }
}

impl Followed {
    fn take(&mut self, pid: u32, spool: &Path) -> Option<Reading> {
        self.look_at_stacks(pid);
        let stacks: Vec<u64> = self.stacks.values().copied().collect();
        let text = smaps::text_of(pid)?;
        let mut reading = smaps::parse(&text, &spool.to_string_lossy(), &stacks);
        pages::look(pid, &mut reading.anonymous);
        Some(reading)
    }

    /// The kernel hides a running thread's stack pointer: the last known one counts until the
    /// thread ends.
    fn look_at_stacks(&mut self, pid: u32) {
        let threads = proc_fs::threads(pid, THREADS_MAX);
        for thread in &threads {
            if let Some(stack) = proc_fs::stack_pointer(pid, *thread) {
                self.stacks.insert(*thread, stack);
            }
        }
        self.stacks.retain(|thread, _| threads.contains(thread));
    }
}
