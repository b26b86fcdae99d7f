#include "engine/train/roofline/timeline.h"

#include <algorithm>
#include <map>
#include <utility>

namespace trainer::train {
namespace {

void add_part(PartCost& to, const PartCost& from, double times) {
  to.launches += times * from.launches;
  to.flops += times * from.flops;
  to.bytes += times * from.bytes;
  to.seconds += times * from.seconds;
}

void add_transfer(std::vector<TransferCost>& all, const TransferCost& other, double times) {
  auto found = std::find_if(all.begin(), all.end(), [&](const TransferCost& one) {
    return one.kind == other.kind && one.ranks == other.ranks && one.machines == other.machines;
  });
  if (found == all.end()) found = all.insert(all.end(), {other.kind, other.ranks, other.machines});
  found->count += times * other.count;
  found->bytes += times * other.bytes;
  found->seconds += times * other.seconds;
}

class Timeline {
 public:
  Timeline(const Cluster& cluster, const TimelineOptions& options) : cluster_(cluster), options_(options) {}

  void operator()(const dist::DryOperator& op) {
    if (options_.flash_attention && op.attention != attention_) end_attention();
    if (options_.flash_attention && op.attention != 0) {
      attention_ = op.attention;
      products_ += op.flops;
      return;
    }
    const Part part = options_.end_of_update ? Part::kOptimizer
                      : op.attention != 0    ? Part::kAttention
                      : op.flops > 0         ? Part::kLinear
                                             : Part::kOther;
    run(part, op, seconds_of(op, cluster_.card));
  }

  void operator()(const dist::DryCollective& collective) {
    end_attention();
    host_ += Efficiency::kLaunch;
    const double seconds = seconds_of(collective, cluster_);
    double& free = streams_[collective.stream];
    free = std::max({free, host_, device_}) + seconds;
    ends_.push_back(free);
    const auto ranks = std::ssize(collective.ranks);
    add_transfer(cost_.transfers,
                 {collective.kind, ranks, machines_of(collective, cluster_), 1, static_cast<double>(collective.bytes),
                  seconds},
                 1);
  }

  void operator()(const dist::DryWait& wait) {
    end_attention();
    wait_until(ends_.at(wait.collective));
  }

  void operator()(const dist::DryHostRead&) {
    end_attention();
    host_ = std::max(host_, device_) + Efficiency::kHostRead;
    cost_.host_reads += 1;
  }

  Cost finished() {
    end_attention();
    for (const auto& [stream, free] : streams_) wait_until(free);
    cost_.starved += std::max(0.0, host_ - device_);
    cost_.seconds = std::max(host_, device_);
    return std::move(cost_);
  }

 private:
  void run(Part part, const dist::DryOperator& op, double seconds) {
    const auto launches = static_cast<double>(op.launches);
    host_ += launches * Efficiency::kLaunch;
    cost_.starved += std::max(0.0, host_ - device_);
    device_ = std::max(device_, host_) + seconds;
    cost_.computing += seconds;
    add_part(cost_.part(part), {launches, static_cast<double>(op.flops), static_cast<double>(op.bytes), seconds}, 1);
  }

  void wait_until(double end) {
    cost_.exposed += std::max(0.0, end - device_);
    device_ = std::max(device_, end);
  }

  /// Runs one kernel in the place of a call of attention that has ended.
  void end_attention() {
    if (attention_ == 0) return;
    dist::DryOperator op{.name = "flash attention", .dtype = at::kHalf};
    op.flops = options_.causal ? products_ / 2 : products_;
    attention_ = products_ = 0;
    const double rate = peak_flops(cluster_.card, at::kHalf) * Efficiency::kFlashAttention;
    run(Part::kAttention, op, static_cast<double>(op.flops) / rate + Efficiency::kKernel);
  }

  const Cluster& cluster_;
  const TimelineOptions& options_;
  double host_ = 0, device_ = 0;      // when the host, and the operators launched so far, are done
  std::map<int64_t, double> streams_;  // when a communicator is free
  std::vector<double> ends_;           // of each collective
  int64_t attention_ = 0, products_ = 0;  // the call of attention under way, and its FLOPs
  Cost cost_;
};

}  // namespace

const char* name_of(Part part) {
  constexpr const char* kNames[kParts] = {"linear layers", "attention", "other operators", "end of update"};
  return kNames[static_cast<size_t>(part)];
}

const char* name_of(dist::DryCollective::Kind kind) {
  constexpr const char* kNames[] = {"all-gather", "all-reduce", "reduce-scatter", "send", "receive"};
  return kNames[static_cast<size_t>(kind)];
}

PartCost Cost::all_parts() const {
  PartCost sum;
  for (const PartCost& part : parts) add_part(sum, part, 1);
  return sum;
}

void Cost::add(const Cost& other, double times) {
  seconds += times * other.seconds;
  computing += times * other.computing;
  exposed += times * other.exposed;
  starved += times * other.starved;
  host_reads += times * other.host_reads;
  for (size_t i = 0; i < kParts; ++i) add_part(parts[i], other.parts[i], times);
  for (const TransferCost& transfer : other.transfers) add_transfer(transfers, transfer, times);
}

Cost time_of(const dist::DryTrace& trace, const Cluster& cluster, const TimelineOptions& options) {
  Timeline timeline(cluster, options);
  for (const auto& event : trace) std::visit(timeline, event);
  return timeline.finished();
}

}  // namespace trainer::train
