#include "braid/checkpoint/hf_directory.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "braid/base/error.h"
#include "braid/base/scratch_directory.h"
#include "braid/checkpoint/test_files.h"

namespace braid::checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kFirst = "model-00001-of-00002.safetensors";
constexpr const char* kSecond = "model-00002-of-00002.safetensors";

NamedTensor named(const std::string& name, double value) {
  return {name, at::full({2, 3}, value, at::kFloat)};
}

std::vector<std::string> files_of(const ScratchDirectory& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path()))
    names.push_back(entry.path().filename().string());
  return names;
}

std::string error_of(const std::filesystem::path& directory) {
  return message_of<DataError>([&] { HfWeights weights(directory); });
}

// Exports like a pipeline in which rank r holds `ranks[r]`.
void export_model(const std::filesystem::path& directory, const std::vector<std::vector<NamedTensor>>& ranks,
                  int64_t max_shard_bytes = kMaxShardBytes) {
  std::vector<std::vector<TensorBytes>> sizes;
  std::map<std::string, at::Tensor> tensors;
  for (const auto& rank : ranks) {
    sizes.emplace_back();
    for (const NamedTensor& tensor : rank) {
      sizes.back().push_back({tensor.name, static_cast<int64_t>(tensor.tensor.nbytes())});
      tensors.emplace(tensor.name, tensor.tensor);
    }
  }
  const std::vector<ShardContents> plan = plan_shards(sizes, max_shard_bytes);
  begin_hf_export(directory);
  for (size_t i = 0; i < plan.size(); ++i) {
    std::vector<NamedTensor> contents;
    for (const TensorBytes& tensor : plan[i].tensors)
      contents.push_back({tensor.name, tensors.at(tensor.name)});
    write_hf_shard(directory, static_cast<int>(i), static_cast<int>(plan.size()), contents);
  }
  write_hf_index(directory, plan);
}

double value_of(const HfWeights& weights, const std::string& name) {
  at::Tensor read = at::empty(weights.shape(name), at::kDouble);
  weights.read_into(name, read);
  EXPECT_TRUE(at::equal(read, at::full_like(read, read.flatten()[0].item<double>())));
  return read.flatten()[0].item<double>();
}

TEST(PlanShards, SplitsAtRanksAndAtTheLimit) {
  const std::vector<std::vector<TensorBytes>> ranks = {
      {{"a", 4}, {"b", 6}, {"c", 1}}, {}, {{"d", 25}, {"e", 10}}, {{"f", 0}}};
  const std::vector<ShardContents> plan = plan_shards(ranks, 10);
  EXPECT_EQ(
      plan,
      (std::vector<ShardContents>{
          {0, {{"a", 4}, {"b", 6}}}, {0, {{"c", 1}}}, {2, {{"d", 25}}}, {2, {{"e", 10}}}, {3, {{"f", 0}}}}));
  EXPECT_EQ(plan_shards(ranks).size(), 3u) << "one file for each rank with tensors";
}

TEST(PlanShards, EveryTensorOnceInOrderAndNoFileTooLarge) {
  for (int64_t limit = 1; limit <= 12; ++limit) {
    for (int seed = 0; seed < 40; ++seed) {
      std::vector<std::vector<TensorBytes>> ranks(static_cast<size_t>(1 + seed % 4));
      std::vector<TensorBytes> all;
      for (size_t i = 0; i < 12; ++i) {
        const size_t rank = i * ranks.size() / 12;
        ranks[rank].push_back(
            {cat("t", i), static_cast<int64_t>((i * 7 + static_cast<size_t>(seed) * 5) % 13)});
        all.push_back(ranks[rank].back());
      }
      std::vector<TensorBytes> planned;
      int32_t last_rank = 0;
      for (const ShardContents& shard : plan_shards(ranks, limit)) {
        ASSERT_FALSE(shard.tensors.empty());
        ASSERT_LE(last_rank, shard.rank);
        last_rank = shard.rank;
        int64_t bytes = 0;
        for (const TensorBytes& tensor : shard.tensors) {
          bytes += tensor.bytes;
          planned.push_back(tensor);
        }
        ASSERT_TRUE(bytes <= limit || shard.tensors.size() == 1) << bytes << " bytes, limit " << limit;
      }
      ASSERT_EQ(planned, all);
    }
  }
}

TEST(PlanShards, RejectsATensorOfTwoRanksAndALimitOfZero) {
  const std::vector<std::vector<TensorBytes>> ranks = {{{"a", 4}}, {{"a", 4}}};
  EXPECT_THAT(message_of<InternalError>([&] { plan_shards(ranks); }),
              HasSubstr("\"a\" is exported twice, the second time by rank 1"));
  EXPECT_THAT(message_of<ConfigError>([&] { plan_shards(ranks, 0); }),
              HasSubstr("max_shard_bytes must be >= 1, got 0"));
}

TEST(ShardName, CountsFromOne) {
  EXPECT_EQ(shard_name(0, 1), "model.safetensors");
  EXPECT_EQ(shard_name(1, 12), "model-00002-of-00012.safetensors");
  EXPECT_THROW(shard_name(2, 2), InternalError);
  EXPECT_THROW(shard_name(-1, 2), InternalError);
}

TEST(HfDirectory, ASingleFileAndShardsReadTheSame) {
  const ScratchDirectory directory;
  const std::vector<NamedTensor> first = {named("a", 1), named("layers.0.rotary_emb.inv_freq", 9)};
  const std::vector<NamedTensor> second = {named("b", 2), named("c", 3)};
  for (const bool sharded : {false, true}) {
    const auto path = directory / (sharded ? "sharded" : "single");
    if (sharded) {
      export_model(path, {first, second});
    } else {
      export_model(path, {{first[0], first[1], second[0], second[1]}});
    }
    EXPECT_EQ(std::filesystem::exists(path / kIndex), sharded);
    EXPECT_EQ(std::filesystem::exists(path / "model.safetensors"), !sharded);
    const HfWeights weights(path);
    EXPECT_THAT(weights.names(), ElementsAre("a", "b", "c")) << "without the rotary frequencies";
    EXPECT_TRUE(weights.contains("c"));
    EXPECT_FALSE(weights.contains("layers.0.rotary_emb.inv_freq"));
    EXPECT_THAT(weights.shape("b"), ElementsAre(2, 3));
    EXPECT_EQ(value_of(weights, "a"), 1);
    EXPECT_EQ(value_of(weights, "b"), 2);
    EXPECT_EQ(value_of(weights, "c"), 3);
    at::Tensor row = at::empty({1, 3});
    weights.read_into(tensor::TensorSlice{"c", weights.shape("c"), {{1, 2}, {0, 3}}}, row);
    EXPECT_EQ(row.sum().item<float>(), 9);
    EXPECT_THAT(weights.report_unused(std::vector<std::string>{"b"}), ElementsAre("a", "c"));
    EXPECT_THAT(message_of<DataError>([&] { weights.shape("d"); }), HasSubstr("has no tensor \"d\""));
  }
}

TEST(HfDirectory, WritesTheIndexAndMetadataOfHuggingFace) {
  const ScratchDirectory directory;
  export_model(directory.path(), {{named("b", 1)}, {named("a", 2)}});
  EXPECT_EQ(read_bytes(directory / kIndex), R"({
  "metadata": {
    "total_size": 48
  },
  "weight_map": {
    "a": "model-00002-of-00002.safetensors",
    "b": "model-00001-of-00002.safetensors"
  }
}
)");
  EXPECT_EQ(SafetensorsReader(directory / kFirst).metadata(),
            (std::map<std::string, std::string>{{"format", "pt"}}));
}

TEST(HfDirectory, AnEarlierExportIsRemoved) {
  const ScratchDirectory directory;
  const std::vector<NamedTensor> a = {named("a", 1), named("b", 1)};
  write_bytes(directory / "README.md", "kept");
  write_bytes(directory / "model-of-mine.safetensors", "not part of an export");
  write_bytes(directory / "model-00007-of-00009.safetensors.partial", "left by a killed run");
  for (const int ranks : {3, 1, 2, 1, 3, 2}) {
    std::vector<std::vector<NamedTensor>> parts;
    for (int rank = 0; rank < ranks; ++rank) parts.push_back({named(cat("t", rank), ranks)});
    for (const char* stale : {"config.json", "tokenizer.model", "tokenizer.json", "generation_config.json"})
      write_bytes(directory / stale, "of another model");
    export_model(directory.path(), parts);
    std::vector<std::string> wanted = {"README.md", "model-of-mine.safetensors"};
    for (int rank = 0; rank < ranks; ++rank) wanted.push_back(shard_name(rank, ranks));
    if (ranks > 1) wanted.push_back(kIndex);
    EXPECT_THAT(files_of(directory), testing::UnorderedElementsAreArray(wanted));
    EXPECT_EQ(value_of(HfWeights(directory.path()), cat("t", ranks - 1)), ranks);
  }
}

TEST(HfDirectory, ARemovedExportLeavesWhatIsNotPartOfIt) {
  const ScratchDirectory directory;
  remove_hf_export(directory / "none");
  export_model(directory / "whole", {{named("a", 1)}});
  remove_hf_export(directory / "whole");
  EXPECT_FALSE(std::filesystem::exists(directory / "whole"));
  export_model(directory / "mixed", {{named("a", 1)}});
  write_bytes(directory / "mixed/notes.txt", "mine");
  remove_hf_export(directory / "mixed");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory / "mixed"), {}), 1);
}

TEST(HfDirectory, FilesForOtherProgramsAndAdaptersAreRejected) {
  const ScratchDirectory directory;
  for (const char* format : {"pt", "mlx"}) {
    write_safetensors(directory / "model.safetensors", std::vector<NamedTensor>{named("a", 1)},
                      {{"format", format}});
    EXPECT_NO_THROW(HfWeights(directory.path()));
  }
  write_bytes(directory / "adapter_config.json", "{}");
  EXPECT_THAT(error_of(directory.path()), HasSubstr("has an adapter beside the model"));
  std::filesystem::remove(directory / "adapter_config.json");
  write_safetensors(directory / "model.safetensors", std::vector<NamedTensor>{named("a", 1)},
                    {{"format", "tf"}});
  EXPECT_THAT(error_of(directory.path()), HasSubstr("is of the format \"tf\""));
}

TEST(HfDirectory, WritingTheIndexAlsoRemovesStaleFiles) {
  const ScratchDirectory directory;
  export_model(directory.path(), {{named("a", 1)}});
  write_hf_shard(directory.path(), 0, 2, std::vector<NamedTensor>{named("a", 2)});
  write_hf_shard(directory.path(), 1, 2, std::vector<NamedTensor>{named("b", 2)});
  write_hf_index(directory.path(), std::vector<ShardContents>{{0, {{"a", 24}}}, {1, {{"b", 24}}}});
  EXPECT_THAT(files_of(directory), UnorderedElementsAre(kFirst, kSecond, kIndex));
  EXPECT_EQ(value_of(HfWeights(directory.path()), "a"), 2);
}

TEST(HfDirectory, AnInterruptedExportIsRejected) {
  const ScratchDirectory directory;
  export_model(directory.path(), {{named("a", 1)}, {named("b", 1)}});
  begin_hf_export(directory.path());
  write_hf_shard(directory.path(), 0, 2, std::vector<NamedTensor>{named("a", 2)});
  EXPECT_THAT(error_of(directory.path()), HasSubstr("did not finish"));
  const std::vector<ShardContents> plan = {{0, {{"a", 24}}}, {1, {{"b", 24}}}};
  EXPECT_THAT(message_of<DataError>([&] { write_hf_index(directory.path(), plan); }),
              HasSubstr("written by rank 1 but is missing"));
  write_hf_shard(directory.path(), 1, 2, std::vector<NamedTensor>{named("c", 2)});
  EXPECT_THAT(message_of<DataError>([&] { write_hf_index(directory.path(), plan); }),
              HasSubstr("has no tensor \"b\""));
  EXPECT_FALSE(std::filesystem::exists(directory / kIndex));
}

TEST(HfDirectory, LargeShardsAreSplit) {
  const ScratchDirectory directory;
  export_model(directory.path(), {{named("a", 1), named("b", 2), named("c", 3)}, {named("d", 4)}}, 48);
  EXPECT_TRUE(std::filesystem::exists(directory / "model-00003-of-00003.safetensors"));
  const HfWeights weights(directory.path());
  for (const auto& [name, value] : std::map<std::string, int>{{"a", 1}, {"b", 2}, {"c", 3}, {"d", 4}})
    EXPECT_EQ(value_of(weights, name), value);
}

class DamagedHfDirectory : public testing::Test {
 protected:
  DamagedHfDirectory() {
    write_hf_shard(directory_.path(), 0, 2, std::vector<NamedTensor>{named("a", 1)});
    write_hf_shard(directory_.path(), 1, 2, std::vector<NamedTensor>{named("b", 2)});
  }
  // The error for this weight map.
  std::string error_of_map(const std::string& map) {
    write_bytes(directory_ / kIndex,
                "{\"metadata\":{\"total_size\":48.0,\"more\":[1,{\"x\":null}]},\"weight_map\":" + map + "}");
    return error_of(directory_.path());
  }
  ScratchDirectory directory_;
};

TEST_F(DamagedHfDirectory, IndexesThatDoNotMatchTheShardsAreRejected) {
  const std::string first = R"("a":"model-00001-of-00002.safetensors")";
  const std::string second = R"("b":"model-00002-of-00002.safetensors")";
  EXPECT_EQ(error_of_map("{" + first + "," + second + "}"), "");
  EXPECT_THAT(error_of_map(R"({"a":"model-00003-of-00002.safetensors"})"), HasSubstr("not in the directory"));
  EXPECT_THAT(error_of_map("{" + first + R"(,"b":"model-00001-of-00002.safetensors"})"),
              HasSubstr("lists \"b\" in"));
  EXPECT_THAT(error_of_map(R"({"a":"../model-00001-of-00002.safetensors"})"),
              HasSubstr("only files in the same directory"));
  EXPECT_THAT(error_of_map(R"({"a":"/etc/model.safetensors"})"),
              HasSubstr("only files in the same directory"));
  EXPECT_THAT(error_of_map(R"({"a":"x\u0000.safetensors"})"), HasSubstr("only files in the same directory"));
  EXPECT_THAT(error_of_map(R"({"a":"pytorch_model.bin"})"), HasSubstr("only .safetensors files"));
  EXPECT_THAT(error_of_map(R"({"a":""})"), HasSubstr("only .safetensors files"));
  EXPECT_THAT(error_of_map("{" + first + "," + first + "}"), HasSubstr("lists \"a\" twice"));
  EXPECT_THAT(error_of_map(R"({"a":1})"), HasSubstr("unexpected number 1"));
  EXPECT_THAT(error_of_map(R"({"a":{"x":"y"}})"), HasSubstr("unexpected '{'"));
  EXPECT_THAT(error_of_map("[]"), HasSubstr("unexpected '['"));
  EXPECT_THAT(error_of_map("{}"), HasSubstr("has no weight_map or an empty one"));
  EXPECT_THAT(error_of_map("{" + first + R"(},"weight_map":{)" + second + "}"), HasSubstr("two weight_maps"));
  EXPECT_THAT(error_of_map("{" + first), HasSubstr("invalid JSON"));
  EXPECT_THAT(error_of_map(R"({"a":"x.safetensors"},"deep":)" + std::string(100'000, '[')),
              HasSubstr("nested more than 32"));
  write_bytes(directory_ / kIndex, "");
  EXPECT_THAT(error_of(directory_.path()), HasSubstr("is an empty file"));
}

TEST_F(DamagedHfDirectory, TensorsMissingFromTheIndexAreReported) {
  EXPECT_EQ(
      error_of_map(R"({"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"})"), "");
  write_hf_shard(directory_.path(), 1, 2, std::vector<NamedTensor>{named("b", 2), named("extra", 3)});
  const HfWeights weights(directory_.path());
  EXPECT_FALSE(weights.contains("extra"));
  EXPECT_THAT(weights.report_unused(std::vector<std::string>{"a", "b"}),
              ElementsAre("extra (in model-00002-of-00002.safetensors, not in the index)"));
}

TEST_F(DamagedHfDirectory, ASingleFileNextToAnIndexIsAmbiguous) {
  error_of_map(R"({"a":"model-00001-of-00002.safetensors"})");
  write_hf_shard(directory_.path(), 0, 1, std::vector<NamedTensor>{named("a", 1)});
  EXPECT_THAT(error_of(directory_.path()), HasSubstr("remove the one that is out of date"));
}

TEST_F(DamagedHfDirectory, ATruncatedShardIsNamed) {
  error_of_map(R"({"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"})");
  std::filesystem::resize_file(directory_ / kSecond, 90);
  EXPECT_THAT(error_of(directory_.path()), HasSubstr(kSecond));
}

TEST(HfDirectory, OtherDirectoriesAreRejectedWithTheRemedy) {
  const ScratchDirectory directory;
  EXPECT_THAT(error_of(directory / "absent"), HasSubstr("is not a directory"));
  EXPECT_THAT(error_of(directory.path()), HasSubstr("has neither model.safetensors nor"));
  write_bytes(directory / "pytorch_model.bin", "");
  EXPECT_THAT(error_of(directory.path()), HasSubstr("save_pretrained"));
}

}  // namespace
}  // namespace braid::checkpoint
