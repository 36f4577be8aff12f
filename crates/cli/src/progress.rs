//! Progress on the terminal: one bar per part of the work, on standard error.

use idlewave_recording::Progress;
use indicatif::{ProgressBar, ProgressStyle};
use std::cell::RefCell;
use std::io::Write;

/// Steps of a bar: enough for a smooth one, few enough to cost nothing.
const STEPS: u64 = 1_000;

/// The bar of the part that is under way. Nothing is drawn where standard error is no terminal.
pub struct Bars {
    visible: bool,
    current: RefCell<Option<ProgressBar>>,
}

impl Bars {
    pub fn new(visible: bool) -> Self {
        Self {
            visible,
            current: RefCell::new(None),
        }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        if let Some(bar) = self.current.borrow_mut().take() {
            bar.finish_and_clear();
        }
    }
}

/// An error ends the work in the middle of a part.
impl Drop for Bars {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Progress for Bars {
    fn part(&self, what: &str) {
        if !self.visible {
            return;
        }
        self.finish();
        let bar = ProgressBar::new(STEPS);
        if let Ok(style) = ProgressStyle::with_template("{msg:44} [{bar:24}] {percent:>3} %") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(what.to_owned());
        *self.current.borrow_mut() = Some(bar);
    }

    fn at(&self, share: f64) {
        if let Some(bar) = self.current.borrow().as_ref() {
            bar.set_position((share.clamp(0.0, 1.0) * STEPS as f64) as u64);
        }
    }

    fn note(&self, text: &str) {
        if let Some(bar) = self.current.borrow().as_ref() {
            bar.println(text);
        } else if self.visible {
            // Nobody is there to be told that nobody is there.
            let _ = writeln!(std::io::stderr(), "{text}");
        }
    }
}
