#include "braid/config/model_config_json.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "braid/base/text.h"
#include "braid/config/json.h"

namespace braid::config {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// The members of one JSON object, read with messages that name the file and the key. A null counts as absent.
class Object {
 public:
  Object(const json& value, std::string where) : value_(value), where_(std::move(where)) {
    require<ConfigError>(value.is_object(), where_, " must be an object, got ", json_text(value));
  }

  const json* find(const char* key) const {
    const auto found = value_.find(key);
    return found == value_.end() || found->is_null() ? nullptr : &*found;
  }

  std::optional<int64_t> integer(const char* key) const {
    const json* found = find(key);
    if (found == nullptr) return std::nullopt;
    const auto number = json_int(*found);
    require<ConfigError>(number.has_value(), name(key), " must be a whole number, got ", json_text(*found));
    return number;
  }

  std::optional<double> real(const char* key) const {
    const json* found = find(key);
    if (found == nullptr) return std::nullopt;
    require<ConfigError>(found->is_number(), name(key), " must be a number, got ", json_text(*found));
    return found->get<double>();
  }

  std::optional<bool> boolean(const char* key) const {
    const json* found = find(key);
    if (found == nullptr) return std::nullopt;
    require<ConfigError>(found->is_boolean(), name(key), " must be true or false, got ", json_text(*found));
    return found->get<bool>();
  }

  std::optional<std::string> text(const char* key) const {
    const json* found = find(key);
    if (found == nullptr) return std::nullopt;
    require<ConfigError>(found->is_string(), name(key), " must be a string, got ", json_text(*found));
    return found->get<std::string>();
  }

  double required_real(const char* key) const {
    const auto number = real(key);
    require<ConfigError>(number.has_value(), name(key), " is missing; this kind of RoPE needs it");
    return *number;
  }

  std::string name(const char* key) const { return cat(where_, ": ", key); }
  const std::string& where() const { return where_; }

 private:
  const json& value_;
  std::string where_;
};

void require_llama(const Object& object) {
  const auto type = object.text("model_type");
  require<ConfigError>(!type || *type == "llama", object.name("model_type"), " is ", type.value_or(""),
                       "; braid supports the llama architecture");
  const json* architectures = object.find("architectures");
  require<ConfigError>(type || architectures != nullptr, object.where(),
                       " has neither model_type nor architectures: is it a model's config.json?");
  if (architectures == nullptr) return;
  const std::string text = json_text(*architectures);
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  // LlamaForCausalLM, its old spelling LLaMAForCausalLM, and PaddleNLP's LlamaForPretraining.
  require<ConfigError>(lower.find("\"llamafor") != lower.npos, object.name("architectures"), " is ", text,
                       "; braid supports LlamaForCausalLM");
}

// Settings of LlamaConfig that change what is computed, each with the only value that braid supports.
void reject_unsupported_settings(const Object& object) {
  for (const char* key : {"attention_bias", "mlp_bias"}) {
    require<ConfigError>(!object.boolean(key).value_or(false), object.name(key),
                         " is true; braid's linear layers have no biases");
  }
  const double dropout = object.real("attention_dropout").value_or(0);
  require<ConfigError>(dropout == 0, object.name("attention_dropout"), " is ", to_text(dropout),
                       "; braid trains without dropout: set it to 0");
  const std::string activation = object.text("hidden_act").value_or("silu");
  require<ConfigError>(activation == "silu" || activation == "swish", object.name("hidden_act"), " is ",
                       activation, "; braid supports silu");
  require<ConfigError>(object.find("quantization_config") == nullptr, object.name("quantization_config"),
                       " is set; braid requires unquantised weights");
}

RopeScaling rope_scaling_from(const Object& object) {
  const auto new_name = object.text("rope_type");
  const auto old_name = object.text("type");
  require<ConfigError>(!new_name || !old_name || *new_name == *old_name, object.where(), ": rope_type ",
                       new_name.value_or(""), " and type ", old_name.value_or(""), " disagree");
  const std::string type = new_name ? *new_name : old_name.value_or("default");
  const double rotary = object.real("partial_rotary_factor").value_or(1);
  require<ConfigError>(rotary == 1, object.name("partial_rotary_factor"), " is ", to_text(rotary),
                       "; braid rotates whole heads (1)");
  if (type == "default") return {};
  if (type == "linear") return {.type = RopeType::kLinear, .factor = object.required_real("factor")};
  require<ConfigError>(type == "llama3", object.name("rope_type"), " is ", type,
                       "; braid supports default, linear and llama3");
  const auto original = object.integer("original_max_position_embeddings");
  require<ConfigError>(original.has_value(), object.name("original_max_position_embeddings"),
                       " is missing; this kind of RoPE needs it");
  return {.type = RopeType::kLlama3,
          .factor = object.required_real("factor"),
          .low_freq_factor = object.required_real("low_freq_factor"),
          .high_freq_factor = object.required_real("high_freq_factor"),
          .original_max_position_embeddings = *original};
}

// transformers 4 writes rope_theta and rope_scaling; 5 writes both into rope_parameters, where
// rope_scaling takes precedence.
void read_rope(const Object& object, ModelConfig& config) {
  std::optional<double> theta = object.real("rope_theta");
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const json* found = object.find(key);
    if (found == nullptr) continue;
    const Object rope(*found, object.name(key));
    config.rope_scaling = rope_scaling_from(rope);
    const auto inner = rope.real("rope_theta");
    require<ConfigError>(!inner || !theta || *inner == *theta, rope.name("rope_theta"), " is ",
                         to_text(inner.value_or(0)), " but elsewhere in the file ",
                         to_text(theta.value_or(0)));
    if (inner) theta = inner;
  }
  const double rotary = object.real("partial_rotary_factor").value_or(1);
  require<ConfigError>(rotary == 1, object.name("partial_rotary_factor"), " is ", to_text(rotary),
                       "; braid rotates whole heads (1)");
  if (theta) config.rope_theta = *theta;
}

void read_token_ids(const Object& object, ModelConfig& config) {
  const auto one = [&](const char* key, std::optional<int64_t>& id) {
    if (object.find(key) == nullptr) return;
    id = object.integer(key);
    // Some releases write -1 for none.
    if (*id == -1) id.reset();
  };
  one("bos_token_id", config.bos_token_id);
  one("pad_token_id", config.pad_token_id);
  const json* eos = object.find("eos_token_id");
  if (eos == nullptr) return;
  config.eos_token_id.clear();
  for (const json& item : eos->is_array() ? *eos : json::array({*eos})) {
    const auto id = json_int(item);
    require<ConfigError>(id.has_value(), object.name("eos_token_id"),
                         " must be a whole number or a list of them, got ", json_text(*eos));
    if (*id != -1) config.eos_token_id.push_back(*id);
  }
}

ordered_json rope_object(const ModelConfig& config) {
  const RopeScaling& rope = config.rope_scaling;
  switch (rope.type) {
    case RopeType::kDefault:
      return {{"rope_type", "default"}};
    case RopeType::kLinear:
      return {{"rope_type", "linear"}, {"factor", rope.factor}};
    case RopeType::kLlama3:
      return {{"rope_type", "llama3"},
              {"factor", rope.factor},
              {"low_freq_factor", rope.low_freq_factor},
              {"high_freq_factor", rope.high_freq_factor},
              {"original_max_position_embeddings", rope.original_max_position_embeddings}};
  }
  throw InternalError("unknown RopeType");
}

}  // namespace

ModelConfig model_config_from_json(std::string_view text, std::string_view file_name) {
  const json parsed = parse_json(text, file_name);
  const Object object(parsed, std::string(file_name));
  require_llama(object);
  reject_unsupported_settings(object);

  ModelConfig config;
  const auto integer = [&](const char* key, int64_t& field) { field = object.integer(key).value_or(field); };
  integer("vocab_size", config.vocab_size);
  integer("hidden_size", config.hidden_size);
  integer("intermediate_size", config.intermediate_size);
  integer("num_hidden_layers", config.num_hidden_layers);
  integer("num_attention_heads", config.num_attention_heads);
  config.num_key_value_heads = config.num_attention_heads;
  integer("num_key_value_heads", config.num_key_value_heads);
  config.head_dim = config.num_attention_heads > 0 ? config.hidden_size / config.num_attention_heads : 0;
  integer("head_dim", config.head_dim);
  integer("max_position_embeddings", config.max_position_embeddings);
  config.initializer_range = object.real("initializer_range").value_or(config.initializer_range);
  config.rms_norm_eps = object.real("rms_norm_eps").value_or(config.rms_norm_eps);
  config.tie_word_embeddings = object.boolean("tie_word_embeddings").value_or(config.tie_word_embeddings);
  read_rope(object, config);
  read_token_ids(object, config);
  try {
    validate(config);
  } catch (const ConfigError& error) {
    throw ConfigError(cat(file_name, ": ", error.what()));
  }
  return config;
}

std::string model_config_to_json(const ModelConfig& config, std::string_view dtype) {
  require<ConfigError>(dtype == "float32" || dtype == "bfloat16" || dtype == "float16",
                       "dtype must be float32, bfloat16 or float16, got ", dtype);
  validate(config);
  const auto id_or_null = [](const std::optional<int64_t>& id) {
    return id ? ordered_json(*id) : ordered_json();
  };
  ordered_json eos = config.eos_token_id;
  if (config.eos_token_id.empty()) eos = nullptr;
  if (config.eos_token_id.size() == 1) eos = config.eos_token_id.front();
  const ordered_json rope = rope_object(config);
  ordered_json parameters = rope;
  parameters["rope_theta"] = config.rope_theta;
  const ordered_json object = {
      {"architectures", ordered_json::array({"LlamaForCausalLM"})},
      {"model_type", "llama"},
      {"vocab_size", config.vocab_size},
      {"hidden_size", config.hidden_size},
      {"intermediate_size", config.intermediate_size},
      {"num_hidden_layers", config.num_hidden_layers},
      {"num_attention_heads", config.num_attention_heads},
      {"num_key_value_heads", config.num_key_value_heads},
      {"head_dim", config.head_dim},
      {"hidden_act", "silu"},
      {"max_position_embeddings", config.max_position_embeddings},
      {"initializer_range", config.initializer_range},
      {"rms_norm_eps", config.rms_norm_eps},
      {"rope_theta", config.rope_theta},
      {"rope_scaling", config.rope_scaling.type == RopeType::kDefault ? ordered_json() : rope},
      {"rope_parameters", parameters},
      {"attention_bias", false},
      {"attention_dropout", 0.0},
      {"mlp_bias", false},
      {"tie_word_embeddings", config.tie_word_embeddings},
      {"bos_token_id", id_or_null(config.bos_token_id)},
      {"eos_token_id", eos},
      {"pad_token_id", id_or_null(config.pad_token_id)},
      {"use_cache", true},
      {"torch_dtype", dtype},
      {"dtype", dtype},
  };
  return object.dump(2) + "\n";
}

RopeScaling rope_scaling_from_json(std::string_view text, std::string_view name) {
  if (trim(text) == "none" || trim(text) == "null") return {};
  const json parsed = parse_json(text, name);
  const Object object(parsed, std::string(name));
  require<ConfigError>(object.find("rope_theta") == nullptr, object.name("rope_theta"),
                       " is a separate option");
  return rope_scaling_from(object);
}

}  // namespace braid::config
