// This machine's votes for generations of the run, on its disk: Note [Votes].
#pragma once

#include <filesystem>

#include "engine/launch/membership.h"

namespace trainer::launch {

class Votes {
 public:
  /// Reads the record in `output_dir`. Without one, this machine hasn't voted. Errors: InputError when it is damaged.
  explicit Votes(std::filesystem::path output_dir);

  const VoteRecord& record() const { return record_; }
  /// The record for others. Its promise covers the epochs of the checkpoints here.
  VoteRecord shown() const;

  /// Votes for a generation; false when that would break the promise. The vote is on the disk when this returns.
  /// Errors: MachineError.
  bool vote(const Membership& next);
  /// The generation that this machine has voted for begins. Errors: MachineError.
  void begin(const Membership& next);
  /// The run has ended: the next one in this folder may begin with other machines.
  void forget();

 private:
  void write() const;
  std::filesystem::path file() const { return output_dir_ / ".votes"; }

  const std::filesystem::path output_dir_;
  VoteRecord record_;
};

}  // namespace trainer::launch
