use std::sync::Mutex;

use serde_json::{Value, json};
use thoughtstream_actors::clock::SystemClock;
use thoughtstream_actors::producer::apart::Seat;
use thoughtstream_actors::producer::intake::Standing;
use thoughtstream_channels::filesystem::change::ChangeGroup;
use thoughtstream_channels::filesystem::producer::Incident;
use thoughtstream_channels::filesystem::rules::{Bounds, ScanRules, Selection};
use thoughtstream_domain::commit::{Document, FileStat};
use thoughtstream_domain::id::{DocumentId, SourceId};
use thoughtstream_domain::privacy::Privacy;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use super::*;

/// A log that takes what it is given, or answers as it is told to.
#[derive(Default)]
struct Log {
    turned: Option<Turned>,
    took: Arc<Mutex<Vec<&'static str>>>,
}

impl Log {
    fn take(&self, what: &'static str) -> Result<(), Turned> {
        self.took.lock().unwrap().push(what);
        self.turned.map_or(Ok(()), Err)
    }
}

impl Intake for Log {
    async fn documents(&self, _: Option<DocumentId>) -> Result<Vec<Document>, Turned> {
        self.take("documents").map(|()| Vec::new())
    }

    async fn take(&self, _: ChangeGroup, _: Contents) -> Result<(), Turned> {
        self.take("group")
    }

    async fn keep(&self, _: Vec<(DocumentId, FileStat)>) -> Result<(), Turned> {
        self.take("stats")
    }

    async fn report(&self, _: Incident, _: u64) -> Result<(), Turned> {
        self.take("incident")
    }

    async fn skipped(&self, _: SkipReport) -> Result<(), Turned> {
        self.take("skipped")
    }

    async fn stands(&self, _: Standing) -> Result<(), Turned> {
        self.take("standing")
    }
}

struct Served {
    seat: Arc<Seat>,
    took: Arc<Mutex<Vec<&'static str>>>,
    producer: BufReader<UnixStream>,
    ended: tokio::task::JoinHandle<Result<(), &'static str>>,
}

async fn serve_on(log: Log) -> Served {
    let seat = Seat::new(Arc::new(SystemClock));
    let seated = seat.take(Sitter { uid: 1, pid: 2 }).await.unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (read, write) = ours.into_split();
    let selection = Selection::new(&[], &[], true).unwrap();
    let declared = Declared {
        source: SourceId::parse("filesystem:notes").unwrap(),
        rules: ScanRules { selection, bounds: Bounds::default() },
        privacy: Privacy::Private,
    };
    let took = Arc::clone(&log.took);
    let session = Session {
        log,
        declared: Arc::new(declared),
        lines: Lines::new(read),
        write,
        seated,
        awaited: BTreeMap::new(),
        asked: 0,
    };
    let ended =
        tokio::spawn(async move { session.serve(&CancellationToken::new()).await.map_err(|left| left.why) });
    Served { seat, took, producer: BufReader::new(theirs), ended }
}

impl Served {
    async fn say(&mut self, text: &str) {
        self.producer.get_mut().write_all(text.as_bytes()).await.unwrap();
    }

    async fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.producer.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap_or(Value::Null)
    }

    async fn answer(&mut self, said: &Value) -> Value {
        self.say(&format!("{said}\n")).await;
        self.hear().await
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_says_nothing_loses_its_seat_and_one_that_says_it_is_there_keeps_it() {
    let mut served = serve_on(Log::default()).await;
    let begun = tokio::time::Instant::now();
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_secs(ALIVE_EVERY_SECONDS)).await;
        assert_eq!(served.answer(&json!("alive")).await, json!({ "answer": "done" }));
    }
    assert!(served.seat.is_taken() && begun.elapsed() > 2 * SILENCE_PATIENCE);
    assert_eq!(served.ended.await.unwrap(), Err("silent"));
    assert!(!served.seat.is_taken());
}

#[tokio::test(start_paused = true)]
async fn content_that_stops_coming_ends_the_session_and_nothing_of_it_is_taken() {
    let mut served = serve_on(Log::default()).await;
    let content = "the whole";
    let document = json!({
        "source": "filesystem:notes", "id": "doc_x", "revision": 1, "path": "a.md", "removed": false,
        "sha256": thoughtstream_domain::hash::Sha256Hash::of(content.as_bytes()), "bytes": content.len(),
        "contentType": "text/markdown",
    });
    let change = json!({ "type": "stream.thought.source.file.added@1", "after": document });
    let offer = json!({ "source": "filesystem:notes", "privacy": "private", "changes": [change] });
    let said = json!({ "offer": offer }).to_string();
    // In two pieces: a line that is cut by a word of the service loses nothing.
    let (one, other) = said.split_at(said.len() / 2);
    served.say(one).await;
    tokio::task::yield_now().await;
    served.say(&format!("{other}\n{}", &content[..3])).await;
    assert_eq!(served.ended.await.unwrap(), Err("cut"));
    assert!(served.took.lock().unwrap().is_empty() && !served.seat.is_taken());
}

#[tokio::test]
async fn what_the_log_does_not_take_is_said_and_ends_the_session_unless_it_was_overtaken() {
    let standing = json!({ "standing": { "documents": 1, "looks": 1, "incidents": 0 } });
    for (turned, answer, goes_on) in [
        (Turned::Overtaken, json!({ "answer": "overtaken" }), true),
        (Turned::Unfit(Unfit::Path), json!({ "answer": { "unfit": "path" } }), false),
        (Turned::Closed, Value::Null, false),
        (Turned::Unreadable, Value::Null, false),
    ] {
        let mut served = serve_on(Log { turned: Some(turned), ..Log::default() }).await;
        let told = served.answer(&standing).await;
        if answer.is_null() {
            assert_eq!(told["failure"]["code"], "producer.not-taken");
        } else {
            assert_eq!(told, answer);
        }
        if goes_on {
            assert_eq!(served.answer(&json!("alive")).await, json!({ "answer": "done" }));
        } else {
            assert_eq!(served.ended.await.unwrap(), Err("refused"));
            assert!(!served.seat.is_taken());
        }
    }
}

#[tokio::test]
async fn names_of_what_was_skipped_are_made_such_that_they_can_be_shown() {
    let names: Vec<Value> = (0..SKIPPED_NAMES_MAX + 1)
        .map(|_| json!({ "shown": "a\u{1b}[2Jb\u{202e}", "reason": "denied", "owner": "c\u{1b}d" }))
        .collect();
    let report: SkipReport =
        serde_json::from_value(json!({ "counts": { "denied": 2001 }, "shown": names })).unwrap();
    let report = printable(report);
    assert_eq!(report.shown.len(), SKIPPED_NAMES_MAX);
    assert_eq!(report.shown[0].shown, "a\\u{1b}[2Jb\\u{202e}");
    assert_eq!(report.shown[0].owner.as_deref(), Some("c\\u{1b}d"));
}
