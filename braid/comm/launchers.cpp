#include "braid/comm/launchers.h"

#include <cstdint>

#include "braid/base/error.h"
#include "braid/base/text.h"

namespace braid::comm {
namespace {

// The numbers of steps that Slurm makes by itself (batch script, interactive shell, ...) begin here.
constexpr int64_t kFirstSpecialStep = 0xfffffff0;

struct Place {
  std::string_view launcher, rank_name, size_name;
  int rank = 0;
  int size = 1;
};

std::string text_of(const Place& place) {
  return cat(place.rank_name, "=", place.rank, " and ", place.size_name, "=", place.size);
}

Place place_of(const Variables& variables, const MpiLauncher& launcher) {
  return {.launcher = launcher.name,
          .rank_name = launcher.rank,
          .size_name = launcher.size,
          .rank = variables.needed(launcher.rank, launcher.size),
          .size = variables.needed(launcher.size, launcher.rank)};
}

// The place in Slurm's step, if this is a task of one and all of it is stated.
std::optional<Place> slurm_place(const Variables& variables) {
  if (!in_slurm_step(variables)) return std::nullopt;
  const std::string_view size_name =
      variables.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  const std::optional<int> rank = variables.number("SLURM_PROCID");
  const std::optional<int> size = variables.number(size_name);
  if (!rank || !size) return std::nullopt;
  return Place{
      .launcher = "Slurm", .rank_name = "SLURM_PROCID", .size_name = size_name, .rank = *rank, .size = *size};
}

}  // namespace

std::optional<std::string> Variables::text(std::string_view name) const {
  std::optional<std::string> value = get_(name);
  if (value && trim(*value).empty()) return std::nullopt;
  return value;
}

std::optional<int> Variables::number(std::string_view name) const {
  const std::optional<std::string> value = text(name);
  if (!value) return std::nullopt;
  const std::optional<int64_t> parsed = parse_int(trim(*value));
  require<ConfigError>(parsed && *parsed >= 0 && *parsed <= INT32_MAX, name, "='", *value,
                       "' in the environment must be a whole number >= 0");
  return static_cast<int>(*parsed);
}

int Variables::needed(std::string_view name, std::string_view because) const {
  const std::optional<int> value = number(name);
  require<ConfigError>(value.has_value(), name, " is not set in the environment, but ", because, " is");
  return *value;
}

std::optional<std::string> Variables::first_text(std::initializer_list<std::string_view> names) const {
  for (const std::string_view name : names) {
    if (std::optional<std::string> value = text(name)) return value;
  }
  return std::nullopt;
}

std::optional<int> Variables::first_number(std::initializer_list<std::string_view> names) const {
  for (const std::string_view name : names) {
    if (const std::optional<int> value = number(name)) return value;
  }
  return std::nullopt;
}

const std::vector<MpiLauncher>& mpi_launchers() {
  static const std::vector<MpiLauncher> launchers = {
      {.name = "Open MPI",
       .rank = "OMPI_COMM_WORLD_RANK",
       .size = "OMPI_COMM_WORLD_SIZE",
       .local_ranks = {"OMPI_COMM_WORLD_LOCAL_RANK"},
       .local_sizes = {"OMPI_COMM_WORLD_LOCAL_SIZE"},
       .ids = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"},
       .how_to_set = "add -x MASTER_ADDR=<host of rank 0> to mpirun"},
      {.name = "MVAPICH2",
       .rank = "MV2_COMM_WORLD_RANK",
       .size = "MV2_COMM_WORLD_SIZE",
       .local_ranks = {"MV2_COMM_WORLD_LOCAL_RANK"},
       .local_sizes = {"MV2_COMM_WORLD_LOCAL_SIZE"},
       .ids = {},
       .how_to_set = "add MASTER_ADDR=<host of rank 0> before the program in mpirun_rsh's command"},
      {.name = "mpiexec (PMI)",
       .rank = "PMI_RANK",
       .size = "PMI_SIZE",
       .local_ranks = {"MPI_LOCALRANKID", "PMI_LOCAL_RANK", "PALS_LOCAL_RANKID"},
       .local_sizes = {"MPI_LOCALNRANKS", "PMI_LOCAL_SIZE", "PALS_LOCAL_SIZE"},
       .ids = {"PALS_APID"},
       .how_to_set = "add -genv MASTER_ADDR <host of rank 0> to mpiexec"}};
  return launchers;
}

const MpiLauncher* stated_mpi_launcher(const Variables& variables) {
  const MpiLauncher* first = nullptr;
  for (const MpiLauncher& launcher : mpi_launchers()) {
    if (!variables.has(launcher.rank) && !variables.has(launcher.size)) continue;
    const Place place = place_of(variables, launcher);
    if (first == nullptr) {
      first = &launcher;
      continue;
    }
    const Place other = place_of(variables, *first);
    require<ConfigError>(place.rank == other.rank && place.size == other.size,
                         "the environment contradicts itself: ", text_of(other), " (", other.launcher,
                         "), but ", text_of(place), " (", place.launcher,
                         "); unset the variables of the launcher that did not start the ranks");
  }
  return first;
}

void check_hand_set_place(const Variables& variables) {
  if (variables.has("GROUP_RANK")) return;
  const Place own = {.launcher = "",
                     .rank_name = "RANK",
                     .size_name = "WORLD_SIZE",
                     .rank = variables.needed("RANK", "WORLD_SIZE"),
                     .size = variables.needed("WORLD_SIZE", "RANK")};
  std::optional<Place> other;
  if (const MpiLauncher* launcher = stated_mpi_launcher(variables)) {
    other = place_of(variables, *launcher);
  } else {
    other = slurm_place(variables);
  }
  // A process that its launcher started alone may well start further ones.
  if (!other || other->size == 1) return;
  require<ConfigError>(own.rank == other->rank && own.size == other->size, text_of(own),
                       " in the environment contradict ", text_of(*other), " of ", other->launcher,
                       ": unset RANK and WORLD_SIZE to follow ", other->launcher, ", or unset ",
                       other->rank_name, " and ", other->size_name);
}

void check_no_rank_without_size(const Variables& variables) {
  for (const std::string_view name : {"PMIX_RANK", "PMI_ID", "PALS_RANKID", "ALPS_APP_PE"}) {
    const std::optional<std::string> value = variables.text(name);
    require<ConfigError>(
        !value, name, "=", value.value_or(""),
        " in the environment states a rank, but nothing states how many ranks there are, so that every "
        "process "
        "would be a run of its own: set RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and "
        "MASTER_PORT for each, or start the ranks with braid launch, mpirun, mpiexec or srun; for a single "
        "rank, unset ",
        name);
  }
}

bool in_slurm_step(const Variables& variables) {
  const std::optional<std::string> step = variables.first_text({"SLURM_STEP_ID", "SLURM_STEPID"});
  if (!step) return false;
  const std::optional<int64_t> number = parse_int(trim(*step));
  return !number || *number < kFirstSpecialStep;
}

std::optional<OuterPlace> outer_place(const Environment& get) {
  const Variables variables(get);
  std::optional<Place> place;
  if (const MpiLauncher* launcher = stated_mpi_launcher(variables)) {
    place = place_of(variables, *launcher);
  } else {
    place = slurm_place(variables);
  }
  if (!place || place->size == 1) return std::nullopt;
  return OuterPlace{.launcher = std::string(place->launcher), .rank = place->rank, .size = place->size};
}

}  // namespace braid::comm
