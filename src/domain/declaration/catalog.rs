//! What a declaration may name: the registered event types with their promoted fields, and the transforms.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::id::{TypeName, TypeRef};
use crate::registry::{Definition, Registry};
use crate::transform;

/// What a promoted payload field holds, as far as its schema says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// Text.
    Text,
    /// A number, whole or not.
    Number,
    /// A boolean.
    Bool,
    /// Anything else, or several kinds.
    Any,
}

/// A payload field that `where` may test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromotedField {
    /// Its name in the payload.
    pub name: String,
    /// What it holds; of a list, what its items are.
    pub kind: FieldKind,
}

/// A deterministic transform, as far as a declaration must know it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TransformInfo {
    /// The event types it reads.
    pub accepts: BTreeSet<TypeName>,
    /// The event types it writes.
    pub emits: BTreeSet<TypeName>,
}

/// Everything that declarations are checked against.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// The registered types, each with its promoted fields.
    pub types: BTreeMap<TypeName, Vec<PromotedField>>,
    /// Every registered version of every type.
    pub versions: BTreeSet<TypeRef>,
    /// The transforms by name.
    pub transforms: BTreeMap<String, TransformInfo>,
    /// The provider profiles by name; `None` where no configuration is at hand, and they are not checked.
    pub providers: Option<BTreeMap<String, ProviderInfo>>,
}

/// A provider profile, as far as a declaration must know it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProviderInfo {
    /// The models that may be asked.
    pub models: BTreeSet<String>,
}

impl Catalog {
    /// Takes the newest version of every type of `registry`, and the transforms that ship.
    #[must_use]
    pub fn of(registry: &Registry) -> Self {
        let mut types = BTreeMap::new();
        let versions = registry.definitions().map(|definition| definition.kind().clone()).collect();
        for definition in registry.definitions() {
            // Definitions come in order of version, so the newest one stays.
            types.insert(definition.kind().name.clone(), promoted(definition));
        }
        let names = |names: &[&str]| names.iter().filter_map(|name| TypeName::parse(name).ok()).collect();
        let transforms = transform::known().iter().map(|known| {
            let info = TransformInfo { accepts: names(known.accepts), emits: names(known.emits) };
            (known.name.to_owned(), info)
        });
        Self { types, versions, transforms: transforms.collect(), providers: None }
    }
}

fn promoted(definition: &Definition) -> Vec<PromotedField> {
    let field = |name: &String| {
        let property = definition.schema().get("properties").and_then(|properties| properties.get(name));
        let kind = property.map_or(FieldKind::Any, |property| kind(definition.schema(), property));
        PromotedField { name: name.clone(), kind }
    };
    definition.promoted().iter().map(field).collect()
}

/// Reads what a schema lets a field hold; of a list, what its items are.
fn kind(root: &Value, property: &Value) -> FieldKind {
    let property = resolved(root, property);
    match property.get("items") {
        Some(items) if property.get("type").and_then(Value::as_str) == Some("array") => {
            single_kind(resolved(root, items))
        }
        Some(_) | None => single_kind(property),
    }
}

/// Follows one reference within the file; a chain of them is not read.
fn resolved<'a>(root: &'a Value, property: &'a Value) -> &'a Value {
    let pointer =
        property.get("$ref").and_then(Value::as_str).and_then(|reference| reference.strip_prefix('#'));
    pointer.and_then(|pointer| root.pointer(pointer)).unwrap_or(property)
}

fn single_kind(property: &Value) -> FieldKind {
    match property.get("type").and_then(Value::as_str) {
        Some("string") => FieldKind::Text,
        Some("integer" | "number") => FieldKind::Number,
        Some("boolean") => FieldKind::Bool,
        Some(_) | None => FieldKind::Any,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_types_and_transforms_are_known() {
        let catalog = Catalog::of(&Registry::shipped());
        let added = TypeName::parse("stream.thought.source.file.added").unwrap();
        let field = |name: &str| catalog.types[&added].iter().find(|f| f.name == name).map(|f| f.kind);
        assert_eq!(field("path"), Some(FieldKind::Text));
        assert_eq!(field("bytes"), Some(FieldKind::Number));
        assert_eq!(field("documentId"), Some(FieldKind::Text));
        let transform = &catalog.transforms["document-structure"];
        assert!(transform.accepts.contains(&added) && transform.emits.len() == 1);
    }
}
