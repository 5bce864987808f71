#include "braid/launch/secret.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/launch/file_descriptor.h"

namespace braid::launch {
namespace {

constexpr const char* kRemedy = "openssl rand -hex 32 makes one";
// More than any secret needs; a file that is larger was named by mistake.
constexpr size_t kMostFileBytes = 4096;

std::string checked(std::string_view given, std::string_view source) {
  std::string secret(trim(given));
  require<ConfigError>(secret.size() >= kLeastSecretCharacters, source, " holds a secret of ",
                       counted(static_cast<int64_t>(secret.size()), "character"), "; at least ",
                       kLeastSecretCharacters, " are needed, and ", kRemedy);
  require<ConfigError>(secret.find_first_of(std::string_view("\n\0", 2)) == std::string::npos, source,
                       " holds more than one line, so it is no secret; ", kRemedy);
  return secret;
}

}  // namespace

std::string random_hex(size_t bytes) {
  std::string random(bytes, '\0');
  // Up to 256 bytes arrive whole, and no signal interrupts them (getrandom(2)).
  if (::getrandom(random.data(), bytes, 0) != static_cast<ssize_t>(bytes))
    throw std::system_error(errno, std::generic_category(), "getrandom");
  std::string text;
  for (const char c : random) {
    constexpr const char* kDigits = "0123456789abcdef";
    text += kDigits[static_cast<unsigned char>(c) >> 4];
    text += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

std::string read_secret_file(const std::string& path) {
  const std::string name = cat("--secret_file ", path);
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  require<ConfigError>(static_cast<bool>(file), name, " cannot be opened: ", std::strerror(errno));
  struct stat found = {};
  require<ConfigError>(::fstat(file.get(), &found) == 0 && S_ISREG(found.st_mode), name, " is not a file");
  require<ConfigError>(found.st_uid == ::geteuid(), name, " belongs to user ", found.st_uid,
                       ", but braid runs as user ", ::geteuid(), ": use a file of your own");
  require<ConfigError>((found.st_mode & 077) == 0, name, " is open to other users: chmod 600 ", path);
  std::string text(kMostFileBytes, '\0');
  const ssize_t count = ::read(file.get(), text.data(), text.size());
  require<ConfigError>(count >= 0, name, " cannot be read: ", std::strerror(errno));
  text.resize(static_cast<size_t>(count));
  return checked(text, name);
}

std::string choose_secret(const Environment& base, const LaunchOptions& options) {
  if (!options.secret_file.empty()) return read_secret_file(options.secret_file);
  if (const auto given = base.find(kSecretVariable); given != base.end() && !trim(given->second).empty())
    return checked(given->second, kSecretVariable);
  require<ConfigError>(options.nnodes == 1, "--nnodes ", options.nnodes,
                       " needs the run's secret, the same on every node: pass --secret_file FILE, or set ",
                       kSecretVariable, "; ", kRemedy);
  return random_hex(32);
}

}  // namespace braid::launch
