// The options that the commands of `braid schedule` share: which schedule, for which times and memory.
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

/// The options of all commands; each command's table contains those that it accepts.
struct ScheduleOptions {
  // Which schedule
  std::string mode = "1F1B";
  int32_t pp = 4;
  int32_t micro = 8;
  std::optional<int32_t> chunks{};
  // For what
  std::optional<std::string> times{};
  std::string times_option = "--times";  ///< the option that set them, for messages
  std::optional<std::string> mp_exchange{};
  bool weights_in_hand = true;
  std::optional<std::string> memory{};
  std::optional<double> memory_limit{};
  // With which data ranks
  std::optional<std::string> sharding{};
  std::optional<std::string> sharding_exchange{};
  std::optional<std::string> sharding_reduce{};
  std::optional<double> dp_exchange{};
  std::optional<int32_t> segments{};
  std::optional<double> update_time{};
  // Output
  bool enable_send_recv_overlap = false;
  bool actions = false;
  bool csv = false;
  bool json = false;
  std::optional<int32_t> columns{};
  std::string out{};
  bool overwrite = false;
  // Running it
  std::string emulate{};
  int64_t steps = 3;
  int64_t message_bytes = 8;
  std::optional<double> grace{};
};

using ScheduleTable = config::OptionTable<ScheduleOptions>;

/// --mode (`several_modes` is appended to its help), --pp, --micro, --chunks, with the names of braid
/// pretrain as aliases.
void add_schedule_options(ScheduleTable& table, std::string_view several_modes = "");

/// --pp and --micro alone.
void add_pipeline_options(ScheduleTable& table);

/// --times, --memory, --memory_limit.
void add_workload_options(ScheduleTable& table);

/// The unit of peak_memory, as a share of --memory's: decimals of a rank's memory are divided among up to 16
/// chunks without rounding.
inline constexpr int64_t kMemoryUnit = 720720;

/// --mp_exchange, --weights_in_hand.
void add_exchange_options(ScheduleTable& table);

/// --sharding, --sharding_exchange, --sharding_reduce, --dp_exchange, --segments, --update_time.
void add_data_options(ScheduleTable& table);

/// --out with this help, and --overwrite.
void add_output_file_options(ScheduleTable& table, std::string_view help);

/// Throws ConfigError if --out names a file that exists and --overwrite is not given. For the start of a
/// command, before any work.
void require_new_output(const ScheduleOptions& options);

/// Whether --sharding or --dp_exchange asks for data axes. Throws ConfigError where an option that applies
/// only with them, or only with --sharding, is given without.
bool has_data_axes(const ScheduleOptions& options);

/// The data axes that the options ask for, for a pipeline of this shape; off where has_data_axes says no.
schedule::DataAxes data_axes_of(const ScheduleOptions& options, const schedule::PipelineShape& shape);

/// The chunks per rank that `mode` runs with: options.chunks, or the mode's fixed number, or 2 for VPP and 1
/// for all others.
int32_t chunks_of(const ScheduleOptions& options, std::string_view mode);

/// The times and memory of `options` for a pipeline of this shape; memory in kMemoryUnit-ths. 1,1,1,0 and 1,1
/// by default.
schedule::Workload workload_of(const ScheduleOptions& options, const schedule::PipelineShape& shape);

/// The largest schedule that a command processes in reasonable time.
struct SizeLimit {
  int64_t cells = 0;  ///< at most so many ranks x microbatches x chunks
  std::string_view purpose;
};

/// The schedule that `options` select, checked: a mode's, or csv:FILE, for which --pp, --micro and --chunks
/// are ignored. Throws ConfigError naming the options if it is larger than `limit`, before a mode's is
/// generated; and if there is no such mode or file, or it does not support the options.
schedule::Schedule schedule_of(const ScheduleOptions& options, std::string_view mode, const SizeLimit& limit);

/// `schedule` with W's in hand, for times with exchanges; as it is without those, and if
/// options.weights_in_hand is false.
schedule::Schedule with_weights_in_hand(const ScheduleOptions& options, schedule::Schedule schedule,
                                        const schedule::Durations& durations);

/// Adds the times of updates and exchanges, in equal parts for all segments, to those of computing; nothing
/// without data axes.
void add_data_times(const ScheduleOptions& options, const schedule::PipelineShape& shape,
                    schedule::Durations& durations);

/// `compute` with messages, the end of the step and what data ranks do together; as it is without data axes.
schedule::Schedule with_data_axes(const ScheduleOptions& options, const schedule::Schedule& compute);

/// The peak memory of each rank, in the unit of --memory.
std::vector<double> peaks_of(const schedule::Schedule& schedule, const schedule::Workload& workload);

}  // namespace braid::cli
