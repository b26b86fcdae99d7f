#include "engine/weights/megatron_source.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <set>

#include <fmt/ranges.h>

#include <ATen/ops/equal.h>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/first_problems.h"
#include "engine/tensorfile/dtype.h"
#include "engine/weights/foreign_checkpoint.h"
#include "models/llama/model.h"

namespace trainer::checkpoint {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kMaxTracker = 64;  // bytes

/// The folder of the iteration that the tracker names.
fs::path newest_iteration(const fs::path& folder) {
  std::string said = read_file(folder / kMegatronTracker, kMaxTracker);
  said.erase(said.find_last_not_of(" \n\r\t") + 1);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(said.data(), said.data() + said.size(), number);
  if (said != "release" && (error != std::errc{} || end != said.data() + said.size() || number < 0))
    throw InputError("{} must contain a number or 'release'; it contains {}", (folder / kMegatronTracker).string(),
                     tensorfile::shown_name(said));
  const fs::path iteration = folder / (said == "release" ? said : fmt::format("iter_{:07}", number));
  if (!fs::is_directory(iteration))
    throw InputError("{} is missing, but {} names it\n  copy the whole folder", iteration.string(), kMegatronTracker);
  return iteration;
}

/// The last numbers of mp_rank_TT and mp_rank_TT_PPP, plus one.
MegatronDegrees degrees_by_names(const fs::path& iteration) {
  MegatronDegrees degrees{0, 0};
  for (const auto& entry : fs::directory_iterator(iteration)) {
    const std::string name = entry.path().filename().string();
    int rank = 0, stage = 0;
    if (std::sscanf(name.c_str(), "mp_rank_%4d_%4d", &rank, &stage) < 1 || rank < 0 || stage < 0) continue;
    degrees.tensor = std::max<int64_t>(degrees.tensor, rank + 1);
    degrees.pipeline = std::max<int64_t>(degrees.pipeline, stage + 1);
  }
  if (degrees.tensor == 0)
    throw InputError("{} has no mp_rank_00 or mp_rank_00_000{}", iteration.string(), foreign_checkpoint(iteration));
  return degrees;
}

/// A link must stay in the folder, as in engine/tensorfile/tensor_folder.cpp.
void check_inside(const fs::path& folder, const fs::path& file) {
  const fs::path home = fs::weakly_canonical(folder), target = fs::weakly_canonical(file);
  if (std::mismatch(home.begin(), home.end(), target.begin(), target.end()).first != home.end())
    throw InputError("{} is a link out of its folder, to {}: it is not followed\n  copy the file into the folder",
                     file.string(), target.string());
}

/// The number of ranks in the file's metadata; `otherwise` if it has none.
int64_t count_in(const tensorfile::SafetensorsFile& file, const char* key, int64_t otherwise) {
  for (const auto& [name, value] : file.metadata()) {
    int64_t number = 0;
    if (name == key && std::from_chars(value.data(), value.data() + value.size(), number).ec == std::errc{} &&
        number > 0 && number < 10'000)
      return number;
  }
  return otherwise;
}

/// The number of layers of a stage.
int64_t layers_in(const tensorfile::SafetensorsFile& file) {
  std::set<std::string> layers;
  constexpr std::string_view kPrefix = "decoder.layers.";
  for (const std::string& name : file.names())
    if (name.starts_with(kPrefix))
      layers.insert(name.substr(kPrefix.size(), name.find('.', kPrefix.size()) - kPrefix.size()));
  return static_cast<int64_t>(layers.size());
}

/// Calls f(rank, offset in its tensor, offset in the whole, count) for each contiguous range of the elements
/// [begin, end) of a weight with rows of `width`.
template <class F>
void for_each_stretch(const MegatronPlace& place, int64_t width, int64_t begin, int64_t end, const F& f) {
  for (const MegatronPlace::Block& block : place.blocks) {
    const bool whole_rows = block.columns == width;
    const int64_t stretches = whole_rows ? 1 : block.rows, length = whole_rows ? block.rows * width : block.columns;
    for (int64_t i = 0; i < stretches; ++i) {
      const int64_t whole = (block.row + i) * width + block.column, there = (block.at + i) * block.columns;
      const int64_t from = std::max(begin, whole), to = std::min(end, whole + length);
      if (from < to) f(block.rank, there + from - whole, from, to - from);
    }
  }
}

int64_t width_of(const nn::Shape& shape) {
  return shape.size() == 2 ? shape[1] : 1;
}

const models::llama::Config& config_of(models::Model& model, const fs::path& folder) {
  const auto* const llama = dynamic_cast<models::llama::LlamaModel*>(&model);
  if (llama != nullptr && has_megatron_layout(llama->config().dialect.model_type)) return llama->config();
  throw InputError("{}: Megatron's layout is supported for LLaMA's architecture only; its config.json is of {}.",
                   folder.string(), model.class_name());
}

}  // namespace

bool is_megatron(const fs::path& folder) {
  std::error_code none;
  return fs::exists(folder / kMegatronTracker, none);
}

std::string megatron_rank_folder(int64_t rank, int64_t stage, bool pipeline) {
  return pipeline ? fmt::format("mp_rank_{:02}_{:03}", rank, stage) : fmt::format("mp_rank_{:02}", rank);
}

MegatronSource::MegatronSource(const fs::path& folder, models::Model& model, uint64_t seed)
    : folder_(folder), seed_source_(seed) {
  const models::llama::Config& config = config_of(model, folder);
  open(newest_iteration(folder));
  lay_out(config);
}

void MegatronSource::open(const fs::path& iteration) {
  degrees_ = degrees_by_names(iteration);
  const bool staged = !fs::is_directory(iteration / megatron_rank_folder(0, 0, false));
  for (int64_t stage = 0; stage < degrees_.pipeline; ++stage)
    for (int64_t rank = 0; rank < degrees_.tensor; ++rank) {
      const fs::path place = iteration / megatron_rank_folder(rank, stage, staged), path = place / kMegatronFile;
      if (!fs::exists(path)) {
        const std::string foreign = foreign_checkpoint(place);
        throw InputError("{} is missing{}", path.string(),
                         foreign.empty()
                             ? fmt::format(": tensor parallel {} and pipeline parallel {} need {} files",
                                           degrees_.tensor, degrees_.pipeline, degrees_.tensor * degrees_.pipeline)
                             : foreign);
      }
      check_inside(folder_, path);
      files_.push_back(std::make_unique<tensorfile::SafetensorsFile>(path));
      if (files_.size() > 1) continue;
      degrees_ = {count_in(*files_[0], kMegatronTensor, degrees_.tensor),
                  count_in(*files_[0], kMegatronPipeline, degrees_.pipeline)};
    }
}

void MegatronSource::lay_out(const models::llama::Config& config) {
  std::vector<int64_t> stages;
  int64_t layers = 0;
  for (int64_t stage = 0; stage < degrees_.pipeline; ++stage) {
    stages.push_back(layers_in(*files_.at(static_cast<size_t>(stage * degrees_.tensor))));
    layers += stages.back();
  }
  if (layers != config.layers)
    throw InputError(
        "{}: its {} stages have {} layers ({}); config.json says {}.\n  A stage is missing, or the config.json "
        "belongs to another model.",
        folder_.string(), degrees_.pipeline, layers, fmt::join(stages, " + "), config.layers);
  if (const std::string problem = MegatronLayout::problem(config, {degrees_.tensor, 1}); !problem.empty())
    throw InputError("{}: {}.\n  The config.json belongs to another model.", folder_.string(), problem);
  const auto* const embedding = files_.front()->find("embedding.word_embeddings.weight");
  const int64_t padded = embedding == nullptr || embedding->shape.empty() ? 0 : embedding->shape[0] * degrees_.tensor;
  layout_.emplace(config, degrees_.tensor, stages, padded);
}

std::string MegatronSource::name_in(const tensorfile::SafetensorsFile& file, const MegatronPlace& place) {
  if (file.find(place.name) != nullptr) return place.name;
  return !place.other_name.empty() && file.find(place.other_name) != nullptr ? place.other_name : "";
}

std::optional<MegatronPlace> MegatronSource::place_of(const nn::Parameter& parameter) const {
  return layout_->place(parameter.copy_of.empty() ? parameter.name : parameter.copy_of, parameter.whole_shape());
}

nn::Storage MegatronSource::storage(const nn::Parameter& parameter) const {
  const auto place = place_of(parameter);
  if (!place) return at::kFloat;
  const tensorfile::SafetensorsFile& first = file(0, place->stage);
  return first.info(name_in(first, *place)).dtype->type;
}

void MegatronSource::read(const nn::Parameter& parameter, int64_t begin, int64_t end, const at::Tensor& out) const {
  const auto place = place_of(parameter);
  if (!place) return seed_source_.read(parameter, begin, end, out);  // check() allowed it
  for_each_stretch(*place, width_of(parameter.whole_shape()), begin, end,
                   [&](int64_t rank, int64_t there, int64_t whole, int64_t count) {
                     const tensorfile::SafetensorsFile& its = file(rank, place->stage);
                     out.narrow(0, whole - begin, count).copy_(its.read(name_in(its, *place), there, there + count));
                   });
}

std::vector<std::string> MegatronSource::check(models::Model& model) const {
  std::vector<std::string> problems, from_scratch;
  for (const nn::ParameterPtr& p : model.all_parameters()) {
    const auto place = place_of(*p);
    if (!place && model.may_be_initialized(p->name)) from_scratch.push_back(p->name);
    if (!place && !model.may_be_initialized(p->name))
      problems.push_back(fmt::format("{} has no place in Megatron's layout", p->name));
    for (int64_t rank = 0; place && rank < degrees_.tensor; ++rank) {
      const tensorfile::SafetensorsFile& its = file(rank, place->stage);
      const std::string name = name_in(its, *place);
      const auto* const info = name.empty() ? nullptr : its.find(name);
      if (info == nullptr)
        problems.push_back(fmt::format("{}: {} is missing", its.path().string(), place->name));
      else if (info->shape != place->shape)
        problems.push_back(fmt::format("{}: {} is [{}]; config.json implies [{}]", its.path().string(), name,
                                       fmt::join(info->shape, ", "), fmt::join(place->shape, ", ")));
      else if (!at::isFloatingType(info->dtype->type))
        problems.push_back(
            fmt::format("{}: {} holds {}, not a float type", its.path().string(), name, info->dtype->name));
    }
    const int64_t rows = p->whole_shape().at(0);
    if (place && p->name == "model.embed_tokens.weight" && rows > place->shape[0] * degrees_.tensor)
      problems.push_back(fmt::format("{}: {} has {} rows on {} ranks; config.json says {} tokens",
                                     file(0, 0).path().string(), place->name, place->shape[0] * degrees_.tensor,
                                     degrees_.tensor, rows));
  }
  if (!problems.empty())
    throw InputError("{}: its weights are not those of the model in its config.json:{}", folder_.string(),
                     first_problems(problems));
  check_tied(model);
  return from_scratch;
}

/// Checks that the last stage's copy of a tied embedding is equal to it.
void MegatronSource::check_tied(models::Model& model) const {
  for (const nn::ParameterPtr& p : model.all_parameters())
    for (const std::string& alias : p->aliases) {
      const auto own = layout_->place(p->name, p->whole_shape()), copy = layout_->place(alias, p->whole_shape());
      for (const MegatronPlace::Block& block : copy ? copy->blocks : std::vector<MegatronPlace::Block>{}) {
        const tensorfile::SafetensorsFile &first = file(block.rank, own->stage), &last = file(block.rank, copy->stage);
        if (last.find(copy->name) == nullptr) continue;
        const int64_t count = block.rows * block.columns;
        if (last.info(copy->name).numel() < count ||
            !at::equal(first.read(own->name, 0, count), last.read(copy->name, 0, count)))
          throw InputError(
              "{}: {} differs from {} of {}; config.json says that they are tied (tie_word_embeddings).\n  Set "
              "tie_word_embeddings: false there if they are not.",
              last.path().string(), copy->name, own->name, first.path().string());
      }
    }
}

}  // namespace trainer::checkpoint
