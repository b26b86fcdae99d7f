#include "engine/report/run_folder.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <optional>
#include <string_view>

#include "engine/base/bounded_json.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/config/document/document.h"
#include "engine/config/document/problems.h"

namespace trainer::report {
namespace fs = std::filesystem;
namespace {

/// Calls `use` with each line that is a JSON object. The last line may be half-written.
void for_each_object(const fs::path& file, const std::function<void(const nlohmann::json&)>& use) {
  std::ifstream in(file, std::ios::binary);
  for (std::string line; std::getline(in, line) && !in.eof();) {
    const nlohmann::json json = bounded_json_or_none(line);
    if (json.is_object()) use(json);
  }
}

std::string word(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

/// Keeps evaluations, events, and as many of the updates as kMostUpdates says.
class Records {
 public:
  void add(Record record) {
    if (record.is_event() || record.is_evaluation()) return records_.push_back(std::move(record));
    last_.reset();
    if (seen_++ % stride_ != 0) {
      last_ = std::move(record);
      return;
    }
    records_.push_back(std::move(record));
    if (++updates_ > kMostUpdates) halve();
  }
  std::vector<Record> take() {
    if (last_) records_.push_back(std::move(*last_));
    return std::move(records_);
  }

 private:
  void halve() {
    int64_t index = 0;
    std::erase_if(records_, [&](const Record& record) {
      return !record.is_event() && !record.is_evaluation() && index++ % 2 == 1;
    });
    updates_ = (updates_ + 1) / 2;
    stride_ *= 2;
  }

  std::vector<Record> records_;
  std::optional<Record> last_;  // the newest update, if it was not kept
  int64_t seen_ = 0, updates_ = 0, stride_ = 1;
};

int64_t whole(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

StartFacts start_facts(const nlohmann::json& record) {
  StartFacts facts;
  const nlohmann::json lengths = record.value("lengths", nlohmann::json()),
                       units = record.value("units", nlohmann::json());
  for (const auto& [name, bars] : lengths.items())
    for (const nlohmann::json& bar : bars)
      if (bar.is_object())
        facts.lengths[name].push_back(
            {whole(bar, "from"), whole(bar, "to"), static_cast<double>(whole(bar, "samples"))});
  for (const nlohmann::json& unit : units)
    if (unit.is_object()) facts.units.push_back({word(unit, "name"), word(unit, "class"), whole(unit, "parameters")});
  return facts;
}

std::vector<Record> read_records(const fs::path& file, StartFacts& start) {
  Records records;
  for_each_object(file, [&](const nlohmann::json& json) {
    const auto step = json.find("step");
    if (step == json.end() || !step->is_number_unsigned()) return;
    if (json.contains("units") && json.contains("lengths")) start = start_facts(json);
    Record record{step->get<int64_t>(), {}, {}};
    for (const auto& [key, value] : json.items()) {
      if (value.is_number()) record.numbers[key] = value.get<double>();
      if (value.is_string()) record.words[key] = value.get<std::string>();
      if (value.is_array() && !value.empty() && value.front().is_number())
        for (const nlohmann::json& one : value) record.lists[key].push_back(one.is_number() ? one.get<double>() : 0);
    }
    records.add(std::move(record));
  });
  return records.take();
}

std::string line_of(std::string_view text, int number) {
  for (; number > 1 && !text.empty(); --number) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  return std::string(text.substr(0, text.find('\n')));
}

/// The comment at the end of a line of config.resolved.yaml: where the value came from. "" if there is none.
std::string origin_in(const std::string& line) {
  const size_t at = line.rfind("  # ");
  return at == std::string::npos ? "" : line.substr(at + 4);
}

void add_settings(const config::Node& node, const std::string& key, const std::string& text, std::string origin,
                  std::vector<Setting>& settings) {
  if (node.is_map() && !node.members.empty()) {
    for (const config::Member& member : node.members) {
      const std::string own = origin_in(line_of(text, member.mark.line));
      add_settings(member.value, key.empty() ? member.key : key + "." + member.key, text, own.empty() ? origin : own,
                   settings);
    }
    return;
  }
  settings.push_back({key, config::text_of(node), std::move(origin), node});
}

std::vector<Setting> read_settings(const fs::path& file) {
  std::vector<Setting> settings;
  if (!fs::exists(file)) return settings;
  try {
    const std::string text = read_file(file, static_cast<int64_t>(config::kMaxBytes));
    config::Problems problems;
    add_settings(config::parse_yaml(text, file.string(), problems), "", text, "", settings);
  } catch (const Error&) {
    settings.clear();  // someone has edited it; the report has the curves all the same
  }
  return settings;
}

std::vector<Prediction> read_predictions(const fs::path& file) {
  std::vector<Prediction> predictions;
  for_each_object(file, [&](const nlohmann::json& json) {
    if (predictions.size() < kMostPredictions)
      predictions.push_back({word(json, "input"), word(json, "prediction"), word(json, "label")});
  });
  return predictions;
}

/// A resumed run leaves the outcome of its last life where it is, and writes to its metrics.
Ending read_ending(const fs::path& outcome, const fs::path& metrics) {
  std::error_code ignored;
  if (!fs::is_regular_file(outcome, ignored)) return {};
  if (fs::last_write_time(outcome, ignored) < fs::last_write_time(metrics, ignored)) return {};
  const nlohmann::json json = bounded_json_or_none(read_file(outcome, int64_t{1} << 20));
  return json.is_object() ? Ending{word(json, "cause"), word(json, "message")} : Ending{};
}

}  // namespace

bool Record::is_evaluation() const {
  return std::any_of(numbers.begin(), numbers.end(), [](const auto& one) { return one.first.starts_with("eval_"); });
}

RunFolder read_run(const fs::path& folder) {
  const fs::path metrics = folder / "metrics.jsonl";
  if (!fs::exists(metrics))
    throw InputError("{} is not a run: it has no metrics.jsonl.\n  Give the output_dir of a run that has started.",
                     folder.string());
  RunFolder run;
  const fs::path whole = fs::absolute(folder).lexically_normal();
  run.name = (whole.has_filename() ? whole : whole.parent_path()).filename().string();
  run.records = read_records(metrics, run.start);
  run.settings = read_settings(folder / "config.resolved.yaml");
  run.predictions = read_predictions(folder / "predictions.jsonl");
  for (const checkpoint::Found& one : checkpoint::readable_checkpoints(folder)) run.checkpoints.push_back(one.step);
  run.ending = read_ending(folder / "outcome.json", metrics);
  return run;
}

}  // namespace trainer::report
