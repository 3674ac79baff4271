//! The formats of an export, and the possible requests of each.

use crate::{ExportError, Format, Weight};

/// A file that can be exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum FileFormat {
    /// Protobuf of pprof, gzipped.
    Pprof,
    /// JSON of speedscope.
    Speedscope,
    /// One line a stack, for flame graph scripts.
    Collapsed,
    /// JSON of the Firefox Profiler.
    Firefox,
    /// JSON of valgrind's DHAT viewer.
    Dhat,
    /// Each live block, for Chrome DevTools' Memory panel and `heaplab snapshot`.
    Heapsnapshot,
    /// The workload of a metaspace as text (#metaspace-trace 1).
    MetaspaceTrace,
}

/// An export as requested on a command line.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The file.
    pub format: FileFormat,
    /// The moment: peak, end, a mark or a time.
    pub at: &'a str,
    /// The one number of collapsed stacks.
    pub weight: Weight,
    /// Shows a heap that ran the workload.
    pub is_on_heap: bool,
    /// Reports the times of both phases of a heap snapshot.
    pub with_phases: bool,
    /// The file goes to a terminal.
    pub to_terminal: bool,
}

impl Asked<'_> {
    /// The profile's format; `None`: a heap snapshot or the workload, neither of which is a
    /// profile.
    pub fn profile(&self) -> Option<Format> {
        match self.format {
            FileFormat::Pprof => Some(Format::Pprof),
            FileFormat::Speedscope => Some(Format::Speedscope),
            FileFormat::Collapsed => Some(Format::Collapsed(self.weight)),
            FileFormat::Firefox => Some(Format::Firefox),
            FileFormat::Dhat => Some(Format::Dhat),
            FileFormat::Heapsnapshot | FileFormat::MetaspaceTrace => None,
        }
    }

    /// Refuses a request that the format cannot show.
    ///
    /// # Errors
    /// [`ExportError::Misused`], with the right request.
    pub fn check(&self) -> Result<(), ExportError> {
        let is_weighted = self.weight != Weight::default();
        let misused = match self.format {
            format if self.is_on_heap && format != FileFormat::Heapsnapshot => {
                "--on is for heap snapshots, of a heap that ran the workload: write --format heapsnapshot, or leave --on out"
            }
            FileFormat::MetaspaceTrace if self.at != "peak" || is_weighted => {
                "--at and --weight are for profiles; a metaspace trace is the whole workload"
            }
            FileFormat::Pprof if self.to_terminal => {
                "a pprof file is binary and standard output is a terminal: write to a file with -o FILE, or into a pipe"
            }
            FileFormat::Dhat if self.at != "peak" && self.at != "end" => {
                "a DHAT file holds the peak and the end, and no other moment: leave --at out, or choose another format"
            }
            FileFormat::Heapsnapshot if is_weighted => {
                "--weight is for collapsed stacks; a heap snapshot holds each block with the bytes asked for"
            }
            format if is_weighted && format != FileFormat::Collapsed => {
                "--weight is for collapsed stacks; the other formats hold all weights"
            }
            format if self.with_phases && format != FileFormat::Heapsnapshot => {
                "--profile is for heap snapshots (--format heapsnapshot): other formats have no phases"
            }
            _ => return Ok(()),
        };
        Err(ExportError::Misused(misused))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_refuses_what_it_cannot_show() {
        let asked = Asked {
            format: FileFormat::Collapsed,
            at: "loaded",
            weight: Weight::AllocatedBytes,
            is_on_heap: false,
            with_phases: false,
            to_terminal: true,
        };
        let refused = |asked: Asked| asked.check().unwrap_err().to_string();
        assert!(asked.check().is_ok());
        let weightless = Asked { weight: Weight::InUseBytes, ..asked };
        let of = |format| Asked { format, ..weightless };
        assert!(refused(Asked { is_on_heap: true, ..asked }).starts_with("--on is for"));
        assert!(refused(Asked { with_phases: true, ..asked }).starts_with("--profile is for"));
        assert!(refused(of(FileFormat::Pprof)).starts_with("a pprof file is binary"));
        assert!(refused(of(FileFormat::Dhat)).starts_with("a DHAT file holds"));
        assert!(refused(of(FileFormat::MetaspaceTrace)).starts_with("--at and --weight"));
        assert!(of(FileFormat::Heapsnapshot).check().is_ok());
        for format in [FileFormat::Heapsnapshot, FileFormat::Firefox, FileFormat::Speedscope] {
            assert!(refused(Asked { format, ..asked }).starts_with("--weight is for"));
        }
    }
}
