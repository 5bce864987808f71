#include "braid/report/tensorboard.h"

#include <unistd.h>

#include "braid/base/error.h"
#include "braid/report/checksum.h"
#include "braid/report/folder.h"
#include "braid/report/protobuf.h"

namespace braid::report {
namespace {

// Fields of event.proto, summary.proto and tensor.proto.
namespace event {
constexpr uint32_t kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5;
}
namespace summary {
constexpr uint32_t kValue = 1;
}
namespace value {
constexpr uint32_t kTag = 1, kSimpleValue = 2, kTensor = 8, kMetadata = 9;
}
namespace metadata {
constexpr uint32_t kPluginData = 1, kPluginName = 1;
}
namespace tensor {
constexpr uint32_t kType = 1, kShape = 2, kStrings = 8;
constexpr uint32_t kDimension = 2, kSize = 1;
constexpr int64_t kStringType = 7;
}  // namespace tensor

ProtoMessage event_at(WallTime now, int64_t step) {
  ProtoMessage message;
  message.real(event::kWallTime, unix_seconds(now));
  if (step != 0) message.integer(event::kStep, step);
  return message;
}

// The text plugin shows a tensor of strings as Markdown; "/text_summary" is how PaddleNLP's writer ends such
// tags.
std::string text_record(WallTime now, std::string_view name, const std::string& json) {
  const ProtoMessage one = ProtoMessage().integer(tensor::kSize, 1);
  const ProtoMessage content = ProtoMessage()
                                   .integer(tensor::kType, tensor::kStringType)
                                   .message(tensor::kShape, ProtoMessage().message(tensor::kDimension, one))
                                   .text(tensor::kStrings, cat("```json\n", json, "\n```"));
  const ProtoMessage plugin = ProtoMessage().text(metadata::kPluginName, "text");
  const ProtoMessage text =
      ProtoMessage()
          .text(value::kTag, cat(name, "/text_summary"))
          .message(value::kTensor, content)
          .message(value::kMetadata, ProtoMessage().message(metadata::kPluginData, plugin));
  return tf_record(
      event_at(now, 0).message(event::kSummary, ProtoMessage().message(summary::kValue, text)).bytes());
}

std::filesystem::path file_of(const RunDescription& run) {
  return made_folder(run.curves_folder) / cat("events.out.tfevents.",
                                              static_cast<int64_t>(unix_seconds(run.started)), ".", run.host,
                                              ".", ::getpid(), ".0");
}

}  // namespace

std::string tf_record(std::string_view data) {
  const std::string length = little_endian(data.size(), 8);
  return cat(length, little_endian(masked_crc32c(length), 4), data, little_endian(masked_crc32c(data), 4));
}

TensorBoard::TensorBoard(const RunDescription& run) : file_(file_of(run)) {
  std::string records =
      tf_record(event_at(run.started, 0).text(event::kFileVersion, "brain.Event:2").bytes());
  records += text_record(run.started, "args", options_json(run));
  if (!run.model_config.empty()) records += text_record(run.started, "model_config", run.model_config);
  file_.append(records);
}

std::string TensorBoard::describe() const { return cat("TensorBoard: ", file_.path().string()); }

void TensorBoard::add(const LogEntry& entry, WallTime now) {
  ProtoMessage values;
  for (const Metric& metric : entry.metrics) {
    values.message(summary::kValue, ProtoMessage()
                                        .text(value::kTag, curve_name(metric))
                                        .single(value::kSimpleValue, static_cast<float>(metric.value)));
  }
  file_.append(tf_record(event_at(now, entry.global_step).message(event::kSummary, values).bytes()));
}

}  // namespace braid::report
