// When units are gathered, from a record of the order of events.
#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <torch/csrc/autograd/custom_function.h>

#include "engine/train/build.h"
#include "tests/support/golden_case.h"
#include "tests/support/ranks.h"

namespace trainer::testing {
namespace {

using Events = std::vector<std::string>;

/// A reduction that runs beside the operators: records its end.
class Reducing : public dist::Pending {
 public:
  Reducing(Events& events, std::string end) : events_(events), end_(std::move(end)) {}
  void wait() override { events_.push_back(end_); }

 private:
  Events& events_;
  std::string end_;
};

/// Wraps a communicator and records when gathers and reductions start. `beside`: as on a device, collectives run beside
/// the operators, and the ends of reductions are recorded too.
class Recorder : public dist::Comm {
 public:
  Recorder(dist::Comm& comm, Events& events, bool beside = false) : comm_(comm), events_(events), beside_(beside) {}
  bool runs_beside() const override { return beside_; }
  int rank() const override { return comm_.rank(); }
  int size() const override { return comm_.size(); }
  std::unique_ptr<dist::Pending> all_gather(const at::Tensor& full, const at::Tensor& shard) override {
    const auto unit = units_.emplace(full.storage().unsafeGetStorageImpl(), units_.size()).first->second;
    events_.push_back(unit == 0 ? "gather root" : fmt::format("gather {}", unit - 1));
    return comm_.all_gather(full, shard);
  }
  void all_reduce(const at::Tensor& tensor, dist::Reduce op) override {
    events_.emplace_back("reduce");
    comm_.all_reduce(tensor, op);
  }
  std::unique_ptr<dist::Pending> send(const at::Tensor& t, int to) override { return comm_.send(t, to); }
  std::unique_ptr<dist::Pending> receive(const at::Tensor& t, int from) override { return comm_.receive(t, from); }
  void barrier() override { comm_.barrier(); }
  at::Tensor shared_memory(int64_t) override { return {}; }
  std::unique_ptr<Comm> group(const std::string& name, const std::vector<int>& ranks) override {
    return comm_.group(name, ranks);
  }

 protected:
  Scattered start_reduce_scatter(const at::Tensor& full) override {
    const std::string which = fmt::format("reduction {} in {}", reductions_++, c10::toString(full.scalar_type()));
    events_.push_back(which);
    comm_.all_reduce(full);
    const int64_t share = full.numel() / size();
    return {full.narrow(0, rank() * share, share).clone(), std::make_unique<Reducing>(events_, "end of " + which)};
  }

 private:
  dist::Comm& comm_;
  Events& events_;
  bool beside_;
  int reductions_ = 0;
  std::map<void*, size_t> units_;  // numbered by first gather: the root, then the blocks
};

/// The identity, with an event when backward reaches it.
struct Passing : torch::autograd::Function<Passing> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, Events* events,
                            const std::string& event) {
    ctx->saved_data["events"] = reinterpret_cast<int64_t>(events);
    ctx->saved_data["event"] = event;
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    reinterpret_cast<Events*>(ctx->saved_data["events"].toInt())->push_back(ctx->saved_data["event"].toStringRef());
    return {grads[0], at::Tensor(), at::Tensor()};
  }
};

/// The events of the third update of a model of four blocks.
Events events_of(const config::FsdpConfig& options, bool beside = false) {
  Events all;
  run_ranks(
      2,
      [&](dist::Comm& comm) {
        config::Plan plan;
        plan.config.model.config =
            R"({"model_type": "gpt2", "vocab_size": 29, "n_positions": 16, "n_embd": 8, "n_layer": 4, "n_head": 2})";
        plan.config.data.task = config::Task::kCausalLm;
        plan.config.distributed_type = config::DistributedType::kFsdp;
        plan.config.num_processes = 2;
        plan.config.fsdp_config = options;
        train::Blueprint blueprint = train::make_blueprint(plan);
        Events events;
        Recorder recorder(comm, events, beside);
        for (const auto& block : blueprint.model->blocks()) {
          const std::string number = block->path().substr(block->path().rfind('.') + 1);
          block->wrap([&events, number](const nn::RowsList& in, const nn::Pass& pass, const nn::Module::Forward& next) {
            events.push_back("forward " + number);
            const nn::Rows x = in[0].with(Passing::apply(in[0].x, &events, "end of backward " + number));
            const nn::Rows out = next({x}, pass)[0];
            events.push_back("end of forward " + number);
            return nn::RowsList{out.with(Passing::apply(out.x, &events, "backward " + number))};
          });
        }
        const auto model = train::make_parallel(plan, blueprint, recorder);
        models::Batch batch = make_batch({{5, 9, 4, 1}}, {{9, 4, 1, 3}});
        batch.target = batch.source;
        for (int i = 0; i < 3; ++i) {
          events.clear();
          model->update({batch}, 8, {});
        }
        if (comm.rank() == 0) all = events;
      },
      false);
  return all;
}

/// The index of an event; of its last occurrence if there are several.
int64_t place(const Events& events, const std::string& event) {
  const auto found = std::find(events.rbegin(), events.rend(), event);
  EXPECT_NE(found, events.rend()) << event;
  return events.rend() - found - 1;
}
int64_t first_place(const Events& events, const std::string& event) {
  return std::find(events.begin(), events.end(), event) - events.begin();
}

config::FsdpConfig with(config::BackwardPrefetch backward, bool forward) {
  config::FsdpConfig options;
  options.backward_prefetch = backward;
  options.forward_prefetch = forward;
  return options;
}

TEST(Prefetch, ForwardPrefetchStartsBeforeTheCurrentUnitFinishes) {
  const Events ahead = events_of(with(config::BackwardPrefetch::kNone, true));
  const Events late = events_of(with(config::BackwardPrefetch::kNone, false));
  for (int i = 0; i < 3; ++i) {
    const std::string now = std::to_string(i), next = std::to_string(i + 1);
    EXPECT_LT(first_place(ahead, "gather " + next), first_place(ahead, "forward " + now));
    EXPECT_GT(first_place(late, "gather " + next), first_place(late, "end of forward " + now));
    EXPECT_LT(first_place(late, "gather " + next), first_place(late, "forward " + next));
  }
  EXPECT_EQ(std::count(ahead.begin(), ahead.end(), "gather 2"), 2);  // forward and backward
}

TEST(Prefetch, BackwardPrefetchFollowsTheOption) {
  const Events pre = events_of(with(config::BackwardPrefetch::kPre, false)),
               post = events_of(with(config::BackwardPrefetch::kPost, false)),
               none = events_of(with(config::BackwardPrefetch::kNone, false));
  for (int i = 3; i > 0; --i) {
    const std::string begins = "backward " + std::to_string(i), ends = "end of backward " + std::to_string(i),
                      next = "gather " + std::to_string(i - 1);
    EXPECT_LT(place(pre, next), place(pre, begins));
    EXPECT_GT(place(post, next), place(post, begins));
    EXPECT_LT(place(post, next), place(post, ends));
    EXPECT_GT(place(none, next), place(none, ends));
    // kPost: the reduction of the gradients is the last event before the gather.
    EXPECT_EQ(post[place(post, next) - 1], "reduce");
  }
}

// Two units gathered ahead would show as a gather before the unit in use is finished.
TEST(Prefetch, NeverGathersMoreThanTheNextUnit) {
  const Events events = events_of(with(config::BackwardPrefetch::kPre, true));
  for (int i = 0; i < 2; ++i)
    EXPECT_GT(first_place(events, fmt::format("gather {}", i + 2)),
              first_place(events, fmt::format("end of forward {}", i)));
  for (int i = 3; i > 1; --i)
    EXPECT_GT(place(events, fmt::format("gather {}", i - 2)), place(events, fmt::format("end of backward {}", i)));
}

TEST(Prefetch, GathersAheadInForwardWhereGathersRunBesideOperators) {
  const Events events = events_of(with(config::BackwardPrefetch::kPre, false), /*beside=*/true);
  for (int i = 0; i < 3; ++i)
    EXPECT_LT(first_place(events, fmt::format("gather {}", i + 1)), first_place(events, fmt::format("forward {}", i)));
  for (int i = 0; i < 2; ++i)
    EXPECT_GT(first_place(events, fmt::format("gather {}", i + 2)),
              first_place(events, fmt::format("end of forward {}", i)));
}

/// The numbers of the reductions in progress after each event.
int64_t most_open(const Events& events) {
  int64_t open = 0, most = 0;
  for (const std::string& event : events) {
    if (event.starts_with("reduction")) most = std::max(most, ++open);
    if (event.starts_with("end of reduction")) --open;
  }
  EXPECT_EQ(open, 0);
  return most;
}

TEST(Prefetch, AReductionIsAwaitedOneUnitLater) {
  for (const char* const dtype : {"float32", "bfloat16"}) {
    config::FsdpConfig options = with(config::BackwardPrefetch::kPre, false);
    options.reduce_dtype = dtype;
    const Events events = events_of(options, /*beside=*/true);
    const std::string in = dtype == std::string("float32") ? "Float" : "BFloat16";
    std::vector<int64_t> begins;
    for (int64_t i = 0; i < std::ssize(events); ++i) {
      if (!events[i].starts_with("reduction")) continue;
      begins.push_back(i);
      EXPECT_TRUE(events[i].ends_with(" in " + in)) << events[i];
    }
    ASSERT_EQ(begins.size(), 5u);  // of four blocks and the root
    for (size_t i = 0; i + 1 < begins.size(); ++i)
      EXPECT_GT(place(events, "end of " + events[begins[i]]), begins[i + 1]);
    EXPECT_EQ(most_open(events), 2);
  }
}

}  // namespace
}  // namespace trainer::testing
