#include "engine/train/roofline/cluster.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <ATen/Context.h>

#include "engine/base/errors.h"
#include "engine/config/document/problems.h"
#include "engine/config/document/scalar.h"

namespace trainer::train {
namespace {

constexpr double kTera = 1e12, kGiga = 1e9;

bool is_half(at::ScalarType dtype) {
  return dtype == at::kBFloat16 || dtype == at::kHalf;
}

/// The part of a collective's bytes that each of `n` members, connected in a ring, sends.
double ring_share(dist::DryCollective::Kind kind, double n) {
  using Kind = dist::DryCollective::Kind;
  if (kind == Kind::kSend || kind == Kind::kReceive) return n > 1 ? 1 : 0;
  return (kind == Kind::kAllReduce ? 2 : 1) * (n - 1) / n;
}

/// The part of the peak that an operator's products reach.
double efficiency_of(const dist::DryOperator& op, const config::GpuCard& card) {
  if (op.name.starts_with("aten::_flash_attention_")) return Efficiency::kFlashAttention;
  if (op.name.starts_with("aten::_cudnn_attention_")) return Efficiency::kCudnnAttention;
  if (op.name.starts_with("aten::_efficient_attention_")) return Efficiency::kEfficientAttention;
  return is_half(op.dtype) ? card.best * Efficiency::kShapes : Efficiency::kFloatProducts;
}

}  // namespace

double peak_flops(const config::GpuCard& card, at::ScalarType dtype) {
  const bool computes_bf16 = card.tf32 > 0;  // both came with the same generation
  if (is_half(dtype) && (dtype == at::kHalf || computes_bf16)) return card.half * kTera;
  const bool tf32 = dtype == at::kFloat && card.tf32 > 0 && at::globalContext().allowTF32CuBLAS();
  return (tf32 ? card.tf32 : card.fp32) * kTera;
}

double seconds_of(const dist::DryOperator& op, const config::GpuCard& card) {
  const double computed = static_cast<double>(op.flops - op.hidden_flops);
  const double products = computed / (peak_flops(card, op.dtype) * efficiency_of(op, card));
  const double bytes = static_cast<double>(op.bytes) / (card.memory * kGiga * Efficiency::kMemory);
  return std::max(products, bytes) + static_cast<double>(op.launches) * Efficiency::kKernel;
}

int64_t machines_of(const dist::DryCollective& collective, const Cluster& cluster) {
  std::set<int64_t> machines;
  for (const int rank : collective.ranks) machines.insert(rank / cluster.gpus_per_machine);
  return std::ssize(machines);
}

double seconds_of(const dist::DryCollective& collective, const Cluster& cluster) {
  const auto members = static_cast<double>(collective.ranks.size());
  const auto machines = static_cast<double>(machines_of(collective, cluster));
  const double bytes = static_cast<double>(collective.bytes), on_each = members / machines;
  const double inside = bytes * ring_share(collective.kind, members) / (cluster.card.link * kGiga * Efficiency::kLink);
  const double outside =
      bytes * ring_share(collective.kind, machines) / (on_each * cluster.network * Efficiency::kNetwork);
  const double latency = Efficiency::kLatency + Efficiency::kNetworkLatency * std::log2(machines);
  return latency + std::max(on_each > 1 ? inside : 0, outside);
}

double network_named(const std::string& text) {
  const std::pair<const char*, double> units[] = {
      {"gb", kGiga / 8}, {"gbit", kGiga / 8}, {"tb", kTera / 8}, {"tbit", kTera / 8}};
  std::string rest = text;
  for (const char* ending : {"/s", "ps"})
    if (rest.ends_with(ending)) rest.resize(rest.size() - 2);
  double unit = 0;
  if (rest.ends_with("GB")) unit = kGiga, rest.resize(rest.size() - 2);  // bytes, as everywhere a capital B is one
  rest = config::lower(rest);
  for (const auto& [name, bytes] : units)
    if (unit == 0 && rest.ends_with(name)) unit = bytes, rest.resize(rest.size() - std::string(name).size());
  while (rest.ends_with(" ")) rest.pop_back();
  const auto number = config::parse_double(rest);
  constexpr double kLeast = 1e6, kMost = 1e14;
  if (unit > 0 && number && *number * unit >= kLeast && *number * unit <= kMost) return *number * unit;
  throw ConfigError("--net must be the bandwidth of each GPU's link to other machines, as in 400Gb or 50GB; is '{}'",
                    config::shown(text));
}

}  // namespace trainer::train
