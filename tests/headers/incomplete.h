// Wrong on purpose: <string> is missing. The test incomplete_header_is_found fails unless the compiler
// reports it.
#pragma once

inline std::string text_without_its_header() { return "x"; }
