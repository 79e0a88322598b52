//! Texts that a responder sends: bounded before anything else reads them.

/// A longer reason is cut.
const MOST_CHARACTERS: usize = 300;
/// A responder sends no longer description of itself.
pub const MOST_DESCRIPTION_BYTES: usize = 256 << 10;
/// The deepest nesting of lists and objects in a description. That of a responder has half of it.
const DEEPEST: usize = 40;

/// Returns a reason as one line of bounded length, without characters that control a terminal.
pub fn one_line(reason: &str) -> String {
    let mut characters = reason.chars();
    let mut line: String = characters
        .by_ref()
        .take(MOST_CHARACTERS)
        .map(|character| {
            if character.is_control() {
                ' '
            } else {
                character
            }
        })
        .collect();
    if characters.next().is_some() {
        line.push('…');
    }
    line
}

/// Checks the length and the nesting of a description (JSON) before it is parsed.
///
/// # Errors
/// What exceeds its bound.
pub fn check_description(text: &str) -> Result<(), String> {
    if text.len() > MOST_DESCRIPTION_BYTES {
        return Err(format!(
            "a description of itself of {} bytes; at most {MOST_DESCRIPTION_BYTES} are accepted",
            text.len()
        ));
    }
    match depth(text) > DEEPEST {
        true => Err(format!(
            "a description of itself that is nested more than {DEEPEST} levels deep"
        )),
        false => Ok(()),
    }
}

/// Returns how deep the brackets of a JSON text are nested, without those in strings.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut in_string, mut is_escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_line_of_bounded_length_whatever_it_holds() {
        assert_eq!(one_line("too many flows"), "too many flows");
        assert_eq!(one_line("a\r\n\u{1b}[2J\u{9b}b"), "a   [2J b");
        let long = one_line(&"ä".repeat(1 << 20));
        assert_eq!(long.chars().count(), MOST_CHARACTERS + 1);
    }

    #[test]
    fn a_description_that_is_too_long_or_too_deep_is_refused_before_it_is_parsed() {
        let nested = |levels: usize| "{\"a\":".repeat(levels) + "1" + &"}".repeat(levels);
        let in_string = format!("{{\"a\": \"{}\\\"[\"}}", "[".repeat(1000));
        for accepted in ["{}", &nested(DEEPEST), &in_string] {
            assert_eq!(check_description(accepted), Ok(()));
        }
        let long = format!("{{\"a\": \"{}\"}}", "x".repeat(MOST_DESCRIPTION_BYTES));
        for (refused, expected) in [
            (nested(DEEPEST + 1), "levels deep"),
            ("[".repeat(100_000), "levels deep"),
            (long, "at most 262144"),
        ] {
            let what = check_description(&refused).unwrap_err();
            assert!(what.contains(expected), "{what}");
        }
    }
}
