#include "engine/checkpoint/manifest.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include <nlohmann/json.hpp>

#include "engine/base/bounded_json.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"

namespace trainer::checkpoint {
namespace {

using nlohmann::json;

json to_json(const nn::Part& part) {
  json ranges = json::array();
  for (const nn::Range& range : part.ranges) ranges.push_back({range.begin, range.end});
  return {{"dim", part.dim}, {"ranges", std::move(ranges)}};
}

/// Errors: InputError when it isn't a part of a tensor of that shape.
nn::Part part_from(const json& from, const nn::Shape& whole) {
  nn::Part part{count_at(from, "dim"), {}};
  int64_t last = 0;
  for (const json& range : from.at("ranges"))
    part.ranges.push_back({count_of(range.at(0), "ranges"), count_of(range.at(1), "ranges")});
  bool fits = part.dim < static_cast<int64_t>(whole.size()) && !part.ranges.empty();
  for (const nn::Range& range : part.ranges) {
    fits = fits && range.begin >= last && range.end > range.begin;
    last = range.end;
  }
  if (!fits || last > whole[static_cast<size_t>(part.dim)])
    throw InputError("{} is not a part of a tensor of shape {}", from.dump(), json(whole).dump());
  return part;
}

json to_json(const SavedTensor& tensor) {
  json pieces = json::array();
  for (const SavedPiece& p : tensor.pieces) {
    pieces.push_back({{"file", p.file}, {"entry", p.entry}, {"begin", p.begin}, {"end", p.end}, {"crc32c", p.crc32c}});
    if (!p.part.whole()) pieces.back()["part"] = to_json(p.part);
  }
  return {{"kind", tensor.kind}, {"name", tensor.name}, {"shape", tensor.shape}, {"pieces", std::move(pieces)}};
}

/// Errors: InputError when the number of elements overflows 63 bits.
nn::Shape shape_from(const json& from) {
  nn::Shape shape;
  int64_t numel = 1;
  for (const json& size : from) {
    shape.push_back(count_of(size, "shape"));
    if (__builtin_mul_overflow(numel, std::max<int64_t>(shape.back(), 1), &numel))
      throw InputError("the shape {} has too many elements", from.dump().substr(0, 100));
  }
  return shape;
}

uint32_t crc32c_at(const json& piece) {
  const int64_t value = count_at(piece, "crc32c");
  if (value > std::numeric_limits<uint32_t>::max()) throw InputError("{} is not a 32-bit checksum", value);
  return static_cast<uint32_t>(value);
}

SavedTensor tensor_from(const json& from) {
  SavedTensor tensor{from.at("kind"), from.at("name"), shape_from(from.at("shape")), {}};
  for (const json& p : from.at("pieces")) {
    SavedPiece piece{p.at("file"), p.at("entry"), {}, count_at(p, "begin"), count_at(p, "end"), crc32c_at(p)};
    if (p.contains("part")) piece.part = part_from(p.at("part"), tensor.shape);
    if (piece.file.find('/') != std::string::npos)
      throw InputError("a shard of {} is outside the checkpoint: '{}'", tensor.name, piece.file);
    tensor.pieces.push_back(std::move(piece));
  }
  return tensor;
}

/// Checks that the shards cover every element of the tensor exactly once.
void check_complete(const SavedTensor& tensor) {
  int64_t numel = 1, next = 0;
  for (const int64_t size : tensor.shape) numel *= size;
  std::vector<nn::Run> runs;
  for (const SavedPiece& piece : tensor.pieces) {
    const auto its = nn::runs_of(piece.part, tensor.shape, piece.begin, piece.end);
    runs.insert(runs.end(), its.begin(), its.end());
  }
  std::sort(runs.begin(), runs.end(), [](const auto& a, const auto& b) { return a.whole < b.whole; });
  for (const nn::Run& run : runs) {
    if (run.whole < next)
      throw InputError("{} of {} has element {} more than once", tensor.kind, tensor.name, run.whole);
    if (run.whole > next) break;
    next += run.count;
  }
  if (next != numel)
    throw InputError("{} of {} is incomplete: it has {} of {} elements", tensor.kind, tensor.name, next, numel);
}

/// The size of the listed files in `folder`: an upper bound for a tensor's elements, whatever its shape says.
int64_t bytes_there(const std::string& folder, const std::vector<StoredFile>& files) {
  int64_t sum = 0;
  for (const StoredFile& file : files) {
    std::error_code error;
    const auto bytes = std::filesystem::file_size(std::filesystem::path(folder) / file.name, error);
    if (!error) sum += static_cast<int64_t>(bytes);
  }
  return sum;
}

void check_size(const nn::Shape& shape, int64_t most) {
  int64_t numel = 1;
  for (const int64_t size : shape) numel *= size;
  if (numel > most)
    throw InputError("a tensor of shape {} has more elements than the files have bytes ({})", json(shape).dump(), most);
}

json progress_json(const Progress& p) {
  return {{"step", p.step},
          {"consumed_samples", p.consumed},
          {"global_batch_size", p.global_batch},
          {"optimizer_steps", p.optimizer_steps},
          {"loss_since_log", p.loss_since_log},
          {"updates_since_log", p.updates_since_log},
          {"tokens", p.tokens},
          {"loss_scale",
           {{"scale", p.loss_scale.scale},
            {"clean_updates", p.loss_scale.clean},
            {"hysteresis_left", p.loss_scale.hysteresis_left},
            {"skipped_updates", p.loss_scale.skipped}}},
          {"losses", {{"seen", p.losses.seen}, {"mean", p.losses.mean}, {"variance", p.losses.variance}}},
          {"evaluations",
           {{"best", p.evaluations.best},
            {"improvements", p.evaluations.improvements},
            {"without_better", p.evaluations.without_better}}},
          {"rewards_since_log", p.rewards_since_log}};
}

/// Manifests of earlier versions have no loss scale.
optim::LossScaleState loss_scale_from(const json& progress) {
  if (!progress.contains("loss_scale")) return {};
  const json& from = progress.at("loss_scale");
  return {from.at("scale"), count_at(from, "clean_updates"), count_at(from, "hysteresis_left"),
          count_at(from, "skipped_updates")};
}

/// Manifests of earlier versions have no losses.
optim::LossWatchState losses_from(const json& progress) {
  if (!progress.contains("losses")) return {};
  const json& from = progress.at("losses");
  return {count_at(from, "seen"), from.at("mean"), from.at("variance")};
}

/// Manifests of earlier versions have no evaluations.
EvaluationsSoFar evaluations_from(const json& progress) {
  if (!progress.contains("evaluations")) return {};
  const json& from = progress.at("evaluations");
  return {from.at("best"), count_at(from, "improvements"), count_at(from, "without_better")};
}

/// Manifests of earlier versions have no rewards.
std::vector<double> rewards_from(const json& progress) {
  return progress.contains("rewards_since_log") ? progress.at("rewards_since_log").get<std::vector<double>>()
                                                : std::vector<double>();
}

/// `is_here`: the folder's files are on this machine.
Manifest parsed(const std::string& text, const std::string& folder, bool is_here) {
  const std::string path = folder + "/manifest.json";
  const json all = unsealed(text, path);
  try {
    const json& p = all.at("progress");
    Manifest m{{count_at(p, "step"), count_at(p, "consumed_samples"), count_at(p, "global_batch_size"),
                count_at(p, "optimizer_steps"), p.at("loss_since_log"), count_at(p, "updates_since_log"),
                count_at(p, "tokens"), loss_scale_from(p), losses_from(p), evaluations_from(p), rewards_from(p)},
               count_at(all, "world_size"),
               count_at(all, "seed"),
               count_at(all, "samples_per_epoch"),
               all.at("strategy"),
               all.at("optimizer"),
               all.at("metrics"),
               files_from(all.at("files")),
               {},
               conditions_from(all),
               classes_from(all),
               leader_epoch_from(all),
               all.contains("samples_left_out") ? count_at(all, "samples_left_out") : 0};
    check_step(folder, m.progress.step);
    const int64_t most = is_here ? bytes_there(folder, m.files) : std::numeric_limits<int64_t>::max();
    for (const json& tensor : all.at("tensors")) {
      check_size(shape_from(tensor.at("shape")), most);
      m.tensors.push_back(tensor_from(tensor));
      check_complete(m.tensors.back());
    }
    return m;
  } catch (const json::exception& error) {
    throw InputError("{}: {}", path, error.what());
  } catch (const InputError& error) {
    throw InputError("{}: {}", path, error.what());
  }
}

}  // namespace

std::string to_json(const Manifest& m) {
  json tensors = json::array();
  for (const SavedTensor& tensor : m.tensors) tensors.push_back(to_json(tensor));
  const json all = {{"format", kFormat},
                    {"version", kFormatVersion},
                    {"progress", progress_json(m.progress)},
                    {"world_size", m.world_size},
                    {"seed", m.seed},
                    {"samples_per_epoch", m.samples},
                    {"samples_left_out", m.left_out},
                    {"strategy", m.strategy},
                    {"optimizer", m.optimizer},
                    {"metrics", m.metrics},
                    {"conditions", m.conditions},
                    {"classes", m.classes},
                    {"leader_epoch", m.leader_epoch},
                    {"files", to_json(m.files)},
                    {"tensors", tensors}};
  return sealed(all.dump(1));
}

Manifest read_manifest(const std::string& folder) {
  return parsed(read_file(folder + "/manifest.json"), folder, /*is_here=*/true);
}

Manifest manifest_from(const std::string& text, const std::string& folder) {
  return parsed(text, folder, /*is_here=*/false);
}

std::string written_to_text(const std::vector<SavedTensor>& tensors, const std::vector<StoredFile>& files) {
  json all = json::array();
  for (const SavedTensor& tensor : tensors) all.push_back(to_json(tensor));
  return json{{"tensors", std::move(all)}, {"files", to_json(files)}}.dump();
}

void merge_written(const std::string& text, Manifest& into) {
  std::map<std::pair<std::string, std::string>, size_t> place;
  for (size_t i = 0; i < into.tensors.size(); ++i) place[{into.tensors[i].kind, into.tensors[i].name}] = i;
  const json written = bounded_json(text);
  for (const json& entry : written.at("tensors")) {
    SavedTensor tensor = tensor_from(entry);
    const auto [at, is_new] = place.try_emplace({tensor.kind, tensor.name}, into.tensors.size());
    if (is_new) {
      into.tensors.push_back(std::move(tensor));
    } else {
      auto& pieces = into.tensors[at->second].pieces;
      pieces.insert(pieces.end(), tensor.pieces.begin(), tensor.pieces.end());
    }
  }
  const auto files = files_from(written.at("files"));
  into.files.insert(into.files.end(), files.begin(), files.end());
}

}  // namespace trainer::checkpoint
