//! The files that show the measurements, as options of a command line.

use crate::plan::Plan;
use crate::results::Results;
use crate::run::Measured;
use crate::{markdown, page, svg, table};
use std::io;
use std::path::{Path, PathBuf};

/// Which files are written.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct Files {
    /// Write every run as a row of a CSV file.
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE"))]
    pub csv: Option<PathBuf>,
    /// Write every run as a row of a Parquet file.
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE"))]
    pub parquet: Option<PathBuf>,
    /// Write verdict and points as Markdown.
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE"))]
    pub markdown: Option<PathBuf>,
    /// Write the picture as SVG.
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE"))]
    pub svg: Option<PathBuf>,
    /// Write an HTML page with picture, verdict and points.
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE"))]
    pub html: Option<PathBuf>,
}

/// A file to write.
#[derive(Debug)]
pub struct File<'a> {
    /// Its name.
    pub path: &'a Path,
    /// Whether a terminal cannot show it.
    pub is_binary: bool,
    /// The content.
    pub content: io::Result<Vec<u8>>,
}

impl Files {
    /// Finds a file that cannot be written, before hours are measured for it.
    ///
    /// # Errors
    /// Its folder is missing or read-only, or it is a folder itself; or (invalid input) another one
    /// has its name.
    pub fn check(&self) -> io::Result<()> {
        let all = [&self.csv, &self.parquet, &self.markdown, &self.svg, &self.html];
        let given: Vec<&PathBuf> = all.into_iter().flatten().collect();
        let is_twice = |at: &usize| given[..*at].contains(&given[*at]);
        if let Some(twice) = (0..given.len()).find(is_twice).map(|at| given[at]) {
            let why = format!("{} is named for two files", twice.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        for path in all.into_iter().flatten().filter(|path| path.as_os_str() != "-") {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new("."));
            let can = rustix::fs::access(folder, rustix::fs::Access::WRITE_OK);
            let wrong = match can {
                Err(error) => format!("{}: {}", folder.display(), io::Error::from(error)),
                Ok(()) if path.is_dir() => format!("{} is a folder", path.display()),
                Ok(()) => continue,
            };
            let why = format!("{} cannot be written: {wrong}", path.display());
            return Err(io::Error::other(why));
        }
        Ok(())
    }

    /// Writes the files, and `runs` as one more Parquet file with the runs.
    pub fn written<'a>(
        &'a self,
        runs: Option<&'a Path>,
        plan: &Plan,
        measured: &Measured,
        results: &Results,
    ) -> Vec<File<'a>> {
        let blocks = &measured.blocks;
        let text = |path: &'a Option<PathBuf>, text: &dyn Fn() -> String| {
            path.as_deref().map(|path| File {
                path,
                is_binary: false,
                content: Ok(text().into_bytes()),
            })
        };
        let rows = |path| File { path, is_binary: true, content: table::parquet(plan, blocks) };
        let files = [
            text(&self.csv, &|| table::csv(plan, blocks)),
            text(&self.svg, &|| svg::picture(results)),
            text(&self.html, &|| page::html(results)),
            text(&self.markdown, &|| markdown::text(results)),
            self.parquet.as_deref().map(rows),
            runs.map(rows),
        ];
        files.into_iter().flatten().collect()
    }
}
