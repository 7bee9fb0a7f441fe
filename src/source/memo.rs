//! What is derived from one piece alone, worked out once.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::scopes::Local;
use super::syntax::Node;

/// Filled as it is asked for.
#[derive(Default)]
pub(super) struct Memo {
    /// By which comments count; `None` where there is no code.
    pub(super) code: [OnceLock<Option<blake3::Hash>>; 2],
    pub(super) local: OnceLock<Local>,
    /// By what it is and of which node.
    others: Mutex<HashMap<(TypeId, u32), Arc<dyn Any + Send + Sync>>>,
}

impl Memo {
    fn get<T: Send + Sync + 'static>(&self, node: u32) -> Option<Arc<T>> {
        let others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        others.get(&(TypeId::of::<T>(), node)).cloned()?.downcast().ok()
    }

    fn put<T: Send + Sync + 'static>(&self, node: u32, value: Arc<T>) {
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        others.insert((TypeId::of::<T>(), node), value);
    }
}

impl Memo {
    /// As [`Node::remember`], of the text of the whole piece.
    pub(super) fn of_text<T: Send + Sync + 'static>(&self, work: impl FnOnce() -> T) -> Arc<T> {
        self.of(u32::MAX, work)
    }

    fn of<T: Send + Sync + 'static>(&self, node: u32, work: impl FnOnce() -> T) -> Arc<T> {
        self.get(node).unwrap_or_else(|| {
            let value = Arc::new(work());
            self.put(node, Arc::clone(&value));
            value
        })
    }
}

impl Node<'_> {
    /// What follows from the text of this statement, or of the one that it is part of, alone: worked out once,
    /// and kept while that text stands anywhere in the file. So it must hold no place in the file, and rest on
    /// nothing else.
    pub(crate) fn remember<T: Send + Sync + 'static>(&self, work: impl FnOnce() -> T) -> Arc<T> {
        match self.memo() {
            Some(memo) => memo.of(self.index(), work),
            None => Arc::new(work()),
        }
    }
}
