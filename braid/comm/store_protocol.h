// What travels between rank 0's store and the other ranks: a mutual proof that both know the run's secret,
// then authenticated frames. Written down in docs/decisions/0019-the-rendezvous-knows-its-ranks.md.
//
//   host  -> joiner   greeting, host nonce
//   joiner -> host    joiner nonce, proof of the joiner
//   host  -> joiner   one byte, kAccepted or kRejected; after kAccepted the proof of the host
//   joiner -> host    frame: introduction (protocol number, rank, braid's version)
//   host  -> joiner   frame: reply (for another protocol: its own number and version)
//   then a request and its reply at a time
//
// Everything up to the introduction, and its three fields, is the same in every version of braid, so that
// versions that differ can say so.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "braid/base/sha256.h"

namespace braid::comm {

inline constexpr std::string_view kGreeting = "BRAIDRV1";
inline constexpr size_t kNonceBytes = 32;
inline constexpr size_t kProofBytes = 32;
inline constexpr char kAccepted = 'y';
inline constexpr char kRejected = 'n';

/// The number of the requests and replies below; another number is rejected, with both versions named.
inline constexpr uint64_t kStoreProtocol = 1;

/// The largest body of a frame. Addresses and identifiers are hundreds of bytes.
inline constexpr size_t kMostFrameBytes = size_t{16} << 20;

enum class StoreOp : uint64_t {
  kIntroduce,   // protocol, rank, version -> nothing
  kSet,         // key, value -> nothing
  kCompareSet,  // key, expected, desired -> value
  kAdd,         // key, amount -> sum
  kAppend,      // key, value -> nothing
  kDelete,      // key -> 1 if it was there
  kCheck,       // keys -> 1 if all are there
  kCount,       // -> number of keys
  kList,        // -> keys
  kWait,        // milliseconds, keys -> nothing, once all are there
  kFetch,       // milliseconds, keys -> values, once all are there
};

enum class StoreReply : uint64_t { kDone, kTimeout, kOtherProtocol };

/// 32 bytes from the kernel's random number generator.
/// Throws std::system_error if the kernel has none.
std::string random_nonce();

/// One direction's key, and the number of the next frame in it.
struct FrameKey {
  Digest key = {};
  uint64_t next = 0;
};

/// What both ends derive from the secret and both nonces. Who does not know the secret can compute none of
/// it.
struct Session {
  Digest joiner_proof, host_proof;
  FrameKey to_host, to_joiner;
};
Session derive_session(std::string_view secret, std::string_view host_nonce, std::string_view joiner_nonce);

/// `body` as a frame: its length, itself, and the code of both and of the frame's number.
std::string seal(FrameKey& key, std::string_view body);

/// Takes the first frame off `buffer` and returns its body, or nothing if it has not arrived whole.
/// Throws CommError if the frame is too long, or was not sealed with this key as the next one.
std::optional<std::string> open_frame(FrameKey& key, std::string& buffer);

/// Builds a frame's body.
class MessageWriter {
 public:
  MessageWriter& number(uint64_t value);
  MessageWriter& text(std::string_view value);
  MessageWriter& texts(const std::vector<std::string>& values);
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/// Reads one. Every function throws CommError if the body ends before the field does.
class MessageReader {
 public:
  explicit MessageReader(std::string_view bytes) : left_(bytes) {}
  uint64_t number();
  std::string text();
  std::vector<std::string> texts();
  /// All that is left.
  std::string rest() { return std::string(left_); }

 private:
  std::string_view take(uint64_t count);
  std::string_view left_;
};

}  // namespace braid::comm
