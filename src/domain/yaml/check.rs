//! Holds a tree against its shape and reports everything that does not fit.

use std::collections::BTreeSet;

use super::codes;
use super::problem::{LISTED_MAX, Problem, Source, Span};
use super::shape::{Choice, Form, Key, Need, Shape, duration_ms, duration_text};
use super::spelling::nearest;
use super::{Entry, Node, Style, Value};

/// Adds to `problems` all that does not fit `shape` in the tree `node` of `source`.
pub fn check(source: &Source, node: &Node, shape: &Shape, problems: &mut Vec<Problem>) {
    Checker { source, problems }.value(node, node.span, shape);
}

struct Checker<'a> {
    source: &'a Source,
    problems: &'a mut Vec<Problem>,
}

impl Checker<'_> {
    /// Checks one value; `place` is where to point when it is missing (its key).
    fn value(&mut self, node: &Node, place: Span, shape: &Shape) {
        match (shape, &node.value) {
            (_, Value::Refused) => {}
            (Shape::Any(shapes), _) => match shapes.iter().find(|shape| takes(shape, node)) {
                Some(shape) => self.value(node, place, shape),
                None => self.wrong_kind(node, place, shape),
            },
            (Shape::Bool, Value::Bool(_))
            | (Shape::Off(..), Value::Bool(false))
            | (Shape::Scalar, Value::Bool(_) | Value::Integer(_) | Value::Float(_) | Value::Text(..)) => {}
            (Shape::Off(code, why), Value::Bool(true)) => {
                let problem = self.source.problem(node.span, *code, *why);
                self.problems.push(problem.with_hint("write `false`, or remove the key"));
            }
            (Shape::NoItems(code, why), Value::List(items)) => {
                let refused = items.first().map(|item| self.source.problem(item.span, *code, *why));
                self.problems
                    .extend(refused.map(|problem| problem.with_hint("write `[]`, or remove the key")));
            }
            (Shape::Integer { min, max }, Value::Integer(value)) => {
                if value < min || value > max {
                    let message = format!("{value} is not between {min} and {max}");
                    self.bounds(node.span, &message, &format!("write a whole number from {min} to {max}"));
                }
            }
            (Shape::Duration { min_ms, max_ms }, Value::Text(text, _)) => {
                self.duration(node.span, text, *min_ms, *max_ms);
            }
            (Shape::Text(form), Value::Text(text, _)) => self.form(node.span, text, form),
            (Shape::Choice(choices), Value::Text(text, _)) => self.choice(node.span, text, choices),
            (Shape::List { of, min, max }, Value::List(items)) => self.list(node, items, of, *min, *max),
            (Shape::Map(keys), Value::Map(entries)) => self.map(place, entries, keys),
            (Shape::Table { key, of, max }, Value::Map(entries)) => self.table(place, entries, key, of, *max),
            _ => self.wrong_kind(node, place, shape),
        }
    }

    fn wrong_kind(&mut self, node: &Node, place: Span, shape: &Shape) {
        let wanted = wanted(shape);
        if node.value == Value::Null {
            let problem = self.source.problem(place, codes::WRONG_KIND, format!("{wanted} is missing here"));
            self.problems.push(problem.with_hint("write the value behind the colon, or remove the key"));
            return;
        }
        let message = format!("{wanted} is expected here, not {}", node.kind());
        let problem = self.source.problem(node.span, codes::WRONG_KIND, message);
        let hint = way_out(node, shape, self.source).unwrap_or_else(|| fitting(shape));
        self.problems.push(problem.with_hint(hint));
    }

    fn bounds(&mut self, span: Span, message: &str, hint: &str) {
        self.problems.push(self.source.problem(span, codes::OUT_OF_BOUNDS, message).with_hint(hint));
    }

    fn duration(&mut self, span: Span, text: &str, min_ms: u64, max_ms: u64) {
        match duration_ms(text) {
            None => {
                let problem = self.source.problem(span, codes::BAD_VALUE, "this is not a length of time");
                let allowed = length_allowed(min_ms, max_ms);
                self.problems
                    .push(problem.with_hint(format!("write a whole number and ms, s, m, h or d: {allowed}")));
            }
            Some(ms) if ms < min_ms || ms > max_ms => {
                let (min, max) = (duration_text(min_ms), duration_text(max_ms));
                let hint = format!("write {}", length_allowed(min_ms, max_ms));
                self.bounds(span, &format!("{text} is not between {min} and {max}"), &hint);
            }
            Some(_) => {}
        }
    }

    fn form(&mut self, span: Span, text: &str, form: &Form) {
        let units = crate::text::characters(text);
        if units > form.units_max {
            self.bounds(
                span,
                &format!("{} has at most {} characters, not {units}", form.name, form.units_max),
                "shorten it",
            );
        } else if !(form.accepts)(text) {
            let message = format!("this is not {}", form.name);
            let problem = self.source.problem(span, codes::BAD_VALUE, message);
            self.problems.push(problem.with_hint(format!("write it like `{}`", form.example)));
        }
    }

    fn choice(&mut self, span: Span, text: &str, choices: &[Choice]) {
        match choices.iter().find(|choice| choice.word == text) {
            Some(Choice { refused: Some((code, why)), .. }) => {
                let problem = self.source.problem(span, *code, *why);
                self.problems.push(problem.with_hint(words_allowed(choices)));
            }
            Some(_) => {}
            None => {
                let problem = self
                    .source
                    .problem(span, codes::BAD_VALUE, "this word is not known here")
                    .with_suggestion(nearest(text, choices.iter().map(|choice| choice.word)));
                self.problems.push(problem.with_hint(words_allowed(choices)));
            }
        }
    }

    fn list(&mut self, node: &Node, items: &[Node], of: &Shape, min: usize, max: usize) {
        if items.len() < min || items.len() > max {
            let message = match items.len() {
                0 => "the list is empty".to_owned(),
                count => format!("the list has {count} items; at least {min} and at most {max} are read"),
            };
            let hint = match min {
                0 => format!("list at most {max}"),
                _ => format!("list {min} to {max}, or remove the key if it may be left out"),
            };
            self.bounds(node.span, &message, &hint);
        }
        let mut seen = BTreeSet::new();
        // Past the bound nothing more is said: a huge list is one problem.
        for item in items.iter().take(max) {
            self.value(item, item.span, of);
            if let Value::Text(text, _) = &item.value
                && !seen.insert(text)
            {
                let problem =
                    self.source.problem(item.span, codes::REPEATED, "this stands in the list already");
                self.problems.push(problem.with_hint("remove it"));
            }
        }
    }

    fn map(&mut self, place: Span, entries: &[Entry], keys: &[Key]) {
        let mut meant: BTreeSet<&str> = BTreeSet::new();
        let mut unknown = 0;
        let present: BTreeSet<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
        for entry in entries {
            let Some(key) = keys.iter().find(|key| key.name == entry.key) else {
                unknown += 1;
                // The rest is counted and not listed: nobody needs to know what it might have been.
                if unknown > LISTED_MAX {
                    self.problems.push(self.source.problem(entry.key_span, codes::UNKNOWN_KEY, ""));
                } else {
                    meant.extend(self.unknown_key(entry, &present, keys));
                }
                continue;
            };
            match key.need {
                Need::Refused(code, why) => {
                    let problem = self.source.problem(entry.key_span, code, why);
                    self.problems.push(problem.with_hint("remove the key"));
                }
                Need::Required | Need::Optional => self.value(&entry.node, entry.key_span, &key.shape),
            }
        }
        for key in keys {
            let required = matches!(key.need, Need::Required);
            if required && !meant.contains(key.name) && !present.contains(key.name) {
                let message = format!("the key `{}` is missing", key.name);
                let problem = self.source.problem(place, codes::MISSING_KEY, message);
                self.problems.push(problem.with_hint(format!("{}: {}", key.name, key.about)));
            }
        }
    }

    /// Refuses an unknown key; returns the key that was probably meant.
    fn unknown_key(&mut self, entry: &Entry, present: &BTreeSet<&str>, keys: &[Key]) -> Option<&'static str> {
        let absent = |key: &&Key| !present.contains(key.name);
        let known = || keys.iter().filter(|key| key.is_usable());
        let near = nearest(&entry.key, known().filter(absent).map(|key| key.name))
            .or_else(|| nearest(&entry.key, keys.iter().map(|key| key.name)));
        let meant = keys.iter().map(|key| key.name).find(|name| Some(*name) == near);
        let names: Vec<&str> = known().map(|key| key.name).collect();
        let problem = self
            .source
            .problem(entry.key_span, codes::UNKNOWN_KEY, "this key is not known here")
            .with_suggestion(meant)
            .with_hint(format!("known here: {}", names.join(", ")));
        self.problems.push(problem);
        meant
    }

    fn table(&mut self, place: Span, entries: &[Entry], key: &Form, of: &Shape, max: usize) {
        if entries.len() > max {
            let message = format!("the map has {} entries; at most {max} are read", entries.len());
            self.bounds(place, &message, &format!("keep at most {max}"));
        }
        for entry in entries.iter().take(max) {
            self.form(entry.key_span, &entry.key, key);
            self.value(&entry.node, entry.key_span, of);
        }
    }
}

/// Tells whether a shape takes the kind of value that `node` holds.
fn takes(shape: &Shape, node: &Node) -> bool {
    match shape {
        Shape::Bool | Shape::Off(..) => matches!(node.value, Value::Bool(_)),
        Shape::Integer { .. } => matches!(node.value, Value::Integer(_)),
        Shape::Duration { .. } | Shape::Text(_) | Shape::Choice(_) => matches!(node.value, Value::Text(..)),
        Shape::Scalar => {
            matches!(node.value, Value::Bool(_) | Value::Integer(_) | Value::Float(_) | Value::Text(..))
        }
        Shape::List { .. } | Shape::NoItems(..) => matches!(node.value, Value::List(_)),
        Shape::Map(_) | Shape::Table { .. } => matches!(node.value, Value::Map(_)),
        Shape::Any(shapes) => shapes.iter().any(|shape| takes(shape, node)),
    }
}

/// Names what a shape wants.
fn wanted(shape: &Shape) -> String {
    match shape {
        Shape::Bool | Shape::Off(..) => "a boolean".to_owned(),
        Shape::Integer { .. } => "a whole number".to_owned(),
        Shape::Duration { .. } => "a length of time".to_owned(),
        Shape::Text(form) => form.name.to_owned(),
        Shape::Choice(_) => "a word".to_owned(),
        Shape::Scalar => "a boolean, a number or text".to_owned(),
        Shape::List { .. } | Shape::NoItems(..) => "a list".to_owned(),
        Shape::Map(_) | Shape::Table { .. } => "a map".to_owned(),
        Shape::Any(shapes) => {
            let names: Vec<String> = shapes.iter().map(wanted).collect();
            names.join(" or ")
        }
    }
}

/// Says which lengths of time are taken.
fn length_allowed(min_ms: u64, max_ms: u64) -> String {
    format!("a length of time from `{}` to `{}`", duration_text(min_ms), duration_text(max_ms))
}

/// Says which words are taken.
fn words_allowed(choices: &[Choice]) -> String {
    let usable = choices.iter().filter(|choice| choice.refused.is_none());
    let words: Vec<String> = usable.map(|choice| format!("`{}`", choice.word)).collect();
    if words.is_empty() { "remove it".to_owned() } else { format!("write {}", words.join(" or ")) }
}

/// Says what would fit a shape, whatever stands there.
fn fitting(shape: &Shape) -> String {
    match shape {
        Shape::Bool | Shape::Off(..) => "write `true` or `false`".to_owned(),
        Shape::Integer { min, max } => format!("write a whole number from {min} to {max}"),
        Shape::Duration { min_ms, max_ms } => format!("write {}", length_allowed(*min_ms, *max_ms)),
        Shape::Text(form) => format!("write it like `{}`", form.example),
        Shape::Choice(choices) => words_allowed(choices),
        Shape::Scalar => "write one word, number or text".to_owned(),
        Shape::List { of, .. } => {
            if let Shape::Text(form) = &**of {
                format!("write it as a list: [{}]", form.example)
            } else {
                "write it as a list, each item on a line of its own behind `- `".to_owned()
            }
        }
        Shape::NoItems(..) => "write `[]`, or remove the key".to_owned(),
        Shape::Map(keys) => {
            let names: Vec<&str> = keys.iter().filter(|key| key.is_usable()).map(|key| key.name).collect();
            format!("write it as a map of: {}", names.join(", "))
        }
        Shape::Table { key, .. } => format!("write it as a map, with keys like `{}`", key.example),
        Shape::Any(shapes) => shapes.first().map_or_else(String::new, fitting),
    }
}

/// Says how the value could be written so that it fits.
fn way_out(node: &Node, shape: &Shape, source: &Source) -> Option<String> {
    let range = node.span.offset..node.span.offset + node.span.length;
    let written = crate::text::excerpt(source.text().get(range)?, 60);
    match (shape, &node.value) {
        (Shape::List { of, .. }, Value::Text(..)) if takes(of, node) => {
            Some(format!("write it as a list: [{written}]"))
        }
        (Shape::Text(_) | Shape::Choice(_), Value::Bool(_) | Value::Integer(_) | Value::Float(_)) => {
            Some(format!("quote it: \"{written}\""))
        }
        (Shape::Integer { .. }, Value::Float(value)) if value.fract() == 0.0 => {
            Some(format!("write `{}`", written.split('.').next().unwrap_or_default()))
        }
        (Shape::Bool | Shape::Off(..), Value::Text(text, style)) if *style != Style::Plain => {
            matches!(text.as_str(), "true" | "false").then(|| format!("remove the quotes: {text}"))
        }
        (Shape::Integer { .. }, Value::Text(text, style)) if *style != Style::Plain => {
            text.parse::<i64>().is_ok().then(|| format!("remove the quotes: {text}"))
        }
        (Shape::Duration { min_ms, max_ms }, Value::Integer(value)) => {
            // Only what would be taken is suggested: no unit makes a length of a negative number.
            let units = ["s", "ms", "m", "h", "d"].map(|unit| format!("{value}{unit}"));
            let fits = |text: &&String| duration_ms(text).is_some_and(|ms| (*min_ms..=*max_ms).contains(&ms));
            units.iter().find(fits).map(|text| format!("add a unit, such as `{text}`"))
        }
        (Shape::Bool | Shape::Off(..), _) => Some("write `true` or `false`".to_owned()),
        (Shape::Any(shapes), _) => shapes.iter().find_map(|shape| way_out(node, shape, source)),
        _ => None,
    }
}
