#include "braid/checkpoint/safetensors.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "braid/base/error.h"
#include "braid/base/scratch_directory.h"
#include "braid/checkpoint/test_files.h"

namespace braid::checkpoint {
namespace {

using tensor::TensorSlice;

using testing::HasSubstr;

// The output of the Python package safetensors 0.8 (with numpy) for golden_tensors().
constexpr std::string_view kGoldenHex =
    "60010000000000007b225f5f6d657461646174615f5f223a7b22666f726d6174223a227074222c226e6f7465223a22636166"
    "c3a9227d2c22656d707479223a7b226474797065223a22463634222c227368617065223a5b302c345d2c22646174615f6f66"
    "6673657473223a5b302c305d7d2c226d6f64656c2e6e6f726d2e776569676874223a7b226474797065223a22463332222c22"
    "7368617065223a5b325d2c22646174615f6f666673657473223a5b302c385d7d2c2268616c66223a7b226474797065223a22"
    "463136222c227368617065223a5b5d2c22646174615f6f666673657473223a5b382c31305d7d2c22696473223a7b22647479"
    "7065223a22493136222c227368617065223a5b312c335d2c22646174615f6f666673657473223a5b31302c31365d7d2c2266"
    "6c6167223a7b226474797065223a22424f4f4c222c227368617065223a5b335d2c22646174615f6f666673657473223a5b31"
    "362c31395d7d7d2020200000c03f000000c000380100feff0300010001";

std::string golden_bytes() {
  std::string bytes;
  for (size_t i = 0; i < kGoldenHex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(kGoldenHex.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

std::vector<NamedTensor> golden_tensors() {
  return {
      {"empty", at::zeros({0, 4}, at::kDouble)},
      {"model.norm.weight", at::tensor({1.5F, -2.0F})},
      {"half", at::scalar_tensor(0.5, at::kHalf)},
      {"ids", at::tensor({1, -2, 3}, at::kShort).view({1, 3})},
      {"flag", at::tensor({1, 0, 1}, at::kByte).to(at::kBool)},
  };
}

const std::map<std::string, std::string> kGoldenMetadata = {{"format", "pt"}, {"note", "caf\u00e9"}};

void expect_same(const at::Tensor& got, const at::Tensor& wanted) {
  EXPECT_EQ(got.scalar_type(), wanted.scalar_type());
  EXPECT_TRUE(at::equal(got, wanted)) << got << " instead of " << wanted;
}

TEST(SafetensorsGolden, ReadsTheOutputOfThePythonPackage) {
  const ScratchDirectory directory;
  write_bytes(directory / "a", golden_bytes());
  const SafetensorsReader reader(directory / "a");
  EXPECT_EQ(reader.entries().size(), golden_tensors().size());
  EXPECT_EQ(reader.metadata(), kGoldenMetadata);
  for (const NamedTensor& named : golden_tensors()) expect_same(reader.tensor(named.name), named.tensor);
}

TEST(SafetensorsGolden, WritesTheSameBytes) {
  const ScratchDirectory directory;
  write_safetensors(directory / "a", golden_tensors(), kGoldenMetadata);
  EXPECT_EQ(read_bytes(directory / "a"), golden_bytes());
}

TEST(Safetensors, EveryDtypeRoundTripsBitForBit) {
  const ScratchDirectory directory;
  std::vector<NamedTensor> tensors;
  for (const auto type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort,
                          at::kChar, at::kByte, at::kBool}) {
    // Five elements: the ranges after the one-byte dtypes are not aligned.
    tensors.push_back({cat("t", tensors.size()), (at::arange(-2, 3, at::kInt) * 3).to(type)});
  }
  std::reverse(tensors.begin(), tensors.end());
  write_safetensors(directory / "a", tensors, {});
  const SafetensorsReader reader(directory / "a");
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(reader.entries()[i].name, tensors[i].name) << "written in the given order";
    expect_same(reader.tensor(tensors[i].name), tensors[i].tensor);
  }
}

TEST(Safetensors, WritesTheValuesOfViews) {
  const ScratchDirectory directory;
  const at::Tensor fused = at::arange(24, at::kFloat).view({6, 4});
  const std::vector<NamedTensor> tensors = {{"rows", fused.narrow(0, 2, 3)},
                                            {"columns", fused.narrow(1, 1, 2)},
                                            {"transposed", fused.t()},
                                            {"expanded", fused.narrow(0, 0, 1).expand({3, 4})}};
  write_safetensors(directory / "a", tensors, {});
  const SafetensorsReader reader(directory / "a");
  for (const NamedTensor& named : tensors) expect_same(reader.tensor(named.name), named.tensor);
}

TEST(Safetensors, ReadsRowsIntoASliceAndConverts) {
  const ScratchDirectory directory;
  const at::Tensor source = at::arange(40, at::kFloat).view({10, 4}) / 3;
  write_safetensors(directory / "a", std::vector<NamedTensor>{{"f", source}, {"b", source.to(at::kBFloat16)}},
                    {});
  const SafetensorsReader reader(directory / "a");

  at::Tensor fused = at::full({8, 4}, -1, at::kFloat);
  fused.set_requires_grad(true);
  reader.read_into(TensorSlice{"f", {10, 4}, {{4, 7}, {0, 4}}}, fused.detach().narrow(0, 2, 3));
  at::Tensor wanted = at::full({8, 4}, -1, at::kFloat);
  wanted.narrow(0, 2, 3).copy_(source.narrow(0, 4, 3));
  expect_same(fused.detach(), wanted);

  at::Tensor widened = at::empty({10, 4}, at::kFloat);
  reader.read_into("b", widened);
  expect_same(widened, source.to(at::kBFloat16).to(at::kFloat));

  at::Tensor rounded = at::empty({10, 4}, at::kBFloat16);
  rounded.set_requires_grad(true);
  reader.read_into("f", rounded);
  expect_same(rounded.detach(), source.to(at::kBFloat16));

  at::Tensor wide = at::full({10, 6}, -1, at::kFloat);
  reader.read_into("f", wide.narrow(1, 1, 4));
  expect_same(wide.narrow(1, 1, 4), source);
  expect_same(wide.select(1, 0), at::full({10}, -1, at::kFloat));

  at::Tensor none = at::empty({0, 4}, at::kFloat);
  reader.read_into(TensorSlice{"f", {10, 4}, {{10, 10}, {0, 4}}}, none);
}

// Every rectangle of a small tensor of three dimensions, with and without conversion.
TEST(Safetensors, ReadsAnyPart) {
  const ScratchDirectory directory;
  const at::Tensor source = at::arange(3 * 4 * 2, at::kFloat).view({3, 4, 2});
  write_safetensors(directory / "a", std::vector<NamedTensor>{{"f", source}}, {});
  const SafetensorsReader reader(directory / "a");
  const auto ranges = [](int64_t size) {
    std::vector<tensor::Range> all;
    for (int64_t begin = 0; begin < size; ++begin) {
      for (int64_t end = begin + 1; end <= size; ++end) all.push_back({begin, end});
    }
    return all;
  };
  for (const tensor::Range& i : ranges(3)) {
    for (const tensor::Range& j : ranges(4)) {
      for (const tensor::Range& k : ranges(2)) {
        const TensorSlice slice = {"f", {3, 4, 2}, {i, j, k}};
        const at::Tensor wanted =
            source.narrow(0, i.begin, i.size()).narrow(1, j.begin, j.size()).narrow(2, k.begin, k.size());
        for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
          at::Tensor part = at::empty(slice.sizes(), type);
          reader.read_into(slice, part);
          expect_same(part, wanted.to(type).contiguous());
        }
      }
    }
  }
}

TEST(Safetensors, ConvertsInBlocksWithoutLosingRows) {
  const ScratchDirectory directory;
  // 40 MB: three blocks of at most 16 MiB.
  const at::Tensor source =
      at::arange(10'000'000, at::kInt).remainder(251).to(at::kFloat).view({1000, 10'000});
  write_safetensors(directory / "a", std::vector<NamedTensor>{{"f", source}, {"line", source.view({-1})}},
                    {});
  const SafetensorsReader reader(directory / "a");
  at::Tensor wide = at::empty({999, 10'000}, at::kDouble);
  reader.read_into(TensorSlice{"f", {1000, 10'000}, {{1, 1000}, {0, 10'000}}}, wide);
  expect_same(wide, source.narrow(0, 1, 999).to(at::kDouble));
  at::Tensor line = at::empty({10'000'000}, at::kDouble);
  reader.read_into("line", line);
  expect_same(line, source.view({-1}).to(at::kDouble));
}

TEST(Safetensors, RejectsDestinationsThatDoNotMatch) {
  const ScratchDirectory directory;
  write_bytes(directory / "a", golden_bytes());
  const SafetensorsReader reader(directory / "a");
  const auto error_of = [&](const char* name, at::IntArrayRef shape, at::ScalarType type) {
    return message_of<ShapeError>([&] { reader.read_into(name, at::empty(shape, type)); });
  };
  const auto error_of_slice = [&](const TensorSlice& slice) {
    return message_of<ShapeError>([&] { reader.read_into(slice, at::empty({1})); });
  };
  EXPECT_THAT(error_of("model.norm.weight", {3}, at::kFloat),
              HasSubstr("has shape [2], but the destination has [3]"));
  EXPECT_THAT(error_of("model.norm.weight", {2, 1}, at::kFloat), HasSubstr("[2, 1]"));
  EXPECT_THAT(error_of("model.norm.weight", {2}, at::kInt), HasSubstr("dtype F32"));
  EXPECT_THAT(error_of("ids", {1, 3}, at::kFloat), HasSubstr("dtype I16"));
  EXPECT_THAT(error_of("ids", {1, 3}, at::kChar), HasSubstr("dtype I16"));
  EXPECT_THAT(error_of_slice({"model.norm.weight", {2}, {{1, 3}}}), HasSubstr("model.norm.weight"));
  EXPECT_THAT(error_of_slice({"model.norm.weight", {3}, {{1, 2}}}), HasSubstr("has shape [2], not [3]"));
  EXPECT_THAT(error_of_slice({"model.norm.weight", {2}, {{0, 0}}}),
              HasSubstr("has shape [0] in the part to read, but the destination has [1]"));
  EXPECT_THAT(message_of<DataError>([&] { reader.tensor("model.norm.weigth"); }),
              HasSubstr("(nearest: \"model.norm.weight\")"));
}

TEST(Safetensors, OpensFilesWithOtherDtypesAndRejectsTheirTensors) {
  const ScratchDirectory directory;
  const std::string header = format_safetensors_header(
      {.entries = {{"q", "F8_E4M3", {2}, 0, 2}, {"w", "U8", {1}, 2, 3}}, .metadata = {}});
  write_bytes(directory / "a", header + "abc");
  const SafetensorsReader reader(directory / "a");
  EXPECT_EQ(reader.tensor("w").item<int>(), 'c');
  EXPECT_THAT(message_of<DataError>([&] { reader.tensor("q"); }),
              HasSubstr("dtype F8_E4M3, which braid does not support"));
}

TEST(Safetensors, ReadsAnyByteAsABool) {
  const ScratchDirectory directory;
  const std::string header =
      format_safetensors_header({.entries = {{"b", "BOOL", {3}, 0, 3}}, .metadata = {}});
  write_bytes(directory / "a", header + std::string("\0\x01\xfe", 3));
  const at::Tensor read = SafetensorsReader(directory / "a").tensor("b");
  uint8_t bytes[3];
  std::memcpy(bytes, read.const_data_ptr(), sizeof bytes);
  EXPECT_THAT(bytes, testing::ElementsAre(0, 1, 1));
}

TEST(Safetensors, RejectsOtherDtypesAndRepeatedNamesWhenWriting) {
  const ScratchDirectory directory;
  const at::Tensor one = at::ones({1});
  EXPECT_THROW(write_safetensors(directory / "a",
                                 std::vector<NamedTensor>{{"c", at::ones({1}, at::kComplexFloat)}}, {}),
               ShapeError);
  EXPECT_THROW(write_safetensors(directory / "a", std::vector<NamedTensor>{{"u", at::Tensor()}}, {}),
               InternalError);
  EXPECT_THROW(write_safetensors(directory / "a", std::vector<NamedTensor>{{"c", one}, {"c", one}}, {}),
               InternalError);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(SafetensorsDamage, EveryTruncationIsRejected) {
  const ScratchDirectory directory;
  const std::string bytes = golden_bytes();
  for (size_t size = 0; size < bytes.size(); ++size) {
    write_bytes(directory / "a", std::string_view(bytes).substr(0, size));
    const std::string message = message_of<DataError>([&] { SafetensorsReader reader(directory / "a"); });
    EXPECT_THAT(message, HasSubstr((directory / "a").string())) << size;
  }
  write_bytes(directory / "a", bytes + "x");
  EXPECT_THAT(message_of<DataError>([&] { SafetensorsReader reader(directory / "a"); }),
              HasSubstr("1 byte after its last tensor"));
}

TEST(SafetensorsDamage, EveryChangedByteIsRejectedOrReadWithoutHarm) {
  const ScratchDirectory directory;
  const std::string bytes = golden_bytes();
  int rejected = 0;
  int read = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const int change : {0x01, 0x02, 0x10, 0x20, 0x80, 0xff}) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ change);
      write_bytes(directory / "a", damaged);
      try {
        const SafetensorsReader reader(directory / "a");
        for (const TensorEntry& entry : reader.entries()) reader.tensor(entry.name);
        ++read;
      } catch (const DataError&) {
        ++rejected;
      }
    }
  }
  EXPECT_GT(rejected, 1000) << "most of the file is header";
  EXPECT_GT(read, 100) << "changes of names, metadata and data go undetected";
}

TEST(SafetensorsDamage, HugeHeaderLengthsAreRejectedBeforeAllocation) {
  const ScratchDirectory directory;
  const auto error_of = [&](uint64_t length) {
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, sizeof length);
    write_bytes(directory / "a", bytes + "{}");
    return message_of<DataError>([&] { SafetensorsReader reader(directory / "a"); });
  };
  EXPECT_EQ(error_of(2), "");
  EXPECT_THAT(error_of(3), HasSubstr("declares a header of 3 bytes, but ends after 10"));
  EXPECT_THAT(error_of(100'000'000), HasSubstr("but ends after 10"));
  EXPECT_THAT(error_of(100'000'001), HasSubstr("more than 100000000"));
  EXPECT_THAT(error_of(~uint64_t{0}), HasSubstr("more than 100000000"));
  EXPECT_THAT(error_of(~uint64_t{0} - 7), HasSubstr("more than 100000000"));
  EXPECT_THAT(error_of(0), HasSubstr("does not begin with '{'"));
}

TEST(SafetensorsDamage, AFileTruncatedWhileOpenCausesAnErrorNotASignal) {
  const ScratchDirectory directory;
  write_safetensors(directory / "a", std::vector<NamedTensor>{{"t", at::ones({100'000})}}, {});
  const SafetensorsReader reader(directory / "a");
  std::filesystem::resize_file(directory / "a", 1000);
  EXPECT_THAT(message_of<DataError>([&] { reader.tensor("t"); }), HasSubstr("ends at byte 1000"));
}

// Files are read in blocks, in the destination's dtype or through a buffer, from the slice's first row on.
TEST(SafetensorsValues, ThatAreNoWeightsAreNamedWithTheirPlace) {
  const ScratchDirectory directory;
  constexpr int64_t kRows = 9;
  constexpr int64_t kColumns = 600'000;
  at::Tensor values = at::ones({kRows, kColumns});
  values[7][599'999] = std::nan("");
  write_safetensors(directory / "a", std::vector<NamedTensor>{{"w", values}}, {});
  const SafetensorsReader reader(directory / "a");
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const int64_t first : {0, 5}) {
      const TensorSlice slice = {
          .name = "w", .whole = {kRows, kColumns}, .part = {{first, kRows}, {0, kColumns}}};
      const at::Tensor destination = at::empty({kRows - first, kColumns}, dtype);
      EXPECT_THAT(message_of<DataError>([&] { reader.read_into(slice, destination); }),
                  HasSubstr("a: tensor \"w\" has nan at [7, 599999], which is no weight"));
    }
  }
  const TensorSlice before = {.name = "w", .whole = {kRows, kColumns}, .part = {{0, 7}, {0, kColumns}}};
  EXPECT_NO_THROW(reader.read_into(before, at::empty({7, kColumns})));
}

TEST(SafetensorsValues, ThatAHalfCannotHoldAreNamed) {
  const ScratchDirectory directory;
  write_safetensors(directory / "a", std::vector<NamedTensor>{{"w", at::tensor({1.0F, 70000.0F})}}, {});
  const SafetensorsReader reader(directory / "a");
  EXPECT_NO_THROW(reader.read_into("w", at::empty({2}, at::kBFloat16)));
  EXPECT_THAT(message_of<DataError>([&] { reader.read_into("w", at::empty({2}, at::kHalf)); }),
              HasSubstr("has 70000 at [1], which float16 cannot hold"));
}

}  // namespace
}  // namespace braid::checkpoint
