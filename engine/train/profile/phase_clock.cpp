#include "engine/train/profile/phase_clock.h"

#include <algorithm>
#include <utility>

#include <c10/core/impl/VirtualGuardImpl.h>

#include "engine/base/errors.h"
#include "engine/dist/step_phase.h"
#include "engine/dist/work_clock.h"

namespace trainer::train {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array<const char*, kPhases> kPhaseNames{dist::step_phase::kData,
                                                       dist::step_phase::kForward,
                                                       dist::step_phase::kBackward,
                                                       "exchange",
                                                       dist::step_phase::kClipping,
                                                       dist::step_phase::kOptimizer,
                                                       "other"};

thread_local PhaseClock* observer = nullptr;

/// Other user scopes count as the phase around them.
Phase phase_of(std::string_view name, Phase around) {
  const auto* const found = std::find(kPhaseNames.begin(), kPhaseNames.end(), name);
  return found == kPhaseNames.end() ? around : static_cast<Phase>(found - kPhaseNames.begin());
}

std::unique_ptr<at::ObserverContext> on_begin(const at::RecordFunction& scope) {
  if (observer != nullptr) observer->begin(scope.name());
  return nullptr;
}

void on_end(const at::RecordFunction&, at::ObserverContext*) {
  if (observer != nullptr) observer->end();
}

}  // namespace

const char* name_of(Phase phase) {
  return kPhaseNames.at(static_cast<size_t>(phase));
}

PhaseClock::PhaseClock(at::Device device) : device_(device), since_(Clock::now()), waited_(dist::seconds_waited()) {
  require(observer == nullptr, "two phase clocks on one thread");
  observer = this;
  handle_ =
      at::addThreadLocalCallback(at::RecordFunctionCallback(on_begin, on_end).scopes({at::RecordScope::USER_SCOPE}));
}

PhaseClock::~PhaseClock() {
  at::removeCallback(handle_);
  observer = nullptr;
}

PhaseSeconds PhaseClock::lap() {
  settle();
  return std::exchange(seconds_, {});
}

void PhaseClock::begin(std::string_view name) {
  settle();
  open_.push_back(phase_of(name, open_.empty() ? Phase::kOther : open_.back()));
}

void PhaseClock::end() {
  settle();
  if (!open_.empty()) open_.pop_back();
}

void PhaseClock::settle() {
  if (!device_.is_cpu()) c10::impl::VirtualGuardImpl(device_.type()).synchronizeDevice(device_.index());
  const auto now = Clock::now();
  const double waited = dist::seconds_waited(), all = std::chrono::duration<double>(now - since_).count();
  const double waiting = std::min(all, waited - waited_);
  seconds_[static_cast<size_t>(open_.empty() ? Phase::kOther : open_.back())] += all - waiting;
  seconds_[static_cast<size_t>(Phase::kExchange)] += waiting;
  since_ = now;
  waited_ = waited;
}

}  // namespace trainer::train
