#include "braid/comm/error_text.h"

#include <c10/util/Exception.h>

namespace braid::comm {

std::string short_reason(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  std::string text = torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
  text = text.substr(0, text.find('\n'));
  // Gloo begins with "[file:line] " and ends with advice of its own.
  if (text.starts_with('[')) {
    const size_t end = text.find("] ");
    if (end != text.npos) text.erase(0, end + 2);
  }
  for (const char* advice : {". This is typically caused by", " This is typically caused by"}) {
    text = text.substr(0, text.find(advice));
  }
  return text;
}

}  // namespace braid::comm
