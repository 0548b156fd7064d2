//! The executable, killed with SIGKILL under load: by a timer, while it starts, while it reads its declarations
//! again, and by itself at a named point. What was acknowledged is kept here, outside of the log.
//!
//! A bounded sample runs each time; `THOUGHT_CHAOS_KILLS` asks for more. `THOUGHT_CHAOS_SEED` replays one seed.

use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;
use thoughtstream_domain::id::{IdempotencyKey, SourceId};
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_store::sim::Dice;
use thoughtstream_store::{Options, Store};
use thoughtstream_surface::ask::{Operated, Submit};
use thoughtstream_surface::client::reach_service;
use thoughtstream_surface::failure::Failure;
use thoughtstream_surface::load::load;
use thoughtstream_surface::places::Places;
use thoughtstream_surface::query::Sink;
use thoughtstream_surface::session::Session;
use thoughtstream_surface::socket::Door;
use thoughtstream_surface::submit::Appended;
use thoughtstream_testkit::chaos::deck::{Cast, pick};
use thoughtstream_testkit::chaos::oracle::Place;
use thoughtstream_testkit::chaos::oracle::{Oracle, folder_differs};
use thoughtstream_testkit::chaos::{seeds, setting};

use crate::cli_world::World;

/// Kills of a bounded run.
const KILLS: u64 = 10;

/// How many append at the same time.
const HANDS: u64 = 3;

/// How long a process may take to run into its trap; one that does not is killed from outside.
const TRAP_WITHIN: Duration = Duration::from_secs(3);

/// Takes the one value of an answer.
#[derive(Default)]
struct One(Option<serde_json::Value>);

impl Sink for One {
    fn value(&mut self, value: serde_json::Value) -> Result<(), Failure> {
        self.0 = Some(value);
        Ok(())
    }
}

/// Appends through the socket until told to stop, and keeps what is acknowledged.
struct Hand<'a> {
    number: u64,
    session: Session,
    oracle: &'a Oracle,
    stop: &'a AtomicBool,
    acknowledged: &'a AtomicU64,
}

impl Hand<'_> {
    fn work(&self) {
        let mut number = 0;
        while !self.stop.load(Ordering::SeqCst) {
            let source = SourceId::parse(&format!("notes:hand-{}", number % 2)).unwrap();
            // The same key again until it is acknowledged: a lost answer is found out by asking again.
            let key = IdempotencyKey::parse(&format!("{}/{number}", self.number)).unwrap();
            match self.append(source.clone(), key) {
                Ok(appended) => {
                    let Appended { id, position, sequence, recorded_at, .. } = appended;
                    self.oracle.acknowledged(&source, [Place { id, position, sequence, recorded_at }], 0);
                    self.acknowledged.fetch_add(1, Ordering::SeqCst);
                    number += 1;
                }
                // The service is being killed or started at the moment.
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    fn append(&self, source: SourceId, key: IdempotencyKey) -> Result<Appended, Failure> {
        let mut connection = reach_service(&self.session, Door::Ask)?;
        let submit = Submit {
            source,
            kind: "stream.thought.source.note".to_owned(),
            payload: serde_json::json!({ "text": format!("said by {key}") }),
            key,
            privacy: Privacy::Private,
        };
        let mut one = One::default();
        connection.ask(&Operated::Submit(Box::new(submit)), &mut one)?;
        Ok(serde_json::from_value(one.0.expect("an answer has a value"))
            .expect("it says where the event stands"))
    }
}

/// One way to die.
struct Deaths<'a> {
    world: &'a World,
    dice: Dice,
    edits: u64,
    trapped: u64,
}

impl Deaths<'_> {
    fn edit(&mut self) {
        for _ in 0..1 + self.dice.below(4) {
            self.edits += 1;
            let file = |number: u64| self.world.notes.join(format!("file-{number}.md"));
            let (one, other) = (file(self.dice.below(8)), file(self.dice.below(8)));
            // What is not there cannot be moved or removed.
            match self.dice.below(8) {
                0 => std::fs::remove_file(one).ok(),
                1 => std::fs::rename(one, other).ok(),
                _ => std::fs::write(one, format!("# Edit {}\n\n- [ ] a task\n", self.edits)).ok(),
            };
        }
    }

    fn one(&mut self) {
        match self.dice.below(10) {
            0 => self.while_it_starts(),
            1..=4 => self.by_its_own_hand(),
            5 => self.while_it_reloads(),
            _ => self.by_the_clock(),
        }
    }

    fn pause(&mut self, most: u64) {
        std::thread::sleep(Duration::from_millis(self.dice.below(most)));
    }

    fn by_the_clock(&mut self) {
        let running = self.world.serve(&[]);
        self.edit();
        self.pause(250);
        self.edit();
        self.pause(100);
        running.kill();
    }

    fn while_it_starts(&mut self) {
        let mut child =
            self.world.command(&["serve"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        self.pause(300);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn while_it_reloads(&mut self) {
        let file = self.world.config.join("declarations/document-links.yaml");
        let text = std::fs::read_to_string(&file).unwrap();
        let (bumped, _) = thoughtstream_domain::declaration::bump("document-links.yaml", &text).unwrap();
        let running = self.world.serve(&[]);
        self.edit();
        std::fs::write(file, bumped).unwrap();
        running.signal(Signal::SIGHUP);
        self.pause(60);
        running.kill();
    }

    /// Arms a point so that the process kills itself there.
    fn by_its_own_hand(&mut self) {
        let mut points = Cast::Workers.points();
        points.retain(|point| !point.as_str().starts_with("progress."));
        let point = pick(&mut self.dice, &points);
        let passage = (1 + self.dice.below(3)).to_string();
        let mut running = self.world.serve(&[]);
        // The process may run into it before it has answered.
        let arm = ["rehearsal", "arm", point.as_str(), "abort-process", "--passage", &passage];
        let armed = self.world.thought(&arm).code;
        assert!([0, 4, 5].contains(&armed), "arming {point} ended with {armed}");
        self.edit();
        if point.as_str().starts_with("recovery.") {
            // Somebody has to be recovered; the process may be gone before it answers.
            self.world.thought(&["rehearsal", "kill", "consumers/document-structure"]);
        }
        self.trapped += u64::from(running.ends_within(TRAP_WITHIN));
        running.kill();
    }
}

fn run(seed: u64, kills: u64) {
    let context = format!("THOUGHT_CHAOS_SEED={seed} replays this");
    let mut world = World::with_config();
    world.data = world.base().join("rehearsal");
    world.thought(&["rehearsal", "create"]).expect(0);
    let places = Places { data: world.data.clone(), config: world.config.clone() };
    let session = Session { places: places.clone(), address: Default::default(), json: true };
    let (oracle, stop, acknowledged) = (Oracle::default(), AtomicBool::new(false), AtomicU64::new(0));
    let mut deaths = Deaths { world: &world, dice: Dice::new(seed), edits: 0, trapped: 0 };
    std::thread::scope(|scope| {
        for number in 0..HANDS {
            let session = session.clone();
            let hand = Hand { number, session, oracle: &oracle, stop: &stop, acknowledged: &acknowledged };
            scope.spawn(move || hand.work());
        }
        // A hand that works on for ever would hide what failed.
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..kills {
                deaths.one();
                let report = world.thought(&["verify", "--json"]);
                assert_eq!(report.code, 0, "{context}: {} {}", report.stdout, report.stderr);
            }
        }));
        stop.store(true, Ordering::SeqCst);
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    let running = world.serve(&[]);
    let folder = SourceId::parse("filesystem:notes").unwrap();
    world.until_idle();
    assert_eq!(running.stop(), 0, "{context}");
    // Edits of the last moments may have come after the last look: one more service finds them.
    let running = world.serve(&[]);
    world.until_idle();
    assert_eq!(running.stop(), 0, "{context}");
    let set = load(&places).unwrap().set;
    let store = Store::open(&world.data, Options::default()).unwrap();
    assert_eq!(folder_differs(&store.reader, &folder, &world.notes), None, "{context}");
    oracle.check_acknowledged(&store.reader, u64::MAX, &context);
    oracle.check_quiet(&store.reader, &set, &context);
    assert!(acknowledged.load(Ordering::SeqCst) > 0, "{context}: nothing was acknowledged");
}

#[test]
fn a_process_may_be_killed_at_any_moment() {
    let kills = setting("THOUGHT_CHAOS_KILLS").unwrap_or(KILLS);
    for seed in seeds(1, 1) {
        run(seed, kills);
    }
}
