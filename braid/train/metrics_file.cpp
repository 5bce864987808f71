#include "braid/train/metrics_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "braid/base/error.h"
#include "braid/base/failure.h"

namespace braid::train {

MetricsFile::MetricsFile(std::filesystem::path path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
  const bool is_open = descriptor_ >= 0 && ::fstat(descriptor_, &made_) == 0;
  require<OutputError>(is_open, path_.string(), ": cannot be created: ", std::strerror(errno), "; ",
                       write_remedy(errno));
}

MetricsFile::~MetricsFile() { ::close(descriptor_); }

void MetricsFile::append(std::string_view line) {
  require_still_there();
  write(std::string(line) + "\n");
}

void MetricsFile::write(std::string_view text) const {
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor_, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    require<OutputError>(count >= 0, path_.string(), ": cannot be written: ", std::strerror(errno), "; ",
                         write_remedy(errno));
    text.remove_prefix(static_cast<size_t>(count));
  }
}

void MetricsFile::require_still_there() const {
  struct stat present {};
  const bool is_there = ::stat(path_.c_str(), &present) == 0 && present.st_dev == made_.st_dev &&
                        present.st_ino == made_.st_ino;
  require<OutputError>(is_there, path_.string(),
                       ": was deleted or replaced while the run wrote to it; start the run again, and let "
                       "nothing else change its output directory");
}

}  // namespace braid::train
