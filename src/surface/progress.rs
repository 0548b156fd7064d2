//! How far long work has come, for a person at a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::socket::Progress;

/// Work that ends sooner than this shows nothing: a bar that flashes tells nobody anything.
const QUIET: Duration = Duration::from_millis(400);

/// Is a bar on stderr; where that is no terminal, nothing.
#[derive(Debug)]
pub struct Bar {
    bar: ProgressBar,
    begun: std::time::Instant,
}

impl Bar {
    /// Starts a bar that says what is being done and what is counted; both are words of ours.
    #[must_use]
    pub fn new(what: &'static str, unit: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template("{prefix} {pos}/{len} {msg} {wide_bar} {eta}");
        if let Ok(style) = style {
            bar.set_style(style);
        }
        bar.set_prefix(what);
        bar.set_message(unit);
        Self { bar, begun: std::time::Instant::now() }
    }

    /// Shows how far it has come.
    pub fn at(&self, progress: Progress) {
        if self.bar.is_hidden() && self.begun.elapsed() > QUIET {
            // Draws nothing where stderr is no terminal.
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_length(progress.total);
        self.bar.set_position(progress.done);
    }

    /// Removes the bar.
    pub fn done(self) {
        self.bar.finish_and_clear();
    }
}
