use thoughtstream_domain::accounting::{Ceiling, Denial, Simulation, Window};
use thoughtstream_domain::id::{ConsumerId, ConsumerKey, ExecutionId, RunId};

use super::*;
use crate::query::accounts::{InWindow, Lease, State, Wait};

const NOW: Timestamp = Timestamp::from_millis(1_000_000_000);

fn soon(seconds: i64) -> Timestamp {
    NOW.plus_millis(seconds * 1000)
}

fn key() -> ConsumerKey {
    ConsumerKey::parse("telegram-conversation@7").unwrap()
}

fn declares() -> Declared {
    Declared {
        consumer: key(),
        enabled: true,
        reserve: Amounts {
            calls: 1,
            input_tokens: 60_000,
            output_tokens: 2_000,
            cost_microusd: Some(50_000),
        },
        lease_ms: 300_000,
        on_exhaustion: OnExhaustion::Defer,
    }
}

fn sums(calls: u64) -> Sums {
    Sums { calls, input_tokens: calls * 1_500, output_tokens: calls * 90, cost_microusd: calls * 50_000 }
}

fn spent(reserved: u64, reported: u64, estimated: u64) -> Spent {
    let (reserved, reported, estimated) = (sums(reserved), sums(reported), sums(estimated));
    let charged = reported.plus(estimated);
    Spent { used: reserved.plus(charged), reserved, charged, reported, estimated, not_sent: 0 }
}

fn denial() -> Denial {
    Denial {
        window: Window::Rolling { ms: 300_000 },
        dimension: Dimension::Calls,
        used: 10,
        asked: 1,
        most: 10,
        retry_at: soon(42),
    }
}

fn exhausted() -> Account {
    let rolling = InWindow {
        window: Window::Rolling { ms: 300_000 },
        since: soon(-300),
        most: Ceiling { calls: Some(10), ..Ceiling::default() },
        spent: spent(2, 7, 1),
        fits: 0,
    };
    let day = InWindow {
        window: Window::Day,
        since: soon(-30_000),
        most: Ceiling { output_tokens: Some(100_000), cost_microusd: Some(50_000_000), ..Ceiling::default() },
        spent: spent(2, 40, 3),
        fits: 955,
    };
    Account {
        account: key().id,
        state: State::Exhausted,
        declared: Some(declares()),
        denial: Some(denial()),
        windows: vec![rolling, day],
        ever: Spent { not_sent: 3, ..spent(2, 400, 12) },
        open: 2,
        leases: vec![Lease {
            run: RunId::from_bytes([7; 20]),
            consumer: key(),
            at: soon(-12),
            until: soon(288),
            estimate: declares().reserve,
        }],
        waiting: 1,
        waits: vec![Wait { execution: ExecutionId::from_bytes([8; 20]), at: soon(42) }],
    }
}

fn undeclared() -> Account {
    Account {
        account: ConsumerId::parse("note-observer").unwrap(),
        state: State::Undeclared,
        declared: None,
        denial: None,
        windows: vec![],
        ever: spent(0, 0, 0),
        open: 0,
        leases: vec![],
        waiting: 0,
        waits: vec![],
    }
}

#[test]
fn accounts_are_listed_one_a_line() {
    insta::assert_snapshot!(list(&[undeclared(), exhausted()], NOW));
    assert!(list(&[], NOW).starts_with("no accounts"));
}

#[test]
fn an_account_shows_its_windows_its_leases_and_when_it_goes_on() {
    insta::assert_snapshot!(show(&exhausted(), NOW));
    insta::assert_snapshot!("undeclared", show(&undeclared(), NOW));
}

#[test]
fn a_simulation_shows_when_the_limit_is_reached() {
    let mut steps = vec![thoughtstream_domain::accounting::Step { at: NOW, calls: 3 }];
    steps.extend((1..=25).map(|n| thoughtstream_domain::accounting::Step { at: soon(n * 60), calls: 1 }));
    let simulation = Simulation { steps, denial: Some(denial()), passed: 0 };
    let waits =
        Simulated { account: key().id, at: NOW, calls: 28, declared: declares(), not_sent: 1, simulation };
    insta::assert_snapshot!(simulated(&waits));
    let passes = Simulated {
        simulation: Simulation {
            passed: 25,
            steps: waits.simulation.steps[..1].to_vec(),
            ..waits.simulation
        },
        declared: Declared { on_exhaustion: OnExhaustion::Advance, enabled: false, ..declares() },
        not_sent: 0,
        ..waits
    };
    insta::assert_snapshot!("passes", simulated(&passes));
}

#[test]
fn money_is_written_exactly() {
    let texts = [0, 1, 50_000, 1_500_000, 12_345_678].map(cost);
    assert_eq!(texts, ["-", "$0.000001", "$0.05", "$1.50", "$12.345678"]);
}
