#include "braid/report/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "braid/base/error.h"
#include "braid/base/failure.h"

namespace braid::report {

AppendFile::AppendFile(std::filesystem::path path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  require<OutputError>(descriptor_ >= 0, "cannot create ", path_.string(), ": ", std::strerror(errno), "; ",
                       write_remedy(errno));
}

AppendFile::~AppendFile() { ::close(descriptor_); }

void AppendFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    require<OutputError>(count >= 0, "cannot write ", path_.string(), ": ", std::strerror(errno), "; ",
                         write_remedy(errno));
    bytes.remove_prefix(static_cast<size_t>(count));
  }
}

}  // namespace braid::report
