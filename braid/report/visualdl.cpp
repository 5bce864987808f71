#include "braid/report/visualdl.h"

#include "braid/base/error.h"
#include "braid/report/folder.h"
#include "braid/report/protobuf.h"

namespace braid::report {
namespace {

// Fields of Record, Record.Value, Record.MetaData and Record.Text.
constexpr uint32_t kValues = 1;
constexpr uint32_t kId = 1, kTag = 2, kTimestamp = 3, kScalar = 4, kMetaData = 10, kText = 12;
constexpr uint32_t kDisplayName = 1;
constexpr uint32_t kEncodedText = 1;

int64_t milliseconds(WallTime time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

ProtoMessage value_at(int64_t step, std::string_view tag, WallTime now) {
  ProtoMessage value;
  if (step != 0) value.integer(kId, step);
  value.text(kTag, tag).integer(kTimestamp, milliseconds(now));
  return value;
}

// A record holds one value: VisualDL reads no other.
std::string record(const ProtoMessage& value) {
  const ProtoMessage message = ProtoMessage().message(kValues, value);
  return little_endian(message.bytes().size(), 8) + message.bytes();
}

std::string text_record(WallTime now, std::string_view name, const std::string& json) {
  return record(value_at(0, name, now).message(kText, ProtoMessage().text(kEncodedText, json)));
}

// Of two runs that start in one second and share a folder, the second takes the next one's name.
std::filesystem::path file_of(const RunDescription& run) {
  made_folder(run.curves_folder);
  auto seconds = static_cast<int64_t>(unix_seconds(run.started));
  std::error_code error;
  while (true) {
    std::filesystem::path file = run.curves_folder / cat("vdlrecords.", seconds++, ".log");
    if (!std::filesystem::exists(file, error)) return file;
  }
}

}  // namespace

VisualDl::VisualDl(const RunDescription& run) : file_(file_of(run)) {
  // The first record tells VisualDL that the file is one of its own.
  const ProtoMessage meta = ProtoMessage().text(kDisplayName, run.name);
  std::string records = record(value_at(0, "meta_data_tag", run.started).message(kMetaData, meta));
  records += text_record(run.started, "args", options_json(run));
  if (!run.model_config.empty()) records += text_record(run.started, "model_config", run.model_config);
  file_.append(records);
}

std::string VisualDl::describe() const { return cat("VisualDL: ", file_.path().string()); }

void VisualDl::add(const LogEntry& entry, WallTime now) {
  std::string records;
  for (const Metric& metric : entry.metrics) {
    records += record(value_at(entry.global_step, curve_name(metric), now)
                          .single(kScalar, static_cast<float>(metric.value)));
  }
  file_.append(records);
}

}  // namespace braid::report
