//! Answers as text for people: tables without frames, ages instead of times, nothing from outside unescaped.

pub mod consumers;
pub mod events;
pub mod explain;
pub mod inbox;
pub mod runs;
pub mod sources;
pub mod status;
pub mod tree;
pub mod verify;
pub mod why;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use thoughtstream_domain::text::{excerpt, printable};
use thoughtstream_domain::time::Timestamp;

/// Longer cells are cut: a table is a glance, the whole is shown by `show`.
const CELL_CHARACTERS_MAX: usize = 72;

/// Builds a table whose every cell is made printable.
pub(crate) struct Rows(Table);

impl Rows {
    /// Starts a table with these column heads.
    pub(crate) fn new(heads: &[&str]) -> Self {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(heads.iter().copied());
        Self(table)
    }

    /// Aligns a column of numbers to the right.
    pub(crate) fn numbers(mut self, column: usize) -> Self {
        if let Some(column) = self.0.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        self
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: &[String]) {
        self.0.add_row(cells.iter().map(|cell| excerpt(cell, CELL_CHARACTERS_MAX)));
    }

    /// Returns the text, without blanks at the ends of lines.
    pub(crate) fn text(&self) -> String {
        let table = self.0.to_string();
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
    if millis < 0 { format!("in {text}") } else { text }
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
mod tests {
    use super::*;

    #[test]
    fn an_age_has_one_unit() {
        let at = Timestamp::from_millis;
        let ages =
            [0, 99_999, 100_000, 5_999_999, 6_000_000, 172_800_000].map(|millis| age(at(0), at(millis)));
        assert_eq!(ages, ["0 s", "99 s", "1 min", "99 min", "1 h", "2 d"]);
        assert_eq!(age(at(5_000), at(0)), "in 5 s");
        assert_eq!(age(at(i64::MIN), at(i64::MAX)), "106751991167 d");
    }

    #[test]
    fn a_table_is_plain_text_without_control_characters() {
        let mut rows = Rows::new(&["A", "N"]).numbers(1);
        rows.row(&["x\u{1b}[31m".to_owned(), "1".to_owned()]);
        rows.row(&["a\nb".to_owned(), "100".to_owned()]);
        assert_eq!(rows.text(), "A              N\nx\\u{1b}[31m    1\na\\nb         100\n");
    }
}
