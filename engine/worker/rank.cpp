#include <csignal>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <optional>
#include <string_view>
#include <system_error>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/folder_lock.h"
#include "engine/base/human.h"
#include "engine/base/link.h"
#include "engine/base/log.h"
#include "engine/base/rank_board.h"
#include "engine/base/screen.h"
#include "engine/base/uncaught.h"
#include "engine/config/machine/device.h"
#include "engine/config/plan/plan.h"
#include "engine/dist/accelerator.h"
#include "engine/dist/backend_comm.h"
#include "engine/dist/faulty_comm.h"
#include "engine/dist/memory.h"
#include "engine/dist/watched_comm.h"
#include "engine/metrics/start_panel.h"
#include "engine/parallel/wrap_policy.h"
#include "engine/train/batch_size.h"
#include "engine/train/build.h"
#include "engine/train/conditions.h"
#include "engine/train/parallelism.h"
#include "engine/train/same_inputs.h"
#include "engine/train/shown_source.h"
#include "engine/train/start.h"
#include "engine/train/stop_request.h"
#include "engine/worker/commands.h"
#include "engine/worker/environment.h"
#include "engine/worker/meeting.h"
#include "engine/worker/rank.h"

namespace trainer::worker {
namespace {

void open_log(const std::string& output_dir, int rank) {
  const auto folder = std::filesystem::path(output_dir) / "logs";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw machine_error("create", folder, error.value());
  const std::filesystem::path file = folder / fmt::format("rank-{}.log", rank);
  renew_file(file);  // an earlier process of the run, which was paused and continues, doesn't write to ours
  log::open(rank == 0 ? log::Level::kInfo : log::Level::kError, rank == 0 ? "" : fmt::format("rank {}", rank),
            file.string());
}

/// TRAINER_WATCH=0 turns off the recording of collectives, to measure its cost.
bool is_watched() {
  const char* const watch = std::getenv("TRAINER_WATCH");
  return watch == nullptr || std::string_view(watch) != "0";
}

/// Connects all ranks, with the watchdog and the requested fault, if any.
std::unique_ptr<dist::Comm> meet_watched(Link& link, const std::shared_ptr<RankBoard>& board,
                                         const config::Config& config, const std::optional<dist::Fault>& fault) {
  const int ranks = environment_number("WORLD_SIZE");
  if (ranks == 1) return meet(link, config);
  const auto meet_all = [&] { return meet(link, config); };
  auto comm = is_watched() ? dist::watched_comm(board, ranks, meet_all) : meet_all();
  if (!is_watched() || !comm->device().is_cpu()) board->hide_waits();  // GPU collectives end after their calls return
  return fault && fault->file == 0 ? dist::faulty_comm(std::move(comm), *fault, [board] { return board->step(); })
                                   : std::move(comm);
}

/// "rank 3 trains on cuda:3 (NVIDIA H100 80GB HBM3, 79 of 80 GiB free)". Every rank's log has it; the
/// screen shows rank 0's, unless it is the CPU: the launcher has given the reason if that was not asked for.
std::string device_text(int rank, const dist::Comm& comm) {
  if (comm.device().is_cpu()) return fmt::format("rank {} trains on the CPU", rank);
  const dist::DeviceFacts facts = dist::find_accelerator()->facts(comm.device().index());
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return fmt::format("rank {} trains on {} ({}, {} of {} free{}{})", rank, comm.device().str(), facts.name,
                     human_bytes(facts.free_bytes), human_bytes(facts.total_bytes),
                     visible != nullptr ? ", CUDA_VISIBLE_DEVICES=" : "", visible != nullptr ? visible : "");
}

/// What the report shows of a model before it is parallelized.
metrics::StartRecord start_record(const config::Config& config, models::Model& model) {
  metrics::StartRecord record;
  for (const nn::ParameterPtr& parameter : model.all_parameters()) {
    record.parameters += parameter->numel();
    if (parameter->trainable) record.trained += parameter->numel();
  }
  if (config.distributed_type != config::DistributedType::kFsdp) return record;
  for (const auto& [module, parameters] : parallel::plan_units(model, config.fsdp_config)) {
    record.units.push_back({module->path(), module->class_name()});
    for (const nn::ParameterPtr& parameter : parameters) record.units.back().parameters += parameter->numel();
  }
  return record;
}

/// What the screen shows of it.
metrics::StartFacts start_facts(const metrics::StartRecord& record, const models::Model& model,
                                const dist::Comm& comm) {
  metrics::StartFacts facts;
  facts.model_class = model.class_name();
  facts.parameters = record.parameters;
  facts.trained = record.trained;
  facts.units = std::ssize(record.units);
  facts.device = comm.device().is_cpu() ? "the CPU" : dist::find_accelerator()->facts(comm.device().index()).name;
  return facts;
}

train::Ending run(config::Plan& plan, Link& link, const std::shared_ptr<RankBoard>& board, const RankWork& work,
                  int64_t& step, std::string& phase) {
  const int rank = environment_number("RANK");
  const auto report = [&](int64_t at, const char* doing) {
    step = at;
    phase = doing;
    board->set_place(at, doing);
    link.report_step(at, doing);
  };
  report(-1, "starting");
  at::set_num_threads(environment_number("OMP_NUM_THREADS"));
  at::set_num_interop_threads(1);
  dist::count_tensor_memory();
  if (plan.config.deterministic) train::use_deterministic_algorithms();
  train::Setup setup = train::set_up(plan, [&](const char* doing) { report(-1, doing); });
  train::Blueprint& blueprint = setup.blueprint;
  prepare::Inputs& inputs = setup.inputs;
  if (sees_output()) train::start_of(plan.config);
  report(-1, "connecting to the other ranks");
  const std::optional<dist::Fault> fault = dist::fault_from_environment();
  const auto comm = meet_watched(link, board, plan.config, fault);
  comm->barrier();  // every rank has read its inputs: from here on the run writes to the output folder
  if (std::getenv(kAddressVariable) != nullptr) train::check_same_inputs(plan, setup, *comm);  // several machines
  open_log(plan.config.output_dir, rank);
  log::write(comm->device().is_cpu() ? log::Level::kDebug : log::Level::kInfo, device_text(rank, *comm));
  if (plan.config.training.tf32 && !comm->device().is_cpu()) at::globalContext().setAllowTF32CuBLAS(true);
  if (plan.config.training.cuda_graphs && rank == 0 && comm->device().is_cpu() && config::asks_for_gpus(plan.config))
    log::warning("training.cuda_graphs has no effect: this run trains on the CPU");
  for (const std::string& warning : {train::precision_warning(plan), train::overflow_warning(plan, *blueprint.model)})
    if (rank == 0 && !warning.empty()) log::warning("{}", warning);
  if (plan.config.training.auto_find_batch_size) {
    report(-1, "finding the batch size");
    const int64_t mine = free_bytes(*comm, environment_number("LOCAL_WORLD_SIZE"));
    comm->barrier();  // all ranks measure before one of them allocates memory
    train::find_batch_size(plan, inputs, *comm, mine);
  } else if (!comm->device().is_cpu()) {
    report(-1, "planning memory");
    train::check_memory(plan, inputs, free_bytes(*comm, environment_number("LOCAL_WORLD_SIZE")));
  }
  if (fault)
    if (const auto of_files = dist::file_fault(*fault, rank)) file_operations::plan_fault(*of_files);
  report(-1, "loading the weights");
  config::LoraConfig lora = blueprint.lora;
  metrics::StartRecord record;
  metrics::StartFacts facts;
  if (rank == 0) {
    record = start_record(plan.config, *blueprint.model);
    facts = start_facts(record, *blueprint.model, *comm);
  }
  const bool shows_loading = sees_output() && rank == 0;
  if (shows_loading)
    blueprint.sources.push_back(std::make_unique<train::ShownSource>(blueprint.source(), *blueprint.model));
  auto model = train::make_parallel(plan, blueprint, *comm);
  if (shows_loading) blueprint.sources.pop_back();  // and its line
  if (plan.config.distributed_type == config::DistributedType::kDataParallel)
    log::info(
        "DATA_PARALLEL: {0} devices in one process. Every update sums {1} KiB of gradients on the first device after "
        "the backward pass; MULTI_CPU with num_processes: {0} would send them during it.",
        plan.config.devices.size(), model->copied_gradient_bytes() >> 10);
  train::Trainer::Published published;
  if (rank == 0 && plan.config.logging.metrics_port > 0)
    published = {[&link](const std::string& line) { link.report_metrics(line); },
                 [&link](bool saved) { link.report_save(saved); }};
  train::Trainer trainer(plan, inputs, std::move(lora), std::move(model), meet_for_checkpoints(link, plan.config),
                         report, std::move(published));
  // Only now: a run that cannot be resumed must leave the earlier run's file unchanged.
  if (rank == 0) {
    FolderOwner::from_environment(plan.config.output_dir).require();
    const std::string resolved = config::resolved_text(plan);
    publish_file(std::filesystem::path(plan.config.output_dir) / "config.resolved.yaml", resolved);
    trainer.report_configuration(resolved);
  }
  if (rank == 0) {
    trainer.report_start(std::move(record));
    trainer.describe_start(facts);
    for (const std::string& line : metrics::start_panel(plan.config, facts)) log::info("{}", line);
  }
  const train::Ending ending = work(trainer, *comm);
  comm->barrier();
  return ending;
}

std::string out_of_memory(const std::string& phase, const std::string& why) {
  return fmt::format(
      "out of memory while {}.\n{}  Lower training.per_device_train_batch_size, or set "
      "training.gradient_checkpointing: true.",
      phase, why.empty() ? "" : fmt::format("  {}\n", why.substr(0, why.find('\n'))));
}

std::string lost_rank(const std::string& text) {
  return fmt::format("{}.\n  {}", dist::meaning_of(text), text.substr(0, text.find("\nException raised from")));
}

Link* link_of_process = nullptr;

/// NCCL's watchdog throws in a thread of its own, and Gloo's functions end the process when a call of theirs throws
/// (listen() and epoll_ctl() of tls/guard.cpp): nothing can catch either.
void report_uncaught() {
  try {
    if (const auto thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    if (const std::string text = error.what(); dist::tells_of_lost_rank(text)) {
      link_of_process->report_failure(kPeerFailure, -1, lost_rank(text));
      std::_Exit(kPeerFailure);
    }
    if (const Uncaught ending = describe_uncaught(error); ending.code != kInternalFailure) {
      link_of_process->report_failure(ending.code, -1, ending.text);
      std::_Exit(ending.code);
    }
  } catch (...) {
  }
  std::abort();
}

}  // namespace

int rank_command(const std::vector<std::string>& args) {
  return run_rank([&](train::Trainer& trainer, dist::Comm&) {
    return trainer.run(args.empty() ? std::nullopt : std::optional<int64_t>(std::stoll(args.front())));
  });
}

int run_rank(const RankWork& work) {
  screen::outlive();
  train::note_signals();
  const auto link = Link::from_environment();
  if (!link) throw ConfigError("`trainer-worker rank` is started by `trainer launch`.");
  link_of_process = link.get();
  std::set_terminate(report_uncaught);
  const auto board = RankBoard::from_environment();
  int64_t step = -1;
  std::string phase;
  config::Plan plan;
  const auto failed = [&](ExitCode code, const std::string& message) {
    link->report_failure(code, step, message);
    std::_Exit(code);  // skips destructors, which would wait for lost ranks
  };
  try {
    plan = config::parse_plan(link->plan());
    const train::Ending ending = run(plan, *link, board, work, step, phase);
    if (ending == train::Ending::kStopped) return train::stop_signal() == SIGINT ? kInterrupted : kStopRequested;
    link->report_done();
    return kDone;
  } catch (const Error& error) {
    failed(error.code(), config::located(plan, error.what()));
  } catch (const std::bad_alloc&) {
    failed(kMachineFailure, out_of_memory(phase, ""));
  } catch (const c10::OutOfMemoryError& error) {
    failed(kMachineFailure, out_of_memory(phase, error.what_without_backtrace()));
  } catch (const std::system_error& error) {  // a thread that can't be started
    const Uncaught ending = describe_uncaught(error);
    failed(ending.code, ending.text);
  } catch (const std::exception& error) {
    const std::string text = error.what();
    if (dist::tells_of_lost_rank(text)) failed(kPeerFailure, lost_rank(text));
    const bool memory = text.find("can't allocate memory") != std::string::npos;
    failed(memory ? kMachineFailure : kInternalFailure, text.substr(0, text.find('\n')));
  }
  return kInternalFailure;
}

}  // namespace trainer::worker
