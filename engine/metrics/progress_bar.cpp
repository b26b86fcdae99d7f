#include "engine/metrics/progress_bar.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "engine/base/human.h"
#include "engine/base/terminal_text.h"

namespace trainer::metrics {
namespace {

constexpr size_t kLeastBar = 10;
constexpr size_t kMostBar = 40;

double done_share(const ProgressState& state) {
  if (state.total_steps <= 0) return 0.0;
  return std::clamp(static_cast<double>(state.step) / static_cast<double>(state.total_steps), 0.0, 1.0);
}

std::string step_text(int64_t step, int64_t total_steps) {
  const std::string total = fmt::format("{}", total_steps);
  return fmt::format("{:>{}}/{}", step, total.size(), total);
}

std::string bar(double share, size_t cells) {
  const auto full = static_cast<size_t>(share * static_cast<double>(cells));
  std::string text(full, '=');
  if (full < cells) text += '>';
  return "[" + text.append(cells - text.size(), ' ') + "]";
}

/// The texts after the bar, the most important first; the last ones are dropped when there is no room.
std::vector<std::string> facts(const ProgressState& state) {
  std::vector<std::string> texts{step_text(state.step, state.total_steps)};
  if (!state.activity.empty()) texts.push_back(one_line(state.activity));
  if (state.last) texts.push_back(fmt::format("loss {:#.4g}", state.last->loss));
  if (state.seconds_left >= 0.0) texts.push_back(human_seconds(state.seconds_left) + " left");
  if (state.last) texts.push_back(human_count(state.last->tokens_per_second) + " tok/s");
  if (state.last && state.last->peak_share > 0)
    texts.push_back(fmt::format("{:.0f} % of peak", 100 * state.last->peak_share));
  if (state.last) texts.push_back(fmt::format("lr {:.2e}", state.last->learning_rate));
  return texts;
}

}  // namespace

std::string progress_bar(const ProgressState& state, size_t width) {
  constexpr size_t kBrackets = 2;
  std::string text;
  for (const std::string& fact : facts(state)) {
    const std::string longer = text.empty() ? fact : text + "  " + fact;
    if (display_width(longer) > width) break;
    text = longer;
  }
  const size_t used = display_width(text) + 1 + kBrackets;
  if (used + kLeastBar > width) return text.empty() ? std::string(width, '.') : text;
  return bar(done_share(state), std::min(width - used, kMostBar)) + " " + text;
}

std::string progress_line(const ProgressState& state) {
  std::string text = "step " + step_text(state.step, state.total_steps);
  if (state.last) {
    text += fmt::format("  epoch {:6.2f}  loss {:8.4f}  grad_norm {:8.3f}  lr {:.2e}  {:>5} tok/s", state.last->epoch,
                        state.last->loss, state.last->grad_norm, state.last->learning_rate,
                        human_count(state.last->tokens_per_second));
    for (const char* const name : {"margins", "accuracies"})
      if (const auto found = state.last->rewards.find(fmt::format("rewards/{}", name));
          found != state.last->rewards.end())
        text += fmt::format("  {} {:.3f}", found->first, found->second);
    if (state.last->peak_share > 0) text += fmt::format("  {:3.0f} % of peak", 100 * state.last->peak_share);
  }
  if (state.seconds_left >= 0.0) text += fmt::format("  {} left", human_seconds(state.seconds_left));
  return text;
}

std::string evaluation_line(const EvaluationRecord& record, int64_t total_steps, size_t columns) {
  std::string text, row = "step " + step_text(record.step, total_steps);
  for (const auto& [name, value] : record.values) {
    const std::string part = fmt::format("  {} {:#.4g}", name, value);
    if (row.size() + part.size() > columns) text += std::exchange(row, "") + "\n";
    row += part;
  }
  return text + row;
}

}  // namespace trainer::metrics
