//! Sealing and reading back.

use crate::commit::{Precondition, Row};
use crate::content::Content;
use crate::conversation::tests_fixture as talk;
use crate::hash::Sha256Hash;
use crate::id::{ConsumerId, ConsumerKey, ExecutionId, TypeRef};
use crate::packet::{
    Asking, Capabilities, ContractRevision, ImageArtifact, ImageError, Packet, PacketError, PromptRevision,
    Runtime, Subject, document_id,
};
use crate::privacy::Privacy;
use crate::provider::{Part, ResponseFormat, Role, ThinkingLevel};

fn subject(images: Vec<ImageArtifact>, current: crate::id::EventId) -> Subject {
    Subject {
        consumer: ConsumerKey::new(ConsumerId::parse("talk").unwrap(), 3),
        fingerprint: Sha256Hash::of(b"declaration"),
        triggers: vec![current],
        prompt: Some(PromptRevision {
            path: "prompts/talk.md".to_owned(),
            sha256: Sha256Hash::of(b"prompt"),
        }),
        contract: ContractRevision {
            name: TypeRef::parse("stream.thought.output.observation@1").unwrap(),
            sha256: Sha256Hash::of(b"contract"),
        },
        runtime: Runtime {
            profile: "local".to_owned(),
            model: "small".to_owned(),
            execution_adapter_revision: "observer-v1".to_owned(),
            model_adapter: None,
        },
        capabilities: Capabilities {
            privacy: Privacy::PublicSource,
            tools: Vec::new(),
            external_actions: false,
        },
        images,
    }
}

fn asking() -> Asking {
    Asking {
        max_output_tokens: 500,
        thinking: ThinkingLevel::Medium,
        response: ResponseFormat::Text,
        stream: true,
    }
}

fn packet(images: &[ImageArtifact], takes_images: bool) -> Packet {
    let chat = talk::Chat::of(2);
    let mut current = chat.current("what is this?");
    current.images = images.to_vec();
    let composed = talk::compose(&chat, &current, takes_images);
    Packet::seal(subject(images.to_vec(), current.id), asking(), composed).unwrap()
}

fn read(packet: &Packet) -> Result<Packet, PacketError> {
    Packet::read(packet.bytes().reveal(), &packet.execution(), &packet.sha256())
}

#[test]
fn the_stored_form_never_changes_silently() {
    let value = packet(&[], false).to_json();
    insta::assert_snapshot!(serde_json::to_string_pretty(&value).unwrap());
}

#[test]
fn what_was_sealed_is_read_back_and_nothing_else() {
    let sealed = packet(&[talk::image(1).0], true);
    assert_eq!(read(&sealed).unwrap(), sealed);
    let bytes = sealed.bytes().reveal().to_vec();
    let other = Sha256Hash::of(b"other");
    let wrong_hash = Packet::read(&bytes, &sealed.execution(), &other).unwrap_err();
    assert_eq!(wrong_hash, PacketError::Hash { found: sealed.sha256(), expected: other });
    let stranger = ExecutionId::from_bytes([9; 20]);
    let wrong = Packet::read(&bytes, &stranger, &sealed.sha256()).unwrap_err();
    assert_eq!(wrong, PacketError::OtherExecution { found: sealed.execution(), expected: stranger });
}

#[test]
fn every_changed_byte_is_refused_even_under_its_new_hash() {
    let sealed = packet(&[], false);
    let bytes = sealed.bytes().reveal().to_vec();
    for at in (0..bytes.len()).step_by(7) {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        assert!(Packet::read(&changed, &sealed.execution(), &sealed.sha256()).is_err(), "{at}");
    }
    // Another spelling of the same value, and a member nobody knows, are no packet either.
    let text = String::from_utf8(bytes).unwrap();
    for other in [text.replacen(':', ": ", 1), text.replacen('{', "{\"extra\":1,", 1)] {
        let refused = Packet::read(other.as_bytes(), &sealed.execution(), &Sha256Hash::of(other.as_bytes()));
        assert_eq!(refused.unwrap_err(), PacketError::Malformed);
    }
}

#[test]
fn a_changed_list_of_images_is_refused() {
    let sealed = packet(&[talk::image(1).0], true);
    let mut value = sealed.to_json();
    value["imageArtifacts"] = serde_json::json!([talk::image(2).0]);
    let bytes = crate::canonical::write(&value).unwrap();
    let refused = Packet::read(&bytes, &sealed.execution(), &Sha256Hash::of(&bytes)).unwrap_err();
    assert_eq!(refused, PacketError::Images);
}

#[test]
fn its_identity_is_the_declarations_fingerprint_and_the_triggers() {
    let one = packet(&[], false);
    let expected = ExecutionId::derive(one.consumer(), &Sha256Hash::of(b"declaration"), one.triggers());
    assert_eq!(one.execution(), expected);
    assert_eq!(document_id(&one.execution()).as_str()[..12], *"doc_context-");
}

#[test]
fn it_is_stored_as_one_version_of_one_document_that_must_be_new() {
    let sealed = packet(&[], false);
    let rows = sealed.rows();
    let [Row::Blob { sha256, bytes }, Row::Document(document)] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((*sha256, Sha256Hash::of(bytes.reveal())), (sealed.sha256(), sealed.sha256()));
    assert_eq!((document.revision, document.sha256), (1, sealed.sha256()));
    assert_eq!(document.source.as_str(), "agent:talk");
    let (source, id) = (document.source.clone(), document.id.clone());
    assert_eq!(sealed.precondition(), Precondition::DocumentIs { source, document: id, revision: None });
}

#[test]
fn images_join_the_request_only_as_what_was_frozen() {
    let (artifact, bytes) = talk::image(1);
    let sealed = packet(std::slice::from_ref(&artifact), true);
    let stored = sealed.bytes().reveal();
    let base64 = data_encoding::BASE64.encode(&bytes);
    assert!(!String::from_utf8_lossy(stored).contains(&base64), "a packet holds references alone");
    let request = sealed.request(&[Some(Content::new(bytes))]).unwrap();
    let current = request.messages.last().unwrap();
    let [Part::Image { data, .. }, Part::Text { text }] = &current.parts[..] else { panic!("{current:?}") };
    assert_eq!((data.reveal(), text.reveal().as_str()), (&base64, "what is this?"));
    assert!(request.canonical().is_ok());
    assert_eq!(request.messages.iter().filter(|message| message.role == Role::User).count(), 3);
    assert_eq!(sealed.request(&[None]), Err(ImageError::Missing { index: 0 }));
    assert_eq!(sealed.request(&[]), Err(ImageError::Missing { index: 0 }));
    let changed = talk::image(2).1;
    assert_eq!(sealed.request(&[Some(Content::new(changed))]), Err(ImageError::Changed { index: 0 }));
}

#[test]
fn a_model_that_takes_no_images_is_sent_none() {
    let (artifact, bytes) = talk::image(1);
    let sealed = packet(&[artifact], false);
    assert_eq!(sealed.images().len(), 1);
    assert_eq!(sealed.request(&[Some(Content::new(bytes))]).unwrap(), *sealed.frozen());
}

#[test]
fn its_class_is_joined_with_everything_in_it() {
    assert_eq!(packet(&[], false).capabilities().privacy, Privacy::Private);
}

#[test]
fn it_does_not_print() {
    let shown = format!("{:?}", packet(&[], false));
    assert!(shown.starts_with("Packet(exe_") && !shown.contains("what is this"), "{shown}");
}
