// Training held against something absolute: a Llama written out here as plain formulas in float64, with
// autograd, clipping and AdamW of its own, sharing no code with the program but the reader of the data.
//
// Every option that changes a number is away from its default, and the weights come from files that the test
// wrote under the names spelt here, and go back to such files. So a number that is not handed on, or handed
// on wrongly, shows, wherever all cuts of the pipeline agree on it.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "braid/base/random.h"
#include "braid/base/scratch_directory.h"
#include "braid/checkpoint/file.h"
#include "braid/checkpoint/hf_directory.h"
#include "braid/comm/testing.h"
#include "braid/config/model_config_json.h"
#include "braid/config/options.h"
#include "braid/data/index/indexed_file.h"
#include "braid/tensor/memory.h"
#include "braid/train/microbatch_source.h"
#include "braid/train/pretrain.h"

namespace braid::train {
namespace {

constexpr int64_t kVocabulary = 41, kHidden = 24, kIntermediate = 40, kLayers = 3, kHeads = 4,
                  kKeyValueHeads = 2, kHeadDim = 8, kTokens = 12;
constexpr double kTheta = 300.0, kNormEps = 0.02;
constexpr int64_t kSteps = 4, kMicrobatches = 3, kSequences = 2, kEvalSequences = 3, kEvalMicrobatches = 2;
constexpr double kPeak = 0.02, kFloor = 0.004, kDecay = 0.3, kBeta1 = 0.8, kBeta2 = 0.9, kAdamEps = 0.003;
constexpr int64_t kWarmup = 2, kDecaySteps = 6;
// The steps' norms lie on either side of it, as the test asserts.
constexpr double kMaxNorm = 3.0, kMaxNormTied = 2.5;

double max_norm(bool tied) { return tied ? kMaxNormTied : kMaxNorm; }

using Weights = std::map<std::string, at::Tensor>;

std::map<std::string, std::vector<int64_t>> shapes(bool tied) {
  std::map<std::string, std::vector<int64_t>> all = {{"model.embed_tokens.weight", {kVocabulary, kHidden}},
                                                     {"model.norm.weight", {kHidden}}};
  if (!tied) all["lm_head.weight"] = {kVocabulary, kHidden};
  for (int64_t i = 0; i < kLayers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i);
    all[layer + ".input_layernorm.weight"] = {kHidden};
    all[layer + ".self_attn.q_proj.weight"] = {kHeads * kHeadDim, kHidden};
    all[layer + ".self_attn.k_proj.weight"] = {kKeyValueHeads * kHeadDim, kHidden};
    all[layer + ".self_attn.v_proj.weight"] = {kKeyValueHeads * kHeadDim, kHidden};
    all[layer + ".self_attn.o_proj.weight"] = {kHidden, kHeads * kHeadDim};
    all[layer + ".post_attention_layernorm.weight"] = {kHidden};
    all[layer + ".mlp.gate_proj.weight"] = {kIntermediate, kHidden};
    all[layer + ".mlp.up_proj.weight"] = {kIntermediate, kHidden};
    all[layer + ".mlp.down_proj.weight"] = {kHidden, kIntermediate};
  }
  return all;
}

/// Normal values, norms around 1, rounded to float32 so that both sides begin with the same numbers.
Weights initial_weights(bool tied) {
  Weights weights;
  uint64_t stream = 100;
  for (const auto& [name, shape] : shapes(tied)) {
    at::Tensor values = at::empty(shape, at::kFloat);
    for (int64_t i = 0; i < values.numel(); ++i) {
      const double normal = normal_pair(stream, static_cast<uint64_t>(i))[0];
      values.mutable_data_ptr<float>()[i] =
          static_cast<float>(shape.size() == 1 ? 1 + 0.2 * normal : 0.25 * normal);
    }
    weights[name] = values;
    ++stream;
  }
  return weights;
}

at::Tensor norm(const at::Tensor& x, const at::Tensor& weight) {
  return x / at::sqrt((x * x).mean(-1, true) + kNormEps) * weight;
}

/// Position p turns features (i, i + d/2) by p * theta^(-2i/d).
at::Tensor turned(const at::Tensor& x) {  // [b, heads, s, d]
  const int64_t half = kHeadDim / 2;
  const at::Tensor frequency = at::exp(at::arange(half, at::kDouble) * (-2.0 / kHeadDim * std::log(kTheta)));
  const at::Tensor angle = at::arange(kTokens, at::kDouble).unsqueeze(1) * frequency;
  const at::Tensor a = x.narrow(3, 0, half), b = x.narrow(3, half, half);
  return at::cat({a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()}, 3);
}

/// The sum of the tokens' losses.
at::Tensor loss_sum(const Weights& w, const pipeline::Microbatch& data) {
  const int64_t b = data.tokens.size(0);
  at::Tensor x =
      w.at("model.embed_tokens.weight").index_select(0, data.tokens.reshape(-1)).view({b, kTokens, kHidden});
  for (int64_t i = 0; i < kLayers; ++i) {
    const auto of = [&](const char* name) { return w.at("model.layers." + std::to_string(i) + name); };
    const at::Tensor h = norm(x, of(".input_layernorm.weight"));
    const auto heads = [&](const char* name, int64_t n) {
      return at::matmul(h, of(name).t()).view({b, kTokens, n, kHeadDim}).transpose(1, 2);
    };
    const at::Tensor q = turned(heads(".self_attn.q_proj.weight", kHeads));
    const at::Tensor k = turned(heads(".self_attn.k_proj.weight", kKeyValueHeads));
    const at::Tensor v = heads(".self_attn.v_proj.weight", kKeyValueHeads);
    std::vector<at::Tensor> outputs;
    for (int64_t head = 0; head < kHeads; ++head) {
      const int64_t group = head / (kHeads / kKeyValueHeads);
      at::Tensor scores =
          at::matmul(q.select(1, head), k.select(1, group).transpose(1, 2)) / std::sqrt(kHeadDim);
      scores = scores.masked_fill(at::ones({kTokens, kTokens}, at::kBool).triu(1), -INFINITY);
      outputs.push_back(at::matmul(at::softmax(scores, -1), v.select(1, group)));
    }
    x = x + at::matmul(at::cat(outputs, -1), of(".self_attn.o_proj.weight").t());
    const at::Tensor h2 = norm(x, of(".post_attention_layernorm.weight"));
    const at::Tensor gate = at::matmul(h2, of(".mlp.gate_proj.weight").t());
    const at::Tensor up = at::matmul(h2, of(".mlp.up_proj.weight").t());
    x = x + at::matmul(gate * at::sigmoid(gate) * up, of(".mlp.down_proj.weight").t());
  }
  const bool tied = !w.contains("lm_head.weight");
  const at::Tensor head = w.at(tied ? "model.embed_tokens.weight" : "lm_head.weight");
  const at::Tensor logits = at::matmul(norm(x, w.at("model.norm.weight")), head.t()).view({-1, kVocabulary});
  return -at::log_softmax(logits, -1).gather(1, data.labels.reshape({-1, 1})).sum();
}

struct Numbers {
  std::vector<double> losses, norms, rates, evaluations;
  Weights weights;
  double largest_entry = 0;  // of a clipped gradient
};

double mean_loss(const Weights& weights, const std::vector<pipeline::Microbatch>& microbatches) {
  double sum = 0, tokens = 0;
  for (const auto& microbatch : microbatches) {
    sum += loss_sum(weights, microbatch).item<double>();
    tokens += static_cast<double>(microbatch.labels.numel());
  }
  return sum / tokens;
}

/// Trains as the papers say: mean loss over the step's tokens, clipping by the norm over all parameters,
/// AdamW (arXiv:1711.05101, algorithm 2) with warm-up and half a cosine.
Numbers train_plainly(bool tied, const MicrobatchSource& source) {
  Numbers result;
  Weights w, first, second;
  for (const auto& [name, values] : initial_weights(tied)) {
    w[name] = values.to(at::kDouble);
    first[name] = at::zeros_like(w[name]);
    second[name] = at::zeros_like(w[name]);
  }
  for (int64_t step = 1; step <= kSteps; ++step) {
    Weights gradients;
    double loss = 0;
    const std::vector<pipeline::Microbatch> microbatches = source.train_step(step - 1);
    const double tokens = kMicrobatches * kSequences * kTokens;
    {
      const at::AutoGradMode record(true);
      Weights leaves;
      std::vector<at::Tensor> inputs;
      for (const auto& [name, values] : w) {
        leaves[name] = values.clone().requires_grad_(true);
        inputs.push_back(leaves[name]);
      }
      at::Tensor mean = at::zeros({}, at::kDouble);
      for (const auto& microbatch : microbatches) mean = mean + loss_sum(leaves, microbatch) / tokens;
      loss = mean.item<double>();
      const auto all = torch::autograd::grad({mean}, inputs);
      size_t i = 0;
      for (const auto& [name, values] : w) gradients[name] = all[i++];
    }
    double squares = 0;
    for (const auto& [name, gradient] : gradients) squares += gradient.pow(2).sum().item<double>();
    const double total = std::sqrt(squares);
    const double scale = total > max_norm(tied) ? max_norm(tied) / total : 1.0;
    const double progress = static_cast<double>(step - kWarmup) / static_cast<double>(kDecaySteps - kWarmup);
    const double rate = step <= kWarmup
                            ? kPeak * static_cast<double>(step) / kWarmup
                            : kFloor + (kPeak - kFloor) * 0.5 * (1 + std::cos(std::acos(-1.0) * progress));
    for (auto& [name, values] : w) {
      const at::Tensor g = gradients[name] * scale;
      result.largest_entry = std::max(result.largest_entry, g.abs().max().item<double>());
      first[name] = kBeta1 * first[name] + (1 - kBeta1) * g;
      second[name] = kBeta2 * second[name] + (1 - kBeta2) * g * g;
      const at::Tensor m = first[name] / (1 - std::pow(kBeta1, step)),
                       v = second[name] / (1 - std::pow(kBeta2, step));
      const double decay = values.dim() > 1 ? kDecay : 0.0;
      values = values - rate * decay * values - rate * m / (v.sqrt() + kAdamEps);
    }
    result.losses.push_back(loss);
    result.norms.push_back(total);
    result.rates.push_back(rate);
  }
  result.evaluations.push_back(mean_loss(w, source.evaluation()));
  result.weights = w;
  return result;
}

class Reference : public ::testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  Reference() {
    tensor::install_cpu_allocator();
    data::IndexedWriter writer((scratch_.path() / "text").string(), data::TokenType::kU16);
    for (uint64_t document = 0; document < 40; ++document) {
      std::vector<int64_t> tokens;
      for (uint64_t i = 0; i < 30 + document; ++i) tokens.push_back(philox(document, i)[0] % kVocabulary);
      writer.add_sequence(tokens);
      writer.end_document();
    }
    writer.finish();
  }

  config::PretrainOptions options(int pp, bool tied) const {
    config::PretrainOptions o;
    o.input_dir = (scratch_.path() / "text").string();
    o.split = "70,30,0";
    o.data_seed = 77;
    o.max_seq_length = kTokens;
    o.per_device_train_batch_size = kSequences;
    o.per_device_eval_batch_size = kEvalSequences;
    o.gradient_accumulation_steps = kMicrobatches;
    o.pipeline_parallel_degree = pp;
    o.learning_rate = kPeak;
    o.min_learning_rate = kFloor;
    o.lr_scheduler_type = "cosine";
    o.warmup_steps = kWarmup;
    o.decay_steps = kDecaySteps;
    o.weight_decay = kDecay;
    o.adam_beta1 = kBeta1;
    o.adam_beta2 = kBeta2;
    o.adam_epsilon = kAdamEps;
    o.max_grad_norm = max_norm(tied);
    o.max_steps = kSteps;
    o.logging_steps = kSteps;
    o.eval_steps = kSteps;
    o.eval_iters = kEvalMicrobatches;
    o.do_train = true;
    o.do_eval = true;
    o.continue_training = true;
    o.model_name_or_path = (scratch_.path() / (tied ? "tied" : "untied")).string();
    o.output_dir = (scratch_.path() / "out").string();
    o.dist_timeout = std::chrono::seconds(60);
    return o;
  }

  static config::ModelConfig model(bool tied) {
    return {.vocab_size = kVocabulary,
            .hidden_size = kHidden,
            .intermediate_size = kIntermediate,
            .num_hidden_layers = kLayers,
            .num_attention_heads = kHeads,
            .num_key_value_heads = kKeyValueHeads,
            .head_dim = kHeadDim,
            .max_position_embeddings = 16,
            .rms_norm_eps = kNormEps,
            .rope_theta = kTheta,
            .tie_word_embeddings = tied};
  }

  void write_model(const std::filesystem::path& directory, bool tied) const {
    const Weights weights = initial_weights(tied);
    std::vector<checkpoint::NamedTensor> tensors;
    std::vector<std::vector<checkpoint::TensorBytes>> bytes(1);
    for (const auto& [name, values] : weights) {
      tensors.push_back({name, values});
      bytes[0].push_back({name, static_cast<int64_t>(values.nbytes())});
    }
    checkpoint::begin_hf_export(directory);
    checkpoint::write_hf_shard(directory, 0, 1, tensors);
    checkpoint::write_text_file(directory / "config.json",
                                config::model_config_to_json(model(tied), "float32"));
    checkpoint::write_hf_index(directory, checkpoint::plan_shards(bytes));
  }

  /// What the program makes of it.
  Numbers train(int pp, bool tied) const {
    const config::PretrainOptions o = options(pp, tied);
    write_model(o.model_name_or_path, tied);
    std::filesystem::create_directories(o.output_dir);
    comm::run_ranks(pp, [&](const comm::World& world, const c10::intrusive_ptr<c10d::Store>& store) {
      pretrain({.options = config::run_options(o),
                .model = model(tied),
                .world = world,
                .store = store,
                .reporter = {}});
    });
    Numbers result;
    std::ifstream metrics(std::filesystem::path(o.output_dir) / "metrics.jsonl");
    for (std::string line; std::getline(metrics, line);) {
      const auto record = nlohmann::json::parse(line);
      if (record["type"] == "train") {
        result.losses.push_back(record["loss"]);
        result.norms.push_back(record["grad_norm"]);
        result.rates.push_back(record["learning_rate"]);
      } else {
        result.evaluations.push_back(record["eval_loss"]);
      }
    }
    const checkpoint::HfWeights exported(std::filesystem::path(o.output_dir) / "hf");
    for (const std::string& name : exported.names()) {
      at::Tensor values = at::empty(exported.shape(name), at::kFloat);
      exported.read_into(name, values);
      result.weights[name] = values;
    }
    return result;
  }

  /// The program's reader of token files, which has tests of its own, asked for what the options say.
  std::unique_ptr<MicrobatchSource> source() const {
    return open_token_files({.input_dir = (scratch_.path() / "text").string(),
                             .split = "70,30,0",
                             .seed = 77,
                             .vocabulary = kVocabulary,
                             .sequence_tokens = kTokens,
                             .train_microbatch = kSequences,
                             .eval_microbatch = kEvalSequences,
                             .microbatches = kMicrobatches,
                             .eval_iterations = kEvalMicrobatches,
                             .max_steps = kSteps,
                             .evaluations = 2});
  }

  ScratchDirectory scratch_;
};

// Bounds. u = 2^-24 is float32's unit roundoff. From the tokens to the loss and back, a value passes through
// about ten rounded tensors a layer each way, 60 in all, whose elements are sums of at most 48 products;
// independent roundings of a sum grow with the root of their number, so a gradient is off by at most
// kGradient = u * 60 * sqrt(48) relative to the largest entries of its tensor, and so are a loss and a norm,
// which average over many.
//
// An update moves a weight by rate * m / (sqrt(v) + eps). An error d in the gradient's entries changes that
// by at most rate * d * (1 / eps + 1 / eps): directly, and through the root, whose quotient with m is at
// most 1. So after kSteps updates with rates of at most kPeak the weights are off by at most weight_bound.
// Their errors have signs of their own, so a later loss is off by about the gradient's norm (at most 5 here)
// times that, and a later gradient norm, relative to itself, by about as much: ten times weight_bound leaves
// room for two and a half times the expected.
constexpr double kUnit = 0x1p-24;
const double kGradient = kUnit * 60 * std::sqrt(48.0);

double weight_bound(const Numbers& expected) {
  return kSteps * kPeak * 2 * (expected.largest_entry * kGradient) / kAdamEps;
}

TEST_P(Reference, LossesNormsRatesAndWeightsAreThoseOfThePlainFormulas) {
  const auto [pp, tied] = GetParam();
  const Numbers got = train(pp, tied);
  const Numbers expected = train_plainly(tied, *source());

  const auto largest = std::ranges::max_element(expected.norms),
             least = std::ranges::min_element(expected.norms);
  EXPECT_GT(*largest, 1.02 * max_norm(tied)) << "no step is clipped";
  EXPECT_LT(*least, 0.98 * max_norm(tied)) << "every step is clipped";
  EXPECT_LT(*largest, 5.0) << "the bounds take it for granted";
  const double weights_off = weight_bound(expected);

  ASSERT_EQ(got.losses.size(), static_cast<size_t>(kSteps));
  for (size_t i = 0; i < expected.losses.size(); ++i) {
    SCOPED_TRACE(::testing::Message() << "step " << i + 1);
    const double later = i == 0 ? 0 : 10 * weights_off;
    EXPECT_NEAR(got.losses[i], expected.losses[i], kGradient * expected.losses[i] + later);
    EXPECT_NEAR(got.norms[i], expected.norms[i], kGradient * expected.norms[i] + later * expected.norms[i]);
    EXPECT_NEAR(got.rates[i], expected.rates[i], 1e-12);
  }
  ASSERT_EQ(got.evaluations.size(), 1u);
  EXPECT_NEAR(got.evaluations[0], expected.evaluations[0],
              kGradient * expected.evaluations[0] + 10 * weights_off);

  std::vector<std::string> names, wanted;
  for (const auto& [name, values] : got.weights) names.push_back(name);
  for (const auto& [name, shape] : shapes(tied)) wanted.push_back(name);
  ASSERT_EQ(names, wanted);
  for (const auto& [name, values] : expected.weights) {
    EXPECT_EQ(got.weights.at(name).sizes(), values.sizes()) << name;
    EXPECT_LE((got.weights.at(name).to(at::kDouble) - values).abs().max().item<double>(), weights_off)
        << name;
  }
}

INSTANTIATE_TEST_SUITE_P(PipelinesAndTies, Reference,
                         ::testing::Combine(::testing::Values(1, 2), ::testing::Bool()));

}  // namespace
}  // namespace braid::train
