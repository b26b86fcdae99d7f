#include "engine/dist/dry_trace.h"

#include <memory>
#include <utility>

#include "engine/base/errors.h"
#include "engine/dist/dry_operators.h"

namespace trainer::dist {
namespace {

struct Recording {
  DryTrace trace;
  size_t operators = 0, collectives = 0;
};

thread_local std::unique_ptr<Recording> t_recording;  // a dry run has one thread, and ranks may be threads
thread_local int64_t t_streams = 0;

}  // namespace

DryRecorder::DryRecorder() {
  if (t_recording) throw InternalError("a dry run is recorded twice");
  t_recording = std::make_unique<Recording>();
  callback_ = record_operators();
}

DryRecorder::~DryRecorder() {
  stop_recording_operators(callback_);
  t_recording.reset();
}

DryTrace DryRecorder::take() {
  return std::exchange(*t_recording, {}).trace;
}

void record(DryOperator op) {
  if (!t_recording) return;
  ++t_recording->operators;
  t_recording->trace.emplace_back(std::move(op));
}

size_t record(DryCollective collective) {
  if (!t_recording) return 0;
  t_recording->trace.emplace_back(std::move(collective));
  return t_recording->collectives++;
}

void record(DryWait wait) {
  if (t_recording) t_recording->trace.emplace_back(wait);
}

void record(DryHostRead read) {
  if (t_recording) t_recording->trace.emplace_back(read);
}

size_t recorded_operators() {
  return t_recording ? t_recording->operators : 0;
}

int64_t next_dry_stream() {
  return ++t_streams;
}

}  // namespace trainer::dist
