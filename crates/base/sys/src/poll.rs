//! Waiting for files that can be read (ppoll(2)).

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Waits until one of these can be read, has ended or failed, or `longest` is over; says which. Without a time only files and signals end
/// the wait.
///
/// # Errors
/// What the kernel refuses; a signal is none, nothing can be read then.
pub fn wait(files: &[BorrowedFd<'_>], longest: Option<Duration>) -> io::Result<Vec<bool>> {
    // What does not fit is no limit either.
    let longest = longest.and_then(|longest| Timespec::try_from(longest).ok());
    let entry = |file| PollFd::from_borrowed_fd(file, PollFlags::IN);
    let mut entries: Vec<_> = files.iter().copied().map(entry).collect();
    match poll(&mut entries, longest.as_ref()) {
        Ok(_) => Ok(entries.iter().map(|e| !e.revents().is_empty()).collect()),
        Err(Errno::INTR) => Ok(vec![false; files.len()]),
        Err(error) => Err(error.into()),
    }
}

/// Whether nobody reads a pipe any more.
pub fn is_broken(pipe: impl AsFd) -> bool {
    let mut entry = [PollFd::new(&pipe, PollFlags::empty())];
    let polled = poll(&mut entry, Some(&Timespec::default()));
    polled.is_ok() && entry[0].revents().contains(PollFlags::ERR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::process::{Command, Stdio};
    use std::time::Instant;

    #[test]
    fn a_wait_ends_when_something_can_be_read_or_its_time_is_over() {
        let (reader, mut writer) = UnixStream::pair().unwrap();
        let (other, _open) = UnixStream::pair().unwrap();
        let begin = Instant::now();
        let short = Duration::from_millis(5);
        assert_eq!(wait(&[reader.as_fd()], Some(short)).unwrap(), [false]);
        assert!(begin.elapsed() >= short);
        writer.write_all(b"x").unwrap();
        for longest in [None, Some(Duration::MAX)] {
            let ready = wait(&[other.as_fd(), reader.as_fd()], longest);
            assert_eq!(ready.unwrap(), [false, true]);
        }
    }

    #[test]
    fn a_pipe_is_broken_once_its_reader_has_gone() {
        let mut reads = Command::new("sleep");
        let mut reader = reads.arg("60").stdin(Stdio::piped()).spawn().unwrap();
        let writer = reader.stdin.take().unwrap();
        assert!(!is_broken(&writer));
        reader.kill().unwrap();
        reader.wait().unwrap();
        assert!(is_broken(&writer));
    }
}
