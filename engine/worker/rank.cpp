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
#include "engine/base/human.h"
#include "engine/base/link.h"
#include "engine/base/log.h"
#include "engine/base/rank_board.h"
#include "engine/base/screen.h"
#include "engine/base/uncaught.h"
#include "engine/config/plan/plan.h"
#include "engine/dist/accelerator.h"
#include "engine/dist/failures.h"
#include "engine/dist/faulty_comm.h"
#include "engine/dist/memory.h"
#include "engine/dist/watched_comm.h"
#include "engine/train/build.h"
#include "engine/train/conditions.h"
#include "engine/train/parallelism.h"
#include "engine/train/same_inputs.h"
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

/// Sets up `rank` and does its work.
train::Ending run(Rank& rank, const std::shared_ptr<RankBoard>& board, const RankWork& work) {
  const config::Config& config = rank.plan.config;
  const int number = environment_number("RANK");
  rank.report(-1, "starting");
  at::set_num_threads(environment_number("OMP_NUM_THREADS"));
  at::set_num_interop_threads(1);
  dist::count_tensor_memory();
  if (config.deterministic) train::use_deterministic_algorithms();
  rank.setup = train::set_up(rank.plan, [&](const char* doing) { rank.report(-1, doing); });
  if (sees_output()) train::start_of(config);
  rank.report(-1, "connecting to the other ranks");
  rank.fault = dist::fault_from_environment();
  // Destroyed before a failure is reported, too, which aborts it.
  const auto comm = meet_watched(rank.link, board, config, rank.fault);
  rank.comm = comm.get();
  rank.comm->barrier();  // every rank has read its inputs: from here on the run writes to the output folder
  if (std::getenv(kAddressVariable) != nullptr)
    train::check_same_inputs(rank.plan, rank.setup, *rank.comm);  // several machines
  open_log(config.output_dir, number);
  const bool on_cpu = rank.comm->device().is_cpu();
  log::write(on_cpu ? log::Level::kDebug : log::Level::kInfo, device_text(number, *rank.comm));
  at::globalContext().setFloat32MatmulPrecision(std::string(config::name_of(config.training.float32_matmul_precision)));
  if (config.training.tf32 && !on_cpu) at::globalContext().setAllowTF32CuBLAS(true);
  for (const std::string& warning :
       {train::precision_warning(rank.plan), train::overflow_warning(rank.plan, *rank.setup.blueprint.model)})
    if (number == 0 && !warning.empty()) log::warning("{}", warning);
  const train::Ending ending = work(rank);
  rank.comm->barrier();
  return ending;
}

std::string out_of_memory(const std::string& phase, const std::string& why) {
  return fmt::format(
      "out of memory while {}.\n{}  Lower training.per_device_train_batch_size, or set "
      "training.gradient_checkpointing: true.",
      phase, why.empty() ? "" : fmt::format("  {}\n", why.substr(0, why.find('\n'))));
}

/// How a rank ends because of an exception that no code of ours translated; nothing if its message doesn't tell.
std::optional<Uncaught> recognize(const std::string& phase, const std::string& message) {
  const std::string text = message.substr(0, message.find("\nException raised from"));
  const auto end_with = [&](ExitCode code) {
    return Uncaught{code, fmt::format("{}.\n{}", dist::meaning_of(text), dist::details_of(text))};
  };
  switch (dist::failure_of(text)) {
    case dist::Failure::kMemory:
      return Uncaught{kMachineFailure, out_of_memory(phase, text)};
    case dist::Failure::kMachine:
      return end_with(kMachineFailure);
    case dist::Failure::kLostRank:
    case dist::Failure::kTamperedLink:
      return end_with(kPeerFailure);
    case dist::Failure::kMistake:
    case dist::Failure::kUnknown:
      break;
  }
  return std::nullopt;
}

Link* link_of_process = nullptr;

/// NCCL's watchdog throws in a thread of its own, and Gloo's functions end the process when a call of theirs throws
/// (listen() and epoll_ctl() of tls/guard.cpp): nothing can catch either.
void report_uncaught() {
  try {
    if (const auto thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    if (const auto known = recognize("communicating", error.what())) {
      link_of_process->report_failure(known->code, -1, known->text);
      std::_Exit(known->code);
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
  Rank rank{.link = *link};
  rank.report = [&](int64_t at, const char* doing) {
    step = at;
    phase = doing;
    board->set_place(at, doing);
    link->report_step(at, doing);
  };
  const auto failed = [&](ExitCode code, const std::string& message) {
    link->report_failure(code, step, message);
    std::_Exit(code);  // skips destructors, which would wait for lost ranks
  };
  try {
    rank.plan = config::parse_plan(link->plan());
    const train::Ending ending = run(rank, board, work);
    if (ending == train::Ending::kStopped) return train::stop_signal() == SIGINT ? kInterrupted : kStopRequested;
    link->report_done();
    return kDone;
  } catch (const Error& error) {
    failed(error.code(), config::located(rank.plan, error.what()));
  } catch (const std::bad_alloc&) {
    failed(kMachineFailure, out_of_memory(phase, ""));
  } catch (const c10::OutOfMemoryError& error) {
    failed(kMachineFailure, out_of_memory(phase, error.what_without_backtrace()));
  } catch (const std::system_error& error) {  // a thread that can't be started
    const Uncaught ending = describe_uncaught(error);
    failed(ending.code, ending.text);
  } catch (const std::exception& error) {
    const std::string text = error.what();
    if (const auto known = recognize(phase, text)) failed(known->code, known->text);
    failed(kInternalFailure, text.substr(0, text.find('\n')));
  }
  return kInternalFailure;
}

}  // namespace trainer::worker
