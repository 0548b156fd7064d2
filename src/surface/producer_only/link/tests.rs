use serde_json::{Value, json};
use tokio::net::UnixListener;

use super::*;

struct Service {
    _base: tempfile::TempDir,
    listener: UnixListener,
    door: std::path::PathBuf,
}

fn service() -> Service {
    let base = tempfile::tempdir().unwrap();
    let door = base.path().join("producer.sock");
    Service { listener: UnixListener::bind(&door).unwrap(), door, _base: base }
}

fn told() -> Producing {
    let text = "sources:\n  - filesystem: notes\n    root: /notes\n    producerOnly: true\n";
    let config = crate::config::parse("config.yaml", text.as_bytes(), None).unwrap();
    Producing::of(&config.folders[0])
}

fn ours() -> Vec<u32> {
    vec![nix::unistd::geteuid().as_raw()]
}

/// A service that says what a test lets it say.
struct Played(Lines<OwnedReadHalf>, OwnedWriteHalf);

impl Played {
    async fn accept(service: &Service) -> Self {
        let (stream, _) = service.listener.accept().await.unwrap();
        let (read, write) = stream.into_split();
        Self(Lines::new(read), write)
    }

    async fn hear(&mut self) -> Value {
        let line = self.0.next(ANSWER_BYTES_MAX).await.unwrap();
        line.map_or(Value::Null, |line| serde_json::from_slice(&line).unwrap())
    }

    async fn say(&mut self, value: &Value) {
        write_line(&mut self.1, value).await.unwrap();
    }

    async fn admit(&mut self) {
        assert_eq!(self.hear().await["source"], "filesystem:notes");
        let admitted =
            json!({ "protocol": PROTOCOL, "version": "x", "pid": 7, "since": "2026-01-01T00:00:00.000Z" });
        self.say(&json!({ "admitted": admitted })).await;
    }
}

async fn linked() -> (Arc<Link>, Played, Arc<Nudges>, Service) {
    let service = service();
    let nudges: Arc<Nudges> = Arc::default();
    let (told, owners) = (told(), ours());
    let opening = Link::open(&service.door, &told, &owners, &nudges);
    let playing = async {
        let mut played = Played::accept(&service).await;
        played.admit().await;
        played
    };
    let (opened, played) = tokio::join!(opening, playing);
    let Ok((link, admitted)) = opened else { panic!("it was let in") };
    assert_eq!(admitted.pid, 7);
    (link, played, nudges, service)
}

fn refusal(lost: Result<(Arc<Link>, Admitted), Lost>) -> String {
    match lost {
        Err(Lost::Refused(failure)) => failure.code,
        Err(Lost::Gone(why)) => format!("gone: {why}"),
        Ok(_) => panic!("it was let in"),
    }
}

#[tokio::test]
async fn a_door_that_a_stranger_serves_is_told_nothing() {
    let service = service();
    let nobody = [nix::unistd::geteuid().as_raw() + 1];
    let nudges = Arc::default();
    let opened = Link::open(&service.door, &told(), &nobody, &nudges).await;
    assert_eq!(refusal(opened), "producer.stranger");
    assert_eq!(Played::accept(&service).await.hear().await, Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_gone_or_silent_is_tried_again_and_one_that_refuses_is_not() {
    let (told, owners, nudges) = (told(), ours(), Arc::default());
    let missing = Link::open(Path::new("/nonexistent/producer.sock"), &told, &owners, &nudges).await;
    assert_eq!(refusal(missing), "gone: the service has no door for it");
    let service = service();
    let opening = Link::open(&service.door, &told, &owners, &nudges);
    let (opened, _silent) = tokio::join!(opening, Played::accept(&service));
    assert_eq!(refusal(opened), "gone: silent");
    for (exit, code, seen) in [(1, "producer.taken", "producer.taken"), (4, "socket.busy", "gone: what")] {
        let opening = Link::open(&service.door, &told, &owners, &nudges);
        let refusing = async {
            let failure = json!({ "exit": exit, "code": code, "what": "what" });
            Played::accept(&service).await.say(&json!({ "failure": failure })).await;
        };
        assert_eq!(refusal(tokio::join!(opening, refusing).0), seen);
    }
}

#[tokio::test]
async fn an_answer_is_what_it_says_and_a_lost_one_is_not_taken_for_one() {
    let (link, mut played, _, _service) = linked().await;
    for (answer, turned) in [
        (json!("done"), Ok(())),
        (json!("overtaken"), Err(Turned::Overtaken)),
        (json!({ "unfit": "path" }), Err(Turned::Unfit(Unfit::Path))),
    ] {
        let answering = async {
            assert_eq!(played.hear().await, json!("alive"));
            played.say(&json!({ "answer": answer })).await;
        };
        assert_eq!(tokio::join!(link.done(&Said::Alive, &[]), answering).0, turned);
    }
    assert_eq!(link.refusal().unwrap().code, "producer.path", "what is refused once is refused for good");

    let (link, mut played, _, _service) = linked().await;
    let leaving = async {
        played.hear().await;
        drop(played);
    };
    assert_eq!(tokio::join!(link.done(&Said::Alive, &[]), leaving).0, Err(Turned::Closed));
    assert_eq!(link.lost().await, "the service went away");
    assert!(link.refusal().is_none() && !link.has_looked());
    assert_eq!(link.done(&Said::Alive, &[]).await, Err(Turned::Closed), "nothing is said into it any more");
}

#[tokio::test]
async fn nonsense_and_an_answer_to_something_else_end_the_connection() {
    for nonsense in [json!(7), json!({ "admitted": {} }), json!({ "answer": { "documents": [] } })] {
        let (link, mut played, _, _service) = linked().await;
        let answering = async {
            played.hear().await;
            played.say(&nonsense).await;
        };
        assert_eq!(tokio::join!(link.done(&Said::Alive, &[]), answering).0, Err(Turned::Closed));
        assert!(link.lost().await.contains("something else"), "{nonsense}");
    }
}

#[tokio::test]
async fn content_follows_its_offer_as_it_is() {
    let (link, mut played, _, _service) = linked().await;
    let content: &[u8] = b"line\n\xff\0 and more";
    let hearing = async {
        assert_eq!(played.hear().await, json!({ "documents": null }));
        assert_eq!(played.0.bytes(content.len(), WRITE_PATIENCE).await.unwrap(), content);
        played.say(&json!({ "answer": "done" })).await;
    };
    let (said, contents) = (Said::Documents(None), [content]);
    assert_eq!(tokio::join!(link.done(&said, &contents), hearing).0, Ok(()));
}
