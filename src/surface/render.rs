//! Answers as text for people: tables without frames, ages instead of times, nothing from outside unescaped.

pub mod accounts;
pub mod consumers;
pub mod context;
pub mod deliveries;
pub mod events;
pub mod explain;
pub mod foreign;
pub mod inbox;
pub mod judgments;
pub mod proposals;
pub mod runs;
pub mod sources;
pub mod status;
pub mod tree;
pub mod verify;
pub mod why;

use std::sync::atomic::{AtomicBool, Ordering};

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use thoughtstream_domain::text::{excerpt, printable};
use thoughtstream_domain::time::Timestamp;

/// Longer cells are cut on a terminal: a table is a glance, the whole is shown by `show`.
const CELL_CHARACTERS_MAX: usize = 72;

/// Whether what this process shows is looked at on a terminal.
static GLANCED_AT: AtomicBool = AtomicBool::new(false);

/// Notes that what this process shows is looked at on a terminal: long cells are cut from now on. Whoever reads from a
/// pipe gets every cell whole.
pub(crate) fn for_a_terminal() {
    GLANCED_AT.store(true, Ordering::Relaxed);
}

/// Returns how many characters a line of the terminal holds that is looked at; nothing where nobody looks.
pub(crate) fn terminal_width() -> Option<usize> {
    let width = GLANCED_AT.load(Ordering::Relaxed).then(|| Table::new().width()).flatten();
    width.filter(|width| *width > 0).map(usize::from)
}

/// Says how a list is rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct View {
    /// Whether versions that were followed by another are listed as well.
    pub all: bool,
}

/// Builds a table whose every cell is made printable.
pub(crate) struct Rows {
    table: Table,
    characters_max: usize,
}

impl Rows {
    /// Starts a table with these column heads.
    pub(crate) fn new(heads: &[&str]) -> Self {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(heads.iter().copied());
        let is_cut = GLANCED_AT.load(Ordering::Relaxed);
        Self { table, characters_max: if is_cut { CELL_CHARACTERS_MAX } else { usize::MAX } }
    }

    /// Aligns a column of numbers to the right.
    pub(crate) fn numbers(mut self, column: usize) -> Self {
        if let Some(column) = self.table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        self
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: &[String]) {
        self.table.add_row(cells.iter().map(|cell| excerpt(cell, self.characters_max)));
    }

    /// Adds a row that ends with a command, which is never cut: half a command moves nothing.
    pub(crate) fn row_with_command(&mut self, cells: &[String], command: &str) {
        let cells = cells.iter().map(|cell| excerpt(cell, self.characters_max));
        self.table.add_row(cells.chain([printable(command)]));
    }

    /// Returns the text, without blanks at the ends of lines.
    pub(crate) fn text(&self) -> String {
        let table = self.table.to_string();
        // The first column needs no margin.
        let lines = table.lines().map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end());
        lines.fold(String::new(), |text, line| text + line + "\n")
    }
}

/// Says how long ago something was, or how long it will take, in the largest unit that fits.
#[must_use]
pub fn age(since: Timestamp, now: Timestamp) -> String {
    let millis = now.millis_since(since);
    let text = length(millis.unsigned_abs());
    if millis <= -1000 { format!("in {text}") } else { text }
}

/// Says how long ago something was. What lies ahead, on a clock that was set back, is not called past.
#[must_use]
pub(crate) fn ago(at: Timestamp, now: Timestamp) -> String {
    let age = age(at, now);
    if age.starts_with("in ") { age } else { format!("{age} ago") }
}

fn length(millis: u64) -> String {
    let seconds = millis / 1000;
    match seconds {
        0..=99 => format!("{seconds} s"),
        100..=5_999 => format!("{} min", seconds / 60),
        6_000..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Counts things: `1 event`, `2 events`.
pub(crate) fn count(number: impl Into<u64>, thing: &str) -> String {
    let number = number.into();
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

/// Returns an age, or a dash where no time is known.
pub(crate) fn age_or_dash(since: Option<Timestamp>, now: Timestamp) -> String {
    since.map_or_else(|| "-".to_owned(), |since| age(since, now))
}

/// Returns a text, or a dash where there is none.
pub(crate) fn or_dash(text: Option<&str>) -> String {
    text.map_or_else(|| "-".to_owned(), str::to_owned)
}

/// Escapes a text for one line.
pub(crate) fn line(text: &str) -> String {
    printable(text)
}

#[cfg(test)]
mod tests;
