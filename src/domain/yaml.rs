//! The one strict YAML front: declarations, configuration and Markdown frontmatter come in through [`read`].
//!
//! A text passes three doors. [`scan`] refuses by one linear pass what must not reach any parser. The marked reader
//! ([`reader`]) reads our subset (block and flow maps and lists, plain and quoted words, literal and folded blocks,
//! comments), keeps the place of everything and goes on after a problem, so that all of them are reported. A text
//! without problems is then read by `serde_yaml`, whose values are the ones that count; where the two disagree the
//! text is refused. What an unquoted word means is in [`scalar`]; what a file may contain is a table in [`shape`].

mod adopt;
mod check;
mod flow;
mod frontmatter;
mod lines;
mod problem;
mod reader;
mod scalar;
mod scan;
mod schema;
mod shape;
mod spelling;
mod text;
mod write;

pub use check::check;
pub use frontmatter::{Frontmatter, frontmatter};
pub use problem::{Code, Problem, Source, Span, listed, render_all};
pub use scalar::INTEGER_MAX;
pub use schema::json_schema;
pub use shape::{Choice, Form, Key, Need, Shape, duration_ms, duration_text};
pub use spelling::nearest;
pub use write::write;

/// The kinds of problem that reading can find.
pub mod codes {
    use super::Code;

    /// The text is longer than its kind may be.
    pub const TOO_LARGE: Code = Code::new("yaml.too-large");
    /// The bytes are not UTF-8.
    pub const NOT_UTF8: Code = Code::new("yaml.not-utf8");
    /// The text starts with a byte order mark.
    pub const BYTE_ORDER_MARK: Code = Code::new("yaml.byte-order-mark");
    /// A control character, or a line separator that readers count differently.
    pub const CHARACTER: Code = Code::new("yaml.character");
    /// A tab where indentation or a separating space belongs.
    pub const TAB: Code = Code::new("yaml.tab");
    /// Lists, maps or brackets nest deeper than is read.
    pub const TOO_DEEP: Code = Code::new("yaml.too-deep");
    /// A second document starts, or an end marker stands, in the file.
    pub const SECOND_DOCUMENT: Code = Code::new("yaml.second-document");
    /// A line starts with `%`.
    pub const DIRECTIVE: Code = Code::new("yaml.directive");
    /// An anchor (`&name`).
    pub const ANCHOR: Code = Code::new("yaml.anchor");
    /// An alias (`*name`).
    pub const ALIAS: Code = Code::new("yaml.alias");
    /// A tag (`!name`).
    pub const TAG: Code = Code::new("yaml.tag");
    /// A merge key (`<<`).
    pub const MERGE_KEY: Code = Code::new("yaml.merge-key");
    /// A key stands twice in one map.
    pub const DUPLICATE_KEY: Code = Code::new("yaml.duplicate-key");
    /// A key that is not text.
    pub const KEY: Code = Code::new("yaml.key");
    /// An unquoted word that readers understand differently.
    pub const AMBIGUOUS: Code = Code::new("yaml.ambiguous");
    /// Indentation that fits no block above.
    pub const INDENTATION: Code = Code::new("yaml.indentation");
    /// Anything else that is not in the subset.
    pub const SYNTAX: Code = Code::new("yaml.syntax");
    /// A backslash sequence that is not read.
    pub const ESCAPE: Code = Code::new("yaml.escape");
    /// The two readers disagree about the text.
    pub const DISAGREEMENT: Code = Code::new("yaml.disagreement");
    /// More problems were found than are reported.
    pub const MORE: Code = Code::new("yaml.more-problems");
    /// A key that is not known there.
    pub const UNKNOWN_KEY: Code = Code::new("shape.unknown-key");
    /// A key that must be there is not.
    pub const MISSING_KEY: Code = Code::new("shape.missing-key");
    /// A value of another kind than is wanted.
    pub const WRONG_KIND: Code = Code::new("shape.wrong-kind");
    /// A value of the right kind that is not allowed.
    pub const BAD_VALUE: Code = Code::new("shape.bad-value");
    /// A number, a text or a list outside its bounds.
    pub const OUT_OF_BOUNDS: Code = Code::new("shape.out-of-bounds");
    /// An item stands twice in a list that holds each once.
    pub const REPEATED: Code = Code::new("shape.repeated");
}

/// Bounds that the caller sets for one kind of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest text that is read, in bytes.
    pub bytes_max: usize,
}

impl Limits {
    /// A declaration is a page or two; 64 KiB leaves room for comments.
    pub const DECLARATION: Self = Self { bytes_max: 64 * 1024 };
    /// Configuration has the size of a declaration.
    pub const CONFIG: Self = Self { bytes_max: 64 * 1024 };
    /// Frontmatter may come from a model; 16 KiB holds any that a person would write.
    pub const FRONTMATTER: Self = Self { bytes_max: 16 * 1024 };
    /// Brackets nest at most this deep; our own shapes need three.
    pub const FLOW_DEPTH_MAX: usize = 16;
    /// Indented blocks nest at most this deep; our own shapes need four.
    pub const BLOCK_DEPTH_MAX: usize = 24;
    /// More problems than this in one file help nobody; reading stops there.
    pub const PROBLEMS_MAX: usize = 100;
}

/// How a text was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Without quotes.
    Plain,
    /// In `'single'` quotes.
    SingleQuoted,
    /// In `"double"` quotes.
    DoubleQuoted,
    /// As a block after `|`.
    Literal,
    /// As a block after `>`.
    Folded,
}

/// A value with its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// What it is.
    pub value: Value,
    /// Where it stands.
    pub span: Span,
}

/// What a node holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Nothing, or `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number, within ±[`INTEGER_MAX`].
    Integer(i64),
    /// A finite number written with a fraction.
    Float(f64),
    /// Text, and how it was written.
    Text(String, Style),
    /// A list.
    List(Vec<Node>),
    /// A map in the order it was written; keys are unique.
    Map(Vec<Entry>),
    /// Something that was refused; the problem is already reported, so later checks pass it by.
    Refused,
}

/// One key of a map with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key stands.
    pub key_span: Span,
    /// What it maps to.
    pub node: Node,
}

impl Node {
    /// Returns the entries of a map, or nothing for any other value.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        if let Value::Map(entries) = &self.value { entries } else { &[] }
    }

    /// Returns the items of a list, or nothing for any other value.
    #[must_use]
    pub fn items(&self) -> &[Self] {
        if let Value::List(items) = &self.value { items } else { &[] }
    }

    /// Returns the entry of a map under `key`.
    #[must_use]
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// Returns the value of a map under `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.entry(key).map(|entry| &entry.node)
    }

    /// Returns the text of a text.
    #[must_use]
    pub const fn text(&self) -> Option<&str> {
        if let Value::Text(text, _) = &self.value { Some(text.as_str()) } else { None }
    }

    /// Returns the value of a boolean.
    #[must_use]
    pub const fn bool(&self) -> Option<bool> {
        if let Value::Bool(value) = self.value { Some(value) } else { None }
    }

    /// Returns the value of a whole number.
    #[must_use]
    pub const fn integer(&self) -> Option<i64> {
        if let Value::Integer(value) = self.value { Some(value) } else { None }
    }

    /// Returns the value as JSON; what was refused becomes null.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.value {
            Value::Null | Value::Refused => Json::Null,
            Value::Bool(value) => Json::Bool(*value),
            Value::Integer(value) => Json::from(*value),
            Value::Float(value) => Json::from(*value),
            Value::Text(text, _) => Json::String(text.clone()),
            Value::List(items) => Json::Array(items.iter().map(Self::to_json).collect()),
            Value::Map(entries) => {
                Json::Object(entries.iter().map(|entry| (entry.key.clone(), entry.node.to_json())).collect())
            }
        }
    }

    /// Names the kind of value for a message.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "nothing",
            Value::Bool(_) => "a boolean",
            Value::Integer(_) => "a whole number",
            Value::Float(_) => "a number with a fraction",
            Value::Text(..) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
            Value::Refused => "a refused value",
        }
    }
}

/// A text that was read: its tree as far as it could be understood, and all that is wrong with it.
#[derive(Debug, Clone)]
pub struct Reading {
    /// The text, for problems that are found later.
    pub source: Source,
    /// The tree; absent when the text could not be read at all.
    pub root: Option<Node>,
    /// All problems, in the order of the text.
    pub problems: Vec<Problem>,
}

/// Reads one YAML document from `bytes`, reporting every problem under the file name `name`.
#[must_use]
pub fn read(name: &str, bytes: &[u8], limits: Limits) -> Reading {
    read_below(name, bytes, limits, 0)
}

/// Reads a document that starts below `lines_above` lines of its file.
fn read_below(name: &str, bytes: &[u8], limits: Limits, lines_above: u32) -> Reading {
    let mut problems = Vec::new();
    let scanned = scan::scan(name, bytes, limits, lines_above, &mut problems);
    if scanned.stop {
        return Reading { source: scanned.source, root: None, problems };
    }
    let source = scanned.source;
    let mut root = reader::Reader::new(&source, scanned.end, &mut problems).document();
    if problems.is_empty()
        && let Err(problem) = adopt::adopt(&source, &mut root)
    {
        problems.push(*problem);
    }
    problems.sort_by(|one, other| one.order().cmp(&other.order()));
    Reading { source, root: Some(root), problems }
}

#[cfg(test)]
mod tests;
