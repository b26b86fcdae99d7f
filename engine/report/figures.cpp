#include "engine/report/figures.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "engine/base/human.h"
#include "engine/base/listed.h"

namespace trainer::report {
namespace {

std::optional<double> number(const Record& record, const std::string& key) {
  const auto found = record.numbers.find(key);
  return found == record.numbers.end() ? std::nullopt : std::optional(found->second);
}

/// The values of `key` in all records that have it.
std::vector<double> all(const RunFolder& run, const std::string& key) {
  std::vector<double> values;
  for (const Record& record : run.records)
    if (const auto value = number(record, key); value && !record.is_event()) values.push_back(*value);
  return values;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The time spent in updates: each logged line stands for the updates since the one before it.
double update_seconds(const RunFolder& run) {
  double seconds = 0;
  int64_t before = 0;
  for (const Record& record : run.records)
    if (const auto of_one = number(record, "step_seconds")) {
      seconds += *of_one * static_cast<double>(record.step - before);
      before = record.step;
    }
  return seconds;
}

void add_evaluations(const RunFolder& run, std::vector<Figure>& figures) {
  std::map<std::string, std::vector<std::pair<int64_t, double>>> measured;
  for (const Record& record : run.records)
    for (const auto& [name, value] : record.numbers)
      if (name.starts_with("eval_")) measured[name].emplace_back(record.step, value);
  for (const auto& [name, values] : measured) {
    const auto lower = [](const auto& a, const auto& b) { return a.second < b.second; };
    const auto best = name == "eval_loss" ? std::min_element(values.begin(), values.end(), lower)
                                          : std::max_element(values.begin(), values.end(), lower);
    figures.push_back({"last " + name, fmt::format("{:.4g}", values.back().second)});
    if (best->second != values.back().second)
      figures.push_back({fmt::format("best {}", name), fmt::format("{:.4g} at {}", best->second, best->first)});
  }
}

}  // namespace

std::vector<Figure> figures_of(const RunFolder& run) {
  std::vector<Figure> figures;
  const auto last = std::find_if(run.records.rbegin(), run.records.rend(),
                                 [](const Record& record) { return record.numbers.contains("learning_rate"); });
  if (last != run.records.rend()) {
    figures.push_back({"updates", fmt::format("{}", last->step)});
    if (const auto epoch = number(*last, "epoch")) figures.push_back({"epochs", fmt::format("{:.4g}", *epoch)});
    if (const auto loss = number(*last, "loss")) figures.push_back({"last loss", fmt::format("{:.4g}", *loss)});
  }
  add_evaluations(run, figures);
  if (const std::vector<double> speeds = all(run, "tokens_per_second"); !speeds.empty())
    figures.push_back({"tokens/s (median)", human_count(median(speeds))});
  if (const std::vector<double> tokens = all(run, "tokens"); !tokens.empty())
    figures.push_back({"tokens", human_count(tokens.back())});
  if (const double seconds = update_seconds(run); seconds > 0)
    figures.push_back({"time in updates", human_seconds(seconds)});
  if (const std::vector<double> memory = all(run, "memory_bytes"); !memory.empty())
    figures.push_back(
        {"memory of a rank", human_bytes(static_cast<int64_t>(*std::max_element(memory.begin(), memory.end())))});
  if (const std::vector<double> shares = all(run, "peak_share"); !shares.empty())
    figures.push_back({"share of matmul peak", fmt::format("{:.1f} %", 100 * median(shares))});
  if (!run.checkpoints.empty()) figures.push_back({"checkpoints kept", fmt::format("{}", run.checkpoints.size())});
  return figures;
}

std::string event_text(const Record& event) {
  if (const auto found = event.words.find("event"); found != event.words.end()) {
    const std::string& what = found->second;
    if (what == "saved") return fmt::format("checkpoint-{} was saved", event.step);
    if (what == "save failed") return fmt::format("checkpoint-{} could not be saved", event.step);
    const std::string ranks = counted(static_cast<int64_t>(number(event, "ranks").value_or(1)), "rank", "ranks");
    const double reached = number(event, "reached").value_or(-1);
    if (what != "resumed") return fmt::format("started with {}", ranks);
    return fmt::format(
        "resumed with {} from {}{}", ranks, event.step > 0 ? fmt::format("checkpoint-{}", event.step) : "scratch",
        reached > static_cast<double>(event.step) ? fmt::format("; updates up to {:.0f} were repeated", reached) : "");
  }
  if (const auto diverged = event.words.find("diverged"); diverged != event.words.end())
    return fmt::format("the update diverged and was {}{}", diverged->second,
                       event.numbers.contains("back_to_step")
                           ? fmt::format(" to update {:.0f}", event.numbers.at("back_to_step"))
                           : "");
  const double rank = number(event, "rank").value_or(-1), factor = number(event, "factor").value_or(0);
  const auto state = event.words.find("straggler");
  return state != event.words.end() && state->second == "over"
             ? fmt::format("rank {:.0f} is as fast as the others again", rank)
             : fmt::format("rank {:.0f} takes {:.1f} times as long as the others", rank, factor);
}

}  // namespace trainer::report
