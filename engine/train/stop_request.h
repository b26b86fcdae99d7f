#pragma once

namespace trainer::train {

/// From now on signals only leave a note, which the loop reads after each update: SIGTERM, SIGUSR1 (with which SLURM
/// tells that time is nearly over) and SIGINT that the run is to stop, SIGUSR2 that it is to save and go on, SIGURG
/// that it is to make way for a life with more machines (which does nothing to a process that has no handler yet).
void note_signals();

/// The signal that asked this rank to stop, or 0: SIGTERM or SIGINT.
int stop_signal();

/// Whether this rank was asked to save since the last call.
bool take_save_request();

/// Whether this rank was asked to make way since the last call.
bool take_way_request();

}  // namespace trainer::train
