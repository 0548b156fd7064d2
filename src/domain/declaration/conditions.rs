//! The `where` of a subscription: from written predicates to typed ones.

use std::collections::BTreeSet;

use super::compile::Compiler;
use super::keys::CONDITIONS_MAX;
use super::{FieldKind, PromotedField, codes};
use crate::event::ActorKind;
use crate::id::TypeName;
use crate::subscription::{Column, Condition, Field, Predicate, Scalar};
use crate::time::Timestamp;
use crate::yaml::{Entry, Node, Value as Yaml, nearest};

/// What a field may be compared with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Text,
    Number,
    Bool,
    Time,
    Any,
}

impl Compiler<'_> {
    /// Reads the conditions; `accepted` are the types that could match, `exact` those of them named one by one.
    pub(super) fn conditions(
        &mut self,
        node: Option<&Node>,
        accepted: &BTreeSet<TypeName>,
        exact: &BTreeSet<TypeName>,
    ) -> Option<Vec<Condition>> {
        let Some(node) = node else { return Some(Vec::new()) };
        let entries = node.entries();
        let read =
            entries.iter().take(CONDITIONS_MAX).filter_map(|entry| self.condition(entry, accepted, exact));
        let mut conditions: Vec<Condition> = read.collect();
        let complete = conditions.len() == entries.len() && matches!(node.value, Yaml::Map(_));
        conditions.sort_by(|one, other| one.field.cmp(&other.field));
        complete.then_some(conditions)
    }

    fn condition(
        &mut self,
        entry: &Entry,
        accepted: &BTreeSet<TypeName>,
        exact: &BTreeSet<TypeName>,
    ) -> Option<Condition> {
        let field = Field::parse(&entry.key)?;
        let wanted = match &field {
            Field::Column(column) => column_kind(*column),
            Field::Payload(name) => self.promoted(entry, name, accepted, exact)?,
        };
        let predicate = self.predicate(&entry.node, wanted)?;
        if field == Field::Column(Column::ActorKind) {
            self.actor_kinds(&entry.node)?;
        }
        Some(Condition { field, predicate })
    }

    /// Finds what a payload field holds in the types that promote it.
    fn promoted(
        &mut self,
        entry: &Entry,
        name: &str,
        accepted: &BTreeSet<TypeName>,
        exact: &BTreeSet<TypeName>,
    ) -> Option<Wanted> {
        let fields = |kind: &TypeName| self.catalog.types.get(kind).map_or(&[][..], Vec::as_slice);
        let find = |kind: &TypeName| fields(kind).iter().find(|field| field.name == name);
        let kinds: Vec<FieldKind> =
            accepted.iter().filter_map(find).map(|field: &PromotedField| field.kind).collect();
        let lacking = exact.iter().find(|kind| find(kind).is_none());
        if accepted.is_empty() {
            // The types were refused already; nothing can be said about their fields.
            return None;
        }
        if kinds.is_empty() || lacking.is_some() {
            let names: BTreeSet<&str> =
                accepted.iter().flat_map(fields).map(|field| field.name.as_str()).collect();
            let message = match lacking {
                Some(kind) if !kinds.is_empty() => {
                    format!("`{kind}` does not promote this field, so it never matches")
                }
                Some(_) | None => "no subscribed type promotes this field".to_owned(),
            };
            let near = nearest(name, names.iter().copied()).map(|name| format!("payload.{name}"));
            let listed: Vec<String> = names.iter().map(|name| format!("payload.{name}")).collect();
            let problem = self.source.problem(entry.key_span, codes::UNKNOWN_FIELD, message);
            let problem = problem.with_suggestion(near);
            self.problems.push(if listed.is_empty() {
                problem.with_hint("the subscribed types promote no field")
            } else {
                problem.with_hint(format!("promoted here: {}", listed.join(", ")))
            });
            return None;
        }
        let first = kinds[0];
        Some(if kinds.iter().all(|kind| *kind == first) { wanted_of(first) } else { Wanted::Any })
    }

    fn predicate(&mut self, node: &Node, wanted: Wanted) -> Option<Predicate> {
        match &node.value {
            Yaml::List(items) => self.scalars(items, wanted).map(Predicate::OneOf),
            Yaml::Map(entries) => self.named_predicate(node, entries, wanted),
            Yaml::Bool(_) | Yaml::Integer(_) | Yaml::Float(_) | Yaml::Text(..) => {
                self.scalar(node, wanted).map(Predicate::Equals)
            }
            Yaml::Null | Yaml::Refused => None,
        }
    }

    fn named_predicate(&mut self, node: &Node, entries: &[Entry], wanted: Wanted) -> Option<Predicate> {
        let range = node.get("min").is_some() || node.get("max").is_some();
        let named = ["equals", "in", "prefix"].into_iter().filter(|key| node.get(key).is_some()).count();
        if named + usize::from(range) != 1 {
            let message =
                if entries.is_empty() { "no predicate is given" } else { "several predicates are given" };
            let hint = "write one of `equals`, `in`, `prefix`, or `min` and `max` together";
            self.refuse(node.span, codes::PREDICATE, message, hint);
            return None;
        }
        if let Some(value) = node.get("equals") {
            return self.scalar(value, wanted).map(Predicate::Equals);
        }
        if let Some(values) = node.get("in") {
            return self.scalars(values.items(), wanted).map(Predicate::OneOf);
        }
        if let Some(prefix) = node.get("prefix") {
            if !matches!(wanted, Wanted::Text | Wanted::Any) {
                self.refuse(
                    prefix.span,
                    codes::PREDICATE,
                    "only text has a prefix",
                    "use `equals`, `in`, `min` or `max`",
                );
                return None;
            }
            return prefix.text().map(|text| Predicate::Prefix(text.to_owned()));
        }
        self.range(node, wanted)
    }

    fn range(&mut self, node: &Node, wanted: Wanted) -> Option<Predicate> {
        let min = node.get("min").map(|bound| self.scalar(bound, wanted));
        let max = node.get("max").map(|bound| self.scalar(bound, wanted));
        // A bound that was refused is reported; an absent one is simply open.
        let (min, max) = (
            min.map_or(Some(None), |bound| bound.map(Some))?,
            max.map_or(Some(None), |bound| bound.map(Some))?,
        );
        if wanted == Wanted::Bool
            || matches!((&min, &max), (Some(Scalar::Bool(_)), _) | (_, Some(Scalar::Bool(_))))
        {
            self.refuse(node.span, codes::PREDICATE, "a boolean has no range", "use `equals`");
            return None;
        }
        let reversed = match (&min, &max) {
            (Some(Scalar::Integer(min)), Some(Scalar::Integer(max))) => min > max,
            (Some(Scalar::Float(min)), Some(Scalar::Float(max))) => min > max,
            (Some(Scalar::Text(min)), Some(Scalar::Text(max))) => min > max,
            (Some(Scalar::Time(min)), Some(Scalar::Time(max))) => min > max,
            _ => false,
        };
        if reversed {
            self.refuse(
                node.span,
                codes::PREDICATE,
                "the smallest value is larger than the largest",
                "swap the two",
            );
            return None;
        }
        Some(Predicate::Range { min, max })
    }

    fn scalars(&mut self, items: &[Node], wanted: Wanted) -> Option<Vec<Scalar>> {
        let read: Vec<Scalar> = items.iter().filter_map(|item| self.scalar(item, wanted)).collect();
        if read.len() != items.len() {
            return None;
        }
        let mut sorted: Vec<(String, Scalar)> =
            read.into_iter().map(|scalar| (scalar.to_json().to_string(), scalar)).collect();
        sorted.sort_by(|one, other| one.0.cmp(&other.0));
        sorted.dedup_by(|one, other| one.0 == other.0);
        Some(sorted.into_iter().map(|(_, scalar)| scalar).collect())
    }

    /// Reads a value to compare with, if the field can hold such a value.
    fn scalar(&mut self, node: &Node, wanted: Wanted) -> Option<Scalar> {
        let fits = match (&node.value, wanted) {
            (Yaml::Refused | Yaml::Null | Yaml::List(_) | Yaml::Map(_), _) => return None,
            (Yaml::Text(text, _), Wanted::Time) => {
                if let Ok(time) = Timestamp::parse(text) {
                    return Some(Scalar::Time(time));
                }
                let hint = "write it like 2026-01-31T09:30:00Z";
                self.refuse(node.span, codes::PREDICATE, "this is not a point in time", hint);
                return None;
            }
            (Yaml::Text(..), Wanted::Text | Wanted::Any)
            | (Yaml::Integer(_) | Yaml::Float(_), Wanted::Number | Wanted::Any)
            | (Yaml::Bool(_), Wanted::Bool | Wanted::Any) => true,
            (Yaml::Text(..) | Yaml::Integer(_) | Yaml::Float(_) | Yaml::Bool(_), _) => false,
        };
        if !fits {
            let holds = match wanted {
                Wanted::Text => "text",
                Wanted::Number => "a number",
                Wanted::Bool => "a boolean",
                Wanted::Time => "a point in time",
                Wanted::Any => "a value",
            };
            let message = format!("this field holds {holds}, so it never equals {}", node.kind());
            self.refuse(node.span, codes::PREDICATE, message, &format!("compare it with {holds}"));
            return None;
        }
        Some(match &node.value {
            Yaml::Bool(value) => Scalar::Bool(*value),
            Yaml::Integer(value) => Scalar::Integer(*value),
            Yaml::Float(value) => Scalar::Float(*value),
            Yaml::Text(text, _) => Scalar::Text(text.clone()),
            Yaml::Null | Yaml::List(_) | Yaml::Map(_) | Yaml::Refused => return None,
        })
    }

    /// Refuses kinds of actor that do not exist.
    fn actor_kinds(&mut self, node: &Node) -> Option<()> {
        let named = [Some(node), node.get("equals")].into_iter().flatten();
        let listed = [Some(node), node.get("in")].into_iter().flatten().flat_map(Node::items);
        let known = || ActorKind::ALL.into_iter().map(ActorKind::as_str);
        let unknown = named
            .chain(listed)
            .find(|item| item.text().is_some_and(|text| !known().any(|kind| kind == text)));
        let Some(item) = unknown else { return Some(()) };
        let problem = self.source.problem(item.span, codes::PREDICATE, "there is no such kind of actor");
        let problem = problem.with_suggestion(nearest(item.text().unwrap_or_default(), known()));
        let kinds: Vec<&str> = known().collect();
        self.problems.push(problem.with_hint(format!("the kinds are {}", kinds.join(", "))));
        None
    }
}

const fn column_kind(column: Column) -> Wanted {
    match column {
        Column::Version | Column::Sequence | Column::Depth => Wanted::Number,
        Column::OccurredAt | Column::RecordedAt => Wanted::Time,
        Column::ActorKind | Column::ActorId | Column::Key | Column::External | Column::Correlation => {
            Wanted::Text
        }
    }
}

const fn wanted_of(kind: FieldKind) -> Wanted {
    match kind {
        FieldKind::Text => Wanted::Text,
        FieldKind::Number => Wanted::Number,
        FieldKind::Bool => Wanted::Bool,
        FieldKind::Any => Wanted::Any,
    }
}
