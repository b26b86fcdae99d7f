// `scheduler` of a ds_config.json.
#include <algorithm>

#include "engine/base/edit_distance.h"
#include "engine/config/translate/deepspeed.h"

namespace trainer::config {
namespace {

const std::string kSchedulerParams = "scheduler.params.";
const std::string kSchedulerType = "scheduler.type";
const std::string kKwargs = "training.lr_scheduler_kwargs.";

struct DsSchedule {
  std::string name;
  Schedule schedule;
  std::vector<std::string> own;  // params that not all schedules have
};

const std::vector<DsSchedule>& schedules() {
  static const std::vector<DsSchedule> all{
      {"WarmupLR", Schedule::kWarmupLr, {"warmup_min_lr", "warmup_max_lr"}},
      {"WarmupDecayLR", Schedule::kWarmupDecayLr, {"warmup_min_lr", "warmup_max_lr", "total_num_steps"}},
      {"WarmupCosineLR", Schedule::kWarmupCosineLr, {"total_num_steps", "warmup_min_ratio", "cos_min_ratio"}}};
  return all;
}

const DsSchedule* find_schedule(Draft& draft, DsDocument& ds) {
  const GivenKey type = ds.key(kSchedulerType);
  const std::string& given = ds.config().scheduler.type;
  std::vector<std::string> names;
  for (const DsSchedule& schedule : schedules()) {
    if (lower(schedule.name) == lower(given)) return &schedule;
    names.push_back(schedule.name);
  }
  if (ds.failed(kSchedulerType)) return nullptr;
  if (given.empty()) {
    draft.problems.add(draft.mark("ds_config.scheduler"), type.key,
                       fmt::format("{} is required in scheduler: {}", type.key, fmt::join(names, ", ")));
  } else {
    Translation(draft).refuse(type, fmt::format("use {}{}", fmt::join(names, ", "), did_you_mean(given, names)));
  }
  return nullptr;
}

/// DeepSpeed fails on params that a schedule doesn't have.
void check_params(Draft& draft, DsDocument& ds, const DsSchedule& schedule) {
  for (const char* key : {"warmup_min_lr", "warmup_max_lr", "total_num_steps", "warmup_min_ratio", "cos_min_ratio"}) {
    const bool known = std::find(schedule.own.begin(), schedule.own.end(), key) != schedule.own.end();
    if (!known && ds.has(kSchedulerParams + key))
      Translation(draft).refuse(ds.key(kSchedulerParams + key), schedule.name + " has no such key");
  }
}

}  // namespace

void translate_scheduler(Draft& draft, DsDocument& ds) {
  if (!ds.has("scheduler")) return;
  const DsSchedule* schedule = find_schedule(draft, ds);
  if (!schedule) return;
  Translation(draft).set(ds.key(kSchedulerType), "training.lr_scheduler_type", encode(schedule->schedule));
  check_params(draft, ds, *schedule);
  ds.set(kSchedulerParams + "warmup_num_steps", "training.warmup_steps");
  if (const Auto<int64_t>& steps = ds.config().scheduler.params.warmup_num_steps; steps.given && steps.value == 0)
    draft.warnings.push_back(
        fmt::format("{}: ds_config.{}warmup_num_steps is 0, which is treated as 2, as in DeepSpeed; newer versions of "
                    "DeepSpeed refuse it",
                    to_string(ds.key(kSchedulerParams + "warmup_num_steps").mark), kSchedulerParams));
  ds.assume(kSchedulerParams + "warmup_num_steps", encode(1000.0), kSchedulerType, "training.warmup_steps");
  ds.set(kSchedulerParams + "warmup_max_lr", "training.learning_rate");
  for (const char* key : {"warmup_min_lr", "warmup_type", "total_num_steps", "warmup_min_ratio", "cos_min_ratio"}) {
    ds.set(kSchedulerParams + key, kKwargs + key);
  }
  if (schedule->schedule == Schedule::kWarmupDecayLr) {
    ds.assume(kSchedulerParams + "warmup_max_lr", encode(1e-3), kSchedulerType, "training.learning_rate");
  }
  if (schedule->schedule != Schedule::kWarmupLr && !ds.has(kSchedulerParams + "total_num_steps")) {
    draft.problems.add(
        draft.mark("ds_config." + kSchedulerType), "ds_config." + kSchedulerParams + "total_num_steps",
        fmt::format("{} needs ds_config.{}total_num_steps: a number of updates, or auto for the length of the run",
                    schedule->name, kSchedulerParams));
  }
}

}  // namespace trainer::config
