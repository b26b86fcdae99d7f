// The MLP against torch (tests/golden/make_mlp.py): same initial weights, same images in the same order.
#include <cmath>

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

#include "engine/dist/comm.h"
#include "engine/optim/optimizer.h"
#include "engine/parallel/parallelize.h"
#include "tests/models/family_case.h"
#include "tests/support/source_dir.h"

namespace trainer::testing {
namespace {

constexpr double kTolerance = 1e-5;

/// The weights of one safetensors file, by name.
class FileSource : public parallel::WeightSource {
 public:
  explicit FileSource(const std::string& path) : file_(path) {}
  nn::Storage storage(const nn::Parameter&) const override { return at::kFloat; }
  void read(const nn::Parameter& parameter, int64_t begin, int64_t end, const at::Tensor& out) const override {
    out.copy_(file_.read(parameter.name, begin, end));
  }

 private:
  tensorfile::SafetensorsFile file_;
};

class MlpGolden : public ::testing::Test {
 protected:
  MlpGolden() : folder(source_dir() + "/tests/golden/mlp/"), tensors(folder + "expected.safetensors") {
    auto built = models::build_model({.config_json = golden_text("mlp/config.json"),
                                      .origin = "golden",
                                      .task = models::Task::kImageClassification});
    model = parallel::parallelize(std::move(built), std::make_shared<dist::Mesh>(*comm, dist::Degrees{}), {},
                                  FileSource(folder + "model.safetensors"));
  }

  /// The images of update `update`, cycling through the data.
  models::Batch batch(int64_t update) const {
    const int64_t size = expected["batch_size"];
    const at::Tensor images = tensors.tensor("images"), classes = tensors.tensor("classes");
    const int64_t first = update * size % images.size(0);
    auto rows = std::make_shared<nn::Layout>();
    for (int64_t i = 0; i < size; ++i) rows->append(1, update * size + i);
    models::Batch made;
    made.labels = classes.narrow(0, first, size).to(at::kLong);
    made.pixels = images.narrow(0, first, size).to(at::kFloat) / 255;
    made.source = made.target = rows;
    made.target_tokens = size;
    return made;
  }

  std::string folder;
  tensorfile::SafetensorsFile tensors;
  nlohmann::json expected = nlohmann::json::parse(golden_text("mlp/expected.json"));
  std::unique_ptr<dist::Comm> comm = dist::solo_comm();
  std::unique_ptr<parallel::ParallelModel> model;
};

TEST_F(MlpGolden, LogitsAndGradientsMatchTorch) {
  EXPECT_LT(distance(model->model().logits(batch(0), {}).detach(), tensors.tensor("logits")), kTolerance);
  model->update({batch(0)}, batch(0).target_tokens, {});
  size_t compared = 0;
  for (const auto& tensor : model->logical_tensors()) {
    EXPECT_LT(distance(tensor.grad, tensors.tensor("gradient." + tensor.name).view(-1)), kTolerance) << tensor.name;
    ++compared;
  }
  EXPECT_EQ(compared, 6U);
}

TEST_F(MlpGolden, TwentyUpdatesOfSgdHaveTheSameLosses) {
  config::TrainingConfig options;
  options.optim = config::OptimizerName::kSgd;
  const auto optimizer = optim::make_optimizer(options, model->logical_tensors(), model->comm());
  ASSERT_EQ(expected["losses"].size(), 20U);
  for (int64_t update = 0; update < 20; ++update) {
    const models::Batch images = batch(update);
    const double loss = model->update({images}, images.target_tokens, {}) / static_cast<double>(images.target_tokens);
    EXPECT_NEAR(loss / expected["losses"][update].get<double>(), 1.0, kTolerance) << "update " << update;
    optimizer->step(model->logical_tensors(), expected["learning_rate"]);
    model->zero_grad();
  }
}

TEST_F(MlpGolden, ImagesInTwoMicroBatchesGiveTheSameGradients) {
  model->update({batch(0), batch(1)}, 2 * batch(0).target_tokens, {});
  std::vector<at::Tensor> apart;
  for (const auto& tensor : model->logical_tensors()) apart.push_back(tensor.grad.clone());
  model->zero_grad();
  models::Batch both = batch(0);
  const models::Batch more = batch(1);
  both.pixels = at::cat({both.pixels, more.pixels}), both.labels = at::cat({both.labels, more.labels});
  auto rows = std::make_shared<nn::Layout>(*both.source);
  for (const int64_t position : more.source->sample_index) rows->append(1, position);
  both.source = both.target = rows;
  both.target_tokens *= 2;
  model->update({both}, both.target_tokens, {});
  const auto together = model->logical_tensors();
  for (size_t i = 0; i < together.size(); ++i)
    EXPECT_LT(distance(together[i].grad, apart[i]), 1e-6) << together[i].name;
}

TEST(Mlp, DefaultsAreTheNetworkOfTheMnistExample) {
  const auto model = models::build_model(
      {.config_json = R"({"model_type": "mlp"})", .origin = "here", .task = models::Task::kImageClassification});
  std::string all;
  for (const nn::ParameterPtr& p : model->all_parameters())
    all += fmt::format("{} {} {:.6f}; ", p->name, fmt::join(p->shape, "x"), p->init.scale);
  EXPECT_EQ(all,
            "fc1.weight 128x784 0.035714; fc1.bias 128 0.035714; fc2.weight 10x128 0.088388; fc2.bias 10 0.088388; ");
  EXPECT_EQ(model->features(), 784);
  EXPECT_EQ(model->labels().back(), "9");
}

}  // namespace
}  // namespace trainer::testing
