//! What a run's model saw, read back from its sealed packet, and how two of them differ.
//!
//! Nothing is asked of anybody: a packet is inspected, never replayed. Texts leave only if they are asked for.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::{ConsumerKey, EventId, ExecutionId};
use thoughtstream_domain::packet::manifest::Manifest;
use thoughtstream_domain::packet::{
    Capabilities, ContractRevision, DocumentReference, ImageArtifact, Packet, PromptRevision, Runtime,
};
use thoughtstream_domain::provider::{Message, Part};
use thoughtstream_domain::text::characters;
use thoughtstream_store::{Reader, SnapshotError};

use super::runs::find_execution;
use crate::exit::Exit;
use crate::failure::Failure;

/// Is what one run's model saw.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContextReport {
    /// The execution that the packet belongs to: all its attempts saw the same.
    pub execution: ExecutionId,
    /// The consumer version.
    pub consumer: ConsumerKey,
    /// The hash of the packet; its bytes were just held against it.
    pub sha256: Sha256Hash,
    /// The packet's size.
    pub bytes: u64,
    /// What the run may do, and the class of everything in the packet.
    pub capabilities: Capabilities,
    /// Who executes it.
    pub runtime: Runtime,
    /// The prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<PromptRevision>,
    /// The contract of the answer.
    pub contract: ContractRevision,
    /// How the model is asked: everything of the request but its messages.
    pub asking: Value,
    /// The triggers, in order.
    pub triggers: Vec<EventId>,
    /// The document versions in it.
    pub documents: Vec<DocumentReference>,
    /// The images of the current message.
    pub images: Vec<ImageArtifact>,
    /// The messages, in order.
    pub messages: Vec<MessageRow>,
    /// What was left out, cut or changed.
    pub manifest: Manifest,
}

/// Is one message of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageRow {
    /// Whose it is.
    pub role: String,
    /// Its length in UTF-16 code units.
    pub chars: u64,
    /// The hash of its text.
    pub sha256: Sha256Hash,
    /// Its text, if it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// Is how what two runs' models saw differs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContextDiff {
    /// The first execution.
    pub one: ExecutionId,
    /// The second.
    pub other: ExecutionId,
    /// Whether both packets have the same bytes.
    pub same: bool,
    /// What is said once and otherwise: names with both values.
    pub fields: Vec<FieldDiff>,
    /// The messages of both in one order: shared ones, those of the first alone, those of the second alone.
    pub messages: Vec<MessageDiff>,
    /// What the one holds and the other leaves out, or the other way round, by id.
    pub candidates: Vec<CandidateDiff>,
}

/// Is a value that differs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldDiff {
    /// Its name.
    pub name: String,
    /// What the first says.
    pub one: Value,
    /// What the second says.
    pub other: Value,
}

/// Says where a message stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// In both.
    Both,
    /// In the first alone.
    One,
    /// In the second alone.
    Other,
}

/// Is a message of either or both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageDiff {
    /// Where it stands.
    pub side: Side,
    /// The message.
    pub message: MessageRow,
}

/// Is a candidate that fared differently.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CandidateDiff {
    /// Its event, document or path.
    pub id: String,
    /// What became of it in the first: `included`, a rule, or `absent`.
    pub one: String,
    /// What became of it in the second.
    pub other: String,
}

/// Returns what the model of a run saw.
///
/// # Errors
/// [`Failure`] if the run is unknown, has no packet, or its packet is not what was sealed.
pub fn show(reader: &Reader, id: &str, content: bool) -> Result<ContextReport, Failure> {
    let packet = packet(reader, id)?;
    let request = packet.frozen();
    let mut asking = serde_json::to_value(request).unwrap_or_default();
    if let Some(members) = asking.as_object_mut() {
        members.remove("messages");
    }
    Ok(ContextReport {
        execution: packet.execution(),
        consumer: packet.consumer().clone(),
        sha256: packet.sha256(),
        bytes: packet.bytes().reveal().len() as u64,
        capabilities: packet.capabilities().clone(),
        runtime: packet.runtime().clone(),
        prompt: packet.prompt().cloned(),
        contract: packet.contract().clone(),
        asking,
        triggers: packet.triggers().to_vec(),
        documents: packet.documents().to_vec(),
        images: packet.images().to_vec(),
        messages: request.messages.iter().map(|message| row(message, content)).collect(),
        manifest: packet.manifest().clone(),
    })
}

fn packet(reader: &Reader, id: &str) -> Result<Packet, Failure> {
    let execution = find_execution(reader, id)?;
    match reader.packet(&execution.consumer, &execution.id) {
        Ok(Some(packet)) => Ok(packet),
        Ok(None) => {
            let what = format!("{} has no sealed packet", execution.id);
            let hint = "only runs of a model have one, and only those that got as far as asking";
            Err(Failure::new(Exit::Refused, "context.none", what).with_hint(hint))
        }
        Err(SnapshotError::Row(error)) => Err(error.into()),
        Err(error @ (SnapshotError::Packet(_) | SnapshotError::Incomplete(_))) => {
            let failure = Failure::of(Exit::CouldNotLook, "context.damaged", &error);
            Err(failure.with_hint("run `thought verify`: it names the first bad row"))
        }
    }
}

fn row(message: &Message, content: bool) -> MessageRow {
    let texts = message.parts.iter().map(|part| match part {
        Part::Text { text } | Part::ToolResult { text, .. } => text.reveal().as_str(),
        Part::ToolCall { arguments, .. } => arguments.reveal(),
        // The bytes of images are no part of a packet.
        Part::Image { .. } => "",
    });
    let text: String = texts.collect();
    let role = serde_json::to_value(message.role).unwrap_or_default();
    MessageRow {
        role: role.as_str().unwrap_or("-").to_owned(),
        chars: characters(&text) as u64,
        sha256: Sha256Hash::of(text.as_bytes()),
        text: content.then_some(text),
    }
}

/// Returns how what two runs' models saw differs.
///
/// # Errors
/// [`Failure`] as [`show`] says, of either.
pub fn diff(reader: &Reader, one: &str, other: &str, content: bool) -> Result<ContextDiff, Failure> {
    let (one, other) = (show(reader, one, content)?, show(reader, other, content)?);
    Ok(ContextDiff {
        one: one.execution,
        other: other.execution,
        same: one.sha256 == other.sha256,
        fields: fields(&one, &other),
        messages: messages(&one.messages, &other.messages),
        candidates: candidates(&one.manifest, &other.manifest),
    })
}

/// Compares everything that is said once.
fn fields(one: &ContextReport, other: &ContextReport) -> Vec<FieldDiff> {
    let said = |report: &ContextReport| {
        let value = serde_json::to_value(report).unwrap_or_default();
        let bounds = serde_json::json!({
            "maxEvents": report.manifest.max_events, "maxChars": report.manifest.max_chars,
            "chars": report.manifest.chars,
        });
        (value, bounds)
    };
    let ((one, one_bounds), (other, other_bounds)) = (said(one), said(other));
    let names = [
        "consumer",
        "capabilities",
        "runtime",
        "prompt",
        "contract",
        "asking",
        "triggers",
        "documents",
        "images",
    ];
    let get = |value: &Value, name: &str| value.get(name).cloned().unwrap_or(Value::Null);
    let pairs = names.map(|name| (name, get(&one, name), get(&other, name)));
    let bounds = ("bounds", one_bounds, other_bounds);
    let differing = pairs.into_iter().chain([bounds]).filter(|(_, one, other)| one != other);
    differing.map(|(name, one, other)| FieldDiff { name: name.to_owned(), one, other }).collect()
}

/// Lays two lists of messages side by side so that as many as possible are shared, in order.
fn messages(one: &[MessageRow], other: &[MessageRow]) -> Vec<MessageDiff> {
    let same = |i: usize, j: usize| one[i].role == other[j].role && one[i].sha256 == other[j].sha256;
    // How many messages the rest of both lists can share, from each pair of places on.
    let mut shared = vec![vec![0_usize; other.len() + 1]; one.len() + 1];
    for i in (0..one.len()).rev() {
        for j in (0..other.len()).rev() {
            let skipped = shared[i + 1][j].max(shared[i][j + 1]);
            shared[i][j] = if same(i, j) { shared[i + 1][j + 1] + 1 } else { skipped };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut found = Vec::new();
    while i < one.len() || j < other.len() {
        let (side, message) = if i < one.len() && j < other.len() && same(i, j) {
            (i, j) = (i + 1, j + 1);
            (Side::Both, &one[i - 1])
        } else if j == other.len() || (i < one.len() && shared[i + 1][j] >= shared[i][j + 1]) {
            i += 1;
            (Side::One, &one[i - 1])
        } else {
            j += 1;
            (Side::Other, &other[j - 1])
        };
        found.push(MessageDiff { side, message: message.clone() });
    }
    found
}

/// Compares what became of each candidate that either manifest names one by one.
fn candidates(one: &Manifest, other: &Manifest) -> Vec<CandidateDiff> {
    let fate = |manifest: &Manifest| {
        let included = manifest.included.iter().map(|i| (i.id.clone(), "included".to_owned()));
        let omitted = manifest.omitted.iter().map(|o| {
            let rule = serde_json::to_value(o.rule).unwrap_or_default();
            (o.id.clone(), rule.as_str().unwrap_or("-").to_owned())
        });
        included.chain(omitted).collect::<std::collections::BTreeMap<_, _>>()
    };
    let (one, other) = (fate(one), fate(other));
    let ids: std::collections::BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    let absent = || "absent".to_owned();
    let of = |fates: &std::collections::BTreeMap<String, String>, id: &String| {
        fates.get(id).cloned().unwrap_or_else(absent)
    };
    let rows =
        ids.into_iter().map(|id| CandidateDiff { id: id.clone(), one: of(&one, id), other: of(&other, id) });
    rows.filter(|row| row.one != row.other).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> MessageRow {
        let sha256 = Sha256Hash::of(text.as_bytes());
        MessageRow { role: "user".to_owned(), chars: text.len() as u64, sha256, text: Some(text.to_owned()) }
    }

    fn sides(one: &[&str], other: &[&str]) -> String {
        let rows = |texts: &[&str]| texts.iter().map(|text| message(text)).collect::<Vec<_>>();
        let mark = |diff: MessageDiff| {
            let mark = match diff.side {
                Side::Both => "=",
                Side::One => "-",
                Side::Other => "+",
            };
            format!("{mark}{}", diff.message.text.unwrap_or_default())
        };
        messages(&rows(one), &rows(other)).into_iter().map(mark).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn messages_are_laid_side_by_side_with_most_of_them_shared() {
        assert_eq!(sides(&["s", "a", "b", "c"], &["s", "b", "c", "d"]), "=s -a =b =c +d");
        assert_eq!(sides(&[], &["a"]), "+a");
        assert_eq!(sides(&["a"], &[]), "-a");
        assert_eq!(sides(&["a", "a"], &["a", "a"]), "=a =a");
        assert_eq!(sides(&["x", "y"], &["y", "x"]), "-x =y +x");
    }
}
