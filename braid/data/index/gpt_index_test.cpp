#include "braid/data/index/gpt_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "braid/base/error.h"
#include "braid/data/test_hash.h"

namespace braid::data {
namespace {

// Pseudo-random lengths in [0, longest], as used for the golden values.
std::vector<int32_t> lengths_for(int64_t documents, int64_t longest, int64_t seed) {
  std::vector<int32_t> lengths;
  auto state = static_cast<uint64_t>(seed) * 2 + 1;
  for (int64_t d = 0; d < documents; ++d) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    lengths.push_back(static_cast<int32_t>((state >> 33) % static_cast<uint64_t>(longest + 1)));
  }
  return lengths;
}

std::vector<int64_t> flat_positions(const GptIndex& index) {
  std::vector<int64_t> flat;
  for (int64_t i = 0; i <= index.size(); ++i) {
    flat.push_back(index.sample_begin(i).position);
    flat.push_back(index.sample_begin(i).offset);
  }
  return flat;
}

std::vector<int64_t> shuffled_samples(const GptIndex& index) {
  std::vector<int64_t> samples;
  for (int64_t k = 0; k < index.size(); ++k) samples.push_back(index.shuffled(k));
  return samples;
}

struct Golden {
  int64_t documents, longest, sequence_length, samples, seed;
  LastSample last_sample;
  int64_t epochs;
  bool has_separate_last_epoch;
  int64_t size;
  uint64_t documents_hash, positions_hash, shuffle_hash;
};

// Expected values from an independent Python transcription of Megatron's rules, with numpy's RandomState.
// samples -1: one epoch.
constexpr Golden kGolden[] = {
    {10, 20, 8, -1, 1234, LastSample::kDrop, 1, false, 7, 8673898372547835524ull, 11402434809955488588ull,
     13201598239673011266ull},
    {10, 20, 8, 5, 1234, LastSample::kDrop, 1, false, 7, 8673898372547835524ull, 11402434809955488588ull,
     13201598239673011266ull},
    {10, 20, 8, 12, 1234, LastSample::kDrop, 2, false, 15, 16345332315993630821ull, 16765923188213542389ull,
     679580807410928938ull},
    {10, 20, 8, 23, 1, LastSample::kDrop, 2, true, 36, 7129843853255469509ull, 6720444613577961841ull,
     14010052216972671749ull},
    {37, 50, 16, 200, 42, LastSample::kDrop, 4, true, 212, 12095620923986056869ull, 12111619641373409623ull,
     10271841556079488677ull},
    {37, 50, 16, 470, 42, LastSample::kDrop, 9, false, 477, 9515615116500341729ull, 6056069587756107744ull,
     13498769090826719086ull},
    {3, 2, 7, 100, 7, LastSample::kDrop, 351, false, 100, 13688404258905197350ull, 1683979008751171422ull,
     2753200845511547077ull},
    {500, 300, 64, 5000, 2024, LastSample::kDrop, 5, true, 5898, 15577363095094268289ull,
     13673932113439687845ull, 1076099499327553496ull},
    {10, 20, 8, -1, 1234, LastSample::kKeepShort, 1, false, 8, 8673898372547835524ull,
     18009159820510335703ull, 1852955790016822533ull},
    {1, 5, 9, 4, 3, LastSample::kDrop, 19, false, 4, 9512054303180107013ull, 14331694303332844983ull,
     4407558604382789637ull},
    {6, 9, 4, 40, 9, LastSample::kKeepShort, 4, false, 42, 6637028499558414021ull, 6342256183812453949ull,
     14174931347440783460ull},
};

TEST(GptIndex, OrderEqualsMegatrons) {
  for (const Golden& golden : kGolden) {
    SCOPED_TRACE(
        cat(golden.documents, " documents, ", golden.samples, " samples of ", golden.sequence_length));
    const auto lengths = lengths_for(golden.documents, golden.longest, golden.seed);
    const GptIndex index(lengths,
                         {.sequence_length = golden.sequence_length,
                          .samples = golden.samples < 0 ? std::nullopt : std::optional(golden.samples),
                          .seed = golden.seed,
                          .last_sample = golden.last_sample});
    EXPECT_EQ(index.epochs(), golden.epochs);
    EXPECT_EQ(index.has_separate_last_epoch(), golden.has_separate_last_epoch);
    EXPECT_EQ(index.size(), golden.size);
    EXPECT_EQ(hash_of(index.document_order()), golden.documents_hash);
    EXPECT_EQ(hash_of(flat_positions(index)), golden.positions_hash);
    EXPECT_EQ(hash_of(shuffled_samples(index)), golden.shuffle_hash);
  }
}

// Tokens as (document, position): samples must be consecutive slices of the documents in order, each sharing
// one token with the next.
TEST(GptIndex, SamplesAreConsecutiveSlicesOfTheShuffledDocuments) {
  for (int64_t seed = 0; seed < 40; ++seed) {
    const int64_t documents = 1 + seed % 9;
    auto lengths = lengths_for(documents, 1 + seed % 13, seed);
    lengths[0] += 1;
    const int64_t sequence_length = 1 + seed % 7;
    for (const std::optional<int64_t> samples :
         {std::optional<int64_t>(), std::optional<int64_t>(1 + 3 * seed)}) {
      SCOPED_TRACE(cat("seed ", seed, ", samples ", samples.value_or(-1)));
      const LastSample last = seed % 2 == 0 ? LastSample::kDrop : LastSample::kKeepShort;
      const GptIndex index(
          lengths,
          {.sequence_length = sequence_length, .samples = samples, .seed = seed, .last_sample = last});
      ASSERT_GE(index.size(), samples.value_or(0));

      std::vector<std::pair<int64_t, int64_t>> stream;
      for (const uint32_t document : index.document_order()) {
        for (int64_t i = 0; i < lengths[document]; ++i) stream.emplace_back(document, i);
      }
      ASSERT_EQ(static_cast<int64_t>(stream.size()), index.epochs() * index.tokens_per_epoch());
      std::vector<int> seen(static_cast<size_t>(index.size()));
      for (int64_t k = 0; k < index.size(); ++k) {
        const int64_t sample = index.shuffled(k);
        ASSERT_EQ(seen.at(static_cast<size_t>(sample))++, 0) << "each sample once";
        std::vector<std::pair<int64_t, int64_t>> tokens;
        index.for_each_slice(
            k, [&](int64_t document) { return lengths[static_cast<size_t>(document)]; },
            [&](const Slice& slice) {
              for (int64_t i = 0; i < slice.count; ++i) tokens.emplace_back(slice.document, slice.offset + i);
            });
        const int64_t begin = sample * sequence_length;
        const int64_t end =
            std::min<int64_t>(begin + sequence_length + 1, static_cast<int64_t>(stream.size()));
        ASSERT_EQ(tokens, (std::vector(stream.begin() + begin, stream.begin() + end)));
        ASSERT_GE(tokens.size(), 2u) << "at least one label";
        ASSERT_TRUE(last == LastSample::kKeepShort || end - begin == sequence_length + 1);
      }
      if (last == LastSample::kDrop) {
        EXPECT_EQ(index.size(), (static_cast<int64_t>(stream.size()) - 1) / sequence_length)
            << "no full sample is lost";
      }
    }
  }
}

TEST(GptIndex, EveryEpochHasEveryDocumentOnce) {
  const auto lengths = lengths_for(25, 30, 5);
  const GptIndex one(lengths, {.sequence_length = 8, .seed = 3});
  const std::vector<uint32_t> first(one.document_order().begin(), one.document_order().end());
  std::vector<uint32_t> sorted = first;
  std::sort(sorted.begin(), sorted.end());
  for (uint32_t d = 0; d < 25; ++d) EXPECT_EQ(sorted[d], d);
  EXPECT_NE(first, sorted) << "shuffled";

  const int64_t per_epoch = one.size();
  const GptIndex apart(lengths, {.sequence_length = 8, .samples = 2 * per_epoch + 5, .seed = 3});
  ASSERT_EQ(apart.epochs(), 3);
  ASSERT_TRUE(apart.has_separate_last_epoch());
  std::vector<int> count(25);
  for (const uint32_t d : apart.document_order().last(25)) ++count[d];
  EXPECT_THAT(count, testing::Each(1)) << "the last epoch is one whole epoch";
  for (const uint32_t d : apart.document_order().first(50)) ++count[d];
  EXPECT_THAT(count, testing::Each(3));

  const GptIndex together(lengths, {.sequence_length = 8, .samples = 3 * per_epoch - 1, .seed = 3});
  EXPECT_EQ(together.epochs(), 3);
  EXPECT_FALSE(together.has_separate_last_epoch()) << "more than 80% of the last epoch is needed";
}

TEST(GptIndex, SamplesOfTheLastEpochComeLast) {
  const auto lengths = lengths_for(25, 30, 5);
  const GptIndex index(lengths, {.sequence_length = 8, .samples = 100, .seed = 3});
  ASSERT_TRUE(index.has_separate_last_epoch());
  const int64_t before_last = ((index.epochs() - 1) * index.tokens_per_epoch() - 1) / 8;
  for (int64_t k = 0; k < index.size(); ++k) EXPECT_EQ(index.shuffled(k) < before_last, k < before_last);
}

TEST(GptIndex, RejectsImpossibleOptions) {
  const std::vector<int32_t> lengths = {3, 4};
  const std::vector<int32_t> empty = {0, 0};
  EXPECT_THROW(GptIndex({}, {.sequence_length = 4}), DataError);
  EXPECT_THROW(GptIndex(empty, {.sequence_length = 4, .samples = 1}), DataError);
  EXPECT_THROW(GptIndex(lengths, {.sequence_length = 0}), ConfigError);
  EXPECT_THROW(GptIndex(lengths, {.sequence_length = 4, .samples = 0}), ConfigError);
  EXPECT_THROW(GptIndex(lengths, {.sequence_length = 4, .seed = -1}), ConfigError);
  EXPECT_THROW(GptIndex(lengths, {.sequence_length = int64_t{1} << 40, .samples = int64_t{1} << 30}),
               ConfigError);
  EXPECT_THROW(GptIndex(lengths, {.sequence_length = 1, .samples = int64_t{1} << 50}), ConfigError);
  EXPECT_EQ(GptIndex(lengths, {.sequence_length = 7}).size(), 0) << "one epoch is one token too short";
}

}  // namespace
}  // namespace braid::data
