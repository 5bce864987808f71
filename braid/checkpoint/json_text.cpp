#include "braid/checkpoint/json_text.h"

namespace braid::checkpoint {

std::string json_string(std::string_view text) {
  try {
    return nlohmann::json(std::string(text)).dump();
  } catch (const nlohmann::json::exception&) {
    throw InternalError(cat(printable(text), " is not UTF-8 and cannot be written as JSON"));
  }
}

bool StrictEvents::null() { unexpected("null"); }
bool StrictEvents::boolean(bool value) { unexpected(value ? "true" : "false"); }
bool StrictEvents::number_integer(number_integer_t value) { unexpected(cat("negative number ", value)); }
bool StrictEvents::number_unsigned(number_unsigned_t value) { unexpected(cat("number ", value)); }
bool StrictEvents::number_float(number_float_t, const string_t& text) {
  unexpected(cat("number ", printable(text), " is not a 64-bit integer"));
}
bool StrictEvents::string(string_t& value) { unexpected(cat("string ", printable(value))); }
bool StrictEvents::binary(binary_t&) { unexpected("binary value"); }
bool StrictEvents::start_object(size_t) { unexpected("'{'"); }
bool StrictEvents::key(string_t& name) { unexpected(cat("key ", printable(name))); }
bool StrictEvents::end_object() { unexpected("'}'"); }
bool StrictEvents::start_array(size_t) { unexpected("'['"); }
bool StrictEvents::end_array() { unexpected("']'"); }

bool StrictEvents::parse_error(size_t position, const std::string&, const nlohmann::json::exception&) {
  // The parser's own message would repeat the last token, which may be as long as the file.
  reject("invalid JSON at character ", position, place());
}

void parse_strictly(std::string_view text, const std::string& file, StrictEvents& events) {
  // The parser would skip a byte order mark and treat a NUL as the end of the text.
  const size_t nul = text.find('\0');
  require<DataError>(nul == std::string_view::npos, file, ": its JSON has a NUL character at ", nul,
                     "; the file is damaged: download it again");
  const size_t first = text.find_first_not_of(" \t\r\n");
  require<DataError>(
      first != std::string_view::npos && text[first] == '{', file,
      ": its JSON does not begin with '{'; the file is damaged or of another type: download it again");
  nlohmann::json::sax_parse(text.begin(), text.end(), &events);
}

}  // namespace braid::checkpoint
