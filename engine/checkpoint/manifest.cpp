#include "engine/checkpoint/manifest.h"

#include <algorithm>
#include <map>

#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/files.h"

namespace trainer::checkpoint {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "trainer checkpoint";
constexpr int64_t kVersion = 1;

json to_json(const SavedTensor& tensor) {
  json pieces = json::array();
  for (const SavedPiece& p : tensor.pieces)
    pieces.push_back({{"file", p.file}, {"entry", p.entry}, {"begin", p.begin}, {"end", p.end}, {"crc32c", p.crc32c}});
  return {{"kind", tensor.kind}, {"name", tensor.name}, {"shape", tensor.shape}, {"pieces", std::move(pieces)}};
}

SavedTensor tensor_from(const json& from) {
  SavedTensor tensor{from.at("kind"), from.at("name"), from.at("shape"), {}};
  for (const json& p : from.at("pieces")) {
    SavedPiece piece{p.at("file"), p.at("entry"), p.at("begin"), p.at("end"), p.at("crc32c")};
    if (piece.file.find('/') != std::string::npos)
      throw InputError("piece of {} lies outside the checkpoint: '{}'", tensor.name, piece.file);
    tensor.pieces.push_back(std::move(piece));
  }
  return tensor;
}

/// Every element of every tensor exactly once.
void check_complete(const SavedTensor& tensor) {
  int64_t numel = 1, next = 0;
  for (const int64_t size : tensor.shape) numel *= size;
  auto pieces = tensor.pieces;
  std::sort(pieces.begin(), pieces.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  for (const SavedPiece& piece : pieces) {
    if (piece.begin != next || piece.end < piece.begin) break;
    next = piece.end;
  }
  if (next != numel)
    throw InputError("{} of {} is incomplete: elements {} of {} are there", tensor.kind, tensor.name, next, numel);
}

json progress_json(const Progress& p) {
  return {{"step", p.step},
          {"consumed_samples", p.consumed},
          {"global_batch_size", p.global_batch},
          {"optimizer_steps", p.optimizer_steps},
          {"loss_since_log", p.loss_since_log},
          {"updates_since_log", p.updates_since_log},
          {"tokens", p.tokens}};
}

}  // namespace

std::string to_json(const Manifest& m) {
  json tensors = json::array();
  for (const SavedTensor& tensor : m.tensors) tensors.push_back(to_json(tensor));
  const json all = {{"format", kFormat},          {"version", kVersion},      {"progress", progress_json(m.progress)},
                    {"world_size", m.world_size}, {"seed", m.seed},           {"samples_per_epoch", m.samples},
                    {"strategy", m.strategy},     {"optimizer", m.optimizer}, {"tensors", std::move(tensors)}};
  return all.dump(1) + "\n";
}

Manifest read_manifest(const std::string& folder) {
  const std::string path = folder + "/manifest.json";
  const json all = json::parse(read_file(path), nullptr, false);
  if (!all.is_object() || all.value("format", json()) != kFormat)
    throw InputError("{}: not the manifest of a checkpoint.", path);
  try {
    if (all.at("version").get<int64_t>() > kVersion)
      throw InputError("written by a newer version (format {}; this one reads {})", all.at("version").dump(), kVersion);
    const json& p = all.at("progress");
    Manifest m{{p.at("step"), p.at("consumed_samples"), p.at("global_batch_size"), p.at("optimizer_steps"),
                p.at("loss_since_log"), p.at("updates_since_log"), p.at("tokens")},
               all.at("world_size"),
               all.at("seed"),
               all.at("samples_per_epoch"),
               all.at("strategy"),
               all.at("optimizer"),
               {}};
    for (const json& tensor : all.at("tensors")) {
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

std::string pieces_to_text(const std::vector<SavedTensor>& tensors) {
  json all = json::array();
  for (const SavedTensor& tensor : tensors) all.push_back(to_json(tensor));
  return all.dump();
}

void merge_pieces(const std::string& text, std::vector<SavedTensor>& into) {
  std::map<std::pair<std::string, std::string>, size_t> place;
  for (size_t i = 0; i < into.size(); ++i) place[{into[i].kind, into[i].name}] = i;
  for (const json& entry : json::parse(text)) {
    SavedTensor tensor = tensor_from(entry);
    const auto [at, is_new] = place.try_emplace({tensor.kind, tensor.name}, into.size());
    if (is_new) {
      into.push_back(std::move(tensor));
    } else {
      auto& pieces = into[at->second].pieces;
      pieces.insert(pieces.end(), tensor.pieces.begin(), tensor.pieces.end());
    }
  }
}

}  // namespace trainer::checkpoint
