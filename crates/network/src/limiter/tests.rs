use super::*;

const MS: i64 = 1_000_000;

fn account(ledger: &Ledger, end_ns: i64) -> Account {
    Account::of(ledger, end_ns, |_, _| true)
}

/// Time of a limiter, milliseconds.
fn spent_ms(account: &Account, limiter: Limiter) -> i64 {
    account.times_ns(i64::MIN, i64::MAX)[limiter as usize] / MS
}

#[test]
fn a_tail_belongs_to_what_limited_the_answer_before_it() {
    let mut ledger = Ledger::default();
    ledger.state(0, State::Setup);
    ledger.requested(10 * MS);
    ledger.state(10 * MS, State::Thinking);
    ledger.state(15 * MS, State::Sending(Wait::SendBuffer));
    ledger.state(35 * MS, State::Tail(Wait::SlowStart));
    ledger.state(45 * MS, State::Unasked);
    let account = account(&ledger, 99 * MS);
    assert_eq!(
        account.bounds(),
        Some((0, 45 * MS)),
        "later time does not count"
    );
    assert_eq!(spent_ms(&account, Limiter::SendBuffer), 30);
    assert_eq!(spent_ms(&account, Limiter::PeerApplication), 5);
    assert_eq!(account.transfers, [(0, 45 * MS)]);
}

#[test]
fn an_answer_that_goes_out_at_once_is_limited_by_the_window_it_did_not_fill() {
    let mut ledger = Ledger::default();
    ledger.state(0, State::Thinking);
    ledger.state(10 * MS, State::Tail(Wait::SlowStart));
    ledger.state(20 * MS, State::Unasked);
    let account = account(&ledger, 20 * MS);
    assert_eq!(spent_ms(&account, Limiter::SlowStart), 10);
    assert_eq!(spent_ms(&account, Limiter::PeerApplication), 10);
}

#[test]
fn a_delayed_acknowledgment_counts_only_for_a_sender_that_waits_for_it() {
    for (state, delay_ms) in [
        (State::Tail(Wait::SlowStart), 40),
        (State::Sending(Wait::Nagle), 40),
        (State::Starved, 0),
        (State::Sending(Wait::Recovery), 0),
    ] {
        let mut ledger = Ledger::default();
        ledger.state(0, state);
        ledger.sent(0);
        ledger.acknowledged(60 * MS, 40 * MS, true);
        ledger.state(60 * MS, State::Unasked);
        let account = account(&ledger, 60 * MS);
        assert_eq!(
            spent_ms(&account, Limiter::DelayedAck),
            delay_ms,
            "{state:?}"
        );
    }
}

#[test]
fn silence_before_a_timer_is_recovery_only_where_something_was_lost() {
    let mut ledger = Ledger::default();
    ledger.state(0, State::Tail(Wait::SlowStart));
    ledger.timed_out(300 * MS, 100 * MS, 7);
    ledger.state(300 * MS, State::Sending(Wait::Recovery));
    ledger.state(350 * MS, State::Unasked);
    let needed = Account::of(&ledger, 350 * MS, |sequence, _| sequence == 7);
    assert_eq!(spent_ms(&needed, Limiter::LossRecovery), 250);
    let spurious = Account::of(&ledger, 350 * MS, |_, _| false);
    assert_eq!(spent_ms(&spurious, Limiter::LossRecovery), 50);
}

#[test]
fn an_outage_lasts_until_the_sender_hears_again_and_takes_no_idle_time() {
    let mut ledger = Ledger::default();
    ledger.state(0, State::Unasked);
    ledger.state(100 * MS, State::Sending(Wait::CongestionWindow));
    ledger.lost_in_outage(50 * MS, 400 * MS);
    ledger.acknowledged(700 * MS, 0, false);
    ledger.state(900 * MS, State::Unasked);
    let account = account(&ledger, 900 * MS);
    assert_eq!(spent_ms(&account, Limiter::Outage), 600);
    assert_eq!(spent_ms(&account, Limiter::Application), 100);
    assert_eq!(spent_ms(&account, Limiter::CongestionWindow), 200);
}

#[test]
fn what_never_ends_is_accounted_for_until_the_end() {
    let mut ledger = Ledger::default();
    ledger.state(5 * MS, State::Setup);
    assert_eq!(
        spent_ms(&account(&ledger, 65 * MS), Limiter::ConnectionSetup),
        60
    );
}
