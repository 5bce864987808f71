#include "braid/comm/store_protocol.h"

#include <sys/random.h>

#include <cerrno>
#include <system_error>

#include "braid/base/error.h"

namespace braid::comm {
namespace {

constexpr size_t kNumberBytes = 8;

std::string number_bytes(uint64_t value) {
  std::string bytes;
  for (int shift = 56; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}

uint64_t number_of(std::string_view bytes) {
  uint64_t value = 0;
  for (const char c : bytes) value = value << 8 | static_cast<uint8_t>(c);
  return value;
}

// The frame's number and length are part of what is authenticated: none can be repeated, dropped or
// reordered.
Digest code(const FrameKey& key, std::string_view length, std::string_view body) {
  return hmac_sha256(bytes_of(key.key), number_bytes(key.next).append(length).append(body));
}

}  // namespace

std::string random_nonce() {
  std::string nonce(kNonceBytes, '\0');
  // Up to 256 bytes arrive whole, and no signal interrupts them (getrandom(2)).
  if (::getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size()))
    throw std::system_error(errno, std::generic_category(), "getrandom");
  return nonce;
}

Session derive_session(std::string_view secret, std::string_view host_nonce, std::string_view joiner_nonce) {
  const auto derive = [&](std::string_view purpose) {
    return hmac_sha256(secret, std::string(purpose).append(host_nonce).append(joiner_nonce));
  };
  return {.joiner_proof = derive("braid joiner proof"),
          .host_proof = derive("braid host proof"),
          .to_host = {.key = derive("braid frames to host")},
          .to_joiner = {.key = derive("braid frames to joiner")}};
}

std::string seal(FrameKey& key, std::string_view body) {
  require<CommError>(body.size() <= kMostFrameBytes, "a message to the store has ", body.size(),
                     " bytes; at most ", kMostFrameBytes, " are allowed");
  std::string frame = number_bytes(body.size());
  const Digest sealed = code(key, frame, body);
  ++key.next;
  return frame.append(body).append(bytes_of(sealed));
}

std::optional<std::string> open_frame(FrameKey& key, std::string& buffer) {
  if (buffer.size() < kNumberBytes) return std::nullopt;
  const std::string_view all = buffer;
  const uint64_t length = number_of(all.substr(0, kNumberBytes));
  require<CommError>(length <= kMostFrameBytes, "a frame of ", length, " bytes, above the limit of ",
                     kMostFrameBytes);
  const size_t size = kNumberBytes + length + kProofBytes;
  if (buffer.size() < size) return std::nullopt;
  std::string body(all.substr(kNumberBytes, length));
  require<CommError>(
      matches(code(key, all.substr(0, kNumberBytes), body), all.substr(size - kProofBytes, kProofBytes)),
      "a frame with a wrong code: somebody on the network altered or repeated it");
  ++key.next;
  buffer.erase(0, size);
  return body;
}

MessageWriter& MessageWriter::number(uint64_t value) {
  bytes_ += number_bytes(value);
  return *this;
}

MessageWriter& MessageWriter::text(std::string_view value) {
  number(value.size());
  bytes_ += value;
  return *this;
}

MessageWriter& MessageWriter::texts(const std::vector<std::string>& values) {
  number(values.size());
  for (const std::string& value : values) text(value);
  return *this;
}

std::string_view MessageReader::take(uint64_t count) {
  require<CommError>(count <= left_.size(), "a message of the store ends too early");
  const std::string_view taken = left_.substr(0, count);
  left_.remove_prefix(count);
  return taken;
}

uint64_t MessageReader::number() { return number_of(take(kNumberBytes)); }

std::string MessageReader::text() { return std::string(take(number())); }

std::vector<std::string> MessageReader::texts() {
  std::vector<std::string> values;
  for (uint64_t left = number(); left > 0; --left) values.push_back(text());
  return values;
}

}  // namespace braid::comm
