//! Chunks that are objects of their own.

use super::{Coming, Requests, Room};
use crate::error::ArrayError;
use crate::execute::scratch::Scratch;
use crate::execute::tasks;
use crate::layout::locate::{ChunkList, Found, Location};
use crate::read::request::Request;
use hyperslab_store::{Begun, Opening};
use std::time::Duration;

/// Opens the objects of a plan's tasks.
pub(super) struct Objects {
    /// Number of tasks, and the first that has not begun.
    tasks: usize,
    next: usize,
}

impl Objects {
    pub(super) fn new(tasks: usize) -> Self {
        Objects { tasks, next: 0 }
    }
}

/// A chunk whose object is being opened.
struct ComingObject<'a> {
    number: usize,
    location: Location,
    key: String,
    /// `None`: the object does not exist.
    begun: Option<Box<dyn Begun<'a> + 'a>>,
}

impl<'a> Coming<'a> for ComingObject<'a> {
    fn is_here(&self, most: Duration) -> bool {
        match most.is_zero() {
            true => self.begun.as_ref().is_none_or(|begun| begun.is_here()),
            false => self.begun.as_ref().is_none_or(|begun| begun.wait(most)),
        }
    }

    /// The window counts objects by their largest size, because their size is not known yet.
    fn bytes(&self) -> u64 {
        0
    }

    fn read(self: Box<Self>, request: &Request<'a>, scratch: &mut Scratch) -> Result<(), ArrayError> {
        let opened = self.begun.map_or(Ok(None), |begun| begun.finish());
        request.read_opened((self.number, self.location), self.key, opened, scratch)
    }
}

impl<'a> Requests<'a> for Objects {
    fn left(&self) -> usize {
        self.tasks - self.next
    }

    fn begin(
        &mut self,
        request: &Request<'a>,
        room: Room,
        scratch: &mut Scratch,
    ) -> Result<Vec<Box<dyn Coming<'a> + 'a>>, ArrayError> {
        let (layout, plan, count) = (request.layout, request.plan, room.count.min(self.left()));
        let numbers = self.next..self.next + count;
        self.next = numbers.end;
        let mut indices = Vec::new();
        for number in numbers.clone() {
            plan.task(layout, number, &mut scratch.task);
            indices.extend_from_slice(&scratch.task.chunk);
        }
        let mut found = Found::default();
        layout.locate_all(ChunkList::new(layout.shape().len(), count, &indices), &mut found)?;
        let (mut wanted, mut asked, mut chunks) = (Vec::new(), Vec::new(), Vec::with_capacity(count));
        for (n, number) in numbers.enumerate() {
            let Some((key, location)) = found.get(n) else { continue };
            if request.is_present(location, key) {
                plan.task(layout, number, &mut scratch.task);
                let next = request.next_of(location, key, scratch)?;
                wanted.push(Opening { key: tasks::key(layout, &scratch.task, key)?, next });
                asked.push(chunks.len());
            }
            chunks.push(Box::new(ComingObject { number, location, key: key.to_owned(), begun: None }));
        }
        for (at, begun) in asked.into_iter().zip(layout.store().begin(&wanted)) {
            if let Some(chunk) = chunks.get_mut(at) {
                chunk.begun = Some(begun);
            }
        }
        Ok(chunks.into_iter().map(|chunk| chunk as Box<dyn Coming<'a> + 'a>).collect())
    }
}
