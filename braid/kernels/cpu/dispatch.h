// Which instruction set the fused kernels run on.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace braid::kernels::cpu {

/// Names of the sets that the kernels are compiled for and this processor has, the one in use first. Empty
/// without Highway.
std::vector<std::string> instruction_sets();

/// Runs `work` with the kernels held to one of instruction_sets(), for tests and benchmarks. Not for use from
/// several threads at a time: the choice holds for the process. Throws ConfigError for a name that is not
/// among them.
void with_instruction_set(const std::string& name, const std::function<void()>& work);

}  // namespace braid::kernels::cpu
