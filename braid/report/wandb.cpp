#include "braid/report/wandb.h"

#include <cmath>
#include <random>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/report/checksum.h"
#include "braid/report/folder.h"

namespace braid::report {
namespace {

constexpr size_t kBlockBytes = 32768;
constexpr size_t kRecordHeaderBytes = 7;
enum RecordPart : uint8_t { kFull = 1, kFirst = 2, kMiddle = 3, kLast = 4 };

// Fields of Record and of the messages in it.
constexpr uint32_t kNumber = 1, kHistory = 2, kSummary = 3, kMetric = 12, kRun = 17, kExit = 18, kHeader = 21;
constexpr uint32_t kVersionInfo = 1, kProducer = 1, kMinConsumer = 2;
constexpr uint32_t kRunId = 1, kProject = 3, kConfig = 4, kDisplayName = 8, kHost = 13, kStartTime = 17;
constexpr uint32_t kSeconds = 1, kNanoseconds = 2;
constexpr uint32_t kUpdate = 1;  // of a config and a summary
constexpr uint32_t kKey = 1, kNestedKey = 2, kValueJson = 16;
constexpr uint32_t kHistoryItem = 1, kHistoryStep = 2, kStepNumber = 1;
constexpr uint32_t kMetricName = 1, kMetricGlob = 2, kStepMetric = 4, kMetricOptions = 6;
constexpr uint32_t kStepSync = 1, kDefined = 3;
constexpr uint32_t kExitRuntime = 2;

// The oldest wandb that reads this; wandb itself has written this number since 2020.
constexpr std::string_view kOldestReader = "0.40.0";
constexpr std::string_view kStepCurve = "train/global_step";

std::string random_id() {
  constexpr std::string_view kLetters = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::random_device device;
  std::uniform_int_distribution<size_t> letter(0, kLetters.size() - 1);
  std::string id;
  for (int i = 0; i < 8; ++i) id += kLetters[letter(device)];
  return id;
}

// As wandb writes numbers, which include those that JSON lacks.
std::string json_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return to_text(value);
}

// As one element of a nested key, the name keeps its slash.
ProtoMessage item(std::string_view name, double value) {
  return ProtoMessage().text(kNestedKey, name).text(kValueJson, json_number(value));
}

std::filesystem::path run_folder(const RunDescription& run, const std::string& id) {
  return run.wandb_parent / "wandb" /
         cat("offline-run-", local_time_text(run.started, "%Y%m%d_%H%M%S"), "-", id);
}

}  // namespace

std::string BlockedLog::header() { return cat(":W&B", little_endian(0xbee1, 2), little_endian(0, 1)); }

std::string BlockedLog::records(std::string_view data) {
  std::string out;
  for (bool is_first = true; is_first || !data.empty(); is_first = false) {
    size_t left = kBlockBytes - (position_ + out.size()) % kBlockBytes;
    if (left < kRecordHeaderBytes) {
      out.append(left, '\0');
      left = kBlockBytes;
    }
    const std::string_view part = data.substr(0, left - kRecordHeaderBytes);
    data.remove_prefix(part.size());
    const bool is_last = data.empty();
    const uint8_t type = is_first ? (is_last ? kFull : kFirst) : (is_last ? kLast : kMiddle);
    const std::string checked = cat(static_cast<char>(type), part);
    out += cat(little_endian(crc32(checked), 4), little_endian(part.size(), 2), checked);
  }
  position_ += out.size();
  return out;
}

Wandb::Wandb(const RunDescription& run) : Wandb(run, random_id()) {}

Wandb::Wandb(const RunDescription& run, const std::string& id)
    : folder_(run_folder(run, id)),
      file_(made_folder(folder_) / cat("run-", id, ".wandb")),
      started_(run.started) {
  made_folder(folder_ / "files");
  const ProtoMessage version =
      ProtoMessage().text(kProducer, cat("braid ", run.version)).text(kMinConsumer, kOldestReader);
  ProtoMessage config;
  for (const auto& [name, json] : run.options) {
    config.message(kUpdate, ProtoMessage().text(kKey, name).text(kValueJson, json));
  }
  if (!run.model_config.empty()) {
    config.message(kUpdate, ProtoMessage().text(kKey, "model_config").text(kValueJson, run.model_config));
  }
  const auto since_1970 = started_.time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since_1970);
  const ProtoMessage start =
      ProtoMessage()
          .integer(kSeconds, seconds.count())
          .integer(kNanoseconds, std::chrono::nanoseconds(since_1970 - seconds).count());
  const ProtoMessage description = ProtoMessage()
                                       .text(kRunId, id)
                                       .text(kProject, run.wandb_project)
                                       .message(kConfig, config)
                                       .text(kDisplayName, run.name)
                                       .text(kHost, run.host)
                                       .message(kStartTime, start);
  // Curves are drawn over the step, as PaddleNLP's are.
  const ProtoMessage defined = ProtoMessage().integer(kDefined, 1);
  const ProtoMessage step = ProtoMessage().text(kMetricName, kStepCurve).message(kMetricOptions, defined);
  const ProtoMessage over_step = ProtoMessage().integer(kStepSync, 1).integer(kDefined, 1);
  const ProtoMessage others =
      ProtoMessage().text(kMetricGlob, "*").text(kStepMetric, kStepCurve).message(kMetricOptions, over_step);
  std::string bytes = BlockedLog::header();
  bytes += record(kHeader, ProtoMessage().message(kVersionInfo, version));
  bytes += record(kRun, description);
  bytes += record(kMetric, step);
  bytes += record(kMetric, others);
  file_.append(bytes);
}

std::string Wandb::record(uint32_t type, const ProtoMessage& content) {
  return log_.records(ProtoMessage().integer(kNumber, ++records_).message(type, content).bytes());
}

std::string Wandb::describe() const {
  return cat("Weights & Biases: ", folder_.string(), " (wandb sync uploads it)");
}

void Wandb::add(const LogEntry& entry, WallTime now) {
  std::vector<ProtoMessage> items;
  bool has_step = false;
  for (const Metric& metric : entry.metrics) {
    const std::string name = curve_name(metric);
    has_step |= name == kStepCurve;
    items.push_back(item(name, metric.value));
  }
  if (!has_step) items.push_back(item(kStepCurve, static_cast<double>(entry.global_step)));
  items.push_back(item("_step", static_cast<double>(entries_)));
  items.push_back(item("_timestamp", unix_seconds(now)));
  items.push_back(item("_runtime", unix_seconds(now) - unix_seconds(started_)));
  ProtoMessage history, summary;
  for (const ProtoMessage& one : items) {
    history.message(kHistoryItem, one);
    summary.message(kUpdate, one);
  }
  history.message(kHistoryStep, ProtoMessage().integer(kStepNumber, entries_++));
  std::string bytes = record(kSummary, summary);
  bytes += record(kHistory, history);
  file_.append(bytes);
}

void Wandb::finish(WallTime now) {
  const auto runtime = std::chrono::floor<std::chrono::seconds>(now - started_).count();
  file_.append(record(kExit, ProtoMessage().integer(kExitRuntime, runtime)));
}

}  // namespace braid::report
