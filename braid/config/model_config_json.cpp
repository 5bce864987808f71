#include "braid/config/model_config_json.h"

#include <utility>

#include "braid/base/text.h"
#include "braid/config/json.h"
#include "braid/config/model_config_keys.h"

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

  /// Whether the key is there, be it null.
  bool has(const char* key) const { return value_.contains(key); }
  auto items() const { return value_.items(); }

  std::string name(const char* key) const { return cat(where_, ": ", key); }
  const std::string& where() const { return where_; }

 private:
  const json& value_;
  std::string where_;
};

constexpr std::string_view kKinds = "braid supports default, linear and llama3";

void require_known_keys(const Object& object, RopeType type) {
  for (const auto& [key, value] : object.items()) {
    const bool common = key == "rope_type" || key == "type" || key == "rope_theta" ||
                        key == "partial_rotary_factor" || value.is_null();
    // Without scaling, factor has no effect but at 1; original_max_position_embeddings never has one there.
    const bool scaled = key == "original_max_position_embeddings" ||
                        (key == "factor" && (type != RopeType::kDefault || value == 1));
    const bool llama3 = type == RopeType::kLlama3 && (key == "low_freq_factor" || key == "high_freq_factor");
    if (common || scaled || llama3) continue;
    require<ConfigError>(!value.is_object(), object.where(), " has settings of its own for ", printable(key),
                         "; braid's layers all have the same RoPE");
    throw ConfigError(cat(object.where(), ": ", escaped(key), " is ", json_text(value),
                          ", which RoPE of this type has no use for; remove it, or correct the type (",
                          kKinds, ")"));
  }
}

RopeType rope_type_of(const Object& object) {
  const auto new_name = object.text("rope_type");
  const auto old_name = object.text("type");
  require<ConfigError>(!new_name || !old_name || *new_name == *old_name, object.where(), ": rope_type ",
                       escaped(new_name.value_or("")), " and type ", escaped(old_name.value_or("")),
                       " disagree");
  const std::string type = new_name ? *new_name : old_name.value_or("default");
  if (type == "default") return RopeType::kDefault;
  if (type == "linear") return RopeType::kLinear;
  require<ConfigError>(type == "llama3", object.name("rope_type"), " is ", escaped(type), "; ", kKinds);
  return RopeType::kLlama3;
}

RopeScaling rope_scaling_from(const Object& object) {
  const RopeType type = rope_type_of(object);
  const double rotary = object.real("partial_rotary_factor").value_or(1);
  require<ConfigError>(rotary == 1, object.name("partial_rotary_factor"), " is ", to_text(rotary),
                       "; braid rotates whole heads (1)");
  require_known_keys(object, type);
  if (type == RopeType::kDefault) return {};
  if (type == RopeType::kLinear) return {.type = type, .factor = object.required_real("factor")};
  const auto original = object.integer("original_max_position_embeddings");
  require<ConfigError>(original.has_value(), object.name("original_max_position_embeddings"),
                       " is missing; this kind of RoPE needs it");
  return {.type = type,
          .factor = object.required_real("factor"),
          .low_freq_factor = object.required_real("low_freq_factor"),
          .high_freq_factor = object.required_real("high_freq_factor"),
          .original_max_position_embeddings = *original};
}

// transformers 4 writes rope_theta and rope_scaling, 5 writes both into rope_parameters, and some files have
// all three.
void read_rope(const Object& object, ModelConfig& config) {
  std::optional<double> theta = object.real("rope_theta");
  std::optional<RopeScaling> scaling;
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const json* found = object.find(key);
    if (found == nullptr) continue;
    const Object rope(*found, object.name(key));
    const RopeScaling read = rope_scaling_from(rope);
    if (scaling && *scaling != read) {
      throw ConfigError(cat(object.where(), ": rope_scaling ", json_text(*found), " and rope_parameters ",
                            json_text(*object.find("rope_parameters")),
                            " disagree; remove the one that does not hold"));
    }
    scaling = read;
    const auto inner = rope.real("rope_theta");
    require<ConfigError>(!inner || !theta || *inner == *theta, rope.name("rope_theta"), " is ",
                         to_text(inner.value_or(0)), " but elsewhere in the file ",
                         to_text(theta.value_or(0)));
    if (inner) theta = inner;
  }
  if (scaling) config.rope_scaling = *scaling;
  if (theta) config.rope_theta = *theta;
}

void read_attention_window(const Object& object, ModelConfig& config) {
  config.sliding_window = object.integer("sliding_window");
  if (!object.boolean("use_sliding_window").value_or(true)) config.sliding_window.reset();
  const json* types = object.find("layer_types");
  if (types == nullptr) return;
  for (const json& type : types->is_array() ? *types : json::array({*types})) {
    require<ConfigError>(type == "full_attention", object.name("layer_types"), " has ", json_text(type),
                         "; braid's layers all have full attention");
  }
}

// What the file says of its weights' dtype must be one thing: it decides how transformers reads them.
void check_dtype(const Object& object) {
  const auto new_name = object.text("dtype");
  const auto old_name = object.text("torch_dtype");
  require<ConfigError>(!new_name || !old_name || *new_name == *old_name, object.where(), ": dtype ",
                       escaped(new_name.value_or("")), " and torch_dtype ", escaped(old_name.value_or("")),
                       " disagree; remove the one that does not hold");
  const std::string name = new_name ? *new_name : old_name.value_or("float32");
  require<ConfigError>(name == "float32" || name == "bfloat16" || name == "float16", object.name("dtype"),
                       " is ", escaped(name), "; braid supports float32, bfloat16 and float16");
}

void read_token_ids(const Object& object, ModelConfig& config) {
  // A null, or -1 in the files of some releases, means none; an absent key the default.
  const auto one = [&](const char* key, std::optional<int64_t>& id) {
    if (!object.has(key)) return;
    id = object.integer(key);
    if (id == -1) id.reset();
  };
  one("bos_token_id", config.bos_token_id);
  one("pad_token_id", config.pad_token_id);
  if (!object.has("eos_token_id")) return;
  config.eos_token_id.clear();
  const json* eos = object.find("eos_token_id");
  if (eos == nullptr) return;
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
  require_llama(parsed, file_name);
  const std::string activation = object.text("hidden_act").value_or("silu");
  require<ConfigError>(activation == "silu" || activation == "swish", object.name("hidden_act"), " is ",
                       escaped(activation), "; braid supports silu");
  check_dtype(object);

  ModelConfig config;
  config.other_keys = other_keys(parsed, file_name);
  const auto integer = [&](const char* key, int64_t& field) {
    if (!object.has(key)) return;
    const auto number = object.integer(key);
    require<ConfigError>(number.has_value(), object.name(key), " must be a whole number, got null");
    field = *number;
  };
  const auto real = [&](const char* key, double& field) {
    if (!object.has(key)) return;
    const auto number = object.real(key);
    require<ConfigError>(number.has_value(), object.name(key), " must be a number, got null");
    field = *number;
  };
  integer("vocab_size", config.vocab_size);
  integer("hidden_size", config.hidden_size);
  integer("intermediate_size", config.intermediate_size);
  integer("num_hidden_layers", config.num_hidden_layers);
  integer("num_attention_heads", config.num_attention_heads);
  config.num_key_value_heads = object.integer("num_key_value_heads").value_or(config.num_attention_heads);
  config.head_dim = config.num_attention_heads > 0 ? config.hidden_size / config.num_attention_heads : 0;
  config.head_dim = object.integer("head_dim").value_or(config.head_dim);
  integer("max_position_embeddings", config.max_position_embeddings);
  real("initializer_range", config.initializer_range);
  real("rms_norm_eps", config.rms_norm_eps);
  config.tie_word_embeddings = object.boolean("tie_word_embeddings").value_or(config.tie_word_embeddings);
  read_rope(object, config);
  read_attention_window(object, config);
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
  ordered_json object = {
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
  if (config.sliding_window) object["sliding_window"] = *config.sliding_window;
  for (const auto& [key, value] : config.other_keys) object[key] = ordered_json::parse(value);
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
