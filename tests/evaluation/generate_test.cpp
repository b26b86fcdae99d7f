// Samples decoded a few at a time (continuous batching): the texts are those of all at once.
#include "engine/evaluation/generate.h"

#include <algorithm>
#include <numeric>

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/batching/token_batch.h"
#include "models/decoding.h"
#include "tests/support/golden_case.h"
#include "tests/support/ranks.h"
#include "tests/support/source_dir.h"

namespace trainer::testing {
namespace {

using Texts = std::vector<std::vector<int64_t>>;

std::unique_ptr<parallel::ParallelModel> model_of(const std::string& name, dist::Comm& comm) {
  config::Plan plan;
  plan.config.num_processes = comm.size();
  if (comm.size() > 1) plan.config.distributed_type = config::DistributedType::kFsdp;
  plan.config.model.path = source_dir() + "/tests/golden/" + name;
  plan.config.data.task = name.starts_with("t5/") ? config::Task::kSeq2SeqLm : config::Task::kCausalLm;
  return make_model(plan, comm);
}

/// Sources of 1 to 7 tokens.
models::Batch batch_of(size_t samples, models::Task task) {
  std::vector<std::vector<int32_t>> sources(samples);
  for (size_t s = 0; s < samples; ++s)
    for (size_t i = 0; i <= s * 5 % 7; ++i) sources[s].push_back(static_cast<int32_t>(3 + (s * 11 + i * 7) % 20));
  return batching::token_batch(std::move(sources), {}, task);
}

constexpr size_t kSamples = 9;
constexpr int64_t kMost = 8;
/// How many tokens the text of a sample may have.
int64_t room(size_t sample) {
  return 1 + static_cast<int64_t>(sample) * 3 % kMost;
}

class AFewAtATime : public ::testing::TestWithParam<std::string> {
 protected:
  AFewAtATime() : comm(dist::solo_comm()), model(model_of(GetParam(), *comm)) {}

  Texts texts(evaluation::Generation options) {
    std::vector<int64_t> lengths(kSamples);
    options.max_new_tokens = kMost;
    if (options.beams.count == 1)
      options.proceeds = [&](size_t sample, int64_t) { return ++lengths[sample] < room(sample); };
    return evaluation::generate(*model, batch_of(kSamples, model->model().task()), {}, options);
  }

  const at::NoGradGuard no_grad;
  std::unique_ptr<dist::Comm> comm;
  std::unique_ptr<parallel::ParallelModel> model;
};

TEST_P(AFewAtATime, TheTextsAreThoseOfAllAtOnce) {
  for (const evaluation::Generation& options :
       std::vector<evaluation::Generation>{{},
                                           {.end_tokens = {5, 8, 11}},
                                           {.sampling = {.temperature = 1.5, .seed = 7, .repetition_penalty = 1.3}},
                                           {.beams = {.count = 3, .returned = 2}}}) {
    const Texts expected = texts(options);
    EXPECT_EQ(expected.size(), options.beams.count > 1 ? 2 * kSamples : kSamples);
    for (const int64_t at_once : {1, 2, 4, 100}) {
      evaluation::Generation few = options;
      few.at_once = at_once;
      EXPECT_EQ(texts(few), expected) << at_once << " at once, " << options.beams.count << " beams";
    }
  }
}

TEST_P(AFewAtATime, NothingIsComputedForTextsThatHaveEnded) {
  const models::Batch batch = batch_of(kSamples, model->model().task());
  const bool continues = model->model().task() == models::Task::kCausalLm;
  for (const int64_t at_once : {1, 2, 4, 0}) {
    models::Decoding decoding(batch, model->model(), at_once, kMost);
    std::vector<int64_t> generated(kSamples);
    int64_t rows = 0, steps = 0;
    model->run_forward({}, [&](nn::Pass& pass) {
      pass.cache = &decoding.cache();
      for (; decoding.has_next() || decoding.is_active(); ++steps) {
        if (decoding.has_next()) decoding.begin(model->model(), pass);
        const std::vector<int64_t> samples = decoding.samples();
        EXPECT_LE(std::ssize(samples), at_once > 0 ? at_once : static_cast<int64_t>(kSamples));
        rows += decoding.tokens().numel();
        EXPECT_EQ(model->decode(decoding.tokens(), pass).size(0), std::ssize(samples));
        decoding.advance([&](size_t row) {
          const auto sample = static_cast<size_t>(samples[row]);
          return ++generated[sample] < room(sample) ? int64_t{3} : -1;
        });
      }
    });
    int64_t all = 0, longest = 0;
    for (size_t s = 0; s < kSamples; ++s) {
      EXPECT_EQ(generated[s], room(s)) << "sample " << s;
      all += room(s);
      longest = std::max(longest, room(s));
    }
    // The last token of a text isn't an input, but the first step has a prompt or a start token.
    const int64_t first = continues ? batch.source->tokens() : static_cast<int64_t>(kSamples);
    EXPECT_EQ(rows, first + all - static_cast<int64_t>(kSamples));
    if (at_once == 1) {
      EXPECT_EQ(steps, all);
    }
    if (at_once == 0) {
      EXPECT_EQ(steps, longest);
    }
    if (at_once == 2) {
      EXPECT_LE(steps, all / 2 + longest);
    }
  }
}

// Under FSDP, all ranks gather the weights of every step, also those that have no samples left.
TEST_P(AFewAtATime, RanksEndTogether) {
  const models::Batch all = batch_of(kSamples, model->model().task());
  const evaluation::Generation options{.max_new_tokens = kMost, .at_once = 2, .end_tokens = {5, 8, 11}};
  const Texts expected = evaluation::generate(*model, all, {}, options);
  for (const int64_t of_first : {7, 9})
    run_ranks(2, [&](dist::Comm& ranks) {
      const at::NoGradGuard on_this_thread;
      const auto sharded = model_of(GetParam(), ranks);
      const int64_t first = ranks.rank() == 0 ? 0 : of_first, end = ranks.rank() == 0 ? of_first : kSamples;
      for (const int64_t beams : {1, 2}) {
        evaluation::Generation mine = options;
        mine.beams.count = beams;
        const Texts found = evaluation::generate(*sharded, models::sources_of(all, first, end), {}, mine);
        EXPECT_EQ(std::ssize(found), end - first);
        if (beams == 1) {
          EXPECT_EQ(found, Texts(expected.begin() + first, expected.begin() + end));
        }
      }
    });
}

INSTANTIATE_TEST_SUITE_P(Models, AFewAtATime, ::testing::Values("t5/v1_0", "t5/v1_1", "gpt2/causal", "llama/llama", "llama/mistral", "gemma/gemma3"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '/', '_');
                           return name;
                         });

}  // namespace
}  // namespace trainer::testing
