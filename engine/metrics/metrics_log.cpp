#include "engine/metrics/metrics_log.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <string_view>

#include <nlohmann/json.hpp>

#include "engine/base/bounded_json.h"
#include "engine/base/files.h"
#include "engine/base/log.h"

namespace trainer::metrics {
namespace {

/// Builds one line, members in the order they are added.
class JsonLine {
 public:
  JsonLine& add(const std::string& name, int64_t value) { return add_raw(name, fmt::format("{}", value)); }
  JsonLine& add(const std::string& name, const std::string& text) {
    return add_raw(name, nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  JsonLine& add(const std::string& name, const std::vector<int64_t>& values) {
    return add_raw(name, nlohmann::json(values).dump());
  }
  JsonLine& add(const std::string& name, double value) {
    if (!std::isfinite(value)) {
      add_raw(name, "null");
      return add(name + "_text", std::string(std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf"));
    }
    std::string text = fmt::format("{:.17g}", value);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";  // so that readers see a real number in every line
    return add_raw(name, text);
  }
  std::string take() { return "{" + members_ + "}\n"; }

 private:
  JsonLine& add_raw(const std::string& name, const std::string& json) {
    members_ += fmt::format("{}\"{}\":{}", members_.empty() ? "" : ",", name, json);
    return *this;
  }
  std::string members_;
};

/// `name` of each rank or, of many ranks, the smallest and the median; the largest has a member of its own.
void add_ranks(JsonLine& line, const std::string& name, std::vector<int64_t> values) {
  if (values.size() <= kMostRanksListed) {
    if (!values.empty()) line.add("rank_" + name, values);
    return;
  }
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  line.add(name + "_median", *middle).add(name + "_min", *std::min_element(values.begin(), middle));
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

struct Line {
  int64_t step = -1;  // -1: not a record
  bool is_evaluation = false;
};

Line read_line(std::string_view text) {
  const nlohmann::json json = bounded_json_or_none(text);
  if (!json.is_object()) return {};
  const auto step = json.find("step");
  if (step == json.end() || !step->is_number_unsigned()) return {};
  return {step->get<int64_t>(), !json.contains("order_digest") && !json.contains("event")};
}

/// The lines up to `last_step`, without that step's evaluation if it is repeated.
std::string lines_until(std::string_view content, int64_t last_step, bool evaluates_again,
                        const std::filesystem::path& path, int64_t& reached) {
  std::string kept;
  int64_t strange = 0;
  while (!content.empty()) {
    const size_t end = content.find('\n');
    if (end == std::string_view::npos) break;  // half-written: the process was killed inside a write
    const std::string_view text = content.substr(0, end);
    content.remove_prefix(end + 1);
    const Line line = read_line(text);
    if (line.step < 0) ++strange;
    reached = std::max(reached, line.step);
    if (line.step < 0 || line.step > last_step) continue;
    if (evaluates_again && line.is_evaluation && line.step == last_step) continue;
    kept.append(text).push_back('\n');
  }
  if (strange > 0) log::warning("{}: dropped {} lines that are not records", path.string(), strange);
  return kept;
}

/// Drops the lines that the resumed run writes again. Always makes a new file: an earlier process of the run, which was
/// paused and continues, then writes to the old one, which has no name.
std::filesystem::path rewound(const std::filesystem::path& path, int64_t resume_step, bool at_end, int64_t& reached) {
  std::error_code error;
  const bool exists = std::filesystem::exists(path, error);
  if (error) throw machine_error("read", path, error.value());
  if (exists) {
    const std::string content = resume_step > 0 ? read_file(path, std::numeric_limits<int64_t>::max()) : "";
    const std::string kept = lines_until(content, resume_step, at_end, path, reached);
    publish_file(path, kept);
  }
  return path;
}

}  // namespace

std::string to_json_line(const StepRecord& record) {
  JsonLine line;
  line.add("step", record.step)
      .add("epoch", record.epoch)
      .add("loss", record.loss)
      .add("grad_norm", record.grad_norm)
      .add("learning_rate", record.learning_rate)
      .add("tokens", record.tokens)
      .add("samples", record.samples)
      .add("tokens_per_second", record.tokens_per_second)
      .add("step_seconds", record.step_seconds)
      .add("data_wait_seconds", record.data_wait_seconds)
      .add("efficiency", record.efficiency)
      .add("memory_bytes", record.memory_bytes)
      .add("tensor_bytes", record.tensor_bytes)
      .add("order_digest", record.order_digest);
  if (record.loss_scale > 0) line.add("loss_scale", record.loss_scale).add("skipped_updates", record.skipped_updates);
  for (const auto& [phase, seconds] : record.phase_seconds) line.add(phase + "_seconds", seconds);
  if (record.peak_share > 0) line.add("peak_share", record.peak_share);
  for (const auto& [name, value] : record.rewards) line.add(name, value);
  add_ranks(line, "memory_bytes", record.rank_memory_bytes);
  add_ranks(line, "tensor_bytes", record.rank_tensor_bytes);
  return line.take();
}

std::string to_json_line(const DivergenceRecord& record) {
  JsonLine line;
  line.add("step", record.step)
      .add("diverged", std::string(record.back_to < 0 ? "skipped" : "rolled back"))
      .add("loss", record.loss)
      .add("grad_norm", record.grad_norm)
      .add("first_sample", record.first_sample)
      .add("end_sample", record.end_sample)
      .add("order_digest", record.order_digest);
  if (record.back_to >= 0) line.add("back_to_step", record.back_to);
  return line.take();
}

std::string to_json_line(const StragglerRecord& record) {
  JsonLine line;
  line.add("step", record.step)
      .add("straggler", std::string(record.over ? "over" : "slow"))
      .add("rank", static_cast<int64_t>(record.rank))
      .add("machine", static_cast<int64_t>(record.machine))
      .add("factor", record.factor);
  return line.take();
}

std::string to_json_line(const SaveRecord& record) {
  JsonLine line;
  line.add("step", record.step)
      .add("event", std::string(record.failed ? "save failed" : "saved"))
      .add("time", seconds_since_1970());
  return line.take();
}

std::string to_json_line(const StartRecord& record) {
  using Json = nlohmann::ordered_json;
  Json units = Json::array(), lengths = Json::object();
  for (const StartRecord::Unit& unit : record.units)
    units.push_back({{"name", unit.name}, {"class", unit.class_name}, {"parameters", unit.parameters}});
  for (const auto& [name, bars] : record.lengths)
    for (const StartRecord::Bar& bar : bars)
      lengths[name].push_back({{"from", bar.from}, {"to", bar.to}, {"samples", bar.samples}});
  Json line{{"step", record.step},
            {"event", record.step > 0 || record.reached >= 0 ? "resumed" : "started"},
            {"time", seconds_since_1970()},
            {"ranks", record.ranks},
            {"parameters", record.parameters},
            {"trained", record.trained},
            {"samples", record.samples},
            {"validation_samples", record.validation_samples},
            {"lengths", std::move(lengths)},
            {"units", std::move(units)}};
  if (record.reached >= 0) line["reached"] = record.reached;
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string to_json_line(const EvaluationRecord& record) {
  JsonLine line;
  line.add("step", record.step).add("epoch", record.epoch);
  for (const auto& [name, value] : record.values) line.add(name, value);
  return line.take();
}

MetricsLog::MetricsLog(const std::filesystem::path& path, int64_t resume_step, bool at_end)
    : file_(rewound(path, resume_step, at_end, reached_), 0) {}

void MetricsLog::write(const std::string& line) {
  file_.write(line);
}

}  // namespace trainer::metrics
