use proptest::prelude::*;
use serde_json::{Value, json};
use thoughtstream_domain::diff::Change;
use thoughtstream_domain::id::{ConsumerKey, ExecutionId, RunId, SourceId};
use thoughtstream_domain::text::is_hostile;
use thoughtstream_domain::time::Timestamp;

use super::*;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::query::behind::Behind;
use crate::query::consumers::{Consumer, Last, Standing, State};
use crate::query::explain::{ClauseRow, Explained};
use crate::query::inbox::{self as inbox_query, Kind, Waiting};
use crate::query::proposals::{
    self as proposals_query, DiffHunk, DiffLine, EvidenceText, Proposal, ProposalContent, Shown,
};
use crate::query::runs::{RunReport, RunRow};
use crate::query::sources::Apart;
use crate::query::status::{Log, Service, Status};
use crate::query::tree::{LastExit, Node};
use crate::query::why::Why;

const NOW: Timestamp = Timestamp::from_millis(1_000_000_000);

fn ago(seconds: i64) -> Timestamp {
    NOW.plus_millis(-seconds * 1000)
}

fn key(text: &str) -> ConsumerKey {
    ConsumerKey::parse(text).unwrap()
}

fn consumer(id: &str, state: State) -> Consumer {
    Consumer {
        consumer: key(id),
        state,
        since: None,
        why: None,
        next: None,
        command: None,
        behind: Behind::default(),
        retries: 0,
        held: 0,
        last: Some(Last { run: RunId::from_bytes([7; 20]), state: "completed".to_owned(), at: ago(5) }),
        restarts: Some(0),
        sources: vec![Standing {
            source: SourceId::parse("filesystem:notes").unwrap(),
            progress: 3,
            head: 3,
        }],
    }
}

fn consumers() -> Vec<Consumer> {
    let quarantined = Consumer {
        since: Some(ago(7200)),
        why: Some("runner-failed".to_owned()),
        command: Some("thought consumer retry exe_aaaa".to_owned()),
        behind: Behind { events: 10_000, at_least: true, since: None },
        held: 1,
        retries: 5,
        ..consumer("links@2", State::Quarantined)
    };
    let retrying = Consumer {
        since: Some(ago(3)),
        why: Some("store-unreadable".to_owned()),
        next: Some(ago(-65)),
        behind: Behind { events: 2, at_least: false, since: None },
        retries: 1,
        ..consumer("tasks@1", State::Retrying)
    };
    vec![quarantined, consumer("structure@1", State::Idle), retrying]
}

fn status_of(consumers: Vec<Consumer>) -> Status {
    Status {
        service: Service {
            state: "running".to_owned(),
            pid: Some(4711),
            since: Some(ago(3600)),
            unwritable: None,
        },
        log: Log { events: 1234, sources: 7, last_at: Some(ago(2)) },
        waiting: 1,
        open: 2,
        apart: Vec::new(),
        consumers,
    }
}

#[test]
fn a_producer_apart_is_shown_with_its_process_or_with_how_long_nobody_is_there() {
    let one = |name: &str, pid: Option<u64>| Apart {
        source: SourceId::parse(name).unwrap(),
        connected: pid.is_some(),
        since: ago(30),
        pid,
    };
    let apart = vec![one("filesystem:mail", None), one("filesystem:notes", Some(4712))];
    let shown = status::status(&Status { apart, ..status_of(Vec::new()) }, View::default(), NOW);
    let lines: Vec<&str> = shown.lines().filter(|line| line.starts_with("producer")).collect();
    assert_eq!(
        lines,
        [
            "producer  of filesystem:mail runs apart, not connected since 30 s",
            "producer  of filesystem:notes runs apart, connected since 30 s, process 4712",
        ]
    );
}

#[test]
fn an_age_has_one_unit() {
    let at = Timestamp::from_millis;
    let ages = [0, 99_999, 100_000, 5_999_999, 6_000_000, 172_800_000].map(|millis| age(at(0), at(millis)));
    assert_eq!(ages, ["0 s", "99 s", "1 min", "99 min", "1 h", "2 d"]);
    assert_eq!(age(at(5_000), at(0)), "in 5 s");
    assert_eq!(age(at(i64::MIN), at(i64::MAX)), "106751991167 d");
}

#[test]
fn a_table_is_plain_text_without_control_characters() {
    let mut rows = Rows::new(&["A", "N"]).numbers(1);
    rows.row(&["x\u{1b}[31m".to_owned(), "1".to_owned()]);
    rows.row(&["a\nb".to_owned(), "100".to_owned()]);
    assert_eq!(rows.text(), "A              N\nx\\u{1b}[31m    1\na\\nb         100\n");
}

#[test]
fn a_cell_is_cut_for_a_terminal_alone() {
    let long = "x".repeat(CELL_CHARACTERS_MAX * 3);
    let shown = |mut rows: Rows| {
        rows.row_with_command(std::slice::from_ref(&long), &long);
        rows.text()
    };
    assert_eq!(shown(Rows::new(&["A", "B"])).matches(&long).count(), 2);
    let glance = shown(Rows { characters_max: CELL_CHARACTERS_MAX, ..Rows::new(&["A", "B"]) });
    assert_eq!(glance.matches(&long).count(), 1, "a command is whole: {glance}");
}

#[test]
fn one_screen_shows_what_matters() {
    insta::assert_snapshot!(status::status(&status_of(consumers()), View::default(), NOW), @r#"
    service   running, process 4711, up 60 min
    log       1234 events from 7 sources, the last 2 s ago
    runs      2 open
    inbox     1 thing waits for you: thought inbox

    CONSUMER     STATE        SINCE  BEHIND  HELD  RETRIES  SETTLED  NEXT     WHY
    links@2      quarantined  2 h    10000+     1        5  5 s      -        runner-failed
    structure@1  idle         -           0     0        0  5 s      -        -
    tasks@1      retrying     3 s         2     0        1  5 s      in 65 s  store-unreadable

    links@2: thought consumer retry exe_aaaa
    "#);
}

#[test]
fn the_inbox_names_the_command_that_moves_each_thing() {
    let waiting = |kind, id: &str, why: &str, command: &str| Waiting {
        kind,
        id: id.to_owned(),
        since: Some(ago(90_000)),
        why: why.to_owned(),
        command: command.to_owned(),
        ways: Vec::new(),
        about: None,
        hidden_until: None,
    };
    let all = [
        waiting(Kind::ConsumerPaused, "tasks", "holiday", "thought consumer resume tasks"),
        waiting(Kind::Incident, "filesystem:notes", "root-missing", "thought source look filesystem:notes"),
        Waiting {
            ways: ["confirm", "resend"].map(|way| format!("thought delivery {way} dlv_aaaa")).into(),
            ..waiting(Kind::DeliveryUnconfirmed, "dlv_aaaa", "lost", "thought delivery show dlv_aaaa")
        },
    ];
    insta::assert_snapshot!(inbox::inbox(&all, Some(100), NOW), @r#"
    WHAT                  WHICH             AGE   WHY           COMMAND
    consumer-paused       tasks             25 h  holiday       thought consumer resume tasks
    incident              filesystem:notes  25 h  root-missing  thought source look filesystem:notes
    delivery-unconfirmed  dlv_aaaa          25 h  lost          thought delivery show dlv_aaaa
                                                                thought delivery confirm dlv_aaaa
                                                                thought delivery resend dlv_aaaa
    "#);
    // Nobody knows how wide what reads from a pipe is, and a narrow terminal would break lines where it likes.
    assert_eq!(inbox::inbox(&all, None, NOW), inbox::inbox(&all, Some(60), NOW));
    insta::assert_snapshot!(inbox::inbox(&all, None, NOW), @r#"
    consumer-paused  tasks  25 h
      holiday
        thought consumer resume tasks

    incident  filesystem:notes  25 h
      root-missing
        thought source look filesystem:notes

    delivery-unconfirmed  dlv_aaaa  25 h
      lost
        thought delivery show dlv_aaaa
        thought delivery confirm dlv_aaaa
        thought delivery resend dlv_aaaa
    "#);
    assert_eq!(inbox::inbox(&[], None, NOW), "nothing waits\n");
}

#[test]
fn what_several_consumers_left_of_one_event_is_one_thing_with_each_of_them_below_it() {
    let about = |byte: u8, what: &str| inbox_query::About {
        event: thoughtstream_domain::id::EventId::from_bytes([byte; 32]),
        source: SourceId::parse("filesystem:notes").unwrap(),
        what: what.to_owned(),
        more: 0,
    };
    let left = |kind, id: &str, consumer: &str, about| Waiting {
        kind,
        id: id.to_owned(),
        since: Some(ago(90_000)),
        why: format!("{consumer}: document-not-utf8"),
        command: format!("thought why {id}"),
        ways: vec![format!("thought consumer skip {id}")],
        about: Some(about),
        hidden_until: None,
    };
    let all = [
        left(Kind::Unprocessed, "exe_a", "links@2", about(1, "bad.md")),
        left(Kind::Unprocessed, "exe_b", "links@2", about(2, "more/bad.md")),
        left(Kind::ExecutionHeld, "exe_c", "other@1", about(1, "bad.md")),
        left(Kind::Unprocessed, "exe_d", "tasks@1", about(1, "bad.md")),
    ];
    insta::assert_snapshot!(inbox::inbox(&all, None, NOW));
    insta::assert_snapshot!(inbox::inbox(&all, Some(150), NOW));
}

fn node(name: &str, state: &str, children: Vec<Node>) -> Node {
    Node { children, ..Node::plain(name, "supervisor", state, ago(3600)) }
}

#[test]
fn a_tree_shows_restarts_and_what_is_stuck() {
    let mut restarted = Node::plain("tasks", "consumer", "backing-off", ago(1));
    restarted.restarts = 3;
    restarted.answering = false;
    restarted.last_exit =
        Some(LastExit { exit: "failed".to_owned(), reason: Some("panicked".to_owned()), at: ago(1) });
    restarted.next_start_at = Some(ago(-4));
    restarted.detail.insert("behind".to_owned(), json!(12));
    restarted.detail.insert("lookedAt".to_owned(), json!(ago(30)));
    let root = node(
        "thoughtstream",
        "running",
        vec![node("log", "running", vec![]), node("consumers", "running", vec![restarted])],
    );
    insta::assert_snapshot!(tree::tree(&root, NOW), @r#"
    thoughtstream  running  60 min
    ├─ log         running  60 min
    └─ consumers   running  60 min
       └─ tasks    backing-off  1 s  not answering  restarts 3, panicked  starts in 4 s  behind 12  lookedAt 30 s ago
    "#);
}

#[test]
fn why_names_the_fact_and_the_way_out() {
    let why = Why {
        id: "exe_aaaa".to_owned(),
        kind: "execution".to_owned(),
        state: "quarantined".to_owned(),
        since: Some(ago(120)),
        fact: "tasks@1 stands still".to_owned(),
        next: None,
        commands: vec!["thought consumer retry exe_aaaa".to_owned()],
        consumers: Vec::new(),
    };
    insta::assert_snapshot!(why::why(&why, NOW), @r#"
    execution exe_aaaa: quarantined for 2 min
      tasks@1 stands still
      $ thought consumer retry exe_aaaa
    "#);
}

fn row(code: &str) -> RunRow {
    RunRow {
        run: RunId::from_bytes([7; 20]),
        execution: ExecutionId::from_bytes([8; 20]),
        consumer: key("tasks@1"),
        attempt: 2,
        source: SourceId::parse("filesystem:notes").unwrap(),
        state: "failed".to_owned(),
        code: Some(code.to_owned()),
        received_at: ago(9),
        ended_at: None,
        outputs: 0,
    }
}

/// Two things that wait, one of them hidden, of which everything is this text.
fn waiting_for(text: &str) -> [Waiting; 2] {
    let waiting = Waiting {
        kind: Kind::Incident,
        id: text.to_owned(),
        since: None,
        why: text.to_owned(),
        command: text.to_owned(),
        ways: Vec::new(),
        about: None,
        hidden_until: None,
    };
    let about = inbox_query::About {
        event: thoughtstream_domain::id::EventId::from_bytes([1; 32]),
        source: SourceId::parse("filesystem:notes").unwrap(),
        what: text.to_owned(),
        more: 0,
    };
    let waiting = Waiting { about: Some(about), ..waiting };
    [waiting.clone(), Waiting { hidden_until: Some(NOW), ..waiting }]
}

/// A proposal of which everything that comes from outside is this text.
fn proposal(text: &str) -> Proposal {
    let id = thoughtstream_domain::id::EventId::from_bytes([1; 32]);
    let owned = || text.to_owned();
    let shown = Shown::Document {
        operation: owned(),
        base_sha256: thoughtstream_domain::hash::Sha256Hash::of(b"old"),
        result_sha256: thoughtstream_domain::hash::Sha256Hash::of(b"new"),
        hunks: vec![DiffHunk {
            old: 3,
            new: 3,
            lines: vec![
                DiffLine { change: Change::Kept, text: owned() },
                DiffLine { change: Change::Removed, text: owned() },
                DiffLine { change: Change::Added, text: owned() },
            ],
        }],
        ends_differ: false,
    };
    Proposal {
        id,
        kind: thoughtstream_domain::proposal::Kind::MemoryChange,
        state: proposals_query::State::Waiting,
        at: ago(7200),
        agent: Some(key("stream@18")),
        run: Some(RunId::from_bytes([7; 20])),
        trigger: Some(id),
        target: Some(owned()),
        characters: Some(5),
        sha256: Some(thoughtstream_domain::hash::Sha256Hash::of(b"text")),
        evidence: vec![id],
        decision: None,
        outcome: None,
        code: None,
        outlook: Some(proposals_query::Outlook {
            verdict: proposals_query::Verdict::Fails,
            code: Some(owned()),
            base_sha256: thoughtstream_domain::hash::Sha256Hash::of(b"old"),
            found_sha256: Some(thoughtstream_domain::hash::Sha256Hash::of(b"other")),
            result_sha256: None,
            result_bytes: None,
            holder: None,
        }),
        ways: ["accept ID", "reject ID", "edit ID --file FILE"]
            .map(|way| format!("thought inbox {way}"))
            .to_vec(),
        hint: None,
        content: Some(ProposalContent {
            text: owned(),
            asked: Some(owned()),
            reason: Some(owned()),
            edited: None,
            shown,
            evidence: vec![EvidenceText { id, kind: owned(), at: ago(9000), text: Some(owned()) }],
        }),
    }
}

#[test]
fn a_proposal_is_shown_with_what_it_would_change_and_what_moves_it() {
    insta::assert_snapshot!(proposals::list(&[proposal("Moved to Lisbon.")], NOW));
    insta::assert_snapshot!(proposals::one(
        &proposal("a\u{202e}b\nway out   thought stop"),
        foreign::Room::Whole,
        NOW
    ));
    assert_eq!(proposals::list(&[], NOW), "no proposals\n");
}

/// Everything that is rendered, with `text` in every place that something from outside can reach.
fn everything(text: &str) -> Vec<String> {
    let hostile = || text.to_owned();
    let mut worst = consumer("links@2", State::Paused);
    (worst.why, worst.command) = (Some(hostile()), Some(hostile()));
    let mut status = status_of(vec![worst.clone()]);
    (status.service.state, status.service.unwritable) = (hostile(), Some(hostile()));
    let mut leaf = Node::plain(text, text, text, NOW);
    leaf.note = Some(hostile());
    leaf.last_exit = Some(LastExit { exit: hostile(), reason: Some(hostile()), at: NOW });
    leaf.restarts = 1;
    leaf.detail.insert(hostile(), json!(text));
    leaf.detail.insert("list".to_owned(), json!([text, { text: text }]));
    let inner = Why {
        id: hostile(),
        kind: hostile(),
        state: hostile(),
        since: None,
        fact: hostile(),
        next: None,
        commands: vec![hostile()],
        consumers: Vec::new(),
    };
    let event: Value = json!({
        "position": 1, "source": text, "sequence": 1, "type": text, "version": 1, "id": text,
        "payload": { "path": text, text: [text] }, "actor": { "id": text }, text: text,
    });
    let clause = ClauseRow { name: hostile(), wanted: hostile(), found: hostile(), holds: true };
    let explained = Explained {
        consumer: key("a@1"),
        event: thoughtstream_domain::id::EventId::from_bytes([1; 32]),
        matches: true,
        clauses: vec![clause],
        stands: Some(hostile()),
    };
    let report = RunReport {
        execution: json!({ "id": text, "state": { "kind": text, "code": text }, "triggers": [{ "id": text, "sequence": text }] }),
        attempts: vec![row(text)],
        events: Vec::new(),
    };
    let finding = verify::Finding { kind: hostile(), place: hostile(), message: hostile() };
    let verified = verify::Report {
        ok: false,
        events: 1,
        runs: 1,
        head: hostile(),
        findings: vec![finding],
        unlisted: 1,
    };
    let failure = Failure::new(Exit::Refused, text, text).because(&std::io::Error::other(hostile()));
    vec![
        consumers::list(&[worst], View::default(), NOW),
        status::status(&status, View::default(), NOW),
        tree::tree(&node(text, text, vec![leaf]), NOW),
        inbox::inbox(&waiting_for(text), Some(usize::MAX), NOW),
        inbox::inbox(&waiting_for(text), None, NOW),
        proposals::list(&[proposal(text)], NOW),
        proposals::one(&proposal(text), foreign::Room::Whole, NOW),
        why::why(&Why { consumers: vec![inner.clone()], ..inner }, NOW),
        events::row(&event, NOW),
        events::one(&event),
        explain::explain(&explained),
        runs::list(&[row(text)], NOW),
        runs::report(&report, NOW),
        verify::report(&verified),
        failure.with_hint(text).render(),
        crate::operate::render(&json!({ "done": text, "id": text })),
        crate::operate::render(
            &json!({ "started": [text], "stopped": [text], "restarted": [text], "unchanged": [] }),
        ),
        crate::operate::render(&json!({ text: text })),
    ]
}

proptest! {
    #[test]
    fn no_control_character_reaches_the_terminal(text in "[\\PC\u{0}-\u{1f}\u{7f}-\u{9f}\u{200b}-\u{202e}\u{2066}-\u{2069}\u{feff}\u{ad}]{0,40}") {
        for shown in everything(&text) {
            prop_assert!(shown.chars().all(|c| c == '\n' || !is_hostile(c)), "{shown:?}");
        }
    }

    #[test]
    fn an_answer_for_programs_is_safe_and_says_the_same(text in any::<String>()) {
        let value = json!({ "text": text, &text: [&text] });
        let json = thoughtstream_domain::text::json_printable(&serde_json::to_string(&value).unwrap());
        prop_assert!(!json.chars().any(is_hostile));
        prop_assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), value);
    }
}
