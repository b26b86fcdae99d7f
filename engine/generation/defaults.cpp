#include "engine/generation/defaults.h"

#include <cmath>

#include "engine/base/bounded_json.h"
#include "engine/base/files.h"
#include "engine/base/log.h"

namespace trainer::generation {
namespace {

using nlohmann::json;

constexpr int64_t kMaxFile = int64_t{1} << 20;
constexpr int64_t kNewTokens = 256;  // transformers generates 20 by default, which no one wants

/// generation_config.json; an empty object if there is none.
class ModelDefaults {
 public:
  explicit ModelDefaults(const std::filesystem::path& folder) : file_(folder / "generation_config.json") {
    if (!std::filesystem::exists(file_)) return;
    values_ = bounded_json_or_none(read_file(file_, kMaxFile));
    if (!values_.is_object()) throw InputError("{}: not a JSON object.", file_.string());
  }

  double number(const char* key, double otherwise, double least, double most) const {
    const auto found = values_.find(key);
    if (found == values_.end() || found->is_null()) return otherwise;
    const double value = found->is_number() ? found->get<double>() : std::nan("");
    if (!(value >= least && value <= most))
      throw InputError("{}: {} is {}, but must be a number from {} to {}.", file_.string(), key, found->dump(), least,
                       most);
    return value;
  }
  /// transformers' early_stopping; by default, false.
  evaluation::Beams::Stop stop() const {
    using Stop = evaluation::Beams::Stop;
    const auto found = values_.find("early_stopping");
    if (found == values_.end() || found->is_null()) return Stop::kHeuristic;
    if (found->is_boolean()) return found->get<bool>() ? Stop::kWhenFull : Stop::kHeuristic;
    if (*found == "never") return Stop::kNever;
    throw InputError("{}: early_stopping is {}, but must be true, false or \"never\".", file_.string(), found->dump());
  }
  bool flag(const char* key) const {
    const auto found = values_.find(key);
    return found != values_.end() && found->is_boolean() && found->get<bool>();
  }
  std::vector<int64_t> ids(const char* key) const {
    const auto found = values_.find(key);
    std::vector<int64_t> all;
    if (found == values_.end()) return all;
    for (const json& id : found->is_array() ? *found : json::array({*found}))
      if (id.is_number_integer()) all.push_back(id.get<int64_t>());
    return all;
  }

 private:
  std::filesystem::path file_;
  json values_ = json::object();
};

evaluation::Beams beams_for(const ModelDefaults& model, const config::GenerateRequest& asked) {
  using Stop = evaluation::Beams::Stop;
  evaluation::Beams beams;
  beams.count = asked.num_beams.value_or(static_cast<int64_t>(model.number("num_beams", 1, 1, 1000)));
  beams.length_penalty = asked.length_penalty.value_or(model.number("length_penalty", 1, -100, 100));
  beams.stop = model.stop();
  if (asked.early_stopping)
    beams.stop = *asked.early_stopping == "true"    ? Stop::kWhenFull
                 : *asked.early_stopping == "never" ? Stop::kNever
                                                    : Stop::kHeuristic;
  if (beams.count == 1 && (asked.length_penalty || asked.early_stopping))
    log::warning("length_penalty and early_stopping have no effect without beam search: give --num_beams, for example 4");
  return beams;
}

}  // namespace

evaluation::Generation generation_for(const std::filesystem::path& folder, const config::GenerateRequest& asked) {
  const ModelDefaults model(folder);
  const bool searches = asked.num_beams.value_or(1) > 1;
  const bool samples = asked.temperature ? *asked.temperature > 0 : model.flag("do_sample") && !searches;
  evaluation::Generation made;
  evaluation::Sampling& how = made.sampling;
  how.seed = asked.seed;
  how.repetition_penalty = asked.repetition_penalty.value_or(model.number("repetition_penalty", 1, 1e-3, 1e3));
  made.max_new_tokens =
      asked.max_new_tokens.value_or(static_cast<int64_t>(model.number("max_new_tokens", kNewTokens, 1, 1e9)));
  made.end_tokens = model.ids("eos_token_id");
  if (!samples) made.beams = beams_for(model, asked);
  if (samples) {
    how.temperature = asked.temperature.value_or(model.number("temperature", 1, 1e-6, 1e6));
    how.top_k = asked.top_k.value_or(static_cast<int64_t>(model.number("top_k", 0, 0, 1e9)));
    how.top_p = asked.top_p.value_or(model.number("top_p", 1, 1e-9, 1));
    how.min_p = asked.min_p.value_or(model.number("min_p", 0, 0, 1));
  } else if (asked.top_k || asked.top_p || asked.min_p) {
    log::warning("top_k, top_p and min_p have no effect on the most likely token: give --temperature, for example 1");
  }
  return made;
}

}  // namespace trainer::generation
