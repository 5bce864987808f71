#include "braid/comm/rejections.h"

#include "braid/base/error.h"

namespace braid::comm {

void Rejections::add(const std::string& address, const std::string& reason) {
  const bool own = by_address_.contains(address) || by_address_.size() < kMostAddresses;
  Count& count = own ? by_address_[address] : others_;
  ++count.seen;
  if (count.seen < count.next_report) return;
  count.next_report *= 10;
  if (!report_) return;
  report_(cat("rejected a connection from ", own ? address : "further addresses", ": ", reason,
              count.seen == 1 ? "" : cat(" (connection ", count.seen, " of these)")));
}

std::string Rejections::addresses() const {
  std::string text;
  for (const auto& [address, count] : by_address_) text += cat(text.empty() ? "" : ", ", address);
  return text;
}

}  // namespace braid::comm
