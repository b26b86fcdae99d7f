// Pipelines: same results as one rank, valid schedules, and no rank holds more than its stages.
#include <deque>

#include "engine/evaluation/classify.h"
#include "engine/evaluation/generate.h"
#include "engine/parallel/pipeline_schedule.h"
#include "tests/parallel/spread_training.h"

namespace trainer::testing {
namespace {

using parallel::PipelineShape, parallel::PipelineStep;

/// Runs all ranks' schedules as far as messages allow. A message is the number of a stage and of a micro-batch.
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

  /// Runs the next step of `rank`; false if its input has not been sent.
  bool take(int64_t rank) {
    const PipelineStep step = left_[rank].front();
    const int64_t chunk = step.chunk * shape_.ranks + rank, last = shape_.chunks * shape_.ranks - 1;
    const bool receives = step.forward ? chunk > 0 : chunk < last, sends = step.forward ? chunk < last : chunk > 0;
    auto& from = (step.forward ? forwards_ : backwards_)[rank];
    if (receives) {
      if (from.empty()) return false;
      EXPECT_EQ(from.front(), Message(chunk, step.micro_batch)) << "received in another order than sent";
      from.pop_front();
    }
    const int64_t onwards = step.forward ? 1 : -1;
    auto& to = (step.forward ? forwards_ : backwards_)[(rank + onwards + shape_.ranks) % shape_.ranks];
    if (sends) to.push_back({chunk + onwards, step.micro_batch});
    auto& in_flight = in_flight_[{rank, step.chunk}];
    if (step.forward) {
      in_flight.push_back(step.micro_batch);
    } else if (in_flight.empty() || in_flight.front() != step.micro_batch) {
      ADD_FAILURE() << "backwards run in another order than their forwards";
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
  std::map<std::pair<int64_t, int64_t>, std::deque<int64_t>> in_flight_;  // of each chunk of a rank
};

TEST(PipelineSchedule, EveryRankFinishes) {
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

TEST(PipelineSchedule, OneForwardOneBackwardLimitsForwardsInFlight) {
  const Rehearsal rehearsal({4, 1}, 12);
  for (int64_t rank = 0; rank < 4; ++rank) EXPECT_EQ(rehearsal.most_in_flight(rank), 4 - rank);
}

Strategy pipeline(int stages, int ranks) {
  Strategy strategy{fmt::format("PP {} of {}", stages, ranks), ranks, config::DistributedType::kMultiCpu};
  strategy.degrees.pp_size = stages;
  return strategy;
}

TEST(Pipeline, TrainsLikeOneRank) {
  const TinyModel llama = model_named("LLaMA"), gpt2 = model_named("GPT-2");  // untied and tied
  for (const TinyModel& model :
       {llama, gpt2, with(llama, R"({"tie_word_embeddings": true})"), with(gpt2, R"({"tie_word_embeddings": false})"),
        model_named("Gemma 2"), model_named("Gemma 3")})
    for (const bool lora : {false, true})
      for (const Strategy& strategy : {pipeline(2, 2), pipeline(3, 3), pipeline(2, 4)})
        for (const int64_t micro_batches : {1, 4}) {
          const bool recompute = (micro_batches == 1) == lora;
          const Setting setting{model, strategy, lora, micro_batches, recompute, false};
          SCOPED_TRACE(setting.name() + " " + model.config);
          expect_as_on_one_rank(setting);
        }
}

TEST(Pipeline, TrainsLikeOneRankWithTensorParallelism) {
  for (const char* name : {"LLaMA", "GPT-2"})
    for (const bool lora : {false, true}) {
      Strategy strategy = pipeline(2, 4);
      strategy.degrees.tp_size = 2;
      const Setting setting{model_named(name), strategy, lora, lora ? 1 : 4, !lora, false};
      SCOPED_TRACE(setting.name());
      expect_as_on_one_rank(setting);
    }
}

TEST(Pipeline, TrainsLikeOneRankWithInterleavedStages) {
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

TEST(Pipeline, TrainsLikeOneRankWithFewerBlocksInTheLastStage) {
  Strategy strategy = pipeline(2, 2);
  strategy.degrees.pp_last_blocks = 1;
  const TinyModel model = with(model_named("GPT-2"), R"({"n_layer": 5})");
  expect_as_on_one_rank({model, strategy, false, 4});
}

TEST(Pipeline, TrainsLikeOneRankInBf16) {
  Setting setting{model_named("LLaMA"), pipeline(2, 2), false, 4, false, true};
  Setting alone = setting.reference();
  EXPECT_TRUE(selftest::difference(outcome_of(setting), outcome_of(alone), true).fits());
}

TEST(Pipeline, CheckpointMovesToOneRankAndBackBitForBit) {
  for (const bool lora : {false, true})
    for (const auto optim :
         {config::OptimizerName::kAdamWFused, config::OptimizerName::kAdafactor, config::OptimizerName::kMuon}) {
      const Setting spread{model_named("GPT-2"), pipeline(2, 4), lora, 2};
      expect_checkpoint_moves(spread, spread.reference(), optim);
    }
}

TEST(Pipeline, StageHoldsOnlyItsParameters) {
  const Setting setting{model_named("LLaMA"), pipeline(3, 3)};  // untied, three blocks
  int64_t whole = 0;
  run_ranks(1, [&](dist::Comm& comm) {
    const Training reference(setting.reference(), comm);
    for (const auto& tensor : reference.model->logical_tensors()) whole += tensor.value.numel();
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

TEST(Pipeline, EvaluatesAndGeneratesLikeOneRank) {
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
      const auto text = evaluation::generate(*run.model, batch, 6, {});
      const auto drawn = evaluation::generate(*run.model, batch, 6, {}, {1.0, 5, 1.0, 3});
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

TEST(Pipeline, ClassifiesLikeOneRank) {
  TinyModel model = model_named("LLaMA");
  model.task = config::Task::kSequenceClassification;
  model = with(model, R"({"id2label": {"0": "a", "1": "b", "2": "c"}, "pad_token_id": 0})");
  expect_as_on_one_rank({model, pipeline(2, 4), false, 2});
  std::vector<evaluation::Classes> found(3);
  for (const int ranks : {1, 2, 3})
    run_ranks(ranks, [&](dist::Comm& comm) {
      Training run({model, ranks == 1 ? Strategy{"one rank"} : pipeline(ranks, ranks)}, comm);
      run.train(3);
      auto mine = evaluation::classify(*run.model, run.batch(0).micro_batches[0], {});
      if (comm.rank() == 0) found[static_cast<size_t>(ranks - 1)] = std::move(mine);
    });
  for (size_t i = 1; i < found.size(); ++i) {
    EXPECT_EQ(found[i].classes, found[0].classes);
    EXPECT_NEAR(found[i].loss / found[0].loss, 1, 1e-5);
  }
}

/// The error of building the setting's model; "" if there is none.
std::string problem_of(const Setting& setting) {
  try {
    train::make_blueprint(selftest::plan_of(setting));
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST(Pipeline, SplitsOnlyValidModels) {
  const TinyModel llama = model_named("LLaMA");
  EXPECT_EQ(problem_of({llama, pipeline(3, 3)}), "");
  EXPECT_EQ(
      problem_of({llama, pipeline(4, 4)}),
      "parallelism_config_pp_size is 4, which splits the model into 4 stages, but it has 3 blocks: at most 3 stages "
      "are possible.");
  EXPECT_EQ(
      problem_of({model_named("T5"), pipeline(2, 2)}),
      "parallelism_config_pp_size is 2, but T5ForConditionalGeneration has no single stack of decoder blocks to split "
      "into pipeline stages; the LLaMA family and GPT-2 have one.\n  Use data parallel ranks or FSDP.");
}

}  // namespace
}  // namespace trainer::testing
