//! The folder of files beside a page: `report_files` beside `report.html`.
//!
//! File names carry the key of their run. So a page never reads the files of another run, and the
//! old page keeps its own files until the new page is there.

use idlewave_sys::files;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Writes the files of one page.
#[derive(Debug)]
pub(crate) struct Beside {
    folder: PathBuf,
    /// Names of those written, and whether there was one of that name.
    written: Vec<(String, bool)>,
}

impl Beside {
    /// For a page at this path. The script of the page derives the same name from its own.
    pub(crate) fn of(page: &Path) -> Self {
        let stem = page.file_stem().and_then(OsStr::to_str);
        Self {
            folder: page.with_file_name(format!("{}_files", stem.unwrap_or("report"))),
            written: Vec::new(),
        }
    }

    /// Writes one file; the first one creates the folder.
    pub(crate) fn put(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        if self.written.is_empty() {
            files::create_directory(&self.folder)?;
        }
        let path = self.folder.join(name);
        let was_there = fs::symlink_metadata(&path).is_ok();
        self.written.push((name.to_owned(), was_there));
        files::replace(&path, bytes)
    }

    /// Removes what earlier pages left, once the new page is there.
    pub(crate) fn keep(self) {
        let is_old = |name: &str| is_ours(name) && !self.written.iter().any(|(n, _)| n == name);
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if entry.file_name().to_str().is_some_and(is_old) {
                // What stays takes space but does no harm.
                let _ = fs::remove_file(entry.path());
            }
        }
        self.remove_if_empty();
    }

    /// Removes what was written, for a page that could not be written.
    pub(crate) fn discard(self) {
        for (name, _) in self.written.iter().filter(|(_, was_there)| !was_there) {
            let _ = fs::remove_file(self.folder.join(name));
        }
        self.remove_if_empty();
    }

    fn remove_if_empty(&self) {
        // This fails if the folder is not empty.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Whether a file has a name of the form that pages use: `0123abcd-00012.js`.
fn is_ours(name: &str) -> bool {
    let Some((key, number)) = name.strip_suffix(".js").and_then(|n| n.split_once('-')) else {
        return false;
    };
    let is_key = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    key.len() == 8
        && key.chars().all(is_key)
        && number.len() >= 5
        && number.chars().all(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_new_page_replaces_the_files_of_the_old_one_and_no_others() {
        let dir = tempfile::tempdir().unwrap();
        let page = dir.path().join("before.html");
        let folder = dir.path().join("before_files");
        let mut first = Beside::of(&page);
        for n in 0..3 {
            first.put(&format!("0000000a-0000{n}.js"), b"old").unwrap();
        }
        first.keep();
        fs::write(folder.join("notes.js"), "mine").unwrap();
        let mut second = Beside::of(&page);
        second.put("0000000b-00000.js", b"new").unwrap();
        assert_eq!(names(&folder).len(), 5);
        second.keep();
        assert_eq!(names(&folder), ["0000000b-00000.js", "notes.js"]);
        // A small page has none.
        fs::remove_file(folder.join("notes.js")).unwrap();
        Beside::of(&page).keep();
        assert!(!folder.exists());
    }

    #[test]
    fn a_page_that_failed_leaves_the_files_of_the_old_one() {
        let dir = tempfile::tempdir().unwrap();
        let page = dir.path().join("report.html");
        let folder = dir.path().join("report_files");
        let mut first = Beside::of(&page);
        first.put("0000000a-00000.js", b"old").unwrap();
        first.keep();
        let mut second = Beside::of(&page);
        second.put("0000000a-00000.js", b"old").unwrap();
        second.put("0000000a-00001.js", b"new").unwrap();
        second.discard();
        assert_eq!(names(&folder), ["0000000a-00000.js"]);
    }

    #[test]
    fn a_link_in_place_of_the_folder_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let elsewhere = dir.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, dir.path().join("report_files")).unwrap();
        let mut beside = Beside::of(&dir.path().join("report.html"));
        assert!(beside.put("0000000a-00000.js", b"x").is_err());
        beside.discard();
        assert_eq!(names(&elsewhere).len(), 0);
    }
}
