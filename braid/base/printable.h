// Text of files, file names and values in what people read: what a terminal would act on is made visible.
#pragma once

#include <string>
#include <string_view>

namespace braid {

/// `text` on one line: control characters, characters that reverse the direction of writing, and bytes that
/// are not UTF-8 become \n, \t, \xHH or \u{HHHH}. Other text is unchanged.
std::string escaped(std::string_view text);

/// The same for text of several lines: newlines and tabs are kept.
std::string escaped_lines(std::string_view text);

/// Text that a program made, for a terminal: newlines and tabs are kept, other control characters escaped,
/// and each byte that is not UTF-8 becomes U+FFFD.
std::string displayable(std::string_view text);

/// `text` escaped, in quotes, for an error message: of a text longer than 120 bytes its beginning, and "...".
std::string printable(std::string_view text);

/// The number of bytes of the UTF-8 character that begins at `at`; 0 if no valid one does.
size_t utf8_character_bytes(std::string_view text, size_t at);

}  // namespace braid
