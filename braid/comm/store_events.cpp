#include "braid/comm/store_events.h"

#include "braid/base/error.h"
#include "braid/base/text.h"

namespace braid::comm {
namespace {

constexpr const char* kCountKey = "braid/events";
constexpr std::string_view kArrival = "arrival ";
constexpr std::string_view kFault = "fault ";

std::string event_key(int64_t number) { return cat("braid/event/", number); }

void post(c10d::Store& store, const std::string& text) {
  store.set(event_key(store.add(kCountKey, 1)), text);
}

}  // namespace

void post_arrival(c10d::Store& store, int rank) { post(store, cat(kArrival, rank)); }

void post_fault(c10d::Store& store, const std::string& text) { post(store, cat(kFault, text)); }

std::optional<Event> wait_for_event(c10d::Store& store, int64_t number, std::chrono::milliseconds timeout) {
  try {
    store.wait({event_key(number)}, timeout);
  } catch (const std::exception&) {
    return std::nullopt;
  }
  const std::string text = store.get_to_str(event_key(number));
  if (text.starts_with(kFault)) return Fault{text.substr(kFault.size())};
  const std::optional<int64_t> rank =
      text.starts_with(kArrival) ? parse_int(std::string_view(text).substr(kArrival.size())) : std::nullopt;
  require<CommError>(rank.has_value(), "the store holds an unknown event '", text, "'");
  return Arrival{static_cast<int>(*rank)};
}

}  // namespace braid::comm
