//! What an accepted memory change makes of the document: its resulting bytes, or the code of why there are none.
//!
//! Nothing is read or written here. The base is the frozen version that the proposal names; whoever writes the result
//! has to find exactly these bytes on disk.

use super::call::Operation;
use super::capability::MemoryTarget;
use super::reason::ReasonCode;
use crate::content::Content;
use crate::hash::Sha256Hash;
use crate::text::is_hostile;
use crate::yaml::{Limits, Value, codes, frontmatter};

/// The longest id of a document in bytes, as the scan of a folder reads one.
const ID_BYTES_MAX: usize = 256;

/// Is the document as it would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Its bytes.
    pub bytes: Content<Vec<u8>>,
    /// Their hash.
    pub sha256: Sha256Hash,
    /// The id that its frontmatter names, as it did before.
    pub id: String,
}

/// Makes the document that `text` would give by `operation`, of at most `bytes_max` bytes.
///
/// # Errors
/// [`ReasonCode`] if the base is not the target, if either document has no identity or they have different ones, or if
/// the result is too large or nothing new.
pub fn change(
    target: &MemoryTarget,
    base: &[u8],
    operation: Operation,
    text: &str,
    bytes_max: u64,
) -> Result<Changed, ReasonCode> {
    if base.len() as u64 != target.bytes || Sha256Hash::of(base) != target.sha256 {
        return Err(ReasonCode::BaseDamaged);
    }
    let base = std::str::from_utf8(base).map_err(|_| ReasonCode::NotText)?;
    let before = identity(base)?;
    let result = match operation {
        Operation::Append => append(base, text),
        Operation::ReplaceDocument => text.to_owned(),
    };
    if result.contains('\0') {
        return Err(ReasonCode::NotText);
    }
    if result.len() as u64 > bytes_max {
        return Err(ReasonCode::TooLarge);
    }
    let id = identity(&result)?;
    if id != before {
        return Err(ReasonCode::IdChanged);
    }
    if result == base {
        return Err(ReasonCode::Unchanged);
    }
    let bytes = result.into_bytes();
    Ok(Changed { sha256: Sha256Hash::of(&bytes), bytes: Content::new(bytes), id })
}

/// Returns the base as it is and, on lines of its own, the text: without blank lines around it, with the base's line
/// ends, and with one at its end. A text of white space alone adds nothing.
#[must_use]
pub fn append(base: &str, text: &str) -> String {
    let text = normalized(text);
    if text.is_empty() {
        return base.to_owned();
    }
    let end = if base.contains("\r\n") { "\r\n" } else { "\n" };
    let mut out = base.to_owned();
    if !out.is_empty() && !out.ends_with('\n') {
        out.push_str(end);
    }
    for line in text.split('\n') {
        out.push_str(line);
        out.push_str(end);
    }
    out
}

/// Returns the text with `\n` between its lines, without blank lines before it and white space behind it.
#[must_use]
pub fn normalized(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let blank = |line: &&str| line.trim().is_empty();
    let lines: Vec<&str> = text.trim_end().split('\n').skip_while(blank).collect();
    lines.join("\n")
}

/// Returns the one nonempty id that a document's frontmatter names.
///
/// # Errors
/// [`ReasonCode`] if there is no frontmatter, if it cannot be read without a problem, or if it names none or two.
pub fn identity(text: &str) -> Result<String, ReasonCode> {
    let found = frontmatter("memory", text, Limits::FRONTMATTER).ok_or(ReasonCode::FrontmatterMissing)?;
    let reading = found.reading;
    let twice = |problem: &crate::yaml::Problem| {
        problem.code == codes::DUPLICATE_KEY && problem.text.trim_matches(['"', '\'']) == "id"
    };
    if reading.problems.iter().any(twice) {
        return Err(ReasonCode::IdTwice);
    }
    if !reading.problems.is_empty() {
        return Err(ReasonCode::FrontmatterMalformed);
    }
    let root = reading.root.filter(|root| matches!(root.value, Value::Map(_)));
    let root = root.ok_or(ReasonCode::FrontmatterMalformed)?;
    let id = match &root.get("id").ok_or(ReasonCode::IdMissing)?.value {
        Value::Text(text, _) => text.trim().to_owned(),
        Value::Integer(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Float(_) | Value::List(_) | Value::Map(_) | Value::Refused => {
            return Err(ReasonCode::IdMissing);
        }
    };
    let good = !id.is_empty() && id.len() <= ID_BYTES_MAX && !id.chars().any(is_hostile);
    if good { Ok(id) } else { Err(ReasonCode::IdMissing) }
}
