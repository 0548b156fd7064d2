use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::{ConsumerKey, ExecutionId};
use thoughtstream_domain::provider::{
    Certainty, Endpoint, Member, Message, ResponseFormat, Role, ThinkingLevel,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use super::*;
use crate::killpoint::{KillAction, KillPoint, Trap};
use crate::supervisor::{Env, NoNotices, Root, Strategy, launch};

/// Long enough for any test machine; no test waits for it to pass.
const PATIENCE: Duration = Duration::from_secs(60);

/// Is a provider that counts what arrives and answers when it is told to.
struct Peer {
    address: std::net::SocketAddr,
    told: Arc<Told>,
    _serving: JoinSet<()>,
}

#[derive(Default)]
struct Told {
    requests: Mutex<Vec<String>>,
    arrived: Notify,
    may_answer: Notify,
    gone: AtomicUsize,
    left: Notify,
}

impl Peer {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, told) = (listener.local_addr().unwrap(), Arc::<Told>::default());
        let (mut serving, shared) = (JoinSet::new(), Arc::clone(&told));
        serving.spawn(async move {
            let mut each = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                each.spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Self { address, told, _serving: serving }
    }

    fn requests(&self) -> usize {
        self.told.requests.lock().unwrap().len()
    }

    /// Lets the next request be answered as soon as it arrives.
    fn answer(&self) {
        self.told.may_answer.notify_one();
    }

    async fn arrived(&self) {
        self.told.arrived.notified().await;
    }

    /// Waits until somebody hung up without having been answered.
    async fn left(&self) {
        self.told.left.notified().await;
    }
}

async fn serve(mut stream: TcpStream, told: Arc<Told>) {
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            if body.len() >= length.parse::<usize>().unwrap() {
                told.requests.lock().unwrap().push(text);
                break;
            }
        }
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return,
            Ok(read) => bytes.extend_from_slice(&chunk[..read]),
        }
    }
    told.arrived.notify_one();
    tokio::select! {
        () = told.may_answer.notified() => {}
        _ = stream.read(&mut chunk) => {
            told.gone.fetch_add(1, Ordering::SeqCst);
            told.left.notify_one();
            return;
        }
    }
    let body = r#"{"model":"m-1","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":1}}"#;
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + body).as_bytes()).await.ok();
}

struct Bench {
    peer: Peer,
    base: tempfile::TempDir,
    brokers: Brokers,
    points: Arc<KillPoints>,
    root: Root,
}

const KEY: &str = "sk-test-AAAA1111BBBB2222";

impl Bench {
    async fn with(change: impl FnOnce(&mut Profile)) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let peer = Peer::new().await;
        let base = tempfile::tempdir().unwrap();
        let endpoint = Endpoint::parse(&format!("http://{}/v1", peer.address)).unwrap();
        let models = [String::from("m-1")].into();
        let mut profile = Profile::new(ProfileName::parse("peer").unwrap(), endpoint, models);
        change(&mut profile);
        let brokers = Brokers::new([profile], Credentials::new(None, base.path().to_owned()));
        let points = KillPoints::for_rehearsal();
        let name = format!("broker-test-{}", NUMBER.fetch_add(1, Ordering::SeqCst));
        let tree = SupervisorSpec::new(ChildName::parse(&name).unwrap(), Strategy::OneForOne)
            .nested(brokers.pool(&points).unwrap());
        let root = launch(tree, Env::new(1, Arc::new(NoNotices))).await.unwrap();
        root.handle().wait_started().await;
        Self { peer, base, brokers, points, root }
    }

    async fn new() -> Self {
        Self::with(|_| ()).await
    }

    fn handle(&self) -> &BrokerHandle {
        self.brokers.get(&ProfileName::parse("peer").unwrap()).unwrap()
    }

    fn capability(&self, attempt: u32) -> Capability {
        self.handle().capability(Wire::of(run(attempt)), Arc::new(request()), Instant::now() + PATIENCE)
    }

    /// Waits until another incarnation than `before` plays the part.
    async fn restarted(&self, before: u64) {
        while self.handle().0.incarnation.load(Ordering::SeqCst) == before {
            tokio::task::yield_now().await;
        }
        self.root.handle().wait_started().await;
    }

    fn incarnation(&self) -> u64 {
        self.handle().0.incarnation.load(Ordering::SeqCst)
    }

    async fn kill(&self) {
        self.handle().0.address.get().unwrap().kill();
    }
}

fn request() -> ModelRequest {
    ModelRequest {
        model: "m-1".to_owned(),
        messages: vec![Message::text(Role::User, "hello")],
        max_output_tokens: 10,
        thinking: ThinkingLevel::Off,
        response: ResponseFormat::Text,
        tools: Vec::new(),
        stream: false,
    }
}

fn run(attempt: u32) -> RunId {
    let consumer = ConsumerKey::parse("asks@1").unwrap();
    RunId::derive(&ExecutionId::derive(&consumer, &Sha256Hash::of(b""), &[]), attempt)
}

fn asked() -> Vec<u8> {
    request().canonical().unwrap()
}

fn failure(reply: Result<Reply, AskError>) -> (ProviderCode, Certainty) {
    let error = reply.unwrap_err();
    (error.code, error.certainty)
}

const SPENT: (ProviderCode, Certainty) = (ProviderCode::CapabilitySpent, Certainty::NotSent);
const ENDED: (ProviderCode, Certainty) = (ProviderCode::BrokerEnded, Certainty::Lost);

#[tokio::test]
async fn a_capability_is_one_request() {
    let bench = Bench::new().await;
    bench.peer.answer();
    let capability = bench.capability(1);
    let reply = capability.spend(&asked()).await.unwrap();
    assert_eq!(reply.answer.texts().next().unwrap().reveal(), "hello");
    assert_eq!(failure(capability.spend(&asked()).await), SPENT);
    // Neither is a second capability for the same attempt.
    assert_eq!(failure(bench.capability(1).spend(&asked()).await), SPENT);
    assert_eq!(bench.peer.requests(), 1);
    bench.peer.answer();
    bench.capability(2).spend(&asked()).await.unwrap();
    assert_eq!(bench.peer.requests(), 2);
}

#[tokio::test]
async fn what_a_worker_asks_for_is_what_is_frozen_or_nothing() {
    let bench = Bench::new().await;
    let more = ModelRequest { max_output_tokens: 11, ..request() };
    let other = ModelRequest { model: "m-2".to_owned(), ..request() };
    let words = ModelRequest { messages: vec![Message::text(Role::User, "hullo")], ..request() };
    let long = ModelRequest { messages: vec![Message::text(Role::User, "x".repeat(100_000))], ..request() };
    for (attempt, (asked, member)) in [
        (more.canonical().unwrap(), Member::MaxOutputTokens),
        (other.canonical().unwrap(), Member::Model),
        (words.canonical().unwrap(), Member::Messages),
        (long.canonical().unwrap(), Member::Messages),
        (b"no request".to_vec(), Member::Whole),
    ]
    .into_iter()
    .enumerate()
    {
        let capability = bench.capability(u32::try_from(attempt).unwrap() + 1);
        let error = capability.spend(&asked).await.unwrap_err();
        assert_eq!((error.code, error.member), (ProviderCode::WorkerAskedOtherwise, Some(member)));
        assert_eq!(error.certainty, Certainty::NotSent);
        // It had its chance.
        assert_eq!(failure(capability.spend(&super::tests::asked()).await), SPENT);
    }
    assert_eq!(bench.peer.requests(), 0);
}

#[tokio::test]
async fn what_the_profile_does_not_allow_is_not_sent() {
    let bench = Bench::new().await;
    let json = ModelRequest { response: ResponseFormat::JsonObject, ..request() };
    let other = ModelRequest { model: "m-2".to_owned(), ..request() };
    for (attempt, (frozen, code)) in
        [(json, ProviderCode::FormatNotClaimed), (other, ProviderCode::ModelNotAllowed)]
            .into_iter()
            .enumerate()
    {
        let asked = frozen.canonical().unwrap();
        let run = run(u32::try_from(attempt).unwrap());
        let capability =
            bench.handle().capability(Wire::of(run), Arc::new(frozen), Instant::now() + PATIENCE);
        assert_eq!(failure(capability.spend(&asked).await), (code, Certainty::NotSent));
    }
    assert_eq!(bench.peer.requests(), 0);
}

#[tokio::test]
async fn a_broker_that_is_killed_takes_what_is_on_its_way_along() {
    let bench = Bench::new().await;
    let (capability, unspent) = (bench.capability(1), bench.capability(2));
    let before = bench.incarnation();
    let (reply, ()) = tokio::join!(async { capability.spend(&asked()).await }, async {
        bench.peer.arrived().await;
        bench.kill().await;
    });
    assert_eq!(failure(reply), ENDED);
    bench.peer.left().await;
    bench.restarted(before).await;
    let expired = (ProviderCode::CapabilityExpired, Certainty::NotSent);
    assert_eq!(failure(unspent.spend(&asked()).await), expired);
    assert_eq!(failure(capability.spend(&asked()).await), SPENT);
    assert_eq!(bench.peer.requests(), 1);
    bench.peer.answer();
    bench.capability(3).spend(&asked()).await.unwrap();
}

#[tokio::test]
async fn at_every_point_of_a_request_the_wire_tells_whether_it_was_sent() {
    let down = (ProviderCode::BrokerDown, Certainty::NotSent);
    for (point, expected, requests) in [
        (KillPoint::BrokerBefore, down, 0),
        (KillPoint::BrokerInside, ENDED, 1),
        (KillPoint::BrokerAfter, ENDED, 1),
    ] {
        for action in [KillAction::KillActor, KillAction::Panic, KillAction::Fail] {
            let bench = Bench::new().await;
            bench.points.arm(Trap::new(point, action)).unwrap();
            let before = bench.incarnation();
            if point == KillPoint::BrokerAfter {
                bench.peer.answer();
            }
            assert_eq!(failure(bench.capability(1).spend(&asked()).await), expected, "{point} {action:?}");
            bench.restarted(before).await;
            assert!(bench.peer.requests() <= requests, "{point} {action:?}");
            bench.peer.answer();
            bench.capability(2).spend(&asked()).await.unwrap();
        }
    }
}

#[tokio::test]
async fn whoever_stops_waiting_takes_the_request_along_and_has_spent_it() {
    let bench = Bench::new().await;
    let (capability, wanted) = (bench.capability(1), asked());
    tokio::select! {
        _ = capability.spend(&wanted) => panic!("nobody has answered"),
        () = bench.peer.arrived() => {}
    }
    bench.peer.left().await;
    assert_eq!(failure(capability.spend(&asked()).await), SPENT);
    assert_eq!(bench.peer.requests(), 1);
}

#[tokio::test]
async fn no_more_requests_are_on_their_way_than_the_profile_allows() {
    let bench = Bench::with(|profile| {
        profile.in_flight_max = 1;
        profile.wait_ms = 20;
    })
    .await;
    let (first, second) = (bench.capability(1), bench.capability(2));
    let (one, two) = tokio::join!(async { first.spend(&asked()).await }, async {
        bench.peer.arrived().await;
        let reply = second.spend(&asked()).await;
        bench.peer.answer();
        reply
    });
    assert!(one.is_ok());
    assert_eq!(failure(two), (ProviderCode::BrokerBusy, Certainty::NotSent));
    assert_eq!(bench.peer.requests(), 1);
    bench.peer.answer();
    bench.capability(3).spend(&asked()).await.unwrap();
}

#[tokio::test]
async fn a_deadline_ends_what_is_on_its_way() {
    let bench = Bench::new().await;
    let deadline = Instant::now() + Duration::from_millis(300);
    let capability = bench.handle().capability(Wire::of(run(1)), Arc::new(request()), deadline);
    assert_eq!(failure(capability.spend(&asked()).await), (ProviderCode::DeadlinePassed, Certainty::Lost));
    assert_eq!(bench.peer.requests(), 1);
}

fn put(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(path, KEY).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[tokio::test]
async fn a_credential_is_looked_up_for_each_request_and_only_used_from_a_closed_file() {
    let credential = thoughtstream_domain::provider::CredentialName::parse("key").unwrap();
    let bench = Bench::with(|profile| profile.credential = Some(credential)).await;
    let missing = (ProviderCode::CredentialMissing, Certainty::NotSent);
    assert_eq!(failure(bench.capability(1).spend(&asked()).await), missing);
    let path = bench.base.path().join("key");
    put(&path, 0o644);
    let open = (ProviderCode::CredentialUnsafe, Certainty::NotSent);
    assert_eq!(failure(bench.capability(2).spend(&asked()).await), open);
    assert_eq!(bench.peer.requests(), 0);
    put(&path, 0o600);
    bench.peer.answer();
    let reply = bench.capability(3).spend(&asked()).await.unwrap();
    assert!(!format!("{reply:?}").contains(KEY));
    assert!(
        bench.peer.told.requests.lock().unwrap()[0].contains(&format!("authorization: Bearer {KEY}\r\n"))
    );
}

#[tokio::test]
async fn the_tree_shows_what_became_of_the_requests() {
    let bench = Bench::new().await;
    bench.peer.answer();
    bench.capability(1).spend(&asked()).await.unwrap();
    let tree = bench.root.handle().tree().await;
    let node = tree.find("brokers/peer").unwrap();
    let counts = |name: &str| node.detail.get(name).cloned();
    assert_eq!(counts("sent"), Some(Detail::Count(1)));
    assert_eq!(counts("inFlight"), Some(Detail::Count(0)));
    bench.root.stop();
    bench.root.wait().await;
    assert_eq!(
        failure(bench.capability(2).spend(&asked()).await),
        (ProviderCode::BrokerDown, Certainty::NotSent)
    );
}
