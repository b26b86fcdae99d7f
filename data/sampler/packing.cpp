#include "data/sampler/packing.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "data/sampler/shares.h"

namespace trainer::data {
namespace {

struct Bin {
  std::vector<int64_t> positions;
  int64_t tokens = 0;

  void add(int64_t position, int64_t count) {
    positions.push_back(position);
    tokens += count;
  }
};

struct Item {
  int64_t position, tokens;
};

/// The samples at `positions`, the longest first.
std::vector<Item> items_of(Range positions, const TokensOf& tokens) {
  std::vector<Item> items;
  for (int64_t p = positions.begin; p < positions.end; ++p) items.push_back({p, tokens(p)});
  std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.tokens > b.tokens; });
  return items;
}

/// Puts each item into the first bin with room.
std::vector<Bin> first_fit(const std::vector<Item>& items, int64_t most) {
  std::vector<Bin> bins;
  for (const Item& item : items) {
    auto bin = std::find_if(bins.begin(), bins.end(), [&](const Bin& b) { return b.tokens + item.tokens <= most; });
    if (bin == bins.end()) bin = bins.emplace(bins.end());
    bin->add(item.position, item.tokens);
  }
  return bins;
}

/// Puts each item into the emptiest of the bins that hold fewer items than their size.
std::vector<Bin> fill(const std::vector<Item>& items, const std::vector<size_t>& sizes) {
  using Open = std::pair<int64_t, size_t>;  // tokens, bin
  std::priority_queue<Open, std::vector<Open>, std::greater<>> open;
  for (size_t bin = 0; bin < sizes.size(); ++bin)
    if (sizes[bin] > 0) open.emplace(0, bin);
  std::vector<Bin> bins(sizes.size());
  for (const Item& item : items) {
    const size_t bin = open.top().second;
    open.pop();
    bins[bin].add(item.position, item.tokens);
    if (bins[bin].positions.size() < sizes[bin]) open.emplace(bins[bin].tokens, bin);
  }
  return bins;
}

/// Deals the bins to the ranks, the fullest first.
PackingPlan deal(std::vector<Bin> bins, size_t ranks) {
  std::stable_sort(bins.begin(), bins.end(), [](const Bin& a, const Bin& b) { return a.tokens > b.tokens; });
  PackingPlan plan(ranks);
  for (size_t i = 0; i < bins.size(); ++i) {
    std::sort(bins[i].positions.begin(), bins[i].positions.end());
    plan[i % ranks].push_back(std::move(bins[i].positions));
  }
  return plan;
}

}  // namespace

PackingPlan plan_by_samples(Range positions, int64_t ranks, int64_t per_device) {
  PackingPlan plan(static_cast<size_t>(ranks));
  for (int64_t rank = 0; rank < ranks; ++rank)
    for (const Range& range : micro_batches(positions, rank, ranks, per_device)) {
      auto& batch = plan[static_cast<size_t>(rank)].emplace_back();
      for (int64_t p = range.begin; p < range.end; ++p) batch.push_back(p);
    }
  return plan;
}

PackingPlan plan_evenly(Range positions, const TokensOf& tokens, int64_t ranks, int64_t per_device) {
  PackingPlan slices = plan_by_samples(positions, ranks, per_device);
  const std::vector<Item> items = items_of(positions, tokens);
  if (items.empty() || items.front().tokens == items.back().tokens) return slices;
  std::vector<size_t> sizes;
  for (const auto& rank : slices)
    for (const auto& batch : rank) sizes.push_back(batch.size());
  return deal(fill(items, sizes), slices.size());
}

PackingPlan plan_by_tokens(Range positions, const TokensOf& tokens, int64_t ranks, int64_t max_tokens) {
  const std::vector<Item> items = items_of(positions, tokens);
  std::vector<Bin> bins = first_fit(items, max_tokens);
  const auto r = static_cast<size_t>(ranks);
  const size_t count = std::max<size_t>(1, (bins.size() + r - 1) / r) * r;
  std::vector<Bin> even = fill(items, std::vector<size_t>(count, items.size()));
  const auto fits = [&](const Bin& bin) { return bin.tokens <= max_tokens || bin.positions.size() == 1; };
  if (std::all_of(even.begin(), even.end(), fits)) bins = std::move(even);
  bins.resize(count);
  return deal(std::move(bins), r);
}

double packing_efficiency(const PackingPlan& plan, const TokensOf& tokens) {
  int64_t real = 0, paid = 0;
  for (size_t batch = 0; !plan.empty() && batch < plan[0].size(); ++batch) {
    int64_t most = 0;
    for (const auto& rank : plan) {
      int64_t here = 0;
      for (const int64_t position : rank[batch]) here += tokens(position);
      real += here;
      most = std::max(most, here);
    }
    paid += most * static_cast<int64_t>(plan.size());
  }
  return paid == 0 ? 1.0 : static_cast<double>(real) / static_cast<double>(paid);
}

}  // namespace trainer::data
