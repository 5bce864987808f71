// What the commands of `braid schedule` have in common: which schedule, for which times and memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "braid/config/option_table.h"
#include "braid/schedule/schedule.h"
#include "braid/schedule/workload.h"

namespace braid::cli {

/// The options of all of them; each command's table has those that it takes.
struct ScheduleOptions {
  // Which schedule
  std::string mode = "1F1B";
  int32_t pp = 4;
  int32_t micro = 8;
  std::optional<int32_t> chunks{};
  // For what
  std::optional<std::string> times{};
  std::string times_option = "--times";  ///< the one that gave them, for messages
  std::optional<std::string> memory{};
  std::optional<double> memory_limit{};
  // Output
  bool enable_send_recv_overlap = false;
  bool actions = false;
  bool csv = false;
  bool json = false;
  std::optional<int32_t> columns{};
  std::string out{};
  // Running it
  std::string emulate{};
  int64_t steps = 3;
  int64_t message_bytes = 8;
  double grace_ms = 10;
};

using ScheduleTable = config::OptionTable<ScheduleOptions>;

/// --mode (`several_modes` is added to its help), --pp, --micro, --chunks, under the names of braid pretrain
/// too.
void add_schedule_options(ScheduleTable& table, std::string_view several_modes = "");

/// --pp and --micro alone.
void add_pipeline_options(ScheduleTable& table);

/// --times, --memory, --memory_limit.
void add_workload_options(ScheduleTable& table);

/// What peak_memory's numbers are multiples of: a rank's memory is given as decimals, and shared among up to
/// 16 chunks without rounding.
inline constexpr int64_t kMemoryUnit = 720720;

/// The chunks per rank that `mode` runs with: options.chunks, or what the mode always has, or 2 for VPP and 1
/// for all else.
int32_t chunks_of(const ScheduleOptions& options, std::string_view mode);

/// Times and memory as `options` give them, for a pipeline of this shape; memory in kMemoryUnit-ths.
/// 1,1,1,0 and 1,1 where they give none.
schedule::Workload workload_of(const ScheduleOptions& options, const schedule::PipelineShape& shape);

/// What a command can work on in reasonable time.
struct SizeLimit {
  int64_t cells = 0;  ///< the most of ranks x microbatches x chunks
  std::string_view purpose;
};

/// The schedule that `options` name, checked: a mode's, or csv:FILE. --pp, --micro and --chunks do not matter
/// to a file. Throws ConfigError, which names the options, if it is larger than `limit`, before a mode's is
/// made; and if there is no such mode or file, or it does not suit the options.
schedule::Schedule schedule_of(const ScheduleOptions& options, std::string_view mode, const SizeLimit& limit);

/// The most that each rank keeps, in the unit of --memory.
std::vector<double> peaks_of(const schedule::Schedule& schedule, const schedule::Workload& workload);

}  // namespace braid::cli
