#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "engine/base/human.h"
#include "engine/base/listed.h"
#include "engine/train/profile/profile.h"

namespace trainer::train {
namespace {

constexpr double kLeastShare = 0.005;  // of an operator that gets a line
constexpr size_t kMostOperators = 20, kNameWidth = 38;

std::string milliseconds(double seconds) {
  return fmt::format("{:.{}f}", 1e3 * seconds, seconds < 0.1 ? 2 : 1);
}

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

/// Of a name that is too long, the end, which names the operator; of a kernel with template arguments, the beginning.
std::string fitted_name(const std::string& name) {
  if (name.size() <= kNameWidth) return name;
  if (name.find('<') != std::string::npos) return name.substr(0, kNameWidth - 3) + "...";
  return "..." + name.substr(name.size() - kNameWidth + 3);
}

std::string phase_lines(const Profile& p) {
  std::string text =
      fmt::format("{:<12}{:>10}{:>10}{}\n", "phase", "ms", "share", p.ranks > 1 ? "   slowest rank" : "");
  for (size_t i = 0; i < kPhases; ++i) {
    const auto phase = static_cast<Phase>(i);
    if (phase == Phase::kExchange && p.ranks == 1) continue;
    text +=
        fmt::format("{:<12}{:>10}{:>10}", name_of(phase), milliseconds(p.phases[i]), percent(p.phases[i] / p.seconds));
    if (p.ranks > 1) text += fmt::format("   {} ms (rank {})", milliseconds(p.slowest[i].seconds), p.slowest[i].rank);
    text += "\n";
  }
  return text + fmt::format("{:<12}{:>10}{:>10}   {} tokens/s\n", "all", milliseconds(p.seconds), "100.0 %",
                            human_count(p.tokens_per_second));
}

std::string operator_line(const OperatorTime& one, const Profile& p) {
  std::string text = fmt::format("{:<{}}{:>8}{:>9}{:>9}", fitted_name(one.name), kNameWidth, human_count(one.calls),
                                 milliseconds(one.seconds), percent(one.seconds / p.recorded_seconds));
  if (one.flops > 0)
    text += fmt::format("{:>9}{:>6.0f}", human_count(one.flops / one.seconds),
                        100 * one.flops / one.seconds / p.peak.flops);
  return text + "\n";
}

std::string operator_lines(const Profile& p) {
  std::string text = fmt::format("{:<{}}{:>8}{:>9}{:>9}{:>9}{:>6}\n", "operator", kNameWidth, "calls", "ms", "share",
                                 "FLOP/s", "peak%");
  OperatorTime others;
  size_t shown = 0, summed = 0;
  for (const OperatorTime& one : p.operators) {
    if (shown < kMostOperators && one.seconds >= kLeastShare * p.recorded_seconds) {
      text += operator_line(one, p);
      ++shown;
    } else {
      others.calls += one.calls, others.seconds += one.seconds, ++summed;
    }
  }
  others.name = counted(summed, "other", "others");
  return summed == 0 ? text : text + operator_line(others, p);
}

std::string roofline_lines(const Profile& p) {
  const double at_peak = p.flops() / p.peak.flops;
  return fmt::format(
      "measured here    {} FLOP/s in products of {}, {}/s of memory\n"
      "products         {} FLOP an update; at that rate {} ms, {} of it\n"
      "time             {} in products, {} in attention, {} in the rest\n",
      human_count(p.peak.flops), p.dtype, human_bytes(static_cast<int64_t>(p.peak.bytes)), human_count(p.flops()),
      milliseconds(at_peak), percent(at_peak / p.seconds), percent(p.share_of(Work::kProduct)),
      percent(p.share_of(Work::kAttention)), percent(1 - p.share_of(Work::kProduct) - p.share_of(Work::kAttention)));
}

}  // namespace

std::string profile_text(const Profile& p) {
  const char* const more = p.ranks > 1 ? " (the figures below are rank 0's)" : "";
  std::string text = fmt::format("{} after {} to warm up, on {}\n", counted(p.request.steps, "update", "updates"),
                                 p.request.warmup, p.device);
  text +=
      fmt::format("{} of {}{}\n\n", counted(p.ranks, "rank", "ranks"), counted(p.threads, "thread", "threads"), more);
  text += phase_lines(p) + "\n" + roofline_lines(p);
  text += fmt::format("memory           {} at most, tensors {}{}\n\n", human_bytes(p.resident_bytes),
                      human_bytes(p.tensor_bytes), p.ranks > 1 ? " (the rank that has most)" : "");
  text += operator_lines(p);
  text += fmt::format("\nrecording operators changed the time of an update by {:+.1f} %, not in the phases\n",
                      100 * p.overhead());
  if (!p.request.trace.empty()) text += fmt::format("wrote {}: open it in ui.perfetto.dev\n", p.request.trace);
  return text;
}

}  // namespace trainer::train
