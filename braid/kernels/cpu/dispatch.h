// The instruction set of the fused kernels.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace braid::kernels::cpu {

/// Names of the sets that the kernels are compiled for and this processor supports, with the one in use
/// first. Empty without Highway.
std::vector<std::string> instruction_sets();

/// Runs `work` with the kernels restricted to one of instruction_sets(), for tests and benchmarks. Not to be
/// called from several threads at a time: the choice applies to the whole process. Throws ConfigError for any
/// other name.
void with_instruction_set(const std::string& name, const std::function<void()>& work);

}  // namespace braid::kernels::cpu
