//! A conversation of very many turns: what the next context costs, and whether its length matters.

use std::path::Path;
use std::time::Instant;

use thoughtstream_domain::commit::Commit;
use thoughtstream_domain::contract::{Contract, FinalPart, Mode, Stop, judge};
use thoughtstream_domain::conversation::reconstruct::Current;
use thoughtstream_domain::conversation::select::{Policy, Selection, Taken, select};
use thoughtstream_domain::event::{Actor, ActorKind, Candidate, Envelope, Parent};
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::{ConsumerKey, DeliveryId, ExecutionId, IdempotencyKey, RunId, SourceId};
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::delivery::{DeliveryBinding, DeliveryClaimed, DeliveryDelivered, Route};
use thoughtstream_domain::payload::output::{MessageObservation, Provenance};
use thoughtstream_domain::payload::run::{RunCompleted, RunStamp, RunStarted};
use thoughtstream_domain::payload::telegram::{
    ChatId, MessageId, MessageText, SenderId, TelegramMessage, UpdateId, correlation,
};
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_domain::registry::Registry;
use thoughtstream_domain::time::Timestamp;
use thoughtstream_store::{Options, Store};
use thoughtstream_surface::bench::log::MARK;
use thoughtstream_surface::bench::{BenchError, Ratio, Scratch};

use super::{Found, Plan};

const CHAT: ChatId = ChatId::new(7);
const ME: SenderId = SenderId::new(8);
/// Half of them are the person's.
const TURNS: i64 = 100_000;
/// What a long history is held against.
const TURNS_FEW: i64 = 1_000;
const EXCHANGES_A_GROUP: i64 = 100;
/// How often a context is selected in one round.
const REPEATS: usize = 50;

/// Measures reconstruction and selection over a long history and over a short one.
pub(crate) fn run(plan: &Plan) -> Result<Found, BenchError> {
    let scratch = Scratch::below(&plan.dir)?;
    let (long, short) = (scratch.path().join("long"), scratch.path().join("short"));
    let long = fill(&long, TURNS)?;
    let short = fill(&short, TURNS_FEW)?;
    let mut millis = [Vec::new(), Vec::new()];
    for _ in 0..plan.rounds {
        for (store, found) in [&long, &short].into_iter().zip(&mut millis) {
            for _ in 0..REPEATS {
                let start = Instant::now();
                chosen(store)?;
                found.push(start.elapsed().as_secs_f64() * 1000.0);
            }
        }
    }
    let [long_millis, short_millis] = millis.map(|mut found| {
        found.sort_by(f64::total_cmp);
        found
    });
    let at = |found: &[f64], percent: usize| found[(found.len() - 1) * percent / 100];
    let p50 = at(&long_millis, 50);
    let name = format!("reconstruct and select over {TURNS} turns");
    Ok(Found {
        rows: Vec::new(),
        ratios: vec![
            Ratio::at_most(&format!("{name}: p50 in milliseconds"), p50, 50.0),
            Ratio::at_most(&format!("{name}: p99 in milliseconds"), at(&long_millis, 99), 50.0),
            Ratio::at_most(&format!("{name} against {TURNS_FEW}: p50"), p50 / at(&short_millis, 50), 2.0),
            Ratio::at_most(&format!("{name}: kilobytes it adds at its peak"), added(&long)?, 4096.0),
        ],
    })
}

fn source(text: &str) -> SourceId {
    SourceId::parse(text).expect("a source")
}

fn envelope(source_text: &str, key: &str, parents: Vec<Parent>) -> Envelope {
    let actor = Actor::ours(ActorKind::System, "bench");
    let key = IdempotencyKey::parse(key).expect("a key");
    Envelope::new(source(source_text), key, Privacy::Private, actor).with_parents(parents)
}

fn message(n: i64) -> Candidate {
    let said = TelegramMessage {
        update: UpdateId::new(n),
        chat: CHAT,
        sender: ME,
        message: MessageId::new(n),
        sent_at: Timestamp::from_millis(n),
        text: MessageText::new(format!("Question {n}: how does the garden fare, and what is there to do?")),
        images: Vec::new(),
        rejected: Vec::new(),
        reply_to: None,
        album: None,
        edited: false,
    };
    let mut envelope = envelope("telegram:bot", &format!("update/{n}"), Vec::new());
    envelope.correlation = Some(correlation(CHAT));
    said.candidate(envelope)
}

/// One message with the run that answered it and the receipt, as the service writes them.
fn exchange(n: i64) -> Vec<Candidate> {
    let asked = message(n);
    let consumer = ConsumerKey::parse("talk@1").expect("a consumer");
    let fingerprint = Sha256Hash::of(b"declaration");
    let execution = ExecutionId::derive(&consumer, &fingerprint, &[asked.id()]);
    let stamp = RunStamp {
        run: RunId::derive(&execution, 1),
        execution,
        consumer,
        fingerprint,
        attempt: 1,
        execution_adapter_revision: "bench".to_owned(),
        model_adapter: None,
    };
    let text = format!("Answer {n}: it fares well. Water it in the evening.");
    let parts = [FinalPart::text(text)];
    let accepted = judge(&Contract::observation(), Mode::ConversationText, &parts, Stop::End);
    let accepted = accepted.expect("a plain text is accepted");
    let provenance = Provenance { provider: "bench".to_owned(), model: "bench".to_owned() };
    let (run, of) = (stamp.run, vec![Parent::named(asked.id())]);
    let key = |what: &str| format!("{what}/{n}");
    let started = RunStarted { stamp: stamp.clone(), reservation: None }.candidate(envelope(
        "agent:talk",
        &key("started"),
        of.clone(),
    ));
    let output = MessageObservation::of(accepted, stamp.clone(), Sha256Hash::of(b"packet"), provenance);
    let output = output.candidate(envelope("agent:talk", &key("output"), of.clone()));
    let completed = RunCompleted { stamp, outputs: vec![output.id()], proposals: Vec::new(), charge: None };
    let completed = completed.candidate(envelope("agent:talk", &key("completed"), of));
    let binding = DeliveryBinding {
        delivery: DeliveryId::derive(&source("delivery:bot"), "direct-reply", &output.id()),
        claim: 1,
        route: Route::DirectReply,
        bot: source("telegram:bot"),
        chat: CHAT,
        sender: Some(ME),
        root: asked.id(),
        run,
        output: output.id(),
    };
    let text_sha256 = Sha256Hash::of(b"text");
    let claimed =
        DeliveryClaimed { binding: binding.clone(), text_sha256, units: 50, incarnation: 1, holder: 1 };
    let parents = vec![Parent::named(output.id())];
    let claimed = claimed.candidate(envelope("delivery:bot", &key("claim"), parents));
    let receipt = DeliveryDelivered { binding, message: None, sent_at: None, confirmed_by: None };
    let parents = vec![Parent::named(claimed.id())];
    let receipt = receipt.candidate(envelope("delivery:bot", &key("receipt"), parents));
    vec![asked, started, output, completed, claimed, receipt]
}

fn fill(data: &Path, turns: i64) -> Result<Store, BenchError> {
    Store::create(data, MARK, Options::default()).map_err(BenchError::of)?;
    let mut store = Store::open(data, Options::default()).map_err(BenchError::of)?;
    store.writer.set_types(Registry::shipped().hashes()).map_err(BenchError::of)?;
    let exchanges = turns / 2;
    for first in (0..exchanges).step_by(usize::try_from(EXCHANGES_A_GROUP).unwrap_or(1)) {
        let last = exchanges.min(first + EXCHANGES_A_GROUP);
        let commit = |n| Commit { appends: exchange(n), ..Commit::default() };
        let group: Vec<Commit> = (first..last).map(commit).collect();
        let verdicts = store.writer.apply(&group, Timestamp::from_millis(first)).map_err(BenchError::of)?;
        if verdicts.iter().any(|verdict| verdict.placed().is_none()) {
            return Err(BenchError::Refused);
        }
        store.writer.maybe_checkpoint(Instant::now()).map_err(BenchError::of)?;
    }
    let now = Commit { appends: vec![message(exchanges)], ..Commit::default() };
    store.writer.apply(&[now], Timestamp::from_millis(exchanges)).map_err(BenchError::of)?;
    Ok(store)
}

/// Selects the context of the newest message.
fn chosen(store: &Store) -> Result<Selection, BenchError> {
    let bot = source("telegram:bot");
    let position = store.reader.last_position().map_err(BenchError::of)?;
    let event = store.reader.event_at(position).map_err(BenchError::of)?.ok_or(BenchError::Refused)?;
    let current = Current::of(&event).map_err(BenchError::of)?;
    let agents = [ConsumerKey::parse("talk@1").expect("a consumer").id].into();
    let policy = Policy { agents, max_events: 80, max_chars: 24_000, assistant_max_turns: None };
    let selection = select(&current, store.reader.chat_before(&bot, &current), &policy, Taken::default());
    let selection = selection.map_err(BenchError::of)?;
    if selection.turns().len() != 79 {
        return Err(BenchError::Refused);
    }
    Ok(selection)
}

/// Returns by how many kilobytes the most that was ever resident rises while one context is selected.
fn added(store: &Store) -> Result<f64, BenchError> {
    let read = |name: &str| -> Result<f64, BenchError> {
        let status = std::fs::read_to_string("/proc/self/status")?;
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("");
        Ok(line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap_or(f64::NAN))
    };
    // Sets the peak back to what is resident now.
    std::fs::write("/proc/self/clear_refs", "5")?;
    let before = read("VmRSS")?;
    chosen(store)?;
    Ok((read("VmHWM")? - before).max(0.0))
}
