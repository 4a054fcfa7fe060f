//! The reference is what the extension has: a function, setting, column or error that is
//! missing on its page, or that is there and does not exist, fails.

mod errors;
mod functions;
mod names;
mod openapi;
mod settings;
mod views;
mod written;

/// A text on one line.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A comment of the extension as a sentence.
fn sentence(comment: &str) -> String {
    let mut letters = comment.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    let sentence: String = first.chain(letters).collect();
    let end = if sentence.ends_with('.') { "" } else { "." };
    flat(&sentence) + end
}
