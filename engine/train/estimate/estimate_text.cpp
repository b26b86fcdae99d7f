#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "engine/train/estimate/estimate.h"

namespace trainer::train {
namespace {

using Json = nlohmann::ordered_json;
using Lines = std::vector<std::vector<std::string>>;

/// "438.7 MiB", "24.62 GiB".
std::string size_text(int64_t bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  return mib < 1024 ? fmt::format("{:.{}f} MiB", mib, mib < 10 ? 2 : 1) : fmt::format("{:.2f} GiB", mib / 1024);
}

std::string held_text(const std::optional<MemoryPlan>& memory) {
  return memory ? size_text(memory->held()) : "-";
}

std::string training_text(const std::optional<MemoryPlan>& memory) {
  return memory ? size_text(memory->training()) : "-";
}

/// The first `words` columns at the left, the others at the right.
std::string aligned(const Lines& lines, std::size_t words) {
  std::vector<std::size_t> widths(lines.front().size(), 0);
  for (const auto& line : lines)
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  std::string text;
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (i > 0) text += "  ";
      text += i < words ? fmt::format("{:<{}}", line[i], widths[i]) : fmt::format("{:>{}}", line[i], widths[i]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

std::string sample_text(const Estimate& estimate, const EstimateRequest& request) {
  const std::string samples = fmt::format("{} {}", request.batch_size, request.batch_size == 1 ? "sample" : "samples");
  if (estimate.source_length == 0) return samples;
  if (estimate.target_length == 0) return fmt::format("{} of {} tokens", samples, estimate.source_length);
  return fmt::format("{} of {} source and {} target tokens", samples, estimate.source_length, estimate.target_length);
}

std::string notes(const Estimate& estimate, const EstimateRequest& request) {
  std::string text = fmt::format(
      "largest layer: {}\n"
      "total size: every parameter in that dtype\n"
      "training: weights, gradients and AdamW's state; what is trained is stored in float32{}\n"
      "+ activations: the peak of training with {} at a time{},\n  with the layers of a {}{}\n",
      estimate.largest_layer,
      std::any_of(estimate.alone.begin(), estimate.alone.end(),
                  [](const EstimateRow& row) { return row.dtype == "int8"; })
          ? "; nothing is trained in int8"
          : "",
      sample_text(estimate, request), request.gradient_checkpointing ? " and gradient checkpointing" : "",
      request.on_gpus ? "GPU" : "CPU", request.ranks > 1 ? ", gathered units and communication included" : "");
  text += estimate.lora_rank > 0
              ? fmt::format("LoRA: on {}; the model's own weights in that dtype (int4: nf4, linear layers only)\n",
                            fmt::join(estimate.lora_targets, ", "))
              : fmt::format("LoRA: {}\n", estimate.why_no_lora);
  for (const EstimateRow& row : estimate.alone)
    if (!row.why_no_lora.empty()) text += fmt::format("LoRA in {}: {}\n", row.dtype, row.why_no_lora);
  return text;
}

Json parts_of(const std::optional<MemoryPlan>& memory) {
  if (!memory) return nullptr;
  return {{"weights", memory->weights},         {"gradients", memory->gradients},
          {"optimizer", memory->optimizer},     {"held", memory->held()},
          {"activations", memory->activations}, {"communication", memory->communication},
          {"training", memory->training()},     {"saving", memory->saving}};
}

}  // namespace

std::string to_text(const Estimate& estimate, const EstimateRequest& request) {
  const std::string lora = estimate.lora_rank > 0 ? fmt::format("LoRA r={}", estimate.lora_rank) : "LoRA";
  std::string text = fmt::format("{}: {}, {} parameters, {}\n\n", request.name, estimate.class_name,
                                 fmt::group_digits(estimate.parameters), estimate.task);
  Lines lines{{"dtype", "largest layer", "total size", "training (Adam)", "+ activations", lora, "+ activations"}};
  for (const EstimateRow& row : estimate.alone)
    lines.push_back({row.dtype, size_text(row.largest_layer), size_text(row.total), held_text(row.full),
                     training_text(row.full), held_text(row.lora), training_text(row.lora)});
  text += aligned(lines, 1);
  if (!estimate.sharded.empty()) {
    text += fmt::format("\nOf each of {} ranks:\n", request.ranks);
    lines = {{"strategy", "dtype", "training (Adam)", "+ activations", lora, "+ activations"}};
    for (const EstimateRow& row : estimate.sharded)
      lines.push_back({row.strategy, row.dtype, held_text(row.full), training_text(row.full), held_text(row.lora),
                       training_text(row.lora)});
    text += aligned(lines, 2);
  }
  text += "\n" + notes(estimate, request);
  if (request.ranks == 1) text += "--num_processes N adds the memory of each rank under DDP, FSDP and ZeRO.\n";
  return text;
}

Json to_json(const Estimate& estimate, const EstimateRequest& request) {
  Json json{{"model", request.name},
            {"class", estimate.class_name},
            {"task", estimate.task},
            {"parameters", estimate.parameters},
            {"batch_size", request.batch_size},
            {"source_length", estimate.source_length},
            {"target_length", estimate.target_length},
            {"gradient_checkpointing", request.gradient_checkpointing},
            {"device", request.on_gpus ? "gpu" : "cpu"},
            {"lora", nullptr},
            {"dtypes", Json::array()},
            {"strategies", Json::array()}};
  if (estimate.lora_rank > 0) json["lora"] = {{"r", estimate.lora_rank}, {"targets", estimate.lora_targets}};
  for (const EstimateRow& row : estimate.alone)
    json["dtypes"].push_back({{"dtype", row.dtype},
                              {"largest_layer", row.largest_layer},
                              {"total", row.total},
                              {"training", parts_of(row.full)},
                              {"lora", parts_of(row.lora)}});
  for (const EstimateRow& row : estimate.sharded)
    for (const std::string& name : row.names)
      json["strategies"].push_back({{"dtype", row.dtype},
                                    {"strategy", name},
                                    {"ranks", request.ranks},
                                    {"training", parts_of(row.full)},
                                    {"lora", parts_of(row.lora)}});
  return json;
}

}  // namespace trainer::train
