#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/base/human.h"
#include "engine/base/listed.h"
#include "engine/config/adapters/adapter_kind.h"
#include "engine/config/tables.h"
#include "engine/train/check/check_report.h"

namespace trainer::train {
namespace {

constexpr size_t kColumns = 80, kLabel = 14;

/// Lines with a label before the first one.
class Page {
 public:
  void section(const std::string& label) { label_ = label; }
  void line(const std::string& text) {
    text_ += fmt::format("{:<{}}{}\n", label_, kLabel, text);
    label_.clear();
  }
  /// Wraps the text at word boundaries.
  void words(const std::string& text) {
    std::string rest = text;
    while (kLabel + rest.size() > kColumns) {
      const size_t space = rest.rfind(' ', kColumns - kLabel);
      if (space == std::string::npos || space == 0) break;
      line(rest.substr(0, space));
      rest.erase(0, space + 1);
    }
    line(rest);
  }
  void gap() { text_ += "\n"; }
  std::string text() { return std::move(text_); }

 private:
  std::string label_, text_;
};

/// "encoder.block.3.layer.0.q" -> "encoder.block.*.layer.*.q": the common pattern of similar layers.
std::string pattern_of(const std::string& path) {
  std::string pattern, part;
  for (const char c : path + ".") {
    if (c != '.') {
      part += c;
      continue;
    }
    const bool number = !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    pattern += (pattern.empty() ? "" : ".") + (number ? "*" : part);
    part.clear();
  }
  return pattern;
}

/// The first element that satisfies `is`; else appends `fresh`, so rows stay in order of first appearance.
template <class T, class F>
T& one_of(std::vector<T>& rows, const F& is, T fresh) {
  const auto found = std::find_if(rows.begin(), rows.end(), is);
  return found != rows.end() ? *found : rows.emplace_back(std::move(fresh));
}

/// The beginning and the end of a long name.
std::string shortened(const std::string& name) {
  constexpr size_t kHead = 15, kTail = 17;  // "encoder.block.*…*.SelfAttention.q"
  if (name.size() <= kHead + 1 + kTail) return fmt::format("{:<{}}", name, kHead + 1 + kTail);
  return name.substr(0, kHead) + "…" + name.substr(name.size() - kTail);
}

void add_size(Page& page, const ModelReport& model) {
  page.section("model");
  const std::string trained =
      model.trained == model.parameters
          ? "all trained"
          : fmt::format("{} trained ({:.2f} %)", human_count(model.trained), 100.0 * model.trained / model.parameters);
  page.words(fmt::format("{}: {} parameters, {}", model.class_name, human_count(model.parameters), trained));
}

void add_model(Page& page, const ModelReport& model) {
  add_size(page, model);
  if (!model.packed_as.empty())
    page.words(fmt::format("stored as {}: {} with {} parameters", model.packed_as,
                           counted(model.packed_layers, "layer", "layers"), human_count(model.packed)));
  for (const auto& names : model.tied) page.words(fmt::format("tied: {}", fmt::join(names, ", ")));
}

/// "LORA, r 8, alpha 16, dropout 0".
std::string adapter_summary(const config::LoraConfig& lora) {
  const config::AdapterKind* kind = config::find_adapter_kind(lora.peft_type);
  std::string text = lora.peft_type;
  if (kind->takes("r")) text += fmt::format(", r {}", lora.r);
  if (kind->takes("lora_alpha")) text += fmt::format(", alpha {:g}, dropout {:g}", lora.lora_alpha, lora.lora_dropout);
  return text;
}

void add_lora(Page& page, const CheckReport& report) {
  if (report.lora.empty()) return;
  page.gap();
  struct Kind {
    std::string pattern, shape;
    int64_t layers = 0, trained = 0;
  };
  std::vector<Kind> kinds;
  int64_t trained = 0;
  for (const LoraTarget& t : report.lora) {
    const std::string pattern = pattern_of(t.name), shape = fmt::format("{} x {}", t.out, t.in);
    Kind& kind = one_of(
        kinds, [&](const Kind& k) { return k.pattern == pattern && k.shape == shape; }, Kind{pattern, shape});
    ++kind.layers;
    kind.trained += t.trained;
    trained += t.trained;
  }
  const config::LoraConfig& lora = report.lora_options;
  page.section("adapters");
  page.line(fmt::format("{} on {}: {} parameters", adapter_summary(lora),
                        counted(static_cast<int64_t>(report.lora.size()), "layer", "layers"), human_count(trained)));
  page.line(fmt::format("{} {:>6} {:>14} {:>8}", shortened("layer"), "number", "shape", "trained"));
  for (const Kind& kind : kinds)
    page.line(fmt::format("{} {:>6} {:>14} {:>8}", shortened(kind.pattern), kind.layers, kind.shape,
                          human_count(kind.trained)));
}

void add_units(Page& page, const std::vector<UnitReport>& units) {
  if (units.empty()) return;
  page.gap();
  struct Kind {
    std::string name, class_name;
    int64_t number = 0, parameters = 0, bytes = 0;  // the largest one's
  };
  std::vector<Kind> kinds;
  for (const UnitReport& unit : units) {
    const std::string name = pattern_of(unit.name);
    Kind& kind = one_of(
        kinds, [&](const Kind& k) { return k.name == name && k.class_name == unit.class_name; },
        Kind{name, unit.class_name});
    ++kind.number;
    kind.parameters = std::max(kind.parameters, unit.parameters);
    kind.bytes = std::max(kind.bytes, unit.bytes);
  }
  page.section("FSDP units");
  page.line(fmt::format("{:<20} {:<19} {:>6} {:>9} {:>8}", "unit", "class", "number", "elements", "each"));
  for (const Kind& kind : kinds)
    page.line(fmt::format("{:<20} {:<19} {:>6} {:>9} {:>8}", kind.name,
                          kind.name == "the root" ? "everything else" : kind.class_name, kind.number,
                          human_count(kind.parameters), human_bytes(kind.bytes)));
}

/// "longest: 8 samples, 312 + 24 tokens", the batch with the most tokens.
std::string longest_batch(const LongestBatches& longest) {
  const auto sum = [](const std::vector<int64_t>& of) { return std::accumulate(of.begin(), of.end(), int64_t{0}); };
  const auto all = [&](const BatchLengths& b) { return sum(b.source) + sum(b.target); };
  const auto most = std::max_element(longest.batches.begin(), longest.batches.end(),
                                     [&](const auto& a, const auto& b) { return all(a) < all(b); });
  if (most == longest.batches.end()) return "";
  return fmt::format("longest: {}, {} + {} tokens", counted(most->source.size(), "sample", "samples"),
                     sum(most->source), sum(most->target));
}

/// The fraction of the model that a rank stores.
std::string share_of(const dist::Degrees& degrees, int64_t stage) {
  const int64_t split = degrees.shard * degrees.tensor;
  const std::string share = split > 1 ? fmt::format("this rank's 1/{}", split) : "";
  if (degrees.pipeline == 1) return share;
  return fmt::format("{}stage {} of {}", split > 1 ? share + " of " : "", stage + 1, degrees.pipeline);
}

void add_memory(Page& page, const CheckReport& report, const config::Plan& plan) {
  const MemoryPlan& m = report.memory;
  const auto part = [&](const char* name, int64_t bytes, const std::string& about = "") {
    page.line(fmt::format("{:<16}{:>9}{}{}", name, human_bytes(bytes), about.empty() ? "" : "   ", about));
  };
  page.section("memory");
  page.line(report.run.ranks == 1 ? "tensors, at most:" : "tensors of one rank, at most:");
  part("weights", m.weights, share_of(report.run.degrees, m.stage));
  part("gradients", m.gradients);
  part("optimizer", m.optimizer);
  part("activations", m.activations, longest_batch(report.longest));
  if (m.communication > 0) part("communication", m.communication, "gathered units, gradients in flight");
  part("training", m.training(), "all of the above");
  if (m.evaluation > 0) part("evaluating", m.evaluation);
  part("saving", m.saving);
  if (m.host > 0)
    part("host memory", m.host,
         config::offloads(plan.config) ? "in addition: what is offloaded" : "in addition: the copy that is saved");
  if (!m.attention.empty()) page.words("attention: " + m.attention);
  if (!report.on_gpus) return part("peak", m.peak(), "plus some 110 MiB for the program");
  part("peak", m.peak(), "plus the memory of CUDA and NCCL");
  if (report.gpu)
    part("for tensors", report.gpu->usable,
         fmt::format("of the {} of {}", human_bytes(report.gpu->memory.bytes), report.gpu->memory.name));
}

/// "1.27 s", "35.2 ms".
std::string duration(double seconds) {
  return seconds < 1 ? fmt::format("{:.1f} ms", 1e3 * seconds) : fmt::format("{:.3g} s", seconds);
}

void add_parts(Page& page, const Roofline& found) {
  constexpr double kTera = 1e12, kGiga = 1e9;
  page.line(fmt::format("{:<27}{:>7}{:>8}{:>11}{:>11}", "a GPU's update", "launches", "TFLOP", "GB", "time"));
  for (size_t i = 0; i < kParts; ++i) {
    const PartCost& part = found.update.parts[i];
    page.line(fmt::format("{:<27}{:>7.0f}{:>8.2f}{:>11.1f}{:>11}", name_of(static_cast<Part>(i)), part.launches,
                          part.flops / kTera, part.bytes / kGiga, duration(part.seconds)));
  }
  for (const TransferCost& transfer : found.update.transfers)
    page.line(fmt::format("{:<27}{:>7.0f}{:>8}{:>11.1f}{:>11}",
                          fmt::format("{} of {}", name_of(transfer.kind), counted(transfer.ranks, "rank", "ranks")),
                          transfer.count, "", transfer.bytes / kGiga, duration(transfer.seconds)));
}

/// The predicted speed on other GPUs.
void add_speed(Page& page, const Roofline& found) {
  const auto gpus = static_cast<double>(found.gpus);
  const auto speed_of = [&](const Speed& speed) {
    return fmt::format("{:.0f} tokens/s on each GPU, MFU {:.1f} %", speed.tokens_per_second / gpus, 100 * speed.mfu);
  };
  page.section("speed");
  page.line(fmt::format("on {} {}{}, a prediction (docs/gpu.md):", found.gpus, found.cluster.card.name,
                        found.gpus > found.cluster.gpus_per_machine
                            ? fmt::format(" in {} machines", found.gpus / found.cluster.gpus_per_machine)
                            : ""));
  page.line(speed_of(found.speed));
  page.line(fmt::format("{} an update of {} tokens, in {}", duration(found.speed.seconds), found.tokens,
                        counted(found.micro_batches, "micro-batch", "micro-batches")));
  if (found.with_flash_attention.seconds < 0.95 * found.speed.seconds)
    page.line("with flash attention " + speed_of(found.with_flash_attention));
  add_parts(page, found);
  const Cost& update = found.update;
  page.line(fmt::format("waiting for collectives {}, for the host {}{}", duration(update.exposed),
                        duration(update.starved),
                        found.bubble > 0 ? fmt::format(", for other stages {}", duration(found.bubble)) : ""));
}

void add_reference(Page& page, const ReferenceReport& found) {
  page.section("reference");
  const std::string pairs =
      found.pairs > 0 ? fmt::format("{} ({} tokens)", counted(found.pairs, "pair", "pairs"), human_count(found.tokens))
                      : "all pairs";
  page.words(fmt::format("before the first update, a forward pass over {}, by the model that the run starts from{}",
                         pairs, found.seconds ? fmt::format(": {}", duration(*found.seconds)) : ""));
  page.words("no second model in memory: " +
             (found.bytes > 0 ? human_bytes(found.bytes) + " for its log-probabilities" : "16 bytes for each pair"));
  page.gap();
}

std::string bar_label(const LengthReport::Bar& bar) {
  return bar.from == bar.to ? std::to_string(bar.from) : fmt::format("{}-{}", bar.from, bar.to);
}

/// The bars of a histogram, each at most 32 columns wide and filled up to that.
std::vector<std::string> bars_of(const char* name, const LengthReport& lengths) {
  constexpr size_t kWidth = 32, kBar = 12;
  std::vector<std::string> lines{
      fmt::format("{:<{}}", fmt::format("{} tokens, mean {:.0f}", name, lengths.mean), kWidth)};
  int64_t most = 1;
  for (const auto& bar : lengths.histogram) most = std::max(most, bar.samples);
  for (const auto& bar : lengths.histogram) {
    const auto length = static_cast<size_t>(
        std::ceil(static_cast<double>(kBar) * static_cast<double>(bar.samples) / static_cast<double>(most)));
    std::string drawn;
    for (size_t i = 0; i < length; ++i) drawn += "█";
    lines.push_back(fmt::format("{:>9} {:>7} {}{:{}}", bar_label(bar), bar.samples, drawn, "", kWidth - 18 - length));
  }
  return lines;
}

/// "3 classes: garden, ship, shop"; if there are many, the first ones and the last.
std::string classes_text(const std::vector<std::string>& classes) {
  constexpr size_t kMost = 20;
  const size_t shown = classes.size() > kMost ? kMost - 1 : classes.size();
  std::string text = fmt::format("{}: {}", counted(static_cast<int64_t>(classes.size()), "class", "classes"),
                                 fmt::join(classes.begin(), classes.begin() + static_cast<ptrdiff_t>(shown), ", "));
  return shown < classes.size() ? fmt::format("{}, …, {}", text, classes.back()) : text;
}

void add_data(Page& page, const DataReport& data) {
  page.section("data");
  page.words(fmt::format("{}, {} tokens, {} truncated; {} for validation", counted(data.samples, "sample", "samples"),
                         human_count(data.tokens), data.cut_off == 0 ? "none" : std::to_string(data.cut_off),
                         data.validation_samples));
  if (!data.classes.empty()) page.words(classes_text(data.classes));
  std::vector<std::string> left = bars_of("source", data.source), right = bars_of("target", data.target);
  const std::string blank(32, ' ');
  left.resize(std::max(left.size(), right.size()), blank);
  right.resize(left.size());
  for (size_t i = 0; i < left.size(); ++i) {
    std::string both = left[i] + "  " + right[i];
    both.erase(both.find_last_not_of(' ') + 1);
    page.line(both);
  }
}

/// How the ranks divide the work, if not by data parallelism alone.
void add_mesh(Page& page, const RunReport& run) {
  const dist::Degrees& mesh = run.degrees;
  const std::pair<int64_t, const char*> axes[] = {{mesh.tensor, "split each layer (tensor parallel)"},
                                                  {mesh.context, "split each sequence (context parallel)"},
                                                  {mesh.pipeline, "pipeline stages"},
                                                  {mesh.shard, "shard one copy of the weights"},
                                                  {mesh.replicate, "replicas, with different samples"}};
  if (run.data_ranks == run.ranks) return;
  page.section("ranks");
  for (const auto& [size, what] : axes)
    if (size > 1) page.line(fmt::format("{:>3} {}", size, what));
}

void add_run(Page& page, const RunReport& run) {
  page.section("updates");
  std::string batch = fmt::format("{} each: ", counted(run.length.global_batch, "sample", "samples"));
  if (run.data_ranks > 1) batch += fmt::format("{} ranks x ", run.data_ranks);
  if (run.accumulation > 1) batch += fmt::format("{} accumulated x ", run.accumulation);
  page.line(fmt::format("{}up to {}", batch, run.per_device));
  if (run.epochs > 0)
    page.line(fmt::format("{} per epoch, {} in {:g} epochs", run.length.updates_per_epoch, run.length.updates,
                          std::round(run.epochs * 100) / 100));
  else if (run.length.updates > 0)
    page.line(fmt::format("{} in total", run.length.updates));
  if (run.length.left_out > 0)
    page.line(fmt::format("each epoch leaves out {}", counted(run.length.left_out, "sample", "samples")));
  if (run.learning_rate.empty()) return;
  std::string head, update, rate;
  for (const auto& point : run.learning_rate) {
    head += fmt::format("{:>10}", fmt::format("{} %", point.percent));
    update += fmt::format("{:>10}", point.update);
    rate += fmt::format("{:>10}", fmt::format("{:.3g}", point.value));
  }
  page.section("learning rate");
  page.line(fmt::format("{:<8}{}", "of run", head));
  page.line(fmt::format("{:<8}{}", "update", update));
  page.line(fmt::format("{:<8}{}", "rate", rate));
}

void add_devices(Page& page, const std::vector<std::string>& devices) {
  if (devices.empty()) return;
  page.section("devices");
  for (const std::string& text : devices) page.words(text);
  page.gap();
}

void add_missing(Page& page, const std::vector<std::string>& missing) {
  if (missing.empty()) return;
  page.gap();
  page.section("missing");
  for (const std::string& text : missing) page.words(text);
}

/// Where the plan differs from the file.
void add_notes(Page& page, const config::Plan& plan) {
  auto each = [&](const std::string& label, const auto& notes, const auto& text_of) {
    if (notes.empty()) return;
    page.gap();
    page.section(label);
    for (const auto& note : notes) page.words(text_of(note));
  };
  auto key_of = [](const config::Note& note) { return fmt::format("{}: {}", note.key, note.value); };
  each("understood", plan.translated,
       [&](const config::Note& note) { return fmt::format("{} becomes {}", key_of(note), note.text); });
  each("no effect", plan.without_effect,
       [&](const config::Note& note) { return fmt::format("{}: {}", key_of(note), note.text); });
  each("warning", plan.warnings, [](const std::string& warning) { return warning; });
}

/// What a run comes to, in four lines.
void add_brief(Page& page, const CheckReport& report) {
  const DataReport& data = report.data;
  const RunReport& run = report.run;
  add_size(page, report.model);
  page.section("data");
  page.line(data.samples == 0 ? "unknown"
                              : fmt::format("{} to train on, {} for validation",
                                            counted(data.samples, "sample", "samples"), data.validation_samples));
  page.section("memory");
  page.words(fmt::format(
      "{} at most for the tensors of {}{}", human_bytes(report.memory.peak()),
      run.ranks == 1 ? "the process" : fmt::format("each of {} ranks", run.ranks),
      report.gpu ? fmt::format(", of the {} of {}", human_bytes(report.gpu->memory.bytes), report.gpu->memory.name)
                 : ""));
  page.section("updates");
  const std::string batch = counted(run.length.global_batch, "sample", "samples");
  if (run.epochs > 0)
    page.line(fmt::format("{} of {}: {} per epoch, {:g} epochs", run.length.updates, batch,
                          run.length.updates_per_epoch, std::round(run.epochs * 100) / 100));
  else
    page.line(fmt::format("{} of {}", run.length.updates > 0 ? std::to_string(run.length.updates) : "?", batch));
}

}  // namespace

std::string to_brief(const CheckReport& report, const config::Plan& plan) {
  Page page;
  add_brief(page, report);
  for (const std::string& warning : plan.warnings) {
    page.section("warning");
    page.words(warning);
  }
  return page.text();
}

std::string to_text(const CheckReport& report, const config::Plan& plan) {
  Page page;
  add_model(page, report.model);
  add_lora(page, report);
  add_units(page, report.units);
  page.gap();
  add_memory(page, report, plan);
  page.gap();
  if (report.roofline) {
    add_speed(page, *report.roofline);
    page.gap();
  }
  if (report.reference) add_reference(page, *report.reference);
  if (report.data.samples > 0) {
    add_data(page, report.data);
    page.gap();
  }
  add_devices(page, report.devices);
  add_mesh(page, report.run);
  add_run(page, report.run);
  add_missing(page, report.missing);
  add_notes(page, plan);
  page.gap();
  page.line("In short");  // what a screen of 24 lines shows of a long page
  add_brief(page, report);
  return page.text();
}

}  // namespace trainer::train
