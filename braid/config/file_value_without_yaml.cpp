#include "braid/base/error.h"
#include "braid/config/file_value.h"

namespace braid::config {

FileValue parse_yaml_value(std::string_view, std::string_view file_name) {
  throw ConfigError(
      cat(file_name, ": this build does not support YAML: configure with BRAID_WITH_YAML=ON, or use JSON"));
}

bool has_yaml() { return false; }

}  // namespace braid::config
