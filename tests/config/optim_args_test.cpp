// `training.optim_args` and other options that depend on the optimizer.
#include "engine/config/plan/optim_args.h"

#include "tests/config/given.h"

namespace trainer::config {
namespace {

using OptimArgsOption = Given;

TEST_F(OptimArgsOption, IsReadByTorchsNames) {
  TrainingConfig training;
  training.optim = OptimizerName::kRmsprop;
  training.optim_args = " momentum = 0.5,alpha=0.9 , centered=True";
  const OptimArgs args = read_optim_args(training);
  EXPECT_EQ(args.values, (std::map<std::string, double>{{"momentum", 0.5}, {"alpha", 0.9}, {"centered", 1}}));
  EXPECT_EQ(args.get("eps", 7), 7);
  training.optim = OptimizerName::kMuon;
  training.optim_args = "adjust_lr_fn=match_rms_adamw";
  EXPECT_EQ(read_optim_args(training).get("adjust_lr_fn", 0), 1);
}

TEST_F(OptimArgsOption, IsCheckedByTheOptimizer) {
  const auto refused = [&](const std::string& training) { return problems(kLeast + "training: {" + training + "}\n"); };
  EXPECT_EQ(refused("optim: sgd, optim_args: \"momentum=0.9, dampening=0\""), "");
  EXPECT_EQ(refused("optim: sgd    , optim_args: \"momentun=0.9\""),
            "f.yaml:5:40: training.optim_args: sgd has no argument momentun; its arguments are momentum, dampening, "
            "nesterov");
  EXPECT_EQ(refused("optim: rmsprop, optim_args: \"alpha=-1\""),
            "f.yaml:5:40: training.optim_args: alpha is -1, but must be a number of at least 0");
  EXPECT_EQ(refused("optim: rmsprop, optim_args: centered=2"),
            "f.yaml:5:40: training.optim_args: centered is 2, but must be true or false");
  EXPECT_EQ(refused("optim: adagrad, optim_args: eps"), "f.yaml:5:40: training.optim_args: eps is not key=value");
  EXPECT_EQ(refused("optim: adagrad, optim_args: \"eps=1, eps=2\""),
            "f.yaml:5:40: training.optim_args: eps is given twice");
  EXPECT_EQ(refused("optim: adagrad, optim_args: weight_decay=1"),
            "f.yaml:5:40: training.optim_args: set training.weight_decay instead of weight_decay");
  EXPECT_EQ(refused("optim: muon, optim_args: \"adjust_lr_fn=match_rms_adamw, ns_steps=6, nesterov=no\""), "");
  EXPECT_EQ(refused("optim: muon   , optim_args: adjust_lr_fn=adamw"),
            "f.yaml:5:40: training.optim_args: adjust_lr_fn is adamw, but must be original or match_rms_adamw");
  EXPECT_EQ(refused("optim: muon   , optim_args: ns_steps=2.5"),
            "f.yaml:5:40: training.optim_args: ns_steps is 2.5, but must be an integer of at least 0");
  EXPECT_EQ(refused("optim: sgd    , optim_args: nesterov=true"),
            "f.yaml:5:40: training.optim_args: nesterov needs momentum above 0 and no dampening; they are 0 and 0");
  EXPECT_EQ(refused("optim: sgd    , optim_args: momentum=0.5, sgd_momentum: 0.9"),
            "f.yaml:5:40: training.optim_args: momentum is 0.5, but training.sgd_momentum is 0.9");
}

TEST_F(OptimArgsOption, OptimizersHaveTheNamesOfTransformers) {
  const auto read = [this](const char* name) {
    return resolve(kLeast + "training: {optim: " + name + "}\n").config.training.optim;
  };
  for (const char* name : {"adamw_8bit", "adamw_bnb_8bit", "paged_adamw_8bit"})
    EXPECT_EQ(read(name), OptimizerName::kAdamW8Bit);
  for (const char* name : {"paged_adamw", "paged_adamw_32bit", "adamw_apex_fused"})
    EXPECT_EQ(read(name), OptimizerName::kAdamWFused);
  for (const char* name : {"lion_32bit", "paged_lion_32bit"}) EXPECT_EQ(read(name), OptimizerName::kLion);
  EXPECT_EQ(problems(kLeast + "training: {optim: paged_lion_8bit}\n"),
            "f.yaml:5:19: training.optim paged_lion_8bit is not supported by this version");
}

TEST_F(OptimArgsOption, HasNoEffectOnOthers) {
  EXPECT_EQ(warnings(kLeast + "training: {optim: adafactor, optim_args: clip_threshold=2, adam_beta2: 0.5}\n"),
            "f.yaml:5:72: training.adam_beta2 has no effect unless optim is AdamW, lion or muon\n"
            "f.yaml:5:42: training.optim_args has no effect unless optim is sgd, rmsprop, adagrad or muon\n");
}

TEST_F(OptimArgsOption, LoraPlusNeedsLora) {
  const std::string ratio = "training: {loraplus_lr_ratio: 4}\n";
  EXPECT_EQ(resolve(kLeast + ratio + "lora: {}\n").config.training.loraplus_lr_ratio, 4);
  EXPECT_EQ(resolve(kLeast + ratio).config.training.loraplus_lr_ratio, 0);
  EXPECT_EQ(warnings(kLeast + ratio),
            "f.yaml:5:31: training.loraplus_lr_ratio has no effect unless lora.peft_type is LORA\n");
}

}  // namespace
}  // namespace trainer::config
