#include "braid/launch/rank_log.h"

#include <sys/stat.h>

#include <cstring>
#include <filesystem>

#include "braid/base/error.h"
#include "braid/base/failure.h"

namespace braid::launch {
namespace {

bool is_deleted(int file) {
  struct stat status {};
  return ::fstat(file, &status) == 0 && status.st_nlink == 0;
}

}  // namespace

RankLog::RankLog(std::string path) : path_(std::move(path)) {
  const int file = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  require<OutputError>(file >= 0, "--log_dir: cannot write ", path_, ": ", std::strerror(errno), "; ",
                       write_remedy(errno));
  file_ = above_standard(FileDescriptor(file));
}

std::optional<std::string> RankLog::take(std::string_view bytes) { return write(text_.take(bytes)); }

std::optional<std::string> RankLog::finish() {
  std::optional<std::string> reason = write(text_.finish());
  file_.close();
  return reason;
}

std::optional<std::string> RankLog::write(std::string_view text) {
  if (file_ && !text.empty() && is_deleted(file_.get())) {
    file_.close();
    return "it was deleted";
  }
  while (file_ && !text.empty()) {
    const ssize_t count = ::write(file_.get(), text.data(), text.size());
    if (count >= 0) {
      text.remove_prefix(static_cast<size_t>(count));
    } else if (errno != EINTR) {
      const int error = errno;
      file_.close();
      return std::strerror(error);
    }
  }
  return std::nullopt;
}

std::string log_path(const std::string& directory, int64_t local_rank) {
  return (std::filesystem::path(directory) / cat("workerlog.", local_rank)).string();
}

void make_log_directory(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  require<OutputError>(!error, "--log_dir ", directory, " cannot be created: ", error.message(), "; ",
                       write_remedy(error.value()));
  require<OutputError>(std::filesystem::is_directory(directory, error), "--log_dir ", directory,
                       " is not a directory");
}

}  // namespace braid::launch
