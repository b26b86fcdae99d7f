// Pipelines: the numbers of one rank, in the order of their schedules, with no rank holding more than its share.
#include <deque>
#include <filesystem>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/checkpoint/export.h"
#include "engine/optim/optimizer.h"
#include "engine/parallel/pipelined_model.h"
#include "engine/selftest/matrix.h"
#include "engine/selftest/outcome.h"
#include "engine/selftest/random_samples.h"
#include "engine/train/batch_stream.h"
#include "engine/train/build.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace trainer::testing {
namespace {

using parallel::PipelineShape, parallel::PipelineStep;
using selftest::Setting, selftest::Strategy, selftest::TinyModel;

/// Runs all ranks' schedules as far as messages allow. A message is the number of a stretch and of a micro-batch.
class Rehearsal {
 public:
  Rehearsal(const PipelineShape& shape, int64_t micro_batches) : shape_(shape), left_(shape.ranks), most_(shape.ranks) {
    for (int64_t rank = 0; rank < shape.ranks; ++rank) {
      const auto steps = parallel::pipeline_schedule(shape, rank, micro_batches);
      EXPECT_EQ(std::ssize(steps), 2 * shape.chunks * micro_batches);
      left_[rank].assign(steps.begin(), steps.end());
    }
    for (bool moved = true; moved;) {
      moved = false;
      for (int64_t rank = 0; rank < shape.ranks; ++rank)
        while (!left_[rank].empty() && take(rank)) moved = true;
    }
  }

  bool done() const {
    return std::all_of(left_.begin(), left_.end(), [](const auto& steps) { return steps.empty(); });
  }
  int64_t most_in_flight(int64_t rank) const { return most_[rank]; }

 private:
  using Message = std::pair<int64_t, int64_t>;

  /// The next step of `rank`; false when what it needs has not been sent.
  bool take(int64_t rank) {
    const PipelineStep step = left_[rank].front();
    const int64_t stretch = step.chunk * shape_.ranks + rank, last = shape_.chunks * shape_.ranks - 1;
    const bool receives = step.forward ? stretch > 0 : stretch < last,
               sends = step.forward ? stretch < last : stretch > 0;
    auto& from = (step.forward ? forwards_ : backwards_)[rank];
    if (receives) {
      if (from.empty()) return false;
      EXPECT_EQ(from.front(), Message(stretch, step.micro_batch)) << "taken in another order than sent";
      from.pop_front();
    }
    const int64_t onwards = step.forward ? 1 : -1;
    auto& to = (step.forward ? forwards_ : backwards_)[(rank + onwards + shape_.ranks) % shape_.ranks];
    if (sends) to.push_back({stretch + onwards, step.micro_batch});
    auto& in_flight = in_flight_[{rank, step.chunk}];
    if (step.forward) {
      in_flight.push_back(step.micro_batch);
    } else if (in_flight.empty() || in_flight.front() != step.micro_batch) {
      ADD_FAILURE() << "backwards come in another order than their forwards";
      return false;
    } else {
      in_flight.pop_front();
    }
    int64_t all = 0;
    for (int64_t chunk = 0; chunk < shape_.chunks; ++chunk) all += std::ssize(in_flight_[{rank, chunk}]);
    most_[rank] = std::max(most_[rank], all);
    left_[rank].pop_front();
    return true;
  }

  PipelineShape shape_;
  std::vector<std::deque<PipelineStep>> left_;
  std::vector<int64_t> most_;
  std::map<int64_t, std::deque<Message>> forwards_, backwards_;           // on their way to a rank
  std::map<std::pair<int64_t, int64_t>, std::deque<int64_t>> in_flight_;  // of a rank's chunk
};

TEST(PipelineSchedule, EveryRankComesToItsEnd) {
  for (int64_t ranks = 2; ranks <= 5; ++ranks)
    for (int64_t chunks = 1; chunks <= 3; ++chunks)
      for (int64_t micro_batches = 1; micro_batches <= 3 * ranks + 1; ++micro_batches) {
        SCOPED_TRACE(fmt::format("{} ranks, {} chunks, {} micro-batches", ranks, chunks, micro_batches));
        const PipelineShape shape{ranks, chunks};
        const Rehearsal rehearsal(shape, micro_batches);
        EXPECT_TRUE(rehearsal.done());
        for (int64_t rank = 0; rank < ranks; ++rank)
          EXPECT_LE(rehearsal.most_in_flight(rank), parallel::most_in_flight(shape, rank)) << "rank " << rank;
      }
}

TEST(PipelineSchedule, OneForwardOneBackwardHoldsAsManyAsThereAreRanksBehind) {
  const Rehearsal rehearsal({4, 1}, 12);
  for (int64_t rank = 0; rank < 4; ++rank) EXPECT_EQ(rehearsal.most_in_flight(rank), 4 - rank);
}

TinyModel model_named(const std::string& name) {
  for (TinyModel& model : selftest::tiny_models())
    if (model.name == name) return model;
  throw InternalError("no model {}", name);
}

TinyModel with(TinyModel model, const std::string& change) {
  nlohmann::json config = nlohmann::json::parse(model.config);
  config.update(nlohmann::json::parse(change));
  model.config = config.dump();
  return model;
}

Strategy pipeline(int stages, int ranks) {
  Strategy strategy{fmt::format("PP {} of {}", stages, ranks), ranks, config::DistributedType::kMultiCpu};
  strategy.degrees.pp_size = stages;
  return strategy;
}

selftest::Outcome outcome_of(const Setting& setting) {
  const data::MemorySamples samples = selftest::random_samples(setting.model);
  selftest::Outcome outcome;
  run_ranks(setting.strategy.ranks, [&](dist::Comm& comm) {
    selftest::Outcome mine = selftest::train(setting, samples, comm);
    if (comm.rank() == 0) outcome = std::move(mine);  // every rank's losses and whole gradients are the same
  });
  return outcome;
}

void expect_as_on_one_rank(const Setting& setting) {
  const auto difference = selftest::difference(outcome_of(setting), outcome_of(setting.reference()), setting.bf16);
  EXPECT_TRUE(difference.fits()) << "first loss " << difference.first_loss << ", gradients " << difference.gradients
                                 << " (" << difference.worst_gradient << "), losses " << difference.losses;
}

TEST(Pipeline, TrainsAsOneRankDoes) {
  const TinyModel llama = model_named("LLaMA"), gpt2 = model_named("GPT-2");  // untied and tied
  for (const TinyModel& model :
       {llama, gpt2, with(llama, R"({"tie_word_embeddings": true})"), with(gpt2, R"({"tie_word_embeddings": false})")})
    for (const bool lora : {false, true})
      for (const Strategy& strategy : {pipeline(2, 2), pipeline(3, 3), pipeline(2, 4)})
        for (const int64_t micro_batches : {1, 4}) {
          const bool recompute = (micro_batches == 1) == lora;
          const Setting setting{model, strategy, lora, micro_batches, recompute, false};
          SCOPED_TRACE(setting.name() + " " + model.config);
          expect_as_on_one_rank(setting);
        }
}

TEST(Pipeline, TrainsAsOneRankDoesWhereRanksShareLayersToo) {
  for (const char* name : {"LLaMA", "GPT-2"})
    for (const bool lora : {false, true}) {
      Strategy strategy = pipeline(2, 4);
      strategy.degrees.tp_size = 2;
      const Setting setting{model_named(name), strategy, lora, lora ? 1 : 4, !lora, false};
      SCOPED_TRACE(setting.name());
      expect_as_on_one_rank(setting);
    }
}

TEST(Pipeline, TrainsAsOneRankDoesWithInterleavedStages) {
  const TinyModel model = with(model_named("LLaMA"), R"({"num_hidden_layers": 7})");
  for (const int stages : {2, 3})
    for (const bool lora : {false, true})
      for (const int64_t micro_batches : {1, 4}) {
        Strategy strategy = pipeline(stages, stages);
        strategy.degrees.pp_chunks = 2;
        const Setting setting{model, strategy, lora, micro_batches, false, false};
        SCOPED_TRACE(setting.name());
        expect_as_on_one_rank(setting);
      }
}

TEST(Pipeline, TrainsAsOneRankDoesWithFewerBlocksInTheLastStage) {
  Strategy strategy = pipeline(2, 2);
  strategy.degrees.pp_last_blocks = 1;
  const TinyModel model = with(model_named("GPT-2"), R"({"n_layer": 5})");
  expect_as_on_one_rank({model, strategy, false, 4});
}

TEST(Pipeline, TrainsAsOneRankDoesInBf16) {
  Setting setting{model_named("LLaMA"), pipeline(2, 2), false, 4, false, true};
  Setting alone = setting.reference();
  EXPECT_TRUE(selftest::difference(outcome_of(setting), outcome_of(alone), true).fits());
}

/// A model, its optimiser, and what it is trained on.
struct Training {
  Training(const Setting& setting, dist::Comm& comm)
      : plan(selftest::plan_of(setting)), samples(selftest::random_samples(setting.model)) {
    train::Blueprint blueprint = train::make_blueprint(plan);
    model = train::make_parallel(plan, blueprint, comm);
    optimizer = optim::make_optimizer(plan.config.training, model->logical_tensors(), comm);
  }

  train::UpdateBatch batch(int64_t consumed) {
    dist::Comm& data = model->mesh().data();
    return train::BatchStream(samples, plan.config, selftest::kGlobalBatch, data.rank(), data.size()).next(consumed);
  }
  /// Losses of `count` updates.
  std::vector<double> train(int count) {
    std::vector<double> losses;
    for (int i = 0; i < count; ++i, consumed += selftest::kGlobalBatch) {
      const train::UpdateBatch update = batch(consumed);
      nn::Pass pass;
      pass.training = true;
      losses.push_back(model->update(update.micro_batches, update.target_tokens, pass));
      model->clip_grad_norm(1);
      optimizer->step(model->logical_tensors(), 5e-3);
      model->zero_grad();
    }
    return losses;
  }
  checkpoint::RunState state() { return {*model, *optimizer}; }

  config::Plan plan;
  data::MemorySamples samples;
  std::unique_ptr<parallel::ParallelModel> model;
  std::unique_ptr<optim::Optimizer> optimizer;
  int64_t consumed = 0;
};

/// The whole values of all that is trained, and of what the optimiser keeps.
std::map<std::string, at::Tensor> everything(Training& run) {
  std::map<std::string, at::Tensor> all;
  std::map<std::string, parallel::LogicalTensor> by_name;
  for (const auto& tensor : run.model->logical_tensors()) {
    by_name[tensor.name] = tensor;
    all[tensor.name] = checkpoint::gather(tensor, run.model->comm()).clone();
  }
  for (const optim::StateTensor& state : run.optimizer->state())
    all[state.kind + " " + state.parameter] =
        checkpoint::gather(state.logical(by_name.at(state.parameter)), run.model->comm()).clone();
  return all;
}

TEST(Pipeline, ACheckpointMovesToOneRankAndBackBitForBit) {
  const TemporaryFolder folder;
  for (const bool lora : {false, true})
    for (const auto optim : {config::OptimizerName::kAdamWFused, config::OptimizerName::kAdafactor}) {
      Setting spread{model_named("GPT-2"), pipeline(2, 4), lora, 2};
      std::map<std::string, at::Tensor> first;
      const auto path = folder.path() / fmt::format("{}{}", lora, static_cast<int>(optim));
      std::filesystem::create_directories(path);
      run_ranks(4, [&](dist::Comm& comm) {
        Training run(spread, comm);
        run.train(3);
        checkpoint::Manifest about;
        about.progress.step = 3;
        checkpoint::save(path, about, run.state(), [](const auto&) {});
        auto mine = everything(run);
        if (comm.rank() == 0) first = std::move(mine);
      });
      const auto saved = checkpoint::newest_checkpoint(path.string());
      ASSERT_TRUE(saved);
      const auto expect_first = [&](Training& run) {
        const auto found = everything(run);
        ASSERT_EQ(found.size(), first.size());
        for (const auto& [name, value] : first) EXPECT_TRUE(at::equal(found.at(name), value)) << name;
      };
      run_ranks(1, [&](dist::Comm& comm) {
        Training run(spread.reference(), comm);
        checkpoint::load(saved->folder, run.state());
        expect_first(run);
        checkpoint::Manifest about;
        about.progress.step = 4;
        checkpoint::save(path, about, run.state(), [](const auto&) {});
      });
      run_ranks(4, [&](dist::Comm& comm) {
        Training run(spread, comm);
        checkpoint::load(checkpoint::newest_checkpoint(path.string())->folder, run.state());
        expect_first(run);
      });
    }
}

TEST(Pipeline, AStageHoldsItsShareOnly) {
  const Setting setting{model_named("LLaMA"), pipeline(3, 3)};  // untied, three blocks
  int64_t whole = 0;
  run_ranks(1, [&](dist::Comm& comm) {
    for (const auto& tensor : Training(setting.reference(), comm).model->logical_tensors())
      whole += tensor.value.numel();
  });
  std::vector<int64_t> held(3), states(3);
  run_ranks(3, [&](dist::Comm& comm) {
    Training run(setting, comm);
    const auto rank = static_cast<size_t>(comm.rank());
    for (const nn::ParameterPtr& p : run.model->model().all_parameters()) {
      if (p->value.defined()) held[rank] += p->numel();
      const bool in_block = p->name.find(".layers.") != std::string::npos;
      EXPECT_EQ(p->value.defined() && in_block, p->name.find(fmt::format(".layers.{}.", rank)) != std::string::npos)
          << p->name;
    }
    for (const optim::StateTensor& state : run.optimizer->state()) states[rank] += state.value.numel();
  });
  EXPECT_EQ(held[0] + held[1] + held[2], whole);
  for (size_t rank = 0; rank < 3; ++rank) EXPECT_EQ(states[rank], 2 * held[rank]);
}

TEST(Pipeline, EvaluatesAndWritesAsOneRankDoes) {
  const TinyModel gpt2 = model_named("GPT-2");
  std::vector<double> losses;
  std::vector<std::vector<std::vector<int64_t>>> texts;
  for (const auto& [stages, ranks] : {std::pair{1, 1}, std::pair{2, 2}, std::pair{3, 3}})
    run_ranks(ranks, [&, stages = stages, ranks = ranks](dist::Comm& comm) {
      Setting setting{gpt2, stages == 1 ? Strategy{"one rank"} : pipeline(stages, ranks)};
      Training run(setting, comm);
      run.train(5);
      const models::Batch batch = run.batch(0).micro_batches[0];
      const double loss = run.model->evaluate(batch, {});
      const auto text = run.model->generate(batch, 6, {});
      const auto drawn = run.model->generate(batch, 6, {}, {1.0, 5, 1.0, 3});
      if (comm.rank() + 1 < comm.size()) return;
      losses.push_back(loss);
      texts.push_back(text);
      texts.back().insert(texts.back().end(), drawn.begin(), drawn.end());
    });
  for (size_t i = 1; i < losses.size(); ++i) {
    EXPECT_NEAR(losses[i] / losses[0], 1, 1e-5);
    EXPECT_EQ(texts[i], texts[0]);
  }
}

TEST(Pipeline, ClassifiesAsOneRankDoes) {
  TinyModel model = model_named("LLaMA");
  model.task = config::Task::kSequenceClassification;
  model = with(model, R"({"id2label": {"0": "a", "1": "b", "2": "c"}, "pad_token_id": 0})");
  expect_as_on_one_rank({model, pipeline(2, 4), false, 2});
  std::vector<parallel::ParallelModel::Classes> found(3);
  for (const int ranks : {1, 2, 3})
    run_ranks(ranks, [&](dist::Comm& comm) {
      Training run({model, ranks == 1 ? Strategy{"one rank"} : pipeline(ranks, ranks)}, comm);
      run.train(3);
      auto mine = run.model->classify(run.batch(0).micro_batches[0], {});
      if (comm.rank() == 0) found[static_cast<size_t>(ranks - 1)] = std::move(mine);
    });
  for (size_t i = 1; i < found.size(); ++i) {
    EXPECT_EQ(found[i].classes, found[0].classes);
    EXPECT_NEAR(found[i].loss / found[0].loss, 1, 1e-5);
  }
}

/// The message of making the setting's model; "" when nothing is wrong.
std::string problem_of(const Setting& setting) {
  try {
    train::make_blueprint(selftest::plan_of(setting));
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST(Pipeline, IsCutWhereItCanBe) {
  const TinyModel llama = model_named("LLaMA");
  EXPECT_EQ(problem_of({llama, pipeline(3, 3)}), "");
  EXPECT_EQ(
      problem_of({llama, pipeline(4, 4)}),
      "parallelism_config_pp_size is 4, which cuts the model into 4 stages, but it has 3 blocks: at most 3 stages "
      "are possible.");
  EXPECT_EQ(
      problem_of({model_named("T5"), pipeline(2, 2)}),
      "parallelism_config_pp_size is 2, but T5ForConditionalGeneration has no single stack of decoder blocks that "
      "a pipeline could be cut from: only LLaMA-like and GPT-2 models have.\n  Use data parallel ranks or FSDP.");
}

}  // namespace
}  // namespace trainer::testing
