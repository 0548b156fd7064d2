//! Chaos over everything that a conversation passes, through the real program: a bot that people write to, a model that
//! is asked and proposes, a person who decides, what follows from it, deliveries, and moves to another version. What is
//! to fail is dealt from a seed; everything else that happens is drawn from it.
//!
//! A bounded sample runs each time, in which every kill point has somebody run into it; `THOUGHT_CHAOS_KILLS` asks for
//! more, and has each point passed with each action. `THOUGHT_CHAOS_SEED` replays one seed.

mod deeds;
mod stage;

use thoughtstream_domain::payload::proposal::Disposition;
use thoughtstream_store::sim::Dice;
use thoughtstream_testkit::chaos::deck::{Cast, Deal, deal, share};
use thoughtstream_testkit::chaos::witness::Witness;
use thoughtstream_testkit::chaos::{seeds, setting};

use deeds::Schedule;
use stage::Stage;

/// So many process kills of a long run stand for one seed of each share here.
const KILLS_A_SEED: u64 = 50;

/// Plays the cards of one share of a deck, for each seed; as many tests share a deck, so that none takes long.
fn play(cast: Cast, of: usize, shares: usize) {
    let more = setting("THOUGHT_CHAOS_KILLS");
    let dealt = if more.is_some() { Deal::Everything } else { Deal::Sample };
    for seed in seeds(1, more.map_or(1, |kills| (kills / KILLS_A_SEED).max(1))) {
        let kills = more.map(|kills| format!("THOUGHT_CHAOS_KILLS={kills} ")).unwrap_or_default();
        let context =
            format!("{kills}THOUGHT_CHAOS_SEED={seed} replays this ({cast:?}, share {of} of {shares})");
        let cards = share(deal(cast, dealt, &mut Dice::new(seed)), of, shares);
        let stage = Stage::new((seed + of as u64).is_multiple_of(2));
        let mut schedule = Schedule::new(&stage, seed ^ (of as u64) << 32, context, cards);
        match cast {
            Cast::Talkers => schedule.talk(of, shares),
            Cast::Movers => schedule.move_on(),
            Cast::Workers => panic!("no bot belongs to this cast"),
        }
        schedule.judge();
    }
}

/// The judge judges: what one of those outside has seen and the log does not tell is noticed, whatever it is.
#[test]
fn who_saw_something_else_is_not_agreed_with() {
    let stage = Stage::new(false);
    let mut schedule = Schedule::new(&stage, 3, "lies".to_owned(), Vec::new());
    while !schedule.has_much_to_tell() {
        schedule.tell();
    }
    schedule.settle();
    let (witness, store) = schedule.close();
    witness.check(&store.reader, "the truth");
    type Lie = fn(&mut Witness);
    let lies: [(&str, Lie); 8] = [
        ("an update of which the log knows nothing", |saw| {
            drop(saw.updates.insert(-1, "unheard".to_owned()))
        }),
        ("an update that nobody sent", |saw| drop(saw.updates.pop_first())),
        ("more requests than attempts", |saw| saw.requests.extend(vec![saw.requests[0].clone(); 100])),
        ("a request that costs more", |saw| saw.estimate.as_mut().unwrap().input_tokens += 1),
        ("a message that arrived twice", |saw| {
            drop(saw.arrived.insert(-1, saw.arrived.values().next().unwrap().clone()))
        }),
        ("a message that never arrived", |saw| drop(saw.arrived.pop_first())),
        ("a decision that nobody made", |saw| {
            let (_, decided) = saw.decided.iter_mut().next().unwrap();
            let other =
                if *decided == Disposition::Reject { Disposition::Accept } else { Disposition::Reject };
            *decided = other;
        }),
        ("a line that nobody wrote", |saw| saw.memory[2].push_str("Somebody else's.\n")),
    ];
    for (what, lie) in lies {
        let mut liar = witness.clone();
        lie(&mut liar);
        let believed = std::panic::catch_unwind(|| liar.check(&store.reader, what));
        assert!(believed.is_err(), "{what}");
    }
}

/// Whoever ends wherever on the way from a message to its reply and to what a person lets follow from it.
mod whoever_ends_on_the_way_nothing_is_lost_or_done_twice {
    use super::*;

    const SHARES: usize = 4;

    #[test]
    fn in_every_fourth_place() {
        play(Cast::Talkers, 0, SHARES);
    }

    #[test]
    fn in_the_first_and_every_fourth_behind_it() {
        play(Cast::Talkers, 1, SHARES);
    }

    #[test]
    fn in_the_second_and_every_fourth_behind_it() {
        play(Cast::Talkers, 2, SHARES);
    }

    #[test]
    fn in_the_third_and_every_fourth_behind_it() {
        play(Cast::Talkers, 3, SHARES);
    }
}

/// Whatever ends an activation at any of its steps, the same command goes on with it.
mod whatever_ends_an_activation_the_same_command_goes_on {
    use super::*;

    #[test]
    fn in_every_second_place() {
        play(Cast::Movers, 0, 2);
    }

    #[test]
    fn in_the_places_between() {
        play(Cast::Movers, 1, 2);
    }
}
