//! Figures as text: one place decides how an unknown one, a spread or a large count looks.

use feedrate_workload::Time;

/// What stands where nothing is known.
pub(crate) const UNKNOWN: &str = "–";

pub(crate) fn fixed(value: Option<f64>, decimals: usize) -> String {
    let Some(value) = value else { return UNKNOWN.to_owned() };
    let text = format!("{value:.decimals$}");
    // Rounding makes zeros of small negative values, and a signed zero looks like a mistake.
    match text.strip_prefix('-') {
        Some(zero) if zero.chars().all(|c| "0.".contains(c)) => zero.to_owned(),
        _ => text,
    }
}

pub(crate) fn plus_minus(mean: Option<f64>, stdev: Option<f64>, decimals: usize) -> String {
    match (mean, stdev) {
        (Some(mean), Some(stdev)) => format!("{mean:.decimals$} ± {stdev:.decimals$}"),
        _ => fixed(mean, decimals),
    }
}

/// A rate: one decimal, three below ten.
pub(crate) fn rate(mean: Option<f64>, stdev: Option<f64>) -> String {
    plus_minus(mean, stdev, if mean.is_some_and(|mean| mean < 10.0) { 3 } else { 1 })
}

/// `1 step`, `2 steps`
pub(crate) fn counted(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(count), if count == 1 { "" } else { "s" })
}

/// `50,000`
pub(crate) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Ascending numbers, those that follow each other joined: `0-3, 8`
pub(crate) fn numbers(numbers: &[u32]) -> String {
    let runs = numbers.chunk_by(|one, next| one.checked_add(1) == Some(*next));
    let words = runs.map(|run| match *run {
        [first, _, .., last] => format!("{first}-{last}"),
        _ => run.iter().map(u32::to_string).collect::<Vec<_>>().join(", "),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// A number as short as it can be said: `322957`, `0.04755`.
pub(crate) fn short(value: f64) -> String {
    format!("{value}")
}

/// A fraction as a percentage without the digits that binary fractions add: 0.85 is `85`.
pub(crate) fn percent(fraction: f64) -> String {
    short((fraction * 1e8).round() / 1e6)
}

/// Pass or fail; unknown when there is nothing to judge.
pub(crate) fn pass(met: Option<bool>) -> &'static str {
    match met {
        Some(true) => "PASS",
        Some(false) => "FAIL",
        None => UNKNOWN,
    }
}

/// The first line of `text`, what is beyond `longest` characters cut out of it: messages of failed
/// requests begin with what was done, and end with the reason, which gets more room.
pub(crate) fn shortened(text: &str, longest: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    let count = line.chars().count();
    if count <= longest {
        return line.to_owned();
    }
    let head = longest / 3;
    let tail = longest - 1 - head;
    line.chars().take(head).chain(['…']).chain(line.chars().skip(count - tail)).collect()
}

/// Words on lines of at most `width` characters.
pub(crate) fn wrapped(text: &str, width: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join("\n")
}

/// A time or a distribution of times in words.
pub(crate) fn time(time: &Time) -> String {
    match *time {
        Time::Constant { mean } => format!("{mean} s"),
        Time::Normal { mean, stdev } => format!("normal, mean {mean} s, σ {stdev} s"),
        Time::Uniform { min, max } => format!("uniform, {min} to {max} s"),
        Time::Gamma { shape, scale } => format!("gamma, shape {shape}, scale {scale} s"),
        Time::Exponential { scale } => format!("exponential, mean {scale} s"),
        Time::Poisson { lam } => format!("poisson, mean {lam} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_counts_are_grouped() {
        assert_eq!(
            [0, 999, 1_000, 50_000, 1_234_567].map(grouped).join(" "),
            "0 999 1,000 50,000 1,234,567"
        );
    }

    #[test]
    fn numbers_that_follow_each_other_are_joined() {
        assert_eq!(numbers(&[0, 1, 2, 3, 8, 10, 11]), "0-3, 8, 10, 11");
        assert_eq!(numbers(&[]), "");
    }

    #[test]
    fn percentages_hide_binary_fractions() {
        assert_eq!([0.85, 0.9, 0.7, 0.855, 1.0].map(percent).join(" "), "85 90 70 85.5 100");
    }

    #[test]
    fn long_messages_keep_their_beginning_and_their_end() {
        assert_eq!(shortened("no route\nto host", 20), "no route");
        assert_eq!(shortened("GET a/b/c/d/e of x failed: 503", 17), "GET a…failed: 503");
        assert_eq!(shortened("größte", 6), "größte");
    }

    #[test]
    fn lines_are_wrapped_between_words() {
        assert_eq!(wrapped("one two three", 7), "one two\nthree");
        assert_eq!(wrapped("", 7), "");
    }

    #[test]
    fn the_unknown_is_a_dash() {
        assert_eq!(fixed(None, 1), "–");
        assert_eq!([fixed(Some(-0.001), 2), fixed(Some(-0.01), 2)], ["0.00", "-0.01"]);
        assert_eq!(rate(Some(0.3125), Some(0.0)), "0.312 ± 0.000");
        assert_eq!(rate(Some(149.44), None), "149.4");
        assert_eq!(plus_minus(Some(96.482), Some(0.0812), 2), "96.48 ± 0.08");
        assert_eq!(pass(None), "–");
    }
}
