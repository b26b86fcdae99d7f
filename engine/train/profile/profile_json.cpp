#include <nlohmann/json.hpp>

#include "engine/train/profile/profile.h"

namespace trainer::train {
std::string profile_json(const Profile& p) {
  using nlohmann::json;
  json phases = json::object(), operators = json::array();
  for (size_t i = 0; i < kPhases; ++i)
    phases[name_of(static_cast<Phase>(i))] = {
        {"seconds", p.phases[i]}, {"slowest_rank", p.slowest[i].rank}, {"slowest_seconds", p.slowest[i].seconds}};
  for (const OperatorTime& one : p.operators) {
    json line = {{"name", one.name}, {"work", name_of(one.work)}, {"calls", one.calls}, {"seconds", one.seconds}};
    if (one.flops > 0) line["flops"] = one.flops, line["of_peak"] = one.flops / one.seconds / p.peak.flops;
    operators.push_back(std::move(line));
  }
  const json all = {{"steps", p.request.steps},
                    {"warmup", p.request.warmup},
                    {"device", p.device},
                    {"dtype", p.dtype},
                    {"ranks", p.ranks},
                    {"threads", p.threads},
                    {"seconds", p.seconds},
                    {"tokens_per_second", p.tokens_per_second},
                    {"phases", std::move(phases)},
                    {"peak_flops", p.peak.flops},
                    {"peak_bytes_per_second", p.peak.bytes},
                    {"product_flops", p.flops()},
                    {"share", {{"product", p.share_of(Work::kProduct)}, {"attention", p.share_of(Work::kAttention)}}},
                    {"resident_bytes", p.resident_bytes},
                    {"tensor_bytes", p.tensor_bytes},
                    {"operators", std::move(operators)},
                    {"recorded_seconds", p.recorded_seconds},
                    {"overhead", p.overhead()}};
  return all.dump(2, ' ', false, json::error_handler_t::replace);
}

}  // namespace trainer::train
