// The variables in which launchers state a process's place, and whether they contradict one another.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace braid::comm {

/// The value of an environment variable, or nothing. An empty value counts as nothing.
using Environment = std::function<std::optional<std::string>(std::string_view name)>;

/// Reads variables of an environment; errors name the variable and its value.
class Variables {
 public:
  explicit Variables(const Environment& get) : get_(get) {}

  /// Nothing if it is unset or blank.
  std::optional<std::string> text(std::string_view name) const;
  bool has(std::string_view name) const { return text(name).has_value(); }

  /// Throws ConfigError unless the variable is unset or a whole number >= 0 that fits an int.
  std::optional<int> number(std::string_view name) const;

  /// Throws ConfigError, naming `because`, if the variable is not set.
  int needed(std::string_view name, std::string_view because) const;

  std::optional<std::string> first_text(std::initializer_list<std::string_view> names) const;
  std::optional<int> first_number(std::initializer_list<std::string_view> names) const;

 private:
  const Environment& get_;
};

/// How one kind of MPI launcher states a process's place.
struct MpiLauncher {
  std::string_view name;                      // for messages
  std::string_view rank, size;                // the variables of rank and world size
  std::vector<std::string_view> local_ranks;  // of the rank on its node: the first that is set
  std::vector<std::string_view> local_sizes;  // of the ranks on the node
  std::vector<std::string_view> ids;          // of something that only this job has
  std::string_view how_to_set;                // MASTER_ADDR for all ranks
};

/// Open MPI, MVAPICH2, and those that follow PMI: MPICH, Intel MPI, Cray PALS.
const std::vector<MpiLauncher>& mpi_launchers();

/// The one of mpi_launchers() whose rank or size is set, or null. Throws ConfigError naming the variables if
/// several are and state different places.
const MpiLauncher* stated_mpi_launcher(const Variables& variables);

/// Throws ConfigError naming the variables if RANK and WORLD_SIZE, set by hand, are not what an MPI launcher
/// or a Slurm step states. A launcher of ranks within another one's process (GROUP_RANK is set) may differ.
void check_hand_set_place(const Variables& variables);

/// Throws ConfigError with the cure if a variable states a rank, but none the number of ranks: PMIX_RANK of
/// prun, PMI_ID, PALS_RANKID, ALPS_APP_PE.
void check_no_rank_without_size(const Variables& variables);

/// Whether Slurm's srun started this process as a task of a step. The steps in which Slurm runs a batch
/// script or an interactive shell do not count.
bool in_slurm_step(const Variables& variables);

/// A process that is one of several which a launcher started.
struct OuterPlace {
  std::string launcher;
  int rank = 0;
  int size = 1;
};

/// The place in a launcher other than braid's and torchrun's, if it is one of several. Throws ConfigError
/// like the functions above.
std::optional<OuterPlace> outer_place(const Environment& get);

}  // namespace braid::comm
