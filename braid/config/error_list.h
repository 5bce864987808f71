// Several errors of a user reported at once.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "braid/base/error.h"

namespace braid::config {

/// More than one ConfigError. what() counts them and has a line for each.
struct ConfigErrors : ConfigError {
  explicit ConfigErrors(std::vector<std::string> all) : ConfigError(text_of(all)), messages(std::move(all)) {}

  std::vector<std::string> messages;

 private:
  static std::string text_of(const std::vector<std::string>& messages) {
    std::string text = cat(messages.size(), " errors:");
    for (const std::string& message : messages) text += "\n  " + message;
    return text;
  }
};

/// Collects errors until all checks have been made.
class ErrorList {
 public:
  /// Notes an error, the concatenation of the parts, unless `condition` holds.
  template <typename... Parts>
  void check(bool condition, const Parts&... parts) {
    if (!condition) messages_.push_back(cat(parts...));
  }

  /// Calls `act` and notes the ConfigError that it throws, or each of several. Returns whether there was
  /// none.
  template <typename Act>
  bool attempt(const Act& act) {
    try {
      act();
      return true;
    } catch (const ConfigErrors& errors) {
      messages_.insert(messages_.end(), errors.messages.begin(), errors.messages.end());
    } catch (const ConfigError& error) {
      messages_.emplace_back(error.what());
    }
    return false;
  }

  /// The errors so far.
  const std::vector<std::string>& messages() const { return messages_; }

  /// Throws the only error as ConfigError, several as ConfigErrors; returns if there is none.
  void throw_if_any() const {
    if (messages_.size() == 1) throw ConfigError(messages_.front());
    if (!messages_.empty()) throw ConfigErrors(messages_);
  }

 private:
  std::vector<std::string> messages_;
};

}  // namespace braid::config
