#include <numeric>

#include <nlohmann/json.hpp>

#include "engine/train/check/check_report.h"

namespace trainer::train {
namespace {

using nlohmann::json;

json model_json(const ModelReport& model) {
  json quantized = nullptr;
  if (!model.packed_as.empty())
    quantized = {{"format", model.packed_as}, {"layers", model.packed_layers}, {"parameters", model.packed}};
  return {{"class", model.class_name},
          {"parameters", model.parameters},
          {"trained", model.trained},
          {"tied", model.tied},
          {"quantized", quantized}};
}

json lora_json(const CheckReport& report, const config::Plan& plan) {
  if (!plan.config.lora) return nullptr;
  json targets = json::array();
  for (const LoraTarget& t : report.lora)
    targets.push_back({{"name", t.name}, {"in", t.in}, {"out", t.out}, {"trained", t.trained}});
  const config::LoraConfig& lora = report.lora_options;
  return {{"r", lora.r}, {"alpha", lora.lora_alpha}, {"dropout", lora.lora_dropout}, {"targets", targets}};
}

json fsdp_json(const std::vector<UnitReport>& units) {
  if (units.empty()) return nullptr;
  json all = json::array();
  for (const UnitReport& unit : units)
    all.push_back(
        {{"name", unit.name}, {"class", unit.class_name}, {"parameters", unit.parameters}, {"bytes", unit.bytes}});
  return {{"units", all}};
}

json gpu_json(const std::optional<GpuReport>& gpu) {
  if (!gpu) return nullptr;
  json alternatives = json::array();
  for (const Alternative& other : gpu->alternatives)
    alternatives.push_back({{"change", other.change}, {"peak", other.peak}});
  return {{"name", gpu->memory.name},
          {"bytes", gpu->memory.bytes},
          {"usable", gpu->usable},
          {"fits", gpu->fits},
          {"alternatives", alternatives}};
}

json memory_json(const CheckReport& report) {
  const MemoryPlan& memory = report.memory;
  return {{"weights", memory.weights},
          {"gradients", memory.gradients},
          {"optimizer", memory.optimizer},
          {"activations", memory.activations},
          {"communication", memory.communication},
          {"training", memory.training()},
          {"evaluation", memory.evaluation},
          {"saving", memory.saving},
          {"peak", memory.peak()},
          {"attention", memory.attention},
          {"host", memory.host},
          {"device", report.on_gpus ? "gpu" : "cpu"},
          {"gpu", gpu_json(report.gpu)}};
}

json speed_of(const Speed& speed, int64_t gpus) {
  return {{"seconds", speed.seconds},
          {"tokens_per_second", speed.tokens_per_second},
          {"tokens_per_second_per_gpu", speed.tokens_per_second / static_cast<double>(gpus)},
          {"mfu", speed.mfu}};
}

json speed_json(const std::optional<Roofline>& roofline) {
  if (!roofline) return nullptr;
  const Cost& update = roofline->update;
  json parts = json::array(), transfers = json::array();
  for (size_t i = 0; i < kParts; ++i)
    parts.push_back({{"part", name_of(static_cast<Part>(i))},
                     {"launches", update.parts[i].launches},
                     {"flops", update.parts[i].flops},
                     {"bytes", update.parts[i].bytes},
                     {"seconds", update.parts[i].seconds}});
  for (const TransferCost& transfer : update.transfers)
    transfers.push_back({{"kind", name_of(transfer.kind)},
                         {"ranks", transfer.ranks},
                         {"machines", transfer.machines},
                         {"count", transfer.count},
                         {"bytes", transfer.bytes},
                         {"seconds", transfer.seconds}});
  const PartCost all = update.all_parts();
  json speed = speed_of(roofline->speed, roofline->gpus);
  speed.update({{"device", roofline->cluster.card.name},
                {"gpus", roofline->gpus},
                {"machines", roofline->gpus / roofline->cluster.gpus_per_machine},
                {"network", roofline->cluster.network},
                {"peak_flops", roofline->peak},
                {"tokens", roofline->tokens},
                {"micro_batches", roofline->micro_batches},
                {"model_flops", roofline->model_flops},
                {"with_flash_attention", speed_of(roofline->with_flash_attention, roofline->gpus)},
                {"computing_seconds", update.computing},
                {"exposed_communication_seconds", update.exposed},
                {"launch_seconds", update.starved},
                {"bubble_seconds", roofline->bubble},
                {"host_reads", update.host_reads},
                {"launches", all.launches},
                {"flops", all.flops},
                {"bytes", all.bytes},
                {"parts", parts},
                {"communication", transfers}});
  return speed;
}

json reference_json(const std::optional<ReferenceReport>& reference) {
  if (!reference) return nullptr;
  return {{"pairs", reference->pairs},
          {"tokens", reference->tokens},
          {"bytes", reference->bytes},
          {"seconds", reference->seconds ? json(*reference->seconds) : json()}};
}

json batches_json(const LongestBatches& longest) {
  const auto sum = [](const std::vector<int64_t>& lengths) {
    return std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  };
  json all = json::array();
  for (const BatchLengths& batch : longest.batches)
    all.push_back(
        {{"samples", batch.source.size()}, {"source_tokens", sum(batch.source)}, {"target_tokens", sum(batch.target)}});
  return all;
}

json lengths_json(const LengthReport& lengths) {
  json bars = json::array();
  for (const auto& bar : lengths.histogram)
    bars.push_back({{"from", bar.from}, {"to", bar.to}, {"samples", bar.samples}});
  return {{"shortest", lengths.shortest}, {"longest", lengths.longest}, {"mean", lengths.mean}, {"histogram", bars}};
}

json data_json(const DataReport& data) {
  return {{"samples", data.samples},
          {"tokens", data.tokens},
          {"cut_off", data.cut_off},
          {"validation_samples", data.validation_samples},
          {"classes", data.classes},
          {"source", lengths_json(data.source)},
          {"target", lengths_json(data.target)}};
}

json run_json(const RunReport& run) {
  json rates = json::array();
  for (const auto& rate : run.learning_rate)
    rates.push_back({{"percent", rate.percent}, {"update", rate.update}, {"value", rate.value}});
  const dist::Degrees& mesh = run.degrees;
  return {{"ranks", run.ranks},
          {"mesh",
           {{"replicate", mesh.replicate},
            {"shard", mesh.shard},
            {"context", mesh.context},
            {"tensor", mesh.tensor},
            {"pipeline", mesh.pipeline}}},
          {"per_device", run.per_device},
          {"accumulation", run.accumulation},
          {"global_batch", run.length.global_batch},
          {"updates_per_epoch", run.length.updates_per_epoch},
          {"left_out", run.length.left_out},
          {"updates", run.length.updates},
          {"epochs", run.epochs},
          {"learning_rate", rates}};
}

json notes_json(const std::vector<config::Note>& notes) {
  json list = json::array();
  for (const config::Note& note : notes) {
    list.push_back({{"key", note.key}, {"value", note.value}, {"origin", note.origin}, {"text", note.text}});
  }
  return list;
}

}  // namespace

json to_json(const CheckReport& report, const config::Plan& plan) {
  return {{"source", plan.source},
          {"model", model_json(report.model)},
          {"lora", lora_json(report, plan)},
          {"fsdp", fsdp_json(report.units)},
          {"memory", memory_json(report)},
          {"speed", speed_json(report.roofline)},
          {"reference", reference_json(report.reference)},
          {"longest_batches", batches_json(report.longest)},
          {"data", data_json(report.data)},
          {"run", run_json(report.run)},
          {"translated", notes_json(plan.translated)},
          {"without_effect", notes_json(plan.without_effect)},
          {"devices", report.devices},
          {"missing", report.missing},
          {"warnings", plan.warnings}};
}

}  // namespace trainer::train
