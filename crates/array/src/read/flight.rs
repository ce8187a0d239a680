//! Chunks that are objects of their own in a store far away.
//!
//! Requests for the next chunks are under way while chunks that have arrived are decoded.
//!
//! 1. All threads of a request take chunks from one list, in the order of arrival. A chunk that is
//!    late delays no other.
//! 2. Each thread that takes a chunk refills the list: the store always has as many requests as it
//!    can make at once, and some that wait for a permit.
//! 3. Chunks that have arrived wait in memory for their turn, so the list is bounded in bytes, too.

use crate::error::ArrayError;
use crate::execute::scratch::Scratch;
use crate::execute::tasks;
use crate::layout::locate::{ChunkList, Found, Location};
use crate::read::request::Request;
use hyperslab_store::{Begun, Opening, waiting};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// The chunks of a request, on their way.
pub(crate) struct Flight<'r, 'a> {
    request: &'r Request<'a>,
    /// Number of tasks of the request.
    tasks: usize,
    /// Number of chunks on their way at a time: at first, and at most.
    window: Window,
    /// Local: only threads of this request know it.
    list: Mutex<List<'a>>,
}

/// Number of chunks on their way at a time.
///
/// All responses share a line. If everything that may wait in memory were requested at once, the
/// first response would be complete as late as the last, and cores would idle until then. The
/// number therefore starts small. It grows by one each time a thread finds that no chunk has
/// arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) first: usize,
    pub(crate) most: usize,
}

/// The chunks that have begun and were not taken yet.
struct List<'a> {
    /// Number of chunks that may be on their way now.
    window: usize,
    /// `true` if a chunk has arrived since a thread last found none.
    flows: bool,
    /// The first task that has not begun.
    next: usize,
    chunks: VecDeque<OnItsWay<'a>>,
}

/// A chunk whose object is being opened.
struct OnItsWay<'a> {
    number: usize,
    location: Location,
    key: String,
    /// `None`: the object does not exist.
    begun: Option<Box<dyn Begun<'a> + 'a>>,
}

impl OnItsWay<'_> {
    fn is_here(&self) -> bool {
        self.begun.as_ref().is_none_or(|begun| begun.is_here())
    }
}

impl<'r, 'a> Flight<'r, 'a> {
    pub(crate) fn new(request: &'r Request<'a>, tasks: usize, window: Window) -> Self {
        let list = List { window: window.first.max(1), flows: false, next: 0, chunks: VecDeque::new() };
        Flight { request, tasks, window, list: Mutex::new(list) }
    }

    /// Reads one of the chunks. Called once for each task.
    pub(crate) fn read_one(&self, scratch: &mut Scratch) -> Result<(), ArrayError> {
        while let Some(chunk) = self.take(scratch)? {
            let begun = match chunk.begun {
                Some(begun) if !begun.wait(waiting::EVERY) => {
                    if waiting::is_over() {
                        return Err(tasks::interrupted_error(self.request.layout));
                    }
                    // Other chunks may have arrived meanwhile.
                    let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
                    list.chunks.push_front(OnItsWay { begun: Some(begun), ..chunk });
                    continue;
                }
                begun => begun,
            };
            let opened = begun.map_or(Ok(None), |begun| begun.finish());
            return self.request.read_opened((chunk.number, chunk.location), chunk.key, opened, scratch);
        }
        Ok(())
    }

    /// Takes the first chunk that has arrived, or else the first of the list.
    ///
    /// `None`: other threads have the last ones.
    fn take(&self, scratch: &mut Scratch) -> Result<Option<OnItsWay<'a>>, ArrayError> {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        let here = list.chunks.iter().position(OnItsWay::is_here);
        if here.is_none() && std::mem::take(&mut list.flows) {
            list.window = (list.window + 1).min(self.window.most.max(1));
        }
        list.flows |= here.is_some();
        let chunk = here.and_then(|here| list.chunks.remove(here));
        // Begin several together: locating them is then less work.
        let (free, left) = (list.window.saturating_sub(list.chunks.len()), self.tasks - list.next);
        if left > 0 && free >= (list.window / 8).min(left).max(1) {
            self.begin(&mut list, free.min(left), scratch)?;
        }
        Ok(chunk.or_else(|| list.chunks.pop_front()))
    }

    /// Starts to open the objects of the next `count` tasks.
    fn begin(&self, list: &mut List<'a>, count: usize, scratch: &mut Scratch) -> Result<(), ArrayError> {
        let (layout, plan) = (self.request.layout, self.request.plan);
        let numbers = list.next..list.next + count;
        list.next = numbers.end;
        let mut indices = Vec::new();
        for number in numbers.clone() {
            plan.task(layout, number, &mut scratch.task);
            indices.extend_from_slice(&scratch.task.chunk);
        }
        let mut found = Found::default();
        layout.locate_all(ChunkList::new(layout.shape().len(), count, &indices), &mut found)?;
        let (mut wanted, mut asked) = (Vec::new(), Vec::new());
        for (n, number) in numbers.enumerate() {
            let Some((key, location)) = found.get(n) else { continue };
            if self.request.is_present(location, key) {
                plan.task(layout, number, &mut scratch.task);
                let next = self.request.next_of(location, key, scratch)?;
                wanted.push(Opening { key: tasks::key(layout, &scratch.task, key)?, next });
                asked.push(list.chunks.len());
            }
            list.chunks.push_back(OnItsWay { number, location, key: key.to_owned(), begun: None });
        }
        for (at, begun) in asked.into_iter().zip(layout.store().begin(&wanted)) {
            if let Some(chunk) = list.chunks.get_mut(at) {
                chunk.begun = Some(begun);
            }
        }
        Ok(())
    }
}
