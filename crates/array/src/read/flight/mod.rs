//! Reads from a store far away: chunks are decoded in the order in which they arrive.
//!
//! Requests for the next chunks are under way while chunks that have arrived are decoded. A
//! [`Requests`] begins them: for whole objects ([`objects`]), or for ranges ([`steps`]). The
//! rest is the same for both.
//!
//! 1. All threads of a request take chunks from one list, in the order of arrival. A chunk that is
//!    late delays no other.
//! 2. A thread that takes a chunk refills the list: the store always has as many requests as it can
//!    make at once, and some that wait for a permit. One thread refills at a time. The others take
//!    meanwhile, because locating chunks may itself need requests.
//! 3. Chunks that have arrived wait in memory for their turn, so the list is bounded in bytes, too.

mod objects;
mod steps;

use crate::error::ArrayError;
use crate::execute::scratch::Scratch;
use crate::execute::tasks::{self, Interrupt};
use crate::read::executor::Limits;
use crate::read::lots::Lots;
use crate::read::request::Request;
use hyperslab_store::{Ask, waiting};
use objects::Objects;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;
use steps::Steps;

/// How much is on its way at a time.
///
/// All responses share a line. If everything that may wait in memory were requested at once, the
/// first response would be complete as late as the last, and cores would idle until then. The
/// number of chunks therefore starts small. It grows by one each time a thread finds that no chunk
/// has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// Number of chunks at first, and at most.
    pub(crate) first: usize,
    pub(crate) most: usize,
    /// Number of bytes at most. (One chunk may be larger.)
    pub(crate) bytes: u64,
}

/// The number of chunks and bytes that a [`Requests`] may begin.
#[derive(Clone, Copy, Debug)]
struct Room {
    count: usize,
    bytes: u64,
}

/// Bytes on their way: a chunk, or several chunks that are read together.
trait Coming<'a>: Send {
    /// Returns whether [`Coming::read`] would not wait. Waits for that for about `most` at the
    /// longest.
    fn is_here(&self, most: Duration) -> bool;

    /// Number of bytes that wait in memory, as far as [`Window::bytes`] counts them.
    fn bytes(&self) -> u64;

    /// Decodes what has arrived to its place.
    fn read(self: Box<Self>, request: &Request<'a>, scratch: &mut Scratch) -> Result<(), ArrayError>;
}

/// Requests the chunks of a read, some at a time.
trait Requests<'a>: Send {
    /// The number of chunks that were not begun yet. It may be too large, but is 0 at the end.
    fn left(&self) -> usize;

    /// Begins the next ones.
    ///
    /// Begins more than [`Room::count`] if they are requested together, and more bytes only if one
    /// chunk has them. May begin none if none of the next ones exist.
    fn begin(
        &mut self,
        request: &Request<'a>,
        room: Room,
        scratch: &mut Scratch,
    ) -> Result<Vec<Box<dyn Coming<'a> + 'a>>, ArrayError>;
}

/// The chunks of a request, on their way.
struct Flight<'r, 'a> {
    request: &'r Request<'a>,
    window: Window,
    /// Local, as the list is: only threads of this request know it. Locked before the list.
    requests: Mutex<Box<dyn Requests<'a> + 'r>>,
    list: Mutex<List<'a>>,
    /// Notified when the list has changed after a thread found it empty.
    refilled: Condvar,
}

/// The chunks that have begun and were not taken yet.
struct List<'a> {
    /// Number of chunks that may be on their way now.
    window: usize,
    /// `true` if a chunk has arrived since a thread last found none.
    flows: bool,
    /// `true` if all chunks have begun.
    over: bool,
    bytes: u64,
    chunks: VecDeque<Box<dyn Coming<'a> + 'a>>,
}

impl<'a> List<'a> {
    fn push(&mut self, chunk: Box<dyn Coming<'a> + 'a>) {
        self.bytes = self.bytes.saturating_add(chunk.bytes());
        self.chunks.push_back(chunk);
    }

    fn remove(&mut self, at: usize) -> Option<Box<dyn Coming<'a> + 'a>> {
        let chunk = self.chunks.remove(at)?;
        self.bytes = self.bytes.saturating_sub(chunk.bytes());
        Some(chunk)
    }
}

impl<'a> Request<'a> {
    /// Reads everything from a store far away. `work` is the request's work in bytes to move.
    pub(super) fn fly(
        &self,
        lots: &Lots<'a>,
        window: Window,
        work: u64,
        limits: Limits,
        interrupt: Option<Interrupt<'_>>,
    ) -> Result<(), ArrayError> {
        // Objects need no extra threads that each wait for one request.
        let (requests, limits): (Box<dyn Requests<'a> + '_>, _) = match lots {
            Lots::Objects(tasks) => (Box::new(Objects::new(*tasks)), (limits.0, 0)),
            lots => (Box::new(Steps::new(lots, limits.0)), limits),
        };
        let flight = Flight::new(self, requests, window);
        // The first task is one chunk: it shows whether its thread waits. The others are a thread's
        // whole share, because nobody knows the number of chunks beforehand.
        let count = 1 + limits.0.max(limits.1).max(1);
        tasks::run_tasks(self.layout, count, work, limits, interrupt, &|number, scratch, ask| {
            flight.read_some(number == 0, scratch, ask)
        })
    }
}

impl<'r, 'a> Flight<'r, 'a> {
    fn new(request: &'r Request<'a>, requests: Box<dyn Requests<'a> + 'r>, window: Window) -> Self {
        let list = List {
            window: window.first.max(1),
            flows: false,
            over: requests.left() == 0,
            bytes: 0,
            chunks: VecDeque::new(),
        };
        let (requests, list, refilled) = (Mutex::new(requests), Mutex::new(list), Condvar::new());
        Flight { request, window, requests, list, refilled }
    }

    fn list(&self) -> MutexGuard<'_, List<'a>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads one chunk, or all that other threads do not read.
    fn read_some(&self, one: bool, scratch: &mut Scratch, ask: Ask<'_>) -> Result<(), ArrayError> {
        while self.read_one(scratch)? && !one {
            if ask() {
                return Err(tasks::interrupted_error(self.request.layout));
            }
        }
        Ok(())
    }

    /// Reads one chunk. Returns `false` if there is none: other threads have the last ones.
    fn read_one(&self, scratch: &mut Scratch) -> Result<bool, ArrayError> {
        loop {
            let arrived = self.take_arrived();
            let refilled = self.refill(scratch)?;
            let most = if arrived.is_some() { Duration::ZERO } else { waiting::EVERY };
            let Some(chunk) = arrived.or_else(|| self.list().remove(0)) else {
                let list = self.list();
                if list.over && list.chunks.is_empty() {
                    return Ok(false);
                }
                if !refilled && list.chunks.is_empty() {
                    drop(self.refilled.wait_timeout(list, waiting::EVERY));
                    self.check_interrupt()?;
                }
                continue;
            };
            if chunk.is_here(most) {
                chunk.read(self.request, scratch)?;
                return Ok(true);
            }
            // Others may have arrived meanwhile. The next wait is for another one.
            self.list().push(chunk);
            self.check_interrupt()?;
        }
    }

    fn check_interrupt(&self) -> Result<(), ArrayError> {
        match waiting::is_over() {
            true => Err(tasks::interrupted_error(self.request.layout)),
            false => Ok(()),
        }
    }

    /// Takes the first chunk that has arrived.
    fn take_arrived(&self) -> Option<Box<dyn Coming<'a> + 'a>> {
        let mut list = self.list();
        let here = list.chunks.iter().position(|chunk| chunk.is_here(Duration::ZERO));
        if here.is_none() && std::mem::take(&mut list.flows) {
            list.window = (list.window + 1).min(self.window.most.max(1));
        }
        list.flows |= here.is_some();
        here.and_then(|here| list.remove(here))
    }

    /// Begins more chunks if there is room for them. Returns `false` if another thread does it.
    fn refill(&self, scratch: &mut Scratch) -> Result<bool, ArrayError> {
        let mut requests = match self.requests.try_lock() {
            Ok(requests) => requests,
            Err(TryLockError::Poisoned(requests)) => requests.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(false),
        };
        let room = {
            let (list, left) = (self.list(), requests.left());
            let count = list.window.saturating_sub(list.chunks.len());
            let bytes = self.window.bytes.saturating_sub(list.bytes);
            // Begin several together: locating them is then less work, and near ranges are joined.
            let enough = count >= (list.window / 8).min(left).max(1) && bytes >= self.window.bytes / 2;
            if list.over || !(enough || list.chunks.is_empty()) {
                return Ok(true);
            }
            Room { count: count.max(1), bytes }
        };
        let begun = requests.begin(self.request, room, scratch);
        let mut list = self.list();
        list.over = begun.is_err() || requests.left() == 0;
        let outcome = begun.map(|chunks| chunks.into_iter().for_each(|chunk| list.push(chunk)));
        drop(list);
        self.refilled.notify_all();
        outcome.map(|()| true)
    }
}
