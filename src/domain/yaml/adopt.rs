//! The second reading: `serde_yaml` gives the values, the marked tree their places.
//!
//! The two readers were written by different people from different texts. A document counts only where they agree,
//! so a mistake in either becomes a refusal instead of a silent change of meaning.

use serde_yaml::Value as Yaml;

use super::problem::{Problem, Source, Span};
use super::{Node, Value, codes};

/// Replaces the values of the marked tree by those of `serde_yaml`.
///
/// # Errors
///
/// Returns the place of the first difference, or where `serde_yaml` cannot read the text.
pub(super) fn adopt(source: &Source, root: &mut Node) -> Result<(), Box<Problem>> {
    if root.value == Value::Null {
        return Ok(());
    }
    let yaml: Yaml = match serde_yaml::from_str(source.text()) {
        Ok(yaml) => yaml,
        Err(error) => {
            let at = error.location().map_or(0, |location| location.index());
            return Err(Box::new(disagreement(source, source.span(at.min(source.text().len()), 0))));
        }
    };
    take(root, yaml).map_err(|span| Box::new(disagreement(source, span)))
}

fn disagreement(source: &Source, span: Span) -> Problem {
    source
        .problem(span, codes::DISAGREEMENT, "two YAML readers understand this differently")
        .with_hint("put quotes around the text, or write it in a simpler form")
}

/// Moves `yaml` into `node`, or returns where they differ.
fn take(node: &mut Node, yaml: Yaml) -> Result<(), Span> {
    let span = node.span;
    match (&mut node.value, yaml) {
        (Value::Null, Yaml::Null) => Ok(()),
        (Value::Bool(ours), Yaml::Bool(theirs)) if *ours == theirs => Ok(()),
        (Value::Integer(ours), Yaml::Number(theirs)) if theirs.as_i64() == Some(*ours) => Ok(()),
        (Value::Float(ours), Yaml::Number(theirs)) => {
            let same = theirs.is_f64() && theirs.as_f64().map(f64::to_bits) == Some(ours.to_bits());
            if same { Ok(()) } else { Err(span) }
        }
        (Value::Text(ours, _), Yaml::String(theirs)) if *ours == theirs => {
            *ours = theirs;
            Ok(())
        }
        (Value::List(items), Yaml::Sequence(theirs)) if items.len() == theirs.len() => {
            items.iter_mut().zip(theirs).try_for_each(|(item, yaml)| take(item, yaml))
        }
        (Value::Map(entries), Yaml::Mapping(theirs)) if entries.len() == theirs.len() => {
            for (entry, (key, yaml)) in entries.iter_mut().zip(theirs) {
                let Yaml::String(key) = key else { return Err(entry.key_span) };
                if key != entry.key {
                    return Err(entry.key_span);
                }
                entry.key = key;
                take(&mut entry.node, yaml)?;
            }
            Ok(())
        }
        _ => Err(span),
    }
}
