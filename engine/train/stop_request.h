#pragma once

namespace trainer::train {

/// From now on signals only set a flag, which the training loop reads after each update. SIGTERM, SIGUSR1 (SLURM's
/// warning that time is nearly up) and SIGINT: stop. SIGUSR2: save and continue. SIGURG: save and stop for a generation
/// with more machines (its default action is to do nothing, in case the handler isn't installed yet).
void note_signals();

/// The signal that asked this rank to stop: SIGTERM, SIGINT, or 0 for none.
int stop_signal();

/// Whether this rank was asked to save since the last call.
bool take_save_request();

/// Whether this rank was asked to yield to a joining machine since the last call.
bool take_yield_request();

}  // namespace trainer::train
