//! Clauses of a subscription held against an event.

use super::{Rows, line};
use crate::query::explain::Explained;

/// Renders the answer and the clauses it stands on.
#[must_use]
pub fn explain(explained: &Explained) -> String {
    let word = if explained.matches { "matches" } else { "does not match" };
    let head = format!("{} {word} {}\n\n", explained.event, line(&explained.consumer.to_string()));
    let mut rows = Rows::new(&["", "CLAUSE", "WANTED", "FOUND"]);
    for clause in &explained.clauses {
        let mark = if clause.holds { "yes" } else { "no" };
        rows.row(&[mark.to_owned(), clause.name.clone(), clause.wanted.clone(), clause.found.clone()]);
    }
    let stands = explained.stands.as_ref().map_or_else(String::new, |fact| format!("\n{}\n", line(fact)));
    head + &rows.text() + &stands
}
