// JSON of possibly hostile files, parsed event by event so that nothing is built from rejected input.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "braid/base/error.h"
#include "braid/base/printable.h"

namespace braid::checkpoint {

/// `text` as a JSON string. Throws InternalError if it is not UTF-8.
std::string json_string(std::string_view text);

/// The parser's events, each rejected unless a subclass overrides it: only expected input is accepted.
class StrictEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  /// `file` names the file in messages.
  explicit StrictEvents(std::string file) : file_(std::move(file)) {}

  bool null() override;
  bool boolean(bool value) override;
  bool number_integer(number_integer_t value) override;  // only numbers with a minus sign
  bool number_unsigned(number_unsigned_t value) override;
  bool number_float(number_float_t value, const string_t& text) override;  // also integers beyond 64 bits
  bool string(string_t& value) override;
  bool binary(binary_t& value) override;
  bool start_object(size_t) override;
  bool key(string_t& name) override;
  bool end_object() override;
  bool start_array(size_t) override;
  bool end_array() override;
  bool parse_error(size_t position, const std::string& token,
                   const nlohmann::json::exception& error) override;

 protected:
  /// Throws DataError: file, then `parts`, then the remedy.
  template <typename... Parts>
  [[noreturn]] void reject(const Parts&... parts) const {
    throw DataError(
        cat(file_, ": ", parts..., "; the file is damaged or of another type: download it again"));
  }
  /// The parser's position in the document, for messages; empty by default.
  virtual std::string place() const { return {}; }

 private:
  [[noreturn]] void unexpected(std::string_view what) const { reject("unexpected ", what, place()); }

  std::string file_;
};

/// Parses `text`, one JSON object, into `events`. Throws DataError if it is not valid JSON or as `events`
/// does.
void parse_strictly(std::string_view text, const std::string& file, StrictEvents& events);

}  // namespace braid::checkpoint
