use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use thoughtstream_domain::event::Reference;
use thoughtstream_domain::id::EventId;
use thoughtstream_domain::payload::proposal::Disposition;
use thoughtstream_effects::dirs::PrivateDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::ask::{Ask, Operate, Operated};
use crate::exit::Exit;
use crate::proposals::DecideRequest;

#[derive(Default)]
struct Echo {
    finished: AtomicUsize,
}

impl Desk for Echo {
    fn greeting(&self, door: Door) -> Greeting {
        let since = Timestamp::from_millis(0);
        Greeting { protocol: PROTOCOL, version: "test".to_owned(), door, pid: 7, since }
    }

    async fn answer(self: Arc<Self>, request: Operated, _: Peer, reply: Reply) -> Result<Exit, Failure> {
        match request {
            Operated::Ask(Ask::Inbox) => {
                reply.item(json!(1)).await.ok();
                reply.item(json!(2)).await.ok();
                Ok(Exit::Advice)
            }
            Operated::Ask(Ask::Tree { .. }) => {
                // A watcher with nothing to be told; it ends when its client does.
                reply.gone().await;
                self.finished.fetch_add(1, Ordering::SeqCst);
                Ok(Exit::Done)
            }
            Operated::Ask(_) => panic!("a bug in an answer"),
            Operated::Operate(_) => Ok(Exit::Done),
            Operated::Submit(_) => Err(Failure::new(Exit::Refused, "test.refused", "no")),
        }
    }
}

struct Served {
    _base: tempfile::TempDir,
    doors: Doors,
    desk: Arc<Echo>,
    stop: CancellationToken,
}

fn start() -> Served {
    let base = tempfile::tempdir().unwrap();
    let data = base.path().join("data");
    PrivateDir::create(&data).unwrap();
    let doors = Doors::open(&data, &base.path().join("run/x")).unwrap();
    let (ask, operator) = doors.listeners().unwrap();
    let (desk, stop) = (Arc::new(Echo::default()), CancellationToken::new());
    let uid = nix::unistd::getuid().as_raw();
    tokio::spawn(serve(Door::Ask, ask, Arc::clone(&desk), uid, stop.clone()));
    tokio::spawn(serve(Door::Operator, operator, Arc::clone(&desk), uid, stop.clone()));
    Served { _base: base, doors, desk, stop }
}

struct Client(BufReader<UnixStream>);

impl Client {
    async fn connect(path: &Path) -> Self {
        Self(BufReader::new(UnixStream::connect(path).await.unwrap()))
    }

    async fn greeted(path: &Path) -> Self {
        let mut client = Self::connect(path).await;
        client.say(&serde_json::to_string(&Hello::ours()).unwrap()).await;
        assert!(matches!(client.hear().await, Some(Frame::Greeting(_))));
        client
    }

    async fn say(&mut self, text: &str) {
        self.0.get_mut().write_all(format!("{text}\n").as_bytes()).await.unwrap();
    }

    async fn ask(&mut self, request: &Operated) {
        self.say(&serde_json::to_string(request).unwrap()).await;
    }

    async fn hear(&mut self) -> Option<Frame> {
        let mut line = String::new();
        let read = self.0.read_line(&mut line).await.unwrap_or(0);
        (read > 0).then(|| serde_json::from_str(&line).unwrap())
    }

    async fn failure_code(&mut self) -> String {
        match self.hear().await {
            Some(Frame::Failure(failure)) => failure.code,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn an_answer_is_a_stream_of_items_with_an_end_and_the_next_request_follows() {
    let served = start();
    let (ask, _) = recorded(&served._base.path().join("data")).unwrap().unwrap();
    let mut client = Client::greeted(&ask).await;
    for _ in 0..2 {
        client.ask(&Operated::Ask(Ask::Inbox)).await;
        assert_eq!(client.hear().await, Some(Frame::Item(json!(1))));
        assert_eq!(client.hear().await, Some(Frame::Item(json!(2))));
        assert_eq!(client.hear().await, Some(Frame::End(6)));
    }
}

#[tokio::test]
async fn an_operation_is_refused_at_the_ask_door_and_taken_at_the_operators() {
    let served = start();
    let (ask, operator) = recorded(&served._base.path().join("data")).unwrap().unwrap();
    let operation = Operated::Operate(Operate::Reload);
    let mut client = Client::greeted(&ask).await;
    client.ask(&operation).await;
    assert_eq!(client.failure_code().await, "socket.role");
    client.say("{\"nonsense\":1}").await;
    assert_eq!(client.failure_code().await, "socket.frame");
    let mut client = Client::greeted(&operator).await;
    client.ask(&operation).await;
    assert_eq!(client.hear().await, Some(Frame::End(0)));
}

#[tokio::test]
async fn a_decision_about_a_proposal_comes_through_the_operators_door_alone_and_says_nothing_beside_itself() {
    let served = start();
    let (ask, operator) = recorded(&served._base.path().join("data")).unwrap().unwrap();
    let proposal = EventId::from_bytes([7; 32]);
    let decide = DecideRequest {
        proposal,
        disposition: Disposition::Accept,
        submission: Reference::parse("mine").unwrap(),
    };
    let all = [
        Operate::DecideProposal(Box::new(decide)),
        Operate::ProjectProposals { proposal: None },
        Operate::ProjectProposals { proposal: Some(proposal) },
    ];
    for operate in all.map(Operated::Operate) {
        let mut client = Client::greeted(&ask).await;
        client.ask(&operate).await;
        assert_eq!(client.failure_code().await, "socket.role");
        let mut client = Client::greeted(&operator).await;
        client.ask(&operate).await;
        assert_eq!(client.hear().await, Some(Frame::End(0)));
    }
    let request = |disposition: Value| {
        let decide = json!({ "proposal": proposal, "submission": "mine", "disposition": disposition });
        json!({ "operate": { "decide-proposal": decide } })
    };
    let mut client = Client::greeted(&operator).await;
    client.say(&request(json!({ "kind": "accept" })).to_string()).await;
    assert_eq!(client.hear().await, Some(Frame::End(0)));
    for kind in ["accept", "reject"] {
        let mut client = Client::greeted(&operator).await;
        client.say(&request(json!({ "kind": kind, "replacement": "x" })).to_string()).await;
        assert_eq!(client.failure_code().await, "socket.frame");
    }
}

#[tokio::test]
async fn a_request_is_read_as_strictly_as_a_file() {
    let served = start();
    let (ask, _) = recorded(&served._base.path().join("data")).unwrap().unwrap();
    let submit = |payload: &str| {
        let source =
            r#""source":"notes:x","kind":"stream.thought.source.note","key":"k","privacy":"private""#;
        format!(r#"{{"submit":{{{source},"payload":{payload}}}}}"#)
    };
    let nested = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    let deepest = nested(thoughtstream_domain::canonical::DEPTH_MAX);
    let mut client = Client::greeted(&ask).await;
    for (request, reason) in [
        (submit(r#"{"text":"one","text":"two"}"#), "a key stands twice"),
        (submit(&nested(thoughtstream_domain::canonical::DEPTH_MAX + 1)), "nested deeper"),
        (r#"{"ask":"inbox","ask":"inbox"}"#.to_owned(), "a key stands twice"),
        ("{\"ask\":".to_owned(), "the text ends"),
    ] {
        client.say(&request).await;
        let Some(Frame::Failure(failure)) = client.hear().await else { panic!("{request}") };
        assert_eq!(failure.code, "socket.frame");
        assert!(failure.causes.iter().any(|cause| cause.contains(reason)), "{failure:?}");
    }
    // What a file may hold, a request may carry; the door is as open as before.
    client.say(&submit(&deepest)).await;
    assert_eq!(client.failure_code().await, "test.refused");
}

#[tokio::test]
async fn a_panic_in_one_answer_is_our_bug_and_the_door_stays_open() {
    let served = start();
    let (ask, _) = recorded(&served._base.path().join("data")).unwrap().unwrap();
    let mut client = Client::greeted(&ask).await;
    client.ask(&Operated::Ask(Ask::Registered)).await;
    assert_eq!(client.failure_code().await, "service.bug");
    client.ask(&Operated::Ask(Ask::Inbox)).await;
    assert_eq!(client.hear().await, Some(Frame::Item(json!(1))));
}

#[tokio::test]
async fn another_protocol_and_no_greeting_are_refused() {
    let served = start();
    let (ask, _) = recorded(&served._base.path().join("data")).unwrap().unwrap();
    for (first, code) in [("{\"protocol\":99,\"version\":\"x\"}", "socket.protocol"), ("hi", "socket.frame")]
    {
        let mut client = Client::connect(&ask).await;
        client.say(first).await;
        assert!(matches!(client.hear().await, Some(Frame::Greeting(_))));
        assert_eq!(client.failure_code().await, code);
        assert_eq!(client.hear().await, None);
    }
}

#[tokio::test]
async fn a_greeting_without_an_end_and_a_request_without_an_end_are_bounded() {
    let served = start();
    let (ask, _) = recorded(&served._base.path().join("data")).unwrap().unwrap();
    let mut client = Client::connect(&ask).await;
    client.0.get_mut().write_all(&vec![b'x'; GREETING_BYTES_MAX * 4]).await.ok();
    let mut rest = Vec::new();
    client.0.read_to_end(&mut rest).await.ok();
    assert!(rest.is_empty());
    let mut client = Client::greeted(&ask).await;
    client.0.get_mut().write_all(&vec![b'x'; REQUEST_BYTES_MAX + 2]).await.ok();
    assert_eq!(client.failure_code().await, "socket.frame");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_says_nothing_is_let_go() {
    let served = start();
    let (ask, _) = recorded(&served._base.path().join("data")).unwrap().unwrap();
    let mut silent = Client::connect(&ask).await;
    assert_eq!(silent.hear().await, None);
    let mut idle = Client::greeted(&ask).await;
    assert_eq!(idle.hear().await, None);
}

#[tokio::test]
async fn a_watcher_that_vanishes_ends_its_answer() {
    let served = start();
    let (ask, _) = recorded(&served._base.path().join("data")).unwrap().unwrap();
    let mut client = Client::greeted(&ask).await;
    client.ask(&Operated::Ask(Ask::Tree { watch: true })).await;
    drop(client);
    while served.desk.finished.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn more_clients_than_places_wait_or_are_told_so_and_a_stop_empties_the_door() {
    let served = start();
    let (ask, _) = recorded(&served._base.path().join("data")).unwrap().unwrap();
    let mut clients = Vec::new();
    for _ in 0..64 {
        clients.push(Client::greeted(&ask).await);
    }
    let mut waiting = Vec::new();
    for _ in 0..192 {
        waiting.push(Client::connect(&ask).await);
    }
    let mut late = Client::connect(&ask).await;
    assert_eq!(late.failure_code().await, "socket.busy");
    // A place that becomes free is given to the one that has waited longest.
    drop(clients.pop());
    let mut first = waiting.remove(0);
    first.say(&serde_json::to_string(&Hello::ours()).unwrap()).await;
    assert!(matches!(first.hear().await, Some(Frame::Greeting(_))));
    served.stop.cancel();
    for mut client in clients.into_iter().chain(waiting) {
        assert_eq!(client.hear().await, None);
    }
    drop(served.doors);
    assert!(!ask.exists());
}
