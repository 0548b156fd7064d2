//! What holds for every transform, whatever it derives.

use super::*;

pub(super) fn trigger(path: &str, content: &[u8]) -> Trigger {
    Trigger {
        change: Change::Present { sha256: Sha256Hash::of(content), content_type: "text/markdown".into() },
        document_id: DocumentId::parse("doc_example").unwrap(),
        revision: 1,
        path: path.to_owned(),
    }
}

/// Derives the output of the type `D` from a document in `notes/a.md`.
pub(super) fn present<D: TypedPayload>(text: &str) -> D {
    let transform = KNOWN.iter().find(|transform| (transform.kind)() == D::kind()).unwrap();
    let outputs =
        run(transform.name, &trigger("notes/a.md", text.as_bytes()), Some(text.as_bytes())).unwrap();
    D::deserialize(&outputs[0].payload).unwrap()
}
