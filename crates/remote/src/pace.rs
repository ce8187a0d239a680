//! When requests may be sent to a host.
//!
//! All requests of a process to one host share a [`Host`], whichever store they belong to. They
//! stand in one line, first come first served.
//!
//! 1. A store may limit its requests per second. The tokens come from the host's bucket, which
//!    holds the tokens of [`BURST`]. Time in this line does not count towards the deadline of a
//!    request (the transport notes it).
//! 2. A host that is overloaded refuses requests (429, 503). If every request waited by itself and
//!    tried again, hundreds of them would keep the host overloaded. Therefore all wait together:
//!    for a pause, and then for one request that goes ahead. If it succeeds, others follow, as in
//!    TCP. Each success allows one more, until half as many are on their way as when the host
//!    refused. From there a quarter more is allowed with each round. If the request that went
//!    ahead is refused, all that wait are refused without being sent, and the next pause is twice
//!    as long. Each request has a limited number of attempts, so a host that is out of order
//!    becomes an error.

use futures_util::future::{Either, select};
use hyperslab_store::fork::{self, Mutex};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex as Line, Notify};

/// Tokens are kept for this long. Requests of one round are sent together up to that number.
const BURST: Duration = Duration::from_millis(100);

/// The first pause, and the longest.
const PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The longest pause that a host can ask for (`Retry-After`). Requests have deadlines of a minute.
const LONGEST_ADVICE: Duration = Duration::from_secs(30);

/// After this time without a refusal, the next pause is short again.
const FORGOTTEN: Duration = Duration::from_secs(60);

/// After a pause, the number of requests doubles with each round at least up to this one. A single
/// refusal is then soon forgotten.
const QUICKLY: usize = 8;

/// With more requests than this on their way, nobody counts them any more.
const UNCOUNTED: usize = 1024;

/// The state of a host: tokens, pauses, and how many requests it takes.
#[derive(Debug)]
struct State {
    /// When the last token was due.
    token: Option<Instant>,
    /// Requests that are sent, and not answered.
    in_flight: usize,
    /// How many may be. `None`: the host has not refused any for long.
    window: Option<Window>,
    paused_until: Option<Instant>,
    /// Pauses since the last success.
    pauses: u32,
    /// When the last pause began. Answers to requests that were sent before say nothing new.
    refused: Option<Instant>,
}

/// How many requests may be on their way.
#[derive(Clone, Copy, Debug)]
struct Window {
    size: usize,
    /// The size up to which it doubles with each round.
    threshold: usize,
    /// Successes since it last grew.
    successes: usize,
}

/// The next step of the first request of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Go,
    WaitUntil(Instant),
    /// Wait for the answer to another request.
    WaitForAnswer,
}

impl State {
    const NEW: State =
        State { token: None, in_flight: 0, window: None, paused_until: None, pauses: 0, refused: None };

    /// Decides about the first request of the line. [`Next::Go`] counts it as sent.
    fn next(&mut self, now: Instant, interval: Option<Duration>) -> Next {
        if let Some(until) = self.paused_until.filter(|until| now < *until) {
            return Next::WaitUntil(until);
        }
        if self.window.is_some_and(|window| self.in_flight >= window.size) {
            return Next::WaitForAnswer;
        }
        if let Some(interval) = interval {
            // Stores with different limits share the tokens. Each waits for as long as its own
            // limit says.
            let due = self.token.and_then(|last| last.checked_add(interval));
            if let Some(due) = due.filter(|due| now < *due) {
                return Next::WaitUntil(due);
            }
            self.token = due.max(now.checked_sub(BURST.saturating_sub(interval)));
        }
        self.in_flight += 1;
        Next::Go
    }

    /// Notes that the host refused a request that was sent at `sent`.
    ///
    /// Returns whether the request went ahead of all others.
    fn refuse(&mut self, sent: Instant, now: Instant, advice: Duration, chance: f64) -> bool {
        let until = |pause| now.checked_add(pause).max(self.paused_until);
        if self.refused.is_some_and(|refused| sent < refused) {
            self.paused_until = until(advice);
            return false;
        }
        if self.refused.is_some_and(|refused| now.duration_since(refused) > FORGOTTEN) {
            self.pauses = 0;
        }
        let pause = LONGEST_PAUSE.min(PAUSE.saturating_mul(1 << self.pauses.min(16)));
        self.paused_until = until(pause.mul_f64(0.5 + chance).max(advice));
        let size = self.window.map_or(self.in_flight, |window| window.size);
        self.window = Some(Window { size: 1, threshold: (size / 2).max(QUICKLY), successes: 0 });
        self.pauses = self.pauses.saturating_add(1);
        self.refused = Some(now);
        self.pauses > 1
    }

    /// Notes that the host answered a request that was sent at `sent`.
    fn succeed(&mut self, sent: Instant) {
        if self.refused.is_some_and(|refused| sent < refused) {
            return;
        }
        self.pauses = 0;
        let Some(window) = &mut self.window else { return };
        window.successes += 1;
        if window.successes >= if window.size < window.threshold { 1 } else { 4 } {
            window.successes = 0;
            window.size += 1;
        }
        self.window = self.window.filter(|window| window.size <= UNCOUNTED);
    }
}

/// The requests of this process to one host.
#[derive(Debug)]
pub(crate) struct Host {
    /// Gated.
    state: Mutex<State>,
    /// Held by the first request of the line.
    line: Line<()>,
    /// Wakes the first request of the line after an answer.
    answered: Notify,
    /// Wakes all requests of the line after the one that went ahead was refused.
    out_of_order: Notify,
    /// Gated. The last refusal.
    refusal: Mutex<Refusal>,
}

/// The answer of a host that refuses a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) body: String,
    /// How long it wants to be left alone.
    pub(crate) advice: Option<Duration>,
}

/// Hosts by name and port.
type Hosts = BTreeMap<String, Arc<Host>>;

/// The hosts of this process, with the process's generation. Gated.
static HOSTS: Mutex<Option<(u64, Hosts)>> = Mutex::new(None);

impl Host {
    /// The host with this name and port.
    pub(crate) fn of(authority: &str) -> Arc<Host> {
        let generation = fork::generation();
        let mut hosts = HOSTS.lock();
        if hosts.as_ref().is_none_or(|(of, _)| *of != generation) {
            // The parent's threads may have held a lock in there: it is never dropped.
            std::mem::forget(hosts.replace((generation, BTreeMap::new())));
        }
        let Some((_, hosts)) = &mut *hosts else { return Host::new() };
        match hosts.get(authority) {
            Some(host) => host.clone(),
            None => hosts.entry(authority.to_owned()).or_insert(Host::new()).clone(),
        }
    }

    fn new() -> Arc<Host> {
        Arc::new(Host {
            state: Mutex::new(State::NEW),
            line: Line::new(()),
            answered: Notify::new(),
            out_of_order: Notify::new(),
            refusal: Mutex::new(Refusal::default()),
        })
    }

    /// Waits until a request may be sent. On average `interval` passes between two of them.
    ///
    /// Fails if another request went ahead of this one and was refused.
    pub(crate) async fn turn(&self, interval: Option<Duration>) -> Result<Turn<'_>, Refusal> {
        match select(pin!(self.in_line(interval)), pin!(self.out_of_order.notified())).await {
            Either::Left((turn, _)) => Ok(turn),
            Either::Right(_) => Err(self.refusal.lock().clone()),
        }
    }

    async fn in_line(&self, interval: Option<Duration>) -> Turn<'_> {
        let _first = self.line.lock().await;
        loop {
            let next = self.state.lock().next(Instant::now(), interval);
            match next {
                Next::Go => return Turn { host: self, sent: Instant::now() },
                Next::WaitUntil(until) => tokio::time::sleep_until(until.into()).await,
                Next::WaitForAnswer => self.answered.notified().await,
            }
        }
    }

    /// Returns whether the host has refused requests lately.
    pub(crate) fn is_overloaded(&self) -> bool {
        self.state.lock().window.is_some()
    }
}

/// A request that may be sent. Dropped when its answer begins, or when nobody wants it any more.
pub(crate) struct Turn<'h> {
    host: &'h Host,
    sent: Instant,
}

impl Turn<'_> {
    /// Notes that the host refused the request.
    pub(crate) fn refuse(self, refusal: Refusal) {
        let advice = refusal.advice.unwrap_or_default().min(LONGEST_ADVICE);
        // Other machines pause for other times.
        let chance = u16::try_from(RandomState::new().hash_one(0) >> 48).unwrap_or_default();
        let chance = f64::from(chance) / 65536.0;
        *self.host.refusal.lock() = refusal;
        let was_ahead = self.host.state.lock().refuse(self.sent, Instant::now(), advice, chance);
        if was_ahead {
            self.host.out_of_order.notify_waiters();
        }
    }

    /// Notes that the host answered.
    pub(crate) fn succeed(self) {
        self.host.state.lock().succeed(self.sent);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.host.state.lock().in_flight -= 1;
        self.host.answered.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A host and a clock.
    struct Scene {
        state: State,
        now: Instant,
    }

    impl Scene {
        fn new() -> Scene {
            Scene { state: State::NEW, now: Instant::now() }
        }

        /// Sends as many requests as may be sent now, and returns their times.
        fn send(&mut self, most: usize, interval: Option<Duration>) -> Vec<Instant> {
            let go = (0..most).take_while(|_| self.state.next(self.now, interval) == Next::Go);
            vec![self.now; go.count()]
        }

        fn answer(&mut self, sent: Vec<Instant>, refused: bool) {
            for sent in sent {
                if refused {
                    self.state.refuse(sent, self.now, Duration::ZERO, 0.5);
                } else {
                    self.state.succeed(sent);
                }
                self.state.in_flight -= 1;
            }
        }
    }

    #[test]
    fn tokens() {
        // Ten per second; none are kept longer than a tenth of a second.
        let mut scene = Scene::new();
        let mut sent = 0;
        for _ in 0..1000 {
            sent += scene.send(99, Some(100 * MS)).len();
            scene.now += MS;
        }
        assert_eq!(sent, 10);
        scene.now += Duration::from_secs(60);
        assert_eq!(scene.send(99, Some(100 * MS)).len(), 1);
        // A thousand per second: a hundred at once after a pause, then one per millisecond.
        scene.now += Duration::from_secs(60);
        assert_eq!(scene.send(999, Some(MS)).len(), 100);
        scene.now += 10 * MS;
        assert_eq!(scene.send(999, Some(MS)).len(), 10);
        // Stores with other limits share the tokens.
        assert_eq!(scene.send(999, Some(MS * 2)).len(), 0);
        assert_eq!(scene.send(7, None).len(), 7);
        scene.now += 2 * MS;
        assert_eq!((scene.send(9, Some(MS * 2)).len(), scene.send(9, Some(MS)).len()), (1, 0));
        scene.now += MS;
        assert_eq!((scene.send(9, Some(1000 * MS)).len(), scene.send(9, Some(MS)).len()), (0, 1));
    }

    #[test]
    fn one_request_goes_ahead_after_a_refusal() {
        let mut scene = Scene::new();
        let storm = scene.send(340, None);
        assert_eq!(storm.len(), 340);
        scene.now += 30 * MS;
        scene.answer(storm, true);
        // All 340 refusals are one: the first pause has 50 ms.
        assert_eq!(scene.state.next(scene.now, None), Next::WaitUntil(scene.now + PAUSE));
        let mut pauses = Vec::new();
        for _ in 0..9 {
            let Next::WaitUntil(until) = scene.state.next(scene.now, None) else { panic!("no pause") };
            pauses.push((until - scene.now).as_millis());
            scene.now = until;
            let sent = scene.send(340, None);
            assert_eq!(sent.len(), 1);
            scene.answer(sent, true);
        }
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        // The storm is over: the number doubles up to the threshold, then it grows by a quarter.
        scene.state.window.as_mut().unwrap().threshold = 170;
        scene.now += LONGEST_PAUSE;
        let mut rounds = Vec::new();
        while scene.state.window.is_some() {
            let sent = scene.send(usize::MAX, None);
            rounds.push(sent.len());
            scene.now += 30 * MS;
            scene.answer(sent, false);
        }
        assert_eq!(rounds[..10], [1, 2, 4, 8, 16, 32, 64, 128, 191, 239]);
        assert!(rounds.len() < 20 && scene.send(9999, None).len() == 9999, "{rounds:?}");
    }

    #[test]
    fn one_refusal_is_soon_forgotten() {
        let mut scene = Scene::new();
        let sent = scene.send(1, None);
        scene.answer(sent, true);
        scene.now += FORGOTTEN + MS;
        let sent = scene.send(1, None);
        scene.answer(sent, true);
        assert_eq!(scene.state.next(scene.now, None), Next::WaitUntil(scene.now + PAUSE));
        scene.now += 2 * PAUSE;
        let mut rounds = 0;
        while scene.send(64, None).len() < 64 {
            let sent = vec![scene.now; scene.state.in_flight];
            scene.answer(sent, false);
            rounds += 1;
        }
        assert!(rounds < 15, "{rounds}");
    }

    #[test]
    fn answers_of_before_a_refusal_say_nothing_new() {
        let mut scene = Scene::new();
        let mut early = scene.send(3, None);
        scene.now += MS;
        scene.answer(vec![early.pop().unwrap()], true);
        scene.now += MS;
        scene.answer(vec![early.pop().unwrap()], true);
        scene.answer(vec![early.pop().unwrap()], false);
        assert_eq!((scene.state.pauses, scene.state.in_flight), (1, 0));
        assert_eq!(scene.state.window.unwrap().size, 1);
        // A request that goes ahead speaks for all.
        scene.now += 2 * PAUSE;
        let ahead = scene.send(1, None);
        assert!(scene.state.refuse(ahead[0], scene.now, Duration::ZERO, 0.5));
        // The host's own advice counts in any case.
        scene.state.refuse(scene.now - 2 * MS, scene.now, Duration::from_secs(2), 0.5);
        assert_eq!(scene.state.next(scene.now, None), Next::WaitUntil(scene.now + Duration::from_secs(2)));
    }

    fn block<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.unwrap().block_on(work)
    }

    #[test]
    fn first_come_first_served() {
        let host = Host::of("first.example");
        let order = Mutex::new(Vec::new());
        let requests = (0..50).map(|number| {
            let (host, order) = (&host, &order);
            async move {
                // Every seventh gives up while it waits, and takes no token.
                let turn = host.turn(Some(MS));
                if number % 7 == 6 {
                    return drop(tokio::time::timeout(Duration::ZERO, turn).await);
                }
                turn.await.unwrap().succeed();
                order.lock().push(number);
            }
        });
        let begun = Instant::now();
        // The first of them takes the tokens that are there.
        block(async {
            for _ in 0..100 {
                host.turn(Some(MS)).await.unwrap().succeed();
            }
        });
        block(futures_util::future::join_all(requests));
        let expected: Vec<i32> = (0..50).filter(|number| number % 7 != 6).collect();
        assert_eq!(*order.lock(), expected);
        assert!(begun.elapsed() >= 42 * MS && host.state.lock().in_flight == 0);
    }

    #[test]
    fn all_that_wait_are_refused_with_the_one_ahead() {
        let host = Host::of("refusing.example");
        let refusal = |status| Refusal { status, body: "slow down".into(), advice: None };
        block(async {
            host.turn(None).await.unwrap().refuse(refusal(503));
            let ahead = host.turn(None).await.unwrap();
            let waiting = futures_util::future::join_all((0..20).map(|_| host.turn(None)));
            let (refused, ()) = futures_util::future::join(waiting, async {
                tokio::task::yield_now().await;
                ahead.refuse(refusal(429));
            })
            .await;
            let refused: Vec<u16> =
                refused.into_iter().filter_map(|turn| turn.err().map(|refusal| refusal.status)).collect();
            assert_eq!(refused, [429; 20]);
            // The next one goes ahead again, alone, and succeeds.
            host.turn(None).await.unwrap().succeed();
            let _two = (host.turn(None).await.unwrap(), host.turn(None).await.unwrap());
            assert!(tokio::time::timeout(MS, host.turn(None)).await.is_err());
        });
    }
}
