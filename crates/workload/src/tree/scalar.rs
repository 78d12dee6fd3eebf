//! What an unquoted YAML word means (spec/dlio.md 1.4): YAML 1.1, with the floats of `OmegaConf`
//! (an exponent needs no dot) and without dates.

use crate::tree::Value;

/// The value of an unquoted scalar.
pub(super) fn resolve(word: &str) -> Value {
    match word {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Value::Bool(true);
        }
        "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Value::Bool(false);
        }
        _ => {}
    }
    int(word)
        .map(Value::Int)
        .or_else(|| float(word).map(Value::Float))
        .unwrap_or_else(|| Value::Text(word.to_owned()))
}

fn sign(word: &str) -> (bool, &str) {
    match word.as_bytes().first() {
        Some(b'-') => (true, &word[1..]),
        Some(b'+') => (false, &word[1..]),
        _ => (false, word),
    }
}

/// `12`, `1_000`, `0b1`, `010` (octal), `0x1f`, `1:30` (base 60). A number beyond 128 bits is none.
fn int(word: &str) -> Option<i128> {
    let (negative, digits) = sign(word);
    let magnitude = if let Some(binary) = digits.strip_prefix("0b") {
        radix(binary, 2)?
    } else if let Some(hex) = digits.strip_prefix("0x") {
        radix(hex, 16)?
    } else if digits.len() > 1 && digits.starts_with('0') {
        radix(digits, 8)?
    } else if digits.contains(':') {
        let (first, rest) = digits.split_once(':')?;
        if first.starts_with('0') {
            return None;
        }
        rest.split(':').try_fold(radix(first, 10)?, |value, place| {
            value.checked_mul(60)?.checked_add(sexagesimal_place(place)?)
        })?
    } else {
        radix(digits, 10)?
    };
    Some(if negative { -magnitude } else { magnitude })
}

/// Digits with underscores anywhere behind the first.
fn radix(digits: &str, radix: u32) -> Option<i128> {
    let marked = radix == 2 || radix == 16;
    let well_formed = digits.chars().all(|c| c == '_' || c.is_digit(radix))
        && (marked || !digits.starts_with('_'));
    if !well_formed {
        return None;
    }
    i128::from_str_radix(&digits.replace('_', ""), radix).ok()
}

/// `0` to `59` in one or two digits.
fn sexagesimal_place(place: &str) -> Option<i128> {
    match place.as_bytes() {
        [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9'] => place.parse().ok(),
        _ => None,
    }
}

/// `1.5`, `1.`, `.5`, `1e3`, `1.5e-3`, `1:30.5` (base 60), `.inf`, `.nan`, and whole numbers that no
/// integer holds.
fn float(word: &str) -> Option<f64> {
    let (negative, digits) = sign(word);
    let magnitude = match digits {
        ".inf" | ".Inf" | ".INF" => f64::INFINITY,
        ".nan" | ".NaN" | ".NAN" if digits.len() == word.len() => f64::NAN,
        _ if digits.contains(':') && !digits.contains(['e', 'E']) => {
            let (places, fraction) = digits.split_once('.')?;
            let (first, rest) = places.split_once(':')?;
            let whole = rest.split(':').try_fold(decimal(first)?, |value, place| {
                Some(value * 60.0 + sexagesimal_place(place)? as f64)
            })?;
            whole + decimal(&format!("0.{fraction}"))?
        }
        _ => decimal(digits)?,
    };
    Some(if negative { -magnitude } else { magnitude })
}

/// Digits with at most one dot and with underscores behind the first character, then perhaps an
/// exponent.
fn decimal(number: &str) -> Option<f64> {
    let (mantissa, exponent) = match number.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(sign(exponent).1)),
        None => (number, None),
    };
    let all_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let well_formed = !mantissa.starts_with('_')
        && mantissa.bytes().all(|b| matches!(b, b'0'..=b'9' | b'.' | b'_'))
        && exponent.is_none_or(all_digits);
    // `08` is no octal number, and no decimal one either.
    let octal_like = exponent.is_none() && mantissa.starts_with('0') && !mantissa.contains('.');
    if !well_formed || octal_like {
        return None;
    }
    number.replace('_', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(word: &str) -> Value {
        Value::Text(word.to_owned())
    }

    #[test]
    fn words_for_true_false_and_null_are_those_of_yaml_1_1() {
        for word in ["yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"] {
            assert_eq!(resolve(word), Value::Bool(true), "{word}");
        }
        for word in ["no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE"] {
            assert_eq!(resolve(word), Value::Bool(false), "{word}");
        }
        for word in ["", "~", "null", "Null", "NULL"] {
            assert_eq!(resolve(word), Value::Null, "{word}");
        }
        for word in ["y", "n", "Y", "N", "yEs", "oFF", "none", "None", "tRue", "nULL"] {
            assert_eq!(resolve(word), text(word));
        }
    }

    #[test]
    fn whole_numbers_come_in_five_spellings() {
        for (word, value) in [
            ("0", 0),
            ("-3", -3),
            ("+3", 3),
            ("1_000", 1000),
            ("0x10", 16),
            ("-0xfF", -255),
            ("010", 8),
            ("0b101", 5),
            ("1:30", 90),
            ("-1:30:00", -5400),
            ("18446744073709551615", i128::from(u64::MAX)),
        ] {
            assert_eq!(resolve(word), Value::Int(value), "{word}");
        }
    }

    #[test]
    fn floats_need_a_dot_or_an_exponent() {
        for (word, value) in [
            ("1e3", 1000.0),
            ("1.5e3", 1500.0),
            ("1.", 1.0),
            (".5", 0.5),
            ("-.5", -0.5),
            ("1e-3", 0.001),
            ("1_000.5", 1000.5),
            ("114660.07", 114_660.07),
            ("1:30.5", 90.5),
            (".inf", f64::INFINITY),
            ("-.INF", f64::NEG_INFINITY),
        ] {
            assert_eq!(resolve(word), Value::Float(value), "{word}");
        }
        assert!(matches!(resolve(".nan"), Value::Float(value) if value.is_nan()));
    }

    #[test]
    fn everything_else_stays_text() {
        for word in [
            "0o17",
            "08",
            "1.2.3",
            "2024-01-02",
            "10.0.0.1",
            "1:60",
            "1:30.5e3",
            "0x",
            "0b",
            "_1",
            "1__e",
            ".",
            "._",
            "-",
            "+",
            "e3",
            "inf",
            "nan",
            "-.nan",
            "1e",
            "1e_3",
            "0x1g",
            "1:",
            ":30",
            "s3://b/p",
            "1-2",
            "é",
        ] {
            assert_eq!(resolve(word), text(word));
        }
    }

    #[test]
    fn a_number_beyond_every_integer_is_a_float() {
        assert_eq!(resolve(&"9".repeat(60)), Value::Float(1e60));
    }
}
