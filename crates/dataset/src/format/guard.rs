//! Keeps panics of libraries that read files from the user. They have many places that values of damaged
//! files lead to: lists of different lengths, indices beyond a table and the like.

use std::cell::Cell;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use super::files::Undecodable;

thread_local! {
    /// Whether this thread is in [`guarded`], where nobody needs to be told of a panic.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Lets a library look at bytes that may lie. What goes wrong there is an error, even where it panics, and
/// is not reported in any other way.
pub(super) fn guarded<T, E: fmt::Display>(
    look: impl FnOnce() -> Result<T, E>,
) -> Result<T, Undecodable> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !GUARDED.get() {
                report(panic);
            }
        }));
    });
    GUARDED.set(true);
    // What `look` has begun is dropped with it.
    let outcome = panic::catch_unwind(AssertUnwindSafe(look));
    GUARDED.set(false);
    match outcome {
        Ok(Ok(seen)) => Ok(seen),
        Ok(Err(error)) => Err(Undecodable::file(error)),
        Err(_) => Err(Undecodable::file("it is damaged in a way that its decoder does not expect")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_and_ends_the_silence() {
        let lists: [u8; 0] = [];
        let outcome = guarded(|| Ok::<_, fmt::Error>(lists[lists.len()]));
        assert!(outcome.is_err_and(|error| error.to_string().contains("does not expect")));
        assert!(!GUARDED.get());
        assert_eq!(guarded(|| Ok::<_, fmt::Error>(7)), Ok(7));
    }
}
