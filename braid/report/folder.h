// Folders for the files of a report.
#pragma once

#include <filesystem>
#include <system_error>

#include "braid/base/error.h"
#include "braid/base/failure.h"

namespace braid::report {

/// `folder`, created with its parents if it is not there. Throws OutputError with the reason if it cannot be.
inline std::filesystem::path made_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  require<OutputError>(!error, "cannot create ", folder.string(), ": ", error.message(), "; ",
                       write_remedy(error.value()));
  return folder;
}

}  // namespace braid::report
