//! Programs in a sandbox (seccomp), where the recorder may make no system calls.

use super::harm::until_a_ring_is_full;
use super::*;
use std::time::Duration;

tests!(here on Some(crate::machine::own()),
    what_is_allocated_in_a_sandbox_is_recorded_and_nothing_is_asked_of_the_kernel
    a_program_that_may_not_read_the_counter_is_recorded_until_then
    children_and_threads_of_a_sandbox_run_unrecorded_and_are_counted
    a_sandbox_outlives_its_drainer
);

const BLOCKS: usize = 100_000;

fn sandbox(machine: &Machine, drainer: &Drainer, mode: &str) -> Command {
    let program =
        machine.compile(drainer.folder.path(), "sandbox.c", "sandbox", &["-O1", "-pthread"]);
    let plain = Command::new(&program).args([mode, "1000"]).output().unwrap();
    assert_eq!(
        (plain.status.code(), &plain.stdout[..]),
        (Some(0), &b"done\n"[..]),
        "{mode} without the recorder"
    );
    let mut command = recorded(machine, drainer, &program);
    command.args([mode, &BLOCKS.to_string()]);
    command
}

fn small_ring(stack_depth: u32) -> Options {
    Options {
        ring_bytes: 64 << 10,
        first_ring_bytes: Some(64 << 10),
        stack_depth,
        ..Options::default()
    }
}

fn what_is_allocated_in_a_sandbox_is_recorded_and_nothing_is_asked_of_the_kernel(
    machine: &Machine,
) {
    for stack_depth in [0, 64] {
        for mode in ["filter", "syscall", "refused"] {
            let d = start(machine, small_ring(stack_depth));
            let (text, images) = record(&mut sandbox(machine, &d, mode), d);
            assert_eq!((text.as_str(), images.len()), ("done\n", 1));
            let blocks = sized(&images[0], ALLOC, 48);
            assert_eq!(blocks.len(), BLOCKS, "{mode}, depth {stack_depth}");
            assert!(
                stack_depth == 0
                    || blocks.iter().all(|block| images[0].stack(block.node()).len() >= 3),
                "{mode}"
            );
        }
    }
}

fn a_program_that_may_not_read_the_counter_is_recorded_until_then(machine: &Machine) {
    for mode in ["strict", "timeless"] {
        let mut d = start(machine, Options::default());
        let status = d.drain_until_exit(&mut drainer::start(
            sandbox(machine, &d, mode).stdout(Stdio::null()),
        ));
        assert!(status.success(), "{mode}: {status}");
        let image = &d.finish()[0];
        assert_eq!((image.state, image.cut_reason), (PROCESS_CUT, CUT_TIMELESS), "{mode}");
        assert_eq!(
            (sized(image, ALLOC, 100).len(), sized(image, ALLOC, 48).len()),
            (1, 0),
            "{mode}"
        );
    }
}

fn children_and_threads_of_a_sandbox_run_unrecorded_and_are_counted(machine: &Machine) {
    for mode in ["fork", "thread"] {
        let mut d = start(machine, small_ring(64));
        let status = d.drain_until_exit(&mut drainer::start(
            sandbox(machine, &d, mode).stdout(Stdio::null()),
        ));
        assert!(status.success(), "{mode}: {status}");
        let read =
            |value: &std::sync::atomic::AtomicU32| value.load(std::sync::atomic::Ordering::Acquire);
        let (refused, step, pid) = (
            read(&d.control().refused),
            read(&d.control().refused_step),
            read(&d.control().refused_pid),
        );
        let images = d.finish();
        assert_eq!(
            (images.len(), sized(&images[0], ALLOC, 48).len(), sized(&images[0], ALLOC, 56).len()),
            (1, BLOCKS, 0),
            "{mode}"
        );
        if mode == "fork" {
            assert_eq!((refused, step, pid), (1, STEP_SANDBOX, images[0].pid));
        } else {
            assert!(
                (2000..2100).contains(&images[0].lost[LOST_IN_SANDBOX]) && refused == 0,
                "{:?}",
                images[0].lost
            );
        }
    }
}

/// The target cannot ask for the drainer's lock, and goes by the time that the drainer tells.
fn a_sandbox_outlives_its_drainer(machine: &Machine) {
    let mut d = start(machine, small_ring(0));
    let mut command = sandbox(machine, &d, "filter");
    let mut child = drainer::start(command.stdout(Stdio::null()));
    // While a busy drainer lives, the target waits.
    until_a_ring_is_full(&d, &mut child);
    for _ in 0..3 {
        d.tell_the_time();
        std::thread::sleep(Duration::from_secs(2));
        assert!(child.try_wait().unwrap().is_none(), "it did not wait");
    }
    assert!(child.wait().unwrap().success());
    d.turn();
    let image = &d.finish()[0];
    assert_eq!((image.state, image.cut_reason), (PROCESS_CUT, CUT_DRAINER_DEAD));
    assert!(image.event_count > 1000 && image.event_count < 10000, "{}", image.event_count);
}
