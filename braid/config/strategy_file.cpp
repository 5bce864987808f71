#include "braid/config/strategy_file.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "braid/base/text.h"
#include "braid/config/error_list.h"
#include "braid/config/pretrain_table.h"
#include "braid/config/strategy_keys.h"
#include "braid/schedule/generators/generate.h"

namespace braid::config {
namespace {

constexpr const char* kDegreeKeys[] = {"sharding_configs.mp_degree", "sharding_configs.sharding_degree",
                                       "sharding_configs.pp_degree", "sharding_configs.dp_degree"};
constexpr const char* kDegreeOptions[] = {"tensor_parallel_degree", "sharding_parallel_degree",
                                          "pipeline_parallel_degree", "data_parallel_degree"};

// The keys below `group`, which is empty for the file itself, without the group's name.
std::vector<std::string> keys_in(const std::vector<OptionSpec>& specs, const std::string& group) {
  std::vector<std::string> keys;
  for (const OptionSpec& spec : specs) {
    const size_t dot = spec.name.find('.');
    const std::string owner = dot == std::string::npos ? "" : spec.name.substr(0, dot);
    if (owner == group) keys.push_back(spec.name.substr(dot == std::string::npos ? 0 : dot + 1));
  }
  if (group.empty()) keys.insert(keys.end(), {kShardingConfigs, kPipelineConfigs});
  return keys;
}

// What to write in place of the unknown `key` of `group`.
std::string remedy_for(const std::vector<OptionSpec>& specs, const std::string& group,
                       const std::string& key) {
  for (const std::string other : {"", kShardingConfigs, kPipelineConfigs}) {
    const std::vector<std::string> keys = keys_in(specs, other);
    if (other != group && std::find(keys.begin(), keys.end(), key) != keys.end()) {
      return other.empty() ? "it belongs outside the maps" : cat("it belongs in ", other);
    }
  }
  const std::vector<std::string> keys = keys_in(specs, group);
  if (const auto close = nearest(key, keys)) return cat("did you mean ", *close, "?");
  std::string text = "use one of ";
  for (const std::string& known : keys) text += cat(&known == &keys.front() ? "" : ", ", known);
  return text;
}

// The keys in the file with their values, flat. Notes keys that are unknown, repeated or maps.
class Flattening {
 public:
  Flattening(const std::vector<OptionSpec>& specs, ErrorList& errors) : specs_(specs), errors_(errors) {}

  std::vector<Assignment> of(const FileValue& file) {
    add_map(file, "");
    return std::move(assignments_);
  }

 private:
  void add_map(const FileValue& map, const std::string& group) {
    if (map.kind == FileValue::Kind::kNothing) return;
    const std::string label = group.empty() ? map.where : cat(map.where, ": ", group);
    errors_.check(map.kind == FileValue::Kind::kMap, label, " must be a map of keys and values, got ",
                  kind_text(map));
    if (map.kind != FileValue::Kind::kMap) return;
    for (const FileValue& entry : map.items) add(entry, group);
  }

  void add(const FileValue& entry, const std::string& group) {
    const std::string name = group.empty() ? entry.key : group + "." + entry.key;
    const std::string label = cat(entry.where, ": ", name);
    const bool is_new = seen_.insert(name).second;
    errors_.check(is_new, label, " is given twice; keep one");
    if (!is_new) return;
    if (name == kShardingConfigs || name == kPipelineConfigs) return add_map(entry, name);
    if (entry.key.find('.') != std::string::npos || find_option(specs_, name) == nullptr) {
      errors_.check(false, label, ": there is no such key; ", remedy_for(specs_, group, entry.key));
      return;
    }
    errors_.attempt(
        [&] { assignments_.push_back({.name = name, .values = value_texts(entry, label), .label = label}); });
  }

  const std::vector<OptionSpec>& specs_;
  ErrorList& errors_;
  std::set<std::string> seen_;
  std::vector<Assignment> assignments_;
};

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : " ") + text;
  return all;
}

// The keys of one file on their way to options.
class Translation {
 public:
  Translation(std::string file_name, std::span<const Assignment> given)
      : file_name_(std::move(file_name)), given_(given), options_(pretrain_table()) {}

  StrategyFile run(const FileValue& file, std::optional<int64_t> world_size) {
    read(file);
    check_together(world_size);
    errors_.throw_if_any();
    translate();
    note_unused();
    return std::move(result_);
  }

 private:
  // 1. Each key by itself.
  void read(const FileValue& file) {
    const OptionTable<StrategyKeys> table = strategy_key_table();
    const std::vector<OptionSpec> specs = strategy_keys();
    for (const Assignment& assignment : Flattening(specs, errors_).of(file)) {
      labels_[assignment.name] = assignment.label;
      const bool good = errors_.attempt([&] {
        for (std::string& note : notes_of(table.apply(keys_, std::vector<Assignment>{assignment})))
          result_.notes.push_back(std::move(note));
      });
      if (!good) wrong_.insert(assignment.name);
    }
  }

  bool is_given(const std::string& key) const { return labels_.contains(key); }
  bool is_right(const std::string& key) const { return !wrong_.contains(key); }

  // "s.yaml:3: sharding_configs.mp_degree"; without the line for a default.
  std::string label(const std::string& key) const {
    const auto found = labels_.find(key);
    return found == labels_.end() ? cat(file_name_, ": ", key) : found->second;
  }

  int64_t sharding_degree() const { return keys_.sharding ? keys_.sharding_degree : 1; }

  // 2. Keys that depend on one another, as far as they are right by themselves.
  void check_together(std::optional<int64_t> world_size) {
    const std::string strategy = "sharding_configs.sharding_segment_strategy";
    const std::string anchors = "sharding_configs.segment_anchors";
    if (is_right(strategy) && is_right(anchors) && by_anchors()) {
      errors_.check(!keys_.segment_anchors.empty(), label(strategy),
                    " segment_anchors needs segment_anchors to name at least one layer, got none");
    }
    for (const std::string& anchor : keys_.segment_anchors) {
      errors_.check(!anchor.empty() && anchor.find(' ') == std::string::npos, label(anchors),
                    " must be names of layers, which have no spaces, got '", anchor, "'");
    }
    const std::string pp = "sharding_configs.pp_degree";
    if (is_right("pipeline")) {
      errors_.check(keys_.pp_degree <= 1 || keys_.pipeline, label(pp),
                    " must be 1 unless pipeline is true, got ", keys_.pp_degree);
    }
    const std::string mode = "pipeline_configs.schedule_mode";
    if (!keys_.schedule_mode.starts_with("csv:")) {
      errors_.attempt([&] {
        try {
          schedule::mode_of(keys_.schedule_mode);
        } catch (const ConfigError& error) {
          throw ConfigError(cat(label(mode), ": ", error.what()));
        }
      });
    }
    if (world_size) check_product(*world_size);
  }

  void check_product(int64_t world_size) {
    // Where an option takes precedence, mesh_of checks the product of what applies.
    for (const char* option : kDegreeOptions) {
      if (given_value(option) != nullptr) return;
    }
    if (given_value("sharding") != nullptr || !is_right("sharding") || !is_right("pipeline")) return;
    if (!std::all_of(std::begin(kDegreeKeys), std::end(kDegreeKeys), [&](auto key) { return is_right(key); }))
      return;
    int64_t product = 1;
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    for (const int64_t degree : {keys_.mp_degree, sharding_degree(), keys_.pp_degree, keys_.dp_degree}) {
      // mesh_of rejects more ranks than that.
      if (degree > kMost || product * degree > kMost) return;
      product *= degree;
    }
    errors_.check(product == world_size, file_name_, ": sharding_configs.mp_degree ", keys_.mp_degree,
                  " x sharding_degree ", sharding_degree(), keys_.sharding ? "" : " (sharding is false)",
                  " x pp_degree ", keys_.pp_degree, " x dp_degree ", keys_.dp_degree, " = ", product,
                  " must be the number of ranks, got ", world_size, ": start ", counted(product, "rank"),
                  " or change a degree");
  }

  bool by_anchors() const { return keys_.sharding_segment_strategy == "segment_anchors"; }

  // 3. What they mean.
  void translate() {
    set("tensor_parallel_degree", keys_.mp_degree, "sharding_configs.mp_degree");
    set("pipeline_parallel_degree", keys_.pp_degree, "sharding_configs.pp_degree");
    set("data_parallel_degree", keys_.dp_degree, "sharding_configs.dp_degree");
    const bool has_stage = keys_.sharding || keys_.optimize_offload;
    set("sharding",
        has_stage ? cat("stage", keys_.stage, keys_.optimize_offload ? " offload" : "") : std::string(),
        stage_key());
    if (has_stage) set("sharding_parallel_degree", sharding_degree(), "sharding_configs.sharding_degree");
    if (keys_.pp_allreduce_in_optimize && keys_.pp_degree > 1)
      set("sharding_reduce", std::string("step"), "sharding_configs.pp_allreduce_in_optimize");
    if (by_anchors()) {
      set("segment_anchors", joined(keys_.segment_anchors), "sharding_configs.segment_anchors");
    } else {
      set("segment_broadcast_mb", keys_.segment_broadcast_mb, "sharding_configs.segment_broadcast_MB");
    }
    if (keys_.pp_degree > 1) {
      set("gradient_accumulation_steps", keys_.accumulate_steps, "pipeline_configs.accumulate_steps");
    } else {
      set("gradient_accumulation_steps", keys_.gradient_merge_acc_step,
          "sharding_configs.gradient_merge_acc_step");
    }
    if (!keys_.pipeline) return;
    set("pipeline_schedule_mode", schedule::own_name(keys_.schedule_mode), "pipeline_configs.schedule_mode");
    set("per_device_train_batch_size", keys_.micro_batch_size, "pipeline_configs.micro_batch_size");
    set("enable_send_recv_overlap", keys_.enable_send_recv_overlap,
        "pipeline_configs.enable_send_recv_overlap");
  }

  // The key that best stands for the option sharding, which several decide.
  std::string stage_key() const {
    for (const char* key : {"sharding_configs.stage", "sharding"}) {
      if (is_given(key)) return key;
    }
    return "sharding_configs.optimize_offload";
  }

  // The last assignment of the option beside the file, or null.
  const Assignment* given_value(std::string_view option) const {
    const OptionSpec* spec = find_option(options_.specs(), option);
    const auto found = std::find_if(given_.rbegin(), given_.rend(), [&](const Assignment& assignment) {
      return find_option(options_.specs(), assignment.name) == spec;
    });
    return found == given_.rend() ? nullptr : &*found;
  }

  template <typename Value>
  void set(const std::string& option, const Value& value, const std::string& key) {
    const std::string text = write_value(value);
    result_.assignments.push_back({.name = option, .values = {text}, .label = label(key)});
    const Assignment* beside = given_value(option);
    if (beside == nullptr || beside->values.size() != 1 || !is_given(key)) return;
    try {
      const OptionSpec& spec = *find_option(options_.specs(), option);
      if (checked_value(spec, beside->values.front(), beside->label) == text) return;
    } catch (const ConfigError&) {
      return;  // reported when the options themselves are applied
    }
    result_.notes.push_back(cat(beside->label, " ", quoted(beside->values.front()), " takes precedence over ",
                                label(key), " ", quoted(text)));
  }

  static std::string quoted(const std::string& text) {
    return text.empty() || text.find(' ') != std::string::npos ? cat("'", text, "'") : text;
  }

  // 4. Keys that were given in vain.
  void note_unused() {
    const auto note = [&](bool unused, const std::string& key, const std::string& reason) {
      if (unused && is_given(key)) result_.notes.push_back(cat(label(key), " has no effect: ", reason));
    };
    const std::string off = keys_.sharding ? "sharding_degree is 1" : "sharding is false";
    const bool shards = sharding_degree() > 1;
    note(!keys_.sharding && keys_.sharding_degree != 1, "sharding_configs.sharding_degree", off);
    note(!shards, "sharding_configs.stage", off);
    note(!shards, "sharding_configs.pp_allreduce_in_optimize", off);
    note(shards && keys_.pp_allreduce_in_optimize && keys_.pp_degree <= 1,
         "sharding_configs.pp_allreduce_in_optimize", "pp_degree is 1 (see --sharding_reduce)");
    note(by_anchors(), "sharding_configs.segment_broadcast_MB",
         "sharding_segment_strategy is segment_anchors");
    note(!by_anchors(), "sharding_configs.segment_anchors",
         "sharding_segment_strategy is segment_broadcast_MB");
    note(keys_.pp_degree > 1, "sharding_configs.gradient_merge_acc_step",
         "pp_degree is above 1, so pipeline_configs.accumulate_steps applies");
    note(keys_.pipeline && keys_.pp_degree <= 1, "pipeline_configs.accumulate_steps",
         "pp_degree is 1, so sharding_configs.gradient_merge_acc_step applies");
    for (const char* key :
         {"schedule_mode", "micro_batch_size", "accumulate_steps", "enable_send_recv_overlap"})
      note(!keys_.pipeline, cat(kPipelineConfigs, ".", key), "pipeline is false");
  }

  std::string file_name_;
  std::span<const Assignment> given_;
  OptionTable<PretrainOptions> options_;
  ErrorList errors_;
  StrategyKeys keys_;
  std::map<std::string, std::string> labels_;  // of the keys in the file
  std::set<std::string> wrong_;
  StrategyFile result_;
};

}  // namespace

std::vector<OptionSpec> strategy_keys() {
  const OptionTable<StrategyKeys> table = strategy_key_table();
  return {table.specs().begin(), table.specs().end()};
}

StrategyFile translate_strategy(const FileValue& file, const std::string& file_name,
                                std::span<const Assignment> given, std::optional<int64_t> world_size) {
  return Translation(file_name, given).run(file, world_size);
}

}  // namespace braid::config
