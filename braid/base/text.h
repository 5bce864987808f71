// Small text helpers: splitting, exact number parsing and printing, suggestions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace braid {

/// `text` split at every `separator`; n separators give n + 1 pieces, including empty ones.
std::vector<std::string> split(std::string_view text, char separator);

/// `text` without leading and trailing white space.
std::string_view trim(std::string_view text);

/// The whole of `text` as a decimal integer, or nothing if it is not one or does not fit.
std::optional<int64_t> parse_int(std::string_view text);

/// The whole of `text` as a floating-point number, or nothing. Accepts what std::from_chars accepts ("1e-5",
/// "inf").
std::optional<double> parse_double(std::string_view text);

/// The shortest decimal text that reads back as exactly `value`; "nan", "inf" and "-inf" for those.
std::string to_text(double value);
std::string to_text(float value);

/// `value` with exactly `digits` digits after the point.
std::string fixed(double value, int digits);

/// `value` with at most `digits` significant digits, as %g prints it: "1e-06", "0.000213".
std::string brief(double value, int digits);

/// "1 rank", "2 ranks". The plural is `singular` + "s" unless `plural` is given.
std::string counted(int64_t count, std::string_view singular, std::string_view plural = {});

/// "512 B", "1.50 KiB", "3.20 GiB".
std::string bytes_text(uint64_t bytes);

/// The candidate with the smallest edit distance to `word` (two swapped letters are one edit), or nothing if
/// that distance exceeds a third of its length (at least 1).
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates);

}  // namespace braid
