//! What waits for a person. Several things of one kind that are about the same event are shown as one, with each below it.

use std::collections::BTreeMap;

use thoughtstream_domain::time::Timestamp;

use super::{Rows, age_or_dash, count, line};
use crate::query::inbox::{About, Waiting};

/// Renders what waits; the empty text is for a list that was read to its end.
///
/// It is a table where `width` has room for the longest command beside everything else, and a block for each thing
/// elsewhere: in a pipe, which has no width, and on a narrow terminal. A command is a line of its own in both.
#[must_use]
pub fn inbox(waiting: &[Waiting], width: Option<usize>, now: Timestamp) -> String {
    if waiting.is_empty() {
        return "nothing waits\n".to_owned();
    }
    let (hidden, shown): (Vec<&Waiting>, Vec<&Waiting>) =
        waiting.iter().partition(|one| one.hidden_until.is_some());
    let shown = together(&shown);
    let table = width.map(|width| (width, table(&shown, now)));
    let fits = |(width, table): &(usize, String)| table.lines().all(|line| line.chars().count() <= *width);
    let mut text = match table.filter(fits) {
        _ if shown.is_empty() => String::new(),
        Some((_, table)) => table,
        None => shown.iter().map(|all| block(all, now)).collect::<Vec<_>>().join("\n"),
    };
    if !hidden.is_empty() {
        text.push_str(&format!("{} hidden until a time\n", count(hidden.len() as u64, "thing")));
    }
    for one in &hidden {
        let until = one.hidden_until.map_or_else(String::new, |until| until.to_string());
        text.push_str(&line(&format!(
            "{} {} until {until}: {}",
            one.kind.as_str(),
            one.which(),
            one.command
        )));
        text.push('\n');
    }
    text
}

/// Puts those of one kind together that are about the same event; each group stands where its first one does.
fn together<'a>(shown: &[&'a Waiting]) -> Vec<Vec<&'a Waiting>> {
    let mut groups: Vec<Vec<&Waiting>> = Vec::new();
    let mut known = BTreeMap::new();
    for one in shown {
        let place = match &one.about {
            Some(About { event, more, .. }) => {
                *known.entry((one.kind, *event, *more)).or_insert(groups.len())
            }
            None => groups.len(),
        };
        match groups.get_mut(place) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups
}

fn table(shown: &[Vec<&Waiting>], now: Timestamp) -> String {
    let mut rows = Rows::new(&["WHAT", "WHICH", "AGE", "WHY", "COMMAND"]);
    for group in shown {
        for (place, one) in group.iter().enumerate() {
            let [what, which, age] = match place {
                0 => [one.kind.as_str().to_owned(), one.which(), age_or_dash(one.since, now)],
                _ => [const { String::new() }; 3],
            };
            rows.row_with_command(&[what, which, age, one.why.clone()], &one.command);
            // One a line: two in one would be run together by whoever takes the whole line.
            for way in &one.ways {
                rows.row_with_command(&[const { String::new() }; 4], way);
            }
        }
    }
    rows.text()
}

/// Renders one thing: what, which and how old; and for each who waits there, why, and each command, which can be taken as
/// a whole line.
fn block(group: &[&Waiting], now: Timestamp) -> String {
    let mut lines = Vec::new();
    for one in group {
        if lines.is_empty() {
            let age = one.since.map_or_else(String::new, |_| format!("  {}", age_or_dash(one.since, now)));
            lines.push(format!("{}  {}{age}", one.kind.as_str(), one.which()));
        }
        lines.push(format!("  {}", one.why));
        lines.extend(std::iter::once(&one.command).chain(&one.ways).map(|command| format!("    {command}")));
    }
    lines.iter().map(|text| line(text) + "\n").collect()
}
