//! Holds a tree against its shape and reports everything that does not fit.

use std::collections::BTreeSet;

use super::codes;
use super::problem::{Problem, Source, Span};
use super::shape::{Choice, Form, Key, Need, Shape, duration_ms, duration_text};
use super::spelling::nearest;
use super::{Entry, Node, Style, Value};

/// Adds to `problems` all that does not fit `shape` in the tree `node` of `source`.
pub fn check(source: &Source, node: &Node, shape: &Shape, problems: &mut Vec<Problem>) {
    Checker { source, problems }.value(node, node.span, shape);
}

/// A map with more unknown keys than this is another kind of file; the rest of them is not listed.
const UNKNOWN_KEYS_MAX: usize = 25;

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
                self.problems.push(self.source.problem(node.span, *code, *why));
            }
            (Shape::NoItems(code, why), Value::List(items)) => {
                let refused = items.first().map(|item| self.source.problem(item.span, *code, *why));
                self.problems.extend(refused);
            }
            (Shape::Integer { min, max }, Value::Integer(value)) => {
                if value < min || value > max {
                    self.bounds(node.span, &format!("{value} is not between {min} and {max}"));
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
        self.problems.push(match way_out(node, shape, self.source) {
            Some(hint) => problem.with_hint(hint),
            None => problem,
        });
    }

    fn bounds(&mut self, span: Span, message: &str) {
        self.problems.push(self.source.problem(span, codes::OUT_OF_BOUNDS, message));
    }

    fn duration(&mut self, span: Span, text: &str, min_ms: u64, max_ms: u64) {
        match duration_ms(text) {
            None => {
                let problem = self.source.problem(span, codes::BAD_VALUE, "this is not a length of time");
                self.problems
                    .push(problem.with_hint("write a whole number and ms, s, m, h or d, such as `2s`"));
            }
            Some(ms) if ms < min_ms || ms > max_ms => {
                let (min, max) = (duration_text(min_ms), duration_text(max_ms));
                self.bounds(span, &format!("{text} is not between {min} and {max}"));
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
                self.problems.push(self.source.problem(span, *code, *why));
            }
            Some(_) => {}
            None => {
                let usable =
                    || choices.iter().filter(|choice| choice.refused.is_none()).map(|choice| choice.word);
                let words: Vec<String> = usable().map(|word| format!("`{word}`")).collect();
                let problem = self
                    .source
                    .problem(span, codes::BAD_VALUE, "this word is not known here")
                    .with_suggestion(nearest(text, choices.iter().map(|choice| choice.word)));
                self.problems.push(if words.is_empty() {
                    problem
                } else {
                    problem.with_hint(format!("write {}", words.join(" or ")))
                });
            }
        }
    }

    fn list(&mut self, node: &Node, items: &[Node], of: &Shape, min: usize, max: usize) {
        if items.len() < min || items.len() > max {
            let message = match items.len() {
                0 => "the list is empty".to_owned(),
                count => format!("the list has {count} items; at least {min} and at most {max} are read"),
            };
            self.bounds(node.span, &message);
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
        for entry in entries {
            let Some(key) = keys.iter().find(|key| key.name == entry.key) else {
                unknown += 1;
                if unknown <= UNKNOWN_KEYS_MAX {
                    meant.extend(self.unknown_key(entry, entries, keys));
                }
                continue;
            };
            match key.need {
                Need::Refused(code, why) => {
                    self.problems.push(self.source.problem(entry.key_span, code, why))
                }
                Need::Required | Need::Optional => self.value(&entry.node, entry.key_span, &key.shape),
            }
        }
        for key in keys {
            let required = matches!(key.need, Need::Required);
            if required && !meant.contains(key.name) && !entries.iter().any(|entry| entry.key == key.name) {
                let message = format!("the key `{}` is missing", key.name);
                let problem = self.source.problem(place, codes::MISSING_KEY, message);
                self.problems.push(problem.with_hint(format!("{}: {}", key.name, key.about)));
            }
        }
    }

    /// Refuses an unknown key; returns the key that was probably meant.
    fn unknown_key(&mut self, entry: &Entry, entries: &[Entry], keys: &[Key]) -> Option<&'static str> {
        let absent = |key: &&Key| !entries.iter().any(|entry| entry.key == key.name);
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
            self.bounds(place, &format!("the map has {} entries; at most {max} are read", entries.len()));
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
        (Shape::Duration { .. }, Value::Integer(value)) => Some(format!("add a unit, such as `{value}s`")),
        (Shape::Bool | Shape::Off(..), _) => Some("write `true` or `false`".to_owned()),
        (Shape::Any(shapes), _) => shapes.iter().find_map(|shape| way_out(node, shape, source)),
        _ => None,
    }
}
