//! The last program of the started process, where it ran without the recorder and was too
//! short-lived for the watch to see.

use super::Session;
use crate::image::Image;
use crate::unrecorded::Unrecorded;
use crate::{discover, execs};
use std::collections::BTreeMap;
use std::path::PathBuf;

impl Session<'_> {
    /// Reports that the started process became a program without the recorder, too short-lived for
    /// the watch to see.
    pub(super) fn tell_last_program(&mut self) {
        let images = self.images_of_started();
        if self.has_told(self.pid) || images.is_empty() {
            return;
        }
        let execs = execs::read(&self.spool);
        let last = execs.iter().rfind(|exec| exec.pid == self.pid && !exec.is_child);
        let missed = last.filter(|last| execs::unattached(&execs, &images).contains(last));
        let (executable, reason) = match (missed, self.other_name(images.values().next_back())) {
            (Some(exec), _) => (
                exec.path.clone(),
                execs::reason(exec, std::env::var_os("PATH").as_deref(), self.control.refused()),
            ),
            (None, Some(name)) => (
                PathBuf::from(name),
                String::from(
                    "ran without the recorder (it is static or 32-bit, has another C library such as musl, LD_PRELOAD was taken out of its environment, or it ran as a user who cannot write the spool)",
                ),
            ),
            (None, None) => return,
        };
        let missed = Unrecorded { pid: self.pid, executable, reason, is_unread: false };
        let note = missed.note();
        self.unrecorded.push(missed);
        if self.stopped.is_none()
            && let Err(error) = self.drainer.note(&note)
        {
            self.stop(&error);
        }
    }

    fn images_of_started(&self) -> BTreeMap<(u32, u32), Image> {
        let keys = discover::process_files(&self.spool)
            .unwrap_or_default()
            .into_iter()
            .filter(|key| key.0 == self.pid);
        keys.filter_map(|key| Some((key, discover::read_image(&self.spool, key).ok()?.ok()?)))
            .collect()
    }

    /// The started process's name at its end, if it differs from its last image's and that image
    /// never called exit().
    fn other_name(&self, image: Option<&Image>) -> Option<String> {
        let (name, image) = (self.last_name.as_ref()?, image?);
        // A program's name is the end of the path that started it, which may be a link or a
        // script's. `env` with options runs another program.
        let starts_others = image.executable.ends_with(b"/env");
        let script = image.arguments.iter().skip(1).take(if starts_others { 0 } else { 2 });
        let words = image.arguments.first().into_iter().chain(script).chain([&image.executable]);
        let known_as = |path: &Vec<u8>| {
            let called = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            called[..called.len().min(15)] == *name.as_bytes()
        };
        let is_known = words.into_iter().any(known_as);
        let normal_end = self.status.is_some_and(|status| status.code().is_some());
        (image.exit.is_none() && normal_end && !is_known).then(|| name.clone())
    }

    fn has_told(&self, pid: u32) -> bool {
        self.unrecorded.iter().any(|unrecorded| unrecorded.pid == pid)
    }
}
