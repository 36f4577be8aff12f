//! Progress on the terminal: one bar per part of the work, on standard error.

use idlewave_session::Progress;
use idlewave_sys::terminal::{Stream, say};
use idlewave_units::foreign::one_line;
use indicatif::{ProgressBar, ProgressStyle};
use std::cell::RefCell;

/// Steps of a bar: enough to look smooth, few enough to cost nothing.
const STEPS: u64 = 1_000;

/// The bar of the part in progress. Nothing is drawn unless standard error is a terminal that can
/// be redrawn.
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

/// Removes the bar also when an error ends the work within a part.
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
        // Notes are printed even without a bar.
        if !Stream::Error.redraws() {
            return;
        }
        let bar = ProgressBar::new(STEPS);
        if let Ok(style) = ProgressStyle::with_template("{msg:44} [{bar:24}] {percent:>3} %") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(one_line(what));
        *self.current.borrow_mut() = Some(bar);
    }

    fn at(&self, share: f64) {
        if let Some(bar) = self.current.borrow().as_ref() {
            bar.set_position((share.clamp(0.0, 1.0) * STEPS as f64) as u64);
        }
    }

    fn note(&self, text: &str) {
        if let Some(bar) = self.current.borrow().as_ref() {
            bar.println(one_line(text));
        } else {
            // Also where no bar is shown: the job may end before anything else can be printed.
            say(&format!("{}\n", one_line(text)));
        }
    }
}
